//! What all requests of a server share.

use std::sync::Arc;

use posse::api::ServerProject;
use posse::{Posse, RunId};
use posse_setup::Setup;
use posse_setup::project_runs::Project;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::callers::{Caller, Tokens};
use super::hosting::RunHost;
use super::idempotency::Keys;
use super::limits::{KEYS_MAX, STREAMS_MAX};
use super::problem::{Problem, ProblemCode};

/// What all requests of a server share.
pub(super) struct ServerState {
    /// The user of the server.
    pub(super) setup: Arc<Setup>,
    /// Reads the runs of every process of the state directory, and sends them commands.
    pub(super) posse: Posse,
    pub(super) tokens: Tokens,
    /// Whether clients reach it through TLS, so that its cookie may be sent through nothing else.
    pub(super) is_encrypted: bool,
    /// The runs that this process executes.
    pub(super) host: RunHost,
    pub(super) keys: Keys,
    streams: Arc<Semaphore>,
    draining: watch::Sender<bool>,
}

impl ServerState {
    pub(super) fn new(setup: Arc<Setup>, posse: Posse, tokens: Tokens) -> Self {
        Self {
            setup,
            posse,
            tokens,
            is_encrypted: false,
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

    /// The projects in which a caller may start runs: the server's own, and those that were added.
    pub(super) fn projects(&self, _caller: &Caller) -> Vec<ServerProject> {
        let own = Project::current(&self.setup.environment);
        let name = own.top().file_name().unwrap_or_default().to_string_lossy().into_owned();
        vec![ServerProject { dir: own.top().display().to_string(), name, is_default: true }]
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
