//! Creates the directories in which the host runs checks: workspaces without an agent, created again for each commit.
//! Everything that ran in one, a set-up included, executed a child's files, so it must not influence whether another
//! child's work passes.

use std::fs;
use std::path::PathBuf;

use super::publish::same_tree;
use super::{ObjectId, RepositoryError, RunSpace, disk};

/// The number after a parent's id that no child has.
const SCRATCH: &str = "0";
/// The directory beside the files for the changes of checks.
const APART: &str = "checks";
/// A scratch directory has no second attempt.
const ATTEMPT: u32 = 1;

/// A directory with the files of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scratch {
    /// Its name among the run's workspaces.
    pub agent: String,
    /// Always the same: a scratch directory has no second attempt.
    pub attempt: u32,
    /// The directory with the files.
    pub dir: PathBuf,
    /// A directory on the same disk for overlays with each check's changes.
    pub apart: PathBuf,
}

impl RunSpace {
    /// A scratch directory for merges into an agent's files, with exactly the files of a commit. Nothing has run in it.
    pub fn scratch(&self, agent: &str, commit: &ObjectId) -> Result<Scratch, RepositoryError> {
        let name = format!("{agent}.{SCRATCH}");
        self.discard_workspace(&name, ATTEMPT)?;
        self.lay_out_scratch(&name, commit)?.ok_or_else(|| {
            RepositoryError::Damaged(format!("the scratch directory of {agent} cannot be laid out"))
        })
    }

    fn lay_out_scratch(&self, name: &str, commit: &ObjectId) -> Result<Option<Scratch>, RepositoryError> {
        let made = self.make_files(name, ATTEMPT, commit)?;
        // A new workspace is at its work ref, which need not be this commit.
        let stands = if made.fresh { made.base } else { self.snapshot(name, ATTEMPT)?.commit };
        if stands != *commit && !self.update(name, ATTEMPT, &stands, commit)?.conflicts_left.is_empty() {
            return Ok(None);
        }
        let apart = self.attempt_dir(name, ATTEMPT).join(APART);
        Ok(Some(Scratch { agent: name.to_owned(), attempt: ATTEMPT, dir: self.dir_of(name, ATTEMPT), apart }))
    }

    /// Discards a workspace in which no agent has worked: a scratch directory, or one whose set-up failed.
    pub fn discard_workspace(&self, agent: &str, attempt: u32) -> Result<(), RepositoryError> {
        let dir = self.attempt_dir(agent, attempt);
        if fs::symlink_metadata(&dir).is_err() {
            return Ok(());
        }
        self.release(agent, attempt);
        let away = self.spaces.put_away(&dir)?;
        // Removed in the background, so that no call waits for the disk. The next cleaning removes the rest.
        std::thread::spawn(move || drop(disk::remove_tree(&away)));
        Ok(())
    }

    /// Resets the files of a new workspace to a commit and returns whether any differed. Ignored files stay.
    pub fn put_back(&self, agent: &str, attempt: u32, commit: &ObjectId) -> Result<bool, RepositoryError> {
        let now = self.snapshot(agent, attempt)?.commit;
        if now == *commit {
            return Ok(false);
        }
        self.update(agent, attempt, &now, commit)?;
        Ok(true)
    }

    /// Whether the name of a workspace is that of a scratch directory, which contains no work.
    pub(super) fn is_scratch(name: &str) -> bool {
        name.rsplit_once('.').is_some_and(|(_, number)| number == SCRATCH)
    }

    /// Whether two commits have the same files.
    pub fn same_files(&self, one: &ObjectId, other: &ObjectId) -> Result<bool, RepositoryError> {
        same_tree(&self.git(), one, other)
    }
}
