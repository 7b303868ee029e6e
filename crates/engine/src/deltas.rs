//! Ephemeral progress: batched, dropped for slow readers, never stored and never relied on.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use posse_domain::id::AgentId;
use serde::Serialize;
use tokio::sync::broadcast;

use crate::ports::{StreamPart, StreamSink};

/// How long deltas are gathered before readers get them.
pub(crate) const DELTA_BATCH: Duration = Duration::from_millis(16);
/// Batches a slow reader may fall behind before it loses some.
const DELTA_BACKLOG: usize = 256;
/// Most deltas gathered in one batch; more are dropped.
const DELTA_BATCH_MAX: usize = 4_096;

/// What a delta is a piece of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeltaPart {
    /// Text of a reply.
    Text,
    /// A tool that is being called.
    Tool,
    /// Something that went wrong.
    Error,
    /// Anything else.
    Other,
}

/// One ephemeral progress item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Delta {
    /// The agent.
    pub agent_id: AgentId,
    /// Its parent.
    pub parent_id: Option<AgentId>,
    /// What it is a piece of.
    pub part: DeltaPart,
    /// The piece.
    pub content: String,
    /// The model call that it is a piece of: a reader may have events of another.
    #[serde(skip)]
    pub call: DeltaCall,
}

/// A model call of an agent; later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct DeltaCall {
    /// The attempt, from 1.
    pub attempt: u32,
    /// The turn of the attempt, from 1.
    pub turn: u32,
    /// The call of the turn, from 1.
    pub call: u32,
}

/// Gathers deltas of one run and hands them to whoever listens.
#[derive(Debug, Clone)]
pub(crate) struct DeltaHub {
    sender: broadcast::Sender<Arc<[Delta]>>,
    gathered: Arc<Mutex<Vec<Delta>>>,
    /// Tells the driver that somebody new listens: it may be waiting for nothing else.
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

    /// Returns once somebody new listens.
    pub(crate) async fn joined(&self) {
        self.joined.notified().await;
    }

    /// Whether anybody listens; nothing is gathered otherwise.
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
            // Pieces of one text become one delta: a reader gets at most one per agent and turn in a batch.
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

    /// Hands over what was gathered; whether there was anything.
    pub(crate) fn flush(&self) {
        let batch = std::mem::take(&mut *self.gathered.lock().unwrap_or_else(PoisonError::into_inner));
        if !batch.is_empty() {
            // An error only says that nobody listens any more.
            drop(self.sender.send(batch.into()));
        }
    }
}

/// The sink of one model call.
pub(crate) struct CallSink {
    pub(crate) hub: DeltaHub,
    pub(crate) agent: AgentId,
    pub(crate) call: DeltaCall,
    pub(crate) alive: Arc<tokio::sync::Notify>,
}

impl StreamSink for CallSink {
    fn part(&self, part: StreamPart) {
        self.alive.notify_one();
        if !self.hub.has_listener() {
            return;
        }
        let (part, content) = match part {
            StreamPart::Text(text) => (DeltaPart::Text, text),
            StreamPart::Tool(name) => (DeltaPart::Tool, name),
            // A delta is one of four kinds; thinking is none of the first three.
            StreamPart::Thinking(text) => (DeltaPart::Other, text),
            StreamPart::Alive => return,
        };
        let (agent_id, parent_id) = (self.agent.clone(), self.agent.parent());
        self.hub.push(Delta { agent_id, parent_id, part, content, call: self.call });
    }
}
