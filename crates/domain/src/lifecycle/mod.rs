//! The lifecycle of a run and its agents: `created -> running -> waiting_for_merge -> completed | failed -> closed`.
//!
//! It has two pure parts. One file per command *decides*: it reads the state and returns events, or the reason for a
//! refusal. [`Run::apply`] *applies* an event to the state. Nothing else changes the state, so the state that is folded
//! from the journal after a crash equals the state before it. Callers cannot express an illegal transition, and a
//! journal with one is an error.

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
mod refused;
mod skills;
mod spawn;
mod start;
mod state;
mod status;
mod workspace;

pub use apply::IllegalEvent;
pub use ask::{NotAnswered, Question};
pub use commands::{call_of_command, command_calls, is_host_call};
pub use definitions::{DELEGATE_TOOLS, PreparedDefinition, PreparedSkill, tools_of};
pub use end::RunEnd;
pub use fail::Attempt;
pub use finish::Finish;
pub use plan::{FailedStep, PlanProgress, step_number};
pub use refused::CommandRefused;
pub use skills::{DELEGATE_TO_AGENT, SKILL_TOOL, SkillRights, TASK_TOOL};
pub use spawn::{Refusal, SpawnFrom, SpawnRequest, TASK_PROMPT_MAX_BYTES};
pub use state::{
    AskedQuestion, Cancel, ClosedAgent, FailKind, Failure, Node, OpenAgent, OpenState, Outcome, ProviderWait,
    QuestionState, Run,
};
pub use status::{AgentState, CloseReason, FailureReason, RunStatus, cancelled, with_code};
pub use workspace::Files;

use crate::event::EventBody;
use crate::id::AgentId;

/// An event before the engine stamps its time.
pub type NewEvent = (AgentId, EventBody);

#[cfg(test)]
mod tests;
