//! Computes the rows of the tables of current state from the run's state and its newest events. The driver fills the
//! tables with it, and `verify` rebuilds them with the same code.

use std::collections::{BTreeSet, HashMap};

use posse_domain::code::Code;
use posse_domain::event::{Event, EventBody, FinalStatus, StoredEvent};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{
    AgentState, CloseReason, FailKind, FailureReason, Node, OpenAgent, Outcome, Run, RunStatus,
};
use posse_domain::request::RUN_TITLE_MAX_CHARS;
use posse_domain::text::first_line;

use crate::ports::{AgentRow, AgentTerms, RunRow};

/// How an agent ended: the columns of its row that are not in the run's state.
#[derive(Debug, Clone, Default)]
struct AgentEnd {
    result: Option<String>,
    error: Option<FailureReason>,
    final_status: Option<FinalStatus>,
    close_reason: Option<CloseReason>,
    at_ms: Option<i64>,
}

/// Observes a run's events and computes rows.
#[derive(Debug, Default)]
pub(crate) struct Projection {
    endings: HashMap<AgentId, AgentEnd>,
    fresh: HashMap<AgentId, AgentTerms>,
    ended_at_ms: Option<i64>,
    keep: bool,
}

impl Projection {
    /// A projection that keeps everything, so that it can rebuild the rows of all agents at the end.
    pub(crate) fn keeping() -> Self {
        Self { keep: true, ..Self::default() }
    }

    /// Observes an event that `run` has just applied.
    pub(crate) fn observe(&mut self, event: &Event, run: &Run) {
        if matches!(event.body, EventBody::RunStarted(_) | EventBody::SubagentCreated(_)) {
            // The contract must be copied now: the state drops it if the agent closes in the same commit.
            let terms = run.open(&event.agent).map(|agent| terms(&event.agent, agent));
            self.fresh.extend(terms.map(|terms| (event.agent.clone(), terms)));
        }
        self.recall(event);
    }

    /// Observes an event whose row is in the table already.
    pub(crate) fn recall(&mut self, event: &Event) {
        match &event.body {
            EventBody::SubagentWaitingForMerge(e) => {
                self.ending(event).result = Some(e.report.to_shared().to_string());
            }
            EventBody::SubagentFailed(e) => {
                let ending = self.ending(event);
                ending.error = Some(failure(e.code, &e.reason));
                ending.result = e.report.as_ref().map(|report| report.to_shared().to_string());
            }
            EventBody::IntegrationFailed(e) => {
                self.ending(event).error = Some(failure(e.code, &e.reason));
            }
            EventBody::SubagentClosed(e) => {
                let ending = self.ending(event);
                ending.close_reason = Some(e.close_reason);
                ending.at_ms = Some(event.at_ms);
                ending.final_status = Some(e.final_status);
            }
            EventBody::RunCompleted(e) => {
                let ending = self.run_ended(event);
                ending.final_status = Some(FinalStatus::Completed);
                ending.close_reason = Some(CloseReason::Integrated);
                ending.result = Some(e.text.to_shared().to_string());
            }
            EventBody::RunFailed(e) => {
                let ending = self.run_ended(event);
                ending.final_status = Some(FinalStatus::Failed);
                ending.close_reason = Some(CloseReason::Failed(e.kind));
                ending.error = Some(failure(e.code, &e.reason));
                ending.result = e.text.as_ref().map(|text| text.to_shared().to_string());
            }
            EventBody::RunCancelled(e) => {
                let ending = self.run_ended(event);
                ending.final_status = Some(FinalStatus::Failed);
                ending.close_reason = Some(CloseReason::Failed(FailKind::Cancelled));
                ending.error = Some(failure(Code::Cancelled, &e.reason));
            }
            _ => {}
        }
    }

    fn ending(&mut self, event: &Event) -> &mut AgentEnd {
        self.endings.entry(event.agent.clone()).or_default()
    }

