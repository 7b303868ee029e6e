//! Reads and writes refs of a project's repository.
//!
//! Written here rather than by git: a ref is one small file, and a process for each would cost more than the rest of a
//! small snapshot. A change of a ref requires a lock, which makes compare and swap atomic: that of the ref
//! ([`Project::lock_ref`](super::project::Project::lock_ref)). The ref of a run's base is created once, under the lock of
//! the project, because a cleaning that removes the project holds that one.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::disk::UnsyncedFile;
use super::{Lock, ObjectId, RepositoryError, disk};

/// Longest id of a run or an agent.
const MAX_ID_BYTES: usize = 200;
/// How many directories of a new ref's path may be new: `refs/posse/work/<agent>`.
const NEW_REF_LEVELS: usize = 4;
/// How often the next value of a ref is tried to be written.
const NEXT_VALUE_TRIES: u32 = 3;
/// Suffix of the attempt number for a workspace that lost files in a machine crash.
pub(crate) const TORN: &str = ".torn";

/// Suffix of the attempt number for the `.git` of a workspace.
pub(crate) const GIT: &str = ".git";

/// The ref of the snapshot that a run began with.
pub fn base_ref(run: &str) -> String {
    format!("refs/posse/base/{run}")
}

/// The work ref of an attempt: the commit that its files are at. A retry has its own work ref.
pub fn work_ref(agent: &str, attempt: u32) -> String {
    format!("refs/posse/work/{agent}/{attempt}")
}

/// The ref that keeps the content of a closed workspace.
pub fn salvage_ref(agent: &str, attempt: u32) -> String {
    format!("refs/posse/salvage/{agent}/{attempt}")
}

/// The ref that keeps the readable rest of a workspace that lost files in a machine crash.
pub fn torn_ref(agent: &str, attempt: u32) -> String {
    format!("refs/posse/salvage/{agent}/{attempt}{TORN}")
}

/// The ref that keeps the `.git` of a workspace as plain files, if its agent changed it.
pub fn salvaged_git_ref(agent: &str, attempt: u32) -> String {
    format!("refs/posse/salvage/{agent}/{attempt}{GIT}")
}

/// The ref that keeps an object of a run that another machine exported.
pub(crate) fn imported_ref(run: &str, object: &ObjectId) -> String {
    format!("refs/posse/imported/{run}/{object}")
}

/// The ref that keeps a commit of an earlier run which a run needs.
pub(crate) fn kept_ref(run: &str, commit: &ObjectId) -> String {
    format!("refs/posse/kept/{run}/{commit}")
}

/// Refuses an id that cannot be part of a path and of a ref.
pub(crate) fn check_id(id: &str) -> Result<(), RepositoryError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let bad = id.is_empty()
        || id.len() > MAX_ID_BYTES
        || !id.bytes().all(plain)
        || id.starts_with(['.', '-'])
        || id.ends_with('.')
        || id.as_bytes().ends_with(b".lock")
        || id.contains("..");
    if bad {
        return Err(RepositoryError::Unsupported(format!(
            "`{}` cannot name a run or an agent: letters, digits, `.`, `_` and `-` can",
            id.escape_debug()
        )));
    }
    Ok(())
}

/// The next value of a ref, in a file that is not synced yet.
#[derive(Debug)]
pub(crate) struct PreparedSwap {
    next: UnsyncedFile,
    /// The directories that have to be synced afterwards.
    dirs: Vec<PathBuf>,
}

impl PreparedSwap {
    /// The file that has to be synced before the swap is completed.
    pub(crate) fn file(&self) -> &File {
        self.next.file()
    }

