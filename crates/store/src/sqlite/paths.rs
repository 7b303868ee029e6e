//! The paths of the files of one store.

use std::path::{Path, PathBuf};

use posse_engine::ports::StorePart;

#[derive(Debug, Clone)]
pub(super) struct Paths {
    pub(super) dir: PathBuf,
    /// The database. Its WAL is beside it.
    pub(super) database: PathBuf,
    /// First lock of the writers' turnstile.
    pub(super) queue_lock: PathBuf,
    /// Second lock of the writers' turnstile.
    pub(super) writers_lock: PathBuf,
    /// Touched after every commit, to wake other processes.
    pub(super) wake: PathBuf,
    /// One lock file per live lease holder.
    pub(super) holders: PathBuf,
    /// Blobs that are too long for the database.
    pub(super) blobs: PathBuf,
}

impl Paths {
    pub(super) fn new(dir: &Path) -> Self {
        // SQLite would parse a relative path that starts with `file:` as a URI.
        let dir = if dir.is_relative() { &Path::new(".").join(dir) } else { dir };
        Self {
            dir: dir.to_owned(),
            database: dir.join("posse.db"),
            queue_lock: dir.join("writers.queue"),
            writers_lock: dir.join("writers.lock"),
            wake: dir.join("wake"),
            holders: dir.join("owners"),
            blobs: dir.join("blobs"),
        }
    }

    pub(super) fn of_part(self, part: StorePart) -> PathBuf {
        match part {
            StorePart::Store => self.dir,
            StorePart::Journal => self.database,
            StorePart::Blobs => self.blobs,
            StorePart::Locks => self.writers_lock,
        }
    }
}
