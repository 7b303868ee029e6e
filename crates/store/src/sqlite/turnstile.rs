//! The writers' lock: decides which process may write to the database now.
//!
//! 1. take `queue`, 2. take `main`, 3. free `queue`, 4. write, 5. free `main`.
//!
//! The process that waits for `main` holds `queue`. A process that freed `main` and comes back at once must queue
//! behind the waiting process: it cannot overtake, however fast it is. The kernel frees both locks when their process
//! dies.
//!
//! A blocking lock call cannot be cancelled. A helper thread therefore waits for the locks, and the writer waits for
//! the helper with a timeout. If a process was stopped while it held the lock, commits fail with a reason instead of
//! hanging for ever.
//!
//! Why it is like this: `docs/decisions/store-several-processes.md`.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posse_engine::ports::{StoreError, StorePart};

use super::error::from_io;
use super::paths::Paths;
use super::{files, flock};

/// How often the kernel's list of locks is read to find the holder of a lock.
const HOLDER_LOOKS: usize = 20;

#[derive(Debug)]
struct Locks {
    queue: File,
    main: File,
}

impl Locks {
    /// Takes both locks if they are free. May keep `queue` when only `main` is taken: the helper continues from there.
    fn try_pass(&self) -> io::Result<bool> {
        if !flock::try_lock(&self.queue)? || !flock::try_lock(&self.main)? {
            return Ok(false);
        }
        flock::unlock(&self.queue)?;
        Ok(true)
    }

    fn pass(&self) -> io::Result<()> {
        flock::lock(&self.queue)?;
        let passed = flock::lock(&self.main);
        flock::unlock(&self.queue)?;
        passed
    }

    fn leave(&self) {
        if let Err(error) = flock::unlock(&self.main) {
            tracing::error!(%error, "the writers' lock could not be freed");
        }
    }
}

/// A process's access to the writers' lock of one store.
#[derive(Debug)]
pub(super) struct Turnstile {
    locks: Arc<Locks>,
    paths: Paths,
    patience: Duration,
    helper: Option<Helper>,
}

/// The right to write, until it is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    locks: Arc<Locks>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.locks.leave();
    }
}

impl Turnstile {
    pub(super) fn open(paths: &Paths, patience: Duration) -> Result<Self, StoreError> {
        let open = |path| files::open(path).map_err(|error| from_io(StorePart::Locks, path, &error));
        let locks = Locks { queue: open(&paths.queue_lock)?, main: open(&paths.writers_lock)? };
        Ok(Self { locks: Arc::new(locks), paths: paths.clone(), patience, helper: None })
    }

    /// Waits for the right to write.
    pub(super) fn take(&mut self) -> Result<Permit, StoreError> {
        let fail = |error: io::Error| from_io(StorePart::Locks, &self.paths.writers_lock, &error);
        // The locks are shared with the helper: nothing else may touch them while it waits.
        if !self.is_waiting() && self.locks.try_pass().map_err(fail)? {
            return Ok(self.permit());
        }
        let helper = self.helper.get_or_insert_with(|| Helper::start(self.locks.clone()));
        match helper.wait(self.patience) {
            Some(Ok(())) => Ok(self.permit()),
            Some(Err(error)) => Err(fail(error)),
            None => Err(self.held_too_long()),
        }
    }

    /// The right to write, if no other process has it or waits for it.
    pub(super) fn try_take(&mut self) -> Option<Permit> {
        if self.is_waiting() {
            return None;
        }
        let passed = self.locks.try_pass().unwrap_or(false);
        if !passed {
            // This caller does not queue, so it returns the lock that it took.
            let _ = flock::unlock(&self.locks.queue);
        }
        passed.then(|| self.permit())
    }

    fn permit(&self) -> Permit {
        Permit { locks: self.locks.clone() }
    }

    fn is_waiting(&self) -> bool {
        self.helper.as_ref().is_some_and(Helper::is_waiting)
    }

    fn held_too_long(&self) -> StoreError {
        let seconds = self.patience.as_secs_f32();
        // A list that changes while it is read may miss a line. Then this process seems to hold the lock, because it
        // waits in the queue.
        let found = (0..HOLDER_LOOKS).find_map(|_| holder(&self.locks.main));
        // A process that was stopped while it queued holds only the first lock.
        let in_line = || holder(&self.locks.queue).filter(|pid| *pid != std::process::id());
        let holder = match found.or_else(in_line) {
            Some(pid) => format!("process {pid}"),
            None => "another process".to_owned(),
        };
        let problem = format!("{holder} has held it for more than {seconds} s; it may be stopped");
        StoreError::Unusable { part: StorePart::Locks, problem }
    }
}

/// The thread that waits for the locks.
#[derive(Debug)]
struct Helper(Arc<TurnstileState>);

