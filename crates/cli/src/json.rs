//! The shapes of `--json`. They are a promise: fields are added, never renamed or removed, and a shape that has
//! to break gets the next version.

use std::borrow::Cow;
use std::fmt::Write;

use posse::{
    AgentInfo, AppliedRun, DepthInfo, EventBody, Figures, GcSummary, JournalEvent, RunId, RunInfo,
    RunOutcome, RunResult, RunSummary, SalvagedWork, Usage,
};
use serde::Serialize;
use serde_json::Value;

use crate::blocked::BlockedAgents;
use crate::exit::Exit;
use crate::term::is_plain;
use crate::text::timestamp;

/// Version of all shapes.
const VERSION: u32 = 1;

/// An object with its version before its own fields. Every object that is printed gets it here, so that no shape can
/// lack it.
#[derive(Serialize)]
pub(crate) struct VersionedObject<'a, T> {
    version: u32,
    #[serde(flatten)]
    object: &'a T,
}

impl<'a, T> VersionedObject<'a, T> {
    /// The object with today's version.
    pub(crate) fn new(object: &'a T) -> Self {
        Self { version: VERSION, object }
    }
}

/// A value on a line of its own, safe to show on a terminal.
pub(crate) fn line(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).unwrap_or_else(|error| {
        // Only a map with keys that are no text fails, and no shape here has one.
        format!("{{\"error\":\"{error}\"}}")
    });
    let mut line = escape(json);
    line.push('\n');
    line
}

/// Writes what a terminal would act on as escapes: in JSON it can only stand inside texts, so nothing is lost.
fn escape(json: String) -> String {
    if json.chars().all(is_plain) {
        return json;
    }
    let mut safe = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        if is_plain(c) {
            safe.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(safe, "\\u{unit:04x}");
            }
        }
    }
    safe
}

/// One event of a journal.
#[derive(Serialize)]
pub(crate) struct EventLine<'a> {
    seq: u64,
    agent_id: &'a str,
    kind: &'a str,
    at: String,
    summary: &'a str,
    detail: Cow<'a, Value>,
}

impl<'a> EventLine<'a> {
    /// The line of an event. Pictures are named by their hash and length: nobody reads them in a line.
    pub(crate) fn new(event: &'a JournalEvent) -> Self {
        let detail = match &event.body {
            EventBody::ToolFinished(e) if !e.images.is_empty() => {
                let mut named = e.clone();
                named.images.iter_mut().for_each(|image| image.base64.stow(&mut Vec::new()));
                serde_json::to_value(named).map_or(Cow::Borrowed(&event.detail), Cow::Owned)
            }
            _ => Cow::Borrowed(&event.detail),
        };
        Self {
            seq: event.seq,
            agent_id: event.agent_id.as_str(),
            kind: event.kind,
            at: timestamp(event.at_ms),
            summary: &event.summary,
            detail,
        }
    }

    /// The line of an event, with long texts in full.
    pub(crate) fn in_full(event: &'a JournalEvent) -> Self {
        let full = match &event.body {
            EventBody::RunStarted(e) => serde_json::to_value(e),
            EventBody::RunCompleted(e) => serde_json::to_value(e),
            EventBody::RunFailed(e) => serde_json::to_value(e),
            EventBody::SubagentWaitingForMerge(e) => serde_json::to_value(e),
            EventBody::SubagentFailed(e) => serde_json::to_value(e),
            EventBody::ModelReplied(e) => serde_json::to_value(e),
            EventBody::ToolFinished(e) => serde_json::to_value(e),
            EventBody::ToolInterrupted(e) => serde_json::to_value(e),
            EventBody::MessageReceived(e) => serde_json::to_value(e),
            EventBody::InputRequested(e) => serde_json::to_value(e),
            // The others hold no text that is kept elsewhere.
            _ => return Self::new(event),
        };
        // Only a map with keys that are no text fails, and no event has one.
        full.map_or_else(|_| Self::new(event), |full| Self { detail: Cow::Owned(full), ..Self::new(event) })
    }
}

/// Tokens and money.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Spending {
    input_tokens: u64,
    output_tokens: u64,
    /// The part of the input that was read from a cache.
    cached_tokens: u64,
    /// The part of the input that was written to a cache.
    cache_write_tokens: u64,
    /// The part of the output that was thinking.
    reasoning_tokens: u64,
    /// Dollars; null if the price is unknown.
    usd: Option<f64>,
}

impl From<&Usage> for Spending {
    fn from(usage: &Usage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cached_tokens: usage.cached_tokens,
            cache_write_tokens: usage.cache_write_tokens,
            reasoning_tokens: usage.reasoning_tokens,
            usd: usage.micro_usd.map(|micros| posse_domain::budget::Usd::from_micros(micros).as_f64()),
        }
    }
}

