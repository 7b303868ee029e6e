//! Where the host runs checks: a workspace that no agent has, made anew for each commit. Whatever ran in it once, a set-up
//! included, ran what some child wrote, and has no say in whether another's work passes.

use std::fs;
use std::path::PathBuf;

use super::publish::same_tree;
use super::{Oid, RunSpace, WorkspaceError, disk};

/// The number after a parent's id that no child has.
const SCRATCH: &str = "0";
/// The directory beside its files for what checks change.
const APART: &str = "checks";
/// A scratch directory has no second attempt.
const ATTEMPT: u32 = 1;

/// A directory with the files of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scratch {
    /// The name it has among the run's workspaces.
    pub agent: String,
    /// Its attempt.
    pub attempt: u32,
    /// Where it is.
    pub dir: PathBuf,
    /// Where what each check changes can be kept apart from it, on the same disk.
    pub apart: PathBuf,
}

impl RunSpace {
    /// The scratch directory for what becomes of an agent's files, with exactly the files of a commit. Nothing has run
    /// in it.
    pub fn scratch(&self, agent: &str, commit: &Oid) -> Result<Scratch, WorkspaceError> {
        let name = format!("{agent}.{SCRATCH}");
        self.discard_workspace(&name, ATTEMPT)?;
        self.lay_out_scratch(&name, commit)?.ok_or_else(|| {
            WorkspaceError::Damaged(format!("the scratch directory of {agent} cannot be laid out"))
        })
    }

    fn lay_out_scratch(&self, name: &str, commit: &Oid) -> Result<Option<Scratch>, WorkspaceError> {
        let made = self.make(name, ATTEMPT, commit)?;
        // Made anew it is where its line stood, which need not be here.
        let stands = if made.fresh { made.base } else { self.snapshot(name, ATTEMPT)?.commit };
        if stands != *commit && !self.update(name, ATTEMPT, &stands, commit)?.kept.is_empty() {
            return Ok(None);
        }
        let apart = self.attempt_dir(name, ATTEMPT).join(APART);
        Ok(Some(Scratch { agent: name.to_owned(), attempt: ATTEMPT, dir: made.dir, apart }))
    }

    /// Throws a workspace away in which nobody has worked: a scratch directory, or one whose set-up failed.
    pub fn discard_workspace(&self, agent: &str, attempt: u32) -> Result<(), WorkspaceError> {
        let dir = self.attempt_dir(agent, attempt);
        if fs::symlink_metadata(&dir).is_err() {
            return Ok(());
        }
        let away = self.spaces.put_away(&dir)?;
        // Nobody waits for the disk; what is not gone when the process ends, the next cleaning removes.
        std::thread::spawn(move || drop(disk::remove_tree(&away)));
        Ok(())
    }

    /// Puts the files of a new workspace back to those of a commit; whether there was anything to put back. What git
    /// ignores stays.
    pub fn put_back(&self, agent: &str, attempt: u32, commit: &Oid) -> Result<bool, WorkspaceError> {
        let now = self.snapshot(agent, attempt)?.commit;
        if now == *commit {
            return Ok(false);
        }
        self.update(agent, attempt, &now, commit)?;
        Ok(true)
    }

    /// Whether a name among the run's workspaces is that of a scratch directory: nothing in it is anybody's work.
    pub(super) fn is_scratch(name: &str) -> bool {
        name.rsplit_once('.').is_some_and(|(_, number)| number == SCRATCH)
    }

    /// Whether two commits have the same files.
    pub fn same_files(&self, one: &Oid, other: &Oid) -> Result<bool, WorkspaceError> {
        same_tree(&self.git(), one, other)
    }
}
