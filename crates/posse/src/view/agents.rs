//! The tree of a run's agents: where each stands, what it spent, what it does now.

use std::collections::HashMap;

use posse_domain::code::Code;
use posse_domain::event::{
    EventBody, FinalStatus, ModelReplied, QueuedFor, RunStarted, SubagentClosed, SubagentCreated,
};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{AgentState, CloseReason, FailKind, FailureReason, RunStatus};
use posse_domain::printable;
use posse_domain::text::first_line;
use posse_engine::{Delta, DeltaCall, DeltaPart};

use super::{ViewEvent, ViewPart};
use crate::{AgentInfo, Figures};

/// Refusals that are kept for an agent; of more only the number.
const REFUSALS_MAX: usize = 4;
/// Bytes of what a model is saying that are kept; twice as many between two cuts.
const SAYING_MAX_BYTES: usize = 4_096;
/// Characters of an activity that are kept.
const ACTIVITY_MAX_CHARS: usize = 200;

/// Where an agent stands, for people: a state of its lifecycle, with the end told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Created, not started.
    Queued,
    /// At work.
    Running,
    /// Ended its work, and is not closed yet.
    WaitingForMerge,
    /// Ended well.
    Completed,
    /// Failed.
    Failed,
    /// Cancelled.
    Cancelled,
}

impl Stage {
    /// Whether nothing more will happen.
    pub fn is_over(self) -> bool {
        matches!(self, Stage::Completed | Stage::Failed | Stage::Cancelled)
    }
}

/// A child that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The definition asked for.
    pub definition: String,
    /// Why, as a word.
    pub code: Code,
}

/// One agent.
#[derive(Debug, Clone)]
pub struct AgentView {
    /// Its id.
    pub id: AgentId,
    /// Its definition.
    pub definition: String,
    /// The skill that it carries out.
    pub skill: Option<String>,
    /// What it is for.
    pub title: String,
    /// Its model, `provider/model`.
    pub model: String,
    /// The state of its lifecycle.
    pub state: AgentState,
    /// How it ended, once that is known.
    pub final_status: Option<FinalStatus>,
    /// Why it closed.
    pub close_reason: Option<CloseReason>,
    /// Why it failed.
    pub failure: Option<FailureReason>,
    /// What it spent itself; its wall time once it has closed.
    pub own: Figures,
    /// What it and all below it spent; their wall time once each has closed.
    pub subtree: Figures,
    /// When it was created, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// When it closed.
    pub completed_at_ms: Option<i64>,
    /// Its turn of the attempt.
    pub turn: u32,
    /// Its turns per attempt.
    pub turn_limit: Option<u32>,
    /// Its attempt, from 1.
    pub attempt: u32,
    /// Whether its parent goes on without waiting for it.
    pub background: bool,
    /// Whether its model is being asked.
    pub asking: bool,
    /// What it did last.
    pub activity: String,
    /// The number of its last event.
    pub last_seq: u64,
    /// Its children, oldest first.
    pub children: Vec<AgentId>,
    /// How many of them have not ended.
    pub open_children: u64,
    /// The first children it was refused.
    pub refused: Vec<Refusal>,
    /// How many it was refused in all.
    pub refused_count: usize,
    /// The end of what its model is saying, as it came: a control sequence may be cut in two.
    saying: String,
    /// The model call that says it.
    saying_in: DeltaCall,
    /// The last model call that has ended.
    replied_in: DeltaCall,
}

impl AgentView {
    fn new(id: AgentId, definition: &str, title: &str, model: &str, created_at_ms: i64) -> Self {
        Self {
            id,
            definition: printable::line(definition),
            skill: None,
            title: printable::line(title),
            model: model.to_owned(),
            state: AgentState::Created,
            final_status: None,
            close_reason: None,
            failure: None,
            own: Figures::default(),
            subtree: Figures::default(),
            created_at_ms,
            completed_at_ms: None,
            turn: 0,
            turn_limit: None,
            attempt: 1,
            background: false,
            asking: false,
            activity: String::new(),
            last_seq: 0,
            children: Vec::new(),
            open_children: 0,
            refused: Vec::new(),
            refused_count: 0,
            saying: String::new(),
            saying_in: DeltaCall::default(),
            replied_in: DeltaCall::default(),
        }
    }

    fn from_row(row: &AgentInfo) -> Self {
        Self {
            skill: row.skill.as_deref().map(printable::line),
            state: row.state,
            final_status: row.final_status,
            close_reason: row.close_reason,
            failure: row.failure.clone(),
            own: row.own,
            subtree: row.subtree,
            completed_at_ms: row.completed_at_ms,
            ..Self::new(row.id.clone(), &row.definition, &row.title, &row.model, row.created_at_ms)
        }
    }

