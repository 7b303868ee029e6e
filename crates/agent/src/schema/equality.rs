//! Whether two JSON values are equal as JSON Schema means it: numbers by value, and objects without their order.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Map, Value};

use super::meter::{Limit, Meter};
use super::number::Decimal;

pub(super) fn equal(one: &Value, other: &Value, meter: &mut Meter) -> Result<bool, Limit> {
    meter.enter()?;
    let is_equal = match (one, other) {
        (Value::Number(one), Value::Number(other)) => Decimal::of(one) == Decimal::of(other),
        (Value::String(one), Value::String(other)) => {
            meter.take_text(one.len().min(other.len()))?;
            one == other
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && equal_items(one, other, meter)?
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len() && equal_fields(one, other, meter)?
        }
        (one, other) => one == other,
    };
    meter.leave();
    Ok(is_equal)
}

fn equal_items(one: &[Value], other: &[Value], meter: &mut Meter) -> Result<bool, Limit> {
    for (one, other) in one.iter().zip(other) {
        if !equal(one, other, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn equal_fields(
    one: &Map<String, Value>,
    other: &Map<String, Value>,
    meter: &mut Meter,
) -> Result<bool, Limit> {
    for (name, field) in one {
        meter.take_text(name.len())?;
        match other.get(name) {
            Some(other) if equal(field, other, meter)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// The first two items that are equal, by their indices. Items are compared only if their hashes are equal, so a long
/// list of different items takes a step for each of their parts.
pub(super) fn first_pair(items: &[Value], meter: &mut Meter) -> Result<Option<(usize, usize)>, Limit> {
    let mut by_hash: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        let same_hash = by_hash.entry(hash(item, meter)?).or_default();
        for earlier in same_hash.iter() {
            if equal(&items[*earlier], item, meter)? {
                return Ok(Some((*earlier, index)));
            }
        }
        same_hash.push(index);
    }
    Ok(None)
}

/// A hash that equal values share. Its keys are constant: equal hashes of different values only cost steps.
fn hash(value: &Value, meter: &mut Meter) -> Result<u64, Limit> {
    meter.enter()?;
    let mut hasher = DefaultHasher::new();
    std::mem::discriminant(value).hash(&mut hasher);
    match value {
        Value::Null => {}
        Value::Bool(value) => value.hash(&mut hasher),
        Value::Number(number) => Decimal::of(number).hash(&mut hasher),
        Value::String(text) => {
            meter.take_text(text.len())?;
            text.hash(&mut hasher);
        }
        Value::Array(items) => {
            for item in items {
                hash(item, meter)?.hash(&mut hasher);
            }
        }
        Value::Object(fields) => {
            // A sum does not depend on the order of the fields.
            let mut sum: u64 = 0;
            for (name, field) in fields {
                meter.take_text(name.len())?;
                let mut pair = DefaultHasher::new();
                (name, hash(field, meter)?).hash(&mut pair);
                sum = sum.wrapping_add(pair.finish());
            }
            sum.hash(&mut hasher);
        }
    }
    meter.leave();
    Ok(hasher.finish())
}
