//! Keeps the protected names of a workspace as they are.
//!
//! What exists is mounted over itself in the box, read-only. What does not exist cannot be mounted on, so it is looked
//! for when the call is over and nothing of it is alive: a protected name that has appeared is renamed, so that
//! nobody's program obeys it and nothing that was made is lost. Git's own directory is not left to that: prompts and
//! editors ask git about a folder all the time, and git runs what it finds there. An empty directory stands for it
//! while the call runs.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

/// Names that other programs look into by themselves.
const LOOKED_INTO: [&str; 1] = [".git"];
/// The mode of a directory that stands for one of them: nobody makes such a directory by chance.
const STANDS_FOR: u32 = 0o1000;
/// How a refused name ends.
const REFUSED: &str = "refused";
/// How many refused things of one name are kept apart.
const REFUSED_MAX: u32 = 1_000;

/// The protected names of one call.
pub(super) struct Guard {
    workspace: PathBuf,
    names: Vec<(PathBuf, Before)>,
    /// Held shared by every call in the workspace: what stands for a directory is removed by the last one.
    lock: File,
}

/// What was there before the call.
enum Before {
    Nothing,
    Something,
    /// A link cannot be mounted on: it is put back if it was changed.
    Link(PathBuf),
}

impl Guard {
    pub(super) fn new(workspace: &str, protected: &[String]) -> io::Result<Self> {
        let lock = File::open(workspace)?;
        rustix::fs::flock(&lock, FlockOperation::LockShared)?;
        let workspace = PathBuf::from(workspace);
        let mut names = Vec::with_capacity(protected.len());
        for name in protected {
            let path = workspace.join(name);
            if LOOKED_INTO.contains(&name.as_str()) {
                stand_for(&path)?;
            }
            let before = match fs::symlink_metadata(&path) {
                Ok(metadata) if metadata.is_symlink() => Before::Link(fs::read_link(&path)?),
                Ok(_) => Before::Something,
                Err(error) if absent(&error) => Before::Nothing,
                Err(error) => return Err(error),
            };
            names.push((PathBuf::from(name), before));
        }
        Ok(Self { workspace, names, lock })
    }

    /// What there is to mount over itself, relative to the workspace.
    pub(super) fn existing(&self) -> impl Iterator<Item = &Path> {
        let there = self.names.iter().filter(|(_, before)| matches!(before, Before::Something));
        there.map(|(name, _)| name.as_path())
    }

    /// Puts aside what has appeared, once nobody is left who could make more; the names, relative to the workspace.
    pub(super) fn close(self) -> Vec<String> {
        let mut refused = Vec::new();
        for (name, before) in &self.names {
            let path = self.workspace.join(name);
            let new = match before {
                Before::Something => false,
                Before::Nothing => fs::symlink_metadata(&path).is_ok(),
                Before::Link(target) => fs::read_link(&path).ok().as_ref() != Some(target),
            };
            if new && put_aside(&path) {
                refused.push(name.display().to_string());
            }
            if let (Before::Link(target), true) = (before, new) {
                let _ = std::os::unix::fs::symlink(target, &path);
            }
        }
        if rustix::fs::flock(&self.lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            for name in LOOKED_INTO {
                let path = self.workspace.join(name);
                let ours = fs::symlink_metadata(&path)
                    .is_ok_and(|metadata| metadata.is_dir() && metadata.mode() & 0o7777 == STANDS_FOR);
                if ours {
                    // One that is not empty is not ours any more.
                    let _ = fs::remove_dir(&path);
                }
            }
        }
        refused
    }
}

/// Makes a directory where there is nothing. Where this process may not, no program of the call may.
fn stand_for(path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(STANDS_FOR).create(path) {
        Err(error)
            if !matches!(
                error.kind(),
                io::ErrorKind::AlreadyExists
                    | io::ErrorKind::PermissionDenied
                    | io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            Err(error)
        }
        _ => Ok(()),
    }
}

fn absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Renames something so that nobody obeys it; whether it was there to be renamed.
fn put_aside(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    let names = (1..REFUSED_MAX).map(|number| match number {
        1 => format!("{name}.{REFUSED}"),
        number => format!("{name}.{REFUSED}-{number}"),
    });
    for aside in names.map(|name| path.with_file_name(name)) {
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(rustix::fs::CWD, path, rustix::fs::CWD, &aside, flags) {
            Ok(()) => return true,
            Err(rustix::io::Errno::EXIST) => {}
            Err(_) => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_has_appeared_is_put_aside_and_kept() {
        let top = tempfile::tempdir().expect("a directory");
        let at = |name: &str| top.path().join(name);
        fs::write(at(".mcp.json"), "mine").expect("written");
        fs::write(at(".envrc.refused"), "older").expect("written");
        let dir = top.path().to_str().expect("text");
        let guard = Guard::new(dir, &names(&[".git", ".mcp.json", ".envrc", ".github/workflows", ".vscode"]))
            .expect("a guard");
        assert_eq!(
            guard.existing().map(Path::to_owned).collect::<Vec<_>>(),
            [Path::new(".git"), Path::new(".mcp.json")]
        );
        fs::write(at(".envrc"), "evil").expect("written");
        fs::create_dir_all(at(".github/workflows")).expect("made");
        fs::write(at(".github/README.md"), "fine").expect("written");
        assert_eq!(guard.close(), [".envrc", ".github/workflows"]);
        assert_eq!(fs::read_to_string(at(".envrc.refused-2")).expect("kept"), "evil");
        assert_eq!(fs::read_to_string(at(".envrc.refused")).expect("kept"), "older");
        assert!(at(".github/workflows.refused").is_dir() && at(".github/README.md").is_file());
        assert_eq!(fs::read_to_string(at(".mcp.json")).expect("kept"), "mine");
        for gone in [".git", ".envrc", ".github/workflows", ".vscode"] {
            assert!(fs::symlink_metadata(at(gone)).is_err(), "{gone}");
        }
    }

    #[test]
    fn a_link_is_put_back() {
        let top = tempfile::tempdir().expect("a directory");
        let link = top.path().join(".claude");
        std::os::unix::fs::symlink("shared", &link).expect("made");
        let dir = top.path().to_str().expect("text");
        let guard = Guard::new(dir, &names(&[".claude"])).expect("a guard");
        fs::remove_file(&link).expect("removed");
        fs::create_dir(&link).expect("made");
        assert_eq!(guard.close(), [".claude"]);
        assert_eq!(fs::read_link(&link).expect("a link"), Path::new("shared"));
    }

    #[test]
    fn what_stands_for_git_goes_with_the_last_call_and_a_repository_stays() {
        let top = tempfile::tempdir().expect("a directory");
        let dir = top.path().to_str().expect("text");
        let git = top.path().join(".git");
        let first = Guard::new(dir, &names(&[".git"])).expect("a guard");
        let second = Guard::new(dir, &names(&[".git"])).expect("a guard");
        assert!(first.close().is_empty());
        assert!(git.is_dir(), "another call still needs it");
        assert!(second.close().is_empty());
        assert!(!git.exists());
        fs::create_dir(&git).expect("made");
        assert!(Guard::new(dir, &names(&[".git"])).expect("a guard").close().is_empty());
        assert!(git.is_dir());
    }
}
