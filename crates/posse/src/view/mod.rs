//! The read model of a run, for front ends.
//!
//! [`RunView::apply`] takes the events of a journal one by one and passes each to its parts: the agents with their
//! states and figures, the open questions, the waits for providers, the files, the plan, the timeline. It is the only
//! fold besides the engine's own. Queries are cheap. A part can also read a journal alone, and decodes only the kinds
//! of events that it names.
//!
//! | file | content |
//! |---|---|
//! | `agent`, `agents` | one agent, and the tree of all agents |
//! | `questions`, `waits`, `blocked` | what agents wait for outside of the run |
//! | `files`, `file_history` | the commits of each agent, and its files at a moment |
//! | `refusals` | the operations that were refused |
//! | `open_calls` | the reserves of model calls without a reply |
//! | `continued` | the agent of an earlier run that a run continues |
//! | `plan`, `timeline` | the other parts |
//! | `tracks` | when each agent did what; not part of the whole view, which would grow with every call |
//! | `spending` | figures as of a moment, and sums of them |
//! | `summary` | a run as an entry of a list, from its row alone |
//! | `rows` | conversion of the store's rows to agents: the only code that parses their JSON |
//! | `load` | views, parts and lists read from a store |
//!
//! Texts in a view are single lines without control characters, and short: a view may stay in memory as long as a run.
//!
//! Why it is like this: `docs/decisions/view-read-model.md`.

mod agent;
mod agents;
mod blocked;
mod continued;
mod file_history;
mod files;
mod load;
mod open_calls;
mod plan;
mod questions;
mod refusals;
mod rows;
mod spending;
mod summary;
mod timeline;
mod tracks;
mod waits;

pub use agent::{AgentView, IntegrationProgress, Refusal, Stage};
pub use agents::{Agents, StageCounts};
pub use blocked::{BlockedAgents, BlockedOn};
pub use continued::ContinuedAgent;
pub(crate) use file_history::{FileHistory, FilesAt};
pub(crate) use files::started_from;
pub use files::{AgentCommits, AgentFiles};
pub(crate) use open_calls::OpenModelCalls;
pub use plan::{PlanView, StepView};
pub use questions::{OpenQuestion, OpenQuestions};
pub use refusals::{REFUSED_LISTED_MAX, RefusedBy, RefusedOperation, RefusedOperations};
pub use rows::AgentRecord;
pub(crate) use rows::authority;
pub use spending::{RunFigures, SpendingOfRuns, SpendingTotal, TotalsByName};
pub use summary::{ListStatus, ListedRun, RunSummary, ShownStatus};
pub use timeline::{TIMELINE_MAX_ENTRIES, Timeline, TimelineEntry};
pub use tracks::{TRACK_MAX_SPANS, Track, TrackActivity, TrackEffect, TrackEffectType, TrackSpan, Tracks};
pub use waits::{ProviderWait, ProviderWaits, time_of_day};

use std::borrow::Cow;

use posse_domain::event::{Event, EventBody, EventKind};
use posse_domain::id::{AgentId, RunId};
use posse_domain::lifecycle::RunStatus;
use posse_domain::printable;
use posse_domain::request::RUN_TITLE_MAX_CHARS;
use posse_domain::text::first_line;
use posse_engine::Delta;
use posse_engine::ports::Holder;

use crate::{JournalEvent, PendingQuestion, Usage};

/// An event in the form that the parts of a view take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ViewEvent<'a> {
    pub(crate) seq: u64,
    pub(crate) agent: &'a AgentId,
    pub(crate) at_ms: i64,
    pub(crate) body: &'a EventBody,
    summary: Option<&'a str>,
}

impl<'a> ViewEvent<'a> {
    /// Wraps a decoded event with its number.
    pub(crate) fn new(seq: u64, event: &'a Event) -> Self {
        Self { seq, agent: &event.agent, at_ms: event.at_ms, body: &event.body, summary: None }
    }

