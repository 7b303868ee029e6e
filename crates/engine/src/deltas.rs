//! Streams ephemeral progress (deltas) from the driver to front ends: batched, dropped for slow readers, never stored.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use posse_domain::id::AgentId;
use serde::Serialize;
use tokio::sync::broadcast;

use crate::ports::{StreamPart, StreamSink};

/// How long deltas are gathered before they are sent to the readers as one batch.
pub(crate) const DELTA_BATCH: Duration = Duration::from_millis(16);
/// How many batches a reader may fall behind before it loses the oldest ones.
const DELTA_BACKLOG: usize = 256;
/// Limit of deltas per batch. Further deltas are dropped.
const DELTA_BATCH_MAX: usize = 4_096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeltaPart {
    /// Text of the model's reply.
    Text,
    /// The name of a tool that the model is calling.
    Tool,
    Error,
    /// Anything else, such as the model's thinking.
    Other,
}

/// One ephemeral progress item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Delta {
    pub agent_id: AgentId,
    pub parent_id: Option<AgentId>,
    pub part: DeltaPart,
    pub content: String,
    /// The model call that produced this delta. A reader that has already read the events of a later call ignores the
    /// delta.
    #[serde(skip)]
    pub call: DeltaCall,
}

/// A model call of an agent. Of two calls of one agent, the later is the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct DeltaCall {
    pub attempt: u32,
    /// Counted from 1 within the attempt.
    pub turn: u32,
    /// Counted from 1 within the turn.
    pub call: u32,
}

/// Gathers the deltas of one run and sends them in batches to all subscribed readers.
#[derive(Debug, Clone)]
pub(crate) struct DeltaHub {
    sender: broadcast::Sender<Arc<[Delta]>>,
    gathered: Arc<Mutex<Vec<Delta>>>,
    /// Wakes the driver when a reader subscribes: without readers the driver flushes no batches.
    joined: Arc<tokio::sync::Notify>,
}

impl DeltaHub {
    pub(crate) fn new() -> Self {
        Self { sender: broadcast::channel(DELTA_BACKLOG).0, gathered: Arc::default(), joined: Arc::default() }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Arc<[Delta]>> {
        let receiver = self.sender.subscribe();
        self.joined.notify_one();
        receiver
    }

    /// Waits until a new reader subscribes.
    pub(crate) async fn joined(&self) {
        self.joined.notified().await;
    }

    /// Whether any reader is subscribed. Without readers no deltas are gathered.
    pub(crate) fn has_listener(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    pub(crate) fn push(&self, delta: Delta) {
        if !self.has_listener() {
            return;
        }
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        let room = gathered.len() < DELTA_BATCH_MAX;
        match gathered.last_mut() {
            // Successive pieces of one reply become one delta, which keeps batches small.
            Some(last)
                if last.agent_id == delta.agent_id
                    && last.part == delta.part
                    && last.call == delta.call
                    && delta.part == DeltaPart::Text =>
            {
                last.content.push_str(&delta.content);
            }
            _ if room => gathered.push(delta),
            _ => {}
        }
    }

    pub(crate) fn flush(&self) {
        let batch = std::mem::take(&mut *self.gathered.lock().unwrap_or_else(PoisonError::into_inner));
        if !batch.is_empty() {
            // Sending fails only after the last reader has unsubscribed. The batch is then not needed.
            drop(self.sender.send(batch.into()));
        }
    }
}

/// Converts the stream of one model call into deltas.
pub(crate) struct CallSink {
    pub(crate) hub: DeltaHub,
    pub(crate) agent: AgentId,
    pub(crate) call: DeltaCall,
    /// Whether readers see nothing of the call.
    pub(crate) silent: bool,
    pub(crate) alive: Arc<tokio::sync::Notify>,
}

impl StreamSink for CallSink {
    fn part(&self, part: StreamPart) {
        self.alive.notify_one();
        if self.silent || !self.hub.has_listener() {
            return;
        }
        let (part, content) = match part {
            StreamPart::Text(text) => (DeltaPart::Text, text),
            StreamPart::Tool(name) => (DeltaPart::Tool, name),
            // There is no delta kind for thinking.
            StreamPart::Thinking(text) => (DeltaPart::Other, text),
            StreamPart::Alive => return,
        };
        let (agent_id, parent_id) = (self.agent.clone(), self.agent.parent());
        self.hub.push(Delta { agent_id, parent_id, part, content, call: self.call });
    }
}
