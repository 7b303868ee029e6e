//! Shows how far long operations on files are, such as the first layout of a large project.

use posse::{FilesOperation, FilesProgress, FilesProgressReceiver};

use crate::output::note;
use crate::text::{bytes, count};

/// Without a terminal, one line is printed for each of this many parts of an operation, and for each of this many bytes.
const PARTS: u64 = 4;
const PART_BYTES: u64 = 1 << 30;

/// The next report; waits forever if there will be none.
pub(crate) async fn next_report(reports: &mut Option<FilesProgressReceiver>) -> Option<FilesProgress> {
    let Some(receiver) = reports else { return std::future::pending().await };
    if receiver.changed().await.is_err() {
        *reports = None;
        return None;
    }
    receiver.borrow_and_update().clone()
}

/// A report in one line.
pub(super) fn text(report: &FilesProgress) -> String {
    let (done, total, size) = (count(report.done), count(report.total), bytes(report.bytes));
    match report.operation {
        FilesOperation::Read => format!("reading the project's files: {done} of {total} ({size})"),
        FilesOperation::LayOut => {
            format!("laying out the project's files, once for all agents: {done} of {total} ({size})")
        }
    }
}

/// Prints some reports as lines.
#[derive(Debug, Default)]
pub(super) struct ProgressLines {
    /// How many parts of each operation were done at its last line.
    printed: Vec<(FilesOperation, u64)>,
}

impl ProgressLines {
    pub(super) fn print(&mut self, report: Option<&FilesProgress>) {
        if let Some(line) = self.line(report) {
            note(&line);
        }
    }

    /// The line to print for a report, if a part was done since the last one.
    fn line(&mut self, report: Option<&FilesProgress>) -> Option<String> {
        let Some(report) = report else {
            self.printed.clear();
            return None;
        };
        let part = report.done * PARTS / report.total.max(1) + report.bytes / PART_BYTES;
        let printed = self.printed.iter_mut().find(|(operation, _)| *operation == report.operation);
        match printed {
            Some((_, last)) if *last >= part => return None,
            Some((_, last)) => *last = part,
            None => self.printed.push((report.operation, part)),
        }
        Some(text(report))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(operation: FilesOperation, done: u64, bytes: u64) -> FilesProgress {
        FilesProgress { run: "k3f9ab2c".to_owned(), operation, done, total: 10_000, bytes }
    }

    #[test]
    fn without_a_terminal_a_line_is_printed_for_each_gibibyte_of_a_large_file() {
        let mut lines = ProgressLines::default();
        let sizes = [1 << 20, 900 << 20, 1_500 << 20, 1_600 << 20, 3 << 30];
        let printed: Vec<String> = sizes
            .iter()
            .filter_map(|size| lines.line(Some(&report(FilesOperation::Read, 0, *size))))
            .collect();
        let expected = ["0 of 10.0k (1.0 MiB)", "0 of 10.0k (1.4 GiB)", "0 of 10.0k (3.0 GiB)"];
        assert_eq!(printed, expected.map(|text| format!("reading the project's files: {text}")));
    }

    #[test]
    fn without_a_terminal_a_line_is_printed_for_each_quarter() {
        let mut lines = ProgressLines::default();
        let mut printed = Vec::new();
        for operation in [FilesOperation::Read, FilesOperation::LayOut] {
            for done in [1, 2_000, 2_500, 4_999, 9_999] {
                printed.extend(lines.line(Some(&report(operation, done, done * 1_024))));
            }
            printed.extend(lines.line(None));
        }
        let expected = [
            "reading the project's files: 1 of 10.0k (1.0 KiB)",
            "reading the project's files: 2500 of 10.0k (2.4 MiB)",
            "reading the project's files: 9999 of 10.0k (9.7 MiB)",
            "laying out the project's files, once for all agents: 1 of 10.0k (1.0 KiB)",
            "laying out the project's files, once for all agents: 2500 of 10.0k (2.4 MiB)",
            "laying out the project's files, once for all agents: 9999 of 10.0k (9.7 MiB)",
        ];
        assert_eq!(printed, expected);
    }
}
