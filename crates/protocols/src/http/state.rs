//! What all requests of a server share.

use std::sync::Arc;

use posse::{Posse, RunId};
use posse_setup::Setup;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::hosting::RunHost;
use super::idempotency::Keys;
use super::limits::{KEYS_MAX, STREAMS_MAX};
use super::problem::{Problem, ProblemCode};
use super::token::Token;

/// What all requests of a server share.
pub(super) struct ServerState {
    /// The user of the server.
    pub(super) setup: Arc<Setup>,
    /// Reads the runs of every process of the state directory, and sends them commands.
    pub(super) posse: Posse,
    pub(super) token: Token,
    /// The runs that this process executes.
    pub(super) host: RunHost,
    pub(super) keys: Keys,
    streams: Arc<Semaphore>,
    draining: watch::Sender<bool>,
}

impl ServerState {
    pub(super) fn new(setup: Arc<Setup>, posse: Posse, token: Token) -> Self {
        Self {
            setup,
            posse,
            token,
            host: RunHost::new(),
            keys: Keys::new(KEYS_MAX),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            draining: watch::Sender::new(false),
        }
    }

    /// The facade that reads a run: the one that executes it here learns of an event first.
    pub(super) fn reader(&self, run: &RunId) -> Posse {
        self.host.executed(run).map_or_else(|| self.posse.clone(), |executed| executed.posse.clone())
    }

    /// The right to one more stream.
    pub(super) fn stream_slot(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.streams).try_acquire_owned().map_err(|_| {
            Problem::new(
                axum::http::StatusCode::SERVICE_UNAVAILABLE,
                ProblemCode::Busy,
                format!("{STREAMS_MAX} streams are open, which is the most"),
            )
        })
    }

    /// From now on, no request begins, and streams end.
    pub(super) fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// Becomes true when the server drains.
    pub(super) fn draining(&self) -> watch::Receiver<bool> {
        self.draining.subscribe()
    }

    pub(super) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }
}
