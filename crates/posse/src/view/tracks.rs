//! When each agent did what, for a timeline with one track per agent.

use std::collections::{HashMap, VecDeque};

use posse_domain::event::{ChecksFailed, ChecksPassed, EventBody, EventKind};
use posse_domain::id::AgentId;
use posse_domain::printable;
use posse_domain::text::first_line;

use super::{ViewEvent, ViewPart};
use crate::JournalEvent;

/// How many spans a track keeps. The first one then also stands for those before it.
pub const TRACK_MAX_SPANS: usize = 1_000;
/// Longest name of an effect.
const NAME_MAX_CHARS: usize = 60;

/// What an agent does for some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackActivity {
    /// It waits to start, or is between two activities.
    Waiting,
    /// Its model writes a reply.
    Model,
    /// Its tool calls are executed. A call of `task` lasts as long as the child that it waits for.
    Tools,
    /// A call waits for an approver.
    Approver,
    /// Its work has ended and is being integrated.
    Integration,
}

/// An activity and its start; it lasts until the next one starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrackSpan {
    /// What the agent does.
    pub activity: TrackActivity,
    /// When that started, in milliseconds since 1970.
    pub from_ms: i64,
}

/// What an effect of an agent, or a wait that has ended, is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackEffectType {
    /// A call of its model.
    Model,
    /// A tool call.
    Tool,
    /// A wait for its provider.
    ProviderWait,
    /// A check of its work.
    Check,
    /// The merge of its work into the files of its parent.
    Merge,
}

/// An effect that has ended. Several of one agent may have run at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrackEffect {
    /// What it is.
    pub of: TrackEffectType,
    /// The model's turn, the tool, the provider or the command, in one line.
    pub name: String,
    /// When it began, in milliseconds since 1970.
    pub from_ms: i64,
    /// When it ended.
    pub until_ms: i64,
    /// Whether it failed.
    pub is_failed: bool,
    /// The number of the event that ended it.
    pub seq: u64,
}

/// The activities of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Track {
    /// The agent.
    pub agent: AgentId,
    /// When it closed, in milliseconds since 1970.
    pub ended_at_ms: Option<i64>,
    /// In the order of time; never empty.
    spans: VecDeque<TrackSpan>,
    /// The newest effects that have ended, in the order of their ends.
    effects: VecDeque<TrackEffect>,
    /// How many older effects and spans are not kept one by one.
    omitted: u64,
    /// When the merge of its work began.
    merging_since_ms: Option<i64>,
    /// The tool calls of the last reply that have no result yet.
    open_calls: usize,
    /// The call of its parent that asked for it.
    call_id: Option<String>,
}

impl Track {
    fn new(agent: AgentId, at_ms: i64, call_id: Option<String>) -> Self {
        let first = TrackSpan { activity: TrackActivity::Waiting, from_ms: at_ms };
        Self {
            agent,
            ended_at_ms: None,
            spans: [first].into(),
            effects: VecDeque::new(),
            omitted: 0,
            merging_since_ms: None,
            open_calls: 0,
            call_id,
        }
    }

    /// When the agent was created.
    fn created_at_ms(&self) -> Option<i64> {
        self.spans.front().map(|first| first.from_ms)
    }

    /// Its newest effects that have ended, at most [`TRACK_MAX_SPANS`], in the order of their ends.
    pub fn effects(&self) -> impl DoubleEndedIterator<Item = &TrackEffect> + ExactSizeIterator {
        self.effects.iter()
    }

    /// How many older effects and spans are not in the track one by one.
    pub fn omitted(&self) -> u64 {
        self.omitted
    }

    /// Its activities, oldest first.
    pub fn spans(&self) -> impl ExactSizeIterator<Item = &TrackSpan> {
        self.spans.iter()
    }

