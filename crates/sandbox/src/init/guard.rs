//! Protects the protected names of a workspace from changes by programs.
//!
//! An existing file under such a name is mounted over itself, read-only. A missing file cannot be a mount point: a new
//! file there is refused when the agent's work is integrated, before any program of the user obeys it. The workspace's
//! `.git` belongs to the agent.
//!
//! Why it is like this: `docs/decisions/sandbox-protected-names.md`, `docs/decisions/workspace-always-isolated.md`.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::reached;

/// The name that the agent owns in its workspace.
const OWN: &str = ".git";

/// The protected names of one call.
pub(super) struct Guard {
    /// The existing ones, relative to the workspace.
    existing: Vec<PathBuf>,
    /// The workspace. Every name is resolved from here.
    dir: OwnedFd,
    /// Whether `dir` is the root of a mount that is attached nowhere yet.
    is_mount: bool,
}

impl Guard {
    pub(super) fn new(workspace: &str, protected: &[String]) -> io::Result<Self> {
        Self::of(reached::open_dir(workspace)?, false, protected)
    }

    /// For a workspace that the runtime passed as a mount.
    pub(super) fn of_mount(mounted: OwnedFd, protected: &[String]) -> io::Result<Self> {
        Self::of(mounted, true, protected)
    }

    fn of(dir: OwnedFd, is_mount: bool, protected: &[String]) -> io::Result<Self> {
        let mut existing = Vec::with_capacity(protected.len());
        for name in protected.iter().map(Path::new).filter(|name| !name.starts_with(OWN)) {
            if exists(&dir, name)? {
                existing.push(name.to_owned());
            }
        }
        Ok(Self { existing, dir, is_mount })
    }

    /// The workspace, if the runtime passed it as a mount.
    pub(super) fn mount(&self) -> Option<&OwnedFd> {
        self.is_mount.then_some(&self.dir)
    }

    pub(super) fn dir(&self) -> &OwnedFd {
        &self.dir
    }

    /// The paths to mount over themselves, relative to the workspace.
    pub(super) fn existing(&self) -> impl Iterator<Item = &Path> {
        self.existing.iter().map(PathBuf::as_path)
    }
}

/// Restores the owner's permissions on a directory, which a program may have removed.
fn open_up(dir: &OwnedFd) {
    let path = format!("/proc/self/fd/{}", dir.as_raw_fd());
    if let Ok(metadata) = fs::metadata(&path) {
        let _ = fs::set_permissions(&path, fs::Permissions::from_mode(metadata.mode() & 0o7777 | 0o700));
    }
}

/// Whether a path beneath a directory exists and can be a mount point. Links are never followed: programs create them,
/// and they lead anywhere.
fn exists(dir: &OwnedFd, name: &Path) -> io::Result<bool> {
    let Some((dir, last)) = enter(dir, name.parent())?.zip(name.file_name()) else { return Ok(false) };
    let found = match rustix::fs::statat(&dir, last, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::ACCESS) => {
            open_up(&dir);
            rustix::fs::statat(&dir, last, AtFlags::SYMLINK_NOFOLLOW)
        }
        found => found,
    };
    match found {
        Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode) != FileType::Symlink),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens a path without following links; `None` if a part is not a directory.
fn enter(dir: &OwnedFd, path: Option<&Path>) -> io::Result<Option<OwnedFd>> {
    let mut dir = dir.try_clone()?;
    for part in path.into_iter().flatten() {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut next = rustix::fs::openat(&dir, part, flags, Mode::empty());
        if matches!(next, Err(Errno::ACCESS)) {
            open_up(&dir);
            next = rustix::fs::openat(&dir, part, flags, Mode::empty());
        }
        match next {
            Ok(next) => dir = next,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Some(dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exists_is_guarded_and_git_is_the_agents_own() {
        let top = tempfile::tempdir().expect("a directory");
        let at = |name: &str| top.path().join(name);
        fs::create_dir(at(".git")).expect("made");
        fs::write(at(".mcp.json"), "mine").expect("written");
        fs::create_dir_all(at(".github/workflows")).expect("made");
        fs::write(at(".vscode"), "no directory").expect("written");
        std::os::unix::fs::symlink("shared", at(".claude")).expect("made");
        std::os::unix::fs::symlink(".github", at(".config")).expect("made");
        let dir = top.path().to_str().expect("text");
        let protected = [
            ".git",
            ".git/hooks",
            ".mcp.json",
            ".envrc",
            ".claude",
            ".github/workflows",
            ".vscode/tasks.json",
            ".config/workflows",
        ];
        let guard = Guard::new(dir, &protected.map(str::to_owned)).expect("a guard");
        let existing: Vec<&Path> = guard.existing().collect();
        assert_eq!(existing, [Path::new(".mcp.json"), Path::new(".github/workflows")]);
    }

    #[test]
    fn a_directory_that_was_closed_hides_no_name() {
        let top = tempfile::tempdir().expect("a directory");
        let closed = top.path().join(".github");
        fs::create_dir_all(closed.join("workflows")).expect("made");
        // Root ignores permissions. The end-to-end tests check this as an ordinary user too.
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).expect("set");
        let dir = top.path().to_str().expect("text");
        let guard = Guard::new(dir, &[".github/workflows".to_owned()]).expect("a guard");
        assert_eq!(guard.existing().count(), 1);
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).expect("set");
    }
}
