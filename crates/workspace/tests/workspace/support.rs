//! A temporary user's folder and state directory, for the tests of workspaces.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use posse_sandbox::{Exit, OverlayMount};
use posse_workspace::{LocalFiles, ObjectId, RunBase, RunSpace, WorkspaceOptions};
use tempfile::TempDir;

use crate::kind::{init_path, of_kind, sandboxed};

/// The run of most tests; also the id of its root agent.
pub(crate) const RUN: &str = "k3f9ab2c";

/// A user's folder, and a state directory beside it.
pub(crate) struct World {
    dir: TempDir,
    pub(crate) options: WorkspaceOptions,
    /// What all values of this process share.
    shared: LocalFiles,
}

impl World {
    /// An empty folder.
    pub(crate) fn new() -> Self {
        Self::with(of_kind)
    }

    /// An empty folder, with workspaces as a function makes them.
    pub(crate) fn with(kind: impl FnOnce(LocalFiles) -> LocalFiles) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["folder", "home"] {
            fs::create_dir(dir.path().join(name)).expect("made");
        }
        let home = Some(dir.path().join("home"));
        let options = WorkspaceOptions { home, ..WorkspaceOptions::default() };
        let shared = kind(LocalFiles::new(&dir.path().join("state"), options.clone()));
        Self { dir, options, shared }
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
        self.shared.clone().with_options(self.options.clone())
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

/// The entries of a directory. The kernel closes its own directory beside the upper layer of an overlay; it is empty.
pub(crate) fn entries_of(dir: &Path) -> Vec<PathBuf> {
    let name = |path: Option<&Path>| path.and_then(|path| path.file_name()?.to_str()).map(str::to_owned);
    let is_work = name(dir.parent()).is_some_and(|parent| parent.starts_with("work."));
    match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && is_work => Vec::new(),
        listed => listed.expect("listed").map(|entry| entry.expect("an entry").path()).collect(),
    }
}

/// Every path beneath the state directory.
pub(crate) fn state_of(world: &World) -> BTreeSet<PathBuf> {
    let (mut found, mut dirs) = (BTreeSet::new(), vec![world.state()]);
    while let Some(dir) = dirs.pop() {
        for path in entries_of(&dir) {
            if fs::symlink_metadata(&path).expect("looked at").is_dir() {
                dirs.push(path.clone());
            }
            found.insert(path);
        }
    }
    found
}

/// Everything about a directory that a user could notice: names, modes, times and content, also of `.git`. The times of
/// objects are excluded: objects are hard-linked, and git in Posse's repository updates the times of those it uses.
pub(crate) fn fingerprint(dir: &Path) -> BTreeMap<Vec<u8>, (u32, i64, i64, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(at) = dirs.pop() {
        for path in entries_of(&at) {
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

/// The agent and attempt whose files are at a path.
fn owner_of(space: &RunSpace, dir: &Path) -> (String, u32) {
    let all = space.dir_of("agent", 1);
    let all = all.ancestors().nth(3).expect("the directory of all workspaces");
    for agent in fs::read_dir(all).expect("listed").flatten() {
        for attempt in fs::read_dir(agent.path()).expect("listed").flatten() {
            let agent = agent.file_name().to_string_lossy().into_owned();
            let Some(number) = attempt.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let mount = space.mount(&agent, number).expect("a workspace");
            let path = mount.map_or_else(|| space.dir_of(&agent, number), |mount| fd_path(&mount));
            if path == dir {
                return (agent, number);
            }
        }
    }
    panic!("{} is not a workspace of this process", dir.display());
}

fn fd_path(mount: &OverlayMount) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", mount.root().as_raw_fd()))
}

/// The output of `git status` in a workspace, with the borrowed objects at their path outside the sandbox.
pub(crate) fn status_in(space: &RunSpace, dir: &Path, home: &Path) -> String {
    git_at(space, dir, home, &["status", "--porcelain"])
}

/// The output of git in the workspace at this path.
pub(crate) fn git_at(space: &RunSpace, dir: &Path, home: &Path, args: &[&str]) -> String {
    let (agent, attempt) = owner_of(space, dir);
    git_of(space, (&agent, attempt), home, args)
}

/// The output of git in a directory that borrows all objects of the project.
pub(crate) fn git_with_objects(space: &RunSpace, dir: &Path, home: &Path, args: &[&str]) -> String {
    let mut command = plain_git(dir, home);
    command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", space.git().git_dir().join("objects"));
    let output = command.args(args).output().expect("git runs");
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The output of git in a workspace. In an overlay it runs in the sandbox, because the mount has no path outside.
pub(crate) fn git_of(space: &RunSpace, (agent, attempt): (&str, u32), home: &Path, args: &[&str]) -> String {
    if space.mount(agent, attempt).expect("a workspace").is_some() {
        let (exit, output) = sandboxed(space, (agent, attempt), &[&["git"], args].concat());
        assert_eq!(exit, Exit::Code(0), "{output}");
        return output;
    }
    let mut command = plain_git(&space.dir_of(agent, attempt), home);
    command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", space.objects_of(agent, attempt).expect("objects"));
    let output = command.args(args).output().expect("git runs");
    // Git warns that the sandbox's constant path does not exist outside it.
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Copies this test binary, with what it starts, to a directory that another user may read.
pub(crate) fn copy_tests(dir: &Path) -> PathBuf {
    let tests = dir.join("tests");
    fs::copy("/proc/self/exe", &tests).expect("copied");
    fs::copy(init_path(), dir.join("posse-init")).expect("copied");
    tests
}
