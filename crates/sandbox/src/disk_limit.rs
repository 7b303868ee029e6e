//! Limits the disk usage of a run's files while its commands run.
//!
//! Measuring every file is slow; querying the free space of a filesystem is fast. So all files are measured only when
//! the free space has shrunk by as much as the run had left, and at intervals. Programs are paused during a
//! measurement, so that the overshoot is what they write between two polls. Files that were removed but are still open
//! are found through the processes of the commands.
//!
//! Why it is like this: `docs/decisions/workspace-disk-limit.md`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::slot::Exit;
use super::spec::Limits;
use super::unlinked;
use posse_files::trees::bytes_beneath;

/// How often the free space is queried.
pub(super) const POLL: Duration = Duration::from_millis(50);
/// By how much a run may exceed its limit before its commands are ended: what programs write between two polls.
pub const OVERSHOOT_MAX_BYTES: u64 = 256 << 20;
/// How much larger than the remaining space a single file may become, so that the excess is noticed.
const FILE_SLACK_BYTES: u64 = 1 << 20;
/// How often all files are measured without a hint: other programs may free the space that a run takes.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// A shell adds this to the number of a signal that ended a program.
const SHELL_SAYS_SIGNAL: i32 = 128;
/// Measuring takes at most one part in this many of the time.
const LOOK_SHARE: u32 = 20;

/// The disk limit of the files beneath a directory. Shared by all commands that write there.
#[derive(Debug)]
pub struct DiskLimit {
    dir: PathBuf,
    max_bytes: u64,
    known: Mutex<Option<DiskUsage>>,
    /// The inits of the commands that write there now.
    inits: Mutex<Vec<Pid>>,
}

/// The result of the last measurement.
#[derive(Debug, Clone, Copy)]
struct DiskUsage {
    bytes: u64,
    /// The part in unlinked files, which is freed when the command that holds them ends.
    held: u64,
    /// The free space at that time.
    free: u64,
    at: Instant,
    took: Duration,
}

impl DiskUsage {
    /// An upper bound of the usage, given the current free space.
    fn estimate(&self, free: u64) -> u64 {
        self.bytes.saturating_add(self.free.saturating_sub(free))
    }
}

impl DiskLimit {
    /// Measures nothing before the first command.
    pub fn new(dir: impl Into<PathBuf>, max_bytes: u64) -> Self {
        Self { dir: dir.into(), max_bytes, known: Mutex::default(), inits: Mutex::default() }
    }

    /// The limit in bytes.
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    fn known(&self) -> Option<DiskUsage> {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An upper bound of the usage, from the current free space; `None` before the first measurement.
    fn estimate(&self) -> Option<u64> {
        self.known().map(|known| known.estimate(free(&self.dir)))
    }

    /// Measures all files, including unlinked ones, and returns their usage. On failure, the last result stays, plus
    /// all space that was lost since; `None` if there is none.
    fn measure(&self) -> Option<u64> {
        let inits = self.inits.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (began, free) = (Instant::now(), free(&self.dir));
        let Ok(named) = bytes_beneath(&self.dir) else {
            return known.map(|known| known.estimate(free));
        };
        let held = unlinked::bytes_held(&inits);
        let bytes = named.saturating_add(held);
        *known = Some(DiskUsage { bytes, held, free, at: Instant::now(), took: began.elapsed() });
        Some(bytes)
    }

    fn is_due(&self) -> bool {
        self.known().is_none_or(|known| known.at.elapsed() > LOOK_EVERY.max(known.took * LOOK_SHARE))
    }
}

fn free(dir: &Path) -> u64 {
    rustix::fs::statvfs(dir).map_or(0, |stat| stat.f_bfree.saturating_mul(stat.f_frsize))
}

/// Watches one command.
#[derive(Debug)]
pub(super) struct Watch {
    disk_limit: Arc<DiskLimit>,
    /// The usage when the command began.
    used: u64,
    /// The usage that ends the command. In a run over its limit, a command may still remove files, and add next to
    /// nothing.
    limit: u64,
    /// The largest file that the command may write.
    pub(super) file_bytes: u64,
    /// The process that runs it.
    init: Option<Pid>,
}

impl Watch {
    pub(super) fn begin(disk_limit: &Arc<DiskLimit>) -> Self {
        let estimated = disk_limit.estimate().filter(|estimate| *estimate <= disk_limit.max_bytes);
        // Unknown usage counts as full, because an unenforceable limit must allow nothing.
        let used = estimated.or_else(|| disk_limit.measure()).unwrap_or(disk_limit.max_bytes);
        let limit = disk_limit.max_bytes.max(used.saturating_add(FILE_SLACK_BYTES));
        let file_bytes = disk_limit.max_bytes.saturating_sub(used).saturating_add(FILE_SLACK_BYTES);
        Self { disk_limit: disk_limit.clone(), used, limit, file_bytes, init: None }
    }

