//! Syncs the files of workspaces to disk in the background, and records which commit is synced.
//!
//! Syncing thousands of new files takes longer than writing them, and an agent need not wait for it. Only a machine
//! crash can lose written files, and then the boot id changes. So a workspace is synced in the background after it is
//! created and after each commit. A file beside it names the last synced commit. In another boot, a workspace whose
//! work ref has moved beyond that commit may have empty or outdated files, which must not be mistaken for work.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use super::{ObjectId, RepositoryError, disk};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// The directory name for unsynced packs, and for checkouts, if the kernel does not report a boot id. Checkouts are
/// synced then.
pub(crate) const UNKNOWN_BOOT: &str = "any";
/// How long requests are gathered before a sync.
const GATHERED_FOR: Duration = Duration::from_millis(500);
/// The file that names the synced commit, and its temporary name.
const MARK: &str = "synced";
const NEXT_MARK: &str = "synced.next";

/// The kernel's id of this boot; `None` if it is unavailable. It is read once: a process does not outlive its boot.
pub(crate) fn boot_id() -> Option<String> {
    static READ: OnceLock<Option<String>> = OnceLock::new();
    READ.get_or_init(|| fs::read_to_string(BOOT_ID).ok().map(|id| id.trim().to_owned())).clone()
}

/// Syncs everything on the filesystem of `dir`.
pub(crate) fn now(dir: &Path) -> Result<(), RepositoryError> {
    let opened = File::open(dir).map_err(disk::failed("syncing", dir))?;
    rustix::fs::syncfs(&opened).map_err(|errno| RepositoryError::io("syncing", dir, &errno.into()))
}

/// The synced commit of the workspace in `home`.
pub(crate) fn commit(home: &Path) -> Option<ObjectId> {
    fs::read_to_string(home.join(MARK)).ok()?.trim_end().parse().ok()
}

/// The queue of workspaces and commits to sync.
#[derive(Default)]
struct SyncQueue {
    homes: Vec<(File, ObjectId)>,
    at_work: bool,
}

static WAITING: Mutex<SyncQueue> = Mutex::new(SyncQueue { homes: Vec::new(), at_work: false });

/// Syncs the workspace in `home`, which has the files of `commit`, in the background, unless that was done. A failure
/// leaves it marked as not synced.
pub(crate) fn soon(home: &Path, commit: &ObjectId) {
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

/// Records that the workspace in `home` has nothing to sync at this commit.
pub(crate) fn mark_as_synced(home: &Path, commit: &ObjectId) -> Result<(), RepositoryError> {
    let path = home.join(MARK);
    fs::write(&path, format!("{commit}\n")).map_err(disk::failed("writing", &path))
}

/// Records that it is not known what of the workspace in `home` is synced.
pub(crate) fn forget(home: &Path) -> Result<(), RepositoryError> {
    let path = home.join(MARK);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(RepositoryError::io("removing", &path, &error))
        }
        _ => Ok(()),
    }
}

/// Syncs until the queue is empty, with one sync for all entries that arrived meanwhile.
fn work() {
    loop {
        // A sync of the whole filesystem delays those that agents wait for, so there is none for each of many merges.
        std::thread::park_timeout(GATHERED_FOR);
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
                // A missing mark means not synced.
                drop(mark(&home, &commit));
            }
        }
    }
}

/// Writes the mark to the synced directory, which may have been moved meanwhile.
fn mark(home: &File, commit: &ObjectId) -> std::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    let file = rustix::fs::openat(home, NEXT_MARK, flags, Mode::RUSR | Mode::WUSR)?;
    File::from(file).write_all(format!("{commit}\n").as_bytes())?;
    Ok(rustix::fs::renameat(home, NEXT_MARK, home, MARK)?)
}
