//! Refs in tables (`reftable`), a format that git alone understands: it reads and writes a copy of them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::Path;

use super::change::unreadable;
use super::git_dir::{GitDir, PACKED_REFS_MAX_BYTES};
use super::project::Project;
use super::shadow::Shadow;
use super::unnamed_file::FileLifetime;
use super::user_refs::{Branch, locked};
use super::user_repository::{Person, broken};
use super::{Git, Oid, WorkspaceError, disk};

/// Most files of a reftable that are read; git keeps a handful.
const MAX_TABLES: usize = 256;
/// The tables that count, a name in each line.
const LIST: &str = "tables.list";
/// Whoever changes the list makes this first, and then renames it.
const LIST_LOCK: &str = "tables.list.lock";
/// How often a branch is tried that somebody else's change got in the way of.
const TRIES_MAX: usize = 5;

/// A copy of a person's tables, and where they are.
pub(super) struct Tables {
    shadow: Shadow,
    theirs: GitDir,
}

impl Tables {
    /// Copies the tables of a repository.
    pub(super) fn of(
        person: &Person,
        folder: &Path,
        project: &Project,
        program: &Path,
    ) -> Result<Self, WorkspaceError> {
        // A worktree has its HEAD in tables of its own; only those of the main one are read.
        if person.git_dir.path() != person.common.path() {
            return Err(broken(folder, "worktrees of repositories with reftable are not supported"));
        }
        let theirs = person.common.dir("reftable")?.ok_or_else(|| broken(folder, "its reftable is gone"))?;
        let extensions = "[extensions]\nrefStorage = reftable\n";
        let shadow = Shadow::new(program, project.dir(), &project.repository().join("objects"), extensions)?;
        shadow.put("HEAD", b"ref: refs/heads/.invalid\n")?;
        let tables = Self { shadow, theirs };
        tables.copy(folder)?;
        Ok(tables)
    }

    fn copy(&self, folder: &Path) -> Result<(), WorkspaceError> {
        let entries = self.theirs.entries()?;
        if entries.len() > MAX_TABLES {
            return Err(broken(folder, &format!("its reftable has more than {MAX_TABLES} files")));
        }
        for (name, _) in &entries {
            let Some(name) = name.to_str().filter(|name| *name != LIST_LOCK) else { continue };
            let content = self.theirs.read(name, PACKED_REFS_MAX_BYTES)?.unwrap_or_default();
            self.shadow.put(&format!("reftable/{name}"), &content)?;
        }
        // Git opens what the list names, wherever that is.
        let strange = names_in(&self.list_in_copy()?)
            .into_iter()
            .find(|listed| entries.iter().all(|(name, _)| name.as_os_str() != OsStr::new(listed)));
        match strange {
            Some(name) => Err(broken(folder, &format!("its reftable names `{}`", name.escape_debug()))),
            None => Ok(()),
        }
    }

    /// What a name stands for; none if it is not there.
    pub(super) fn resolve(&self, name: &str, folder: &Path) -> Result<Option<Oid>, WorkspaceError> {
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

    /// What the refs name, as many as `max`.
    pub(super) fn tips(&self, max: usize) -> Result<Vec<Oid>, WorkspaceError> {
        let count = format!("--count={max}");
        let listed = self.git().run(&["for-each-ref", &count, "--format=%(objectname)"])?;
        let text = String::from_utf8(listed).map_err(|_| unreadable("for-each-ref"))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    fn git(&self) -> &Git {
        self.shadow.git()
    }

    /// Makes a branch, unless it is there with its commit: git adds a table to the copy, and that is brought over.
    pub(super) fn make(&self, branch: &Branch<'_>, folder: &Path) -> Result<(), WorkspaceError> {
        for _ in 0..TRIES_MAX {
            match self.resolve(&branch.full_name(), folder)? {
                Some(there) if there == branch.commit => return Ok(()),
                Some(there) => return Err(branch.taken(Some(there))),
                None => {}
            }
            let before = self.list_in_copy()?;
            let (name, commit) = (branch.full_name(), branch.commit.to_string());
            self.git().run(&["update-ref", "--no-deref", &name, &commit, &Oid::ZERO.to_string()])?;
            if self.bring_over(&before)? {
                return Ok(());
            }
            self.shadow.remove("reftable")?;
            self.copy(folder)?;
        }
        Err(locked(&self.theirs, LIST_LOCK))
    }

    fn list_in_copy(&self) -> Result<Vec<u8>, WorkspaceError> {
        let path = self.in_copy(LIST);
        fs::read(&path).map_err(disk::failed("reading", &path))
    }

    fn in_copy(&self, name: &str) -> std::path::PathBuf {
        self.git().git_dir().join("reftable").join(name)
    }

    /// Puts the tables of the copy in the place of theirs, as git does: the tables first, then the list under its lock.
    /// Not done if their list is not `before` any more.
    fn bring_over(&self, before: &[u8]) -> Result<bool, WorkspaceError> {
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

    fn put(&self, name: &str) -> Result<(), WorkspaceError> {
        let path = self.in_copy(name);
        let mut table = File::open(&path).map_err(disk::failed("opening", &path))?;
        self.theirs.write_waiting(name, &mut table, FileLifetime::Changing)?.replacing(name)
    }

    /// Puts a list in the place of theirs, if that is still `before`.
    fn swap(&self, before: &[u8], after: &[u8]) -> Result<bool, WorkspaceError> {
        let mut content = after;
        let list = self.theirs.write_waiting(LIST, &mut content, FileLifetime::Changing)?;
        if !list.named_new(LIST_LOCK)? {
            return Err(locked(&self.theirs, LIST_LOCK));
        }
        // From here on the lock is ours, and what is read is what counts.
        let now = self.theirs.read(LIST, PACKED_REFS_MAX_BYTES);
        if now.as_ref().is_ok_and(|now| now.as_deref() == Some(before)) {
            return self.theirs.rename(LIST_LOCK, LIST).map(|()| true);
        }
        self.theirs.remove(OsStr::new(LIST_LOCK))?;
        now.map(|_| false)
    }

    /// Removes tables that no list has.
    fn remove_tables<'a>(&self, names: impl Iterator<Item = &'a String>) -> Result<(), WorkspaceError> {
        names.into_iter().try_for_each(|name| self.theirs.remove(OsStr::new(name)))
    }
}

/// The tables of a list.
fn names_in(list: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(list).lines().map(str::to_owned).collect()
}
