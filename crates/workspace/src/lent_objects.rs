//! Provides the objects that an agent's git can read: those that its snapshot reaches, and no others of the project.
//!
//! A project's repository has everything: stashes, branches, commits that were reset away, and the work of earlier runs
//! and other agents. An agent must not see that. So each workspace borrows from a directory of packs with exactly the
//! objects that its commit reaches. The directory is created once per commit, when a program first needs it, from
//! existing packs (hard links) and one pack of the missing objects:
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
use super::sync::UNKNOWN_BOOT;
use super::{Git, Lock, ObjectId, RepositoryError, RunSpace, disk};

/// How many histories of a project are kept: users switch between a few branches.
const MAX_HISTORIES: usize = 8;
/// More packs than this make git slow, so the next history is repacked.
const MAX_PACKS: usize = 32;
const LENT: &str = "lent";
const PACK: &str = "pack";

impl RunSpace {
    /// The directory of the objects that the git of a workspace borrows. The sandbox mounts it at
    /// [`BORROWED_OBJECTS`](super::BORROWED_OBJECTS).
    pub fn objects_of(&self, agent: &str, attempt: u32) -> Result<PathBuf, RepositoryError> {
        check_id(agent)?;
        let mark = self.mark(agent, attempt)?.ok_or_else(|| {
            RepositoryError::Damaged(format!("there is no complete workspace of {agent} (attempt {attempt})"))
        })?;
        self.reached_by(&mark.base()?)
    }

    /// The directory of the objects that a commit of this run reaches.
    fn reached_by(&self, commit: &ObjectId) -> Result<PathBuf, RepositoryError> {
        let all = self.dir().join("objects");
        let boot = self.spaces.options.boot();
        let boot = boot.as_deref().filter(|boot| check_id(boot).is_ok()).unwrap_or(UNKNOWN_BOOT);
        let dir = all.join(boot).join(commit.to_string());
        if dir.is_dir() {
            return Ok(dir);
        }
        let base = self.base()?.commit;
        let head = self.record.head.as_ref().and_then(|head| head.parse::<ObjectId>().ok());
        // The directory to build on, and the commit whose objects it has.
        let below = match head {
            _ if *commit != base => Some((self.reached_by(&base)?, base)),
            Some(head) => Some((self.history(&head)?, head)),
            None => None,
        };
        super::run::forget_others(&all, boot)?;
        disk::make_dirs(dir.parent().unwrap_or(&all))?;
        // Not synced: in another boot it is created again.
        let git = self.git().with_settings(vec!["core.fsync=none".to_owned()]);
        ObjectLender { git: &git, into: &dir }
            .make(commit, below.as_ref().map(|(dir, commit)| (dir.as_path(), commit)))
    }

    /// The history of the commit that the user had checked out.
    fn history(&self, head: &ObjectId) -> Result<PathBuf, RepositoryError> {
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
        // Safe to remove: each directory that builds on a history has its own hard links.
        for (old, _) in known.iter().skip(MAX_HISTORIES - 1) {
            disk::remove_tree(old)?;
        }
        Ok(made)
    }
}

/// The existing histories, the latest first. Unfinished ones are removed.
fn known_histories(all: &Path) -> Result<Vec<(PathBuf, ObjectId)>, RepositoryError> {
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

fn is_ancestor(git: &Git, old: &ObjectId, new: &ObjectId) -> Result<bool, RepositoryError> {
    let args = ["merge-base", "--is-ancestor", &old.to_string(), &new.to_string()];
    // A commit that no longer exists is not an ancestor.
    Ok(git.ask(&args, &[])?.code == Some(0))
}

/// Builds one directory of objects.
struct ObjectLender<'a> {
    git: &'a Git,
    into: &'a Path,
}

impl ObjectLender<'_> {
    /// Creates the directory of the objects that `commit` reaches, atomically. `below` has the objects of an ancestor
    /// commit.
    fn make(&self, commit: &ObjectId, below: Option<(&Path, &ObjectId)>) -> Result<PathBuf, RepositoryError> {
        let making = disk::temporary(self.into);
        let made = self.fill(&making.join(PACK), commit, below);
        let made = made.and_then(|()| match fs::rename(&making, self.into) {
            Ok(()) => self.into.parent().map_or(Ok(()), disk::sync_dir),
            // Another thread was faster.
            Err(_) if self.into.is_dir() => disk::remove_tree(&making),
            Err(error) => Err(RepositoryError::io("making", self.into, &error)),
        });
        if made.is_err() {
            // The directory is incomplete. The original error is returned.
            drop(disk::remove_tree(&making));
        }
        made.map(|()| self.into.to_owned())
    }

    fn fill(
        &self,
        packs: &Path,
        commit: &ObjectId,
        below: Option<(&Path, &ObjectId)>,
    ) -> Result<(), RepositoryError> {
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

/// Packs the objects that commits reach. Reuses compressed data, and skips objects that a partial clone does not have.
const PACKING: &[&str] = &[
    "pack-objects",
    "--revs",
    "--window=0",
    "--delta-base-offset",
    "--missing=allow-any",
    "--non-empty",
    "-q",
];
