//! Provides the objects that an agent's git can read: those that its snapshot reaches, and no others of the project.
//!
//! A project's repository has everything: stashes, branches, commits that were reset away, and the work of earlier runs
//! and other agents. An agent must not see that. So each workspace borrows from a directory of packs with exactly the
//! objects that its commit reaches. The directory is created once per commit, when a program first needs it, from
//! existing packs (hard links) and one pack of the missing objects:
//!
//! ```text
//! <state>/projects/<key>/lent/<HEAD>/pack            the history of HEAD, kept from run to run
//! <state>/projects/<key>/lent-files/<tree>/pack      the same, and the files of a folder that differs from HEAD
//! <state>/projects/<key>/lent-large/<file>/pack      one large file of such a folder
//! <state>/runs/<run>/objects/<boot>/<base>/pack      the same, and what the run began with beyond it
//! <state>/runs/<run>/objects/<boot>/<commit>/pack    the same, and what the commit has beyond that
//! ```
//!
//! Why it is like this: `docs/decisions/git-objects-of-an-agent.md`.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::change::unreadable;
use super::gc::entries_of;
use super::refs::check_id;
use super::sync::UNKNOWN_BOOT;
use super::{Git, Lock, ObjectId, RepositoryError, RunSpace, disk, objects};

/// How many histories of a project are kept: users switch between a few branches.
const MAX_HISTORIES: usize = 8;
/// More packs than this make git slow, so the next history is repacked.
const MAX_PACKS: usize = 32;
/// How many states of a folder that differ from HEAD are kept. The last one is used again if the folder is unchanged.
const MAX_FOLDERS: usize = 2;
/// A file that is not in HEAD and larger than this has a pack of its own, which the next state of the folder links.
const LARGE_FILE: &str = "blob:limit=16m";
/// How often a directory of objects is begun, in case the one that it builds on is removed.
const LENDING_TRIES_MAX: usize = 5;
const LENT: &str = "lent";
const LENT_FILES: &str = "lent-files";
const LENT_LARGE: &str = "lent-large";
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

    /// The directory of the objects that a commit of this run reaches. Another process may remove the directory that it
    /// builds on before all of its packs are linked, because the project has newer ones; then it begins again.
    fn reached_by(&self, commit: &ObjectId) -> Result<PathBuf, RepositoryError> {
        let mut tries = 1;
        loop {
            match self.try_reached_by(commit) {
                Err(RepositoryError::Vanished(_)) if tries < LENDING_TRIES_MAX => tries += 1,
                made => return made,
            }
        }
    }

    fn try_reached_by(&self, commit: &ObjectId) -> Result<PathBuf, RepositoryError> {
        let all = self.dir().join("objects");
        let boot = self.spaces.options.boot();
        let boot = boot.as_deref().filter(|boot| check_id(boot).is_ok()).unwrap_or(UNKNOWN_BOOT);
        let dir = all.join(boot).join(commit.to_string());
        if dir.is_dir() {
            return Ok(dir);
        }
        let base = self.base()?.commit;
        let head = self.record.head.as_ref().and_then(|head| head.parse::<ObjectId>().ok());
        // The directory to build on, and what it lacks.
        let (below, missing) = match head {
            _ if *commit != base => {
                (self.reached_by(&base)?, MissingObjects::Reached { from: *commit, but_not: vec![base] })
            }
            Some(head) if head == base => (self.history(&head)?, MissingObjects::Nothing),
            head => (self.folder_objects(head.as_ref())?, MissingObjects::Only(base)),
        };
        super::run::forget_others(&all, boot)?;
        disk::make_dirs(dir.parent().unwrap_or(&all))?;
        // Not synced: in another boot it is created again.
        let git = self.git().with_settings(vec!["core.fsync=none".to_owned()]);
        ObjectLender { git: &git, into: &dir }.make(&missing, &[&below])
    }

    /// The files that the run began with, if they are not those of HEAD, and the history of HEAD. The commit of the files
    /// is another one in each run, but an unchanged folder has the same tree: its files are packed once.
    fn folder_objects(&self, head: Option<&ObjectId>) -> Result<PathBuf, RepositoryError> {
        let tree = self.base()?.tree;
        let all = self.project.dir().join(LENT_FILES);
        let dir = all.join(head.map_or_else(|| tree.to_string(), |head| format!("{tree}-{head}")));
        if dir.is_dir() {
            mark_used(&dir);
            return Ok(dir);
        }
        let below = head.map(|head| self.history(head)).transpose()?;
        disk::make_dirs(&all)?;
        let _held = Lock::wait(&self.project.dir().join("lent.lock"))?;
        if dir.is_dir() {
            return Ok(dir);
        }
        let git = self.git();
        let but_not = head.map(|head| objects::tree_of(&git, head)).transpose()?;
        let large = self.large_files(&git, &tree, but_not.as_ref())?;
        let below: Vec<&Path> =
            below.iter().chain(large.iter().map(|(_, pack)| pack)).map(PathBuf::as_path).collect();
        let but_not = but_not.into_iter().chain(large.iter().map(|(oid, _)| *oid)).collect();
        let made = ObjectLender { git: &git, into: &dir }
            .make(&MissingObjects::Reached { from: tree, but_not }, &below)?;
        let mut known = Vec::new();
        for path in entries_of(&all)? {
            if disk::is_temporary(path.file_name().unwrap_or_default()) {
                continue;
            }
            let used = fs::metadata(&path).and_then(|metadata| metadata.modified());
            known.push((used.map_err(disk::failed("looking at", &path))?, path));
        }
        known.sort();
        known.reverse();
        // Safe to remove: each run that uses one has hard links of its own.
        for (_, old) in known.iter().skip(MAX_FOLDERS).filter(|(_, old)| *old != made) {
            remove_at_once(old)?;
        }
        for path in entries_of(&all)? {
            if disk::maker_is_gone(path.file_name().unwrap_or_default()) {
                disk::remove_tree(&path)?;
            }
        }
        self.forget_large_files()?;
        Ok(made)
    }

    /// Packs each large file that a folder has and HEAD has not, unless it is packed already. The caller has the lock.
    fn large_files(
        &self,
        git: &Git,
        tree: &ObjectId,
        but_not: Option<&ObjectId>,
    ) -> Result<Vec<(ObjectId, PathBuf)>, RepositoryError> {
        let filter = format!("--filter={LARGE_FILE}");
        let args =
            ["rev-list", "--objects", "--missing=allow-any", &filter, "--filter-print-omitted", "--stdin"];
        let wanted = format!("{tree}\n{}", but_not.map_or_else(String::new, |tree| format!("^{tree}\n")));
        let listed = git.run_with(&args, wanted.as_bytes())?;
        let mut large = Vec::new();
        for line in listed.split(|byte| *byte == b'\n') {
            // The others are listed without the sign.
            let Some(name) = line.strip_prefix(b"~").and_then(|name| std::str::from_utf8(name).ok()) else {
                continue;
            };
            let oid: ObjectId = name.parse().map_err(|_| unreadable("rev-list"))?;
            let dir = self.project.dir().join(LENT_LARGE).join(name);
            if !dir.is_dir() {
                disk::make_dirs(&self.project.dir().join(LENT_LARGE))?;
                ObjectLender { git, into: &dir }.make(&MissingObjects::Only(oid), &[])?;
            }
            large.push((oid, dir));
        }
        Ok(large)
    }

    /// Removes packs of large files that no state of the folder and no run links, and unfinished ones. The caller has the lock.
    fn forget_large_files(&self) -> Result<(), RepositoryError> {
        for dir in entries_of(&self.project.dir().join(LENT_LARGE))? {
            if disk::is_temporary(dir.file_name().unwrap_or_default()) {
                if disk::maker_is_gone(dir.file_name().unwrap_or_default()) {
                    disk::remove_tree(&dir)?;
                }
                continue;
            }
            let is_linked = |file: &PathBuf| fs::metadata(file).is_ok_and(|file| file.nlink() > 1);
            if !entries_of(&dir.join(PACK))?.iter().any(is_linked) {
                remove_at_once(&dir)?;
            }
        }
        Ok(())
    }

    /// The history of the commit that the user had checked out.
    fn history(&self, head: &ObjectId) -> Result<PathBuf, RepositoryError> {
        let all = self.project.dir().join(LENT);
        let dir = all.join(head.to_string());
        if dir.is_dir() {
            mark_used(&dir);
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
        let but_not = below.iter().map(|(_, commit)| **commit).collect();
        let below: Vec<&Path> = below.iter().map(|(dir, _)| *dir).collect();
        let made = ObjectLender { git: &git, into: &dir }
            .make(&MissingObjects::Reached { from: *head, but_not }, &below)?;
        // Safe to remove: each directory that builds on a history has its own hard links.
        for (old, _) in known.iter().skip(MAX_HISTORIES - 1) {
            remove_at_once(old)?;
        }
        Ok(made)
    }
}

