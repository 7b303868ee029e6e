//! Serialises JSON with sorted object keys, so that equal values have equal text.
//!
//! Every hash and comparison of JSON uses it. The key order of `serde_json` depends on a feature that any dependency of
//! a build can enable.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

/// Serialises a JSON value without spaces and with sorted keys.
pub fn canonical_json(value: &Value) -> String {
    // Cannot fail: a `Value` has only string keys.
    serde_json::to_string(&Canonical(value)).unwrap_or_default()
}

/// Serialises a JSON value with sorted keys as part of a larger document.
#[derive(Debug, Clone, Copy)]
pub struct Canonical<'a>(pub &'a Value);

impl Serialize for Canonical<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(items) => serializer.collect_seq(items.iter().map(Canonical)),
            Value::Object(map) => {
                let mut entries: Vec<_> = map.iter().collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                let mut object = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    object.serialize_entry(key, &Canonical(value))?;
                }
                object.end()
            }
            plain => plain.serialize(serializer),
        }
    }
}

/// For map fields: `#[serde(serialize_with = "canonical::map")]`.
#[expect(clippy::ref_option, reason = "serde hands over the field")]
pub(crate) fn map<S: Serializer>(
    map: &Option<std::collections::BTreeMap<String, Value>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match map {
        Some(map) => serializer.collect_map(map.iter().map(|(key, value)| (key, Canonical(value)))),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_sorted_at_every_depth_and_nothing_else_changes() {
        let value: Value =
            serde_json::from_str(r#"{"b":[{"z":1,"a":null},"x\n"],"a":{"y":1.5,"B":true,"ä":-2},"":[]}"#)
                .expect("json");
        let text = r#"{"":[],"a":{"B":true,"y":1.5,"ä":-2},"b":[{"a":null,"z":1},"x\n"]}"#;
        assert_eq!(canonical_json(&value), text);
        assert_eq!(serde_json::from_str::<Value>(text).expect("json"), value);
    }

    #[test]
    fn the_order_of_writing_does_not_matter() {
        let one: Value = serde_json::from_str(r#"{"path":"a","limit":1}"#).expect("json");
        let other: Value = serde_json::from_str(r#"{"limit":1,"path":"a"}"#).expect("json");
        assert_eq!(canonical_json(&one), canonical_json(&other));
        assert_ne!(canonical_json(&one), canonical_json(&json!({"path": "a", "limit": 2})));
    }

    proptest! {
        #[test]
        fn it_is_what_a_sorted_map_gives(keys in proptest::collection::vec(".{0,6}", 0..8)) {
            let value: Value = keys.iter().map(|key| (key.clone(), json!(key.len()))).collect();
            let sorted: std::collections::BTreeMap<_, _> =
                keys.iter().map(|key| (key.clone(), key.len())).collect();
            prop_assert_eq!(canonical_json(&value), serde_json::to_string(&sorted).expect("json"));
        }
    }
}
