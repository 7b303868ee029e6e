//! Keeps protected names that do not exist from being made.
//!
//! The box mounts what exists over itself, read-only. For what does not exist there has to be something to mount on:
//! an empty directory, made before the call and removed after it. Its mode says whose it is, so whoever comes later
//! removes one that a crash left behind, and an empty directory of a person's own stays.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

/// The mode of a placeholder: nobody makes such a directory by chance.
const MODE: u32 = 0o1000;

/// The placeholders of one call.
pub(super) struct Placeholders {
    workspace: PathBuf,
    protected: Vec<PathBuf>,
    /// Held shared by every call in the workspace: only the last one removes.
    lock: File,
}

impl Placeholders {
    /// Makes what is missing.
    pub(super) fn make(workspace: &str, protected: &[String]) -> io::Result<Self> {
        let lock = File::open(workspace)?;
        rustix::fs::flock(&lock, FlockOperation::LockShared)?;
        let workspace = PathBuf::from(workspace);
        let protected: Vec<PathBuf> = protected.iter().map(PathBuf::from).collect();
        let made = Self { workspace, protected, lock };
        for name in &made.protected {
            if let Err(error) = made.make_one(name) {
                made.remove();
                return Err(error);
            }
        }
        Ok(made)
    }

    fn make_one(&self, name: &Path) -> io::Result<()> {
        let mut path = self.workspace.clone();
        for part in name {
            path.push(part);
            match fs::symlink_metadata(&path) {
                Ok(metadata) if metadata.is_dir() => {}
                // A file or a link where a directory would be: nothing can be made beneath it.
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match fs::DirBuilder::new().mode(MODE).create(&path) {
                        Ok(()) => {}
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                        // Where this process may not make it, the program may not either.
                        Err(error)
                            if matches!(
                                error.kind(),
                                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                            ) =>
                        {
                            return Ok(());
                        }
                        Err(error) => return Err(error),
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Removes them, unless another call still needs them.
    pub(super) fn remove(&self) {
        if rustix::fs::flock(&self.lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return;
        }
        for name in &self.protected {
            // From the inside out. A directory that is not empty stays, and so do those around it.
            for path in name.ancestors().filter(|part| !part.as_os_str().is_empty()) {
                let path = self.workspace.join(path);
                let ours = fs::symlink_metadata(&path)
                    .is_ok_and(|metadata| metadata.is_dir() && metadata.mode() & 0o7777 == MODE);
                if !ours || fs::remove_dir(&path).is_err() {
                    break;
                }
            }
        }
    }
}
