//! API types of runs and their agents.

use jiff::tz::TimeZone;
use posse_domain::code::Code;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MergeConflict, RunExit, Usage, timestamp};
use crate::view::{self, ContinuedAgent, RunFigures, ShownStatus, SpendingTotal, StepView};
use crate::{AgentView, FailKind, Figures, RunOutcome, RunResult, RunView};

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// A process executes it.
    Running,
    /// It has not ended, and no process executes it.
    Interrupted,
    /// It ended with an accepted result.
    Completed,
    /// It ended without an accepted result.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl From<crate::RunStatus> for RunStatus {
    fn from(status: crate::RunStatus) -> Self {
        match status {
            crate::RunStatus::Running => Self::Running,
            crate::RunStatus::Completed => Self::Completed,
            crate::RunStatus::Failed => Self::Failed,
            crate::RunStatus::Cancelled => Self::Cancelled,
        }
    }
}

impl From<ShownStatus> for RunStatus {
    fn from(status: ShownStatus) -> Self {
        match status {
            ShownStatus::Interrupted => Self::Interrupted,
            ShownStatus::Recorded(status) => status.into(),
        }
    }
}

/// Why an agent closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CloseReason {
    /// Its work was accepted.
    Integrated,
    /// The work failed.
    Execution,
    /// A rule forbade the work.
    Policy,
    /// An attempt, turn or idle timeout passed.
    Timeout,
    /// Tokens, money, agents or wall time ran out.
    Budget,
    /// The work was not accepted.
    Integration,
    /// It was cancelled.
    Cancelled,
}

impl From<crate::CloseReason> for CloseReason {
    fn from(reason: crate::CloseReason) -> Self {
        match reason {
            crate::CloseReason::Integrated => Self::Integrated,
            crate::CloseReason::Failed(kind) => match kind {
                FailKind::Execution => Self::Execution,
                FailKind::Policy => Self::Policy,
                FailKind::Timeout => Self::Timeout,
                FailKind::Budget => Self::Budget,
                FailKind::Integration => Self::Integration,
                FailKind::Cancelled => Self::Cancelled,
            },
        }
    }
}

/// A started run that another process executes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunReference {
    /// The run's id.
    pub run: String,
}

impl RunReference {
    /// Refers to this run.
    pub fn new(run: &str) -> Self {
        Self { run: run.to_owned() }
    }
}

/// A child that failed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FailedAgent {
    /// The child's id.
    pub id: String,
    /// The code of the failure, for programs.
    pub code: Code,
    /// The reason in words.
    pub reason: String,
}

/// What refused an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RefusedBy {
    /// A rule, a definition or a contract denies it.
    Rule,
    /// It needs an approval, and no user could be asked.
    NoApprover,
    /// A user denied it.
    User,
    /// A hook denied it.
    Hook,
    /// The agent does not own the path.
    Ownership,
    /// The agent does not have the tool, or may not have children.
    Grant,
    /// Something that no rule allows: a protected name, a path outside of the workspace, a host that tools may not reach.
    Policy,
    /// This machine has no sandbox for the command.
    Sandbox,
}

impl From<view::RefusedBy> for RefusedBy {
    fn from(by: view::RefusedBy) -> Self {
        match by {
            view::RefusedBy::Rule => Self::Rule,
            view::RefusedBy::NoApprover => Self::NoApprover,
            view::RefusedBy::User => Self::User,
            view::RefusedBy::Hook => Self::Hook,
            view::RefusedBy::Ownership => Self::Ownership,
            view::RefusedBy::Grant => Self::Grant,
            view::RefusedBy::Policy => Self::Policy,
            view::RefusedBy::Sandbox => Self::Sandbox,
        }
    }
}

/// An operation that was refused.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RefusedCall {
    /// The agent that requested it.
    pub agent: String,
    /// The operation, as `tool:specifier`; only the tool if the specifier is unknown.
    pub operation: String,
    /// The code of the call's result.
    pub code: Code,
    /// What refused it.
    pub by: RefusedBy,
    /// The source of the refusal in words.
    pub reason: String,
    /// When it was refused.
    pub at: String,
    /// The number of the event that ended the call.
    pub seq: u64,
}

