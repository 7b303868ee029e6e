//! The life of a run and its agents: `created -> running -> waiting_for_merge -> completed | failed -> closed`.
//!
//! Two pure parts. One file per command *decides*: it looks at the state and gives events, or a refusal.
//! [`Run::apply`] *applies* an event to the state; it is the only thing that changes it, so the state after a
//! crash, folded from the journal, is the state before it. Callers cannot express an illegal transition, and
//! one found in a journal is an error.

mod apply;
mod ask;
mod cancel;
mod close;
mod commands;
mod definitions;
mod end;
mod fail;
mod finish;
mod plan;
mod skills;
mod spawn;
mod start;
mod state;
mod status;
mod workspace;

pub use apply::Illegal;
pub use ask::{NotAnswered, Question};
pub use commands::{BASH, call_of_command, command_calls, is_host_call};
pub use definitions::{DELEGATE_TOOLS, PreparedDefinition, SkillKind, tools_of};
pub use end::{EndBlocked, RunEnd};
pub use fail::Attempt;
pub use finish::Finish;
pub use plan::{FailedStep, PlanProgress, step_number};
pub use skills::{DELEGATE_TO_AGENT, SKILL_TOOL, SkillRights};
pub use spawn::{Refusal, SpawnFrom, SpawnRequest, TASK_PROMPT_MAX_BYTES};
pub use state::{
    Cancel, ClosedAgent, FailKind, Failure, Node, OpenAgent, OpenState, Outcome, ProviderWait, Request,
    RequestState, Run,
};
pub use status::{AgentState, CloseReason, FailureReason, RunStatus};
pub use workspace::Files;

use crate::event::EventBody;
use crate::id::AgentId;

/// An event decided on, before the engine stamps its time.
pub type NewEvent = (AgentId, EventBody);

#[cfg(test)]
mod tests;
