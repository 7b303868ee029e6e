//! The address, key and limits of a provider, as the user's environment and settings define them.
//!
//! Why it is like this: `docs/decisions/models-base-url.md` and `docs/decisions/models-wire-formats.md`.

use std::fmt;

#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The provider's name, the first part of its models' names.
    pub provider: String,
    pub format: Format,
    /// The base URL without a trailing slash. The paths of the wire format are appended to it.
    pub base_url: String,
    pub key: Option<Key>,
    /// The user's limits for the provider.
    pub limits: Limits,
    pub tools: ToolCalls,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    Anthropic,
    Responses,
    /// OpenAI Chat Completions, and all compatible servers.
    Chat,
}

/// How a model calls tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolCalls {
    /// With the tool calls of the wire format.
    #[default]
    Native,
    /// Without native tool calls: tools are described in the prompt, and a call is JSON in the answer.
    Text,
    /// Natively, unless a first call shows that the model cannot. The result is remembered.
    Probe,
}

/// Limits of the calls to a provider. An absent value means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    pub requests_per_minute: Option<u32>,
    /// Tokens a minute, sent and received.
    pub tokens_per_minute: Option<u64>,
    pub concurrent: Option<u32>,
}

/// An API key. It is never shown: not in errors, not in logs, not by `{:?}`.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    secret: String,
    origin: String,
}

impl Key {
    /// A key and its origin: the name of a variable, or a position in the settings.
    pub fn new(secret: impl Into<String>, origin: impl Into<String>) -> Self {
        Self { secret: secret.into(), origin: origin.into() }
    }

    /// The key itself, only for the request header.
    pub(crate) fn secret(&self) -> &str {
        &self.secret
    }

    pub fn origin(&self) -> &str {
        &self.origin
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.origin)
    }
}
