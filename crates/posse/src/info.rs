//! Runs and agents as embedders and the command line see them.

use std::collections::HashMap;

use posse_domain::budget::{Figures, Usage};
use posse_domain::event::{EventBody, FailedChild, RunResult, TurnLimited};
use posse_domain::id::{AgentId, RunId};
use posse_domain::lifecycle::FailKind;
use posse_domain::permission::Authority;
use posse_engine::ports::{AgentRow, Holder, RunEntry, StoreError};
use serde::Serialize;

use crate::Error;

/// A run as a list shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSummary {
    /// The run.
    pub run: RunId,
    /// `running`, `completed`, `failed` or `cancelled`.
    pub status: String,
    /// The request's first line.
    pub title: String,
    /// The root's definition.
    pub definition: String,
    /// The root's model.
    pub model: String,
    /// The working directory.
    pub dir: String,
    /// The embedder's session.
    pub session_id: Option<String>,
    /// How many agents it has.
    pub agents: u64,
    /// How many events.
    pub events: u64,
    /// When it started, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// When it ended.
    pub ended_at_ms: Option<i64>,
    /// The process that executes it, if one does.
    pub holder: Option<Holder>,
    /// Why its head cannot be relied on, if it cannot; [`Posse::verify`](crate::Posse::verify) tells more.
    pub damage: Option<String>,
}

impl From<RunEntry> for RunSummary {
    fn from(entry: RunEntry) -> Self {
        Self {
            run: entry.run,
            status: entry.row.status,
            title: entry.row.title,
            definition: entry.row.definition,
            model: entry.row.model,
            dir: entry.row.dir,
            session_id: entry.row.session_id,
            agents: entry.agents,
            events: entry.head.seq,
            created_at_ms: entry.row.created_at_ms,
            ended_at_ms: entry.row.ended_at_ms,
            holder: entry.holder,
            damage: entry.damage,
        }
    }
}

/// An agent.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentInfo {
    /// The agent.
    pub id: AgentId,
    /// Its parent; none for the root.
    pub parent: Option<AgentId>,
    /// Its depth.
    pub depth: u32,
    /// Its definition.
    pub definition: String,
    /// The skill that it carries out.
    pub skill: Option<String>,
    /// Its title: the description its parent gave.
    pub title: String,
    /// Its model, `provider/model`.
    pub model: String,
    /// Lifecycle state.
    pub state: String,
    /// `completed` or `failed` once known.
    pub final_status: Option<String>,
    /// Why it closed.
    pub close_reason: Option<String>,
    /// Its report.
    pub result: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
    /// What it spent itself.
    pub own: Figures,
    /// What it and all below it spent.
    pub subtree: Figures,
    /// When it was created, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// When it closed.
    pub completed_at_ms: Option<i64>,
    /// Its contract, as JSON.
    pub contract_json: String,
    /// The layers that bind it, as JSON.
    pub permissions_json: String,
}

impl AgentInfo {
    fn from_row(row: AgentRow) -> Result<Self, Error> {
        let bad = |what: &str| StoreError::Damaged {
            run: row.id.run(),
            problem: format!("the {what} of agent {} cannot be read", row.id),
        };
        let terms = row.terms.clone().ok_or_else(|| bad("terms"))?;
        // What is counted by depth takes room by depth: a number that nobody wrote would take all there is.
        if terms.depth != row.id.depth() {
            return Err(bad("depth").into());
        }
        let figures = |json: &str| serde_json::from_str(json).map_err(|_| bad("figures"));
        let contract: serde_json::Value =
            serde_json::from_str(&terms.contract_json).map_err(|_| bad("contract"))?;
        Ok(Self {
            parent: terms.parent,
            depth: terms.depth,
            definition: terms.definition,
            skill: contract["execution"]["skill"].as_str().map(ToOwned::to_owned),
            title: contract["step"]["title"].as_str().unwrap_or_default().to_owned(),
            model: contract["execution"]["model"].as_str().unwrap_or_default().to_owned(),
            own: figures(&row.usage_json)?,
            subtree: figures(&row.subtree_usage_json)?,
            created_at_ms: terms.created_at_ms,
            contract_json: terms.contract_json,
            permissions_json: terms.permissions_json,
            state: row.state,
            final_status: row.final_status,
            close_reason: row.close_reason,
            result: row.result,
            error: row.error,
            completed_at_ms: row.completed_at_ms,
            id: row.id,
        })
    }

