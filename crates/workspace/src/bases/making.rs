//! The right to lay out the files of a commit.
//!
//! It keeps two processes from doing the same work, and no more: a state is renamed into place under the lock on all
//! states, so a process that goes ahead without this right, because its holder was stopped, does no harm.

use std::path::PathBuf;

use super::super::layout_progress::{LaidOut, LayoutProgress};
use super::super::project::Project;
use super::super::{Lock, RepositoryError, disk};

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
    pub(super) fn wait(project: &Project, name: &str) -> Result<Self, RepositoryError> {
        let dir = project.dir().join(LOCKS);
        disk::make_dirs(&dir)?;
        let path = dir.join(name);
        let lock = Lock::wait_while_progressing(&path, LaidOut::read)?;
        Ok(Self { lock, path })
    }

    /// The right of this name, if no other process has it.
    pub(super) fn take(project: &Project, name: &str) -> Result<Option<Self>, RepositoryError> {
        let dir = project.dir().join(LOCKS);
        disk::make_dirs(&dir)?;
        let path = dir.join(name);
        let lock = Lock::take(&path)?;
        Ok(lock.map(|lock| Self { lock: Some(lock), path }))
    }

    /// Counts the files of a layout, for those who wait for any of these.
    pub(super) fn progress(held: &[&Self], total: usize) -> LayoutProgress {
        LayoutProgress::new(total, held.iter().filter_map(|held| held.lock.as_ref()?.file()))
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
