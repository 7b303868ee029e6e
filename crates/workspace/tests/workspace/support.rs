//! A temporary user's folder and state directory, for the tests of workspaces.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use posse_workspace::{LocalFiles, ObjectId, RunBase, RunSpace, WorkspaceOptions};
use tempfile::TempDir;

/// The run of most tests; also the id of its root agent.
pub(crate) const RUN: &str = "k3f9ab2c";

/// A user's folder, and a state directory beside it.
pub(crate) struct World {
    dir: TempDir,
    pub(crate) options: WorkspaceOptions,
}

impl World {
    /// An empty folder.
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["folder", "home"] {
            fs::create_dir(dir.path().join(name)).expect("made");
        }
        let home = Some(dir.path().join("home"));
        Self { dir, options: WorkspaceOptions { home, ..WorkspaceOptions::default() } }
    }

    /// A folder that is a repository without a commit.
    pub(crate) fn repository() -> Self {
        let world = Self::new();
        world.git(&["init", "-q", "-b", "main"]);
        world
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.dir.path().join("folder")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// Another directory of the test.
    pub(crate) fn elsewhere(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn spaces(&self) -> LocalFiles {
        LocalFiles::new(&self.state(), self.options.clone())
    }

    pub(crate) fn begin(&self) -> (RunBase, RunSpace) {
        let begun = self.spaces().begin(RUN, &self.folder()).expect("begun");
        (begun, self.spaces().open(RUN).expect("opened"))
    }

    /// Git as the user runs it.
    pub(crate) fn git(&self, args: &[&str]) -> String {
        git_in(&self.folder(), &self.home(), args)
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        write(&self.folder(), path, content);
    }

    pub(crate) fn commit_all(&self) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "change"]);
    }
}

/// Git in a directory, with no settings of this machine except those in `home`.
pub(crate) fn git_in(dir: &Path, home: &Path, args: &[&str]) -> String {
    let output = plain_git(dir, home).args(args).output().expect("git runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?} in {}: {stderr}", dir.display());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A git command for a user with this home.
pub(crate) fn plain_git(dir: &Path, home: &Path) -> Command {
    let mut command = Command::new("git");
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", home);
    command.env("GIT_CONFIG_NOSYSTEM", "1").current_dir(dir);
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "Ada").env(format!("GIT_{who}_EMAIL"), "ada@example.org");
    }
    command
}

pub(crate) fn write(dir: &Path, path: &str, content: impl AsRef<[u8]>) {
    let path = dir.join(path);
    fs::create_dir_all(path.parent().expect("a parent")).expect("made");
    fs::write(&path, content).expect("written");
}

/// The files of a commit in the project's repository: mode and content by path.
pub(crate) fn files_of(space: &RunSpace, commit: &ObjectId) -> BTreeMap<Vec<u8>, (String, Vec<u8>)> {
    let git = space.git();
    let out = git.run(&["ls-tree", "-r", "-z", &commit.to_string()]).expect("listed");
    let records = out.split(|byte| *byte == 0).filter(|record| !record.is_empty());
    records
        .map(|record| {
            let tab = record.iter().position(|byte| *byte == b'\t').expect("a tab");
            let head = String::from_utf8_lossy(&record[..tab]).into_owned();
            let mut words = head.split(' ');
            let (mode, kind, oid) = (words.next(), words.next(), words.next());
            let content = match kind {
                Some("blob") => git.run(&["cat-file", "blob", oid.expect("an oid")]).expect("read"),
                _ => oid.expect("an oid").as_bytes().to_vec(),
            };
            (record[tab + 1..].to_vec(), (mode.expect("a mode").to_owned(), content))
        })
        .collect()
}

/// The text of one file of a commit.
pub(crate) fn text_of(space: &RunSpace, commit: &ObjectId, path: &str) -> Option<String> {
    let files = files_of(space, commit);
    files.get(path.as_bytes()).map(|(_, content)| String::from_utf8_lossy(content).into_owned())
}

/// The paths in a commit.
pub(crate) fn names_of(space: &RunSpace, commit: &ObjectId) -> Vec<String> {
    files_of(space, commit).into_keys().map(|path| String::from_utf8_lossy(&path).into_owned()).collect()
}

/// Everything about a directory that a user could notice: names, modes, times and content, also of `.git`. The times of
/// objects are excluded: objects are hard-linked, and git in Posse's repository updates the times of those it uses.
pub(crate) fn fingerprint(dir: &Path) -> BTreeMap<Vec<u8>, (u32, i64, i64, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(at) = dirs.pop() {
        for entry in fs::read_dir(&at).expect("listed") {
            let path = entry.expect("an entry").path();
            let metadata = fs::symlink_metadata(&path).expect("looked at");
            let content = if metadata.is_dir() {
                dirs.push(path.clone());
                Vec::new()
            } else if metadata.is_symlink() {
                fs::read_link(&path).expect("read").into_os_string().into_vec()
            } else if metadata.is_file() {
                fs::read(&path).unwrap_or_default()
            } else {
                Vec::new()
            };
            let name = path.strip_prefix(dir).expect("beneath").as_os_str().as_bytes().to_vec();
            let mode = metadata.permissions().mode();
            let is_object = name.starts_with(b".git/objects/") && metadata.is_file();
            let time = if is_object { (0, 0) } else { (metadata.mtime(), metadata.mtime_nsec()) };
            all.insert(name, (mode, time.0, time.1, content));
        }
    }
    all
}

/// Asserts that `git fsck` reports nothing in the project's repository.
pub(crate) fn assert_sound(space: &RunSpace) {
    let out =
        space.git().ask(&["fsck", "--strict", "--no-dangling", "--no-progress"], &[]).expect("git runs");
    assert_eq!(out.code, Some(0), "{} {}", String::from_utf8_lossy(&out.stdout), out.stderr);
    assert_eq!(String::from_utf8_lossy(&out.stdout), "");
}

/// The objects that are lent to the workspace with these files.
pub(crate) fn lent(space: &RunSpace, dir: &Path) -> PathBuf {
    let mut parts = dir.iter().rev().skip(1).map(|part| part.to_str().expect("a name"));
    let (attempt, agent) = (parts.next().expect("an attempt"), parts.next().expect("an agent"));
    space.objects_of(agent, attempt.parse().expect("a number")).expect("objects")
}

/// The output of `git status` in a workspace, with the borrowed objects at their path outside the sandbox.
pub(crate) fn status_in(space: &RunSpace, dir: &Path, home: &Path) -> String {
    let mut command = plain_git(dir, home);
    command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", lent(space, dir));
    let output = command.args(["status", "--porcelain"]).output().expect("git runs");
    // Git warns that the sandbox's constant path does not exist outside it.
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
