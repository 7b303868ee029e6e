//! Payloads of events about model calls: requests, replies, and waits for a provider.
//!
//! Why it is like this: `docs/decisions/events-decisions-and-intents.md`.

use serde::{Deserialize, Serialize};

use crate::budget::{Amount, Usage};
use crate::code::Code;
use crate::hash::Hash;
use crate::message::Reply;
use crate::text::{BlobRef, Text};

/// The purpose of a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// A turn of work, with tools.
    Work,
    /// The final report, without tools.
    Report,
    /// A summary of the older part of the conversation, without tools. It is no turn.
    Summary,
}

/// What a summary call reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SummaryScope {
    /// The number of messages at the beginning of the conversation that the call summarises.
    pub messages: u64,
    /// The estimated tokens of these messages that the request may have. Longer parts are omitted.
    pub input_tokens: u64,
}

/// Why the engine requests a report before the agent finished by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportCause {
    /// Only the last turn is left, which is kept for the report.
    Turns,
    /// The budget is enough for a report only.
    Budget,
    /// The wall time is enough for a report only.
    Time,
    /// The final answer does not match its schema. The agent gets one more turn to fix it.
    Schema,
    /// The report does not answer every criterion. The agent gets one more turn to fix it.
    Criteria,
}

/// See [`super::EventBody::ModelCalled`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelCalled {
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// The turn's number in the attempt, from 1.
    pub turn: u32,
    /// The call's number in the turn, from 1. A number above 1 is a call retry. Summary calls before a turn are counted
    /// separately.
    pub call: u32,
    /// Whether the call is for work, for the report or for a summary.
    pub purpose: Purpose,
    /// Why the report is requested now. Set only for a report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<ReportCause>,
    /// Which budget or time limit is used up, and how much of it. Set for a report that one of them forced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the request has only the end of the conversation, because the whole does not fit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trimmed: bool,
    /// What the call summarises. Set only for a summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<SummaryScope>,
    /// The model's full name.
    pub model: String,
    /// Hash of the request, with which a replay compares its own.
    pub request_hash: Hash,
    /// The amount that the call reserves in the budget.
    pub reserved: Amount,
    /// The agent's preamble. Only its first call has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preamble: Option<Box<Preamble>>,
}

/// The system prompt and tools that every request of an agent begins with. A replay compares them to show differences.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preamble {
    /// Hash of the system prompt.
    pub system: Hash,
    /// The system prompt. Only the first call of the run that uses it has the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_text: Option<Text>,
    /// Hash of the offered tools, as JSON.
    pub tools: Hash,
    /// The offered tools, as JSON. Only the first call of the run that offers them has the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools_text: Option<Text>,
}

/// Why a model call failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallError {
    /// The stable error code.
    pub code: Code,
    /// The error message for users.
    pub message: String,
    /// The provider's HTTP status, if there was a response.
    pub status: Option<u16>,
    /// Whether the engine retries the call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

impl CallError {
    /// An error after which the engine does not retry the call.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), status: None, again: false }
    }
}

/// See [`super::EventBody::ProviderWaitStarted`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderWaitStarted {
    /// The provider's name.
    pub provider: String,
    /// The reason for users.
    pub reason: String,
    /// The expected end of the wait, in milliseconds since 1970.
    pub until_ms: i64,
}

/// See [`super::EventBody::ProviderWaitEnded`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderWaitEnded {
    /// The duration of the wait.
    pub waited_ms: u64,
}

/// See [`super::EventBody::ModelReplied`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelReplied {
    /// The attempt of the call, as in its `model_called`.
    pub attempt: u32,
    /// The turn of the call.
    pub turn: u32,
    /// The call's number in the turn.
    pub call: u32,
    /// The reply, if it is short enough for the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Reply>,
    /// The blob with the reply as JSON, if it is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_at: Option<BlobRef>,
    /// Why the call failed. Set if there is no reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CallError>,
    /// The tokens and cost of the call.
    pub usage: Usage,
    /// Whether `usage` is the reserved maximum, because the true usage is unknown: the call was cut off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// Whether the reply reached its maximum length and was cut off. A tool call that was incomplete then is not in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_off: bool,
    /// Whether the call was for a summary of the conversation, as its `model_called` says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub summary: bool,
    /// State that the model wants back in later requests of this agent, such as the rule of a script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The duration of the call.
    pub elapsed_ms: u64,
}

impl ModelReplied {
    /// Whether the call was a turn. A failed call is a call retry, and a summary is no turn, but their cost counts.
    pub fn is_turn(&self) -> bool {
        self.error.is_none() && !self.summary
    }

    /// What the call counts in sums.
    pub fn charged(&self) -> Usage {
        if self.estimated { self.usage.as_cut_off() } else { self.usage }
    }
}