    /// All that bounds it.
    pub(crate) fn authority(&self) -> Result<Authority, Error> {
        let read = serde_json::from_str(&self.permissions_json);
        let corrupt = |error: serde_json::Error| StoreError::Damaged {
            run: self.id.run(),
            problem: format!("the permissions of agent {} cannot be read: {error}", self.id),
        };
        Ok(read.map_err(corrupt)?)
    }
}

/// What the agents of one depth did together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DepthInfo {
    /// The depth.
    pub depth: u32,
    /// How many agents.
    pub agents: u64,
    /// What they spent.
    pub figures: Figures,
}

/// A run with all its agents.
#[derive(Debug, Clone, PartialEq)]
pub struct RunInfo {
    /// The run.
    pub run: RunId,
    /// `running`, `completed`, `failed` or `cancelled`.
    pub status: String,
    /// The request's first line.
    pub title: String,
    /// The process that executes it, if one does.
    pub holder: Option<Holder>,
    /// When it started, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// When it ended.
    pub ended_at_ms: Option<i64>,
    /// The working directory.
    pub dir: String,
    /// Whether it is a recorded run, run again: what its figures tell was spent when it was recorded, not by this run.
    pub is_replay: bool,
    /// The agents, parents before children.
    pub agents: Vec<AgentInfo>,
    /// What each depth spent.
    pub by_depth: Vec<DepthInfo>,
}