impl From<&view::RefusedOperation> for RefusedCall {
    fn from(refused: &view::RefusedOperation) -> Self {
        Self {
            agent: refused.agent.to_string(),
            operation: refused.operation.clone(),
            code: refused.code,
            by: refused.by.into(),
            reason: refused.reason.clone(),
            at: timestamp(refused.at_ms),
            seq: refused.seq,
        }
    }
}

/// How the model requests of a replay compare with those of the recorded run.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
pub struct ReplayVerdict {
    /// How many requests were the recorded ones.
    pub same: u64,
    /// How many requests were recorded; null if the recording is gone.
    pub recorded: Option<u64>,
    /// Whether a request differed, which ended the replay.
    pub differs: bool,
}

impl From<crate::ReplayVerdict> for ReplayVerdict {
    fn from(verdict: crate::ReplayVerdict) -> Self {
        let crate::ReplayVerdict { same, recorded, differs } = verdict;
        Self { same, recorded, differs }
    }
}

/// Distinguishes an outcome from the events before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeType {
    /// The object is the outcome of a run.
    Result,
}

/// How a run ended.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// `result`, which distinguishes it from the events before it.
    pub r#type: OutcomeType,
    /// The run's id.
    pub run: String,
    /// `completed`, `failed` or `cancelled`.
    pub status: RunStatus,
    /// The root's report; if the run failed without one, the reason.
    pub text: String,
    /// The code of the failure or cancellation, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The reason of the failure or cancellation in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What all agents spent.
    pub usage: Usage,
    /// Whether it is a replay: nothing was spent, and `usage` is that of the recorded run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replay: bool,
    /// How a replay compares with the recorded run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_verdict: Option<ReplayVerdict>,
    /// How long the run took.
    pub elapsed_ms: u64,
    /// The turns of all agents.
    pub turns: u64,
    /// The number of agents in the run.
    pub agents: u64,
    /// The children that failed.
    pub failed: Vec<FailedAgent>,
    /// Whether the root ran out of turns.
    pub turns_exhausted: bool,
    /// The sub-agents that completed, but ran out of turns.
    pub turn_limited: Vec<String>,
    /// The first operations that were refused.
    pub refused: Vec<RefusedCall>,
    /// How many operations were refused in total.
    pub refused_count: u64,
    /// The sub-agents that completed and can change files, but changed none.
    pub unchanged: Vec<String>,
    /// The run's changes to files, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<RunResult>,
    /// The disk usage of its workspaces, if it changed files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    /// Whether the result was applied to the user's directory, if that was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied: Option<bool>,
    /// The exit code of the command.
    pub exit: u8,
}

impl Outcome {
    /// Converts the outcome of a run. `applied` says whether it was applied, if that was requested.
    pub fn new(finished: &RunOutcome, applied: Option<bool>) -> Self {
        let why = if finished.text.is_empty() { finished.why() } else { None };
        let failed = finished.failed.iter().map(|child| FailedAgent {
            id: child.id.to_string(),
            code: child.code,
            reason: child.reason.clone(),
        });
        Self {
            r#type: OutcomeType::Result,
            run: finished.run.to_string(),
            status: finished.status.into(),
            text: why.unwrap_or_else(|| finished.text.clone()),
            code: finished.failure.as_ref().map(|failure| failure.code),
            reason: finished.failure.as_ref().map(|failure| failure.reason.clone()),
            usage: (&finished.usage).into(),
            replay: finished.is_replay,
            replay_verdict: finished.replay.map(Into::into),
            elapsed_ms: finished.elapsed_ms,
            turns: finished.turns,
            agents: finished.agents,
            failed: failed.collect(),
            turns_exhausted: finished.turns_exhausted,
            turn_limited: finished.turn_limited.iter().map(|child| child.id.to_string()).collect(),
            refused: finished.refused.iter().map(RefusedCall::from).collect(),
            refused_count: finished.refused.count(),
            unchanged: finished.unchanged.iter().map(ToString::to_string).collect(),
            result: finished.result.clone(),
            disk_bytes: finished.disk_bytes,
            applied,
            exit: RunExit::of(finished, applied).code(),
        }
    }
}

