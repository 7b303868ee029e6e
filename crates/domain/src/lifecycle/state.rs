//! The state of a run. Variants own their data: nothing is "only set when".

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::budget::{Amount, Deadline, Ledger, whose};
use crate::code::Code;
use crate::contract::Contract;
use crate::event::{AnsweredBy, BaseSnapshot, FailedChild};
use crate::hash::Hash;
use crate::id::{AgentId, RunId};
use crate::permission::{Authority, Grant};
use crate::request::RunTerms;
use crate::text::Text;

use super::definitions::{PreparedDefinition, SkillKind};
use super::{AgentState, Files, PlanProgress, RunStatus};

/// Why an agent failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailKind {
    /// The work went wrong.
    Execution,
    /// A rule forbade it.
    Policy,
    /// An attempt, turn or idle timeout passed.
    Timeout,
    /// Tokens, money, agents or wall time ran out.
    Budget,
    /// The work was not accepted.
    Integration,
    /// Somebody cancelled it.
    Cancelled,
}

impl FailKind {
    /// Whether another attempt can help.
    pub fn is_retried(self) -> bool {
        matches!(self, FailKind::Execution | FailKind::Timeout)
    }

    /// The kind as it is written everywhere.
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

    /// The code that goes with the kind where nothing more precise is known.
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

/// A failure, with what could still be reported.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The kind.
    pub kind: FailKind,
    /// Why, as a word.
    pub code: Code,
    /// Why, for people.
    pub reason: String,
    /// What the agent could still report.
    pub report: Option<Text>,
}

/// That an agent is to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancel {
    /// Who asked.
    pub by: String,
    /// Why.
    pub reason: String,
    /// At once, without grace.
    pub kill: bool,
}

/// The state of an agent that is not closed.
#[derive(Debug, Clone, PartialEq)]
pub enum OpenState {
    /// Waits to start; `queued` once that was said.
    Created {
        /// Whether the wait is in the journal.
        queued: bool,
    },
    /// An attempt is under way.
    Running {
        /// Which, from 1.
        attempt: u32,
    },
    /// Ended its work.
    WaitingForMerge {
        /// The report.
        report: Text,
    },
    /// Accepted.
    Completed {
        /// The report.
        report: Text,
    },
    /// Failed.
    Failed(Failure),
}

impl OpenState {
    /// The state's name.
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

/// An agent that is not closed.
#[derive(Debug, Clone)]
pub struct OpenAgent {
    /// Its terms.
    pub contract: Arc<Contract>,
    /// What it may do.
    pub authority: Authority,
    /// Its kind.
    pub kind: Arc<PreparedDefinition>,
    /// Where it stands.
    pub state: OpenState,
    /// The parent's call that asked for it; empty for the root.
    pub call_id: Arc<str>,
    /// Whether its parent went on without waiting.
    pub background: bool,
    /// Whether it can write or execute.
    pub writer: bool,
    /// Whether it, or a child of it that closed, may have changed files in place.
    pub changed: bool,
    /// Where it works, and what became of its work.
    pub files: Files,
    /// How many child numbers are used.
    pub children: u32,
    /// The children that are not closed.
    pub open_children: BTreeSet<u32>,
    /// Set once it is to end.
    pub cancel: Option<Cancel>,
    /// The model call under way, with what it set aside.
    pub calling: Option<Amount>,
    /// What it waits for, if that is the provider of its model.
    pub provider_wait: Option<ProviderWait>,
    /// When it was created.
    pub created_at_ms: i64,
    /// When its own wall time is up.
    pub deadline: Deadline,
    /// What it asked a person about its calls under way, by call; gone with a call's result.
    pub requests: BTreeMap<String, Request>,
    /// The skills that a person let it use when a rule asked.
    pub consented_skills: BTreeSet<String>,
}

/// A wait for the provider of an agent's model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderWait {
    /// Who is waited for.
    pub provider: String,
    /// Why, for people.
    pub reason: String,
    /// When it began.
    pub since_ms: i64,
    /// When it is thought to end.
    pub until_ms: i64,
}

/// A question about one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `tool:specifier`.
    pub operation: String,
    /// What an answer must name.
    pub approval: Hash,
    /// Whether a hook asked: then no rule answers it.
    pub by_hook: bool,
    /// Where it stands.
    pub state: RequestState,
}

/// Where a question stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestState {
    /// Nobody has answered.
    Open,
    /// Yes.
    Allowed,
    /// No.
    Denied {
        /// Who says so.
        by: AnsweredBy,
        /// Why.
        reason: Option<String>,
    },
}

/// What is kept of a closed agent.
#[derive(Debug, Clone)]
pub struct ClosedAgent {
    /// Its kind.
    pub kind: Arc<PreparedDefinition>,
    /// Its grant, for a child that continues it.
    pub grant: Grant,
    /// The skill that it carried out, for the same.
    pub skill: Option<String>,
    /// How it ended; none is completed.
    pub failure: Option<FailedChild>,
    /// Its kind of failure.
    pub fail_kind: Option<FailKind>,
    /// Whether its failure fails the run.
    pub required: bool,
    /// The failed child that it was to repair.
    pub repairs: Option<AgentId>,
    /// Whether it ran out of turns.
    pub turns_exhausted: bool,
}

