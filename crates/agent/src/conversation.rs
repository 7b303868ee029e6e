//! What an agent and its model said to each other.

use std::sync::Arc;

use posse_domain::message::ToolCall;

/// The result of one tool call, as the model reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct CallResult {
    /// The call it answers.
    pub call_id: Arc<str>,
    /// The tool.
    pub tool: Arc<str>,
    /// Whether the call did what was asked.
    pub ok: bool,
    /// The text.
    pub text: Arc<str>,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// From outside: the prompt, a person, a child's completion, the host.
    User(Arc<str>),
    /// From the model.
    Assistant {
        /// What it said.
        text: Arc<str>,
        /// What it asked for.
        calls: Arc<[ToolCall]>,
    },
    /// Results of all calls of the assistant message before, in the order of the calls.
    Results(Vec<CallResult>),
}