    /// The event in one line.
    fn summary(&self) -> Cow<'a, str> {
        self.summary.map_or_else(|| Cow::Owned(self.body.summary()), Cow::Borrowed)
    }
}

impl<'a> From<&'a JournalEvent> for ViewEvent<'a> {
    fn from(event: &'a JournalEvent) -> Self {
        Self {
            seq: event.seq,
            agent: &event.agent_id,
            at_ms: event.at_ms,
            body: &event.body,
            summary: Some(&event.summary),
        }
    }
}

/// A part of a view: a fold over some kinds of events.
pub(crate) trait ViewPart: Default {
    /// Whether an event of this kind can change the part in its current state. Others need not be decoded for it.
    fn needs(&self, kind: EventKind) -> bool;

    /// Applies an event of a kind that it needs.
    fn apply(&mut self, event: &ViewEvent<'_>);

    /// Takes the next event. The whole view filters events like a part that reads a journal alone, so that both give
    /// the same result.
    fn take(&mut self, event: &ViewEvent<'_>) {
        if self.needs(event.body.into()) {
            self.apply(event);
        }
    }
}

/// A run for display.
#[derive(Debug, Default)]
pub struct RunView {
    agents: Agents,
    blocked: BlockedAgents,
    files: AgentCommits,
    /// Rows do not hold the commits of agents.
    starts_from_rows: bool,
    plan: PlanView,
    timeline: Timeline,
    refused: RefusedOperations,
    continues: Option<ContinuedAgent>,
    title: String,
    dir: String,
    holder: Option<Holder>,
    /// Whether its end says that its root, or a sub-agent that it required, ran out of turns.
    is_turn_limited: bool,
    last_seq: u64,
    last_at_ms: i64,
    /// When its last lease holder is known to have lived, if no process executed it when the view was loaded.
    alive_at_ms: Option<i64>,
    /// Whether it shows the run as it was at an earlier event. Then a process executed it.
    is_past: bool,
}

impl RunView {
    /// Applies the next event. An event that the view already has changes nothing.
    pub fn apply(&mut self, event: &JournalEvent) {
        self.take(&event.into());
    }

    fn take(&mut self, event: &ViewEvent<'_>) {
        if event.seq <= self.last_seq {
            return;
        }
        self.last_seq = event.seq;
        self.last_at_ms = event.at_ms;
        // A process executes it again, and the journal says what became of its calls.
        self.agents.forget_cut_off();
        if let EventBody::RunStarted(started) = event.body {
            let request = started.request.text.to_shared();
            self.title = printable::line(&first_line(&request, RUN_TITLE_MAX_CHARS));
            self.dir.clone_from(&started.request.dir);
            self.continues = ContinuedAgent::of(started);
        }
        self.is_turn_limited |= crate::RunOutcome::is_turn_limited_by(event.body);
        self.agents.take(event);
        self.blocked.take(event);
        self.files.take(event);
        self.plan.take(event);
        self.timeline.take(event);
        self.refused.take(event);
    }

    /// Applies a piece of a reply in progress. A piece that arrives after its reply changes nothing.
    pub fn apply_delta(&mut self, delta: &Delta) {
        self.agents.apply_delta(delta);
    }

    /// The id of the run; `None` before its first event.
    pub fn run(&self) -> Option<RunId> {
        self.agents.root().map(|root| root.id.run())
    }

    /// The run's id, which is also its root's; empty before its first event.
    pub(crate) fn run_str(&self) -> &str {
        self.agents.root().map_or("", |root| root.id.as_str())
    }

    /// The first line of its request.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Its working directory.
    pub fn dir(&self) -> &str {
        &self.dir
    }

    /// The agent of an earlier run that it continues or retries.
    pub fn continues(&self) -> Option<&ContinuedAgent> {
        self.continues.as_ref()
    }

    /// The process that executed it when the view was loaded. No event names it.
    pub fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()
    }

    /// The tree of its agents.
    pub fn agents(&self) -> &Agents {
        &self.agents
    }

    /// What its agents wait for outside of the run.
    pub fn blocked(&self) -> &BlockedAgents {
        &self.blocked
    }

