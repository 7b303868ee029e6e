//! Compiles the keywords that look at a value without other schemas.

use std::collections::BTreeSet;

use serde_json::{Number, Value};

use super::super::SchemaProblem;
use super::super::draft::Draft;
use super::super::node::{CountOf, JsonType, Keyword, NumberBound};
use super::super::number::Decimal;
use super::super::words::quote;
use super::{Compiler, Part};

/// Keywords that limit a count, with what they count and whether they say how much it is at most.
const COUNTS: [(&str, CountOf, bool); 6] = [
    ("minLength", CountOf::Characters, false),
    ("maxLength", CountOf::Characters, true),
    ("minItems", CountOf::Items, false),
    ("maxItems", CountOf::Items, true),
    ("minProperties", CountOf::Properties, false),
    ("maxProperties", CountOf::Properties, true),
];

impl<'a> Compiler<'a> {
    pub(super) fn assertions(
        &mut self,
        part: Part<'a>,
        keywords: &mut Vec<Keyword>,
    ) -> Result<(), SchemaProblem> {
        keywords.extend(self.types(part)?.map(Keyword::Type));
        keywords.extend(self.get(part, "const").cloned().map(Keyword::Const));
        keywords.extend(self.options(part)?.map(Keyword::Enum));
        keywords.extend(self.required(part)?.map(Keyword::Required));
        self.bounds(part, keywords)?;
        if let Some(number) = self.number(part, "multipleOf")? {
            let divisor = Decimal::of(number);
            if !divisor.is_positive() {
                return Err(self.wrong(part, "multipleOf", &Value::Number(number.clone()), "more than 0"));
            }
            keywords.push(Keyword::MultipleOf { divisor, text: number.clone() });
        }
        for (keyword, of, at_most) in COUNTS {
            let limit = self.count(part, keyword)?;
            keywords.extend(limit.map(|limit| Keyword::Size { of, at_most, limit }));
        }
        if let Some(pattern) = self.get(part, "pattern") {
            let Some(pattern) = pattern.as_str() else {
                return Err(self.wrong(part, "pattern", pattern, "a text"));
            };
            keywords.push(Keyword::Pattern(self.pattern(part, "pattern", pattern)?));
        }
        if self.flag(part, "uniqueItems")?.unwrap_or_default() {
            keywords.push(Keyword::UniqueItems);
        }
        Ok(())
    }

    fn types(&self, part: Part<'a>) -> Result<Option<Vec<JsonType>>, SchemaProblem> {
        let Some(value) = self.get(part, "type") else { return Ok(None) };
        let names = match value {
            Value::Array(names) if !names.is_empty() => names.as_slice(),
            Value::Array(_) => return Err(self.wrong(part, "type", value, "a list of one or more types")),
            name => std::slice::from_ref(name),
        };
        let mut types = Vec::new();
        for name in names {
            let Some(json_type) = name.as_str().and_then(JsonType::named) else {
                return Err(self.wrong(part, "type", name, "a type"));
            };
            if types.contains(&json_type) {
                return Err(self.invalid(part.id, Some("type"), &format!("{} is there twice", quote(name))));
            }
            types.push(json_type);
        }
        Ok(Some(types))
    }

    fn options(&self, part: Part<'a>) -> Result<Option<Vec<Value>>, SchemaProblem> {
        let Some(value) = self.get(part, "enum") else { return Ok(None) };
        let may_be_empty = self.draft >= Draft::Draft7;
        match value.as_array().filter(|options| may_be_empty || !options.is_empty()) {
            Some(options) => Ok(Some(options.clone())),
            None => Err(self.wrong(part, "enum", value, "a list of values")),
        }
    }

    fn required(&self, part: Part<'a>) -> Result<Option<Vec<String>>, SchemaProblem> {
        let Some(value) = self.get(part, "required") else { return Ok(None) };
        let names = names(value).filter(|names| self.draft > Draft::Draft4 || !names.is_empty());
        names.map(Some).ok_or_else(|| self.wrong(part, "required", value, "a list of different names"))
    }

    fn bounds(&self, part: Part<'a>, keywords: &mut Vec<Keyword>) -> Result<(), SchemaProblem> {
        for (plain, exclusive, is_maximum) in
            [("minimum", "exclusiveMinimum", false), ("maximum", "exclusiveMaximum", true)]
        {
            let bound = |number: &Number, is_exclusive| {
                let (limit, text) = (Decimal::of(number), number.clone());
                Keyword::Bound(NumberBound { is_maximum, is_exclusive, limit, text })
            };
            let limit = self.number(part, plain)?;
            if self.draft > Draft::Draft4 {
                keywords.extend(limit.map(|limit| bound(limit, false)));
                keywords.extend(self.number(part, exclusive)?.map(|limit| bound(limit, true)));
                continue;
            }
            // In draft 4 the second keyword is a flag about the first one.
            let is_exclusive = self.flag(part, exclusive)?;
            if is_exclusive.is_some() && limit.is_none() {
                let problem = format!("it needs `{plain}` beside it");
                return Err(self.invalid(part.id, Some(exclusive), &problem));
            }
            keywords.extend(limit.map(|limit| bound(limit, is_exclusive.unwrap_or_default())));
        }
        Ok(())
    }

    pub(super) fn number(&self, part: Part<'a>, keyword: &str) -> Result<Option<&'a Number>, SchemaProblem> {
        match self.get(part, keyword) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(number)),
            Some(other) => Err(self.wrong(part, keyword, other, "a number")),
        }
    }

    pub(super) fn count(&self, part: Part<'a>, keyword: &str) -> Result<Option<u64>, SchemaProblem> {
        let Some(value) = self.get(part, keyword) else { return Ok(None) };
        let count = value.as_number().and_then(|number| Decimal::of(number).count());
        count.map(Some).ok_or_else(|| self.wrong(part, keyword, value, "a whole number from 0 on"))
    }

    fn flag(&self, part: Part<'a>, keyword: &str) -> Result<Option<bool>, SchemaProblem> {
        let Some(value) = self.get(part, keyword) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.wrong(part, keyword, value, "`true` or `false`"))
    }
}

/// A list of texts in which none is there twice.
pub(super) fn names(value: &Value) -> Option<Vec<String>> {
    let names: Option<Vec<&str>> = value.as_array()?.iter().map(Value::as_str).collect();
    let names = names?;
    let different: BTreeSet<&str> = names.iter().copied().collect();
    (different.len() == names.len()).then(|| names.into_iter().map(str::to_owned).collect())
}