#[derive(Debug, Default)]
struct TurnstileState {
    wait: Mutex<Wait>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Wait {
    phase: Phase,
    /// Whether the writer would use a permit. If it gave up, an acquired permit is released at once.
    is_wanted: bool,
    is_closed: bool,
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    Resting,
    /// The helper waits for the locks.
    Waiting,
    /// The lock calls have returned.
    Answered(io::Result<()>),
}

impl TurnstileState {
    fn wait(&self) -> MutexGuard<'_, Wait> {
        self.wait.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Helper {
    fn start(locks: Arc<Locks>) -> Self {
        let shared = Arc::new(TurnstileState::default());
        let helper = Self(shared.clone());
        std::thread::spawn(move || {
            while shared.is_queued() {
                let passed = locks.pass();
                shared.answer(passed, &locks);
            }
        });
        helper
    }

    fn is_waiting(&self) -> bool {
        !matches!(self.0.wait().phase, Phase::Resting)
    }

    /// The helper's outcome. `None` if `patience` ran out. The helper continues to wait, for the next call.
    fn wait(&self, patience: Duration) -> Option<io::Result<()>> {
        let mut wait = self.0.wait();
        wait.is_wanted = true;
        if matches!(wait.phase, Phase::Resting) {
            wait.phase = Phase::Waiting;
            self.0.changed.notify_all();
        }
        let (mut wait, _) = self
            .0
            .changed
            .wait_timeout_while(wait, patience, |wait| !matches!(wait.phase, Phase::Answered(_)))
            .unwrap_or_else(PoisonError::into_inner);
        wait.is_wanted = false;
        match std::mem::take(&mut wait.phase) {
            Phase::Answered(answer) => Some(answer),
            unanswered => {
                wait.phase = unanswered;
                None
            }
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // A helper that waits for a lock cannot be interrupted. It ends when it gets the lock.
        self.0.wait().is_closed = true;
        self.0.changed.notify_all();
    }
}

/// The helper thread's side.
impl TurnstileState {
    /// Sleeps until the helper must queue. Returns false when the turnstile is closed.
    fn is_queued(&self) -> bool {
        let wait = self
            .changed
            .wait_while(self.wait(), |wait| !wait.is_closed && !matches!(wait.phase, Phase::Waiting))
            .unwrap_or_else(PoisonError::into_inner);
        !wait.is_closed
    }

    fn answer(&self, passed: io::Result<()>, locks: &Locks) {
        let mut wait = self.wait();
        if wait.is_wanted && !wait.is_closed {
            wait.phase = Phase::Answered(passed);
            self.changed.notify_all();
            return;
        }
        if passed.is_ok() {
            locks.leave();
        }
        wait.phase = Phase::Resting;
    }
}

/// The process that holds the lock on `file`, if the kernel shows it.
fn holder(file: &File) -> Option<u32> {
    let inode = file.metadata().ok()?.ino();
    holder_in(&fs::read_to_string("/proc/locks").ok()?, inode)
}

/// Finds the holder in the text of `/proc/locks`: `1: FLOCK  ADVISORY  WRITE 1234 fd:01:5678 0 EOF`.
fn holder_in(locks: &str, inode: u64) -> Option<u32> {
    locks.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        // A waiter's line has an arrow here.
        let is_held = fields.next() == Some("FLOCK");
        let pid = fields.nth(2)?.parse().ok()?;
        let found = fields.next()?.rsplit(':').next()?.parse() == Ok(inode);
        (is_held && found).then_some(pid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turnstile(dir: &tempfile::TempDir, patience: Duration) -> Turnstile {
        Turnstile::open(&Paths::new(dir.path()), patience).unwrap()
    }

    #[test]
    fn the_holder_is_found_among_locks_and_waiters() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fd:01:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 22 fd:01:78 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 33 fd:01:77 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 44 fd:01:77 0 EOF\n";
        assert_eq!(holder_in(locks, 77), Some(33));
        assert_eq!(holder_in(locks, 79), None);
    }

    #[test]
    fn who_waited_goes_before_who_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = turnstile(&dir, Duration::from_mins(1));
        let mut second = turnstile(&dir, Duration::from_mins(1));
        let permit = first.take().unwrap();
        let (sender, order) = std::sync::mpsc::sync_channel(2);
        let waiter = {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let permit = second.take().unwrap();
                sender.send("waited").unwrap();
                drop(permit);
            })
        };
        // The waiter is queued when it holds `queue`.
        let probe = files::open(&Paths::new(dir.path()).queue_lock).unwrap();
        while flock::is_free(&probe).unwrap() {
            std::thread::yield_now();
        }
        drop(permit);
        let permit = first.take().unwrap();
        sender.send("came back").unwrap();
        drop(permit);
        waiter.join().unwrap();
        assert_eq!([order.recv().unwrap(), order.recv().unwrap()], ["waited", "came back"]);
    }

    #[test]
    fn a_wait_without_end_says_who_is_in_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = turnstile(&dir, Duration::from_mins(1));
        let mut second = turnstile(&dir, Duration::from_millis(10));
        let permit = first.take().unwrap();
        let text = second.take().unwrap_err().to_string();
        assert!(text.contains(&format!("process {} has held", std::process::id())), "{text}");
        assert!(second.try_take().is_none());
        drop(permit);
        // On a busy machine its helper may need longer than its patience to take the free lock.
        while second.take().is_err() {}
        drop(first.take().unwrap());
    }

    #[test]
    fn a_permit_that_comes_too_late_is_passed_on() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = turnstile(&dir, Duration::from_mins(1));
        let mut second = turnstile(&dir, Duration::from_millis(10));
        let permit = first.take().unwrap();
        second.take().unwrap_err();
        drop(permit);
        for _ in 0..3 {
            drop(first.take().expect("no process keeps a permit that it does not use"));
        }
        drop(second);
        drop(first.take().unwrap());
    }

    #[test]
    fn looking_whether_it_is_free_does_not_line_up() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = turnstile(&dir, Duration::from_mins(1));
        let mut second = turnstile(&dir, Duration::from_mins(1));
        let permit = first.take().unwrap();
        assert!(second.try_take().is_none());
        drop(permit);
        drop(first.take().unwrap());
        assert!(second.try_take().is_some());
    }
}
