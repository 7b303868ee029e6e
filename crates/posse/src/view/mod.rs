//! The read model of a run: what front ends show of it.
//!
//! [`RunView::apply`] takes the events of a journal one by one and hands each to its parts: the agents with their states
//! and figures, the open questions, the waits for providers, the files, the plan, the timeline. It is the only fold
//! besides the engine's own. A query costs nothing but its answer; a part can also read a journal alone, and decodes
//! only the kinds of events that it names.
//!
//! Texts in a view are single lines without control characters, and short: it may stay in memory as long as a run.
//!
//! Why it is like this: `docs/decisions/view-read-model.md`.

mod agents;
mod files;
mod load;
mod plan;
mod questions;
mod timeline;
mod waits;

pub use agents::{AgentView, Agents, Refusal, Stage, StageCounts};
pub(crate) use files::{RunFiles, started_from};
pub use plan::{PlanView, StepView};
pub use questions::{OpenQuestion, OpenQuestions};
pub use timeline::{TIMELINE_MAX_ENTRIES, Timeline, TimelineEntry};
pub use waits::{ProviderWait, ProviderWaits};

use std::borrow::Cow;

use posse_domain::event::{Event, EventBody};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::RunStatus;
use posse_engine::Delta;

use crate::{AgentInfo, JournalEvent, Usage};

/// An event as the parts of a view take it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ViewEvent<'a> {
    pub(crate) seq: u64,
    pub(crate) agent: &'a AgentId,
    pub(crate) at_ms: i64,
    pub(crate) body: &'a EventBody,
    summary: Option<&'a str>,
}

impl<'a> ViewEvent<'a> {
    /// An event as it was decoded, with its number.
    pub(crate) fn new(seq: u64, event: &'a Event) -> Self {
        Self { seq, agent: &event.agent, at_ms: event.at_ms, body: &event.body, summary: None }
    }

    /// What happened, in one line.
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
    /// Whether an event of this kind can change the part as it is now. Others need not be decoded for it.
    fn needs(&self, kind: &str) -> bool;

    /// Takes the next event.
    fn apply(&mut self, event: &ViewEvent<'_>);
}

/// Two parts that read a journal together.
impl<A: ViewPart, B: ViewPart> ViewPart for (A, B) {
    fn needs(&self, kind: &str) -> bool {
        self.0.needs(kind) || self.1.needs(kind)
    }

    fn apply(&mut self, event: &ViewEvent<'_>) {
        self.0.apply(event);
        self.1.apply(event);
    }
}

/// Whether an event of this kind is the last one of its run.
pub fn is_end(kind: &str) -> bool {
    matches!(kind, "run.completed" | "run.failed" | "run.cancelled")
}

/// A run as its events tell it.
#[derive(Debug, Default)]
pub struct RunView {
    agents: Agents,
    questions: OpenQuestions,
    waits: ProviderWaits,
    files: RunFiles,
    plan: PlanView,
    timeline: Timeline,
    last_seq: u64,
    last_at_ms: i64,
}

impl RunView {
    /// A view that starts from the rows of current state, which hold everything up to event `seq`. Events before it are
    /// not needed; what rows do not hold (questions, waits, files, the plan) is known from the later ones on.
    pub(crate) fn from_rows(agents: &[AgentInfo], seq: u64) -> Self {
        Self { agents: Agents::from_rows(agents), last_seq: seq, ..Self::default() }
    }

    /// Takes the next event. One that the view has already is left out.
    pub fn apply(&mut self, event: &JournalEvent) {
        self.take(&event.into());
    }

    fn take(&mut self, event: &ViewEvent<'_>) {
        if event.seq <= self.last_seq {
            return;
        }
        self.last_seq = event.seq;
        self.last_at_ms = event.at_ms;
        self.agents.apply(event);
        self.questions.apply(event);
        self.waits.apply(event);
        self.files.apply(event);
        self.plan.apply(event);
        self.timeline.apply(event);
    }

    /// Takes a piece of what a model is saying. A piece that comes after the reply it is of is late, and left out.
    pub fn apply_delta(&mut self, delta: &Delta) {
        self.agents.apply_delta(delta);
    }

    /// The agents.
    pub fn agents(&self) -> &Agents {
        &self.agents
    }

    /// The calls that wait for a person.
    pub fn questions(&self) -> &OpenQuestions {
        &self.questions
    }

    /// The agents that wait for the provider of their model.
    pub fn waits(&self) -> &ProviderWaits {
        &self.waits
    }

    /// The plan that the run carries out; without steps if it has none.
    pub fn plan(&self) -> &PlanView {
        &self.plan
    }

    /// What happened last.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Where the run stands.
    pub fn status(&self) -> RunStatus {
        self.agents.root().map_or(RunStatus::Running, AgentView::run_status)
    }

    /// What the whole tree spent.
    pub fn usage(&self) -> Usage {
        self.agents.root().map(|root| root.subtree.usage).unwrap_or_default()
    }

    /// The turns of the whole tree.
    pub fn turns(&self) -> u64 {
        self.agents.root().map_or(0, |root| root.subtree.turns)
    }

    /// Whether the run is a recorded one, run again.
    pub fn is_replay(&self) -> bool {
        self.agents.root().is_some_and(|root| crate::replayed(&root.model).is_some())
    }

    /// When the run started, in milliseconds since 1970; 0 before its first event.
    pub fn started_at_ms(&self) -> i64 {
        self.agents.root().map_or(0, |root| root.created_at_ms)
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
