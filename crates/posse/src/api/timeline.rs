//! API type of what the agents of a run did over time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::timestamp;
use crate::view::{RunView, Track, TrackActivity, TrackEffectType, Tracks};

/// Spans and effects of all tracks of a run together.
const PARTS_MAX: usize = 40_000;
/// The newest spans, and the newest effects, that each track has in any case.
const PARTS_OF_TRACK_MIN: usize = 20;

/// What an agent does for some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
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

/// An activity, until the next one of the same agent begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActivitySpan {
    /// What the agent does.
    pub activity: Activity,
    /// When it began, since the start of the run.
    pub from_ms: i64,
}

/// What an effect is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EffectType {
    /// A call of the agent's model.
    Model,
    /// A tool call.
    Tool,
    /// A wait for the provider.
    ProviderWait,
    /// A check of the agent's work.
    Check,
    /// The merge of its work into the files of its parent.
    Merge,
}

/// An effect that has ended. Several of one agent may have run at the same time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EffectSpan {
    /// What it is.
    pub kind: EffectType,
    /// The turn, the tool, the provider or the command.
    pub name: String,
    /// When it began, since the start of the run.
    pub from_ms: i64,
    /// When it ended, since the start of the run.
    pub until_ms: i64,
    /// Whether it failed.
    pub failed: bool,
    /// The number of the event that ended it.
    pub seq: u64,
}

/// The track of one agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentTrack {
    /// The agent's id.
    pub agent: String,
    /// The agent that created it; null for the root.
    pub parent: Option<String>,
    /// The name of its definition.
    pub definition: String,
    /// Its task in a few words.
    pub title: String,
    /// When it closed, since the start of the run; null if it is open.
    pub until_ms: Option<i64>,
    /// Its activities in the order of time; the first one began when the agent was created.
    pub spans: Vec<ActivitySpan>,
    /// Its effects that have ended, in the order of their ends.
    pub effects: Vec<EffectSpan>,
    /// How many older spans and effects are not listed.
    pub omitted: u64,
}

/// When each agent of a run did what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunTimeline {
    /// The run's id.
    pub run: String,
    /// When the run started: all other times count from here.
    pub started_at: String,
    /// How long it took, or has been running.
    pub elapsed_ms: u64,
    /// The number of the last event that this object knows.
    pub events: u64,
    /// A track for each agent in the order of their creation, the root first.
    pub tracks: Vec<AgentTrack>,
}

impl RunTimeline {
    /// Converts the tracks of a run as of `now_ms`.
    pub fn new(run: &RunView, tracks: &Tracks, now_ms: i64) -> Self {
        let start = run.started_at_ms();
        let max = (PARTS_MAX / tracks.iter().count().max(1)).max(PARTS_OF_TRACK_MIN);
        Self {
            run: run.run_str().to_owned(),
            started_at: timestamp(start),
            elapsed_ms: run.elapsed_ms(now_ms),
            events: run.last_seq().max(tracks.last_seq()),
            tracks: tracks.iter().map(|track| AgentTrack::new(run, track, start, max)).collect(),
        }
    }
}

impl AgentTrack {
    fn new(run: &RunView, track: &Track, start: i64, max: usize) -> Self {
        let agent = run.agents().get(&track.agent);
        let skipped_spans = track.spans().len().saturating_sub(max);
        let skipped_effects = track.effects().len().saturating_sub(max);
        let first = track.spans().next().map_or(start, |span| span.from_ms);
        let mut spans: Vec<ActivitySpan> = track
            .spans()
            .skip(skipped_spans)
            .map(|span| ActivitySpan { activity: span.activity.into(), from_ms: span.from_ms - start })
            .collect();
        // The first one also stands for those before it.
        if let Some(span) = spans.first_mut() {
            span.from_ms = first - start;
        }
        let effects = track.effects().skip(skipped_effects).map(|effect| EffectSpan {
            kind: effect.of.into(),
            name: effect.name.clone(),
            from_ms: effect.from_ms - start,
            until_ms: effect.until_ms - start,
            failed: effect.is_failed,
            seq: effect.seq,
        });
        Self {
            agent: track.agent.to_string(),
            parent: track.agent.parent().map(|parent| parent.to_string()),
            definition: agent.map_or_else(String::new, |agent| agent.definition.clone()),
            title: agent.map_or_else(String::new, |agent| agent.title.clone()),
            until_ms: track.ended_at_ms.map(|ended| ended - start),
            effects: effects.collect(),
            omitted: track.omitted() + (skipped_spans + skipped_effects) as u64,
            spans,
        }
    }
}

impl From<TrackActivity> for Activity {
    fn from(activity: TrackActivity) -> Self {
        match activity {
            TrackActivity::Waiting => Self::Waiting,
            TrackActivity::Model => Self::Model,
            TrackActivity::Tools => Self::Tools,
            TrackActivity::Approver => Self::Approver,
            TrackActivity::Integration => Self::Integration,
        }
    }
}

impl From<TrackEffectType> for EffectType {
    fn from(of: TrackEffectType) -> Self {
        match of {
            TrackEffectType::Model => Self::Model,
            TrackEffectType::Tool => Self::Tool,
            TrackEffectType::ProviderWait => Self::ProviderWait,
            TrackEffectType::Check => Self::Check,
            TrackEffectType::Merge => Self::Merge,
        }
    }
}
