//! Reads one line from the terminal: takes it, draws what is typed, and gives it back.

use rustix::process::{getpid, kill_process};
use tokio::signal::unix::{Signal, SignalKind};

use super::completion::Completer;
use super::editor::{EditStep, Editor};
use super::history::History;
use super::render::{LineFrame, bytes, draw};
use crate::error::CliError;
use crate::questions::write_out;
use crate::signals::{Ask, Signals, listen_to};
use crate::view::screen_size;
use crate::view::tty::{Interrupts, Keyboard};

/// The terminal marks what is pasted.
const MARK_PASTES: &str = "\u{1b}[?2004h";
const DO_NOT_MARK_PASTES: &str = "\u{1b}[?2004l";

/// What the user did.
pub(super) enum Read {
    Line(String),
    /// Ctrl-D.
    Quit,
    /// A signal ends the prompt.
    Stopped(Ask),
}

/// The terminal while a line is typed.
struct LineScreen {
    keyboard: Option<Keyboard>,
    drawn: LineFrame,
}

impl LineScreen {
    fn take() -> Self {
        let keyboard = Keyboard::take(Interrupts::Signal);
        write_out(MARK_PASTES);
        Self { keyboard, drawn: LineFrame::default() }
    }

    fn draw(&mut self, editor: &Editor) {
        let (columns, rows) = screen_size();
        // One row less: a frame as high as the screen would scroll.
        let now = draw(editor, usize::from(columns), usize::from(rows).saturating_sub(1));
        write_out(&bytes(&self.drawn, &now));
        self.drawn = now;
    }

    /// Leaves the text on the screen: what follows begins below it.
    fn leave(&mut self, editor: &mut Editor) {
        (editor.menu, editor.search) = (None, None);
        editor.cursor = editor.text.len();
        self.draw(editor);
        write_out("\r\n");
        self.drawn = LineFrame::default();
    }

    async fn key(&mut self) -> crate::view::keys::Key {
        match &mut self.keyboard {
            Some(keyboard) => keyboard.key().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for LineScreen {
    fn drop(&mut self) {
        write_out(DO_NOT_MARK_PASTES);
    }
}

/// What ended a wait for the terminal.
enum PromptEvent {
    Key(crate::view::keys::Key),
    Signal(Ask),
    Suspended,
    Resized,
}

/// Reads a line. Must be called inside the runtime.
pub(super) async fn read_line(
    editor: &mut Editor,
    history: &History,
    completer: &dyn Completer,
) -> Result<Read, CliError> {
    let mut signals = Signals::listen()?;
    let mut suspended = listen_to(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?;
    let mut resized = listen_to(SignalKind::window_change())?;
    let mut screen = LineScreen::take();
    loop {
        screen.draw(editor);
        match next(&mut screen, &mut signals, &mut suspended, &mut resized).await {
            PromptEvent::Key(key) => {
                let before = editor.text.clone();
                match editor.key(key, history, completer) {
                    EditStep::Typing => {}
                    EditStep::Quit => {
                        screen.leave(editor);
                        return Ok(Read::Quit);
                    }
                    EditStep::Done(text) => {
                        editor.text = before;
                        screen.leave(editor);
                        editor.clear();
                        return Ok(Read::Line(text));
                    }
                }
            }
            PromptEvent::Signal(Ask::Interrupt) => {
                screen.leave(editor);
                editor.clear();
            }
            PromptEvent::Signal(ask) => return Ok(Read::Stopped(ask)),
            PromptEvent::Suspended => {
                screen.leave(editor);
                drop(screen);
                let _ = kill_process(getpid(), rustix::process::Signal::STOP);
                screen = LineScreen::take();
            }
            // The terminal has broken the rows anew: the next frame begins below them.
            PromptEvent::Resized => screen.leave(editor),
        }
    }
}

async fn next(
    screen: &mut LineScreen,
    signals: &mut Signals,
    suspended: &mut Signal,
    resized: &mut Signal,
) -> PromptEvent {
    tokio::select! {
        key = screen.key() => PromptEvent::Key(key),
        ask = signals.next() => PromptEvent::Signal(ask),
        _ = suspended.recv() => PromptEvent::Suspended,
        _ = resized.recv() => PromptEvent::Resized,
    }
}
