//! How far a layout of many files is, for those who wait for it: in this process and in others.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often progress is reported.
const REPORTED_EVERY: Duration = Duration::from_millis(200);
/// Longest report in a file: two numbers.
const REPORT_MAX_BYTES: usize = 48;

/// How many files are laid out, of how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaidOut {
    pub(crate) done: u64,
    pub(crate) total: u64,
}

impl LaidOut {
    /// Reads the report of another process.
    pub(crate) fn read(file: &File) -> Option<Self> {
        let mut buffer = [0; REPORT_MAX_BYTES];
        let length = file.read_at(&mut buffer, 0).ok()?;
        let mut numbers = std::str::from_utf8(&buffer[..length]).ok()?.split_whitespace();
        let mut number = || numbers.next()?.parse().ok();
        Some(Self { done: number()?, total: number()? })
    }

    /// Writes a report for other processes. The numbers have a fixed width, so that each report replaces the last one.
    fn write(self, file: &File) {
        // Without it others wait all the same.
        let _ = file.write_at(format!("{:20} {:20}\n", self.done, self.total).as_bytes(), 0);
    }
}

/// Counts the files of one layout.
pub(crate) struct LayoutProgress {
    total: u64,
    done: AtomicU64,
    /// When the last report was made.
    reported: Mutex<Instant>,
    /// Where reports are written.
    files: Vec<File>,
}

impl LayoutProgress {
    /// Reports are written to `files`.
    pub(crate) fn new<'a>(total: usize, files: impl Iterator<Item = &'a File>) -> Self {
        Self {
            total: total as u64,
            done: AtomicU64::new(0),
            reported: Mutex::new(Instant::now()),
            files: files.filter_map(|file| file.try_clone().ok()).collect(),
        }
    }

    /// Counts files that were laid out.
    pub(crate) fn add(&self, files: usize) {
        let done = self.done.fetch_add(files as u64, Ordering::Relaxed) + files as u64;
        // A thread that would wait lets another one report.
        let Ok(mut reported) = self.reported.try_lock() else { return };
        if reported.elapsed() < REPORTED_EVERY {
            return;
        }
        *reported = Instant::now();
        let laid_out = LaidOut { done, total: self.total };
        self.files.iter().for_each(|file| laid_out.write(file));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_reads_what_was_reported() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("report");
        let file = File::options().read(true).write(true).create_new(true).open(path).expect("made");
        assert_eq!(LaidOut::read(&file), None);
        for report in [LaidOut { done: 9_999, total: 100_000 }, LaidOut { done: 7, total: 8 }] {
            report.write(&file);
            assert_eq!(LaidOut::read(&file), Some(report));
        }
    }
}