/// A run in a list.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunSummary {
    /// The run's id.
    pub run: String,
    /// The run's current status.
    pub status: RunStatus,
    /// The first line of its request.
    pub request: String,
    /// The definition of its root.
    pub definition: String,
    /// The model of its root.
    pub model: String,
    /// Its working directory.
    pub dir: String,
    /// The number of agents in the run.
    pub agents: u64,
    /// The number of events in its journal.
    pub events: u64,
    /// When it started.
    pub created_at: String,
    /// When it ended.
    pub ended_at: Option<String>,
    /// How long it took, or has taken so far; of an interrupted run, for how long its process is known to have lived.
    pub wall_ms: u64,
    /// What all agents spent.
    pub usage: Usage,
    /// Whether it is a replay: nothing was spent, and `usage` is that of the recorded run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replay: bool,
    /// The id of the process that executes it; null if none does, or if it is on another machine.
    pub pid: Option<u32>,
    /// The label of the process that executes it, on any machine; null if none does.
    pub holder: Option<String>,
    /// How many calls wait for an approver.
    pub waiting: usize,
    /// Whether it ended because its root or a required sub-agent ran out of turns.
    pub turns_exhausted: bool,
    /// The agent of an earlier run that it continues or retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<String>,
    /// Whether it retries the work of that agent, instead of continuing its conversation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retry: bool,
}

impl RunSummary {
    /// Converts a run of a list as of `now_ms`, with the agent that it continues.
    pub fn new(listed: &crate::ListedRun, continues: Option<&ContinuedAgent>, now_ms: i64) -> Self {
        let crate::ListedRun { run, blocked, is_turn_limited, usage, is_cost_unknown, .. } = listed;
        Self {
            run: run.run.to_string(),
            status: run.shown_status().into(),
            request: run.title.clone(),
            definition: run.definition.clone(),
            model: run.model.clone(),
            dir: run.dir.clone(),
            agents: run.agents,
            events: run.events,
            created_at: timestamp(run.created_at_ms),
            ended_at: run.ended_at_ms.map(timestamp),
            wall_ms: listed.wall_ms(now_ms),
            usage: Usage::new(usage, *is_cost_unknown),
            replay: listed.is_replay(),
            pid: run.holder.as_ref().and_then(|holder| holder.pid),
            holder: run.holder.as_ref().map(|holder| holder.label.clone()),
            waiting: blocked.questions().len(),
            turns_exhausted: *is_turn_limited,
            continues: continues.map(|continued| continued.agent.to_string()),
            retry: continues.is_some_and(|continued| continued.is_retry),
        }
    }
}

/// What a blocked agent waits for.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum BlockedOn {
    /// An answer to its oldest open question.
    Approver {
        /// The id of the call that it asks about.
        call_id: String,
        /// The operation of the call, as `tool:specifier`.
        operation: String,
        /// How many more open questions it has.
        more: usize,
        /// Whether the question was answered, but no process executes the run yet.
        answered: bool,
    },
    /// The provider of its model.
    Provider {
        /// The provider's name.
        provider: String,
        /// Why it waits, as the provider or the client states it.
        reason: String,
        /// When the wait is expected to end.
        until: String,
    },
}

impl From<view::BlockedOn<'_>> for BlockedOn {
    fn from(blocked: view::BlockedOn<'_>) -> Self {
        match blocked {
            view::BlockedOn::Approver { question, more } => Self::Approver {
                call_id: question.asked.call_id.clone(),
                operation: question.asked.operation.clone(),
                more,
                answered: question.is_answered,
            },
            view::BlockedOn::Provider(wait) => Self::Provider {
                provider: wait.provider.clone(),
                reason: wait.reason.clone(),
                until: timestamp(wait.until_ms),
            },
        }
    }
}

/// An agent of a run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Agent {
    /// The agent's id.
    pub id: String,
    /// The agent that created it; null for the root.
    pub parent: Option<String>,
    /// Its distance from the root, which has depth 0.
    pub depth: u32,
    /// The name of its definition.
    pub definition: String,
    /// The description that its parent gave, or the first line of the request.
    pub title: String,
    /// Its model, `provider/model`.
    pub model: String,
    /// The skill that it executes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    /// The state of its lifecycle.
    pub state: crate::AgentState,
    /// How it ended.
    pub final_status: Option<crate::FinalStatus>,
    /// `integrated`, or the kind of its failure.
    pub close_reason: Option<CloseReason>,
    /// The code of its failure or cancellation, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The reason of its failure or cancellation in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its own turns, without its children's.
    pub turns: u64,
    /// Its limit of turns, for each attempt; null if there is none.
    #[serde(default)]
    pub turn_limit: Option<u32>,
    /// Its own tool calls that have ended, without its children's.
    pub tool_calls: u64,
    /// Its own tool calls in progress, as far as the last events of the run tell.
    pub open_calls: u64,
    /// Its own tool calls that were refused.
    pub refused: u64,
    /// How many files its accepted work changed; null if it cannot change files, or if no work of it was accepted.
    pub files_changed: Option<u64>,
    /// What a running agent does, in words, as far as the last events of the run tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<String>,
    /// How long it has been open.
    pub wall_ms: u64,
    /// What the agent itself spent.
    pub usage: Usage,
    /// What the agent and its subtree spent.
    pub subtree_usage: Usage,
    /// Whether its turn limit cut off its work.
    pub turns_exhausted: bool,
    /// What it waits for, in words, if that is an approver or a provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<String>,
    /// What it waits for, if that is an approver or a provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_on: Option<BlockedOn>,
}

