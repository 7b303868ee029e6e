//! Outputs that were too long for an answer: kept in files beside the journal, and read by range.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use posse_domain::hash::Hash;
use posse_domain::id::AgentId;

/// How a path begins that means a kept output and no file of the workspace.
pub(crate) const PREFIX: &str = "@output/";

/// Where commands find the agent's kept outputs.
pub(crate) const OUTPUTS_SHOWN_AT: &str = "/run/output";
/// How much of a kept output is in memory at once.
const CHUNK: usize = 64 * 1024;
/// Longest name that is taken over from a call's id.
const NAME_MAX_BYTES: usize = 64;
/// How many outputs of one name are kept apart.
const SAME_NAME_MAX: u32 = 10_000;

/// Where long outputs are kept: a directory for each agent.
#[derive(Debug, Clone)]
pub struct Outputs(Arc<PathBuf>);

impl Outputs {
    /// Beneath this directory.
    pub fn beneath(dir: impl Into<PathBuf>) -> Self {
        Self(Arc::new(dir.into()))
    }

    /// The directory of an agent. Nobody else's outputs are in it.
    pub(crate) fn of(&self, agent: &AgentId) -> PathBuf {
        self.0.join(agent.run().to_string()).join("output").join(agent.to_string())
    }

    /// The kept output of that name, if it is the agent's own.
    pub(crate) fn find(&self, agent: &AgentId, name: &str) -> Option<PathBuf> {
        let stem = name.strip_suffix(".txt")?;
        let file = self.of(agent).join(name);
        (plain_name(stem) == stem && file.is_file()).then_some(file)
    }

    /// Where processes of a run are written down.
    pub(crate) fn records(&self, agent: &AgentId) -> PathBuf {
        records(&self.0, &agent.run().to_string())
    }

    /// A file for the output of a call, under a name that was not used yet.
    pub(crate) fn file(&self, agent: &AgentId, call_id: &str) -> PathBuf {
        let (dir, name) = (self.of(agent), plain_name(call_id));
        let names = (1..SAME_NAME_MAX).map(|number| match number {
            1 => dir.join(format!("{name}.txt")),
            number => dir.join(format!("{name}-{number}.txt")),
        });
        // The last is used again rather than to fail.
        let mut file = dir.join(format!("{name}.txt"));
        for candidate in names {
            file = candidate;
            if !file.exists() {
                break;
            }
        }
        file
    }
}

/// Some lines of a kept output.
pub(crate) struct OutputLines {
    /// The lines, each cut to a length.
    pub(crate) shown: Vec<String>,
    /// How many lines there are in all.
    pub(crate) total: usize,
    /// Whether one that is shown was cut.
    pub(crate) cut: bool,
}

/// Reads some lines of a file that may be far larger than memory should be, with lines as long as it.
pub(crate) fn lines(
    file: &Path,
    first: usize,
    count: usize,
    line_max_bytes: usize,
) -> io::Result<OutputLines> {
    let mut reader = BufReader::with_capacity(CHUNK, File::open(file)?);
    let mut lines = OutputLines { shown: Vec::new(), total: 0, cut: false };
    let (mut line, mut whole) = (Vec::new(), true);
    loop {
        let chunk = reader.fill_buf()?;
        if chunk.is_empty() {
            break;
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let part = &chunk[..end.unwrap_or(chunk.len())];
        let wanted = (first..first + count).contains(&(lines.total + 1));
        if wanted {
            let room = line_max_bytes - line.len();
            whole &= part.len() <= room;
            line.extend_from_slice(&part[..part.len().min(room)]);
        }
        let taken = part.len() + usize::from(end.is_some());
        reader.consume(taken);
        let ended = end.is_some() || reader.fill_buf()?.is_empty();
        if ended {
            lines.total += 1;
            if wanted {
                let mut text = String::from_utf8_lossy(&line).into_owned();
                if !std::mem::replace(&mut whole, true) {
                    text.push_str("[…]");
                    lines.cut = true;
                }
                lines.shown.push(text);
                line.clear();
            }
        }
    }
    Ok(lines)
}

/// Where the processes of a run are written down, beneath the directory of all runs.
pub fn records(runs: &Path, run: &str) -> PathBuf {
    runs.join(run).join("sandboxes")
}

/// What a call's id is as the name of a file. Ids come from models and may be anything.
pub(crate) fn plain_name(call_id: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !call_id.is_empty() && call_id.len() <= NAME_MAX_BYTES && call_id.chars().all(plain) {
        call_id.to_owned()
    } else {
        Hash::of(call_id.as_bytes()).to_string().chars().filter(|c| plain(*c)).take(16).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_no_way_out_of_the_directory() {
        for id in ["..", "../../x", "/etc/passwd", "a/b", "", "\0", &"x".repeat(65), "ü"] {
            let name = plain_name(id);
            assert!(name.len() == 16 && !name.contains(['/', '.']), "{id}: {name}");
        }
        assert_eq!(plain_name("toolu_01-A"), "toolu_01-A");
    }

    #[test]
    fn lines_are_found_however_long_they_are() {
        let top = tempfile::tempdir().unwrap();
        let file = top.path().join("out");
        let long = "x".repeat(3 * CHUNK);
        std::fs::write(&file, format!("one\n{long}\n\nfour\nlast")).unwrap();
        let read = |first, count| {
            let lines = lines(&file, first, count, 10).unwrap();
            (lines.shown, lines.total)
        };
        let cut = format!("{}[…]", "x".repeat(10));
        assert_eq!(read(1, 2), (vec!["one".to_owned(), cut.clone()], 5));
        assert_eq!(read(2, 2), (vec![cut, String::new()], 5));
        assert_eq!(read(5, 9), (vec!["last".to_owned()], 5));
        assert_eq!(read(6, 9), (vec![], 5));
        std::fs::write(&file, "").unwrap();
        assert_eq!(read(1, 9), (vec![], 0));
    }

    #[test]
    fn no_output_replaces_another() {
        let top = tempfile::tempdir().unwrap();
        let outputs = Outputs::beneath(top.path());
        let agent: AgentId = "k3f9ab2c.1".parse().unwrap();
        for expected in ["c1.txt", "c1-2.txt", "c1-3.txt"] {
            let file = outputs.file(&agent, "c1");
            assert!(
                file.ends_with(Path::new("k3f9ab2c/output/k3f9ab2c.1").join(expected)),
                "{}",
                file.display()
            );
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
    }
}
