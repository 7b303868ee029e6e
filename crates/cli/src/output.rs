//! Standard output, for data only. If its reader goes away, the command ends quietly.
//!
//! Why it is like this: `docs/decisions/cli-closed-pipe.md`.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use posse_setup::{Note, Notes, WithNotes};
use rustix::event::{PollFd, PollFlags, poll};
use serde::Serialize;

use crate::error::{CliError, flag_of, remedy_text};
use crate::json;
use crate::term;
use crate::view::width::wrapped;

pub(crate) struct Output(BufWriter<Stdout>);

impl Output {
    pub(crate) fn new() -> Self {
        Self(BufWriter::new(io::stdout()))
    }

    /// Writes text unchanged. It was created here and contains nothing foreign.
    pub(crate) fn own(&mut self, text: &str) -> Result<(), CliError> {
        self.0.write_all(text.as_bytes()).map_err(|error| failed(&error))
    }

    /// Writes bytes unchanged, for output that is not a terminal.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.0.write_all(bytes).map_err(|error| failed(&error))
    }

    /// Writes text that may come from a model or a tool, without its control sequences.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), CliError> {
        self.own(&term::clean(text))
    }

    /// Writes text as [`text`](Self::text) does; on a terminal with lines that fit, broken between words.
    pub(crate) fn prose(&mut self, text: &str) -> Result<(), CliError> {
        let text = term::clean(text);
        match output_width() {
            Some(width) => self.own(&wrapped(&text, width)),
            None => self.own(&text),
        }
    }

    /// Writes prose and ends the line, unless the text does.
    pub(crate) fn paragraph(&mut self, text: &str) -> Result<(), CliError> {
        self.prose(text)?;
        if text.ends_with('\n') { Ok(()) } else { self.own("\n") }
    }

    /// Writes one object as a line of JSON with its version, and flushes: a reader that follows does not wait for a
    /// full buffer.
    pub(crate) fn json(&mut self, object: &impl posse::api::Object) -> Result<(), CliError> {
        self.plain_json(&posse::api::VersionedObject::new(object))
    }

    /// The same without a version, for another process of the same program.
    pub(crate) fn plain_json(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        self.own(&json::line(value))?;
        self.flush()
    }

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

/// Waits until the reader of standard output has gone. A file has no reader, so this waits forever.
pub(crate) async fn reader_gone() {
    let (sender, gone) = tokio::sync::oneshot::channel();
    // A separate thread: the wait is a system call that may never return, and ends with the process.
    let watching = std::thread::Builder::new().name("posse-reader".to_owned()).spawn(move || {
        let stdout = io::stdout();
        let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
        while matches!(poll(&mut watched, None), Err(rustix::io::Errno::INTR)) {}
        if watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
            let _ = sender.send(());
        }
    });
    if watching.is_err() || gone.await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Writes a line for users to standard error; on a terminal broken between words. If it is closed, the line is lost.
pub(crate) fn note(text: &str) {
    drop(writeln!(io::stderr(), "{}", fitting(&term::clean(text))));
}

/// A text for standard error; for a terminal, its lines are broken between words.
pub(crate) fn fitting(text: &str) -> String {
    error_width().map_or_else(|| text.to_owned(), |width| wrapped(text, width))
}

/// The width of the terminal of standard output; `None` if it is no terminal.
pub(crate) fn output_width() -> Option<usize> {
    terminal_width(io::stdout().is_terminal())
}

/// The width of the terminal of standard error; `None` if it is no terminal.
pub(crate) fn error_width() -> Option<usize> {
    terminal_width(io::stderr().is_terminal())
}

fn terminal_width(is_terminal: bool) -> Option<usize> {
    let size = is_terminal.then(crossterm::terminal::size).and_then(Result::ok);
    size.map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0)
}

/// Writes notes in order.
pub(crate) fn print_notes(notes: &Notes) {
    for one in notes {
        note(&note_line(one));
    }
}

/// A note in the words of the command.
pub(crate) fn note_line(note: &Note) -> String {
    let subject = note.subject.map(|subject| format!("{}: ", flag_of(subject))).unwrap_or_default();
    let remedy = note.remedy.as_ref().map(|remedy| format!("; {}", remedy_text(remedy))).unwrap_or_default();
    format!("{}{subject}{}{remedy}", note.level, note.text)
}

/// Prints the notes of a value and returns the value.
pub(crate) fn print_noted<T>(noted: WithNotes<T>) -> T {
    print_notes(&noted.notes);
    noted.value
}
