//! The objects that an agent's git can read: what its snapshot reaches, and nothing else of the project.
//!
//! A project's repository has everything: stashes, branches, what was reset away, what earlier runs and other agents made.
//! An agent must not see that, so each workspace borrows from a directory of packs that hold exactly the objects which its
//! commit reaches. Such a directory is made once for each commit, when a program first needs it, out of what is there
//! already (hard links) and one pack of what is missing:
//!
//! ```text
//! <state>/projects/<key>/lent/<HEAD>/pack            the history of HEAD, kept from run to run
//! <state>/runs/<run>/objects/<boot>/<base>/pack      the same, and what the run began with beyond it
//! <state>/runs/<run>/objects/<boot>/<commit>/pack    the same, and what the commit has beyond that
//! ```
//!
//! Why it is like this: `docs/decisions/git-objects-of-an-agent.md`.

use std::fs;
use std::path::{Path, PathBuf};

use super::gc::entries_of;
use super::refs::check_id;
use super::{Git, Lock, Oid, RunSpace, WorkspaceError, disk};

/// Histories of a project that are kept: a person goes back and forth between a few branches.
const MAX_HISTORIES: usize = 8;
/// More packs than this make git slow; the next history is packed anew.
const MAX_PACKS: usize = 32;
/// Where those that are not known to have reached the disk are kept if the machine does not say which boot this is.
const UNKNOWN_BOOT: &str = "any";
const LENT: &str = "lent";
const PACK: &str = "pack";

impl RunSpace {
    /// The directory of the objects that the git of a workspace borrows; the sandbox shows it at
    /// [`BORROWED_OBJECTS`](super::BORROWED_OBJECTS).
    pub fn objects_of(&self, agent: &str, attempt: u32) -> Result<PathBuf, WorkspaceError> {
        check_id(agent)?;
        let mark = self.mark(agent, attempt)?.ok_or_else(|| {
            WorkspaceError::Damaged(format!("there is no complete workspace of {agent} (attempt {attempt})"))
        })?;
        self.reached_by(&mark.base()?)
    }

    /// The objects that a commit of this run reaches.
    fn reached_by(&self, commit: &Oid) -> Result<PathBuf, WorkspaceError> {
        let all = self.dir().join("objects");
        let boot = self.spaces.options.boot();
        let boot = boot.as_deref().filter(|boot| check_id(boot).is_ok()).unwrap_or(UNKNOWN_BOOT);
        let dir = all.join(boot).join(commit.to_string());
        if dir.is_dir() {
            return Ok(dir);
        }
        let base = self.base()?.commit;
        let head = self.record.head.as_ref().and_then(|head| head.parse::<Oid>().ok());
        // What it is made out of, and the commit that this has all of.
        let below = match head {
            _ if *commit != base => Some((self.reached_by(&base)?, base)),
            Some(head) => Some((self.history(&head)?, head)),
            None => None,
        };
        super::run::forget_others(&all, boot)?;
        disk::make_dirs(dir.parent().unwrap_or(&all))?;
        // Not synced: in another boot it is made anew.
        let git = self.git().with_settings(vec!["core.fsync=none".to_owned()]);
        ObjectLender { git: &git, into: &dir }
            .make(commit, below.as_ref().map(|(dir, commit)| (dir.as_path(), commit)))
    }

    /// The history of the commit that the person had checked out.
    fn history(&self, head: &Oid) -> Result<PathBuf, WorkspaceError> {
        let all = self.project.dir().join(LENT);
        let dir = all.join(head.to_string());
        if dir.is_dir() {
            return Ok(dir);
        }
        disk::make_dirs(&all)?;
        let _held = Lock::wait(&self.project.dir().join("lent.lock"))?;
        if dir.is_dir() {
            return Ok(dir);
        }
        let git = self.git();
        let known = known_histories(&all)?;
        let mut below = None;
        for (path, commit) in &known {
            if entries_of(&path.join(PACK))?.len() < MAX_PACKS && is_ancestor(&git, commit, head)? {
                below = Some((path.as_path(), commit));
                break;
            }
        }
        let made = ObjectLender { git: &git, into: &dir }.make(head, below)?;
        // Whoever uses one has links of its own.
        for (old, _) in known.iter().skip(MAX_HISTORIES - 1) {
            disk::remove_tree(old)?;
        }
        Ok(made)
    }
}

