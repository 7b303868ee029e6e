//! Payloads of events about tool calls: decisions, intents, questions and results.

use serde::{Deserialize, Serialize};

use super::detail::is_zero;
use super::files::FilesCommit;
use crate::code::Code;
use crate::hash::Hash;
use crate::id::AgentId;
use crate::message::Image;
use crate::permission::{Decision, Rule};
use crate::text::Text;

/// What a tool does to the outside world. It decides how a call is recovered after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// Only reads. Recovery runs the call again.
    Read,
    /// Writes a file. The intent's hashes show whether the write happened.
    Write,
    /// Executes a program. Recovery never runs the call again by itself.
    Exec,
    /// Sends a network request. Recovery sends it again and counts both.
    Net,
    /// Spawns or messages children. Recovery finds the child by its call id.
    Delegate,
    /// Changes only the journal, in the same commit.
    Journal,
}

impl EffectClass {
    /// Whether a tool of this class can change the agent's workspace.
    pub fn changes_workspace(self) -> bool {
        matches!(self, EffectClass::Write | EffectClass::Exec)
    }

    /// Whether a call of this class uses the agent's files.
    pub fn touches_files(self) -> bool {
        matches!(self, EffectClass::Read | EffectClass::Write | EffectClass::Exec)
    }

    /// Whether a call of this class is journalled before it starts. For a read, the committed reply is the intent.
    pub fn needs_intent(self) -> bool {
        self != EffectClass::Read
    }
}

/// The planned change of a write. After a crash, one read of the file shows whether it happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteIntent {
    /// The file's path, relative to the workspace.
    pub path: String,
    /// Hash of the file before the write. None if the file does not exist.
    pub before: Option<Hash>,
    /// Hash of the file after the write.
    pub after: Hash,
}

/// See [`super::EventBody::ToolIntended`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolIntended {
    /// The id of the tool call.
    pub call_id: String,
    /// The tool's name.
    pub tool: String,
    /// The effect class of the tool.
    pub class: EffectClass,
    /// The call's target, as permission rules match it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub specifier: Option<String>,
    /// The planned change. Set only for a write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<WriteIntent>,
    /// The sandbox of the call's programs. Set only for an exec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
}

/// See [`super::EventBody::ToolFinished`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolFinished {
    /// The id of the tool call.
    pub call_id: String,
    /// The tool's name.
    pub tool: String,
    /// Whether the call succeeded.
    pub ok: bool,
    /// The error code of a failed call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The result that the model reads.
    pub output: Text,
    /// The images that the model sees beside the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// The child whose result this call returns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<AgentId>,
    /// Files whose content the agent read or wrote in this call, by hash.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<SeenFile>,
    /// The files after the call, if it changed any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FilesCommit>,
    /// Why the files after the call could not be committed. The next commit contains them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_problem: Option<String>,
    /// The duration of the call.
    pub elapsed_ms: u64,
}

impl ToolFinished {
    /// Whether the call was refused: it did not run, because the agent may not execute the operation, or because this
    /// machine has no sandbox for its command. A call that returns the failure of a child did run.
    pub fn is_refused(&self) -> bool {
        let is_forbidden = matches!(
            self.code,
            Some(Code::PermissionDenied | Code::OwnershipViolation | Code::SpawnNotAllowed)
        );
        (is_forbidden || self.has_no_sandbox()) && !self.ok && self.child.is_none()
    }

    /// Whether a command was not run because this machine has no sandbox for it.
    pub fn has_no_sandbox(&self) -> bool {
        self.code == Some(Code::Unsupported) && self.tool == COMMAND_TOOL
    }

    /// A result without the error code at its beginning, which is a field of its own. The model reads both.
    pub fn without_code<'a>(&self, text: &'a str) -> &'a str {
        let of_code = |code: Code| text.strip_prefix(code.as_str())?.strip_prefix(": ");
        self.code.and_then(of_code).unwrap_or(text)
    }
}

/// The content of a file when an agent last saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenFile {
    /// The file's path, relative to the workspace.
    pub path: String,
    /// Hash of the file's content.
    pub hash: Hash,
}

/// The tool that runs commands.
const COMMAND_TOOL: &str = "bash";

/// See [`super::EventBody::ToolInterrupted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolInterrupted {
    /// The id of the tool call.
    pub call_id: String,
    /// The tool's name.
    pub tool: String,
    /// The result that the model reads.
    pub output: Text,
    /// The files that the call left, if it was cut off by the end of a process and had changed any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FilesCommit>,
    /// The working time of the call before it was cut off. 0 after a crash, because it is unknown then.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub elapsed_ms: u64,
}

/// See [`super::EventBody::PermissionDecided`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PermissionDecided {
    /// The id of the tool call.
    pub call_id: String,
    /// The operation, `tool:specifier`.
    pub operation: String,
    /// The decision of the permission layers.
    pub decision: Decision,
    /// The permission layer that decided.
    pub layer: Option<String>,
    /// The rule that decided, if it was a rule.
    pub rule: Option<Rule>,
}

/// See [`super::EventBody::InputRequested`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputRequested {
    /// The id of the call that waits for the answer.
    pub call_id: String,
    /// The operation, `tool:specifier`.
    pub operation: String,
    /// The tool's name.
    pub tool: String,
    /// The call's arguments as JSON.
    pub arguments: Text,
    /// The permission layer that asks.
    pub layer: Option<String>,
    /// The rule that asks, if it was a rule.
    pub rule: Option<Rule>,
    /// The reason for this call, if the layer gave one, as hooks do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Hash of tool, arguments and contract. An answer must name it.
    pub approval: Hash,
}

/// The answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionAnswer {
    /// The call is allowed.
    Allow,
    /// The call is denied.
    Deny,
}

/// The origin of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnsweredBy {
    /// A user answered.
    Person,
    /// The host answered: no user can be asked any more, or a later "always" covers the question.
    Host,
}

/// See [`super::EventBody::InputAnswered`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputAnswered {
    /// The id of the call that waited.
    pub call_id: String,
    /// The hash that names the question.
    pub approval: Hash,
    /// Whether the answer allows or denies the call.
    pub decision: QuestionAnswer,
    /// Whether the run allows exactly this operation from now on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
    /// Whether a user or the host answered.
    pub by: AnsweredBy,
    /// The reason for the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