/// Removes a directory of objects so that another process finds all of it or nothing. What a crash leaves is removed with
/// the unfinished ones.
fn remove_at_once(dir: &Path) -> Result<(), RepositoryError> {
    let away = disk::temporary(dir);
    fs::rename(dir, &away).map_err(disk::failed("removing", dir))?;
    disk::remove_tree(&away)
}

/// Sets the time of a directory of objects. Those that were not used for the longest time are removed; if the time cannot
/// be set, this one is removed sooner.
fn mark_used(dir: &Path) {
    let _ = fs::File::open(dir).and_then(|dir| dir.set_modified(std::time::SystemTime::now()));
}

/// The existing histories, the last used first. Unfinished ones are removed.
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
    /// Creates the directory with the objects of those in `below` and what they lack, atomically.
    fn make(&self, missing: &MissingObjects, below: &[&Path]) -> Result<PathBuf, RepositoryError> {
        let making = disk::temporary(self.into);
        let made = self.fill(&making, missing, below);
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

    fn fill(&self, making: &Path, missing: &MissingObjects, below: &[&Path]) -> Result<(), RepositoryError> {
        let packs = &making.join(PACK);
        fs::create_dir_all(packs).map_err(disk::failed("making", packs))?;
        for below in below {
            link_all(&below.join(PACK), packs)?;
        }
        let (how, wanted) = match missing {
            MissingObjects::Nothing => return Ok(()),
            MissingObjects::Only(oid) => (None, format!("{oid}\n")),
            MissingObjects::Reached { from, but_not } if but_not.contains(from) => return Ok(()),
            MissingObjects::Reached { from, but_not } => {
                let mut wanted = format!("{from}\n");
                for known in but_not {
                    wanted.extend(["^", &known.to_string(), "\n"]);
                }
                (Some(REACHED), wanted)
            }
        };
        let name = packs.join(PACK);
        let options = PACKING.iter().copied().chain(how).map(std::ffi::OsStr::new);
        let args: Vec<&std::ffi::OsStr> = options.chain([name.as_os_str()]).collect();
        self.git.clone().packing_in(making).run_with(&args, wanted.as_bytes())?;
        disk::sync_dir(packs)
    }
}

