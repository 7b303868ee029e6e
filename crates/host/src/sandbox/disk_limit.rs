//! What the files of a run may take on disk together, while its commands run.
//!
//! Looking at every file is slow, asking a filesystem how much is free is not. So all files are looked at only when the
//! free space has become less by as much as the run had left, and now and then. Programs are paused while it is looked,
//! so that what is written too much is what is written between two questions.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::slot::Exit;
use super::spec::Limits;
use crate::trees::bytes_beneath;

/// How often the free space is asked for.
pub(super) const POLL: Duration = Duration::from_millis(50);
/// By how much a run may exceed its limit before its commands are ended: what programs write between two questions.
pub const OVERSHOOT_MAX_BYTES: u64 = 256 << 20;
/// How much larger than what is left a single file may become, so that reaching the limit is noticed.
const FILE_SLACK_BYTES: u64 = 1 << 20;
/// How often all files are looked at though nothing tells that it is needed: others may free what a run takes.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// What a shell adds to the number of a signal that ended a program.
const SHELL_SAYS_SIGNAL: i32 = 128;
/// Looking takes at most this part of the time.
const LOOK_SHARE: u32 = 20;

/// What the files beneath a directory may take on disk. Shared by all commands that write there.
#[derive(Debug)]
pub struct DiskLimit {
    dir: PathBuf,
    max_bytes: u64,
    known: Mutex<Option<Known>>,
}

/// What was found when all files were last looked at.
#[derive(Debug, Clone, Copy)]
struct Known {
    bytes: u64,
    /// How much was free then.
    free: u64,
    at: Instant,
    took: Duration,
}

impl DiskLimit {
    /// Nothing is looked at before the first command.
    pub fn new(dir: impl Into<PathBuf>, max_bytes: u64) -> Self {
        Self { dir: dir.into(), max_bytes, known: Mutex::default() }
    }

    /// How many bytes they may take.
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    fn known(&self) -> Option<Known> {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What they take at most, by what is free now; none if they were never looked at.
    fn estimate(&self) -> Option<u64> {
        let known = self.known()?;
        Some(known.bytes.saturating_add(known.free.saturating_sub(free(&self.dir))))
    }

    /// Looks at all files. What cannot be looked at counts as nothing.
    fn measure(&self) -> u64 {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (began, free) = (Instant::now(), free(&self.dir));
        let bytes = bytes_beneath(&self.dir).unwrap_or_default();
        *known = Some(Known { bytes, free, at: Instant::now(), took: began.elapsed() });
        bytes
    }

    fn is_due(&self) -> bool {
        self.known().is_none_or(|known| known.at.elapsed() > LOOK_EVERY.max(known.took * LOOK_SHARE))
    }
}

fn free(dir: &Path) -> u64 {
    rustix::fs::statvfs(dir).map_or(0, |stat| stat.f_bfree.saturating_mul(stat.f_frsize))
}

/// One command that is watched.
#[derive(Debug)]
pub(super) struct Watch {
    disk_limit: Arc<DiskLimit>,
    /// What they took when it began.
    used: u64,
    /// What ends it. A run that takes too much already may still remove files, and add next to nothing.
    limit: u64,
    /// The largest file that it may write.
    pub(super) file_bytes: u64,
}

impl Watch {
    pub(super) fn begin(disk_limit: &Arc<DiskLimit>) -> Self {
        let estimated = disk_limit.estimate().filter(|estimate| *estimate <= disk_limit.max_bytes);
        let used = estimated.unwrap_or_else(|| disk_limit.measure());
        let limit = disk_limit.max_bytes.max(used.saturating_add(FILE_SLACK_BYTES));
        let file_bytes = disk_limit.max_bytes.saturating_sub(used).saturating_add(FILE_SLACK_BYTES);
        Self { disk_limit: disk_limit.clone(), used, limit, file_bytes }
    }

    /// Whether too much was written; `pause` is called before all files are looked at because it seems so.
    pub(super) fn is_over(&self, pause: impl FnOnce()) -> bool {
        let seems_over = self.disk_limit.estimate().is_none_or(|estimate| estimate > self.limit);
        if seems_over {
            pause();
        }
        (seems_over || self.disk_limit.is_due()) && self.disk_limit.measure() > self.limit
    }

    /// The same at the end of a command, when nothing writes any more.
    pub(super) fn is_over_at_the_end(&self) -> bool {
        let seems_over =
            self.disk_limit.estimate().is_none_or(|estimate| estimate > self.disk_limit.max_bytes);
        seems_over && self.disk_limit.measure() > self.disk_limit.max_bytes.max(self.used)
    }

    /// Whether a program ended because a file would have become larger than what the run has left.
    pub(super) fn explains(&self, exit: Exit, limits: &Limits) -> bool {
        let too_large = [Exit::Signal(libc::SIGXFSZ), Exit::Code(SHELL_SAYS_SIGNAL + libc::SIGXFSZ)];
        self.file_bytes < limits.file_bytes && too_large.contains(&exit)
    }

    pub(super) fn max_bytes(&self) -> u64 {
        self.disk_limit.max_bytes
    }
}
