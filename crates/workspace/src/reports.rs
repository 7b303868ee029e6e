//! Writes the reports of sub-agents to files in the run's directory, where users open them with any program. The journal
//! has the texts, so files are written when a user asks for them and a run never waits for them.
//!
//! Why it is like this: `docs/decisions/reports-on-demand.md`.

use std::collections::HashSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use posse_engine::ports::{ReportFile, WorkspaceError};

use super::{RepositoryError, disk};

/// Writes each report to its path in the folder of its parent, beneath `dir`.
pub(super) fn write(dir: &Path, reports: &[ReportFile]) -> Result<(), WorkspaceError> {
    let mut made = HashSet::new();
    reports.iter().try_for_each(|report| save(dir, report, &mut made))
}

/// `made` contains the folders that exist already.
fn save(dir: &Path, report: &ReportFile, made: &mut HashSet<PathBuf>) -> Result<(), WorkspaceError> {
    let ReportFile { parent, path, text } = report;
    if !Path::new(path).components().all(|part| matches!(part, Component::Normal(_))) {
        let problem = format!("`{path}` is not a path beneath the run's state");
        return Err(WorkspaceError::Unsupported(problem));
    }
    let file = dir.join(parent.to_string()).join(path);
    // Users open it with any program, so it must not contain terminal escapes.
    let text = posse_domain::printable::clean(text);
    if has_length(&file, text.len()) {
        return Ok(());
    }
    let folder = file.parent().unwrap_or(dir);
    if !made.contains(folder) {
        fs::create_dir_all(folder).map_err(disk::failed("creating", folder))?;
        made.insert(folder.to_owned());
    }
    fs::write(&file, text.as_bytes()).map_err(|error| RepositoryError::io("writing", &file, &error).into())
}

/// A report never changes once its agent has ended, so a file of another length was cut off while it was written.
fn has_length(file: &Path, bytes: usize) -> bool {
    fs::symlink_metadata(file).is_ok_and(|found| found.is_file() && found.len() == bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(parent: &str, path: &str, text: &str) -> ReportFile {
        let parent = parent.parse().expect("an agent id");
        ReportFile { parent, path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn every_report_has_its_file_in_the_folder_of_its_parent() {
        let dir = tempfile::tempdir().expect("a directory");
        let reports = [
            report("k3f9ab2c", ".posse/0.md", "of 1"),
            report("k3f9ab2c.1", ".posse/0.md", "\u{1b}[1mof 1.1"),
        ];
        write(dir.path(), &reports).expect("written");
        let text = |name: &str| fs::read_to_string(dir.path().join(name)).expect("a file");
        assert_eq!(text("k3f9ab2c/.posse/0.md"), "of 1");
        assert_eq!(text("k3f9ab2c.1/.posse/0.md"), "of 1.1", "no terminal escapes");
    }

    #[test]
    fn a_file_that_was_cut_off_is_written_again_and_a_whole_one_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let reports = [report("k3f9ab2c", "0.md", "whole"), report("k3f9ab2c", "1.md", "whole")];
        write(dir.path(), &reports).expect("written");
        let (cut, same) = (dir.path().join("k3f9ab2c/0.md"), dir.path().join("k3f9ab2c/1.md"));
        fs::write(&cut, "who").expect("cut");
        let before = fs::metadata(&same).expect("a file").modified().expect("a time");
        write(dir.path(), &reports).expect("written again");
        assert_eq!(fs::read_to_string(&cut).expect("a file"), "whole");
        assert_eq!(fs::metadata(&same).expect("a file").modified().expect("a time"), before);
    }

    #[test]
    fn no_report_is_written_outside_of_its_folder() {
        let dir = tempfile::tempdir().expect("a directory");
        for path in ["../x", "/x", "a/../../x"] {
            let out = write(dir.path(), &[report("k3f9ab2c", path, "x")]);
            assert!(
                out.is_err_and(|problem| problem.to_string().contains("is not a path beneath")),
                "{path}"
            );
        }
        assert!(!dir.path().join("x").exists());
    }
}
