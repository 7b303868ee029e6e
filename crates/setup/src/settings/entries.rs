//! Settings as a list of keys and values, for users and programs. It contains no secrets.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::keys::KEYS;
use super::{Origin, Settings, WithOrigin};

/// The placeholder that replaces a secret: it names where the secret is written.
pub fn secret_of(origin: &str) -> Value {
    json!({SET_IN: origin})
}

/// Where a secret is written, if the value is a placeholder.
pub fn origin_of_secret(value: &Value) -> Option<&str> {
    value.get(SET_IN)?.as_str()
}

/// The one field of a placeholder.
const SET_IN: &str = "set_in";

/// One key with its value and origin.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key, with dots.
    pub key: String,
    /// The value, with a placeholder for each secret.
    pub value: Value,
    /// Where it was written.
    pub origin: Origin,
}

/// A list of entries in construction.
#[derive(Default)]
pub(super) struct Entries(Vec<Entry>);

impl Entries {
    /// Adds a key, if it is set.
    pub(super) fn add<T: Serialize>(&mut self, key: &str, stated: Option<&WithOrigin<T>>) {
        if let Some(WithOrigin { value, origin }) = stated {
            self.push(key, serde_json::to_value(value).unwrap_or_default(), origin);
        }
    }

    /// Adds a key with this value.
    pub(super) fn push(&mut self, key: &str, value: Value, origin: &Origin) {
        self.0.push(Entry { key: key.to_owned(), value, origin: origin.clone() });
    }
}

impl Settings {
    /// Every key that is set.
    pub fn entries(&self) -> Vec<Entry> {
        let mut all = Entries::default();
        for key in KEYS {
            if let Some(field) = key.field {
                field.list(key.name, self, &mut all);
            }
            self.list_several(key.name, &mut all);
        }
        all.0
    }

    /// Adds the entries of a key that has more than one value.
    fn list_several(&self, key: &str, all: &mut Entries) {
        match key {
            // With their prices and short names.
            "providers" => self.providers.list(all),
            "hooks" => {
                for hook in &self.hooks {
                    all.push(key, serde_json::to_value(hook.shown()).unwrap_or_default(), &hook.origin);
                }
            }
            "rules" => {
                for rules in &self.project_rules {
                    all.add(key, Some(rules));
                }
            }
            _ => {}
        }
    }
}

/// An address without the parts in which users put passwords and keys.
pub fn without_secrets(url: &str) -> String {
    let (plain, query) = url.split_once('?').map_or((url, ""), |(plain, _)| (plain, "?…"));
    let (scheme, rest) = plain.split_once("://").unwrap_or(("", plain));
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let host = host.rsplit_once('@').map_or_else(|| host.to_owned(), |(_, host)| format!("…@{host}"));
    let scheme = if scheme.is_empty() { String::new() } else { format!("{scheme}://") };
    format!("{scheme}{host}{path}{query}")
}

/// A text that is shown nowhere.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct Secret(String);

/// Serialises to nothing: a row shows where its secret is written instead.
impl Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

impl Secret {
    /// From the text of a variable.
    #[expect(clippy::unnecessary_wraps, reason = "one of the readers of a table, and others can fail")]
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        Ok(Self(text.to_owned()))
    }

    /// The secret itself, only for the request that needs it.
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Like [`Secret::text`], by value.
    pub(super) fn into_text(self) -> String {
        self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::file;

    #[test]
    fn no_secret_is_among_what_is_shown() {
        let text = "\
providers:
  lab: {base_url: 'https://me:canary@lab.example/v1?key=canary', key: canary}
proxy: http://me:canary@proxy.example:3128
search: {provider: searxng, url: 'http://canary@s.example/?k=canary', key: canary}
";
        let entries = file::parse(text, Path::new("s.yaml")).expect("settings").entries();
        let shown = format!("{entries:?}");
        assert!(!shown.contains("canary"), "{shown}");
        let value = |key: &str| {
            entries
                .iter()
                .find(|entry| entry.key == key)
                .map(|entry| entry.value.to_string())
                .expect("a value")
        };
        assert_eq!(
            value("providers.lab"),
            r#"{"base_url":"https://…@lab.example/v1?…","key":{"set_in":"s.yaml:2"}}"#
        );
        assert_eq!(value("proxy"), r#""http://…@proxy.example:3128""#);
        assert_eq!(value("search.key"), r#"{"set_in":"s.yaml:4"}"#);
    }
}
