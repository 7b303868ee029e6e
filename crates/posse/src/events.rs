//! Follows a run's journal, for front ends and embedders.

use std::collections::VecDeque;
use std::sync::Arc;

use posse_domain::event::{Event, EventBody, EventKind, StoredEvent};
use posse_domain::id::AgentId;
use posse_engine::ports::{Pulse, READ_MAX_EVENTS, RunKey, Store};
use posse_engine::{TaskEvent, TaskView};
use tokio::sync::watch;

use crate::Error;

/// One event of a journal.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalEvent {
    /// Its number in its run, without gaps.
    pub seq: u64,
    /// The agent that the event is about.
    pub agent_id: AgentId,
    /// Its kind, such as `agent.tool_finished`.
    pub kind: EventKind,
    /// When it happened, in milliseconds since 1970.
    pub at_ms: i64,
    /// What happened, in one line.
    pub summary: String,
    /// The fields of the event as JSON, including long texts. Only the catalogue of discovered definitions, which may
    /// have megabytes, is named by its blob.
    pub detail: serde_json::Value,
    /// The typed event, with the same texts.
    pub body: EventBody,
}

impl JournalEvent {
    /// A decoded event with its number.
    pub(crate) fn new(seq: u64, event: Event) -> Self {
        Self {
            seq,
            agent_id: event.agent,
            kind: (&event.body).into(),
            at_ms: event.at_ms,
            summary: event.body.summary(),
            detail: event.body.detail(),
            body: event.body,
        }
    }
}

/// The events of a run, each once and in order, including future ones.
pub struct Events {
    store: Arc<dyn Store>,
    key: RunKey,
    after: u64,
    pulse: watch::Receiver<Pulse>,
    page: VecDeque<StoredEvent>,
    /// Whether the catalogue of discovered definitions is fetched, too.
    with_found: bool,
}

impl Events {
    pub(crate) fn new(store: Arc<dyn Store>, key: RunKey, after: u64) -> Self {
        // Watched before the first read: a write in between wakes the next read.
        let pulse = store.watch(&key);
        Self { store, key, after, pulse, page: VecDeque::new(), with_found: false }
    }

    /// Also fetches the catalogue of discovered definitions.
    pub(crate) fn with_found(self) -> Self {
        Self { with_found: true, ..self }
    }

    /// The next event that is already written, if any. Dropping the future loses no event.
    pub async fn try_next(&mut self) -> Result<Option<JournalEvent>, Error> {
        if self.page.is_empty() {
            self.pulse.mark_unchanged();
            self.page = self.store.read(&self.key, self.after, READ_MAX_EVENTS).await?.into();
        }
        // Removed from the page only once it is complete: a caller may stop waiting for a long text.
        let Some(stored) = self.page.front() else { return Ok(None) };
        let event = self.decode(stored).await?;
        self.after = event.seq;
        self.page.pop_front();
        Ok(Some(event))
    }

    /// Waits for the next event. Dropping the future loses no event.
    pub async fn next(&mut self) -> Result<JournalEvent, Error> {
        loop {
            if let Some(event) = self.try_next().await? {
                return Ok(event);
            }
            if self.pulse.changed().await.is_err() {
                return Err(posse_engine::ports::StoreError::Failed("the store was closed".to_owned()).into());
            }
        }
    }

    async fn decode(&self, stored: &StoredEvent) -> Result<JournalEvent, Error> {
        let seq = stored.seq;
        let mut event = posse_engine::decode(&self.key, stored)?;
        if self.with_found {
            posse_engine::fill(&*self.store, &self.key, &mut event).await?;
        } else {
            posse_engine::fill_readable(&*self.store, &self.key, &mut event).await?;
        }
        Ok(JournalEvent::new(seq, event))
    }
}

/// The events of one agent in the form of a task: a translation for embedders, not a fold (see [`view`](crate::view)).
pub struct TaskEvents {
    events: Events,
    view: TaskView,
    ready: VecDeque<TaskEvent>,
    done: bool,
    over: bool,
}

impl TaskEvents {
    pub(crate) fn new(events: Events, agent: AgentId) -> Self {
        let events = events.with_found();
        Self { events, view: TaskView::new(agent), ready: VecDeque::new(), done: false, over: false }
    }

    /// The next event; `None` after `done`, or after the end of the run.
    pub async fn next(&mut self) -> Result<Option<TaskEvent>, Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.done |= matches!(event, TaskEvent::Done { .. });
                return Ok(Some(event));
            }
            if self.done || self.over {
                return Ok(None);
            }
            let event = self.events.next().await?;
            self.ready.extend(self.view.push(&event.agent_id, &event.body));
            // No event follows the end of a run, even if the agent does not exist.
            self.over = EventKind::from(&event.body).ends_run();
        }
    }
}
