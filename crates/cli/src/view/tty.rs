//! The keyboard of the terminal while the view has it: keys arrive one by one, and are not echoed. Ctrl-Z still sends a
//! signal, and Ctrl-C too, unless each press counts.

use std::io::{IsTerminal, PipeWriter};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::getpgrp;
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr, tcgetpgrp,
    tcsetattr,
};
use tokio::sync::mpsc;

use super::keys::{Key, KeyReader};

/// Limit of keys that wait to be handled; further ones stay in the terminal.
const KEYS_MAX: usize = 64;
/// Bytes of one read.
const READ_BYTES: usize = 256;
/// The special code of a terminal for a key that does nothing.
const DISABLED: u8 = 0;

/// What the key that interrupts a program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupts {
    /// It sends a signal. The kernel merges signals: of three presses in one burst, one arrives.
    Signal,
    /// It is [`Key::Interrupt`], and each press arrives.
    Key,
}

/// The keyboard. Dropping it restores the terminal and discards what was typed and not read.
pub(crate) struct Keyboard {
    saved: Termios,
    keys: mpsc::Receiver<Key>,
    /// Closed on drop, which ends the reading thread.
    open: Option<PipeWriter>,
    reader: Option<JoinHandle<()>>,
}

impl Keyboard {
    /// Takes the keyboard; `None` if standard input is no terminal, or one that another job uses.
    pub(crate) fn take(interrupts: Interrupts) -> Option<Self> {
        let stdin = std::io::stdin();
        if !stdin.is_terminal() || !is_in_foreground() {
            return None;
        }
        let saved = tcgetattr(&stdin).ok()?;
        let mut modes = saved.clone();
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        let code = modes.special_codes[SpecialCodeIndex::VINTR];
        let interrupt = letter(code).filter(|_| interrupts == Interrupts::Key);
        if interrupt.is_some() {
            modes.special_codes[SpecialCodeIndex::VINTR] = DISABLED;
        }
        tcsetattr(&stdin, OptionalActions::Now, &modes).ok()?;
        let (sender, keys) = mpsc::channel(KEYS_MAX);
        let mut keyboard = Self { saved, keys, open: None, reader: None };
        let (closed, open) = std::io::pipe().ok()?;
        keyboard.open = Some(open);
        // A separate thread: a read of a terminal cannot be cancelled, so it starts only once there is a key.
        let read = move || {
            let stdin = std::io::stdin();
            let mut reader = KeyReader::default();
            loop {
                let mut watched = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&closed, PollFlags::IN)];
                while matches!(poll(&mut watched, None), Err(rustix::io::Errno::INTR)) {}
                if !watched[1].revents().is_empty() {
                    return;
                }
                let mut bytes = [0; READ_BYTES];
                let Ok(count @ 1..) = rustix::io::read(&stdin, &mut bytes) else { return };
                for key in reader.read(&bytes[..count]) {
                    let is_interrupt = matches!(key, Key::Control(c) if interrupt == Some(c));
                    let key = if is_interrupt { Key::Interrupt } else { key };
                    if sender.blocking_send(key).is_err() {
                        return;
                    }
                }
            }
        };
        keyboard.reader = Some(std::thread::Builder::new().name("posse-keys".to_owned()).spawn(read).ok()?);
        Some(keyboard)
    }

    /// The next key; waits forever once the terminal is gone.
    pub(crate) async fn key(&mut self) -> Key {
        match self.keys.recv().await {
            Some(key) => key,
            None => std::future::pending().await,
        }
    }
}

/// The letter that, with Ctrl, is this special code; `None` if it is no letter.
fn letter(code: u8) -> Option<char> {
    matches!(code, 1..=26).then(|| char::from(b'a' - 1 + code))
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        drop(self.open.take());
        self.keys.close();
        // The thread must not read what is typed from now on.
        if let Some(reader) = self.reader.take() {
            drop(reader.join());
        }
        // A job in the background that changes the terminal is stopped by the kernel.
        if is_in_foreground() {
            let stdin = std::io::stdin();
            let _ = tcflush(&stdin, QueueSelector::IFlush);
            let _ = tcsetattr(&stdin, OptionalActions::Now, &self.saved);
        }
    }
}

/// Whether the terminal belongs to this job. A terminal that is not the session's belongs to everyone.
pub(crate) fn is_in_foreground() -> bool {
    tcgetpgrp(std::io::stdin()).map_or(true, |group| group == getpgrp())
}
