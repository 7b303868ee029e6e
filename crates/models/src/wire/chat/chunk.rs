//! Parses one chunk of the answer, in all forms that servers use. Copies only what it must.

use std::borrow::Cow;
use std::fmt;

use posse_domain::budget::Usage;
use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::wire::text::Str;

/// One chunk, or the whole answer of a server that does not stream.
#[derive(Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    pub(super) usage: Option<UsageIn>,
    /// The position of the usage at Groq.
    pub(super) x_groq: Option<Groq>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    /// `error` if vLLM or Mistral report one.
    #[serde(borrow)]
    pub(super) object: Option<Str<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Groq {
    pub(super) usage: Option<UsageIn>,
}

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(borrow)]
    pub(super) message: Option<Delta<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<Str<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) content: Option<Content<'a>>,
    #[serde(borrow)]
    pub(super) reasoning_content: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) reasoning: Option<Str<'a>>,
    pub(super) reasoning_details: Option<Vec<Value>>,
    #[serde(borrow)]
    pub(super) refusal: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<CallDelta<'a>>>,
}

#[derive(Deserialize)]
pub(super) struct CallDelta<'a> {
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) function: Option<FunctionDelta<'a>>,
    /// Data that Google expects in later requests.
    pub(super) extra_content: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct FunctionDelta<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Str<'a>>,
    /// A piece of JSON in a string, or the whole arguments as a JSON value.
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
}

impl<'a> FunctionDelta<'a> {
    pub(super) fn arguments(&self) -> Option<Cow<'a, str>> {
        let raw = self.arguments?.get();
        if raw == "null" {
            return None;
        }
        Some(serde_json::from_str::<Str<'a>>(raw).map_or(Cow::Borrowed(raw), |text| text.0))
    }
}

/// Text, or parts that are text or thinking.
#[derive(Default)]
pub(super) struct Content<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) thinking: String,
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text or parts")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Content<'de>, E> {
        Ok(Content { text: text.into(), ..Content::default() })
    }

    fn visit_str<E>(self, text: &str) -> Result<Content<'de>, E> {
        Ok(Content { text: text.to_owned().into(), ..Content::default() })
    }

    fn visit_unit<E>(self) -> Result<Content<'de>, E> {
        Ok(Content::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Content<'de>, A::Error> {
        let part = Part::deserialize(de::value::MapAccessDeserializer::new(map))?;
        let mut content = Content::default();
        content.add(part);
        Ok(content)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Content<'de>, A::Error> {
        let mut content = Content::default();
        while let Some(part) = parts.next_element::<PartOrOther>()? {
            if let PartOrOther::Part(part) = part {
                content.add(part);
            }
        }
        Ok(content)
    }
}

impl Content<'_> {
    fn add(&mut self, part: Part) {
        if let Some(text) = part.text {
            self.text.to_mut().push_str(&text);
        }
        for thought in part.thinking.unwrap_or_default() {
            self.thinking.push_str(thought.text.as_deref().unwrap_or(""));
        }
    }
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
    thinking: Option<Vec<Thought>>,
}

#[derive(Deserialize)]
struct Thought {
    text: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum PartOrOther {
    Part(Part),
    Other(IgnoredAny),
}

/// The provider's token counts.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct UsageIn {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    /// Cached tokens, under the name that one server uses.
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

impl UsageIn {
    /// `None` if it has no counts.
    pub(super) fn usage(&self) -> Option<Usage> {
        let input = self.prompt_tokens?;
        let written = self.completion_tokens.unwrap_or(0);
        // Some servers count thinking only in the total.
        let output = written.max(self.total_tokens.unwrap_or(0).saturating_sub(input));
        let prompt = self.prompt_tokens_details;
        let cached = prompt.and_then(|details| details.cached_tokens).or(self.prompt_cache_hit_tokens);
        let reasoning = self.completion_tokens_details.and_then(|details| details.reasoning_tokens);
        Some(Usage {
            input_tokens: input,
            output_tokens: output,
            cached_tokens: cached.unwrap_or(0).min(input),
            cache_write_tokens: prompt.and_then(|details| details.cache_write_tokens).unwrap_or(0).min(input),
            reasoning_tokens: reasoning.unwrap_or(0).min(output),
            micro_usd: None,
            ..Usage::ZERO
        })
    }
}
