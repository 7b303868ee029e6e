//! Tool names, and sets of them that ten thousand siblings can share.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::text::{QUOTE_MAX_CHARS, clip};

/// Maximum length of a tool name: model APIs accept 128, and an MCP tool's name contains its server's.
pub const TOOL_NAME_MAX_BYTES: usize = 128;

/// A text that is not a valid tool name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a tool name: 1 to {TOOL_NAME_MAX_BYTES} letters, digits or any of `_ - . /`")]
pub struct InvalidToolName(String);

/// A tool name has no `:` or `*`, so a pattern with one is never ambiguous.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolName(Arc<str>);

impl ToolName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ToolName {
    type Err = InvalidToolName;

    fn from_str(text: &str) -> Result<Self, InvalidToolName> {
        let fits = (1..=TOOL_NAME_MAX_BYTES).contains(&text.len());
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-./".contains(&b);
        if fits && text.bytes().all(plain) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidToolName(clip(text, QUOTE_MAX_CHARS)))
        }
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Borrow<str> for ToolName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Serialize for ToolName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ToolName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for ToolName {
    fn schema_name() -> Cow<'static, str> {
        "ToolName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^[A-Za-z0-9_./-]+$",
            "maxLength": TOOL_NAME_MAX_BYTES,
        })
    }
}

/// A set of tools: sorted, without duplicates, and shared instead of copied.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ToolSet(Arc<[ToolName]>);

impl ToolSet {
    /// Parses the names. The first invalid one is the error.
    pub fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidToolName> {
        names.into_iter().map(str::parse).collect()
    }

    pub fn contains(&self, tool: &str) -> bool {
        self.0.binary_search_by(|name| name.as_str().cmp(tool)).is_ok()
    }

    /// The names in alphabetical order.
    pub fn iter(&self) -> std::slice::Iter<'_, ToolName> {
        self.0.iter()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn meet(&self, other: &Self) -> Self {
        let common = self.iter().filter(|name| other.contains(name.as_str()));
        // A child usually requests a subset of its parent's tools. Then its set is shared, not copied.
        match common.clone().count() {
            count if count == other.len() => other.clone(),
            count if count == self.len() => self.clone(),
            _ => Self(common.cloned().collect()),
        }
    }

    pub fn is_within(&self, other: &Self) -> bool {
        self.iter().all(|name| other.contains(name.as_str()))
    }
}

impl FromIterator<ToolName> for ToolSet {
    fn from_iter<I: IntoIterator<Item = ToolName>>(names: I) -> Self {
        let mut names: Vec<ToolName> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        Self(names.into())
    }
}

impl<'a> IntoIterator for &'a ToolSet {
    type Item = &'a ToolName;
    type IntoIter = std::slice::Iter<'a, ToolName>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for ToolSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Serialize for ToolSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for ToolSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<ToolName>::deserialize(deserializer).map(Self::from_iter)
    }
}

impl JsonSchema for ToolSet {
    fn schema_name() -> Cow<'static, str> {
        "ToolSet".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "array",
            "items": generator.subschema_for::<ToolName>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set<const N: usize>(names: [&str; N]) -> ToolSet {
        ToolSet::parse(names).expect("tool names")
    }

    #[test]
    fn a_set_is_sorted_and_without_doubles() {
        let json = serde_json::to_string(&set(["read", "bash", "read"])).expect("json");
        assert_eq!(json, r#"["bash","read"]"#);
        assert_eq!(
            serde_json::from_str::<ToolSet>(r#"["read","bash"]"#).expect("set"),
            set(["bash", "read"])
        );
    }

    #[test]
    fn the_meet_is_what_both_have() {
        let both = set(["bash", "grep", "read"]).meet(&set(["edit", "grep", "read"]));
        assert_eq!(both, set(["grep", "read"]));
        assert!(both.contains("grep") && !both.contains("bash"));
        assert!(both.is_within(&set(["grep", "read", "write"])));
        assert!(set([]).is_within(&both) && set([]).is_empty());
    }

    #[test]
    fn a_name_with_a_colon_or_a_star_is_none() {
        for bad in ["", "bash:ls", "*", "re ad", "läs", "a\n", &"x".repeat(TOOL_NAME_MAX_BYTES + 1)] {
            let error = bad.parse::<ToolName>().expect_err(bad).to_string();
            assert!(error.contains("is not a tool name"), "{error}");
        }
        assert!("server__tool.v2".parse::<ToolName>().is_ok());
    }
}
