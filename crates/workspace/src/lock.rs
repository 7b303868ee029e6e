//! File locks between threads and between processes, for repositories and runs.
//!
//! Threads of one process wait for each other without the kernel. A lock that another process holds is polled until a
//! timeout. A blocking wait could not be cancelled, and a process that was stopped while it held the lock would
//! silently block every other one forever.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::RepositoryError;
use super::disk::{FILE_MODE, failed};

/// The first pause between two polls. Each pause is twice the one before.
const PAUSE_FIRST: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(16);
/// How long another process may hold a lock. Operations under a lock take seconds on a slow disk.
const PATIENCE: Duration = Duration::from_mins(2);

/// The locks that threads of this process hold or wait for, with their number. Keyed by path: two names of one file
/// only cause a few more polls.
static GATES: Mutex<BTreeMap<PathBuf, (Arc<Gate>, usize)>> = Mutex::new(BTreeMap::new());

/// The part of a lock that threads of this process wait on.
#[derive(Debug, Default)]
struct Gate {
    is_taken: Mutex<bool>,
    freed: Condvar,
}

/// A lock between processes and threads, held until it is dropped.
#[derive(Debug)]
pub struct Lock {
    file: Option<File>,
    gate: Arc<Gate>,
    path: PathBuf,
}

impl Lock {
    /// Waits for the lock on the file at `path`.
    pub(crate) fn wait(path: &Path) -> Result<Self, RepositoryError> {
        Self::wait_for(path, PATIENCE)
    }

    /// The lock on the file at `path`, if no other process has it.
    pub(crate) fn take(path: &Path) -> Result<Option<Self>, RepositoryError> {
        Self::wait_until_idle(path, Duration::ZERO, |_| ())
    }

    fn wait_for(path: &Path, patience: Duration) -> Result<Self, RepositoryError> {
        let held = || RepositoryError::Held { path: path.to_owned(), seconds: patience.as_secs() };
        Self::wait_until_idle(path, patience, |_| ())?.ok_or_else(held)
    }

    /// Waits for the lock on the file at `path` as long as its holder progresses, which is when `progress`, a function of
    /// the file, returns another value than before. `None` if the holder did not progress for too long: it may have been
    /// stopped.
    pub(crate) fn wait_while_progressing<P: PartialEq>(
        path: &Path,
        progress: impl FnMut(&File) -> P,
    ) -> Result<Option<Self>, RepositoryError> {
        Self::wait_until_idle(path, PATIENCE, progress)
    }

    fn wait_until_idle<P: PartialEq>(
        path: &Path,
        patience: Duration,
        mut progress: impl FnMut(&File) -> P,
    ) -> Result<Option<Self>, RepositoryError> {
        let mut lock = Self { file: None, gate: Gate::enter(path), path: path.to_owned() };
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE).open(path);
        let file = file.map_err(failed("opening", path))?;
        let (mut since, mut pause, mut last) = (Instant::now(), PAUSE_FIRST, None);
        while !try_lock(&file).map_err(|error| RepositoryError::io("locking", path, &error.into()))? {
            let now = Some(progress(&file));
            if now != last {
                (last, since) = (now, Instant::now());
            } else if since.elapsed() >= patience {
                return Ok(None);
            }
            std::thread::park_timeout(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
        lock.file = Some(file);
        Ok(Some(lock))
    }

    /// The file, for its holder.
    pub(crate) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Released before the next thread enters, which would otherwise have to poll it.
        drop(self.file.take());
        self.gate.leave();
        let mut gates = gates();
        if let Some((_, users)) = gates.get_mut(&self.path) {
            *users -= 1;
            if *users == 0 {
                gates.remove(&self.path);
            }
        }
    }
}

fn try_lock(file: &File) -> Result<bool, Errno> {
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

fn gates() -> MutexGuard<'static, BTreeMap<PathBuf, (Arc<Gate>, usize)>> {
    GATES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gate {
    /// Waits until no other thread has the lock.
    fn enter(path: &Path) -> Arc<Self> {
        let gate = {
            let mut gates = gates();
            let (gate, users) = gates.entry(path.to_owned()).or_default();
            *users += 1;
            gate.clone()
        };
        let is_taken = gate.is_taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_taken =
            gate.freed.wait_while(is_taken, |is_taken| *is_taken).unwrap_or_else(PoisonError::into_inner);
        *is_taken = true;
        drop(is_taken);
        gate
    }

    fn leave(&self) {
        *self.is_taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn one_thread_at_a_time_has_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("lock");
        let inside = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let lock = Lock::wait(&path).expect("a lock");
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(lock);
                    }
                });
            }
        });
        assert!(!gates().contains_key(&path), "nobody waits, and nothing is kept");
    }

    #[test]
    fn who_holds_it_for_too_long_is_not_waited_for_in_silence() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("lock");
        // Another open file description acts like another process.
        let other = File::create(&path).expect("a file");
        flock(&other, FlockOperation::LockExclusive).expect("locked");
        let error = Lock::wait_for(&path, Duration::from_millis(20)).expect_err("held");
        assert!(error.to_string().contains("another process has locked"), "{error}");
        flock(&other, FlockOperation::Unlock).expect("freed");
        drop(Lock::wait_for(&path, Duration::ZERO).expect("free"));
        assert!(!gates().contains_key(&path));
    }

    #[test]
    fn who_progresses_is_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("lock");
        let other = File::create(&path).expect("a file");
        flock(&other, FlockOperation::LockExclusive).expect("locked");
        let mut looks = 0;
        // Without patience, one look without progress is the end.
        let lock = Lock::wait_until_idle(&path, Duration::ZERO, |_| {
            looks += 1;
            if looks == 5 {
                flock(&other, FlockOperation::Unlock).expect("freed");
            }
            looks
        });
        assert!(lock.expect("no error").is_some() && looks == 5);
        flock(&other, FlockOperation::LockExclusive).expect("locked");
        let idle = Lock::wait_until_idle(&path, Duration::ZERO, |_| ()).expect("no error");
        assert!(idle.is_none());
    }
}
