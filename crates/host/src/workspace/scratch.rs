//! Where the host runs checks: a workspace that no agent has, kept from one check to the next so that a build is warm.

use std::fs;
use std::path::PathBuf;

use super::deliver::same_tree;
use super::{Oid, RunSpace, WorkspaceError, disk};

/// The number after a parent's id that no child has.
const SCRATCH: &str = "0";
/// The file beside its files that says that everything that ran in it passed.
const KEPT: &str = "kept";
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
    /// Whether nothing has run in it.
    pub fresh: bool,
}

impl RunSpace {
    /// The scratch directory for what becomes of an agent's files, with exactly the files of a commit beside what
    /// earlier checks left there and git ignores. It is kept only from checks that passed, so that nothing of a child
    /// whose work was refused has a say in whether another's passes: say so with [`keep_scratch`](Self::keep_scratch).
    pub fn scratch(&self, agent: &str, commit: &Oid) -> Result<Scratch, WorkspaceError> {
        let name = format!("{agent}.{SCRATCH}");
        let mark = self.attempt_dir(&name, ATTEMPT).join(KEPT);
        let kept = disk::read_if_there(&mark)?.is_some();
        if kept {
            fs::remove_file(&mark).map_err(disk::failed("removing", &mark))?;
        } else {
            self.discard_workspace(&name, ATTEMPT)?;
        }
        if let Some(scratch) = self.lay_out_scratch(&name, commit)? {
            return Ok(scratch);
        }
        // Something was in the way of a file, which only an ignored one can be: then nothing of it stays.
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
        Ok(Some(Scratch { agent: name.to_owned(), attempt: ATTEMPT, dir: made.dir, fresh: made.fresh }))
    }

    /// Keeps a scratch directory for the next check: what ran in it passed.
    pub fn keep_scratch(&self, scratch: &Scratch) -> Result<(), WorkspaceError> {
        let mark = self.attempt_dir(&scratch.agent, scratch.attempt).join(KEPT);
        fs::write(&mark, b"").map_err(disk::failed("writing", &mark))
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