    /// Durable when this returns.
    pub(crate) fn complete(self) -> Result<(), RepositoryError> {
        self.next.put_in_place()?;
        disk::sync_dirs(self.dirs.iter().map(PathBuf::as_path))
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Refs {
    repository: PathBuf,
}

impl Refs {
    pub(crate) fn of(repository: &Path) -> Self {
        Self { repository: repository.to_owned() }
    }

    /// The object that a ref names; `None` if the ref does not exist.
    pub(crate) fn read(&self, name: &str) -> Result<Option<ObjectId>, RepositoryError> {
        if let Some(content) = disk::read_if_there(&self.repository.join(name))? {
            let text = String::from_utf8_lossy(&content);
            return text.trim_end().parse().map(Some).map_err(|_| self.damaged(name));
        }
        // `git pack-refs`, which `gc` may run, collects refs in one file.
        let packed = disk::read_if_there(&self.repository.join("packed-refs"))?.unwrap_or_default();
        let packed = String::from_utf8_lossy(&packed);
        let line = packed.lines().find_map(|line| line.strip_suffix(name)?.strip_suffix(' '));
        line.map(|oid| oid.parse().map_err(|_| self.damaged(name))).transpose()
    }

    /// Sets a ref to `new` if it is at `old` (`None`: it does not exist). Durable when this returns.
    pub(crate) fn swap(
        &self,
        held: &Lock,
        name: &str,
        old: Option<&ObjectId>,
        new: &ObjectId,
    ) -> Result<(), RepositoryError> {
        let Some(swap) = self.prepare_swap(held, name, old, new)? else { return Ok(()) };
        disk::sync_together(&[swap.file()], &self.repository)?;
        swap.complete()
    }

    /// Prepares a [swap](Self::swap), which the caller completes after it has synced the file. `None` if the ref is at
    /// `new` already.
    pub(crate) fn prepare_swap(
        &self,
        _held: &Lock,
        name: &str,
        old: Option<&ObjectId>,
        new: &ObjectId,
    ) -> Result<Option<PreparedSwap>, RepositoryError> {
        let now = self.read(name)?;
        if now.as_ref() != old {
            let text = |oid: Option<&ObjectId>| oid.map_or_else(|| "nothing".to_owned(), ObjectId::to_string);
            return Err(RepositoryError::Damaged(format!(
                "{name} in {} is at {} and not at {}: another process moved it",
                self.repository.display(),
                text(now.as_ref()),
                text(old),
            )));
        }
        if now.as_ref() == Some(new) {
            return Ok(None);
        }
        let path = self.repository.join(name);
        let next = self.next_value(&path, new)?;
        // The directories of a new ref may be new too, also if another thread or an earlier try has made them.
        let levels = if now.is_none() { NEW_REF_LEVELS } else { 1 };
        let dirs = path.ancestors().skip(1).take(levels).map(Path::to_owned).collect();
        Ok(Some(PreparedSwap { next, dirs }))
    }

    /// Writes the next value beside a ref. Git removes directories without refs, also while they are created here.
    fn next_value(&self, path: &Path, new: &ObjectId) -> Result<UnsyncedFile, RepositoryError> {
        let text = format!("{new}\n");
        let parent = path.parent().unwrap_or(&self.repository);
        let mut tries = 0;
        loop {
            tries += 1;
            let written =
                disk::make_dirs_unsynced(parent).and_then(|_| UnsyncedFile::write(path, text.as_bytes()));
            if written.is_ok() || tries == NEXT_VALUE_TRIES {
                return written;
            }
        }
    }

    fn damaged(&self, name: &str) -> RepositoryError {
        RepositoryError::Damaged(format!(
            "{name} in {} does not name an object; run `git fsck` there",
            self.repository.display()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_could_lead_elsewhere_are_refused() {
        for good in ["k3f9ab2c", "k3f9ab2c.2.1", "a_b-c"] {
            assert!(check_id(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "-a", "a..b", "a.lock", "a.", "a b", "é", &"a".repeat(201)] {
            assert!(check_id(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_ref_moves_only_from_where_it_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let lock = Lock::wait(&dir.path().join("lock")).expect("a lock");
        let refs = Refs::of(dir.path());
        let (one, two) = (ObjectId::from_bytes([1; 20]), ObjectId::from_bytes([2; 20]));
        assert_eq!(refs.read("refs/posse/work/a").expect("read"), None);
        refs.swap(&lock, "refs/posse/work/a", None, &one).expect("made");
        assert!(refs.swap(&lock, "refs/posse/work/a", None, &two).is_err());
        assert!(refs.swap(&lock, "refs/posse/work/a", Some(&two), &two).is_err());
        refs.swap(&lock, "refs/posse/work/a", Some(&one), &two).expect("moved");
        assert_eq!(refs.read("refs/posse/work/a").expect("read"), Some(two));
    }

    #[test]
    fn what_a_killed_process_leaves_among_refs_is_no_ref() {
        let dir = tempfile::tempdir().expect("a directory");
        let git = |args: &[&str]| {
            let done =
                std::process::Command::new("git").args(args).current_dir(dir.path()).output().expect("git");
            (
                done.status.success(),
                String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned(),
            )
        };
        assert!(git(&["init", "-q", "--bare", "."]).0);
        let work = dir.path().join("refs/posse/work/a");
        std::fs::create_dir_all(&work).expect("a directory");
        disk::create_new(&disk::temporary(&work.join("1"))).expect("half a ref");
        let (sound, said) = git(&["fsck", "--strict", "--no-progress"]);
        assert!(sound && !said.contains("work/a"), "{said}");
        assert_eq!(git(&["for-each-ref"]), (true, String::new()));
    }

    #[test]
    fn packed_refs_are_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let one = ObjectId::from_bytes([1; 20]);
        let text = format!("# pack-refs with: peeled fully-peeled sorted\n{one} refs/posse/work/a.1\n");
        std::fs::write(dir.path().join("packed-refs"), text).expect("written");
        let refs = Refs::of(dir.path());
        assert_eq!(refs.read("refs/posse/work/a.1").expect("read"), Some(one));
        assert_eq!(refs.read("refs/posse/work/a").expect("read"), None);
        assert_eq!(refs.read("work/a.1").expect("read"), None);
    }
}