impl Agent {
    fn new(agent: &AgentView, run: &RunView, figures: &RunFigures<'_>, now_ms: i64, zone: &TimeZone) -> Self {
        let blocked_on = run.blocked().of(&agent.id);
        let Figures { turns, tool_calls, wall_ms, usage, .. } = figures.own(agent);
        Self {
            id: agent.id.to_string(),
            parent: agent.parent().map(|parent| parent.to_string()),
            depth: agent.depth(),
            definition: agent.definition.clone(),
            title: agent.title.clone(),
            model: agent.model.clone(),
            skill: agent.skill.clone(),
            state: agent.state,
            final_status: agent.final_status,
            close_reason: agent.close_reason.map(Into::into),
            code: agent.failure.as_ref().map(|failure| failure.code),
            reason: agent.failure.as_ref().map(|failure| failure.reason.clone()),
            turns,
            turn_limit: agent.turn_limit,
            tool_calls,
            open_calls: agent.open_calls,
            refused: agent.own.refused,
            files_changed: agent.files_changed(),
            activity: agent.current_activity(),
            wall_ms,
            usage: Usage::new(&usage, agent.is_cost_unknown()),
            subtree_usage: (&agent.subtree.usage).into(),
            turns_exhausted: agent.is_turn_limited(),
            blocked: blocked_on.map(|on| on.words(now_ms, zone)),
            blocked_on: blocked_on.map(Into::into),
        }
    }
}

/// An agent that has ended, for a wait for it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AgentOutcome {
    /// The agent.
    #[serde(flatten)]
    pub agent: Agent,
    /// Its report; if it failed, the reason and its last text.
    pub report: Option<String>,
    /// The exit code of the command.
    pub exit: u8,
}

impl AgentOutcome {
    /// Converts an agent of a run as of `now_ms`; `None` if the run does not have it.
    pub fn new(
        run: &RunView,
        agent: &crate::AgentId,
        report: Option<String>,
        now_ms: i64,
        zone: &TimeZone,
    ) -> Option<Self> {
        let agent = run.agents().get(agent)?;
        let exit = RunExit::of_agent(agent).code();
        Some(Self { agent: Agent::new(agent, run, &run.figures(now_ms), now_ms, zone), report, exit })
    }
}

/// What all agents of one depth spent.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Depth {
    /// The distance of these agents from the root.
    pub depth: u32,
    /// The number of these agents.
    pub agents: u64,
    /// Their turns.
    pub turns: u64,
    /// Their tool calls.
    pub tool_calls: u64,
    /// The sum of the times that they have been open.
    pub wall_ms: u64,
    /// What they spent.
    pub usage: Usage,
}

impl Depth {
    fn new(depth: u32, total: &SpendingTotal) -> Self {
        let Figures { turns, tool_calls, wall_ms, usage, .. } = total.figures;
        Self { depth, agents: total.agents, turns, tool_calls, wall_ms, usage: (&usage).into() }
    }
}

/// A step of the plan that a run executes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlannedStep {
    /// Its title, which no other step of the plan has.
    pub title: String,
    /// The titles of the steps that come before it.
    pub depends_on: Vec<String>,
    /// Whether its failure fails the run.
    pub required: bool,
    /// The agent that executes it, once there is one.
    pub agent: Option<String>,
    /// The newest agent that repairs its work.
    pub repair: Option<String>,
    /// Why no agent was created for it.
    pub refused: Option<Code>,
}

