//! Events of a journal.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::timestamp;
use crate::{EventBody, JournalEvent};

/// One event of a journal.
#[derive(Serialize, JsonSchema)]
pub struct Event<'a> {
    /// Its number in its run, without gaps.
    seq: u64,
    /// The agent that it happened to.
    agent_id: &'a str,
    /// Its kind.
    kind: &'a str,
    /// When it happened.
    at: String,
    /// What happened, in one line.
    summary: &'a str,
    /// What happened, by kind.
    detail: Cow<'a, Value>,
}

impl<'a> Event<'a> {
    /// An event whose pictures are named by their hash and length, because no person reads them in a line.
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
            agent_id: event.agent_id.as_str(),
            kind: event.kind,
            at: timestamp(event.at_ms),
            summary: &event.summary,
            detail,
        }
    }

    /// An event with its long texts in full.
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
            // The others hold no text that is kept elsewhere.
            _ => return Self::new(event),
        };
        // Only a map with keys that are no text fails, and no event has one.
        full.map_or_else(|_| Self::new(event), |full| Self { detail: Cow::Owned(full), ..Self::new(event) })
    }
}
