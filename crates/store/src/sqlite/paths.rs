//! Where a store keeps what.

use std::path::{Path, PathBuf};

/// The files of one store.
#[derive(Debug, Clone)]
pub(super) struct Paths {
    /// The store's directory.
    pub(super) dir: PathBuf,
    /// The database; its WAL lies beside it.
    pub(super) database: PathBuf,
    /// First lock of the writers' turnstile.
    pub(super) queue_lock: PathBuf,
    /// Second lock of the writers' turnstile.
    pub(super) writers_lock: PathBuf,
    /// Touched after every commit, so that other processes look.
    pub(super) wake: PathBuf,
    /// One lock file per living owner.
    pub(super) owners: PathBuf,
    /// Blobs too long for the database.
    pub(super) blobs: PathBuf,
}

impl Paths {
    pub(super) fn new(dir: &Path) -> Self {
        // SQLite would take a relative path that starts with `file:` for a URI.
        let dir = if dir.is_relative() { &Path::new(".").join(dir) } else { dir };
        Self {
            dir: dir.to_owned(),
            database: dir.join("posse.db"),
            queue_lock: dir.join("writers.queue"),
            writers_lock: dir.join("writers.lock"),
            wake: dir.join("wake"),
            owners: dir.join("owners"),
            blobs: dir.join("blobs"),
        }
    }
}