impl From<&StepView> for PlannedStep {
    fn from(step: &StepView) -> Self {
        let id = |agent: &Option<crate::AgentId>| agent.as_ref().map(ToString::to_string);
        Self {
            title: step.title.clone(),
            depends_on: step.depends_on.clone(),
            required: step.required,
            agent: id(&step.agent),
            repair: id(&step.repair),
            refused: step.refused,
        }
    }
}

/// A run with its agents.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunDetail {
    /// The run's id.
    pub run: String,
    /// The run's current status.
    pub status: RunStatus,
    /// The first line of its request.
    pub request: String,
    /// Its working directory.
    pub dir: String,
    /// The model of its root.
    pub model: String,
    /// When it started.
    pub created_at: String,
    /// When it ended.
    pub ended_at: Option<String>,
    /// Whether it ended because its root or a required sub-agent ran out of turns.
    pub turns_exhausted: bool,
    /// The agent of an earlier run that it continues or retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<String>,
    /// Whether it retries the work of that agent, instead of continuing its conversation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retry: bool,
    /// The recorded run or the bundle that it replays, if it is a replay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay_of: Option<String>,
    /// How long it took, or has been running; of an interrupted run, for how long its process is known to have lived.
    pub elapsed_ms: u64,
    /// The number of the last event that this object knows: a reader that follows the run continues after it.
    pub events: u64,
    /// What all agents spent.
    pub usage: Usage,
    /// The first operations that were refused.
    pub refused: Vec<RefusedCall>,
    /// How many operations were refused in total.
    pub refused_count: u64,
    /// Its agents in the order of their creation, the root first.
    pub agents: Vec<Agent>,
    /// The steps of its plan; empty if it has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<PlannedStep>,
    /// What the agents of each depth spent.
    pub by_depth: Vec<Depth>,
    /// The run's changes to files, if it has ended and made any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<RunResult>,
    /// The changes of sub-agents that were not merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<MergeConflict>,
    /// The disk usage of the run, without the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
}

/// What is known of the files of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct FilesOfRun<'a> {
    /// The run's changes to files, if it has ended and made any.
    pub result: Option<&'a RunResult>,
    /// The changes of sub-agents that were not merged.
    pub conflicts: &'a [crate::MergeConflict],
    /// The disk usage of the run, without the journal.
    pub disk_bytes: Option<u64>,
}

impl RunDetail {
    /// Converts a run as of `now_ms`. Times of day in its words are in the reader's time zone.
    pub fn new(run: &RunView, now_ms: i64, zone: &TimeZone, files: FilesOfRun<'_>) -> Self {
        let figures = run.figures(now_ms);
        let agent = |agent: &AgentView| Agent::new(agent, run, &figures, now_ms, zone);
        Self {
            run: run.run_str().to_owned(),
            status: run.shown_status().into(),
            request: run.title().to_owned(),
            dir: run.dir().to_owned(),
            model: run.agents().root().map_or_else(String::new, |root| root.model.clone()),
            created_at: timestamp(run.started_at_ms()),
            ended_at: run.ended_at_ms().map(timestamp),
            turns_exhausted: run.is_turn_limited(),
            continues: run.continues().map(|continued| continued.agent.to_string()),
            retry: run.continues().is_some_and(|continued| continued.is_retry),
            replay_of: run.replay_of().map(str::to_owned),
            elapsed_ms: run.elapsed_ms(now_ms),
            events: run.last_seq(),
            usage: Usage::new(&run.usage(), run.is_cost_unknown()),
            refused: run.refused().iter().map(RefusedCall::from).collect(),
            refused_count: run.refused().count(),
            agents: run.agents().iter().map(agent).collect(),
            plan: run.plan().steps().iter().map(PlannedStep::from).collect(),
            by_depth: figures.by_depth().iter().map(|(depth, total)| Depth::new(*depth, total)).collect(),
            result: files.result.cloned(),
            conflicts: files.conflicts.iter().map(MergeConflict::from).collect(),
            disk_bytes: files.disk_bytes,
        }
    }

    /// Only this agent and its subtree; the sums by depth, which are those of the whole run, are omitted.
    pub fn of_subtree(mut self, agent: &crate::AgentId) -> Self {
        let beneath = format!("{agent}.");
        self.agents.retain(|known| known.id == agent.as_str() || known.id.starts_with(&beneath));
        self.by_depth.clear();
        self
    }
}
