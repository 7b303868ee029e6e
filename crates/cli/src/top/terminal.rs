//! The whole screen of the terminal, and its keyboard and mouse. It is given back at every end.

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;

use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use rustix::process::{getpid, kill_process};
use tokio::signal::unix::{Signal, SignalKind};

use crate::error::CliError;
use crate::questions::write_out;
use crate::signals::listen_to;
use crate::view::keys::Key;
use crate::view::screen_size;
use crate::view::tty::{Interrupts, Keyboard, is_in_foreground};
use crate::view::writer::{PATIENCE, TerminalWriter};

/// The other screen without a cursor, and the buttons of the mouse with positions of any size.
const TAKE: &str = "\u{1b}[?1049h\u{1b}[2J\u{1b}[?25l\u{1b}[?1000h\u{1b}[?1006h";
const GIVE_BACK: &str = "\u{1b}[?1006l\u{1b}[?1000l\u{1b}[0m\u{1b}[?25h\u{1b}[?1049l";
const BEGIN_FRAME: &[u8] = b"\x1b[?2026h";
const END_FRAME: &[u8] = b"\x1b[?2026l";

/// The bytes of a frame.
#[derive(Clone, Default)]
struct FrameBytes(Rc<RefCell<Vec<u8>>>);

impl Write for FrameBytes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Something that happens at the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScreenEvent {
    Key(Key),
    /// Ctrl-Z.
    Suspended,
    /// The window may have another size.
    Resized,
}

/// The terminal while it shows one program only.
pub(super) struct FullScreen {
    /// What the terminal shows.
    shown: Buffer,
    bytes: FrameBytes,
    backend: CrosstermBackend<FrameBytes>,
    writer: TerminalWriter,
    keyboard: Option<Keyboard>,
    suspended: Signal,
    resized: Signal,
}

impl FullScreen {
    /// Takes the terminal of standard error and standard input.
    pub(super) fn take() -> Result<Self, CliError> {
        let writer = TerminalWriter::to_stderr(&std::io::stderr())
            .map_err(|error| CliError::failed(format!("the terminal cannot be written: {error}")))?;
        let bytes = FrameBytes::default();
        let mut screen = Self {
            shown: Buffer::default(),
            backend: CrosstermBackend::new(bytes.clone()),
            bytes,
            writer,
            keyboard: None,
            suspended: listen_to(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?,
            resized: listen_to(SignalKind::window_change())?,
        };
        screen.enter();
        Ok(screen)
    }

    fn enter(&mut self) {
        self.keyboard = Keyboard::take(Interrupts::Signal);
        self.writer.write(TAKE.as_bytes());
        let (columns, rows) = screen_size();
        self.shown = Buffer::empty(Rect::new(0, 0, columns, rows));
    }

    fn leave(&mut self) {
        if self.keyboard.take().is_some() {
            self.writer.write(GIVE_BACK.as_bytes());
        }
        self.writer.drain(Some(PATIENCE));
    }

    /// Its columns and rows.
    pub(super) fn size(&self) -> (u16, u16) {
        (self.shown.area.width, self.shown.area.height)
    }

    /// Whether a frame would be shown: the terminal takes bytes, and this job has it.
    pub(super) fn is_ready(&self) -> bool {
        self.writer.is_idle() && is_in_foreground()
    }

    /// Writes what differs from the last frame.
    pub(super) fn frame(&mut self, draw: impl FnOnce(&mut Buffer)) {
        let mut buffer = Buffer::empty(self.shown.area);
        draw(&mut buffer);
        let changes = self.shown.diff(&buffer);
        if changes.is_empty() {
            return;
        }
        // Writing to memory does not fail.
        drop(self.backend.draw(changes.into_iter()));
        let bytes = self.bytes.0.take();
        self.writer.write(&[BEGIN_FRAME, &bytes, END_FRAME].concat());
        self.shown = buffer;
    }

    /// Reads the size of the window again, and clears the screen: what it shows after a change is not known.
    pub(super) fn resize(&mut self) {
        let (columns, rows) = screen_size();
        self.writer.write(b"\x1b[0m\x1b[2J");
        self.shown = Buffer::empty(Rect::new(0, 0, columns, rows));
    }

    /// Stops this process, as Ctrl-Z does, until its user continues it.
    pub(super) fn suspend(&mut self) {
        self.leave();
        let _ = kill_process(getpid(), rustix::process::Signal::STOP);
        self.enter();
    }

    /// The next key or signal.
    pub(super) async fn next(&mut self) -> ScreenEvent {
        tokio::select! {
            key = key(self.keyboard.as_mut()) => ScreenEvent::Key(key),
            _ = self.suspended.recv() => ScreenEvent::Suspended,
            _ = self.resized.recv() => ScreenEvent::Resized,
        }
    }
}

async fn key(keyboard: Option<&mut Keyboard>) -> Key {
    match keyboard {
        Some(keyboard) => keyboard.key().await,
        None => std::future::pending().await,
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Lets a panic be read: the message is printed after the screen is given back.
pub(super) fn give_back_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        write_out(GIVE_BACK);
        report(panic);
    }));
}