    fn root(id: &AgentId, started: &RunStarted, at_ms: i64) -> Self {
        let execution = &started.contract.execution;
        let title = &started.contract.step.title;
        Self {
            state: AgentState::Running,
            skill: execution.skill.as_deref().map(printable::line),
            turn_limit: execution.max_turns,
            ..Self::new(id.clone(), &execution.definition, title, &execution.model, at_ms)
        }
    }

    fn child(id: &AgentId, created: &SubagentCreated, at_ms: i64) -> Self {
        let contract = &created.contract;
        Self {
            background: created.background,
            skill: created.skill.as_deref().map(printable::line),
            turn_limit: created.turn_limit,
            ..Self::new(
                id.clone(),
                &created.definition,
                &contract.step.title,
                &contract.execution.model,
                at_ms,
            )
        }
    }

    /// Where it stands.
    pub fn stage(&self) -> Stage {
        match (self.state, self.final_status) {
            (AgentState::Created, _) => Stage::Queued,
            (AgentState::Running, _) => Stage::Running,
            // What was accepted is still to be closed by its parent.
            (AgentState::WaitingForMerge | AgentState::Completed, _) => Stage::WaitingForMerge,
            (AgentState::Closed, Some(FinalStatus::Completed)) => Stage::Completed,
            (AgentState::Failed | AgentState::Closed, _) if self.is_cancelled() => Stage::Cancelled,
            (AgentState::Failed | AgentState::Closed, _) => Stage::Failed,
        }
    }

    /// Whether its work was cut off by its turn limit.
    pub fn is_turn_limited(&self) -> bool {
        self.own.turn_limited > 0
    }

    /// Whether its model is saying something.
    pub fn is_saying(&self) -> bool {
        self.asking && !self.saying.is_empty()
    }

    /// The last lines of what its model is saying, newest last; none if it is silent.
    pub fn last_lines(&self, most: usize) -> Vec<String> {
        let clean = printable::clean(&self.saying);
        let mut lines: Vec<String> =
            clean.lines().rev().map(printable::line).filter(|line| !line.is_empty()).take(most).collect();
        lines.reverse();
        lines
    }

    /// The status of the run whose root it is.
    pub(super) fn run_status(&self) -> RunStatus {
        match self.stage() {
            Stage::Queued | Stage::Running | Stage::WaitingForMerge => RunStatus::Running,
            Stage::Completed => RunStatus::Completed,
            Stage::Failed => RunStatus::Failed,
            Stage::Cancelled => RunStatus::Cancelled,
        }
    }

    fn is_cancelled(&self) -> bool {
        let kind = self.close_reason.is_some_and(|reason| reason == CloseReason::Failed(FailKind::Cancelled));
        let code = self.failure.as_ref().is_some_and(|failure| failure.code == Code::Cancelled);
        kind || (self.close_reason.is_none() && code)
    }

    fn apply(&mut self, event: &ViewEvent<'_>) {
        self.last_seq = event.seq;
        self.apply_lifecycle(event);
        match event.body {
            EventBody::SubagentQueued(e) => {
                let waits = match e.waits_for {
                    QueuedFor::Slot => "waits for a slot",
                    QueuedFor::Ownership => "waits for another writer",
                    QueuedFor::Budget => "waits for budget",
                };
                waits.clone_into(&mut self.activity);
            }
            EventBody::SubagentAttempt(e) => {
                self.attempt = e.n;
                self.turn = 0;
                self.activity = printable::line(&event.summary());
            }
            EventBody::ModelCalled(e) => {
                self.turn = e.turn;
                self.asking = true;
                self.begin_saying(DeltaCall { attempt: e.attempt, turn: e.turn, call: e.call });
            }
            EventBody::ModelReplied(e) => {
                self.asking = false;
                self.replied_in = DeltaCall { attempt: e.attempt, turn: e.turn, call: e.call };
                if self.saying_in <= self.replied_in {
                    self.saying.clear();
                }
                self.activity = reply_line(e);
            }
            EventBody::SubagentRefused(e) => {
                self.refused_count += 1;
                if self.refused.len() < REFUSALS_MAX {
                    self.refused.push(Refusal { definition: printable::line(&e.definition), code: e.code });
                }
            }
            EventBody::SubagentWaitingForMerge(e) => {
                self.activity = printable::line(&first_line(&e.report.to_shared(), ACTIVITY_MAX_CHARS));
            }
            EventBody::InputAnswered(_)
            | EventBody::ToolFinished(_)
            | EventBody::ToolInterrupted(_)
            | EventBody::ToolIntended(_)
            | EventBody::TodoChanged(_)
            | EventBody::MessageReceived(_)
            | EventBody::CancelRequested(_) => self.activity = printable::line(&event.summary()),
            _ => {}
        }
    }

