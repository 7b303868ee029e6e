//! One agent for display: its state, its spending, its current activity.

use std::sync::LazyLock;

use posse_domain::code::Code;
use posse_domain::event::{
    EventBody, FinalStatus, ModelReplied, Purpose, QueuedFor, RunStarted, SubagentClosed, SubagentCreated,
};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{
    AgentState, CloseReason, FailKind, FailureReason, RunStatus, cancelled, with_code,
};
use posse_domain::permission::ToolSet;
use posse_domain::printable;
use posse_domain::text::first_line;
use posse_engine::ports::Tool;
use posse_engine::{Delta, DeltaCall, DeltaPart};

use super::ViewEvent;
use crate::Figures;

/// Limit of refusals that an agent's view lists; further ones are only counted.
const REFUSALS_MAX: usize = 4;
/// Bytes of a reply in progress that are kept; up to twice as many between two cuts.
const SAYING_MAX_BYTES: usize = 4_096;
/// Longest activity.
const ACTIVITY_MAX_CHARS: usize = 200;
/// The activity during a call for a summary.
const SUMMARISES: &str = "summarises its conversation";
/// The activity after a compaction.
const COMPACTED: &str = "compacted its conversation";

/// An agent's state for display: the states of the lifecycle, with a separate state for each kind of end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It was created and has not started.
    Queued,
    /// It is working.
    Running,
    /// Its work has ended and its parent has not closed it yet.
    WaitingForMerge,
    /// It ended with an accepted result.
    Completed,
    /// It ended without an accepted result.
    Failed,
    /// It ended because it, its parent or the run was cancelled.
    Cancelled,
}

impl Stage {
    /// Whether the agent has ended.
    pub fn is_over(self) -> bool {
        matches!(self, Stage::Completed | Stage::Failed | Stage::Cancelled)
    }
}

/// How far the integration of an agent's work is, by its last event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntegrationProgress {
    /// Its checks passed on the merged files.
    ChecksPassed,
    /// A check failed on the merged files.
    ChecksFailed,
    /// Its changes do not merge with the files of its parent.
    Conflicted,
    /// Its changes are merged into the files of its parent.
    Merged,
}

/// A child that the engine refused to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The definition that the child was to have.
    pub definition: String,
    /// Why it was refused.
    pub code: Code,
}

/// One agent of a run, created from its row or from events. Fields that rows do not have (turn, attempt, activity,
/// refusals) keep their initial value until the next event about the agent.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "they do not depend on each other")]
pub struct AgentView {
    /// Its id, which determines its parent and its depth.
    pub id: AgentId,
    /// The name of its definition.
    pub definition: String,
    /// The skill that it executes, if it was created for one.
    pub skill: Option<String>,
    /// The description that its parent gave.
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
    /// What the agent itself spent. Its wall time is included once it has closed. [`RunFigures`](super::RunFigures)
    /// counts the wall time of open agents.
    pub own: Figures,
    /// What the agent and its subtree spent, with the wall time of closed agents.
    pub subtree: Figures,
    /// When it was created, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// When it closed, in milliseconds since 1970.
    pub completed_at_ms: Option<i64>,
    /// The turn of the current attempt; 0 before the first.
    pub turn: u32,
    /// Its turn limit per attempt.
    pub turn_limit: Option<u32>,
    /// The number of its attempt, from 1.
    pub attempt: u32,
    /// Whether its parent continues without waiting for it.
    pub background: bool,
    /// Whether a request to its model is in flight.
    pub asking: bool,
    /// Whether the price of that request is unknown.
    pub asks_at_unknown_price: bool,
    /// Its last action, in one line.
    pub activity: String,
    /// How far its integration is; `None` until the first result.
    pub integration: Option<IntegrationProgress>,
    /// Whether its tools can change files.
    pub can_write: bool,
    /// How many tool calls of its last reply have no result yet.
    pub open_calls: u64,
    /// The number of its last event; 0 if the view has seen none.
    pub last_seq: u64,
    /// Its children, oldest first.
    pub children: Vec<AgentId>,
    /// How many of its children have not ended.
    pub open_children: u64,
    /// The first refusals of children.
    pub refused: Vec<Refusal>,
    /// How many children were refused in total.
    pub refused_count: usize,
    /// The end of the reply in progress, as its pieces arrived: a control sequence may be cut in two.
    saying: String,
    /// The model call that `saying` belongs to.
    saying_in: DeltaCall,
    /// The last model call that has ended.
    replied_in: DeltaCall,
}