/// Links all packs of a directory, which may be removed meanwhile.
fn link_all(from: &Path, into: &Path) -> Result<(), RepositoryError> {
    let files = entries_of(from)?;
    // Each directory has packs, so this one is gone.
    if files.is_empty() && !from.is_dir() {
        return Err(RepositoryError::Vanished(from.to_owned()));
    }
    for file in files {
        let link = into.join(file.file_name().unwrap_or_default());
        let linked = fs::hard_link(&file, &link).or_else(|error| match error.kind() {
            // The file has as many links as the filesystem allows, or the filesystem has none.
            ErrorKind::TooManyLinks | ErrorKind::PermissionDenied | ErrorKind::Unsupported => {
                fs::copy(&file, &link).map(drop)
            }
            _ => Err(error),
        });
        linked.map_err(|error| match error.kind() {
            ErrorKind::NotFound => RepositoryError::Vanished(from.to_owned()),
            _ => RepositoryError::io("linking", &link, &error),
        })?;
    }
    Ok(())
}

/// The objects that a directory needs beside those of the one that it builds on.
enum MissingObjects {
    Nothing,
    Only(ObjectId),
    /// What a commit or a tree reaches, but not what others of the same kind do, and not these files.
    Reached {
        from: ObjectId,
        but_not: Vec<ObjectId>,
    },
}

/// Packs what the given objects reach, instead of these objects alone.
const REACHED: &str = "--revs";
/// Packs objects. Reuses compressed data, and skips objects that a partial clone does not have.
const PACKING: &[&str] =
    &["pack-objects", "--window=0", "--delta-base-offset", "--missing=allow-any", "--non-empty", "-q"];