/// An agent.
#[derive(Debug, Clone)]
pub enum Node {
    /// Not closed.
    Open(Box<OpenAgent>),
    /// Closed.
    Closed(Box<ClosedAgent>),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Well.
    Completed {
        /// The root's report.
        text: Text,
    },
    /// Badly.
    Failed {
        /// The kind.
        kind: FailKind,
        /// Why, as a word.
        code: Code,
        /// Why, for people.
        reason: String,
        /// The root's last words.
        text: Option<Text>,
    },
    /// Cancelled.
    Cancelled {
        /// Why.
        reason: String,
    },
}

impl Outcome {
    /// The status that the run has from now on.
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
    /// Its id.
    pub id: RunId,
    /// What the user asked for.
    pub request: Text,
    /// Limits and rules of the whole run.
    pub terms: RunTerms,
    /// The working directory.
    pub dir: String,
    /// The files it started from; none if it works in place.
    pub base: Option<BaseSnapshot>,
    /// The embedder's session.
    pub session_id: Option<String>,
    /// When it started.
    pub started_at_ms: i64,
    /// The definitions it started with.
    pub kinds: BTreeMap<String, Arc<PreparedDefinition>>,
    /// The skills it started with.
    pub skills: BTreeMap<String, Arc<SkillKind>>,
    /// The project's instructions for agents.
    pub agents_md: Option<Arc<str>>,
    /// The spending of the whole tree.
    pub ledger: Ledger,
    /// The children that failed, in the order of their failing.
    pub failed: Vec<FailedChild>,
    /// Failed children that a later child repaired.
    pub repaired: BTreeSet<AgentId>,
    /// The plan that the host carries out, and how far it is.
    pub planned: Option<PlanProgress>,
    /// Definitions that exist and that no agent of this run may be.
    pub out_of_reach: Vec<String>,
    /// Set by the end of the run.
    pub outcome: Option<Outcome>,
    /// In a replay, what agents know the root's model as: the recorded one. Not of its events; only requests are decided by it.
    pub recorded_model: Option<String>,
    pub(super) agents: HashMap<AgentId, Node>,
    pub(super) open_count: usize,
    /// The agents that wait for a person.
    pub(super) asking: BTreeSet<AgentId>,
}

impl Run {
    /// The agent, if it exists.
    pub fn get(&self, id: &AgentId) -> Option<&Node> {
        self.agents.get(id)
    }

    /// The agent, if it is not closed.
    pub fn open(&self, id: &AgentId) -> Option<&OpenAgent> {
        match self.agents.get(id) {
            Some(Node::Open(agent)) => Some(agent),
            _ => None,
        }
    }

    /// The agent, if it is closed.
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

    /// How many agents are not closed, the root included.
    pub fn open_count(&self) -> usize {
        self.open_count
    }

    /// Every agent, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&AgentId, &Node)> {
        self.agents.iter()
    }

    /// The agents that are not closed, parents before children, siblings by number.
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

    /// The definition of that name, whatever its case.
    pub fn prepared_definition(&self, name: &str) -> Option<&Arc<PreparedDefinition>> {
        self.kinds.get(name).or_else(|| self.kinds.get(&name.to_ascii_lowercase()))
    }

    /// The skill of that name, whatever its case.
    pub fn skill(&self, name: &str) -> Option<&Arc<SkillKind>> {
        self.skills.get(name).or_else(|| self.skills.get(&name.to_ascii_lowercase()))
    }

    /// Whether the agent or one above it is to end.
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

    /// What the agent should know of its budgets: most of one is used, its own or that of one above it.
    pub fn low_budget(&self, id: &AgentId, now_ms: i64) -> Option<String> {
        if let Some(low) = self.ledger.low(id) {
            return Some(low.to_string());
        }
        let now_ms = u64::try_from(now_ms).unwrap_or(0);
        let mut at = Some(id.clone());
        while let Some(id) = at {
            if self.open(&id).is_some_and(|agent| agent.deadline.is_low(now_ms)) {
                return Some("the time there is for this is used".to_owned());
            }
            at = id.parent();
        }
        None
    }

    /// When the agent's time is up as of now: its own deadline, or the moment at which the agent above it has to write
    /// its report, whichever comes first. An agent has ended by the time its parent reports.
    pub fn deadline_ms(&self, id: &AgentId, now_ms: i64) -> Option<i64> {
        let above = self.report_above_ms(id, now_ms);
        let now_ms = u64::try_from(now_ms).unwrap_or(0);
        self.open(id)?.deadline.at_ms(above, now_ms).and_then(|at| i64::try_from(at).ok())
    }

    /// When the agent has to stop working and write its report as of now.
    pub fn report_at_ms(&self, id: &AgentId, now_ms: i64) -> Option<i64> {
        let above = self.report_above_ms(id, now_ms);
        let now_ms = u64::try_from(now_ms).unwrap_or(0);
        self.open(id)?.deadline.report_at_ms(above, now_ms).and_then(|at| i64::try_from(at).ok())
    }

    fn report_above_ms(&self, id: &AgentId, now_ms: i64) -> Option<u64> {
        let above = id.parent().and_then(|parent| self.report_at_ms(&parent, now_ms));
        above.and_then(|at| u64::try_from(at).ok())
    }

    /// Whose wall time is used up when the agent's is, and how much that is, in words that are the same in every run.
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
