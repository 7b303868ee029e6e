//! Stores outputs that are too long for an answer in files beside the journal, and reads them by range.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use posse_domain::hash::Hash;
use posse_domain::id::AgentId;
use posse_engine::ports::{RecordError, RunRecords};

/// The prefix of a path that means a kept output and not a file of the workspace.
pub(crate) const PREFIX: &str = "@output/";

/// The mount point of the agent's kept outputs in a sandbox.
pub(crate) const OUTPUTS_SHOWN_AT: &str = "/run/output";
/// Buffer size for reading a kept output.
const CHUNK: usize = 64 * 1024;
/// Maximum length of a call's id that is used as a file name.
const NAME_MAX_BYTES: usize = 64;
/// Maximum number of kept outputs with the same name.
const SAME_NAME_MAX: u32 = 10_000;

/// The kept output with this name, if it belongs to the agent.
pub(crate) async fn find(
    records: &dyn RunRecords,
    agent: &AgentId,
    name: &str,
) -> Result<Option<PathBuf>, RecordError> {
    match name.strip_suffix(".txt") {
        Some(stem) if plain_name(stem) == stem => records.find_output(agent, name).await,
        _ => Ok(None),
    }
}

/// A new file for the output of a call, under an unused name.
pub(crate) fn new_file(records: &dyn RunRecords, agent: &AgentId, call_id: &str) -> PathBuf {
    let (dir, name) = (records.output_dir(agent), plain_name(call_id));
    let names = (1..SAME_NAME_MAX).map(|number| match number {
        1 => dir.join(format!("{name}.txt")),
        number => dir.join(format!("{name}-{number}.txt")),
    });
    // The last name is reused rather than failing.
    let mut file = dir.join(format!("{name}.txt"));
    for candidate in names {
        file = candidate;
        if !file.exists() {
            break;
        }
    }
    file
}

/// Some lines of a kept output.
pub(crate) struct OutputLines {
    /// The lines, each shortened if it is long.
    pub(crate) shown: Vec<String>,
    /// The number of lines in the whole output.
    pub(crate) total: usize,
    /// Whether a shown line was shortened.
    pub(crate) cut: bool,
}

/// Reads some lines of a file that may be far too large for memory, as may each of its lines.
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

/// Converts a call's id to a file name. Ids come from models and may contain anything.
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
        let records = posse_sandbox::LocalRecords::new(top.path());
        let agent: AgentId = "k3f9ab2c.1".parse().unwrap();
        for expected in ["c1.txt", "c1-2.txt", "c1-3.txt"] {
            let file = new_file(&records, &agent, "c1");
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
