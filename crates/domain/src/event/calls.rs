//! What the events about model calls carry: calls, replies, and waits for a provider.
//!
//! Why it is like this: `docs/decisions/events-decisions-and-intents.md`.

use serde::{Deserialize, Serialize};

use crate::budget::{Amount, Usage};
use crate::code::Code;
use crate::hash::Hash;
use crate::message::Reply;
use crate::text::{BlobRef, Text};

/// What a model call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Work, with tools.
    Work,
    /// The report, without tools.
    Report,
}

/// Why an agent is asked for its report before it ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportCause {
    /// The last turn is kept for the report.
    Turns,
    /// The budget allows nothing else.
    Budget,
    /// The wall time allows nothing else.
    Time,
    /// The final answer did not satisfy its schema; one more turn to mend it.
    Schema,
    /// The report did not answer every criterion; one more turn to mend it.
    Criteria,
}

/// See [`super::EventBody::ModelCalled`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelCalled {
    /// The attempt, from 1.
    pub attempt: u32,
    /// The turn of the attempt, from 1.
    pub turn: u32,
    /// Which call of the turn this is, from 1; more than 1 is a call retry.
    pub call: u32,
    /// What it is for.
    pub purpose: Purpose,
    /// For a report: why now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<ReportCause>,
    /// For a report because of a budget or of the time: which one is used up, and how much of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether only the end of the conversation is sent, because there is no room for all of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trimmed: bool,
    /// The model's full name.
    pub model: String,
    /// Hash of the request, so that a replay can be compared.
    pub request_hash: Hash,
    /// What it set aside.
    pub reserved: Amount,
    /// What every request of the agent begins with; in its first call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preamble: Option<Box<Preamble>>,
}

/// What every request of an agent begins with, kept so that a replay can show what is different.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preamble {
    /// Hash of the system prompt.
    pub system: Hash,
    /// The system prompt; once per run, in the first call that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_text: Option<Text>,
    /// Hash of the tools offered, as JSON.
    pub tools: Hash,
    /// The tools offered, as JSON; once per run, in the first call that has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools_text: Option<Text>,
}

/// Why a model call failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallError {
    /// Why, as a word.
    pub code: Code,
    /// Why, for people.
    pub message: String,
    /// The provider's status, if it gave one.
    pub status: Option<u16>,
    /// Whether the call is made again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

impl CallError {
    /// An error after which the call is not made again.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), status: None, again: false }
    }
}

/// See [`super::EventBody::ProviderWaitStarted`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderWaitStarted {
    /// Who is waited for.
    pub provider: String,
    /// Why, for people.
    pub reason: String,
    /// When it is thought to end.
    pub until_ms: i64,
}

/// See [`super::EventBody::ProviderWaitEnded`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderWaitEnded {
    /// How long it was.
    pub waited_ms: u64,
}

/// See [`super::EventBody::ModelReplied`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelReplied {
    /// The attempt.
    pub attempt: u32,
    /// The turn.
    pub turn: u32,
    /// The call of the turn.
    pub call: u32,
    /// The reply, if it is short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Reply>,
    /// Where the reply is kept, as JSON, if it is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_at: Option<BlobRef>,
    /// Why there is no reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CallError>,
    /// What it cost.
    pub usage: Usage,
    /// Whether the usage is the reserved maximum because the true one is unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// Whether the reply is as long as it may be and was cut off there; a call that was being written is not in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_off: bool,
    /// What the model wants to find again in later requests of this agent, such as the rule of a script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// How long it took.
    pub elapsed_ms: u64,
}
