//! How far an operation on many files is, for those who wait for it: in this process and in others.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use posse_engine::ports::{FilesOperation, FilesProgress, FilesProgressReceiver};
use tokio::sync::watch;

/// How often progress is reported.
const REPORTED_EVERY: Duration = Duration::from_millis(200);
/// Longest report in a file: three numbers.
const REPORT_MAX_BYTES: usize = 72;

/// How many files are done, of how many, and how many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FilesDone {
    pub(crate) done: u64,
    pub(crate) total: u64,
    pub(crate) bytes: u64,
}

impl FilesDone {
    /// Reads the report of another process.
    pub(crate) fn read(file: &File) -> Option<Self> {
        let mut buffer = [0; REPORT_MAX_BYTES];
        let length = file.read_at(&mut buffer, 0).ok()?;
        let mut numbers = std::str::from_utf8(&buffer[..length]).ok()?.split_whitespace();
        let mut number = || numbers.next()?.parse().ok();
        Some(Self { done: number()?, total: number()?, bytes: number()? })
    }

    /// Writes a report for other processes. The numbers have a fixed width, so that each report replaces the last one.
    fn write(self, file: &File) {
        // Without it others wait all the same.
        let report = format!("{:20} {:20} {:20}\n", self.done, self.total, self.bytes);
        let _ = file.write_at(report.as_bytes(), 0);
    }
}

/// Where the operations of this process report how far they are.
#[derive(Debug, Clone)]
pub(crate) struct ProgressReports(Arc<watch::Sender<Option<FilesProgress>>>);

impl Default for ProgressReports {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
}

impl ProgressReports {
    pub(crate) fn subscribe(&self) -> FilesProgressReceiver {
        self.0.subscribe()
    }

    /// The reports of one operation for a run.
    pub(crate) fn of(&self, run: &str, operation: FilesOperation) -> OperationReports {
        OperationReports { to: self.clone(), run: run.to_owned(), operation, has_reported: false }
    }
}

/// The reports of one operation. The last one is withdrawn when this is dropped.
#[derive(Debug)]
pub(crate) struct OperationReports {
    to: ProgressReports,
    run: String,
    operation: FilesOperation,
    has_reported: bool,
}

impl OperationReports {
    pub(crate) fn report(&mut self, FilesDone { done, total, bytes }: FilesDone) {
        let (run, operation) = (self.run.clone(), self.operation);
        self.has_reported = true;
        self.to.0.send_replace(Some(FilesProgress { run, operation, done, total, bytes }));
    }
}

impl Drop for OperationReports {
    fn drop(&mut self) {
        if self.has_reported {
            // Another operation may have reported since.
            self.to.0.send_if_modified(|last| {
                let is_own = last
                    .as_ref()
                    .is_some_and(|last| last.run == self.run && last.operation == self.operation);
                if is_own {
                    *last = None;
                }
                is_own
            });
        }
    }
}

/// Counts the files of one operation.
pub(crate) struct FilesCounter {
    total: u64,
    done: AtomicU64,
    bytes: AtomicU64,
    /// When the last report was made, and where reports go in this process, if an agent waits for the operation.
    reports: Mutex<(Instant, Option<OperationReports>)>,
    /// Where reports are written for other processes.
    files: Vec<File>,
}

impl FilesCounter {
    /// Reports are also written to `files`.
    pub(crate) fn new<'a>(
        total: usize,
        reports: Option<OperationReports>,
        files: impl IntoIterator<Item = &'a File>,
    ) -> Self {
        Self {
            total: total as u64,
            done: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            reports: Mutex::new((Instant::now(), reports)),
            files: files.into_iter().filter_map(|file| file.try_clone().ok()).collect(),
        }
    }

    /// Counts files that are done. Their bytes are counted apart.
    pub(crate) fn add(&self, files: usize) {
        self.done.fetch_add(files as u64, Ordering::Relaxed);
        self.report();
    }

    /// Counts bytes that are done.
    pub(crate) fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.report();
    }

    fn report(&self) {
        // A thread that would wait lets another one report.
        let Ok(mut reports) = self.reports.try_lock() else { return };
        let (last, reports) = &mut *reports;
        if last.elapsed() < REPORTED_EVERY {
            return;
        }
        *last = Instant::now();
        let (done, bytes) = (self.done.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
        let now = FilesDone { done, total: self.total, bytes };
        self.files.iter().for_each(|file| now.write(file));
        if let Some(reports) = reports {
            reports.report(now);
        }
    }
}

/// Counts the bytes that are read of a file.
pub(crate) struct CountedReader<'a> {
    pub(crate) from: &'a mut dyn Read,
    pub(crate) counter: Option<&'a FilesCounter>,
}

impl Read for CountedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        if let Some(counter) = self.counter {
            counter.add_bytes(read as u64);
        }
        Ok(read)
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
        assert_eq!(FilesDone::read(&file), None);
        let longest = FilesDone { done: u64::MAX, total: u64::MAX, bytes: u64::MAX };
        for report in [longest, FilesDone { done: 7, total: 8, bytes: 9 }] {
            report.write(&file);
            assert_eq!(FilesDone::read(&file), Some(report));
        }
    }

    #[test]
    fn the_last_report_of_an_operation_is_withdrawn_when_it_ends() {
        let reports = ProgressReports::default();
        let seen = reports.subscribe();
        let mut operation = reports.of("run", FilesOperation::LayOut);
        operation.report(FilesDone { done: 7, total: 8, bytes: 9 });
        let operation_name = FilesOperation::LayOut;
        let report =
            FilesProgress { run: "run".to_owned(), operation: operation_name, done: 7, total: 8, bytes: 9 };
        assert_eq!(*seen.borrow(), Some(report));
        drop(reports.of("another", FilesOperation::Read));
        assert!(seen.borrow().is_some(), "an operation without reports withdraws none");
        drop(operation);
        assert_eq!(*seen.borrow(), None);
    }

    #[test]
    fn a_large_file_is_reported_before_it_is_done() {
        let reports = ProgressReports::default();
        let seen = reports.subscribe();
        let counter = FilesCounter::new(1, Some(reports.of("run", FilesOperation::Read)), []);
        // As if the last report was long ago.
        let long_ago = Instant::now().checked_sub(REPORTED_EVERY).expect("the machine runs longer than that");
        counter.reports.lock().expect("no other thread").0 = long_ago;
        let mut content: &[u8] = &[0; 5_000];
        let mut reader = CountedReader { from: &mut content, counter: Some(&counter) };
        reader.read_exact(&mut [0; 4_096]).expect("read");
        let report = seen.borrow().clone().expect("a report");
        assert_eq!((report.done, report.total, report.bytes), (0, 1, 4_096));
    }
}
