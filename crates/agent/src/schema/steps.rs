//! How many steps a check takes, counted without taking them.
//!
//! A step is one part of the schema at one place of the answer, one byte that a pattern is matched with, or one value
//! that is compared. Every branch is counted as if it had to be looked at, so no validator takes more.

use serde_json::{Map, Value};

use super::{SchemaProblem, target};

/// Most steps of one check.
pub const STEPS_MAX: usize = 200_000;
/// Deepest that a check may go: levels of the answer, and at each of them levels of the schema.
pub const DEPTH_MAX: usize = 600;

/// Keywords with one schema for the same place.
const HERE: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords with a list of schemas for the same place.
const ALL_HERE: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords with a schema for each name that the same place may have.
const NAMED_HERE: [&str; 2] = ["dependentSchemas", "dependencies"];
/// Keywords with a schema for every property.
const EVERY_PROPERTY: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];
/// Keywords with a schema, or a list of them, for every item.
const EVERY_ITEM: [&str; 5] = ["items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"];
/// Keywords that look at all schemas of the same place again, for each property or item.
const LOOK_AGAIN: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];

/// What stands for the name of a property where it is checked itself.
const NAME: Value = Value::Null;

/// An error if checking `value` takes more than [`STEPS_MAX`] steps, or goes deeper than the stack has room for.
pub(super) fn check(root: &Value, value: &Value) -> Result<(), SchemaProblem> {
    let mut count = Count { root, taken: 0, open: vec![(root, value, 1)] };
    while let Some((schema, value, depth)) = count.open.pop() {
        if depth > DEPTH_MAX {
            return Err(SchemaProblem::Depth);
        }
        if let Value::Object(schema) = schema {
            count.visit(schema, value, depth)?;
        }
    }
    Ok(())
}

struct Count<'a> {
    root: &'a Value,
    taken: usize,
    /// What is still to be looked at. Each entry was counted, so there are never more than that.
    open: Vec<(&'a Value, &'a Value, usize)>,
}

impl<'a> Count<'a> {
    fn take(&mut self, steps: usize) -> Result<(), SchemaProblem> {
        self.taken = self.taken.saturating_add(steps);
        if self.taken > STEPS_MAX { Err(SchemaProblem::Steps) } else { Ok(()) }
    }

    fn open(&mut self, schema: &'a Value, value: &'a Value, depth: usize) -> Result<(), SchemaProblem> {
        self.take(1)?;
        self.open.push((schema, value, depth + 1));
        Ok(())
    }

    fn visit(
        &mut self,
        schema: &'a Map<String, Value>,
        value: &'a Value,
        depth: usize,
    ) -> Result<(), SchemaProblem> {
        let again = if LOOK_AGAIN.iter().any(|keyword| schema.contains_key(*keyword)) {
            2 + children(value)
        } else {
            1
        };
        for _ in 0..again {
            self.here(schema, value, depth)?;
        }
        for keyword in ["enum", "const", "required"] {
            self.compare(schema.get(keyword))?;
        }
        match value {
            Value::String(text) if schema.contains_key("pattern") => self.take(text.len()),
            Value::Array(items) => self.items(schema, items, depth),
            Value::Object(fields) => self.properties(schema, fields, depth),
            _ => Ok(()),
        }
    }

    /// The schemas for the same place.
    fn here(
        &mut self,
        schema: &'a Map<String, Value>,
        value: &'a Value,
        depth: usize,
    ) -> Result<(), SchemaProblem> {
        if let Some(Value::String(reference)) = schema.get("$ref") {
            let part = target(self.root, reference);
            let part = part.ok_or_else(|| SchemaProblem::Reference(reference.clone()))?;
            self.open(part, value, depth)?;
        }
        let lists = ALL_HERE.iter().filter_map(|keyword| schema.get(*keyword)?.as_array()).flatten();
        let maps = NAMED_HERE.iter().filter_map(|keyword| schema.get(*keyword)?.as_object());
        let ones = HERE.iter().filter_map(|keyword| schema.get(*keyword));
        for part in ones.chain(lists).chain(maps.flat_map(Map::values)) {
            self.open(part, value, depth)?;
        }
        Ok(())
    }

    /// The values that something is compared with.
    fn compare(&mut self, values: Option<&'a Value>) -> Result<(), SchemaProblem> {
        let mut open: Vec<&Value> = values.into_iter().collect();
        while let Some(value) = open.pop() {
            self.take(1)?;
            match value {
                Value::Array(items) => open.extend(items),
                Value::Object(fields) => open.extend(fields.values()),
                _ => {}
            }
        }
        Ok(())
    }

    fn items(
        &mut self,
        schema: &'a Map<String, Value>,
        items: &'a [Value],
        depth: usize,
    ) -> Result<(), SchemaProblem> {
        if schema.contains_key("uniqueItems") {
            self.take(items.len())?;
        }
        for part in EVERY_ITEM.iter().filter_map(|keyword| schema.get(*keyword)) {
            // A list of schemas has one for each item in turn.
            match part {
                Value::Array(parts) => {
                    for (part, item) in parts.iter().zip(items) {
                        self.open(part, item, depth)?;
                    }
                }
                part => {
                    for item in items {
                        self.open(part, item, depth)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn properties(
        &mut self,
        schema: &'a Map<String, Value>,
        fields: &'a Map<String, Value>,
        depth: usize,
    ) -> Result<(), SchemaProblem> {
        if let Some(Value::Object(known)) = schema.get("properties") {
            for (part, field) in known.iter().filter_map(|(name, part)| Some((part, fields.get(name)?))) {
                self.open(part, field, depth)?;
            }
        }
        if let Some(Value::Object(patterns)) = schema.get("patternProperties") {
            for part in patterns.values() {
                for (name, field) in fields {
                    self.take(name.len())?;
                    self.open(part, field, depth)?;
                }
            }
        }
        for part in EVERY_PROPERTY.iter().filter_map(|keyword| schema.get(*keyword)) {
            for field in fields.values() {
                self.open(part, field, depth)?;
            }
        }
        if let Some(part) = schema.get("propertyNames") {
            for name in fields.keys() {
                self.take(name.len())?;
                self.open(part, const { &NAME }, depth)?;
            }
        }
        Ok(())
    }
}

fn children(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    }
}
