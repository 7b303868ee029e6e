//! Whether the files of a workspace have reached the disk.
//!
//! Syncing thousands of new files takes longer than writing them, and an agent need not wait for it: only a machine
//! that stops can lose what was written, and one that has stopped has another boot id. So a workspace is synced behind
//! the agent's back, when it has been made and whenever it has been committed; a file beside it names the commit whose
//! files are known to be on the disk. In another boot a workspace whose line has moved on from there may have files
//! without content, or as they were before, which must not be taken for work.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Mode, OFlags};

use super::{Oid, WorkspaceError, disk};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// The file that names the commit whose files are on the disk, and what it is called while it is written.
const MARK: &str = "synced";
const NEXT_MARK: &str = "synced.next";

/// What the kernel calls this boot; none if it does not say.
pub(crate) fn boot_id() -> Option<String> {
    fs::read_to_string(BOOT_ID).ok().map(|id| id.trim().to_owned())
}

/// Syncs everything on the filesystem of `dir`.
pub(crate) fn now(dir: &Path) -> Result<(), WorkspaceError> {
    let opened = File::open(dir).map_err(disk::failed("syncing", dir))?;
    rustix::fs::syncfs(&opened).map_err(|errno| WorkspaceError::io("syncing", dir, &errno.into()))
}

/// The commit whose files are known to be on the disk in the workspace in `home`.
pub(crate) fn commit(home: &Path) -> Option<Oid> {
    fs::read_to_string(home.join(MARK)).ok()?.trim_end().parse().ok()
}

/// What has to be synced: workspaces and their commits.
#[derive(Default)]
struct SyncQueue {
    homes: Vec<(File, Oid)>,
    at_work: bool,
}

static WAITING: Mutex<SyncQueue> = Mutex::new(SyncQueue { homes: Vec::new(), at_work: false });

/// Syncs the workspace in `home`, which has the files of `commit`, in the background, unless that was done. If it
/// fails the workspace is as if it had not been tried.
pub(crate) fn soon(home: &Path, commit: &Oid) {
    if self::commit(home).as_ref() == Some(commit) {
        return;
    }
    let Ok(home) = File::open(home) else { return };
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.homes.push((home, *commit));
    if waiting.at_work {
        return;
    }
    waiting.at_work = std::thread::Builder::new().name("posse-sync".to_owned()).spawn(work).is_ok();
}

/// Syncs what waits until nothing does; one sync for all that came meanwhile.
fn work() {
    loop {
        let homes = {
            let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.at_work = !waiting.homes.is_empty();
            if !waiting.at_work {
                return;
            }
            std::mem::take(&mut waiting.homes)
        };
        let mut synced = Vec::new();
        for (home, commit) in homes {
            let Ok(device) = rustix::fs::fstat(&home).map(|stat| stat.st_dev) else { continue };
            if synced.contains(&device) || rustix::fs::syncfs(&home).is_ok() {
                synced.push(device);
                // A mark that is not written is none.
                drop(mark(&home, &commit));
            }
        }
    }
}

/// In the directory that was synced, wherever it has been moved meanwhile.
fn mark(home: &File, commit: &Oid) -> std::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    let file = rustix::fs::openat(home, NEXT_MARK, flags, Mode::RUSR | Mode::WUSR)?;
    writeln!(File::from(file), "{commit}")?;
    Ok(rustix::fs::renameat(home, NEXT_MARK, home, MARK)?)
}
