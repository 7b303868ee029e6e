//! Whether the files of a workspace have reached the disk.
//!
//! Syncing thousands of new files takes longer than writing them, and an agent need not wait for it: only a machine
//! that stops can lose what was written, and one that has stopped has another boot id. So a workspace is synced behind
//! the agent's back. One that was made before the machine stopped and was not synced by then may have files without
//! content, which must not be taken for work: it is set aside and made anew.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::{WorkspaceError, disk};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What the kernel calls this boot; none if it does not say.
pub(crate) fn boot_id() -> Option<String> {
    fs::read_to_string(BOOT_ID).ok().map(|id| id.trim().to_owned())
}

fn mark_of(home: &Path) -> PathBuf {
    home.join("synced")
}

/// Syncs the workspace in `home` in the background, unless that was done. If it fails the workspace is as if it had not
/// been tried.
pub(crate) fn soon(home: &Path) {
    let mark = mark_of(home);
    if mark.exists() {
        return;
    }
    let home = home.to_owned();
    let work = move || {
        let synced = File::open(&home).map(|dir| rustix::fs::syncfs(&dir));
        if matches!(synced, Ok(Ok(()))) {
            drop(File::create(mark));
        }
    };
    drop(std::thread::Builder::new().name("posse-sync".to_owned()).spawn(work));
}

/// Whether the machine stopped before the workspace in `home`, made under `boot`, was synced.
pub(crate) fn is_torn(home: &Path, boot: Option<&str>) -> bool {
    let now = boot_id();
    !mark_of(home).exists() && (now.is_none() || now.as_deref() != boot)
}

/// Puts a torn workspace where nobody takes it for one; it is kept for whoever wants to look.
pub(crate) fn set_aside(home: &Path) -> Result<(), WorkspaceError> {
    let name = home.file_name().unwrap_or_default().to_string_lossy();
    let aside = disk::temporary(&home.with_file_name(format!("torn-{name}")));
    fs::rename(home, &aside).map_err(disk::failed("setting aside", home))
}
