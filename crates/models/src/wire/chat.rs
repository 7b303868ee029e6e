//! The wire format of OpenAI Chat Completions and all compatible servers.

mod chunk;
mod reader;
mod request;
#[cfg(test)]
mod tests;

use posse_engine::ports::ModelRequest;
use serde::Serialize;

use super::{ErrorResponse, Problem, ReplyReader, Target, Wire, WireRequest};

/// The path beneath the base URL, which ends with the version: `https://api.openai.com/v1`.
const PATH: &str = "/chat/completions";

/// Parts of names of models whose templates are strict about the order of roles, on any server.
const MISTRAL: &[&str] =
    &["mistral", "ministral", "devstral", "codestral", "magistral", "mixtral", "pixtral"];

/// Chat Completions with the quirks of one server.
pub(crate) struct Chat {
    quirks: ServerQuirks,
}

/// The differences between servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ServerQuirks {
    limit: LimitName,
    /// Whether usage must be requested. Some servers refuse such a request, and report usage all the same.
    ask_for_usage: bool,
    /// Whether the server expects thinking in later requests.
    thinking_back: bool,
    /// Whether a user message may only follow an assistant message, not a result.
    model_before_user: bool,
    /// How to request caching, on servers that only cache on request.
    cache_control: Option<CacheControl>,
}

/// Marks everything up to the end of the conversation as cacheable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct CacheControl {
    r#type: &'static str,
}

/// The name of the output limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LimitName {
    MaxTokens,
    MaxCompletionTokens,
}

impl Chat {
    /// The quirks of the server at this base URL.
    pub(crate) fn at(base_url: &str, model: &str) -> Self {
        let host = url::Url::parse(base_url).ok().and_then(|url| url.host_str().map(str::to_lowercase));
        let host = host.unwrap_or_default();
        let at = |domain: &str| {
            host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
        };
        let model = model.to_lowercase();
        let named = |parts: &[&str]| parts.iter().any(|part| model.contains(part));
        Self {
            quirks: ServerQuirks {
                limit: if at("openai.com") || at("openai.azure.com") {
                    LimitName::MaxCompletionTokens
                } else {
                    LimitName::MaxTokens
                },
                ask_for_usage: !at("mistral.ai") && !at("cohere.ai"),
                thinking_back: at("deepseek.com") || named(&["deepseek", "kimi"]),
                model_before_user: at("mistral.ai") || named(MISTRAL),
                cache_control: (at("openrouter.ai") && named(&["claude"]))
                    .then_some(CacheControl { r#type: "ephemeral" }),
            },
        }
    }
}

impl Wire for Chat {
    fn request(&self, target: &Target, request: &ModelRequest) -> WireRequest {
        WireRequest {
            path: PATH.to_owned(),
            headers: Vec::new(),
            body: request::body(self.quirks, target, request),
        }
    }

    fn reader(&self, target: &Target, _: &ModelRequest) -> Box<dyn ReplyReader> {
        Box::new(reader::Reader::new(self.quirks, target))
    }

    fn refusal(&self, refused: &ErrorResponse<'_>) -> Problem {
        refused.problem()
    }
}