/// The histories that are there, the latest first. What is left of one that was not finished is removed.
fn known_histories(all: &Path) -> Result<Vec<(PathBuf, Oid)>, WorkspaceError> {
    let mut known = Vec::new();
    for path in entries_of(all)? {
        let name = path.file_name().unwrap_or_default();
        match name.to_str().and_then(|name| name.parse().ok()) {
            Some(oid) => {
                let made = fs::metadata(&path).and_then(|metadata| metadata.modified());
                known.push((made.map_err(disk::failed("looking at", &path))?, path, oid));
            }
            None if disk::maker_is_gone(name) => disk::remove_tree(&path)?,
            None => {}
        }
    }
    known.sort_by(|a, b| b.cmp(a));
    Ok(known.into_iter().map(|(_, path, oid)| (path, oid)).collect())
}

fn is_ancestor(git: &Git, old: &Oid, new: &Oid) -> Result<bool, WorkspaceError> {
    let args = ["merge-base", "--is-ancestor", &old.to_string(), &new.to_string()];
    // One that is not there any more is no ancestor.
    Ok(git.ask(&args, &[])?.code == Some(0))
}

/// A directory of objects that is being made.
struct ObjectLender<'a> {
    git: &'a Git,
    into: &'a Path,
}

impl ObjectLender<'_> {
    /// Makes it whole or not at all: what `commit` reaches. `below` has what another commit reaches, which this one does too.
    fn make(&self, commit: &Oid, below: Option<(&Path, &Oid)>) -> Result<PathBuf, WorkspaceError> {
        let making = disk::temporary(self.into);
        let made = self.fill(&making.join(PACK), commit, below);
        let made = made.and_then(|()| match fs::rename(&making, self.into) {
            Ok(()) => self.into.parent().map_or(Ok(()), disk::sync_dir),
            // Another thread was faster.
            Err(_) if self.into.is_dir() => disk::remove_tree(&making),
            Err(error) => Err(WorkspaceError::io("making", self.into, &error)),
        });
        if made.is_err() {
            // It is only the half of something; what went wrong is told.
            drop(disk::remove_tree(&making));
        }
        made.map(|()| self.into.to_owned())
    }

    fn fill(&self, packs: &Path, commit: &Oid, below: Option<(&Path, &Oid)>) -> Result<(), WorkspaceError> {
        fs::create_dir_all(packs).map_err(disk::failed("making", packs))?;
        let mut wanted = format!("{commit}\n");
        if let Some((dir, known)) = below {
            for file in entries_of(&dir.join(PACK))? {
                let link = packs.join(file.file_name().unwrap_or_default());
                fs::hard_link(&file, &link).map_err(disk::failed("linking", &link))?;
            }
            if known == commit {
                return Ok(());
            }
            wanted.extend(["^", &known.to_string(), "\n"]);
        }
        let name = packs.join(PACK);
        let args: Vec<&std::ffi::OsStr> =
            PACKING.iter().map(std::ffi::OsStr::new).chain([name.as_os_str()]).collect();
        self.git.run_with(&args, wanted.as_bytes())?;
        disk::sync_dir(packs)
    }
}

/// Packs what commits reach. Nothing is compressed anew that is compressed already, and what a clone left out is left out.
const PACKING: &[&str] = &[
    "pack-objects",
    "--revs",
    "--window=0",
    "--delta-base-offset",
    "--missing=allow-any",
    "--non-empty",
    "-q",
];
