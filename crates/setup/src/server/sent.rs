//! Up to where the events of each run were sent by a webhook: `webhook.jsonl` in the state directory.
//!
//! The journal has what is to be sent; this file only has a number for each run. It is written after a delivery, so a
//! server that is killed in between delivers again, and never less than once.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use posse::RunId;
use posse::atomic_file::{self, ExistingFile, PRIVATE};
use serde::{Deserialize, Serialize};

use crate::error::SetupError;

const FILE: &str = "webhook.jsonl";

/// The first line of the file, or a line of one run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    /// Runs that ended before are not reported.
    Since {
        since_ms: i64,
    },
    Sent {
        run: RunId,
        seq: u64,
    },
}

/// What was sent.
#[derive(Debug)]
pub struct SentEvents {
    path: PathBuf,
    file: File,
    since_ms: i64,
    sent: BTreeMap<RunId, u64>,
}

impl SentEvents {
    /// Reads the file, or begins it now. Only what is kept of `is_known` runs stays in it.
    pub fn open(
        state_dir: &Path,
        now_ms: i64,
        is_known: impl Fn(&RunId) -> bool,
    ) -> Result<Self, SetupError> {
        let path = state_dir.join(FILE);
        let failed = |error: std::io::Error| SetupError::failed(format!("{}: {error}", path.display()));
        let (mut since_ms, mut sent) = (now_ms, BTreeMap::new());
        match File::open(&path) {
            Ok(file) => {
                for line in BufReader::new(file).lines() {
                    // A line that a crash has cut off was about an event that is sent again.
                    match serde_json::from_str(&line.map_err(failed)?) {
                        Ok(Line::Since { since_ms: since }) => since_ms = since,
                        Ok(Line::Sent { run, seq }) => drop(sent.insert(run, seq)),
                        Err(_) => {}
                    }
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        sent.retain(|run, _| is_known(run));
        let written = atomic_file::write(&path, PRIVATE, ExistingFile::Replace, |file| {
            write_line(file, &Line::Since { since_ms })?;
            sent.iter()
                .try_for_each(|(run, seq)| write_line(file, &Line::Sent { run: run.clone(), seq: *seq }))
        });
        written.map_err(failed)?;
        let file = OpenOptions::new().append(true).mode(PRIVATE).open(&path).map_err(failed)?;
        Ok(Self { path, file, since_ms, sent })
    }

    /// Since when runs are reported, in milliseconds since 1970.
    pub fn since_ms(&self) -> i64 {
        self.since_ms
    }

    /// The number of the last event of a run that needs not be looked at again.
    pub fn of(&self, run: &RunId) -> u64 {
        self.sent.get(run).copied().unwrap_or(0)
    }

    /// Records that everything up to this event was sent, durably.
    pub fn record(&mut self, run: &RunId, seq: u64) -> Result<(), SetupError> {
        let failed = |error: std::io::Error| SetupError::failed(format!("{}: {error}", self.path.display()));
        write_line(&mut self.file, &Line::Sent { run: run.clone(), seq }).map_err(failed)?;
        self.file.sync_data().map_err(failed)?;
        self.sent.insert(run.clone(), seq);
        Ok(())
    }
}

fn write_line(file: &mut File, line: &Line) -> std::io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    file.write_all(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_known_after_a_crash_in_the_middle_of_a_line() {
        let dir = tempfile::tempdir().expect("a directory");
        let (one, two): (RunId, RunId) =
            ("k3f9ab2c".parse().expect("a run"), "a3f9ab2c".parse().expect("a run"));
        let mut sent = SentEvents::open(dir.path(), 5, |_| true).expect("new");
        assert_eq!((sent.since_ms(), sent.of(&one)), (5, 0));
        for seq in [3, 9] {
            sent.record(&one, seq).expect("recorded");
        }
        sent.record(&two, 4).expect("recorded");
        let mut file = OpenOptions::new().append(true).open(dir.path().join(FILE)).expect("a file");
        file.write_all(b"{\"run\":\"k3f9ab2c\",\"se").expect("written");
        drop((sent, file));
        let again = SentEvents::open(dir.path(), 99, |run| *run == one).expect("read");
        assert_eq!((again.since_ms(), again.of(&one), again.of(&two)), (5, 9, 0));
        let text = std::fs::read_to_string(dir.path().join(FILE)).expect("text");
        assert_eq!(text.lines().count(), 2, "it is compacted: {text}");
    }
}
