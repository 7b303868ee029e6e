//! A user's project with runs, for the tests of merging.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use posse_engine::ports::Merge;
use posse_workspace::{LocalFiles, ObjectId, RunSpace, WorkspaceOptions};
use tempfile::TempDir;

use crate::kind::of_kind;
use crate::plumbing::{plain, request};

/// A folder and a state directory beneath one temporary directory.
pub(crate) struct Project {
    top: TempDir,
    pub(crate) options: WorkspaceOptions,
    /// What all values of this process share.
    shared: LocalFiles,
}

impl Project {
    /// A repository with these files committed.
    pub(crate) fn repository(files: &[(&str, &str)]) -> Self {
        let project = Self::folder(files);
        project.git(&["init", "-q"]);
        project.git(&["add", "-A"]);
        project.git(&["commit", "-q", "--allow-empty", "-m", "first"]);
        project
    }

    /// A folder that is not a repository.
    pub(crate) fn folder(files: &[(&str, &str)]) -> Self {
        let (top, options) = (tempfile::tempdir().expect("a directory"), WorkspaceOptions::default());
        let shared = of_kind(LocalFiles::new(&top.path().join("state"), options.clone()));
        let project = Self { top, options, shared };
        fs::create_dir(project.dir()).expect("made");
        for (path, content) in files {
            write(&project.dir(), path, content);
        }
        project
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.top.path().join("folder")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.top.path().join("state")
    }

    /// Git as the user runs it.
    pub(crate) fn git(&self, args: &[&str]) -> String {
        plain(&self.dir(), args, b"")
    }

    pub(crate) fn spaces(&self) -> LocalFiles {
        self.spaces_with(self.options.clone())
    }

    pub(crate) fn spaces_with(&self, options: WorkspaceOptions) -> LocalFiles {
        self.shared.clone().with_options(options)
    }

    /// A run that has begun, with a workspace for its root.
    pub(crate) fn run(&self, run: &str) -> Run {
        let begun = self.spaces().begin(run, &self.dir()).expect("begun");
        let space = self.spaces().open(run).expect("open");
        let base = begun.snapshot.commit;
        let root = space.make(run, 1, &base).expect("made").dir;
        Run { id: run.to_owned(), space, base, root }
    }
}

/// A run with its root's workspace.
pub(crate) struct Run {
    pub(crate) id: String,
    pub(crate) space: RunSpace,
    pub(crate) base: ObjectId,
    pub(crate) root: PathBuf,
}

impl Run {
    /// A child that starts from the root's current files.
    pub(crate) fn child(&self, number: u32) -> (String, PathBuf, ObjectId) {
        let base = self.space.snapshot(&self.id, 1).expect("snapshot").commit;
        let agent = format!("{}.{number}", self.id);
        let dir = self.space.make(&agent, 1, &base).expect("made").dir;
        (agent, dir, base)
    }

    /// Merges a child's work into the root's workspace.
    pub(crate) fn integrate(&self, agent: &str, base: ObjectId) -> Option<Merge> {
        let theirs = self.space.snapshot(agent, 1).expect("snapshot").commit;
        let ours = self.space.snapshot(&self.id, 1).expect("snapshot").commit;
        let merge = self.space.merge(&request(ours, base, theirs)).expect("answered");
        if let Some(Merge::Merged { commit, .. }) = &merge {
            let updated = self.space.update(&self.id, 1, &ours, commit).expect("updated");
            assert_eq!(updated.conflicts_left, Vec::<String>::new());
        }
        merge
    }

    /// Commits the root's workspace as the run's result.
    pub(crate) fn result(&self) -> ObjectId {
        self.space.snapshot(&self.id, 1).expect("snapshot").commit
    }
}

/// Writes a file and its parent directories.
pub(crate) fn write(dir: &Path, path: &str, content: impl AsRef<[u8]>) {
    let path = dir.join(path);
    fs::create_dir_all(path.parent().expect("a parent")).expect("made");
    fs::write(path, content).expect("written");
}

pub(crate) fn read(dir: &Path, path: &str) -> String {
    fs::read_to_string(dir.join(path)).unwrap_or_else(|error| format!("({error})"))
}

pub(crate) fn set_executable(dir: &Path, path: &str) {
    fs::set_permissions(dir.join(path), fs::Permissions::from_mode(0o755)).expect("set");
}
