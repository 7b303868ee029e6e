//! Stable error codes that scripts and models can match on.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($(#[doc = $doc:literal] $variant:ident => $text:literal,)*) => {
        /// A stable error code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        pub enum Code {
            $(#[doc = $doc] #[serde(rename = $text)] $variant,)*
        }

        impl Code {
            /// Every code with its meaning.
            pub const MEANINGS: &'static [(Code, &'static str)] = &[$((Code::$variant, $doc)),*];

            /// The code's wire name.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $text,)* }
            }

            /// Parses the wire name that [`as_str`](Self::as_str) returns.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Code::$variant),)* _ => None }
            }
        }
    };
}

codes! {
    /// The tree may not grow deeper.
    MaxDepthExceeded => "MAX_DEPTH_EXCEEDED",
    /// The contract does not allow spawning, or not this definition.
    SpawnNotAllowed => "SPAWN_NOT_ALLOWED",
    /// A child failed in its work.
    SubagentError => "SUBAGENT_ERROR",
    /// A rule or the grant forbids the operation.
    PermissionDenied => "PERMISSION_DENIED",
    /// An attempt, turn or idle timeout passed.
    Timeout => "TIMEOUT",
    /// Tokens, money, agents or wall time ran out.
    BudgetExhausted => "BUDGET_EXHAUSTED",
    /// The turns ran out before the work was done.
    TurnLimit => "TURN_LIMIT",
    /// The agent or the run was cancelled.
    Cancelled => "CANCELLED",
    /// The change does not merge.
    IntegrationConflict => "INTEGRATION_CONFLICT",
    /// The host's checks failed.
    ChecksFailed => "CHECKS_FAILED",
    /// A path that the agent does not own.
    OwnershipViolation => "OWNERSHIP_VIOLATION",
    /// No definition has that name.
    UnknownAgent => "UNKNOWN_AGENT",
    /// No skill has that name.
    UnknownSkill => "UNKNOWN_SKILL",
    /// No child of the caller has that id.
    UnknownTask => "UNKNOWN_TASK",
    /// No tool has that name.
    UnknownTool => "UNKNOWN_TOOL",
    /// The input does not match its schema.
    InvalidInput => "INVALID_INPUT",
    /// The model gave no answer, or no usable one.
    ModelError => "MODEL_ERROR",
    /// The provider does not know the key, or the key may not use the model.
    Unauthenticated => "UNAUTHENTICATED",
    /// The conversation is longer than the model accepts.
    ContextOverflow => "CONTEXT_OVERFLOW",
    /// A replayed run made another model request than the recorded one.
    ReplayDiffers => "REPLAY_DIFFERS",
    /// The journal could not be written or read.
    StoreError => "STORE_ERROR",
    /// A tool failed.
    ToolError => "TOOL_ERROR",
    /// The process ended during the operation. The outcome is unknown.
    Interrupted => "INTERRUPTED",
    /// This machine or this version cannot do it.
    Unsupported => "UNSUPPORTED",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
