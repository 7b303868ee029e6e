//! Writes the record of a running call, so that a new lease holder can find and end it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use rustix::fs::FlockOperation;
use rustix::process::Pid;

use super::super::process_record::{CallProcesses, ProcessIdentity};

/// A record, locked while any process of the call is alive.
pub(super) struct Record {
    path: PathBuf,
    file: File,
}

impl Record {
    pub(super) fn open(path: &str) -> io::Result<Self> {
        let path = PathBuf::from(path);
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let record = Self { path, file };
        record.note(None);
        Ok(record)
    }

    /// Records the running processes. If that fails, a new lease holder waits for the lock alone, which is slower and
    /// equally safe.
    pub(super) fn note(&self, first: Option<Pid>) {
        let recorded = CallProcesses {
            boot: super::super::process_record::boot_id(),
            init: ProcessIdentity::of(rustix::process::getpid()),
            first: first.and_then(ProcessIdentity::of),
        };
        if let Ok(text) = serde_json::to_vec(&recorded) {
            // A reader of a partial record reads it again.
            let _ = self.file.set_len(0);
            let _ = self.file.write_all_at(&text, 0);
        }
    }

    pub(super) fn close(self) {
        let _ = fs::remove_file(&self.path);
    }
}
