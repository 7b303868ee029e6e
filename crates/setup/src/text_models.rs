//! Remembers which models have no tool calls: `text_models` in the state directory, one name per line.
//!
//! It is only a cache. If a line is missing, the first call of a model finds out again. The file may be removed at any
//! time.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use posse::TextModels;

const FILE: &str = "text_models";
/// How much of the file is read.
const FILE_MAX_BYTES: u64 = 1024 * 1024;

/// Loads the names, and appends new ones to the file.
pub(crate) fn load(state_dir: &Path) -> TextModels {
    let path = state_dir.join(FILE);
    let mut text = String::new();
    if let Ok(file) = File::open(&path) {
        // An unreadable file counts as empty.
        drop(file.take(FILE_MAX_BYTES).read_to_string(&mut text));
    }
    let names: Vec<String> = text.lines().filter(|line| line.contains('/')).map(str::to_owned).collect();
    TextModels::new(names, move |name| {
        // A line is written in one call, so that lines of several processes do not mix.
        let line = format!("{name}\n");
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
            tracing::warn!(%error, "what was found out about {name} is not remembered");
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_file_is_remembered_and_damage_is_not() {
        let dir = tempfile::tempdir().expect("a folder");
        assert!(load(dir.path()).remembered().is_empty());
        std::fs::write(dir.path().join(FILE), "ollama/gemma:2b\n\nno name\nollama/tiny\n").expect("a file");
        assert_eq!(load(dir.path()).remembered(), ["ollama/gemma:2b", "ollama/tiny"]);
        std::fs::write(dir.path().join(FILE), b"ollama/\xff").expect("a file");
        assert!(load(dir.path()).remembered().is_empty());
    }
}