    /// What the agent did for the longest time between two moments; `None` if it did not exist then.
    pub fn between(&self, from_ms: i64, until_ms: i64) -> Option<TrackActivity> {
        let end = self.ended_at_ms.unwrap_or(i64::MAX).min(until_ms);
        let first = self.spans.partition_point(|span| span.from_ms <= from_ms).saturating_sub(1);
        let mut longest: Option<(i64, TrackActivity)> = None;
        for (at, span) in self.spans.iter().enumerate().skip(first) {
            if span.from_ms >= until_ms {
                break;
            }
            let next = self.spans.get(at + 1).map_or(i64::MAX, |next| next.from_ms);
            let lasted = next.min(end).saturating_sub(span.from_ms.max(from_ms));
            // An agent that was created and closed at the same moment existed nevertheless.
            if lasted >= 0 && span.from_ms <= end && longest.is_none_or(|(most, _)| lasted > most) {
                longest = Some((lasted, span.activity));
            }
        }
        longest.map(|(_, activity)| activity)
    }

    fn begin(&mut self, activity: TrackActivity, at_ms: i64) {
        if self.spans.back().is_some_and(|last| last.activity == activity) {
            return;
        }
        // A clock that jumped back must not put the spans out of order.
        let from_ms = self.spans.back().map_or(at_ms, |last| last.from_ms.max(at_ms));
        self.spans.push_back(TrackSpan { activity, from_ms });
        if self.spans.len() > TRACK_MAX_SPANS
            && let Some(oldest) = self.spans.pop_front()
            && let Some(first) = self.spans.front_mut()
        {
            first.from_ms = oldest.from_ms;
            self.omitted += 1;
        }
    }

    /// Adds an effect that took this long and has just ended.
    fn ended(&mut self, of: TrackEffectType, name: &str, elapsed_ms: u64, is_failed: bool, at: (i64, u64)) {
        let (until_ms, seq) = at;
        let from_ms = until_ms.saturating_sub_unsigned(elapsed_ms);
        if self.effects.len() == TRACK_MAX_SPANS {
            self.effects.pop_front();
            self.omitted += 1;
        }
        let name = printable::line(&first_line(name, NAME_MAX_CHARS));
        self.effects.push_back(TrackEffect { of, name, from_ms, until_ms, is_failed, seq });
    }

    /// Adds what an event ends.
    fn end_effects(&mut self, event: &ViewEvent<'_>) {
        use TrackEffectType::{Check, Merge, Model, ProviderWait, Tool};
        let at = (event.at_ms, event.seq);
        match event.body {
            EventBody::ModelReplied(e) => {
                let name = if e.summary { "summary".to_owned() } else { format!("turn {}", e.turn) };
                self.ended(Model, &name, e.elapsed_ms, e.error.is_some(), at);
            }
            EventBody::ToolFinished(e) => self.ended(Tool, &e.tool, e.elapsed_ms, !e.ok, at),
            EventBody::ProviderWaitEnded(e) => {
                self.ended(ProviderWait, "provider", e.waited_ms, false, at);
            }
            EventBody::ChecksPassed(ChecksPassed { checks, .. })
            | EventBody::ChecksFailed(ChecksFailed { checks, .. }) => {
                // They run one after the other, and the event is at the end of the last one.
                let mut until =
                    event.at_ms.saturating_sub_unsigned(checks.iter().map(|one| one.elapsed_ms).sum());
                for check in checks {
                    until = until.saturating_add_unsigned(check.elapsed_ms);
                    self.ended(Check, &check.command, check.elapsed_ms, !check.ok, (until, event.seq));
                }
            }
            EventBody::WorktreeMerged(_) => self.merging_since_ms = Some(event.at_ms),
            EventBody::WorktreeConflicted(_) => self.ended(Merge, "merge", 0, true, at),
            EventBody::IntegrationPassed(_) | EventBody::IntegrationFailed(_) => {
                if let Some(since) = self.merging_since_ms.take() {
                    let elapsed_ms = event.at_ms.saturating_sub(since).max(0).cast_unsigned();
                    let is_failed = matches!(event.body, EventBody::IntegrationFailed(_));
                    self.ended(Merge, "merge", elapsed_ms, is_failed, at);
                }
            }
            _ => {}
        }
    }

