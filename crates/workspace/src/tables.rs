//! Reads and writes refs in the `reftable` format, which only git understands: git works on a copy of the tables.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::Path;

use super::change::unreadable;
use super::git_dir::{GitDir, PACKED_REFS_MAX_BYTES};
use super::project::Project;
use super::shadow::Shadow;
use super::unnamed_file::FileLifetime;
use super::user_refs::{Branch, locked};
use super::user_repository::{UserRepository, broken};
use super::{Git, ObjectId, RepositoryError, disk};

/// Limit of files of a reftable that are read. Git keeps a handful.
const MAX_TABLES: usize = 256;
/// Names the current tables, one per line.
const LIST: &str = "tables.list";
/// A change of the list creates this file and renames it to the list.
const LIST_LOCK: &str = "tables.list.lock";
/// How often a branch is tried after a conflict with another process's change.
const TRIES_MAX: usize = 5;

/// A copy of a user's tables, and their original directory.
pub(super) struct Tables {
    shadow: Shadow,
    theirs: GitDir,
}

impl Tables {
    pub(super) fn of(
        user_repository: &UserRepository,
        folder: &Path,
        project: &Project,
        program: &Path,
    ) -> Result<Self, RepositoryError> {
        // A worktree has its HEAD in separate tables. Only those of the main one are read.
        if user_repository.git_dir.path() != user_repository.common.path() {
            return Err(broken(folder, "worktrees of repositories with reftable are not supported"));
        }
        let theirs =
            user_repository.common.dir("reftable")?.ok_or_else(|| broken(folder, "its reftable is gone"))?;
        let extensions = "[extensions]\nrefStorage = reftable\n";
        let shadow = Shadow::new(program, project.dir(), &project.repository().join("objects"), extensions)?;
        shadow.put("HEAD", b"ref: refs/heads/.invalid\n")?;
        let tables = Self { shadow, theirs };
        tables.copy(folder)?;
        Ok(tables)
    }

    fn copy(&self, folder: &Path) -> Result<(), RepositoryError> {
        let entries = self.theirs.entries()?;
        if entries.len() > MAX_TABLES {
            return Err(broken(folder, &format!("its reftable has more than {MAX_TABLES} files")));
        }
        for (name, _) in &entries {
            let Some(name) = name.to_str().filter(|name| *name != LIST_LOCK) else { continue };
            let content = self.theirs.read(name, PACKED_REFS_MAX_BYTES)?.unwrap_or_default();
            self.shadow.put(&format!("reftable/{name}"), &content)?;
        }
        // Git would open any path that the list names.
        let strange = names_in(&self.list_in_copy()?)
            .into_iter()
            .find(|listed| entries.iter().all(|(name, _)| name.as_os_str() != OsStr::new(listed)));
        match strange {
            Some(name) => Err(broken(folder, &format!("its reftable names `{}`", name.escape_debug()))),
            None => Ok(()),
        }
    }

    /// The commit that a name resolves to; `None` if it does not exist.
    pub(super) fn resolve(&self, name: &str, folder: &Path) -> Result<Option<ObjectId>, RepositoryError> {
        let args = ["rev-parse", "--verify", "--quiet", "--end-of-options", name];
        let answer = self.git().ask(&args, &[])?;
        let text = String::from_utf8_lossy(&answer.stdout);
        let last = text.lines().last().unwrap_or_default();
        match (answer.code, last.parse()) {
            (Some(0), Ok(oid)) => Ok(Some(oid)),
            (Some(1), _) if last.is_empty() => Ok(None),
            _ => Err(broken(folder, &answer.stderr)),
        }
    }

    /// The commits of up to `max` refs.
    pub(super) fn tips(&self, max: usize) -> Result<Vec<ObjectId>, RepositoryError> {
        let count = format!("--count={max}");
        let listed = self.git().run(&["for-each-ref", &count, "--format=%(objectname)"])?;
        let text = String::from_utf8(listed).map_err(|_| unreadable("for-each-ref"))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    fn git(&self) -> &Git {
        self.shadow.git()
    }

    /// Creates a branch, unless it exists with its commit: git adds a table to the copy, which is then copied to the
    /// user's repository.
    pub(super) fn make(&self, branch: &Branch<'_>, folder: &Path) -> Result<(), RepositoryError> {
        for _ in 0..TRIES_MAX {
            match self.resolve(&branch.full_name(), folder)? {
                Some(there) if there == branch.commit => return Ok(()),
                Some(there) => return Err(branch.taken(Some(there))),
                None => {}
            }
            let before = self.list_in_copy()?;
            let (name, commit) = (branch.full_name(), branch.commit.to_string());
            self.git().run(&["update-ref", "--no-deref", &name, &commit, &ObjectId::ZERO.to_string()])?;
            if self.bring_over(&before)? {
                return Ok(());
            }
            self.shadow.remove("reftable")?;
            self.copy(folder)?;
        }
        Err(locked(&self.theirs, LIST_LOCK))
    }

    fn list_in_copy(&self) -> Result<Vec<u8>, RepositoryError> {
        let path = self.in_copy(LIST);
        fs::read(&path).map_err(disk::failed("reading", &path))
    }

    fn in_copy(&self, name: &str) -> std::path::PathBuf {
        self.git().git_dir().join("reftable").join(name)
    }

    /// Replaces the user's tables by those of the copy, as git does: the tables first, then the list under its lock.
    /// Fails (`false`) if their list is no longer `before`.
    fn bring_over(&self, before: &[u8]) -> Result<bool, RepositoryError> {
        let after = self.list_in_copy()?;
        let (old, new) = (names_in(before), names_in(&after));
        let added: Vec<&String> = new.iter().filter(|name| !old.contains(name)).collect();
        let brought =
            added.iter().try_for_each(|name| self.put(name)).and_then(|()| self.swap(before, &after));
        if matches!(brought, Ok(true)) {
            self.remove_tables(old.iter().filter(|name| !new.contains(name)))?;
        } else {
            self.remove_tables(added.into_iter())?;
        }
        brought
    }

    fn put(&self, name: &str) -> Result<(), RepositoryError> {
        let path = self.in_copy(name);
        let mut table = File::open(&path).map_err(disk::failed("opening", &path))?;
        self.theirs.write_waiting(name, &mut table, FileLifetime::Changing)?.replacing(name)
    }

    /// Replaces the user's list if it is still `before`.
    fn swap(&self, before: &[u8], after: &[u8]) -> Result<bool, RepositoryError> {
        let mut content = after;
        let list = self.theirs.write_waiting(LIST, &mut content, FileLifetime::Changing)?;
        if !list.named_new(LIST_LOCK)? {
            return Err(locked(&self.theirs, LIST_LOCK));
        }
        // From here on Posse holds the lock, so the list cannot change.
        let now = self.theirs.read(LIST, PACKED_REFS_MAX_BYTES);
        if now.as_ref().is_ok_and(|now| now.as_deref() == Some(before)) {
            return self.theirs.rename(LIST_LOCK, LIST).map(|()| true);
        }
        self.theirs.remove(OsStr::new(LIST_LOCK))?;
        now.map(|_| false)
    }

    /// Removes tables that are in no list.
    fn remove_tables<'a>(&self, names: impl Iterator<Item = &'a String>) -> Result<(), RepositoryError> {
        names.into_iter().try_for_each(|name| self.theirs.remove(OsStr::new(name)))
    }
}

fn names_in(list: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(list).lines().map(str::to_owned).collect()
}
