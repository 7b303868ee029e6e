//! The lock that an owner of runs holds for life. When it dies, by whatever cause, the kernel frees the lock, and
//! whoever finds it free knows that the owner is dead without waiting for its lease.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use posse_engine::ports::StoreError;

use super::error::from_io;
use super::{files, flock};

/// A random name for an owner.
pub(super) fn random_name() -> Result<String, StoreError> {
    let mut bytes = [0_u8; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| StoreError::Failed(format!("no randomness for the owner's name: {error}")))?;
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}

/// A held lock. Its file goes when it is dropped.
#[derive(Debug)]
pub(super) struct OwnerLock {
    path: PathBuf,
    // Held by being open.
    _file: File,
}

impl OwnerLock {
    /// Makes and takes the lock of `name`. Only under the writers' lock: between making and taking it would look
    /// like a dead owner's, and [`sweep`] would remove it.
    pub(super) fn take(owners: &Path, name: &str) -> Result<Self, StoreError> {
        files::make_dir(owners).map_err(|error| from_io(owners, &error))?;
        let path = lock_path(owners, name);
        let file = files::create(&path)
            .and_then(|file| flock::lock(&file).map(|()| file))
            .map_err(|error| from_io(&path, &error))?;
        Ok(Self { path, _file: file })
    }
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        // A file that stays is only untidy: its lock is free, and the next sweep takes it.
        let _ = files::remove(&self.path);
    }
}

/// Whether [`random_name`] could have drawn this name.
pub(super) fn is_name(name: &str) -> bool {
    name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether the owner of this name lives. If looking fails, it does: its lease decides.
pub(super) fn is_alive(owners: &Path, name: &str) -> bool {
    // The name comes from the database; only one that we could have made may become part of a path.
    if !is_name(name) {
        return false;
    }
    match File::open(lock_path(owners, name)) {
        Ok(file) => !flock::is_free(&file).unwrap_or(false),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// Whether any owner lives.
pub(super) fn is_any_alive(owners: &Path) -> bool {
    let Ok(entries) = fs::read_dir(owners) else { return false };
    let is_held = |path: PathBuf| File::open(path).is_ok_and(|file| !flock::is_free(&file).unwrap_or(false));
    entries.flatten().any(|entry| is_held(entry.path()))
}

/// Removes the lock files of dead owners. Only under the writers' lock.
pub(super) fn sweep(owners: &Path) {
    let Ok(entries) = fs::read_dir(owners) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_dead = File::open(&path).is_ok_and(|file| flock::try_lock(&file).unwrap_or(false));
        if is_dead {
            let _ = files::remove(&path);
        }
    }
}

fn lock_path(owners: &Path, name: &str) -> PathBuf {
    owners.join(format!("{name}.lock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_lives_as_long_as_its_lock() {
        let dir = tempfile::tempdir().unwrap();
        let owners = dir.path().join("owners");
        let name = random_name().unwrap();
        assert!(!is_alive(&owners, &name));
        let lock = OwnerLock::take(&owners, &name).unwrap();
        assert!(is_alive(&owners, &name));
        sweep(&owners);
        assert!(is_alive(&owners, &name), "a living owner's lock was swept");
        drop(lock);
        assert!(!is_alive(&owners, &name));
    }

    #[test]
    fn the_lock_of_a_dead_owner_is_swept() {
        let dir = tempfile::tempdir().unwrap();
        let name = random_name().unwrap();
        files::create(&lock_path(dir.path(), &name)).unwrap();
        assert!(!is_alive(dir.path(), &name));
        sweep(dir.path());
        assert!(!lock_path(dir.path(), &name).exists());
    }

    #[test]
    fn a_planted_name_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_alive(dir.path(), "../../etc/passwd"));
        assert!(!is_alive(dir.path(), ""));
    }
}
