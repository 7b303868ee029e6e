//! Whether other calls work in the same workspace at the same time.
//!
//! Alone, what a call finds under a protected name is the person's. Beside another call it may be that one's, about to be
//! put aside by its guard, with room for something new under the name.

use std::fs::{self, File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

/// Where the locks of a user are, one for each workspace. Not in the workspace: programs lock what they find there.
fn place() -> PathBuf {
    Path::new("/tmp").join(format!(".posse-{}", rustix::process::geteuid().as_raw()))
}

/// A call's share in its workspace.
pub(super) struct Neighbours {
    /// Whether nobody else was there when it began.
    pub(super) alone: bool,
    /// Held shared while it runs.
    _lock: Option<File>,
}

impl Neighbours {
    /// Joins those who work in a directory. If that cannot be found out, there may be others.
    pub(super) fn join(workspace: &OwnedFd) -> Self {
        let Some(lock) = open(workspace) else { return Self { alone: false, _lock: None } };
        let alone = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        // Whoever holds it alone does so only for this moment.
        let shared = rustix::fs::flock(&lock, FlockOperation::LockShared).is_ok();
        Self { alone: alone && shared, _lock: Some(lock) }
    }
}

fn open(workspace: &OwnedFd) -> Option<File> {
    let dir = place();
    // Somebody else's directory is not believed.
    let _ = fs::DirBuilder::new().mode(0o700).create(&dir);
    let made = fs::symlink_metadata(&dir).ok()?;
    let own = rustix::process::geteuid().as_raw();
    if !made.is_dir() || made.uid() != own || made.mode() & 0o077 != 0 {
        return None;
    }
    let known = rustix::fs::fstat(workspace).ok()?;
    let name = dir.join(format!("{}-{}", known.st_dev, known.st_ino));
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(name).ok()
}
