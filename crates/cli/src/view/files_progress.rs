//! Shows how far long operations on files are, such as the first layout of a large project.

use posse::{FilesOperation, FilesProgress, FilesProgressReceiver};

use crate::output::note;
use crate::text::count;

/// Without a terminal, one line is printed for each of this many parts of an operation.
const PARTS: u64 = 4;

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
    let (done, total) = (count(report.done), count(report.total));
    match report.operation {
        FilesOperation::Read => format!("reading the project's files: {done} of {total}"),
        FilesOperation::LayOut => {
            format!("laying out the project's files, once for all agents: {done} of {total}")
        }
    }
}

/// Prints some reports as lines.
#[derive(Debug, Default)]
pub(super) struct ProgressLines {
    /// How many parts of each operation are printed.
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
        let part = report.done * PARTS / report.total.max(1);
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

    #[test]
    fn without_a_terminal_a_line_is_printed_for_each_quarter() {
        let mut lines = ProgressLines::default();
        let mut printed = Vec::new();
        for operation in [FilesOperation::Read, FilesOperation::LayOut] {
            for done in [1, 2_000, 2_500, 4_999, 9_999] {
                let report = FilesProgress { run: "k3f9ab2c".to_owned(), operation, done, total: 10_000 };
                printed.extend(lines.line(Some(&report)));
            }
            printed.extend(lines.line(None));
        }
        let expected = [
            "reading the project's files: 1 of 10.0k",
            "reading the project's files: 2500 of 10.0k",
            "reading the project's files: 9999 of 10.0k",
            "laying out the project's files, once for all agents: 1 of 10.0k",
            "laying out the project's files, once for all agents: 2500 of 10.0k",
            "laying out the project's files, once for all agents: 9999 of 10.0k",
        ];
        assert_eq!(printed, expected);
    }
}