    fn apply(&mut self, event: &ViewEvent<'_>) {
        self.end_effects(event);
        let activity = match event.body {
            EventBody::ModelCalled(_) => TrackActivity::Model,
            EventBody::ModelReplied(e) => {
                self.open_calls = e.reply.as_ref().map_or(0, |reply| reply.calls.len());
                self.idle()
            }
            EventBody::ToolFinished(_) | EventBody::ToolInterrupted(_) => {
                self.open_calls = self.open_calls.saturating_sub(1);
                self.idle()
            }
            EventBody::InputRequested(_) => TrackActivity::Approver,
            EventBody::InputAnswered(_) => self.idle(),
            EventBody::SubagentWaitingForMerge(_) => TrackActivity::Integration,
            EventBody::SubagentStarted(_) | EventBody::SubagentAttempt(_) => TrackActivity::Waiting,
            EventBody::SubagentClosed(_)
            | EventBody::RunCompleted(_)
            | EventBody::RunFailed(_)
            | EventBody::RunCancelled(_) => {
                self.ended_at_ms = Some(event.at_ms);
                return;
            }
            _ => return,
        };
        self.begin(activity, event.at_ms);
    }

    fn idle(&self) -> TrackActivity {
        if self.open_calls > 0 { TrackActivity::Tools } else { TrackActivity::Waiting }
    }
}

/// The tracks of all agents of a run. The run's limit on agents bounds their number.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Tracks {
    /// In the order of their creation, the root first.
    list: Vec<Track>,
    index: HashMap<AgentId, usize>,
    last_seq: u64,
}

impl Tracks {
    /// The tracks in the order of the creation of their agents.
    pub fn iter(&self) -> impl Iterator<Item = &Track> {
        self.list.iter()
    }

    /// The track of this agent.
    pub fn get(&self, agent: &AgentId) -> Option<&Track> {
        self.index.get(agent).map(|at| &self.list[*at])
    }

    /// The number of the last event that changed a track.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Since when a call waited that ends now, if it waited for the child that it had asked for: its own time is only that
    /// of the result.
    fn waiting_since_ms(&self, event: &ViewEvent<'_>) -> Option<i64> {
        let EventBody::ToolFinished(call) = event.body else { return None };
        let child = self.get(call.child.as_ref()?)?;
        child.created_at_ms().filter(|_| child.call_id.as_deref() == Some(call.call_id.as_str()))
    }

    /// Applies the next event. An event that the tracks already have changes nothing.
    pub fn apply_event(&mut self, event: &JournalEvent) {
        if event.seq > self.last_seq {
            self.take(&event.into());
        }
    }
}

impl ViewPart for Tracks {
    fn needs(&self, kind: EventKind) -> bool {
        matches!(
            kind,
            EventKind::RunStarted
                | EventKind::SubagentCreated
                | EventKind::SubagentStarted
                | EventKind::SubagentAttempt
                | EventKind::SubagentWaitingForMerge
                | EventKind::SubagentClosed
                | EventKind::RunCompleted
                | EventKind::RunFailed
                | EventKind::RunCancelled
                | EventKind::ModelCalled
                | EventKind::ModelReplied
                | EventKind::ToolFinished
                | EventKind::ToolInterrupted
                | EventKind::InputRequested
                | EventKind::InputAnswered
                | EventKind::ProviderWaitEnded
                | EventKind::ChecksPassed
                | EventKind::ChecksFailed
                | EventKind::WorktreeMerged
                | EventKind::WorktreeConflicted
                | EventKind::IntegrationPassed
                | EventKind::IntegrationFailed
        )
    }

