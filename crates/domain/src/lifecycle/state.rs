//! The state of a run that events are folded into. Each variant owns its data, so no field depends on another variant.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::budget::{Amount, Deadline, Ledger, whose};
use crate::code::Code;
use crate::contract::Contract;
use crate::event::{AnsweredBy, BaseSnapshot, CancelRequested, FailedChild};
use crate::hash::Hash;
use crate::id::{AgentId, RunId};
use crate::permission::{Authority, Grant};
use crate::request::RunTerms;
use crate::text::Text;

use super::definitions::{PreparedDefinition, PreparedSkill};
use super::{AgentState, Files, PlanProgress, RunStatus};

/// The kind of an agent's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailKind {
    /// The work itself failed.
    Execution,
    /// A rule denied it.
    Policy,
    /// An attempt, turn or idle timeout passed.
    Timeout,
    /// Tokens, money, agents or wall time ran out.
    Budget,
    /// The work was not accepted.
    Integration,
    Cancelled,
}

impl FailKind {
    /// Whether another attempt can help.
    pub fn is_retried(self) -> bool {
        matches!(self, FailKind::Execution | FailKind::Timeout)
    }

    /// The kind's wire name.
    pub fn as_str(self) -> &'static str {
        match self {
            FailKind::Execution => "execution",
            FailKind::Policy => "policy",
            FailKind::Timeout => "timeout",
            FailKind::Budget => "budget",
            FailKind::Integration => "integration",
            FailKind::Cancelled => "cancelled",
        }
    }

    /// The kind's default code, if no more precise one is known.
    pub fn code(self) -> Code {
        match self {
            FailKind::Execution => Code::SubagentError,
            FailKind::Policy => Code::PermissionDenied,
            FailKind::Timeout => Code::Timeout,
            FailKind::Budget => Code::BudgetExhausted,
            FailKind::Integration => Code::IntegrationConflict,
            FailKind::Cancelled => Code::Cancelled,
        }
    }
}

/// A failure, with the report that could still be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub kind: FailKind,
    pub code: Code,
    /// The reason for users.
    pub reason: String,
    /// The report, if the agent could still write one.
    pub report: Option<Text>,
}

/// A cancel request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancel {
    pub by: String,
    pub reason: String,
    /// Ends at once, without a grace period.
    pub kill: bool,
}

