//! Where and how a provider is reached: all that the person's environment and settings say about it.
//!
//! Why it is like this: `docs/decisions/models-base-url.md`.

use std::fmt;

/// How a provider is reached.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The provider's name, the first part of its models' names.
    pub provider: String,
    /// What it speaks.
    pub format: Format,
    /// Where it is, without a trailing slash; paths of the format are put behind it.
    pub base_url: String,
    /// The key, if there is one.
    pub key: Option<Key>,
    /// What it may be asked for in a time, if the person said so.
    pub limits: Limits,
    /// How its models call tools.
    pub tools: ToolCalls,
}

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions, and all that speak it too.
    Chat,
    /// Whatever the `genai` crate speaks to a vendor.
    Genai,
}

/// How a model calls tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolCalls {
    /// As the wire format has them.
    #[default]
    Native,
    /// It has none: tools are described in the prompt, and a call is JSON in the answer.
    Text,
    /// Natively, unless a first call shows that it cannot; that is remembered.
    Probe,
}

/// What a provider may be asked for in a time. What is absent does not limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Calls a minute.
    pub requests_per_minute: Option<u32>,
    /// Tokens a minute, sent and received.
    pub tokens_per_minute: Option<u64>,
    /// Calls at once.
    pub concurrent: Option<u32>,
}

/// A key. It is shown nowhere: not in errors, not in logs, not by `{:?}`.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    secret: String,
    origin: String,
}

impl Key {
    /// A key, and where it came from: the name of a variable, or a place in the settings.
    pub fn new(secret: impl Into<String>, origin: impl Into<String>) -> Self {
        Self { secret: secret.into(), origin: origin.into() }
    }

    /// The key itself; only for the header it is sent in.
    pub(crate) fn secret(&self) -> &str {
        &self.secret
    }

    /// Where it came from.
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.origin)
    }
}
