//! Signals such as Ctrl-C as futures, for commands that execute a run.

use std::future::Future;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::CliError;
use crate::exit::Exit;

/// A request to the process from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Ctrl-C: the first cancels, the second stops.
    Interrupt,
    /// SIGTERM: stop at once.
    Terminate,
    /// SIGHUP, because the terminal is gone: stop at once.
    HangUp,
}

impl Ask {
    /// The exit code of a process that a signal stopped: 128 and the signal's number.
    pub(crate) fn exit(self) -> Exit {
        match self {
            Ask::Interrupt => Exit::INTERRUPTED,
            Ask::Terminate => Exit(143),
            Ask::HangUp => Exit(129),
        }
    }
}

/// Begins to listen to one kind of signal, which no longer ends the process by itself.
pub(crate) fn listen_to(kind: SignalKind) -> Result<Signal, CliError> {
    signal(kind).map_err(|error| CliError::failed(format!("cannot listen to signals: {error}")))
}

/// The signals that a process with a run listens to. From here on they no longer end the process by themselves.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Begins to listen. Must be called inside the runtime.
    pub(crate) fn listen() -> Result<Self, CliError> {
        Ok(Self {
            interrupt: listen_to(SignalKind::interrupt())?,
            terminate: listen_to(SignalKind::terminate())?,
            hang_up: listen_to(SignalKind::hangup())?,
        })
    }

    /// Runs an operation that may hang, such as the start of a run on a slow disk, until it ends or a signal arrives.
    /// Nothing is shown yet that a first Ctrl-C could cancel, so it stops too.
    pub(crate) async fn unless_one_comes<T>(&mut self, doing: impl Future<Output = T>) -> Result<T, Ask> {
        tokio::select! {
            done = doing => Ok(done),
            ask = self.next() => Err(ask),
        }
    }

    /// The next signal. Dropping the future loses none.
    pub(crate) async fn next(&mut self) -> Ask {
        tokio::select! {
            _ = self.interrupt.recv() => Ask::Interrupt,
            _ = self.terminate.recv() => Ask::Terminate,
            _ = self.hang_up.recv() => Ask::HangUp,
        }
    }
}