    /// What an event does to the state of its lifecycle.
    fn apply_lifecycle(&mut self, event: &ViewEvent<'_>) {
        match event.body {
            EventBody::SubagentStarted(_) | EventBody::SubagentAttempt(_) => self.state = AgentState::Running,
            EventBody::SubagentWaitingForMerge(_) => self.state = AgentState::WaitingForMerge,
            EventBody::IntegrationPassed(_) => self.state = AgentState::Completed,
            EventBody::SubagentFailed(e) => self.fail(e.kind, e.code, &e.reason),
            EventBody::IntegrationFailed(e) => self.fail(e.kind, e.code, &e.reason),
            EventBody::SubagentClosed(SubagentClosed { final_status, close_reason, .. }) => {
                self.close(*final_status, CloseReason::parse(close_reason), event.at_ms);
            }
            EventBody::RunCompleted(_) => {
                self.close(FinalStatus::Completed, Some(CloseReason::Integrated), event.at_ms);
            }
            EventBody::RunFailed(e) => {
                self.fail(e.kind, e.code, &e.reason);
                self.close(FinalStatus::Failed, Some(CloseReason::Failed(e.kind)), event.at_ms);
            }
            EventBody::RunCancelled(e) => {
                let kind = FailKind::Cancelled;
                self.fail(kind, Code::Cancelled, &e.reason);
                self.close(FinalStatus::Failed, Some(CloseReason::Failed(kind)), event.at_ms);
            }
            _ => {}
        }
    }

    fn fail(&mut self, kind: FailKind, code: Code, reason: &str) {
        self.state = AgentState::Failed;
        self.failure = Some(FailureReason { code, reason: reason.to_owned() });
        let word = if kind == FailKind::Cancelled { "cancelled" } else { code.as_str() };
        self.activity = format!("{word}: {}", printable::line(reason));
    }

    fn close(&mut self, final_status: FinalStatus, reason: Option<CloseReason>, at_ms: i64) {
        self.state = AgentState::Closed;
        self.final_status = Some(final_status);
        self.close_reason = reason;
        self.completed_at_ms = Some(at_ms);
    }

    /// What is said from now on is of this call; what was said before is of another.
    fn begin_saying(&mut self, call: DeltaCall) {
        if self.saying_in < call {
            self.saying_in = call;
            self.saying.clear();
        }
    }

    /// Takes a piece of what its model is saying. Pieces may come before the event of their call, and after that of the
    /// reply.
    fn apply_delta(&mut self, delta: &Delta) {
        if delta.call <= self.replied_in || delta.call < self.saying_in {
            return;
        }
        self.begin_saying(delta.call);
        match delta.part {
            DeltaPart::Text | DeltaPart::Other => self.saying.push_str(&delta.content),
            DeltaPart::Tool => {
                self.saying.push_str("\ncalls ");
                self.saying.push_str(&delta.content);
                self.saying.push('\n');
            }
            DeltaPart::Error => {}
        }
        if self.saying.len() > 2 * SAYING_MAX_BYTES {
            let cut = self.saying.ceil_char_boundary(self.saying.len() - SAYING_MAX_BYTES);
            self.saying.drain(..cut);
        }
    }
}

/// How many agents stand where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StageCounts {
    /// Not started.
    pub queued: u64,
    /// At work, or waiting for merge.
    pub running: u64,
    /// Ended well.
    pub completed: u64,
    /// Failed.
    pub failed: u64,
    /// Cancelled.
    pub cancelled: u64,
}

impl StageCounts {
    /// All of them.
    pub fn all(&self) -> u64 {
        self.queued + self.running + self.completed + self.failed + self.cancelled
    }

    fn of(&mut self, stage: Stage) -> &mut u64 {
        match stage {
            Stage::Queued => &mut self.queued,
            Stage::Running | Stage::WaitingForMerge => &mut self.running,
            Stage::Completed => &mut self.completed,
            Stage::Failed => &mut self.failed,
            Stage::Cancelled => &mut self.cancelled,
        }
    }
}

/// A run's agents. Their number is bounded by the run's own limit on agents.
#[derive(Debug, Default)]
pub struct Agents {
    by_id: HashMap<AgentId, AgentView>,
    root: Option<AgentId>,
    counts: StageCounts,
}

impl Agents {
    /// The agents of the rows, parents before children.
    pub(super) fn from_rows(rows: &[AgentInfo]) -> Self {
        let mut agents = Self::default();
        for row in rows {
            agents.add(AgentView::from_row(row), row.parent.as_ref());
        }
        agents
    }