/// A child that failed.
#[derive(Serialize)]
struct FailedLine<'a> {
    id: &'a str,
    code: &'static str,
    reason: &'a str,
}

/// How a run ended: the last line of `run --json`.
#[derive(Serialize)]
pub(crate) struct ResultLine<'a> {
    r#type: &'static str,
    run: &'a str,
    status: &'a str,
    text: &'a str,
    usage: Spending,
    /// Whether it is a recorded run, run again: nothing was spent, and `usage` is what was when it was recorded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    replay: bool,
    turns: u64,
    agents: u64,
    failed: Vec<FailedLine<'a>>,
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
    /// With `--apply`: whether that was brought into the checkout.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<bool>,
    exit: u8,
}

impl<'a> ResultLine<'a> {
    /// The line of a run that has ended.
    pub(crate) fn new(finished: &'a RunOutcome) -> Self {
        Self::applied(finished, None)
    }

    /// The same of a run that was to be applied; whether it was.
    pub(crate) fn applied(finished: &'a RunOutcome, applied: Option<bool>) -> Self {
        let failed = finished.failed.iter();
        // A run that failed without a report says why instead.
        let reason = finished.failure.as_ref().map_or("", |(_, reason)| reason);
        Self {
            r#type: "result",
            run: finished.run.as_str(),
            status: finished.status,
            text: if finished.text.is_empty() { reason } else { &finished.text },
            usage: (&finished.usage).into(),
            replay: finished.is_replay,
            turns: finished.turns,
            agents: finished.agents,
            failed: failed
                .map(|child| FailedLine {
                    id: child.id.as_str(),
                    code: child.code.as_str(),
                    reason: &child.reason,
                })
                .collect(),
            turns_exhausted: finished.turns_exhausted,
            turn_limited: finished.turn_limited.iter().map(|child| child.id.as_str()).collect(),
            result: finished.result.as_ref(),
            disk_bytes: finished.disk_bytes,
            applied,
            exit: Exit::of_applied(finished, applied).0,
        }
    }
}

/// A run in the list of `ps`.
#[derive(Serialize)]
pub(crate) struct PsLine<'a> {
    run: &'a str,
    /// `running`, `interrupted` (running, but no process is running it), `completed`, `failed` or `cancelled`.
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
    /// The calls that wait for a person.
    waiting: usize,
    /// Whether it completed, but its root or a sub-agent that it needs ran out of turns.
    turns_exhausted: bool,
}

impl<'a> PsLine<'a> {
    /// The line of a run.
    pub(crate) fn new(run: &'a RunSummary, waiting: usize, turns_exhausted: bool) -> Self {
        Self {
            turns_exhausted,
            waiting,
            run: run.run.as_str(),
            status: crate::text::status(&run.status, run.holder.as_ref()),
            request: &run.title,
            definition: &run.definition,
            model: &run.model,
            dir: &run.dir,
            agents: run.agents,
            events: run.events,
            created_at: timestamp(run.created_at_ms),
            ended_at: run.ended_at_ms.map(timestamp),
            pid: run.holder.as_ref().map(|holder| holder.pid),
        }
    }
}

/// An agent of `show`.
#[derive(Serialize)]
struct AgentLine<'a> {
    id: &'a str,
    parent: Option<&'a str>,
    depth: u32,
    definition: &'a str,
    /// The skill that it carries out.
    #[serde(skip_serializing_if = "Option::is_none")]
    skill: Option<&'a str>,
    state: &'a str,
    final_status: Option<&'a str>,
    close_reason: Option<&'a str>,
    turns: u64,
    tool_calls: u64,
    wall_ms: u64,
    usage: Spending,
    subtree_usage: Spending,
    /// Whether its work was cut off by its turn limit.
    turns_exhausted: bool,
    /// What it waits for, if that is a person or a provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked: Option<String>,
}

impl<'a> AgentLine<'a> {
    fn new(agent: &'a AgentInfo, waits: &BlockedAgents) -> Self {
        let Figures { turns, tool_calls, wall_ms, turn_limited, usage } = &agent.own;
        Self {
            turns_exhausted: *turn_limited > 0,
            id: agent.id.as_str(),
            parent: agent.parent.as_ref().map(posse::AgentId::as_str),
            depth: agent.depth,
            definition: &agent.definition,
            skill: agent.skill.as_deref(),
            state: &agent.state,
            final_status: agent.final_status.as_deref(),
            close_reason: agent.close_reason.as_deref(),
            turns: *turns,
            tool_calls: *tool_calls,
            wall_ms: *wall_ms,
            usage: usage.into(),
            subtree_usage: (&agent.subtree.usage).into(),
            blocked: waits.on(&agent.id),
        }
    }
}

