//! The life lock, which a lease holder keeps for its whole life. When the process dies, for any reason, the kernel
//! frees the lock. A free lock means a dead lease holder, so its leases need not expire first. The lock file contains
//! the label of its process.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use posse_engine::ports::{StoreError, StorePart};

use super::error::from_io;
use super::{files, flock};

/// Longest label that is stored and read.
const LABEL_MAX_BYTES: usize = 256;

pub(super) fn random_id() -> Result<String, StoreError> {
    let mut bytes = [0_u8; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| StoreError::Failed(format!("no randomness for an id: {error}")))?;
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}

/// A held life lock. Its file is removed when it is dropped.
#[derive(Debug)]
pub(super) struct LifeLock {
    path: PathBuf,
    // The open file holds the lock.
    _file: File,
}

impl LifeLock {
    /// Creates and takes the lock of `id`. The caller must hold the writers' lock: before the lock is taken, its file
    /// looks like that of a dead process, and [`sweep`] would remove it.
    pub(super) fn take(holders: &Path, id: &str, label: &str) -> Result<Self, StoreError> {
        files::make_dir(holders).map_err(|error| from_io(StorePart::Locks, holders, &error))?;
        let path = lock_path(holders, id);
        let take = || -> io::Result<File> {
            let mut file = files::create(&path)?;
            flock::lock(&file)?;
            file.write_all(clipped(label).as_bytes())?;
            Ok(file)
        };
        let file = take().map_err(|error| from_io(StorePart::Locks, &path, &error))?;
        Ok(Self { path, _file: file })
    }
}

impl Drop for LifeLock {
    fn drop(&mut self) {
        // A leftover file is harmless: its lock is free, and the next sweep removes it.
        let _ = files::remove(&self.path);
    }
}

fn clipped(label: &str) -> &str {
    &label[..label.floor_char_boundary(LABEL_MAX_BYTES)]
}

/// The label of a live lease holder. `None` if it stored none, like processes of an older Posse.
pub(super) fn label(holders: &Path, id: &str) -> Option<String> {
    let file = is_id(id).then(|| File::open(lock_path(holders, id)).ok())??;
    let mut bytes = Vec::new();
    file.take(LABEL_MAX_BYTES as u64).read_to_end(&mut bytes).ok()?;
    // The label is printed, and any program of this user could have written it.
    let label: String = String::from_utf8(bytes).ok()?.chars().filter(|c| !c.is_control()).collect();
    (!label.is_empty()).then_some(label)
}

/// Whether [`random_id`] could have drawn this id.
pub(super) fn is_id(id: &str) -> bool {
    id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether the lease holder with this id is alive. If that cannot be determined, it counts as alive, and its lease
/// decides.
pub(super) fn is_alive(holders: &Path, id: &str) -> bool {
    // The id comes from the database. Only an id that this program could have created may become part of a path.
    if !is_id(id) {
        return false;
    }
    match File::open(lock_path(holders, id)) {
        Ok(file) => !flock::is_free(&file).unwrap_or(false),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

pub(super) fn is_any_alive(holders: &Path) -> bool {
    let Ok(entries) = fs::read_dir(holders) else { return false };
    let is_held = |path: PathBuf| File::open(path).is_ok_and(|file| !flock::is_free(&file).unwrap_or(false));
    entries.flatten().any(|entry| is_held(entry.path()))
}

/// Removes the lock files of dead lease holders. The caller must hold the writers' lock.
pub(super) fn sweep(holders: &Path) {
    let Ok(entries) = fs::read_dir(holders) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_dead = File::open(&path).is_ok_and(|file| flock::try_lock(&file).unwrap_or(false));
        if is_dead {
            let _ = files::remove(&path);
        }
    }
}

fn lock_path(holders: &Path, id: &str) -> PathBuf {
    holders.join(format!("{id}.lock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_holder_lives_as_long_as_its_lock() {
        let dir = tempfile::tempdir().unwrap();
        let holders = dir.path().join("holders");
        let id = random_id().unwrap();
        assert!(!is_alive(&holders, &id));
        let lock = LifeLock::take(&holders, &id, "").unwrap();
        assert!(is_alive(&holders, &id));
        sweep(&holders);
        assert!(is_alive(&holders, &id), "the lock of a live process was swept");
        drop(lock);
        assert!(!is_alive(&holders, &id));
    }

    #[test]
    fn the_lock_of_a_dead_lease_holder_is_swept() {
        let dir = tempfile::tempdir().unwrap();
        let id = random_id().unwrap();
        files::create(&lock_path(dir.path(), &id)).unwrap();
        assert!(!is_alive(dir.path(), &id));
        sweep(dir.path());
        assert!(!lock_path(dir.path(), &id).exists());
    }

    #[test]
    fn a_planted_id_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("planted.lock"), "host:1").unwrap();
        for id in ["../../etc/passwd", "", "planted"] {
            assert!(!is_alive(dir.path(), id));
            assert_eq!(label(dir.path(), id), None);
        }
    }

    #[test]
    fn a_label_is_one_short_line() {
        let dir = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            let id = random_id().unwrap();
            let _lock = LifeLock::take(dir.path(), &id, text).unwrap();
            label(dir.path(), &id)
        };
        assert_eq!(read("build-7:4711").as_deref(), Some("build-7:4711"));
        assert_eq!(read("a\u{1b}[31m\nb").as_deref(), Some("a[31mb"));
        assert_eq!(read(""), None);
        assert_eq!(read(&"ä".repeat(LABEL_MAX_BYTES)).map(|label| label.len()), Some(LABEL_MAX_BYTES));
    }
}
