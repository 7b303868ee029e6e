//! Ctrl-C and its kin, as things to wait for.

use std::future::Future;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::CliError;
use crate::exit::Exit;

/// What somebody outside asks of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Ctrl-C: the first is a wish to cancel, the second to stop.
    Interrupt,
    /// SIGTERM: stop at once.
    Terminate,
    /// The terminal is gone: stop at once.
    HangUp,
}

impl Ask {
    /// The exit code of a process that stopped because of it: 128 and the signal's number.
    pub(crate) fn exit(self) -> Exit {
        match self {
            Ask::Interrupt => Exit::INTERRUPTED,
            Ask::Terminate => Exit(143),
            Ask::HangUp => Exit(129),
        }
    }
}

/// The signals a carried run listens to. From here on they no longer end the process by themselves.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Begins to listen. Must be called inside the runtime.
    pub(crate) fn listen() -> Result<Self, CliError> {
        let on = |kind| {
            signal(kind).map_err(|error| CliError::failed(format!("signals cannot be listened to: {error}")))
        };
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hang_up: on(SignalKind::hangup())?,
        })
    }

    /// What comes of something that may hang, such as the start of a run on a disk that does; or which signal came first.
    /// Nothing is shown yet that a first Ctrl-C could leave standing, so that it stops too.
    pub(crate) async fn unless_one_comes<T>(&mut self, doing: impl Future<Output = T>) -> Result<T, Ask> {
        tokio::select! {
            done = doing => Ok(done),
            ask = self.next() => Err(ask),
        }
    }

    /// The next one. Dropping the future loses none.
    pub(crate) async fn next(&mut self) -> Ask {
        tokio::select! {
            _ = self.interrupt.recv() => Ask::Interrupt,
            _ = self.terminate.recv() => Ask::Terminate,
            _ = self.hang_up.recv() => Ask::HangUp,
        }
    }
}
