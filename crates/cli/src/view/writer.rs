//! Writes to the terminal from a thread of its own, because a terminal that the user has stopped (Ctrl-S) blocks every
//! writer: the run must not wait for it.

use std::fs::File;
use std::io::{Stderr, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Limit of bytes that wait for the terminal. What exceeds it is lost: the journal has it.
const WAITING_MAX_BYTES: usize = 1 << 20;

/// How long an end waits for a terminal that the user has stopped.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// A terminal that never makes its user wait.
pub(crate) struct TerminalWriter {
    shared: Arc<WriterChannel>,
}

#[derive(Default)]
struct WriterChannel {
    state: Mutex<WriterState>,
    changed: Condvar,
}

#[derive(Default)]
struct WriterState {
    waiting: Vec<u8>,
    is_writing: bool,
    is_closed: bool,
}

impl WriterChannel {
    fn state(&self) -> MutexGuard<'_, WriterState> {
        // Each change of the state is a single step, so a panic leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_all(&self, mut target: impl Write) {
        let mut state = self.state();
        loop {
            if state.waiting.is_empty() {
                if state.is_closed {
                    return;
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let bytes = std::mem::take(&mut state.waiting);
            state.is_writing = true;
            drop(state);
            // A closed terminal is no reason to stop.
            drop(target.write_all(&bytes).and_then(|()| target.flush()));
            state = self.state();
            state.is_writing = false;
            self.changed.notify_all();
        }
    }
}

impl TerminalWriter {
    /// Writes to standard error. Its lock is not taken: it would be held as long as the terminal is stopped.
    pub(crate) fn to_stderr(stderr: &Stderr) -> std::io::Result<Self> {
        Self::new(File::from(stderr.as_fd().try_clone_to_owned()?))
    }

    fn new(target: impl Write + Send + 'static) -> std::io::Result<Self> {
        let shared = Arc::new(WriterChannel::default());
        let writing = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("posse-terminal".to_owned());
        thread.spawn(move || writing.write_all(target))?;
        Ok(Self { shared })
    }

    /// Whether everything is written. A frame is drawn only then, so that a slow terminal gets fewer frames.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.shared.state();
        state.waiting.is_empty() && !state.is_writing
    }

    /// Writes these bytes after all earlier ones.
    pub(crate) fn write(&self, bytes: &[u8]) {
        let mut state = self.shared.state();
        if state.waiting.len() + bytes.len() <= WAITING_MAX_BYTES {
            state.waiting.extend_from_slice(bytes);
            self.shared.changed.notify_all();
        }
    }

    /// Waits until everything is written, at most for `patience` if there is one.
    pub(crate) fn drain(&self, patience: Option<Duration>) {
        let is_busy = |state: &mut WriterState| !state.waiting.is_empty() || state.is_writing;
        let state = self.shared.state();
        match patience {
            Some(patience) => drop(self.shared.changed.wait_timeout_while(state, patience, is_busy)),
            None => drop(self.shared.changed.wait_while(state, is_busy)),
        }
    }
}

impl Drop for TerminalWriter {
    fn drop(&mut self) {
        self.shared.state().is_closed = true;
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_terminal_that_does_not_take_its_bytes_blocks_nobody() {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let terminal = TerminalWriter::new(writer).expect("a thread");
        // More than a pipe holds.
        let frame = vec![b'x'; 200_000];
        terminal.write(&frame);
        assert!(!terminal.is_idle());
        terminal.drain(Some(Duration::ZERO));
        terminal.write(b"end");
        let mut read = vec![0; frame.len() + 3];
        reader.read_exact(&mut read).expect("all of it");
        assert!(read.ends_with(b"xend"));
        terminal.drain(None);
        assert!(terminal.is_idle());
    }

    #[test]
    fn what_waits_for_a_stopped_terminal_is_limited() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let terminal = TerminalWriter::new(writer).expect("a thread");
        for _ in 0..100 {
            terminal.write(&vec![b'x'; 100_000]);
        }
        assert!(terminal.shared.state().waiting.len() <= WAITING_MAX_BYTES);
        drop(reader);
    }
}
