//! The terminal while the live view has it: its cursor is hidden, its keys are read, and nothing waits for it. It is
//! given back at every end.

use crossterm::terminal;
use rustix::process::{getpid, kill_process};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::keys::Key;
use super::paint::{Painter, Size};
use super::rows::Row;
use super::tty::{Interrupts, Keyboard, is_in_foreground};
use super::writer::{PATIENCE, TerminalWriter};

/// The assumed size of a terminal that reports none.
const DEFAULT_SIZE: Size = Size { columns: 80, rows: 24 };
const HIDE_CURSOR: &[u8] = b"\x1b[?25l";
const SHOW_CURSOR: &[u8] = b"\x1b[?25h";

/// The columns and rows of the terminal.
pub(crate) fn screen_size() -> (u16, u16) {
    let Size { columns, rows } = LiveScreen::size();
    (columns, rows)
}

/// Something that happens at the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TerminalEvent {
    Key(Key),
    /// Ctrl-Z.
    Suspended,
    /// The tree is to be drawn again.
    FrameDue,
}

/// The terminal of the live view.
pub(super) struct LiveScreen {
    painter: Painter,
    writer: TerminalWriter,
    keyboard: Option<Keyboard>,
    /// Ctrl-Z, from the first frame on.
    suspend: Option<Signal>,
    is_taken: bool,
}

impl LiveScreen {
    /// The terminal of standard error.
    pub(super) fn new(is_coloured: bool) -> std::io::Result<Self> {
        let writer = TerminalWriter::to_stderr(&std::io::stderr())?;
        Ok(Self {
            painter: Painter::new(is_coloured),
            writer,
            keyboard: None,
            suspend: None,
            is_taken: false,
        })
    }

    /// The current size.
    pub(super) fn size() -> Size {
        match terminal::size() {
            Ok((columns, rows)) if columns > 0 && rows > 0 => Size { columns, rows },
            _ => DEFAULT_SIZE,
        }
    }

    /// Whether keys are read.
    pub(super) fn has_keys(&self) -> bool {
        self.keyboard.is_some()
    }

    /// Whether a frame would be shown: the terminal takes bytes, and this job has it.
    pub(super) fn is_ready(&self) -> bool {
        self.writer.is_idle() && is_in_foreground()
    }

    /// Replaces the last frame.
    pub(super) fn frame(&mut self, lines: &[Row], rows: &[Row]) {
        if !self.is_taken && lines.is_empty() && rows.is_empty() {
            return;
        }
        self.take();
        let bytes = self.painter.frame(lines, rows, Self::size());
        self.writer.write(&bytes);
    }

    /// Takes the terminal: hides its cursor and reads its keys.
    pub(super) fn take(&mut self) {
        if !self.is_taken {
            self.is_taken = true;
            self.suspend = self.suspend.take().or_else(|| signal(SignalKind::from_raw(SIGTSTP)).ok());
            self.keyboard = Keyboard::take(Interrupts::Key);
            self.writer.write(HIDE_CURSOR);
        }
    }

    /// Gives the terminal back and leaves the last frame there: the next one begins below.
    pub(super) fn release(&mut self) {
        if self.is_taken {
            self.is_taken = false;
            self.keyboard = None;
            self.painter.leave();
            self.writer.write(SHOW_CURSOR);
        }
    }

    /// Gives the terminal back, and waits until it has everything.
    pub(super) fn close(&mut self) {
        self.release();
        self.writer.drain(None);
    }

    /// Waits until the terminal has everything, but not long.
    pub(super) fn drain_briefly(&self) {
        self.writer.drain(Some(PATIENCE));
    }

    /// Writes a text below the last frame, with the terminal given back.
    pub(super) fn write_below(&mut self, text: &str) {
        self.release();
        self.writer.write(text.as_bytes());
    }

    /// Writes a text at once, such as a bell.
    pub(super) fn write(&self, text: &str) {
        self.writer.write(text.as_bytes());
    }

    /// The next key or signal of the terminal; waits forever if there is none.
    pub(super) async fn next(&mut self) -> TerminalEvent {
        tokio::select! {
            key = key(self.keyboard.as_mut()) => TerminalEvent::Key(key),
            () = suspended(self.suspend.as_mut()) => TerminalEvent::Suspended,
        }
    }

    /// Stops this process, as Ctrl-Z does, until its user continues it.
    pub(super) fn suspend(&mut self) {
        self.release();
        self.drain_briefly();
        let _ = kill_process(getpid(), rustix::process::Signal::STOP);
    }
}

async fn key(keyboard: Option<&mut Keyboard>) -> Key {
    match keyboard {
        Some(keyboard) => keyboard.key().await,
        None => std::future::pending().await,
    }
}

async fn suspended(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// The number of the signal, which is the same on every system that has it.
const SIGTSTP: i32 = rustix::process::Signal::TSTP.as_raw();

impl Drop for LiveScreen {
    fn drop(&mut self) {
        self.release();
        self.drain_briefly();
    }
}