impl AgentView {
    pub(super) fn new(id: AgentId, definition: &str, title: &str, model: &str, created_at_ms: i64) -> Self {
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
            asks_at_unknown_price: false,
            activity: String::new(),
            integration: None,
            can_write: false,
            open_calls: 0,
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

    pub(super) fn root(id: &AgentId, started: &RunStarted, at_ms: i64) -> Self {
        let execution = &started.contract.execution;
        let title = &started.contract.step.title;
        Self {
            state: AgentState::Running,
            skill: execution.skill.as_deref().map(printable::line),
            turn_limit: execution.max_turns,
            can_write: can_write(&started.contract.permissions.allowed_tools),
            ..Self::new(id.clone(), &execution.definition, title, &execution.model, at_ms)
        }
    }

    pub(super) fn child(id: &AgentId, created: &SubagentCreated, at_ms: i64) -> Self {
        let contract = &created.contract;
        Self {
            background: created.background,
            skill: created.skill.as_deref().map(printable::line),
            turn_limit: created.turn_limit,
            can_write: can_write(&contract.permissions.allowed_tools),
            ..Self::new(
                id.clone(),
                &created.definition,
                &contract.step.title,
                &contract.execution.model,
                at_ms,
            )
        }
    }

    /// The agent that created it; `None` for the root.
    pub fn parent(&self) -> Option<AgentId> {
        self.id.parent()
    }

    /// Its distance from the root, which has depth 0.
    pub fn depth(&self) -> u32 {
        self.id.depth()
    }

    /// Its state for display.
    pub fn stage(&self) -> Stage {
        match (self.state, self.final_status) {
            (AgentState::Created, _) => Stage::Queued,
            (AgentState::Running, _) => Stage::Running,
            // Accepted work still has to be closed by the parent.
            (AgentState::WaitingForMerge | AgentState::Completed, _) => Stage::WaitingForMerge,
            (AgentState::Closed, Some(FinalStatus::Completed)) => Stage::Completed,
            (AgentState::Failed | AgentState::Closed, _) if self.is_cancelled() => Stage::Cancelled,
            (AgentState::Failed | AgentState::Closed, _) => Stage::Failed,
        }
    }

    /// Whether its turn limit cut off its work, whether that was accepted or not.
    pub fn is_turn_limited(&self) -> bool {
        self.own.turn_limited > 0
            || self.failure.as_ref().is_some_and(|failure| failure.code == Code::TurnLimit)
    }

    /// Whether none of its calls was answered, and the one in progress is of unknown price: what it spends is unknown.
    pub fn is_cost_unknown(&self) -> bool {
        self.asks_at_unknown_price && self.own.usage.tokens() == 0
    }

    /// How many files its accepted work changed. None if it cannot change files, or if no work of it was accepted.
    pub fn files_changed(&self) -> Option<u64> {
        self.own.files_changed.filter(|files| self.can_write || *files > 0)
    }

    /// Whether its work was accepted without any change, although it can change files.
    pub fn is_unchanged(&self) -> bool {
        self.stage() == Stage::Completed && self.files_changed() == Some(0)
    }

    /// What it does now, in one line. None if it has ended, or if the view has seen no event of it.
    pub fn current_activity(&self) -> Option<String> {
        match self.stage() {
            stage if stage.is_over() => None,
            Stage::Running if self.asking => {
                Some(format!("waits for the reply of its model, turn {}", self.turn))
            }
            _ => Some(self.activity.clone()).filter(|text| !text.is_empty()),
        }
    }

    /// Whether its model is writing a reply and some of it has arrived.
    pub fn is_saying(&self) -> bool {
        self.asking && !self.saying.is_empty()
    }

    /// The last lines of the reply in progress, newest last.
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

    pub(super) fn apply(&mut self, event: &ViewEvent<'_>) {
        self.apply_lifecycle(event);
        if let EventBody::SubagentRefused(e) = event.body {
            self.refused_count += 1;
            if self.refused.len() < REFUSALS_MAX {
                self.refused.push(Refusal { definition: printable::line(&e.definition), code: e.code });
            }
        }
        self.apply_activity(event);
    }

    /// Applies what rows do not hold: the agent's turn and what it does.
    pub(super) fn apply_activity(&mut self, event: &ViewEvent<'_>) {
        self.last_seq = event.seq;
        match event.body {
            EventBody::ModelCalled(e) => self.asks_at_unknown_price = e.reserved.micro_usd.is_none(),
            EventBody::ToolFinished(_) | EventBody::ToolInterrupted(_) => {
                self.open_calls = self.open_calls.saturating_sub(1);
            }
            EventBody::ModelReplied(e) => {
                self.asks_at_unknown_price = false;
                self.open_calls = e.reply.as_ref().map_or(0, |reply| reply.calls.len() as u64);
            }
            _ => {}
        }
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
                self.integration = None;
                self.activity = printable::line(&event.summary());
            }
            EventBody::ModelCalled(e) if e.purpose == Purpose::Summary => {
                self.asking = true;
                SUMMARISES.clone_into(&mut self.activity);
            }
            EventBody::ModelReplied(e) if e.summary => {
                self.asking = false;
                if e.error.is_some() {
                    self.activity = reply_line(e);
                }
            }
            EventBody::ContextCompacted(_) => COMPACTED.clone_into(&mut self.activity),
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
            EventBody::SubagentWaitingForMerge(e) => {
                self.activity = printable::line(&first_line(&e.report.to_shared(), ACTIVITY_MAX_CHARS));
            }
            EventBody::ChecksPassed(_) => self.integration = Some(IntegrationProgress::ChecksPassed),
            EventBody::ChecksFailed(_) => self.integration = Some(IntegrationProgress::ChecksFailed),
            EventBody::WorktreeConflicted(_) => self.integration = Some(IntegrationProgress::Conflicted),
            EventBody::WorktreeMerged(_) => self.integration = Some(IntegrationProgress::Merged),
            // It reads the message after the calls at work.
            EventBody::MessageReceived(_) if self.open_calls > 0 => {}
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

    fn apply_lifecycle(&mut self, event: &ViewEvent<'_>) {
        match event.body {
            EventBody::SubagentStarted(_) | EventBody::SubagentAttempt(_) => self.state = AgentState::Running,
            EventBody::SubagentWaitingForMerge(_) => self.state = AgentState::WaitingForMerge,
            EventBody::IntegrationPassed(_) => self.state = AgentState::Completed,
            EventBody::SubagentFailed(e) => self.fail(e.kind, e.code, &e.reason),
            EventBody::IntegrationFailed(e) => self.fail(e.kind, e.code, &e.reason),
            EventBody::SubagentClosed(SubagentClosed { final_status, close_reason, .. }) => {
                self.close(*final_status, Some(*close_reason), event.at_ms);
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
        let words = if kind == FailKind::Cancelled { cancelled(reason) } else { with_code(reason, code) };
        self.activity = printable::line(&words);
    }

    fn close(&mut self, final_status: FinalStatus, reason: Option<CloseReason>, at_ms: i64) {
        self.state = AgentState::Closed;
        self.final_status = Some(final_status);
        self.close_reason = reason;
        self.completed_at_ms = Some(at_ms);
    }

    /// From now on pieces belong to this call, so those of an earlier one are dropped.
    fn begin_saying(&mut self, call: DeltaCall) {
        if self.saying_in < call {
            self.saying_in = call;
            self.saying.clear();
        }
    }

    /// Adds a piece of the reply in progress. Pieces may arrive before the event of their call and after that of the
    /// reply.
    pub(super) fn apply_delta(&mut self, delta: &Delta) {
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

/// Whether one of these tools can change files.
pub(super) fn can_write(tools: &ToolSet) -> bool {
    static WRITERS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
        let writes = |tool: &Tool| tool.class.changes_workspace();
        crate::builtin_tools().iter().filter(|tool| writes(tool)).map(|tool| tool.name).collect()
    });
    tools.iter().any(|tool| WRITERS.contains(&tool.as_str()))
}

/// A reply as an activity.
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
