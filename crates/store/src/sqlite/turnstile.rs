//! The writers' lock: who may write to the database now.
//!
//! 1. take `queue`, 2. take `main`, 3. free `queue`, 4. write, 5. free `main`.
//!
//! Whoever waits for `main` holds `queue`. So a process that freed `main` and comes back at once has to line up
//! behind the one that waits: it cannot barge in, however fast it is. Both locks die with their process.
//!
//! A blocking lock cannot be given up. So the wait is done by a helper thread, and the writer waits for the helper
//! with a limit: a process that was stopped while it held the lock makes commits fail with a reason instead of
//! hanging them for ever.
//!
//! Why it is like this: `docs/decisions/store-several-processes.md`.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posse_engine::ports::StoreError;

use super::error::from_io;
use super::paths::Paths;
use super::{files, flock};

/// How often the kernel's list of locks is read for the one who holds ours.
const HOLDER_LOOKS: usize = 20;

/// The two locks.
#[derive(Debug)]
struct Gates {
    queue: File,
    main: File,
}

impl Gates {
    /// Takes both locks if nobody is in the way. May keep `queue` when only `main` is taken: the helper goes on
    /// from there.
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

/// A place in the line of one store.
#[derive(Debug)]
pub(super) struct Turnstile {
    gates: Arc<Gates>,
    paths: Paths,
    patience: Duration,
    helper: Option<Helper>,
}

/// The right to write, until dropped.
#[derive(Debug)]
pub(super) struct Permit {
    gates: Arc<Gates>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gates.leave();
    }
}

impl Turnstile {
    /// Opens the lock files.
    pub(super) fn open(paths: &Paths, patience: Duration) -> Result<Self, StoreError> {
        let open = |path| files::open(path).map_err(|error| from_io(path, &error));
        let gates = Gates { queue: open(&paths.queue_lock)?, main: open(&paths.writers_lock)? };
        Ok(Self { gates: Arc::new(gates), paths: paths.clone(), patience, helper: None })
    }

    /// Waits for the right to write.
    pub(super) fn take(&mut self) -> Result<Permit, StoreError> {
        let fail = |error: io::Error| from_io(&self.paths.writers_lock, &error);
        // The helper's locks are ours too: nothing else may touch them while it waits.
        if !self.is_waiting() && self.gates.try_pass().map_err(fail)? {
            return Ok(self.permit());
        }
        let helper = self.helper.get_or_insert_with(|| Helper::start(self.gates.clone()));
        match helper.wait(self.patience) {
            Some(Ok(())) => Ok(self.permit()),
            Some(Err(error)) => Err(fail(error)),
            None => Err(self.held_too_long()),
        }
    }

    /// The right to write if nobody else has it or waits for it.
    pub(super) fn try_take(&mut self) -> Option<Permit> {
        if self.is_waiting() {
            return None;
        }
        let passed = self.gates.try_pass().unwrap_or(false);
        if !passed {
            // Not lining up: give back what was taken.
            let _ = flock::unlock(&self.gates.queue);
        }
        passed.then(|| self.permit())
    }

    fn permit(&self) -> Permit {
        Permit { gates: self.gates.clone() }
    }

    fn is_waiting(&self) -> bool {
        self.helper.as_ref().is_some_and(Helper::is_waiting)
    }

    fn held_too_long(&self) -> StoreError {
        let seconds = self.patience.as_secs_f32();
        // A list that changes while it is read may miss a line, and then this process seems to hold it: it waits in line.
        let found = (0..HOLDER_LOOKS).find_map(|_| holder(&self.gates.main));
        // One that was stopped in line holds only the first lock.
        let in_line = || holder(&self.gates.queue).filter(|pid| *pid != std::process::id());
        let holder = match found.or_else(in_line) {
            Some(pid) => format!("process {pid}"),
            None => "another process".to_owned(),
        };
        let path = self.paths.writers_lock.display();
        StoreError::Failed(format!("{holder} has held {path} for more than {seconds} s; it may be stopped"))
    }
}

/// The thread that waits.
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
    /// Whether the writer would use a permit. If it gave up, a permit that comes is passed on at once.
    is_wanted: bool,
    is_closed: bool,
}

#[derive(Debug, Default)]
enum Phase {
    /// The helper has nothing to do.
    #[default]
    Resting,
    /// It stands in line.
    Waiting,
    /// Its locks have answered.
    Answered(io::Result<()>),
}

impl TurnstileState {
    fn wait(&self) -> MutexGuard<'_, Wait> {
        self.wait.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Helper {
    fn start(gates: Arc<Gates>) -> Self {
        let shared = Arc::new(TurnstileState::default());
        let helper = Self(shared.clone());
        std::thread::spawn(move || {
            while shared.is_queued() {
                let passed = gates.pass();
                shared.answer(passed, &gates);
            }
        });
        helper
    }

    fn is_waiting(&self) -> bool {
        !matches!(self.0.wait().phase, Phase::Resting)
    }

    /// What the locks said; none if `patience` ran out. The helper goes on waiting, for whoever asks next.
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
        // A helper that stands in line cannot be called back. It ends when it gets through.
        self.0.wait().is_closed = true;
        self.0.changed.notify_all();
    }
}

/// The helper thread's side.
impl TurnstileState {
    /// Sleeps until there is a reason to line up; false once there never will be.
    fn is_queued(&self) -> bool {
        let wait = self
            .changed
            .wait_while(self.wait(), |wait| !wait.is_closed && !matches!(wait.phase, Phase::Waiting))
            .unwrap_or_else(PoisonError::into_inner);
        !wait.is_closed
    }

    fn answer(&self, passed: io::Result<()>, gates: &Gates) {
        let mut wait = self.wait();
        if wait.is_wanted && !wait.is_closed {
            wait.phase = Phase::Answered(passed);
            self.changed.notify_all();
            return;
        }
        if passed.is_ok() {
            gates.leave();
        }
        wait.phase = Phase::Resting;
    }
}

/// Who holds the lock on `file`, if the kernel says.
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
        // The waiter is in line once it holds `queue`.
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
        let StoreError::Failed(text) = second.take().unwrap_err() else { panic!("another error") };
        assert!(text.contains(&format!("process {} has held", std::process::id())), "{text}");
        assert!(second.try_take().is_none());
        drop(permit);
        drop(second.take().unwrap());
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
            drop(first.take().expect("nobody sits on a permit that it does not use"));
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
