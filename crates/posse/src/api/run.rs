//! Runs and their agents.

use std::borrow::Cow;

use posse_engine::ports::Holder;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Usage, timestamp};
use crate::{AgentId, AgentInfo, DepthInfo, Figures, RunInfo, RunOutcome, RunResult, RunStatus};

/// The status of a run as front ends show it: one that no process executes is interrupted.
pub fn status_word(status: RunStatus, holder: Option<&Holder>) -> &'static str {
    if status.is_running() && holder.is_none() { "interrupted" } else { status.as_str() }
}

/// A run that was started and goes on in another process.
#[derive(Serialize, JsonSchema)]
pub struct RunReference<'a> {
    run: &'a str,
}

impl<'a> RunReference<'a> {
    /// The reference to a run.
    pub fn new(run: &'a str) -> Self {
        Self { run }
    }
}

/// A child that failed.
#[derive(Serialize, JsonSchema)]
pub struct FailedAgent<'a> {
    id: &'a str,
    code: &'static str,
    reason: &'a str,
}

/// How a run ended.
#[derive(Serialize, JsonSchema)]
pub struct Outcome<'a> {
    /// `result`, to tell it from the events before it.
    r#type: &'static str,
    run: &'a str,
    /// `completed`, `failed` or `cancelled`.
    status: &'a str,
    /// The report; of a run that failed without one, why.
    text: Cow<'a, str>,
    usage: Usage,
    /// Whether it is a recorded run, run again: nothing was spent, and `usage` is what was when it was recorded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    replay: bool,
    turns: u64,
    agents: u64,
    failed: Vec<FailedAgent<'a>>,
    /// Whether the root ran out of turns.
    turns_exhausted: bool,
    /// The sub-agents that completed, but ran out of turns.
    turn_limited: Vec<&'a str>,
    /// What it made of the files, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RunResult>,
    /// What its workspaces take on disk, if it made anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    disk_bytes: Option<u64>,
    /// Whether the result was brought into the user's folder, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<bool>,
    /// The exit code of the command.
    exit: u8,
}

impl<'a> Outcome<'a> {
    /// A run that has ended; whether it was applied, if it was to be; the exit code that goes with both.
    pub fn new(finished: &'a RunOutcome, applied: Option<bool>, exit: u8) -> Self {
        let why = if finished.text.is_empty() { finished.why() } else { None };
        let failed = finished.failed.iter().map(|child| FailedAgent {
            id: child.id.as_str(),
            code: child.code.as_str(),
            reason: &child.reason,
        });
        Self {
            r#type: "result",
            run: finished.run.as_str(),
            status: finished.status.as_str(),
            text: why.map_or(Cow::Borrowed(finished.text.as_str()), Cow::Owned),
            usage: (&finished.usage).into(),
            replay: finished.is_replay,
            turns: finished.turns,
            agents: finished.agents,
            failed: failed.collect(),
            turns_exhausted: finished.turns_exhausted,
            turn_limited: finished.turn_limited.iter().map(|child| child.id.as_str()).collect(),
            result: finished.result.as_ref(),
            disk_bytes: finished.disk_bytes,
            applied,
            exit,
        }
    }
}

/// A run in a list.
#[derive(Serialize, JsonSchema)]
pub struct RunSummary<'a> {
    run: &'a str,
    /// `running`, `interrupted` (it has not ended, and no process executes it), `completed`, `failed` or `cancelled`.
    status: &'a str,
    request: &'a str,
    definition: &'a str,
    model: &'a str,
    dir: &'a str,
    agents: u64,
    events: u64,
    created_at: String,
    ended_at: Option<String>,
    /// The process that executes it.
    pid: Option<u32>,
    /// How many calls wait for a person.
    waiting: usize,
    /// Whether it completed, but its root or a sub-agent that it needs ran out of turns.
    turns_exhausted: bool,
}

