//! API type of journal events, for `logs` and subscribers.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::timestamp;
use crate::{EventBody, JournalEvent};

/// One event of a journal.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Event<'a> {
    /// Its number in its run, without gaps.
    pub seq: u64,
    /// The agent that the event is about.
    pub agent_id: Cow<'a, str>,
    /// Its kind, such as `agent.tool_finished`.
    pub kind: Cow<'a, str>,
    /// When it happened.
    pub at: String,
    /// What happened, in one line.
    pub summary: Cow<'a, str>,
    /// The fields of this kind of event.
    pub detail: Cow<'a, Value>,
}

impl<'a> Event<'a> {
    /// Converts an event. Images are named by their hash and length.
    pub fn new(event: &'a JournalEvent) -> Self {
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
            agent_id: event.agent_id.as_str().into(),
            kind: event.kind.as_str().into(),
            at: timestamp(event.at_ms),
            summary: event.summary.as_str().into(),
            detail,
        }
    }

    /// Converts an event, with its long texts in full.
    pub fn in_full(event: &'a JournalEvent) -> Self {
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
            // No other event has a text that is stored as a blob.
            _ => return Self::new(event),
        };
        // Only a map with keys that are not text fails, and no event has one.
        full.map_or_else(|_| Self::new(event), |full| Self { detail: Cow::Owned(full), ..Self::new(event) })
    }

    /// The same event with owned texts.
    pub fn into_owned(self) -> Event<'static> {
        Event {
            seq: self.seq,
            agent_id: Cow::Owned(self.agent_id.into_owned()),
            kind: Cow::Owned(self.kind.into_owned()),
            at: self.at,
            summary: Cow::Owned(self.summary.into_owned()),
            detail: Cow::Owned(self.detail.into_owned()),
        }
    }
}