    /// The root, once the run has started.
    pub fn root(&self) -> Option<&AgentView> {
        self.root.as_ref().and_then(|id| self.by_id.get(id))
    }

    /// An agent.
    pub fn get(&self, id: &AgentId) -> Option<&AgentView> {
        self.by_id.get(id)
    }

    /// All agents, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &AgentView> {
        self.by_id.values()
    }

    /// How many agents stand where.
    pub fn counts(&self) -> StageCounts {
        self.counts
    }

    pub(super) fn apply_delta(&mut self, delta: &Delta) {
        if let Some(agent) = self.by_id.get_mut(&delta.agent_id) {
            agent.apply_delta(delta);
        }
    }

    fn add(&mut self, agent: AgentView, parent: Option<&AgentId>) {
        *self.counts.of(agent.stage()) += 1;
        match parent {
            None => self.root = Some(agent.id.clone()),
            Some(parent) => {
                if let Some(parent) = self.by_id.get_mut(parent) {
                    parent.children.push(agent.id.clone());
                    parent.open_children += u64::from(!agent.stage().is_over());
                }
            }
        }
        self.by_id.insert(agent.id.clone(), agent);
    }

    /// Counts figures of an agent for itself and for everything above it.
    fn count(&mut self, id: &AgentId, figures: Figures) {
        if let Some(agent) = self.by_id.get_mut(id) {
            agent.own += figures;
        }
        let mut at = Some(id.clone());
        while let Some(id) = at {
            if let Some(agent) = self.by_id.get_mut(&id) {
                agent.subtree += figures;
            }
            at = id.parent();
        }
    }

    /// The stage of an agent was `before`.
    fn count_stage(&mut self, id: &AgentId, before: Stage) {
        let Some(after) = self.by_id.get(id).map(AgentView::stage).filter(|after| *after != before) else {
            return;
        };
        *self.counts.of(before) -= 1;
        *self.counts.of(after) += 1;
        if after.is_over()
            && !before.is_over()
            && let Some(parent) = id.parent().and_then(|parent| self.by_id.get_mut(&parent))
        {
            parent.open_children -= 1;
        }
    }
}

impl ViewPart for Agents {
    fn needs(&self, _: &str) -> bool {
        true
    }

    fn apply(&mut self, event: &ViewEvent<'_>) {
        match event.body {
            EventBody::RunStarted(e) => self.add(AgentView::root(event.agent, e, event.at_ms), None),
            EventBody::SubagentCreated(e) => {
                self.add(AgentView::child(event.agent, e, event.at_ms), Some(&e.parent_id));
            }
            _ => {}
        }
        let Some(agent) = self.by_id.get_mut(event.agent) else { return };
        let before = agent.stage();
        agent.apply(event);
        let figures = figures_of(event, agent.created_at_ms);
        if figures != Figures::default() {
            self.count(event.agent, figures);
        }
        self.count_stage(event.agent, before);
    }
}

/// What an event adds to the figures of its agent, as the engine's ledger counts it.
fn figures_of(event: &ViewEvent<'_>, created_at_ms: i64) -> Figures {
    // A clock that jumped back gives none.
    let wall_ms = u64::try_from(event.at_ms - created_at_ms).unwrap_or(0);
    let none = Figures::default();
    match event.body {
        // A call that failed is a call retry, not a turn; its cost counts all the same.
        EventBody::ModelReplied(e) => {
            Figures { turns: u64::from(e.error.is_none()), ..Figures::from(e.usage) }
        }
        EventBody::ToolFinished(_) | EventBody::ToolInterrupted(_) => Figures { tool_calls: 1, ..none },
        EventBody::SubagentWaitingForMerge(e) => {
            Figures { turn_limited: u64::from(e.turns_exhausted), ..none }
        }
        EventBody::RunCompleted(e) => Figures { wall_ms, turn_limited: u64::from(e.turns_exhausted), ..none },
        EventBody::SubagentClosed(_) | EventBody::RunFailed(_) | EventBody::RunCancelled(_) => {
            Figures { wall_ms, ..none }
        }
        _ => none,
    }
}

/// What a reply says, in a few words.
fn reply_line(replied: &ModelReplied) -> String {
    if let Some(error) = &replied.error {
        return printable::line(&format!("model failed: {}", error.message));
    }
    let Some(reply) = &replied.reply else { return String::new() };
    let text = printable::line(&first_line(&reply.text.to_shared(), ACTIVITY_MAX_CHARS));
    match reply.calls.as_slice() {
        _ if !text.is_empty() => text,
        [] => String::new(),
        [call] => format!("calls {}", printable::line(&call.name)),
        calls => format!("{} calls", calls.len()),
    }
}
