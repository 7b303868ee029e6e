//! API types of the conversation of an agent: its task and its messages, its replies, the results of its calls.

use posse_domain::code::Code;
use posse_domain::event::{ModelReplied, Sender};
use posse_domain::message::pictures;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Usage, timestamp};
use crate::conversation::{ConversationEvent, ConversationPart};
use crate::{AgentId, EventBody};

/// A part of the conversation of an agent.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Conversation {
    /// The agent's id.
    pub agent: String,
    /// The entries in their order.
    pub entries: Vec<ConversationEntry>,
    /// The number of the last event of the run that was looked at: the next part begins after it.
    pub after: u64,
    /// Whether there were more entries when this part was made.
    pub more: bool,
}

/// One entry of a conversation.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ConversationEntry {
    /// The number of its event.
    pub seq: u64,
    /// When it happened.
    pub at: String,
    /// The event in one line.
    pub summary: String,
    /// What the entry is.
    #[serde(flatten)]
    pub content: EntryContent,
}

/// A tool call that a reply requests.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RequestedCall {
    /// The id of the call.
    pub call_id: String,
    /// The name of the tool.
    pub tool: String,
    /// Its input; a text that is no JSON is as the model wrote it.
    pub input: Value,
}

/// What an entry is.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EntryContent {
    /// What the agent is to do.
    Assignment {
        /// The agent that gives the task; null if it is the user.
        from: Option<String>,
        /// The task.
        text: String,
        /// What the agent reads beside it: the prompt that a skill made, further context.
        further: Vec<String>,
        /// The agent whose conversation comes before this one.
        #[serde(skip_serializing_if = "Option::is_none")]
        begins_with: Option<String>,
    },
    /// The system prompt, at the first model call.
    SystemPrompt {
        /// Its text, with AGENTS.md and the skills.
        text: String,
    },
    /// A reply of the model.
    Reply {
        /// The number of the turn in the attempt.
        turn: u32,
        /// Its thinking, if the provider shows it.
        #[serde(skip_serializing_if = "Option::is_none")]
        thinking: Option<String>,
        /// Its text.
        text: String,
        /// The calls that it requests.
        calls: Vec<RequestedCall>,
        /// What the call of the model used.
        usage: Usage,
        /// How long it took.
        elapsed_ms: u64,
        /// Whether the reply is longer than the model may write.
        cut_off: bool,
    },
    /// The model wrote a summary of the conversation; the compaction after it has the text.
    Summary {
        /// What the call of the model used.
        usage: Usage,
        /// How long it took.
        elapsed_ms: u64,
    },
    /// A call of the model that failed.
    FailedReply {
        /// The number of the turn in the attempt.
        turn: u32,
        /// The code of the failure.
        code: Code,
        /// The reason in words.
        message: String,
        /// The HTTP status, if the provider answered.
        status: Option<u16>,
        /// Whether the call is repeated.
        again: bool,
        /// How long it took.
        elapsed_ms: u64,
    },
    /// The result of a tool call.
    ToolResult {
        /// The id of the call.
        call_id: String,
        /// The name of the tool.
        tool: String,
        /// What the model reads.
        output: String,
        /// The code of a call that failed.
        code: Option<Code>,
        /// Whether the call was cut off, so that its outcome is unknown.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cut_off: bool,
        /// The pictures that the model sees, in words.
        #[serde(skip_serializing_if = "Option::is_none")]
        pictures: Option<String>,
        /// How long it took.
        elapsed_ms: u64,
    },
    /// A call waits for an approver.
    Question {
        /// The id of the call.
        call_id: String,
        /// The operation.
        operation: String,
        /// The input of the call, as JSON.
        arguments: String,
    },
    /// The answer to a question.
    Answered {
        /// The id of the call.
        call_id: String,
        /// Whether the call may run.
        allowed: bool,
        /// The reason of the answer.
        reason: Option<String>,
    },
    /// A message to the agent.
    Message {
        /// The sender: `user`, `host`, or the id of an agent.
        from: String,
        /// Its text.
        text: String,
    },
    /// From here on, a summary stands for the older messages.
    Compacted {
        /// The summary.
        text: String,
        /// How many messages it replaces.
        replaced: u64,
        /// How many of the newest messages stay.
        kept: u64,
        /// The estimated tokens before.
        tokens_before: u64,
        /// The estimated tokens after.
        tokens_after: u64,
    },
    /// The report of the agent.
    Report {
        /// Its text.
        text: String,
        /// Whether the turn limit cut off the work.
        turns_exhausted: bool,
    },
    /// The agent failed or was cancelled.
    Failed {
        /// The code of the failure.
        code: Code,
        /// The reason in words.
        reason: String,
        /// Its last text.
        text: Option<String>,
    },
    /// Anything else; `summary` says what.
    Other {
        /// The kind of the event.
        event: String,
    },
}

impl Conversation {
    /// Converts a part of the conversation of an agent.
    pub fn new(agent: &AgentId, part: &ConversationPart) -> Self {
        Self {
            agent: agent.to_string(),
            entries: part.events.iter().flat_map(ConversationEntry::of).collect(),
            after: part.after,
            more: part.has_more,
        }
    }
}