    fn run_ended(&mut self, event: &Event) -> &mut AgentEnd {
        self.ended_at_ms = Some(event.at_ms);
        let ending = self.ending(event);
        ending.at_ms = Some(event.at_ms);
        ending
    }

    /// The rows of the changed agents, in the order of their ids.
    pub(crate) fn rows(&mut self, run: &Run, changed: BTreeSet<AgentId>) -> Vec<AgentRow> {
        changed.into_iter().filter_map(|id| self.row(run, id)).collect()
    }

    fn row(&mut self, run: &Run, id: AgentId) -> Option<AgentRow> {
        let node = run.get(&id)?;
        let closed = matches!(node, Node::Closed(_)) || (id.is_root() && run.outcome.is_some());
        let terms = self.fresh.remove(&id);
        let state = match node {
            Node::Open(agent) if !closed => agent.state.name(),
            _ => AgentState::Closed,
        };
        let ending =
            if closed && !self.keep { self.endings.remove(&id) } else { self.endings.get(&id).cloned() };
        let ending = ending.unwrap_or_default();
        let figures = |figures: Option<&posse_domain::budget::Figures>| {
            serde_json::to_string(&figures.copied().unwrap_or_default()).unwrap_or_default()
        };
        Some(AgentRow {
            terms,
            state,
            final_status: ending.final_status,
            close_reason: ending.close_reason,
            result: ending.result,
            error: ending.error,
            usage_json: figures(run.ledger.own(&id)),
            subtree_usage_json: figures(run.ledger.subtree(&id)),
            completed_at_ms: ending.at_ms,
            events_in_force: Some(run.events_in_force(&id)),
            id,
        })
    }

    pub(crate) fn run_row(&self, run: &Run) -> RunRow {
        let root = run.open(&run.id.root());
        RunRow {
            status: run.outcome.as_ref().map_or(RunStatus::Running, Outcome::status),
            title: first_line(&run.request.to_shared(), RUN_TITLE_MAX_CHARS),
            definition: root.map(|agent| agent.contract.execution.definition.clone()).unwrap_or_default(),
            model: root.map(|agent| agent.contract.execution.model.clone()).unwrap_or_default(),
            dir: run.dir.clone(),
            session_id: run.session_id.clone(),
            created_at_ms: run.started_at_ms,
            ended_at_ms: self.ended_at_ms,
        }
    }
}

/// The rows of the agents of a run, rebuilt from its events: for a reader whose store has only the events. The error says
/// what is wrong with them.
pub fn rows_of(events: &[StoredEvent]) -> Result<Vec<AgentRow>, String> {
    let mut projection = Projection::keeping();
    let mut run: Option<Run> = None;
    for stored in events {
        let event = Event::decode(stored).map_err(|error| error.to_string())?;
        let applied = match &mut run {
            Some(run) => run.apply(&event),
            None => Run::begin(&event).map(|begun| run = Some(begun)),
        };
        applied.map_err(|illegal| format!("event {}: {illegal}", stored.seq))?;
        if let Some(run) = &run {
            projection.observe(&event, run);
        }
    }
    let Some(run) = run else { return Ok(Vec::new()) };
    let ids: BTreeSet<AgentId> = run.iter().map(|(id, _)| id.clone()).collect();
    let mut rows = projection.rows(&run, ids);
    rows.sort_by_key(|row| row.terms.as_ref().map(|terms| (terms.created_at_ms, row.id.clone())));
    Ok(rows)
}

fn failure(code: Code, reason: &str) -> FailureReason {
    FailureReason { code, reason: reason.to_owned() }
}

fn terms(id: &AgentId, agent: &OpenAgent) -> AgentTerms {
    AgentTerms {
        parent: id.parent(),
        parent_message_id: agent.contract.parent.message_id.clone(),
        depth: agent.contract.context.depth,
        definition: agent.contract.execution.definition.clone(),
        contract_json: agent.contract.to_json(),
        permissions_json: serde_json::to_string(&agent.authority).unwrap_or_default(),
        created_at_ms: agent.created_at_ms,
    }
}
