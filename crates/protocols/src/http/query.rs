//! The parameters of a request: those that its operation has, each at most once unless it may be repeated.

use serde_json::{Value, json};
use url::form_urlencoded;

use super::problem::Problem;

/// The type of a parameter.
#[derive(Debug, Clone, Copy)]
pub(super) enum ParameterType {
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number of at least 0, at most this one.
    Number(u64),
}

/// A parameter in the part of the URL after `?`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) meaning: &'static str,
    pub(super) of: ParameterType,
    pub(super) is_required: bool,
    pub(super) is_repeated: bool,
}

impl Parameter {
    /// A parameter that may be omitted.
    pub(super) const fn new(name: &'static str, of: ParameterType, meaning: &'static str) -> Self {
        Self { name, meaning, of, is_required: false, is_repeated: false }
    }

    pub(super) const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    pub(super) const fn repeated(self) -> Self {
        Self { is_repeated: true, ..self }
    }

    /// Its schema in the OpenAPI document.
    pub(super) fn schema(&self) -> Value {
        let one = match self.of {
            ParameterType::Text => json!({ "type": "string" }),
            ParameterType::Word(words) => json!({ "type": "string", "enum": words }),
            ParameterType::Number(most) => json!({ "type": "integer", "minimum": 0, "maximum": most }),
        };
        if self.is_repeated { json!({ "type": "array", "items": one }) } else { one }
    }

    fn check(&self, value: &str) -> Result<(), Problem> {
        let wrong = |expected: String| Problem::parameter(self.name, format!("expected {expected}"));
        match self.of {
            ParameterType::Text if value.is_empty() => Err(wrong("a text that is not empty".to_owned())),
            ParameterType::Text => Ok(()),
            ParameterType::Word(words) if words.contains(&value) => Ok(()),
            ParameterType::Word(words) => Err(wrong(format!("one of {}", words.join(", ")))),
            ParameterType::Number(most) => match value.parse::<u64>() {
                Ok(number) if number <= most && !value.starts_with('+') => Ok(()),
                _ => Err(wrong(format!("a whole number of at most {most}"))),
            },
        }
    }
}

/// The given parameters of a request, checked.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the parameters that an operation has.
    pub(super) fn read(text: &str, known: &[Parameter]) -> Result<Self, Problem> {
        let mut given: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            let parameter = known.iter().find(|parameter| parameter.name == name);
            let parameter = parameter.ok_or_else(|| {
                let names: Vec<&str> = known.iter().map(|parameter| parameter.name).collect();
                let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                Problem::parameter(&name, format!("there is no such parameter; this operation has {has}"))
            })?;
            if !parameter.is_repeated && given.iter().any(|(before, _)| *before == name) {
                return Err(Problem::parameter(&name, "the parameter is given twice"));
            }
            parameter.check(&value)?;
            given.push((name.into_owned(), value.into_owned()));
        }
        let is_missing = |parameter: &&Parameter| {
            parameter.is_required && given.iter().all(|(name, _)| name != parameter.name)
        };
        match known.iter().find(is_missing) {
            Some(missing) => Err(Problem::parameter(missing.name, "the parameter is missing")),
            None => Ok(Self(given)),
        }
    }

    /// The value of a parameter.
    pub(super) fn one(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// All values of a parameter.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// The value of a number, which was checked.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.one(name)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Parameter] = &[
        Parameter::new("limit", ParameterType::Number(9), ""),
        Parameter::new("kind", ParameterType::Text, "").repeated(),
        Parameter::new("form", ParameterType::Word(&["stat", "patch"]), "").required(),
    ];

    fn field(text: &str) -> Option<String> {
        Query::read(text, KNOWN).err().map(|problem| problem.field.expect("a field"))
    }

    #[test]
    fn parameters_are_checked_and_an_error_names_the_wrong_one() {
        let query = Query::read("form=stat&kind=a%20b&limit=9&kind=c", KNOWN).expect("read");
        assert_eq!(query.number("limit"), Some(9));
        assert_eq!(query.all("kind").collect::<Vec<_>>(), ["a b", "c"]);
        assert_eq!(query.one("nothing"), None);
        for (text, wrong) in [
            ("", "form"),
            ("form=x", "form"),
            ("form=stat&form=stat", "form"),
            ("form=stat&limt=1", "limt"),
            ("form=stat&limit=10", "limit"),
            ("form=stat&limit=-1", "limit"),
            ("form=stat&limit=+1", "limit"),
            ("form=stat&limit=", "limit"),
            ("form=stat&kind=", "kind"),
        ] {
            assert_eq!(field(text).as_deref(), Some(wrong), "{text}");
        }
    }
}