    /// Sets the process that runs the command. Files that its descendants hold open count too.
    pub(super) fn held_by(&mut self, init: Pid) {
        self.init = Some(init);
        self.disk_limit.inits.lock().unwrap_or_else(PoisonError::into_inner).push(init);
    }

    /// Whether too much was written. `pause` is called before a measurement that the free space suggests.
    pub(super) fn is_over(&self, pause: impl FnOnce()) -> bool {
        let seems_over = self.disk_limit.estimate().is_none_or(|estimate| estimate > self.limit);
        if seems_over {
            pause();
        }
        let is_looked_at = seems_over || self.disk_limit.is_due();
        is_looked_at && self.disk_limit.measure().is_none_or(|bytes| bytes > self.limit)
    }

    /// The same at the end of a command, when nothing writes any more.
    pub(super) fn is_over_at_the_end(&self) -> bool {
        let seems_over =
            self.disk_limit.estimate().is_none_or(|estimate| estimate > self.disk_limit.max_bytes);
        let max_bytes = self.disk_limit.max_bytes.max(self.used);
        seems_over && self.disk_limit.measure().is_none_or(|bytes| bytes > max_bytes)
    }

    /// Whether a program ended because a file would have exceeded the run's remaining space.
    pub(super) fn explains(&self, exit: Exit, limits: &Limits) -> bool {
        let too_large = [Exit::Signal(libc::SIGXFSZ), Exit::Code(SHELL_SAYS_SIGNAL + libc::SIGXFSZ)];
        self.file_bytes < limits.file_bytes && too_large.contains(&exit)
    }

    pub(super) fn max_bytes(&self) -> u64 {
        self.disk_limit.max_bytes
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut inits = self.disk_limit.inits.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = inits.iter().position(|init| Some(*init) == self.init) {
            inits.remove(at);
        }
        drop(inits);
        // The unlinked files are freed now and would count against the next command.
        let mut known = self.disk_limit.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known = known.filter(|known| known.held == 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_looked_at_is_what_was_known_or_too_much() {
        let dir = tempfile::tempdir().expect("a directory");
        // A name beyond the limit of the kernel, so the directory cannot be opened.
        let never = Arc::new(DiskLimit::new(dir.path().join("n".repeat(300)), 1 << 20));
        assert_eq!(never.measure(), None);
        assert!(Watch::begin(&never).is_over(|| ()), "nothing is known");
        let known =
            DiskUsage { bytes: 7, held: 0, free: free(&never.dir), at: Instant::now(), took: Duration::ZERO };
        *never.known.lock().expect("no panic") = Some(known);
        assert_eq!(never.measure(), Some(7));
        assert!(!Watch::begin(&never).is_over(|| ()), "it was little");
    }

    #[test]
    fn what_a_command_held_does_not_count_against_the_next() {
        let dir = tempfile::tempdir().expect("a directory");
        let disk_limit = Arc::new(DiskLimit::new(dir.path(), 1 << 20));
        let watch = Watch::begin(&disk_limit);
        let known = disk_limit.known().expect("looked at");
        *disk_limit.known.lock().expect("no panic") =
            Some(DiskUsage { bytes: 1 << 19, held: 1 << 19, ..known });
        drop(watch);
        assert!(Watch::begin(&disk_limit).file_bytes > 1 << 20);
    }
}