impl Cancel {
    pub(super) fn of(requested: &CancelRequested) -> Self {
        Self { by: requested.by.clone(), reason: requested.reason.clone(), kill: requested.kill }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum OpenState {
    /// The agent waits to start.
    Created {
        /// Whether the journal has the wait.
        queued: bool,
    },
    /// An attempt is under way.
    Running {
        /// The attempt's number, from 1.
        attempt: u32,
    },
    /// The agent ended its work.
    WaitingForMerge {
        report: Text,
    },
    Completed {
        report: Text,
    },
    Failed(Failure),
}

impl OpenState {
    pub fn name(&self) -> AgentState {
        match self {
            OpenState::Created { .. } => AgentState::Created,
            OpenState::Running { .. } => AgentState::Running,
            OpenState::WaitingForMerge { .. } => AgentState::WaitingForMerge,
            OpenState::Completed { .. } => AgentState::Completed,
            OpenState::Failed(_) => AgentState::Failed,
        }
    }
}

#[derive(Debug, Clone)]
pub struct OpenAgent {
    pub contract: Arc<Contract>,
    pub authority: Authority,
    pub prepared: Arc<PreparedDefinition>,
    pub state: OpenState,
    /// The parent's call that requested the agent. Empty for the root.
    pub call_id: Arc<str>,
    /// Whether the parent continues without waiting.
    pub background: bool,
    /// Whether the agent's tools can write files or execute programs.
    pub writer: bool,
    /// Whether the agent, or a closed child, may have changed files in place.
    pub changed: bool,
    /// The agent's workspace and the state of its work.
    pub files: Files,
    /// How many child numbers are used.
    pub children: u32,
    /// The numbers of the children that are not closed.
    pub open_children: BTreeSet<u32>,
    /// Set once the agent is cancelled.
    pub cancel: Option<Cancel>,
    /// The reservation of the model call in flight.
    pub calling: Option<Amount>,
    /// Set while the agent waits for its model's provider.
    pub provider_wait: Option<ProviderWait>,
    pub created_at_ms: i64,
    /// The deadline from the agent's own wall time.
    pub deadline: Deadline,
    /// Questions about the agent's calls in progress, by call id. Removed with the call's result.
    pub questions: BTreeMap<String, AskedQuestion>,
    /// The skills that a user allowed when a rule asked.
    pub consented_skills: BTreeSet<String>,
}

/// A wait for the provider of an agent's model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderWait {
    pub provider: String,
    /// The reason for users.
    pub reason: String,
    pub since_ms: i64,
    /// The expected end.
    pub until_ms: i64,
    /// The number of the event that began it.
    pub seq: u64,
}

/// A question about one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedQuestion {
    /// The operation, `tool:specifier`.
    pub operation: String,
    /// The hash that an answer must name.
    pub approval: Hash,
    /// Whether a hook asked. Then no rule answers the question.
    pub by_hook: bool,
    pub state: QuestionState,
    /// The number of the event that asks.
    pub seq: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuestionState {
    Open,
    Allowed,
    /// A user, or the host, denied the call.
    Denied {
        by: AnsweredBy,
        /// The reason for users.
        reason: Option<String>,
    },
}

/// The data that is kept about a closed agent.
#[derive(Debug, Clone)]
pub struct ClosedAgent {
    pub prepared: Arc<PreparedDefinition>,
    /// For a child that continues this agent.
    pub grant: Grant,
    /// The skill that the agent was forked with, for a child that continues it.
    pub skill: Option<String>,
    /// None if the agent completed.
    pub failure: Option<FailedChild>,
    pub fail_kind: Option<FailKind>,
    /// Whether the agent's failure fails the run.
    pub required: bool,
    /// The failed child that this agent was to repair.
    pub repairs: Option<AgentId>,
    /// Whether the agent reached its turn limit.
    pub turns_exhausted: bool,
}

#[derive(Debug, Clone)]
pub enum Node {
    Open(Box<OpenAgent>),
    Closed(Box<ClosedAgent>),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The root ended its work, and no required child failed.
    Completed {
        /// The root's report.
        text: Text,
    },
    /// The root or a required child failed.
    Failed {
        /// The kind of failure.
        kind: FailKind,
        code: Code,
        /// The reason for users.
        reason: String,
        /// The root's last text.
        text: Option<Text>,
    },
    /// The run was cancelled before the root ended.
    Cancelled {
        /// The reason for users.
        reason: String,
    },
}

impl Outcome {
    /// The run's final status.
    pub fn status(&self) -> RunStatus {
        match self {
            Outcome::Completed { .. } => RunStatus::Completed,
            Outcome::Failed { .. } => RunStatus::Failed,
            Outcome::Cancelled { .. } => RunStatus::Cancelled,
        }
    }
}

/// The state of a run: a fold over its events.
#[derive(Debug)]
pub struct Run {
    pub id: RunId,
    /// The user's request.
    pub request: Text,
    pub terms: RunTerms,
    /// The working directory.
    pub dir: String,
    /// The snapshot that the run started from. None if it has no workspaces.
    pub base: Option<BaseSnapshot>,
    pub session_id: Option<String>,
    pub started_at_ms: i64,
    /// The definitions at the start of the run.
    pub definitions: BTreeMap<String, Arc<PreparedDefinition>>,
    /// The skills at the start of the run.
    pub skills: BTreeMap<String, Arc<PreparedSkill>>,
    /// The project's instructions for agents (`AGENTS.md`).
    pub agents_md: Option<Arc<str>>,
    /// The conversation that the root begins with, as JSON, if it continues an agent of an earlier run.
    pub continued: Option<Arc<str>>,
    pub ledger: Ledger,
    /// The failed children, in the order of their failures.
    pub failed: Vec<FailedChild>,
    /// Failed children that a later child repaired.
    pub repaired: BTreeSet<AgentId>,
    /// The plan that the host executes, and its progress.
    pub planned: Option<PlanProgress>,
    /// Names of definitions that exist, but that no agent of this run may use.
    pub out_of_reach: Vec<String>,
    /// Set by the end of the run.
    pub outcome: Option<Outcome>,
    pub(super) agents: HashMap<AgentId, Node>,
    pub(super) open_count: usize,
    /// The agents that wait for a user.
    pub(super) asking: BTreeSet<AgentId>,
    /// The number of the last event that was applied.
    pub(super) seq: u64,
    /// The numbers of the answers of "always" and of their questions.
    pub(super) always_answers: Vec<u64>,
    /// The numbers of the plan's event and of the events that created or refused the children of its steps.
    pub(super) plan_events: Vec<u64>,
}

impl Run {
    pub fn get(&self, id: &AgentId) -> Option<&Node> {
        self.agents.get(id)
    }

    pub fn open(&self, id: &AgentId) -> Option<&OpenAgent> {
        match self.agents.get(id) {
            Some(Node::Open(agent)) => Some(agent),
            _ => None,
        }
    }