impl RunInfo {
    /// The run as of `until_ms`.
    pub(crate) fn new(entry: RunEntry, rows: Vec<AgentRow>, until_ms: i64) -> Result<Self, Error> {
        let mut agents: Vec<AgentInfo> =
            rows.into_iter().map(AgentInfo::from_row).collect::<Result<_, _>>()?;
        count_open(&mut agents, until_ms);
        let mut by_depth: Vec<DepthInfo> = Vec::new();
        for agent in &agents {
            let at = agent.depth as usize;
            while by_depth.len() <= at {
                let depth = u32::try_from(by_depth.len()).unwrap_or(u32::MAX);
                by_depth.push(DepthInfo { depth, agents: 0, figures: Figures::default() });
            }
            by_depth[at].agents += 1;
            by_depth[at].figures += agent.own;
        }
        Ok(Self {
            run: entry.run,
            status: entry.row.status,
            title: entry.row.title,
            holder: entry.holder,
            created_at_ms: entry.row.created_at_ms,
            ended_at_ms: entry.row.ended_at_ms,
            dir: entry.row.dir,
            is_replay: crate::replayed(&entry.row.model).is_some(),
            agents,
            by_depth,
        })
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome {
    /// The run.
    pub run: RunId,
    /// `completed`, `failed` or `cancelled`.
    pub status: &'static str,
    /// The root's report, or why there is none.
    pub text: String,
    /// Why it failed.
    pub failure: Option<(FailKind, String)>,
    /// What the tree spent; a replay, what was spent when it was recorded.
    pub usage: Usage,
    /// Whether it is a recorded run, run again.
    pub is_replay: bool,
    /// The turns of the tree.
    pub turns: u64,
    /// How many agents it had.
    pub agents: u64,
    /// The children that failed.
    pub failed: Vec<FailedChild>,
    /// Whether the root ran out of turns.
    pub turns_exhausted: bool,
    /// The children that completed, but ran out of turns.
    pub turn_limited: Vec<TurnLimited>,
    /// What it made of the files, if anything.
    pub result: Option<RunResult>,
    /// What its workspaces take on disk, if it made anything.
    pub disk_bytes: Option<u64>,
}

impl RunOutcome {
    pub(crate) fn from_event(run: &RunId, body: &EventBody) -> Option<Self> {
        let finished = |status, text, failure, figures: Figures, failed: &[FailedChild]| RunOutcome {
            run: run.clone(),
            status,
            text,
            failure,
            usage: figures.usage,
            is_replay: false,
            turns: figures.turns,
            agents: 0,
            failed: failed.to_vec(),
            turns_exhausted: matches!(body, EventBody::RunCompleted(e) if e.turns_exhausted),
            turn_limited: match body {
                EventBody::RunCompleted(e) => e.turn_limited.clone(),
                _ => Vec::new(),
            },
            result: result_of(body).cloned(),
            disk_bytes: None,
        };
        Some(match body {
            EventBody::RunCompleted(e) => {
                finished("completed", e.text.to_shared().to_string(), None, e.figures, &e.failed)
            }
            EventBody::RunFailed(e) => {
                let text = e.text.as_ref().map_or_else(String::new, |text| text.to_shared().to_string());
                let reason = format!("{}: {}", e.code, e.reason);
                finished("failed", text, Some((e.kind, reason)), e.figures, &e.failed)
            }
            EventBody::RunCancelled(e) => {
                let failure = Some((FailKind::Cancelled, e.reason.clone()));
                finished("cancelled", String::new(), failure, e.figures, &e.failed)
            }
            _ => return None,
        })
    }
}

impl RunOutcome {
    /// Whether a turn limit ended the run: the root's, or that of a sub-agent that it needed.
    pub fn is_turn_limited(&self) -> bool {
        self.turns_exhausted || self.turn_limited.iter().any(|child| child.required)
    }

    /// The same by the run's last event.
    pub(crate) fn is_turn_limited_by(body: &EventBody) -> bool {
        match body {
            EventBody::RunCompleted(e) => {
                e.turns_exhausted || e.turn_limited.iter().any(|child| child.required)
            }
            _ => false,
        }
    }
}

/// The wall time of agents that are open is not in the tables: it grows while nothing happens.
fn count_open(agents: &mut [AgentInfo], until_ms: i64) {
    let mut open: HashMap<AgentId, u64> = HashMap::new();
    for agent in agents.iter_mut().filter(|agent| agent.completed_at_ms.is_none()) {
        let wall_ms = u64::try_from(until_ms - agent.created_at_ms).unwrap_or(0);
        agent.own.wall_ms += wall_ms;
        let mut at = Some(agent.id.clone());
        while let Some(id) = at {
            at = id.parent();
            *open.entry(id).or_default() += wall_ms;
        }
    }
    for agent in agents {
        agent.subtree.wall_ms += open.get(&agent.id).copied().unwrap_or(0);
    }
}

/// What a run made of the files, by its last event.
fn result_of(body: &EventBody) -> Option<&RunResult> {
    match body {
        EventBody::RunCompleted(e) => e.result.as_ref(),
        EventBody::RunFailed(e) => e.result.as_ref(),
        EventBody::RunCancelled(e) => e.result.as_ref(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use posse_engine::ports::{AgentTerms, Head, RunRow};

    use super::*;

    fn agent(id: &str, created_at_ms: i64, completed_at_ms: Option<i64>, wall_ms: u64) -> AgentRow {
        let id: AgentId = id.parse().expect("an id");
        let figures = serde_json::to_string(&Figures::default().with_wall_ms(wall_ms)).expect("JSON");
        let terms = AgentTerms {
            parent: id.parent(),
            parent_message_id: None,
            depth: id.depth(),
            definition: "coder".to_owned(),
            contract_json: "{}".to_owned(),
            permissions_json: "{}".to_owned(),
            created_at_ms,
        };
        AgentRow {
            id,
            terms: Some(terms),
            state: "running".to_owned(),
            final_status: None,
            close_reason: None,
            result: None,
            error: None,
            usage_json: figures.clone(),
            subtree_usage_json: figures,
            completed_at_ms,
        }
    }

    fn entry(run: &str) -> RunEntry {
        let row = RunRow {
            status: "running".to_owned(),
            title: String::new(),
            definition: "coder".to_owned(),
            model: String::new(),
            dir: String::new(),
            session_id: None,
            created_at_ms: 1_000,
            ended_at_ms: None,
        };
        let head = Head { seq: 1, hash: posse_domain::hash::Hash::ZERO };
        RunEntry { run: run.parse().expect("an id"), row, agents: 4, head, holder: None, damage: None }
    }

    #[test]
    fn the_wall_time_of_an_open_agent_is_the_time_since_it_was_created() {
        let rows = vec![
            agent("k3f9ab2c", 1_000, None, 0),
            agent("k3f9ab2c.1", 2_000, Some(2_500), 500),
            agent("k3f9ab2c.2", 3_000, None, 0),
            // A clock that jumped back gives none.
            agent("k3f9ab2c.2.1", 9_000, None, 0),
        ];
        let info = RunInfo::new(entry("k3f9ab2c"), rows, 4_000).expect("a run");
        let own: Vec<u64> = info.agents.iter().map(|agent| agent.own.wall_ms).collect();
        assert_eq!(own, [3_000, 500, 1_000, 0]);
        let subtrees: Vec<u64> = info.agents.iter().map(|agent| agent.subtree.wall_ms).collect();
        assert_eq!(subtrees, [4_000, 500, 1_000, 0]);
        let depths: Vec<u64> = info.by_depth.iter().map(|depth| depth.figures.wall_ms).collect();
        assert_eq!(depths, [3_000, 1_500, 0]);
    }
}
