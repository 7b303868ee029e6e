//! Where the host runs checks: a workspace that no agent has, kept from one check to the next so that a build is warm.

use std::path::PathBuf;

use super::deliver::same_tree;
use super::{Oid, RunSpace, WorkspaceError};

/// The number after a parent's id that no child has.
const SCRATCH: &str = "0";
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
    /// The scratch directory for what becomes of an agent's files, with the files of a commit. What checks left there
    /// and git ignores stays, the rest is put right.
    pub fn scratch(&self, agent: &str, commit: &Oid) -> Result<Scratch, WorkspaceError> {
        let name = format!("{agent}.{SCRATCH}");
        let made = self.make(&name, ATTEMPT, commit)?;
        // Made anew it is where its line stood, which need not be here.
        let stands = if made.fresh { made.base } else { self.snapshot(&name, ATTEMPT)?.commit };
        if stands != *commit {
            self.update(&name, ATTEMPT, &stands, commit)?;
        }
        Ok(Scratch { agent: name, attempt: ATTEMPT, dir: made.dir, fresh: made.fresh })
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
