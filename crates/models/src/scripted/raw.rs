//! The format of a script file: the fields here are exactly the permitted keys.

use std::fmt;

use posse_domain::budget::Usd;
use posse_domain::event::Purpose;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Unexpected, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

/// A list of rules, or a map that contains one.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawScript {
    pub(super) facts: Option<RawFacts>,
    pub(super) rules: Vec<Spanned<RawRule>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFacts {
    pub(super) context_tokens: Option<u64>,
    pub(super) max_output_tokens: Option<u64>,
    pub(super) price: Option<RawPrice>,
}

/// The price of a model.
pub(super) enum RawPrice {
    Unknown,
    Known(RawTokenPrices),
}

/// What a script has as an unknown price.
const UNKNOWN: &str = "unknown";

/// Dollars for a million tokens. Cached input costs the same as other input unless it has its own price.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTokenPrices {
    pub(super) input: Usd,
    pub(super) output: Usd,
    pub(super) cached: Option<Usd>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRule {
    pub(super) when: Option<RawWhen>,
    pub(super) reply: Option<RawReply>,
    pub(super) error: Option<RawError>,
    #[serde(default)]
    pub(super) latency_ms: u64,
    pub(super) times: Option<Spanned<u32>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawWhen {
    pub(super) definition: Option<String>,
    pub(super) depth: Option<u32>,
    pub(super) agent: Option<Spanned<String>>,
    pub(super) turn: Option<Spanned<u32>>,
    pub(super) purpose: Option<Purpose>,
    pub(super) contains: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawReply {
    #[serde(default)]
    pub(super) text: String,
    #[serde(default)]
    pub(super) tool_calls: Vec<RawCall>,
    pub(super) usage: Option<RawUsage>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCall {
    pub(super) name: String,
    #[serde(default = "no_arguments")]
    pub(super) input: Value,
    pub(super) id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "they are the keys of the file")]
pub(super) struct RawUsage {
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    #[serde(default)]
    pub(super) cached_tokens: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawError {
    pub(super) status: Option<u16>,
    pub(super) message: String,
    /// When the call may be retried. If omitted, never.
    pub(super) retry_after_ms: Option<u64>,
    /// Whether the provider requested that pause.
    #[serde(default)]
    pub(super) limited: bool,
}

fn no_arguments() -> Value {
    Value::Object(Map::new())
}

pub(super) struct RawFile(pub(super) RawScript);

impl<'de> Deserialize<'de> for RawFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FileVisitor)
    }
}

/// Distinguishes the two forms of a file. Implemented by hand, because an untagged enum would lose the line numbers.
struct FileVisitor;

impl<'de> Visitor<'de> for FileVisitor {
    type Value = RawFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of rules, or a map with `rules`")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<RawFile, A::Error> {
        let mut rules = Vec::new();
        while let Some(rule) = list.next_element()? {
            rules.push(rule);
        }
        Ok(RawFile(RawScript { facts: None, rules }))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawFile, A::Error> {
        RawScript::deserialize(MapAccessDeserializer::new(map)).map(RawFile)
    }

    /// A file that is empty or has only comments.
    fn visit_unit<E>(self) -> Result<RawFile, E> {
        Ok(RawFile(RawScript::default()))
    }
}

impl<'de> Deserialize<'de> for RawPrice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PriceVisitor)
    }
}

/// Distinguishes the two forms of a price, and keeps the line numbers.
struct PriceVisitor;

impl<'de> Visitor<'de> for PriceVisitor {
    type Value = RawPrice;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a map with `input` and `output`, or `{UNKNOWN}`")
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<RawPrice, E> {
        if word == UNKNOWN {
            Ok(RawPrice::Unknown)
        } else {
            Err(E::invalid_value(Unexpected::Str(word), &self))
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawPrice, A::Error> {
        RawTokenPrices::deserialize(MapAccessDeserializer::new(map)).map(RawPrice::Known)
    }
}
