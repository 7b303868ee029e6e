//! Counts how many runs of the stories were replayed: a check that checks nothing must be noticed.
//!
//! Each story writes a line for each of its runs (`tests/replays.rs`), because every test may be a separate process.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use crate::command::metadata;
use crate::{Failure, Outcome};

/// A smaller count means that not all stories were run.
const LEAST: usize = 250;
/// The word for a run that was replayed with the same result.
const REPLAYED: &str = "replayed";

fn counted() -> Result<PathBuf, Failure> {
    let metadata = metadata(&["--no-deps"])?;
    Ok(PathBuf::from(metadata["target_directory"].as_str().unwrap_or("target")).join("tmp/replays"))
}

/// Removes the lines of earlier stories.
pub(crate) fn forget() -> Outcome {
    let path = counted()?;
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::new(format!("cannot remove {}: {error}", path.display())))
        }
        _ => Ok(()),
    }
}

/// Creates the file so that stories of every user can write to it.
pub(crate) fn open_to_all() -> Outcome {
    use std::os::unix::fs::PermissionsExt;
    let path = counted()?;
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    let opened = opened.and_then(|file| file.set_permissions(std::fs::Permissions::from_mode(0o666)));
    opened.map_err(|error| Failure::new(format!("cannot create {}: {error}", path.display())))
}

/// Reports the replays of all stories.
pub(crate) fn tell() -> Outcome {
    let path = counted()?;
    let lines = std::fs::read_to_string(&path).map_err(|error| {
        Failure::new(format!("no story counted its replays in {}: {error}", path.display()))
    })?;
    println!("{}", summary(&lines)?);
    Ok(())
}

/// Counts the lines by result; an error if too few runs were replayed.
fn summary(lines: &str) -> Result<String, Failure> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in lines.lines() {
        *counts.entry(line.split('\t').next().unwrap_or(line)).or_default() += 1;
    }
    let replayed = counts.remove(REPLAYED).unwrap_or(0);
    if replayed < LEAST {
        return Err(Failure::new(format!(
            "only {replayed} runs of the stories were run again from their records, at least {LEAST} must be"
        )));
    }
    let mut text =
        format!("{replayed} runs of the stories were run again from their records and are the same");
    for (reason, count) in counts {
        let _ = write!(text, "\n  {count} not: {reason}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted_by_what_became_of_them() {
        let lines = format!("{}it has not ended\ta::story\n", "replayed\ta::story\n".repeat(LEAST));
        assert!(summary(&lines).unwrap().ends_with("are the same\n  1 not: it has not ended"));
    }

    #[test]
    fn too_few_are_an_error() {
        let failure = summary(&"it has not ended\ta::story\n".repeat(LEAST)).err().unwrap().to_string();
        assert!(failure.starts_with("only 0 runs"), "{failure}");
    }
}