impl<'a> RunSummary<'a> {
    /// A run with `waiting` questions.
    pub fn new(run: &'a crate::RunSummary, waiting: usize, turns_exhausted: bool) -> Self {
        Self {
            run: run.run.as_str(),
            status: status_word(run.status, run.holder.as_ref()),
            request: &run.title,
            definition: &run.definition,
            model: &run.model,
            dir: &run.dir,
            agents: run.agents,
            events: run.events,
            created_at: timestamp(run.created_at_ms),
            ended_at: run.ended_at_ms.map(timestamp),
            pid: run.holder.as_ref().map(|holder| holder.pid),
            waiting,
            turns_exhausted,
        }
    }
}

/// An agent of a run.
#[derive(Serialize, JsonSchema)]
pub struct Agent<'a> {
    id: &'a str,
    parent: Option<&'a str>,
    depth: u32,
    definition: &'a str,
    /// The skill that it carries out.
    #[serde(skip_serializing_if = "Option::is_none")]
    skill: Option<&'a str>,
    state: crate::AgentState,
    final_status: Option<crate::FinalStatus>,
    /// `integrated`, or the kind of its failure.
    close_reason: Option<&'a str>,
    turns: u64,
    tool_calls: u64,
    wall_ms: u64,
    usage: Usage,
    subtree_usage: Usage,
    /// Whether its work was cut off by its turn limit.
    turns_exhausted: bool,
    /// What it waits for, if that is a person or a provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked: Option<String>,
}

impl<'a> Agent<'a> {
    fn new(agent: &'a AgentInfo, blocked: Option<String>) -> Self {
        let Figures { turns, tool_calls, wall_ms, turn_limited, usage } = &agent.own;
        Self {
            id: agent.id.as_str(),
            parent: agent.parent.as_ref().map(AgentId::as_str),
            depth: agent.depth,
            definition: &agent.definition,
            skill: agent.skill.as_deref(),
            state: agent.state,
            final_status: agent.final_status,
            close_reason: agent.close_reason.map(crate::CloseReason::as_str),
            turns: *turns,
            tool_calls: *tool_calls,
            wall_ms: *wall_ms,
            usage: usage.into(),
            subtree_usage: (&agent.subtree.usage).into(),
            turns_exhausted: *turn_limited > 0,
            blocked,
        }
    }
}

/// What the agents of one depth did together.
#[derive(Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "the names of fields are the keys that are published")]
pub struct Depth {
    depth: u32,
    agents: u64,
    turns: u64,
    tool_calls: u64,
    wall_ms: u64,
    usage: Usage,
}

impl From<&DepthInfo> for Depth {
    fn from(depth: &DepthInfo) -> Self {
        let Figures { turns, tool_calls, wall_ms, usage, .. } = &depth.figures;
        Self {
            depth: depth.depth,
            agents: depth.agents,
            turns: *turns,
            tool_calls: *tool_calls,
            wall_ms: *wall_ms,
            usage: usage.into(),
        }
    }
}

/// A run with its agents.
#[derive(Serialize, JsonSchema)]
pub struct RunDetail<'a> {
    run: &'a str,
    /// `running`, `interrupted` (it has not ended, and no process executes it), `completed`, `failed` or `cancelled`.
    status: &'a str,
    /// Whether the root ran out of turns.
    turns_exhausted: bool,
    agents: Vec<Agent<'a>>,
    by_depth: Vec<Depth>,
    /// What it made of the files, if it has ended and made anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RunResult>,
    /// What it takes on disk beside the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    disk_bytes: Option<u64>,
}

impl<'a> RunDetail<'a> {
    /// A run; `blocked` says in words what an agent waits for.
    pub fn new(
        run: &'a RunInfo,
        blocked: impl Fn(&AgentId) -> Option<String>,
        result: Option<&'a RunResult>,
        disk_bytes: Option<u64>,
    ) -> Self {
        Self {
            run: run.run.as_str(),
            status: status_word(run.status, run.holder.as_ref()),
            turns_exhausted: run.agents.iter().any(|agent| agent.depth == 0 && agent.own.turn_limited > 0),
            agents: run.agents.iter().map(|agent| Agent::new(agent, blocked(&agent.id))).collect(),
            by_depth: run.by_depth.iter().map(Depth::from).collect(),
            result,
            disk_bytes,
        }
    }
}
