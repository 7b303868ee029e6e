//! Server-sent events: the journal of a run, the task view of an agent, deltas.
//!
//! A stream of a journal keeps no queue of its own: it takes the next events from the feed of its run only when its client has
//! read what was sent. A slow client slows nothing, and one that connects again with the number of the last event that it
//! has read continues after it.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::future::Future;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use futures::stream;
use posse::api::{self, Object};
use posse::{AgentId, Delta, EventKind, RunId, TaskEvents};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};

use super::assets::now_ms;
use super::callers::Caller;
use super::feeds::FeedFollower;
use super::limits::HEARTBEAT;
use super::problem::Problem;
use super::reply::json;
use super::state::{ServerState, StreamSlot};

/// The header of a client that connects again.
pub(super) const LAST_EVENT_ID: &str = "Last-Event-ID";
/// What a stream begins with: how soon a client that lost it connects again.
const BEGINNING: &str = "retry: 500\n\n";
/// Shows that a stream without news is open.
const BEAT: &str = ": heartbeat\n\n";
/// The last message of a stream whose server drains.
const DRAINING: &str = "event: draining\ndata: {}\n\n";

/// The last message of a stream whose token was revoked or has expired.
const REVOKED: &str = "event: revoked\ndata: {}\n\n";

/// The number after which a client continues: the one that it sends when it connects again, else a parameter.
pub(super) fn continues_after(headers: &HeaderMap, parameter: Option<u64>) -> Result<u64, Problem> {
    let Some(last) = headers.get(LAST_EVENT_ID) else { return Ok(parameter.unwrap_or(0)) };
    let number = last.to_str().ok().and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| Problem::parameter(LAST_EVENT_ID, "expected the number of an event"))
}

/// The events that a client asked for.
#[derive(Debug, Default)]
pub(super) struct EventFilter {
    /// Only events of these agents; of all if empty.
    pub(super) agents: Vec<AgentId>,
    /// Only events of these kinds; of all if empty.
    pub(super) kinds: Vec<EventKind>,
}

impl EventFilter {
    /// Whether the client asked for an event.
    pub(super) fn has(&self, agent: &AgentId, kind: EventKind) -> bool {
        (self.agents.is_empty() || self.agents.contains(agent))
            && (self.kinds.is_empty() || self.kinds.contains(&kind))
    }
}

/// The parts that all streams have.
struct Open {
    state: Arc<ServerState>,
    caller: Caller,
    draining: watch::Receiver<bool>,
    is_over: bool,
    is_new: bool,
    _slot: StreamSlot,
}

impl Open {
    fn new(state: &Arc<ServerState>, caller: &Caller) -> Result<Self, Problem> {
        let slot = state.stream_slot(caller)?;
        let (state, caller) = (Arc::clone(state), caller.clone());
        Ok(Self {
            state: Arc::clone(&state),
            caller,
            draining: state.draining(),
            is_over: false,
            is_new: true,
            _slot: slot,
        })
    }

    /// Waits for the next news of the stream. Anything else that is to be sent first is an error.
    async fn unless_quiet<T>(&mut self, news: impl Future<Output = T>) -> Result<T, &'static str> {
        if std::mem::take(&mut self.is_new) {
            return Err(BEGINNING);
        }
        let news = tokio::select! {
            biased;
            _ = self.draining.wait_for(|is_draining| *is_draining) => {
                self.is_over = true;
                return Err(DRAINING);
            }
            news = news => Ok(news),
            () = tokio::time::sleep(HEARTBEAT) => Err(BEAT),
        };
        // A stream may last longer than its token.
        if !self.state.tokens.knows(&self.caller, now_ms()) {
            self.is_over = true;
            return Err(REVOKED);
        }
        news
    }

    /// Ends the stream with a problem.
    fn fail(&mut self, problem: &Problem) -> String {
        self.is_over = true;
        format!("event: problem\ndata: {}\n\n", serde_json::to_string(problem).unwrap_or_default())
    }
}

/// A source of pieces of a stream.
trait Pieces: Send + 'static {
    /// The next piece; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Option<String>> + Send;
}

fn body(pieces: impl Pieces) -> Body {
    let stream = stream::unfold(pieces, |mut pieces| async {
        let piece = pieces.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(piece)), pieces))
    });
    Body::from_stream(stream)
}

/// One message of a stream. The data is JSON, which has no line breaks.
fn message(piece: &mut String, id: u64, name: Option<&str>, object: &impl Object) -> Result<(), Problem> {
    let data = json(object)?;
    let _ = writeln!(piece, "id: {id}");
    if let Some(name) = name {
        let _ = writeln!(piece, "event: {name}");
    }
    let _ = write!(piece, "data: {data}\n\n");
    Ok(())
}

/// The journal of a run.
struct EventPieces {
    open: Open,
    events: FeedFollower,
    filter: EventFilter,
    run: RunId,
}

/// Streams the events of a run until it ends.
pub(super) fn events(
    state: &Arc<ServerState>,
    caller: &Caller,
    run: RunId,
    events: FeedFollower,
    filter: EventFilter,
) -> Result<Body, Problem> {
    Ok(body(EventPieces { open: Open::new(state, caller)?, events, filter, run }))
}

