//! Stable error codes: what went wrong, as a word that scripts and models can rely on.

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
            /// Every code there is, with what it means.
            pub const MEANINGS: &'static [(Code, &'static str)] = &[$((Code::$variant, $doc)),*];

            /// The code as it is written everywhere.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $text,)* }
            }

            /// Reads what [`as_str`](Self::as_str) writes.
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
    /// A rule or the grant forbids it.
    PermissionDenied => "PERMISSION_DENIED",
    /// An attempt, turn or idle timeout passed.
    Timeout => "TIMEOUT",
    /// Tokens, money, agents or wall time ran out.
    BudgetExhausted => "BUDGET_EXHAUSTED",
    /// Somebody cancelled it.
    Cancelled => "CANCELLED",
    /// The change does not merge.
    IntegrationConflict => "INTEGRATION_CONFLICT",
    /// The host's checks failed.
    ChecksFailed => "CHECKS_FAILED",
    /// A path outside what the agent owns.
    OwnershipViolation => "OWNERSHIP_VIOLATION",
    /// No definition of that name.
    UnknownAgent => "UNKNOWN_AGENT",
    /// No skill of that name.
    UnknownSkill => "UNKNOWN_SKILL",
    /// No child of the caller with that id.
    UnknownTask => "UNKNOWN_TASK",
    /// No tool of that name.
    UnknownTool => "UNKNOWN_TOOL",
    /// The input does not fit its schema.
    InvalidInput => "INVALID_INPUT",
    /// The model did not answer, or not usably.
    ModelError => "MODEL_ERROR",
    /// The provider does not know the key, or the key may not use the model.
    Unauthenticated => "UNAUTHENTICATED",
    /// The conversation is longer than the model takes.
    ContextOverflow => "CONTEXT_OVERFLOW",
    /// A replayed run asked its model for something else than the recorded one did.
    ReplayDiffers => "REPLAY_DIFFERS",
    /// The journal could not be written or read.
    StoreError => "STORE_ERROR",
    /// A tool failed.
    ToolError => "TOOL_ERROR",
    /// The process ended in the middle; the outcome is unknown.
    Interrupted => "INTERRUPTED",
    /// Asked for something that is not built.
    Unsupported => "UNSUPPORTED",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