    fn apply(&mut self, event: &ViewEvent<'_>) {
        self.last_seq = event.seq;
        let call_id = match event.body {
            EventBody::RunStarted(_) => Some(None),
            EventBody::SubagentCreated(e) => Some(Some(e.call_id.clone())),
            _ => None,
        };
        if let Some(call_id) = call_id {
            self.index.insert(event.agent.clone(), self.list.len());
            self.list.push(Track::new(event.agent.clone(), event.at_ms, call_id));
        }
        let since_ms = self.waiting_since_ms(event);
        if let Some(at) = self.index.get(event.agent) {
            let track = &mut self.list[*at];
            track.apply(event);
            if let (Some(since_ms), Some(call)) = (since_ms, track.effects.back_mut()) {
                call.from_ms = since_ms.min(call.until_ms);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TrackActivity::{Integration, Model, Tools, Waiting};
    use super::*;
    use crate::scripted::ScriptedModel;
    use crate::{NewRun, Posse};

    fn track(spans: &[(TrackActivity, i64)], ended_at_ms: Option<i64>) -> Track {
        let mut track = Track::new("k3f9ab2c".parse().expect("an id"), spans[0].1, None);
        for (activity, at_ms) in spans {
            track.begin(*activity, *at_ms);
        }
        Track { ended_at_ms, ..track }
    }

    #[test]
    fn a_moment_shows_what_lasted_longest_in_it() {
        let track = track(&[(Waiting, 100), (Model, 110), (Tools, 150), (Model, 155)], Some(200));
        assert_eq!(track.between(0, 100), None, "before it was created");
        assert_eq!(track.between(100, 110), Some(Waiting));
        assert_eq!(track.between(100, 160), Some(Model));
        assert_eq!(track.between(150, 156), Some(Tools));
        assert_eq!(track.between(190, 300), Some(Model));
        assert_eq!(track.between(201, 300), None, "after it closed");
    }

    #[test]
    fn the_oldest_spans_are_merged_and_time_never_runs_back() {
        let mut track = track(&[(Waiting, 0)], None);
        for at in 0..2_000 {
            track.begin(if at % 2 == 0 { Model } else { Tools }, at);
        }
        assert_eq!(track.spans.len(), TRACK_MAX_SPANS);
        assert_eq!(track.spans[0].from_ms, 0);
        track.begin(Waiting, 5);
        assert!(track.spans.iter().is_sorted_by_key(|span| span.from_ms));
    }

    #[tokio::test]
    async fn tracks_of_a_run_are_the_same_from_its_journal_and_from_its_events() {
        let script = "
- when: {definition: coder, turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: explore, description: one, prompt: one}}]}
- reply: {text: done}
";
        let script = ScriptedModel::from_yaml(script, "tracks.yaml").expect("a script");
        let posse = Posse::builder().model("scripted/tracks", script).in_memory().open().expect("open");
        let run = NewRun::new("Look.").model("scripted/tracks").dir(".");
        let run = posse.start(run).await.expect("started");
        posse.wait(run.id()).await.expect("it ends");
        let loaded = posse.tracks(run.id()).await.expect("tracks");
        let mut followed = Tracks::default();
        let mut events = posse.events(run.id(), 0);
        while let Some(event) = events.try_next().await.expect("an event") {
            followed.apply_event(&event);
            followed.apply_event(&event);
        }
        assert_eq!(loaded, followed);
        let root = loaded.get(&run.id().root()).expect("the root");
        let activities: Vec<TrackActivity> = root.spans().map(|span| span.activity).collect();
        assert_eq!(activities, [Waiting, Model, Tools, Waiting, Model, Waiting]);
        let child = loaded.get(&run.id().root().child(1)).expect("the child");
        let effects = |track: &Track| -> Vec<(TrackEffectType, String)> {
            track.effects().map(|effect| (effect.of, effect.name.clone())).collect()
        };
        let turn = |number| (TrackEffectType::Model, format!("turn {number}"));
        let task = (TrackEffectType::Tool, "task".to_owned());
        assert_eq!(effects(root), [turn(1), task, turn(2)]);
        assert_eq!(effects(child), [turn(1)]);
        let (call, turns) = (root.effects().nth(1), child.effects().next());
        let (call, turn) = (call.expect("a call"), turns.expect("a turn"));
        assert!(call.from_ms <= turn.from_ms && turn.until_ms <= call.until_ms, "{call:?} {turn:?}");
        let activities: Vec<TrackActivity> = child.spans().map(|span| span.activity).collect();
        assert_eq!(activities, [Waiting, Model, Waiting, Integration]);
        assert!(loaded.iter().all(|track| track.ended_at_ms.is_some()));
    }
}
