//! The last events of a run, for display.

use std::collections::VecDeque;

use posse_domain::event::EventKind;
use posse_domain::id::AgentId;
use posse_domain::printable;
use posse_domain::text::first_line;

use super::{ViewEvent, ViewPart};

/// How many events a timeline keeps; the journal has all of them.
pub const TIMELINE_MAX_ENTRIES: usize = 200;
/// Longest summary in a timeline.
const SUMMARY_MAX_CHARS: usize = 200;

/// One event as a line of a timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineEntry {
    /// Its number in the journal.
    pub seq: u64,
    /// The agent that the event is about.
    pub agent: AgentId,
    /// Its kind, such as `agent.tool_finished`.
    pub kind: EventKind,
    /// When it happened, in milliseconds since 1970.
    pub at_ms: i64,
    /// What happened, in one line.
    pub summary: String,
}

/// The last events, oldest first.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Timeline(VecDeque<TimelineEntry>);

impl Timeline {
    /// The entries, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &TimelineEntry> {
        self.0.iter()
    }
}

impl ViewPart for Timeline {
    fn needs(&self, _: EventKind) -> bool {
        true
    }

    fn apply(&mut self, event: &ViewEvent<'_>) {
        if self.0.len() == TIMELINE_MAX_ENTRIES {
            self.0.pop_front();
        }
        self.0.push_back(TimelineEntry {
            seq: event.seq,
            agent: event.agent.clone(),
            kind: event.body.into(),
            at_ms: event.at_ms,
            summary: printable::line(&first_line(&event.summary(), SUMMARY_MAX_CHARS)),
        });
    }
}
