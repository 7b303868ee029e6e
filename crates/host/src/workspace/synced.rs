//! Whether the files of a workspace have reached the disk.
//!
//! Syncing thousands of new files takes longer than writing them, and an agent need not wait for it: only a machine
//! that stops can lose what was written, and one that has stopped has another boot id. So a workspace is synced behind
//! the agent's back. One that was made before the machine stopped and was not synced by then may have files without
//! content, which must not be taken for work: it is set aside and made anew.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::{WorkspaceError, disk};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// The file that says that a workspace has been synced.
const MARK: &str = "synced";

/// What the kernel calls this boot; none if it does not say.
pub(crate) fn boot_id() -> Option<String> {
    fs::read_to_string(BOOT_ID).ok().map(|id| id.trim().to_owned())
}

fn mark_of(home: &Path) -> PathBuf {
    home.join(MARK)
}

/// Syncs everything on the filesystem of `dir`.
pub(crate) fn now(dir: &Path) -> Result<(), WorkspaceError> {
    let opened = File::open(dir).map_err(disk::failed("syncing", dir))?;
    rustix::fs::syncfs(&opened).map_err(|errno| WorkspaceError::io("syncing", dir, &errno.into()))
}

/// Syncs the workspace in `home` in the background, unless that was done. If it fails the workspace is as if it had not
/// been tried.
pub(crate) fn soon(home: &Path) {
    if mark_of(home).exists() {
        return;
    }
    let Ok(home) = File::open(home) else { return };
    let work = move || {
        if rustix::fs::syncfs(&home).is_ok() {
            // In the directory that was synced, wherever it has been moved meanwhile.
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
            drop(rustix::fs::openat(&home, MARK, flags, Mode::RUSR | Mode::WUSR));
        }
    };
    drop(std::thread::Builder::new().name("posse-sync".to_owned()).spawn(work));
}

/// Whether the machine stopped before the workspace in `home`, made under the boot `then`, was synced.
pub(crate) fn is_torn(home: &Path, then: Option<&str>, now: Option<&str>) -> bool {
    !mark_of(home).exists() && (now.is_none() || now != then)
}
