//! API type of journal events, for `logs` and subscribers.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::timestamp;
use crate::{EventBody, JournalEvent};

/// Distinguishes an event from the outcome after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventType {
    /// The object is an event of a journal.
    #[default]
    Event,
}

/// One event of a journal.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Event<'a> {
    /// `event`, which distinguishes it from the outcome after it.
    #[serde(default)]
    pub r#type: EventType,
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
    /// Converts an event. Images of more than 2 KiB are named by their hash and length.
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
            r#type: EventType::Event,
            seq: event.seq,
            agent_id: event.agent_id.as_str().into(),
            kind: event.kind.as_str().into(),
            at: timestamp(event.at_ms),
            summary: event.summary.as_str().into(),
            detail,
        }
    }

    /// Converts an event with its images in full. Everything else is as in [`new`](Self::new).
    pub fn with_images(event: &'a JournalEvent) -> Self {
        Self { detail: Cow::Borrowed(&event.detail), ..Self::new(event) }
    }

    /// The same event with owned texts.
    pub fn into_owned(self) -> Event<'static> {
        Event {
            r#type: self.r#type,
            seq: self.seq,
            agent_id: Cow::Owned(self.agent_id.into_owned()),
            kind: Cow::Owned(self.kind.into_owned()),
            at: self.at,
            summary: Cow::Owned(self.summary.into_owned()),
            detail: Cow::Owned(self.detail.into_owned()),
        }
    }
}
