//! Standard output: for data only. A reader that goes away ends the command quietly.
//!
//! Why it is like this: `docs/decisions/cli-closed-pipe.md`.

use std::io::{self, BufWriter, Stdout, Write};

use posse_setup::{Notes, WithNotes};
use rustix::event::{PollFd, PollFlags, poll};
use serde::Serialize;

use crate::error::CliError;
use crate::json;
use crate::term;

/// Standard output.
pub(crate) struct Output(BufWriter<Stdout>);

impl Output {
    /// Opens it.
    pub(crate) fn new() -> Self {
        Self(BufWriter::new(io::stdout()))
    }

    /// Writes text as it is; it was made here and holds nothing foreign.
    pub(crate) fn own(&mut self, text: &str) -> Result<(), CliError> {
        self.0.write_all(text.as_bytes()).map_err(|error| failed(&error))
    }

    /// Writes bytes as they are; for what is no terminal.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.0.write_all(bytes).map_err(|error| failed(&error))
    }

    /// Writes text that may hold what a model or a tool said, without its control sequences.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), CliError> {
        self.own(&term::clean(text))
    }

    /// Writes text and ends the line, unless the text did.
    pub(crate) fn paragraph(&mut self, text: &str) -> Result<(), CliError> {
        self.text(text)?;
        if text.ends_with('\n') { Ok(()) } else { self.own("\n") }
    }

    /// Writes one object as a line of JSON with its version, and flushes: a reader that follows does not wait for a full
    /// buffer.
    pub(crate) fn json(&mut self, object: &impl Serialize) -> Result<(), CliError> {
        self.plain_json(&posse::api::VersionedObject::new(object))
    }

    /// The same without a version: for another process of the same program.
    pub(crate) fn plain_json(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        self.own(&json::line(value))?;
        self.flush()
    }

    /// Hands over what was written.
    pub(crate) fn flush(&mut self) -> Result<(), CliError> {
        self.0.flush().map_err(|error| failed(&error))
    }
}

fn failed(error: &io::Error) -> CliError {
    match error.kind() {
        io::ErrorKind::BrokenPipe => CliError::reader_gone(),
        _ => CliError::failed(format!("standard output cannot be written: {error}")),
    }
}

/// Waits until whoever reads standard output has gone. If nobody can go, such as from a file, for ever.
pub(crate) async fn reader_gone() {
    let (tell, told) = tokio::sync::oneshot::channel();
    // A thread of its own: the wait is a system call that may never return, and ends with the process.
    let watching = std::thread::Builder::new().name("posse-reader".to_owned()).spawn(move || {
        let stdout = io::stdout();
        let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
        while matches!(poll(&mut watched, None), Err(rustix::io::Errno::INTR)) {}
        if watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
            let _ = tell.send(());
        }
    });
    if watching.is_err() || told.await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Writes a line for people to standard error; if that is gone, nobody is left to tell.
pub(crate) fn note(text: &str) {
    drop(writeln!(io::stderr(), "{}", term::clean(text)));
}

/// Writes notes in their order.
pub(crate) fn print_notes(notes: &Notes) {
    for line in notes {
        note(line);
    }
}

/// A value, once its notes are written.
pub(crate) fn print_noted<T>(noted: WithNotes<T>) -> T {
    print_notes(&noted.notes);
    noted.value
}
