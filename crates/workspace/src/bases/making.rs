//! The right to lay out the files of a commit.
//!
//! It keeps two processes from doing the same work, and no more: a state is renamed into place under the lock on all
//! states, so a process that goes ahead without this right, because its holder was stopped, does no harm.

use std::path::PathBuf;

use posse_engine::ports::FilesOperation;

use super::super::files_progress::{FilesCounter, FilesDone, OperationReports};
use super::super::{Lock, RepositoryError, RunSpace, disk};

/// The directory of the locks beneath that of a project.
const LOCKS: &str = "bases.locks";

/// The right to lay out a commit. Its file says how far the layout is.
pub(super) struct MakingLock {
    /// `None` if its holder did not progress for too long.
    lock: Option<Lock>,
    path: PathBuf,
}

impl MakingLock {
    /// Waits until no other process or thread has the right of this name, as long as that one progresses.
    pub(super) fn wait(space: &RunSpace, name: &str) -> Result<Self, RepositoryError> {
        let dir = space.project.dir().join(LOCKS);
        disk::make_dirs(&dir)?;
        let path = dir.join(name);
        let mut reports = space.spaces.progress.of(&space.run, FilesOperation::LayOut);
        let mut reported = None;
        let lock = Lock::wait_while_progressing(&path, |file| {
            let now = FilesDone::read(file);
            if let Some(laid_out) = now.filter(|_| now != reported) {
                reports.report(laid_out);
                reported = now;
            }
            now
        })?;
        Ok(Self { lock, path })
    }

    /// The right of this name, if no other process has it.
    pub(super) fn take(space: &RunSpace, name: &str) -> Result<Option<Self>, RepositoryError> {
        let dir = space.project.dir().join(LOCKS);
        disk::make_dirs(&dir)?;
        let path = dir.join(name);
        let lock = Lock::take(&path)?;
        Ok(lock.map(|lock| Self { lock: Some(lock), path }))
    }

    /// Counts the files of a layout, for those who wait for any of these.
    pub(super) fn counter(held: &[&Self], reports: Option<OperationReports>, total: usize) -> FilesCounter {
        FilesCounter::new(total, reports, held.iter().filter_map(|held| held.lock.as_ref()?.file()))
    }
}

impl Drop for MakingLock {
    fn drop(&mut self) {
        if self.lock.is_some() {
            // Who waits for the removed file and who makes a new one may both lay the commit out, if it is not there by
            // then.
            drop(std::fs::remove_file(&self.path));
        }
    }
}