impl ConversationEntry {
    /// The entries of an event: a first model call also shows the system prompt.
    fn of(found: &ConversationEvent) -> Vec<Self> {
        let event = &found.event;
        let entry = |content| Self {
            seq: event.seq,
            at: timestamp(event.at_ms),
            summary: event.summary.clone(),
            content,
        };
        let prompt = found.system_prompt.as_ref();
        let prompt = prompt.map(|text| entry(EntryContent::SystemPrompt { text: text.to_string() }));
        prompt.into_iter().chain([entry(EntryContent::of(&event.body))]).collect()
    }
}

impl EntryContent {
    fn of(body: &EventBody) -> Self {
        match body {
            EventBody::RunStarted(e) => {
                let text = e.request.text.to_shared().to_string();
                // A skill changes the request into the agent's prompt.
                let prompt = Some(e.contract.step.description.clone()).filter(|prompt| *prompt != text);
                Self::Assignment {
                    from: None,
                    text,
                    further: prompt.into_iter().collect(),
                    begins_with: None,
                }
            }
            EventBody::SubagentCreated(e) => Self::Assignment {
                from: Some(e.parent_id.to_string()),
                text: e.contract.step.description.clone(),
                further: e.contract.execution.extra_context.iter().cloned().collect(),
                begins_with: match (e.contract.execution.share_history, &e.contract.parent.continues) {
                    (true, _) => Some(e.parent_id.to_string()),
                    (false, continued) => continued.as_ref().map(ToString::to_string),
                },
            },
            EventBody::ModelReplied(e) => Self::of_reply(e),
            EventBody::ToolFinished(e) => Self::ToolResult {
                call_id: e.call_id.clone(),
                tool: e.tool.clone(),
                output: e.output.to_shared().to_string(),
                code: e.code,
                cut_off: false,
                pictures: pictures(&e.images),
                elapsed_ms: e.elapsed_ms,
            },
            EventBody::ToolInterrupted(e) => Self::ToolResult {
                call_id: e.call_id.clone(),
                tool: e.tool.clone(),
                output: e.output.to_shared().to_string(),
                code: None,
                cut_off: true,
                pictures: None,
                elapsed_ms: e.elapsed_ms,
            },
            EventBody::InputRequested(e) => Self::Question {
                call_id: e.call_id.clone(),
                operation: e.operation.clone(),
                arguments: e.arguments.to_shared().to_string(),
            },
            EventBody::InputAnswered(e) => Self::Answered {
                call_id: e.call_id.clone(),
                allowed: e.decision == posse_domain::event::QuestionAnswer::Allow,
                reason: e.reason.clone(),
            },
            EventBody::MessageReceived(e) => Self::Message {
                from: match &e.from {
                    Sender::Person => "user".to_owned(),
                    Sender::Agent(agent) | Sender::Child(agent) => agent.to_string(),
                    Sender::Host(_) => "host".to_owned(),
                },
                text: e.text.to_shared().to_string(),
            },
            EventBody::ContextCompacted(e) => Self::Compacted {
                text: e.summary.to_shared().to_string(),
                replaced: e.replaced,
                kept: e.kept,
                tokens_before: e.tokens_before,
                tokens_after: e.tokens_after,
            },
            EventBody::SubagentWaitingForMerge(e) => {
                Self::Report { text: e.report.to_shared().to_string(), turns_exhausted: e.turns_exhausted }
            }
            EventBody::RunCompleted(e) => {
                Self::Report { text: e.text.to_shared().to_string(), turns_exhausted: e.turns_exhausted }
            }
            EventBody::SubagentFailed(e) => Self::Failed {
                code: e.code,
                reason: e.reason.clone(),
                text: e.report.as_ref().map(|text| text.to_shared().to_string()),
            },
            EventBody::RunFailed(e) => Self::Failed {
                code: e.code,
                reason: e.reason.clone(),
                text: e.text.as_ref().map(|text| text.to_shared().to_string()),
            },
            other => Self::Other { event: other.kind().to_owned() },
        }
    }

    fn of_reply(e: &ModelReplied) -> Self {
        let usage = Usage::from(&e.charged());
        if let Some(error) = &e.error {
            return Self::FailedReply {
                turn: e.turn,
                code: error.code,
                message: error.message.clone(),
                status: error.status,
                again: error.again,
                elapsed_ms: e.elapsed_ms,
            };
        }
        if e.summary {
            return Self::Summary { usage, elapsed_ms: e.elapsed_ms };
        }
        let reply = e.reply.as_ref();
        let calls = reply.into_iter().flat_map(|reply| &reply.calls).map(|call| RequestedCall {
            call_id: call.id.clone(),
            tool: call.name.clone(),
            input: call.input.clone(),
        });
        Self::Reply {
            turn: e.turn,
            thinking: reply.and_then(|reply| posse_models::thinking(reply.raw.as_deref()?)),
            text: reply.map_or_else(String::new, |reply| reply.text.to_shared().to_string()),
            calls: calls.collect(),
            usage,
            elapsed_ms: e.elapsed_ms,
            cut_off: e.cut_off,
        }
    }
}