/// A depth of `show`.
#[derive(Serialize)]
struct DepthLine {
    depth: u32,
    agents: u64,
    turns: u64,
    tool_calls: u64,
    wall_ms: u64,
    usage: Spending,
}

impl From<&DepthInfo> for DepthLine {
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

/// A run with its agents: `show --json`.
#[derive(Serialize)]
pub(crate) struct ShowLine<'a> {
    run: &'a str,
    status: &'a str,
    /// Whether the root ran out of turns.
    turns_exhausted: bool,
    agents: Vec<AgentLine<'a>>,
    by_depth: Vec<DepthLine>,
    /// What it made of the files, if it has ended and made anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RunResult>,
    /// What it takes on disk beside the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    disk_bytes: Option<u64>,
}

impl<'a> ShowLine<'a> {
    /// The line of a run.
    pub(crate) fn new(
        run: &'a RunInfo,
        waits: &BlockedAgents,
        result: Option<&'a RunResult>,
        disk_bytes: Option<u64>,
    ) -> Self {
        Self {
            run: run.run.as_str(),
            status: crate::text::status(&run.status, run.holder.as_ref()),
            turns_exhausted: run.agents.iter().any(|agent| agent.depth == 0 && agent.own.turn_limited > 0),
            agents: run.agents.iter().map(|agent| AgentLine::new(agent, waits)).collect(),
            by_depth: run.by_depth.iter().map(DepthLine::from).collect(),
            result,
            disk_bytes,
        }
    }
}

/// What was brought into a checkout: `apply --json`.
#[derive(Serialize)]
pub(crate) struct AppliedLine<'a> {
    run: &'a str,
    /// The checkout; null if the run has no files of its own.
    dir: Option<String>,
    files: usize,
    merged: usize,
    already: usize,
}

impl<'a> AppliedLine<'a> {
    /// The line of a run that was applied.
    pub(crate) fn new(run: &'a RunId, applied: Option<&AppliedRun>) -> Self {
        let counts = applied.and_then(|applied| applied.applied).unwrap_or_default();
        Self {
            run: run.as_str(),
            dir: applied.map(|applied| applied.dir.display().to_string()),
            files: counts.files,
            merged: counts.merged,
            already: counts.already,
        }
    }
}

/// Salvaged work of one attempt: `salvage --json`.
#[derive(Serialize)]
pub(crate) struct SalvageLine<'a> {
    agent: &'a str,
    attempt: u32,
    at: String,
    commit: Option<String>,
    /// Null if it is not kept any more.
    files: Option<u64>,
    /// The workspace's `.git` as plain files; null if the agent did nothing there.
    git: Option<String>,
    left_out: &'a [String],
    left_out_count: u64,
    problem: Option<&'a str>,
}

impl<'a> SalvageLine<'a> {
    /// The line of an attempt.
    pub(crate) fn new(work: &'a SalvagedWork) -> Self {
        Self {
            agent: work.agent.as_str(),
            attempt: work.attempt,
            at: timestamp(work.at_ms),
            commit: work.commit.map(|commit| commit.to_string()),
            files: work.files,
            git: work.git.map(|commit| commit.to_string()),
            left_out: &work.left_out,
            left_out_count: work.left_out_count,
            problem: work.problem.as_deref(),
        }
    }
}

/// Something that was kept.
#[derive(Serialize)]
struct KeptLine<'a> {
    what: &'a str,
    why: &'a str,
}

/// What was cleaned: `gc --json`.
#[derive(Serialize)]
pub(crate) struct GcLine<'a> {
    dry_run: bool,
    removed: &'a [String],
    kept: Vec<KeptLine<'a>>,
    freed_bytes: u64,
}

impl<'a> GcLine<'a> {
    /// The line of a cleaning.
    pub(crate) fn new(cleaned: &'a GcSummary, dry_run: bool) -> Self {
        Self {
            dry_run,
            removed: &cleaned.removed,
            kept: cleaned.kept.iter().map(|(what, why)| KeptLine { what, why }).collect(),
            freed_bytes: cleaned.freed_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_escaped_without_loss() {
        let value = json!({"text": "\u{9b}2J\u{202e}\u{e0041}\u{7f}\u{1b}[1m\nä"});
        let line = line(&value);
        assert!(line.trim_end().chars().all(is_plain), "{line:?}");
        assert_eq!(serde_json::from_str::<Value>(&line).expect("json"), value);
    }
}