    /// The commits of its agents, and their salvage. None for a view that started from rows, which do not hold them.
    pub fn files(&self) -> Option<&AgentCommits> {
        (!self.starts_from_rows).then_some(&self.files)
    }

    /// Records that an answer to this question was posted. The journal has it once the lease holder has read it.
    pub fn mark_answered(&mut self, request: &PendingQuestion) {
        self.blocked.questions.mark_posted(request);
    }

    /// The plan that the run executes; empty if it has none.
    pub fn plan(&self) -> &PlanView {
        &self.plan
    }

    /// The last events, at most [`TIMELINE_MAX_ENTRIES`].
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// The operations that were refused.
    pub fn refused(&self) -> &RefusedOperations {
        &self.refused
    }

    /// How long it took, or has been running as of `now_ms`. An interrupted run counts until its last lease holder is
    /// known to have lived.
    pub fn elapsed_ms(&self, now_ms: i64) -> u64 {
        let until = self.ended_at_ms().unwrap_or_else(|| self.until_ms(now_ms));
        until.saturating_sub(self.started_at_ms()).max(0).cast_unsigned()
    }

    /// Until when its open agents have worked: until now if a process executes it, else until its last event, or until its
    /// last lease holder renewed the lease, if that was later.
    fn until_ms(&self, now_ms: i64) -> i64 {
        let is_executed = self.status().is_running() && self.holder().is_some() && !self.is_past;
        if is_executed { now_ms } else { self.last_at_ms.max(self.alive_at_ms.unwrap_or(i64::MIN)) }
    }

    /// Whether it has not ended and no process executed it when the view was loaded.
    pub fn is_interrupted(&self) -> bool {
        self.shown_status() == ShownStatus::Interrupted
    }

    /// The status by the events so far.
    pub fn status(&self) -> RunStatus {
        self.agents.root().map_or(RunStatus::Running, AgentView::run_status)
    }

    /// The status for display.
    pub fn shown_status(&self) -> ShownStatus {
        ShownStatus::new(self.status(), self.holder.is_some() || self.is_past)
    }

    /// Whether its root, or a sub-agent that it required, ran out of turns.
    pub fn is_turn_limited(&self) -> bool {
        self.is_turn_limited || self.agents.root().is_some_and(AgentView::is_turn_limited)
    }

    /// What the whole tree spent. In an interrupted run, the calls without a reply were cut off.
    pub fn usage(&self) -> Usage {
        self.agents.root().map(|root| root.subtree.usage).unwrap_or_default()
    }

    /// Whether no call was answered, and one in progress is of unknown price: what the run spends is unknown.
    pub fn is_cost_unknown(&self) -> bool {
        self.usage().tokens() == 0 && self.agents.iter().any(|agent| agent.asks_at_unknown_price)
    }

    /// The turns of the whole tree.
    pub fn turns(&self) -> u64 {
        self.agents.root().map_or(0, |root| root.subtree.turns)
    }

    /// Whether it is a replay: its figures are those of the recorded run, and nothing was spent again.
    pub fn is_replay(&self) -> bool {
        self.agents.root().is_some_and(|root| crate::replayed(&root.model).is_some())
    }

    /// The recorded run or the bundle that it replays, if it is a replay.
    pub fn replay_of(&self) -> Option<&str> {
        self.agents.root().and_then(|root| crate::replayed(&root.model))
    }

    /// When it started, in milliseconds since 1970; 0 before its first event.
    pub fn started_at_ms(&self) -> i64 {
        self.agents.root().map_or(0, |root| root.created_at_ms)
    }

    /// When it ended, in milliseconds since 1970.
    pub fn ended_at_ms(&self) -> Option<i64> {
        self.agents.root().and_then(|root| root.completed_at_ms)
    }

    /// When its last event happened; 0 before its first.
    pub fn last_at_ms(&self) -> i64 {
        self.last_at_ms
    }

    /// The number of the last event that the view has.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }
}

#[cfg(test)]
mod tests;
