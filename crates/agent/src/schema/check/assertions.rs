//! Checks the keywords that look at a value without other schemas.

use serde_json::Value;

use super::super::equality::{equal, first_pair};
use super::super::meter::Limit;
use super::super::node::{CountOf, JsonType, Keyword, PatternId};
use super::super::number::Decimal;
use super::super::words;
use super::Checker;

impl<'s, 'v> Checker<'s, 'v> {
    /// A keyword about another type than the value's has nothing to say.
    pub(super) fn assertion(&mut self, keyword: &'s Keyword, value: &'v Value) -> Result<bool, Limit> {
        let is_valid = match (keyword, value) {
            (Keyword::Never, _) => false,
            (Keyword::Type(types), _) => types.iter().any(|json_type: &JsonType| json_type.is_type_of(value)),
            (Keyword::Const(expected), _) => equal(expected, value, &mut self.meter)?,
            (Keyword::Enum(options), _) => self.find_option(options, value)?,
            (Keyword::Bound(bound), Value::Number(number)) => bound.allows(Decimal::of(number)),
            (Keyword::MultipleOf { divisor, .. }, Value::Number(number)) => {
                Decimal::of(number).is_multiple_of(*divisor)
            }
            (Keyword::Size { of, at_most, limit }, _) => match self.size(*of, value)? {
                Some(size) if *at_most => size <= *limit,
                Some(size) => size >= *limit,
                None => true,
            },
            (Keyword::Pattern(id), Value::String(text)) => return self.pattern(*id, text, value),
            (Keyword::UniqueItems, Value::Array(items)) => return self.unique_items(items, value),
            (Keyword::Required(names), Value::Object(_)) => return self.required(names, None, value),
            (Keyword::DependentRequired(pairs), Value::Object(_)) => {
                return self.dependent_required(pairs, value);
            }
            _ => true,
        };
        if !is_valid {
            self.report(|| words::mismatch(keyword, value));
        }
        Ok(is_valid)
    }

    fn find_option(&mut self, options: &[Value], value: &Value) -> Result<bool, Limit> {
        for option in options {
            if equal(option, value, &mut self.meter)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// How many characters, items or properties a value has; none for a value of another type.
    fn size(&mut self, of: CountOf, value: &Value) -> Result<Option<u64>, Limit> {
        let size = match (of, value) {
            (CountOf::Characters, Value::String(text)) => {
                self.meter.take_text(text.len())?;
                text.chars().count()
            }
            (CountOf::Items, Value::Array(items)) => items.len(),
            (CountOf::Properties, Value::Object(fields)) => fields.len(),
            _ => return Ok(None),
        };
        Ok(Some(u64::try_from(size).unwrap_or(u64::MAX)))
    }

    fn pattern(&mut self, id: PatternId, text: &str, value: &Value) -> Result<bool, Limit> {
        let is_match = self.matches(id, text)?;
        if !is_match {
            let pattern = words::shorten(self.schema.patterns[id.0].text());
            self.report(|| format!("{} does not match \"{pattern}\"", words::quote(value)));
        }
        Ok(is_match)
    }

    fn unique_items(&mut self, items: &[Value], value: &Value) -> Result<bool, Limit> {
        let pair = first_pair(items, &mut self.meter)?;
        if let Some((one, other)) = pair {
            let shown = words::quote(value);
            self.report(|| format!("{shown} has non-unique elements (items {one} and {other} are equal)"));
        }
        Ok(pair.is_none())
    }

    /// Whether the value has all names, which `because_of` asks for if it is there.
    fn required(&mut self, names: &[String], because_of: Option<&str>, value: &Value) -> Result<bool, Limit> {
        let mut is_valid = true;
        for name in names {
            self.meter.take_name(name)?;
            if value.get(name).is_none() {
                is_valid = false;
                self.report(|| words::missing(name, because_of));
                if self.is_full() {
                    break;
                }
            }
        }
        Ok(is_valid)
    }

    fn dependent_required(&mut self, pairs: &[(String, Vec<String>)], value: &Value) -> Result<bool, Limit> {
        let mut is_valid = true;
        for (name, names) in pairs {
            self.meter.take_name(name)?;
            if value.get(name).is_some() && !self.required(names, Some(name), value)? {
                is_valid = false;
                if self.is_full() {
                    break;
                }
            }
        }
        Ok(is_valid)
    }
}