impl Pieces for EventPieces {
    async fn next(&mut self) -> Option<String> {
        if self.open.is_over {
            return None;
        }
        let mut piece = String::new();
        while piece.is_empty() {
            let events = match self.open.unless_quiet(self.events.next()).await {
                Ok(Ok(events)) => events,
                Ok(Err(problem)) => return Some(self.open.fail(&problem)),
                Err(first) => return Some(first.to_owned()),
            };
            for event in events {
                if self.filter.has(&event.agent, event.kind) {
                    piece.push_str(&event.message);
                }
                if event.kind.ends_run() {
                    self.open.is_over = true;
                    let end = api::RunReference::new(self.run.as_str());
                    if let Err(problem) = message(&mut piece, event.seq, Some("end"), &end) {
                        piece.push_str(&self.open.fail(&problem));
                    }
                    break;
                }
            }
        }
        Some(piece)
    }
}

/// The task view of an agent.
struct TaskPieces {
    open: Open,
    events: TaskEvents,
    run: RunId,
    /// How many events were read.
    read: u64,
    /// How many the client has.
    known: u64,
}

/// Streams the task view of an agent until it is done. Its events are numbered from 1.
pub(super) fn task(
    state: &Arc<ServerState>,
    caller: &Caller,
    run: RunId,
    events: TaskEvents,
    known: u64,
) -> Result<Body, Problem> {
    Ok(body(TaskPieces { open: Open::new(state, caller)?, events, run, read: 0, known }))
}

impl Pieces for TaskPieces {
    async fn next(&mut self) -> Option<String> {
        if self.open.is_over {
            return None;
        }
        let mut piece = String::new();
        while piece.is_empty() {
            let read = match self.open.unless_quiet(self.events.next()).await {
                Ok(read) => read,
                Err(first) => return Some(first.to_owned()),
            };
            let written = match read {
                Ok(Some(event)) => {
                    self.read += 1;
                    if self.read <= self.known {
                        continue;
                    }
                    message(&mut piece, self.read, None, &api::AgentTaskEvent::new(&event))
                }
                Ok(None) => {
                    self.open.is_over = true;
                    message(&mut piece, self.read, Some("end"), &api::RunReference::new(self.run.as_str()))
                }
                Err(error) => Err(error.into()),
            };
            if let Err(problem) = written {
                piece = self.open.fail(&problem);
            }
        }
        Some(piece)
    }
}

/// Deltas of a run, of which a slow client loses some.
struct DeltaPieces {
    open: Open,
    deltas: broadcast::Receiver<Arc<[Delta]>>,
    agent: Option<AgentId>,
    sent: u64,
}

/// Streams what the models of a run write at the moment.
pub(super) fn deltas(
    state: &Arc<ServerState>,
    caller: &Caller,
    deltas: broadcast::Receiver<Arc<[Delta]>>,
    agent: Option<AgentId>,
) -> Result<Body, Problem> {
    Ok(body(DeltaPieces { open: Open::new(state, caller)?, deltas, agent, sent: 0 }))
}

impl Pieces for DeltaPieces {
    async fn next(&mut self) -> Option<String> {
        if self.open.is_over {
            return None;
        }
        let mut piece = String::new();
        while piece.is_empty() {
            let batch = match self.open.unless_quiet(self.deltas.recv()).await {
                Ok(batch) => batch,
                Err(first) => return Some(first.to_owned()),
            };
            match batch {
                Ok(batch) => {
                    let wanted = batch
                        .iter()
                        .filter(|delta| self.agent.as_ref().is_none_or(|agent| *agent == delta.agent_id));
                    for delta in wanted {
                        self.sent += 1;
                        if let Err(problem) = message(&mut piece, self.sent, None, &api::Delta::from(delta)) {
                            piece = self.open.fail(&problem);
                        }
                    }
                }
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => {
                    self.open.is_over = true;
                    return Some("event: end\ndata: {}\n\n".to_owned());
                }
            }
        }
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_continues_after_the_last_event_that_it_has_read() {
        let headers = |value: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(LAST_EVENT_ID, value.parse().expect("a value"));
            }
            headers
        };
        assert_eq!(continues_after(&headers(None), None), Ok(0));
        assert_eq!(continues_after(&headers(None), Some(7)), Ok(7));
        assert_eq!(continues_after(&headers(Some("9")), Some(7)), Ok(9));
        for wrong in ["", "x", "-1", "9, 10"] {
            let error = continues_after(&headers(Some(wrong)), Some(7)).expect_err("no number");
            assert_eq!(error.field.as_deref(), Some(LAST_EVENT_ID), "{wrong}");
        }
    }

    #[test]
    fn a_message_cannot_be_broken_by_its_content() {
        let mut piece = String::new();
        let reference = api::RunReference::new("a\nevent: end\r\ndata: x\u{2028}");
        message(&mut piece, 3, None, &reference).expect("written");
        assert_eq!(piece.lines().count(), 3, "{piece}");
        assert!(piece.starts_with("id: 3\ndata: {") && piece.ends_with("}\n\n"), "{piece}");
    }
}