    pub fn closed(&self, id: &AgentId) -> Option<&ClosedAgent> {
        match self.agents.get(id) {
            Some(Node::Closed(agent)) => Some(agent),
            _ => None,
        }
    }

    /// How many agents were ever created, the root included.
    pub fn agent_count(&self) -> usize {
        self.agents.len()
    }

    /// How many agents are open, the root included.
    pub fn open_count(&self) -> usize {
        self.open_count
    }

    /// Every agent, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&AgentId, &Node)> {
        self.agents.iter()
    }

    /// The open agents, parents before children, siblings by number.
    pub fn open_in_order(&self) -> Vec<AgentId> {
        let mut order = Vec::with_capacity(self.open_count);
        let mut pending = vec![self.id.root()];
        while let Some(id) = pending.pop() {
            let Some(agent) = self.open(&id) else { continue };
            // Pushed in reverse, so that the smallest number is popped first.
            pending.extend(agent.open_children.iter().rev().map(|&number| id.child(number)));
            order.push(id);
        }
        order
    }

    /// Looks up a definition, ignoring the case of its name.
    pub fn prepared_definition(&self, name: &str) -> Option<&Arc<PreparedDefinition>> {
        self.definitions.get(name).or_else(|| self.definitions.get(&name.to_ascii_lowercase()))
    }

    /// Looks up a skill, ignoring the case of its name.
    pub fn skill(&self, name: &str) -> Option<&Arc<PreparedSkill>> {
        self.skills.get(name).or_else(|| self.skills.get(&name.to_ascii_lowercase()))
    }

    /// Whether the agent or an ancestor is cancelled.
    pub fn is_cancelled(&self, id: &AgentId) -> bool {
        let mut at = Some(id.clone());
        while let Some(id) = at {
            if self.open(&id).is_some_and(|agent| agent.cancel.is_some()) {
                return true;
            }
            at = id.parent();
        }
        false
    }

    /// A note for the agent if most of its own budget, or of an ancestor's, is spent.
    pub fn low_budget(&self, id: &AgentId, now_ms: i64) -> Option<String> {
        if let Some(low) = self.ledger.low(id) {
            return Some(low.to_string());
        }
        let now_ms = u64::try_from(now_ms).unwrap_or(0);
        let mut at = Some(id.clone());
        while let Some(id) = at {
            if self.open(&id).is_some_and(|agent| agent.deadline.is_low(now_ms)) {
                return Some("the time limit is used".to_owned());
            }
            at = id.parent();
        }
        None
    }

    /// The agent's deadline as of now: its own, or the time at which its parent has to write its report, whichever is
    /// earlier. An agent ends before its parent reports.
    pub fn deadline_ms(&self, id: &AgentId, now_ms: i64) -> Option<i64> {
        let above = self.report_above_ms(id, now_ms);
        let now_ms = u64::try_from(now_ms).unwrap_or(0);
        self.open(id)?.deadline.at_ms(above, now_ms).and_then(|at| i64::try_from(at).ok())
    }

    /// The time at which the agent has to stop working and write its report, as of now.
    pub fn report_at_ms(&self, id: &AgentId, now_ms: i64) -> Option<i64> {
        let above = self.report_above_ms(id, now_ms);
        let now_ms = u64::try_from(now_ms).unwrap_or(0);
        self.open(id)?.deadline.report_at_ms(above, now_ms).and_then(|at| i64::try_from(at).ok())
    }

    fn report_above_ms(&self, id: &AgentId, now_ms: i64) -> Option<u64> {
        let above = id.parent().and_then(|parent| self.report_at_ms(&parent, now_ms));
        above.and_then(|at| u64::try_from(at).ok())
    }

    /// Whose wall time ends the agent and how much it is. Models read the words, so they are the same in every run.
    pub fn time_used_up(&self, id: &AgentId, now_ms: i64) -> String {
        let clock_ms = u64::try_from(now_ms).unwrap_or(0);
        let mut owner = id.clone();
        while let Some(parent) = owner.parent() {
            let own = self.open(&owner).and_then(|agent| agent.deadline.at_ms(None, clock_ms));
            let bound = self.deadline_ms(&owner, now_ms).and_then(|at| u64::try_from(at).ok());
            if own.is_some() && own == bound {
                break;
            }
            owner = parent;
        }
        let wall_ms = self.open(&owner).and_then(|agent| agent.deadline.wall_ms()).unwrap_or(0);
        format!("the wall time of {} is used up: its limit is {wall_ms} ms", whose(&owner))
    }
}
