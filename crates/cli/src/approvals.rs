//! What a person said "always" to, by the directory they said it in: `approvals.json` in the state directory.
//!
//! Only exact literals are kept, never a pattern that was typed; they count in the next runs of the same directory
//! and lift what `--allow` lifts. The file is the person's own: it may be read, and entries may be removed.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use posse::{Approvals, Pattern};
use posse_domain::permission::APPROVALS_MAX;
use serde::{Deserialize, Serialize};

use crate::error::CliError;

const FILE: &str = "approvals.json";
/// Whoever changes the file holds this one; the file itself is replaced.
const LOCK: &str = "approvals.lock";
const VERSION: u32 = 1;
/// Largest file that is read.
const FILE_MAX_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    version: u32,
    directories: BTreeMap<String, Vec<Pattern>>,
}

/// What was said in this directory, given by its whole path.
pub(crate) fn load(state_dir: &Path, dir: &str) -> Result<Approvals, CliError> {
    Ok(read(state_dir)?.directories.remove(dir).unwrap_or_default().into_iter().collect())
}

/// Keeps a literal for this directory.
pub(crate) fn keep(state_dir: &Path, dir: &str, literal: &Pattern) -> Result<(), CliError> {
    let failed = |error: std::io::Error| {
        CliError::failed(format!("{} cannot be written: {error}", state_dir.join(FILE).display()))
    };
    DirBuilder::new().recursive(true).mode(0o700).create(state_dir).map_err(failed)?;
    let lock = own_file(&state_dir.join(LOCK)).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let mut kept = read(state_dir)?;
    let literals = kept.directories.entry(dir.to_owned()).or_default();
    if literals.contains(literal) {
        return Ok(());
    }
    if literals.len() >= APPROVALS_MAX {
        return Err(CliError::failed(format!("{APPROVALS_MAX} approvals are kept for {dir} already"))
            .hint(format!("remove some from {}", state_dir.join(FILE).display())));
    }
    literals.push(literal.clone());
    let text = serde_json::to_vec_pretty(&kept).map_err(|error| CliError::failed(error.to_string()))?;
    replace(state_dir, &text).map_err(failed)
}

fn own_file(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(path)
}

/// The old content or the new, whatever happens meanwhile.
fn replace(state_dir: &Path, text: &[u8]) -> std::io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".approvals-").tempfile_in(state_dir)?;
    file.write_all(text)?;
    file.as_file().sync_all()?;
    file.persist(state_dir.join(FILE)).map_err(|error| error.error)?;
    File::open(state_dir)?.sync_all()
}

fn read(state_dir: &Path) -> Result<Kept, CliError> {
    let path = state_dir.join(FILE);
    let wrong = |problem: String| {
        CliError::usage(format!("{}: {problem}", path.display()))
            .hint("mend the file or remove it; without it every question is asked again")
    };
    let file = match File::open(&path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Kept { version: VERSION, directories: BTreeMap::new() });
        }
        file => file.map_err(|error| wrong(error.to_string()))?,
    };
    let mut text = String::new();
    file.take(FILE_MAX_BYTES).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
    let kept: Kept = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if kept.version != VERSION {
        return Err(wrong(format!("has version {}, and this Posse knows {VERSION}", kept.version)));
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_literal_is_kept_for_its_directory_and_no_other() {
        let dir = tempfile::tempdir().expect("a directory");
        let state = dir.path().join("state");
        assert!(load(&state, "/p").expect("nothing yet").is_empty());
        let literal: Pattern = r"bash:echo \*".parse().expect("pattern");
        keep(&state, "/p", &literal).expect("kept");
        keep(&state, "/p", &literal).expect("kept once");
        keep(&state, "/q", &"read:a".parse().expect("pattern")).expect("kept");
        let kept: Vec<String> = load(&state, "/p").expect("kept").iter().map(ToString::to_string).collect();
        assert_eq!(kept, [r"bash:echo \*"]);
        assert!(load(&state, "/p/sub").expect("another").is_empty());
        let mode = std::fs::metadata(state.join(FILE)).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let left: Vec<_> = std::fs::read_dir(&state).expect("a directory").collect();
        assert_eq!(left.len(), 2, "nothing is left behind: {left:?}");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_an_error_and_is_left_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let literal: Pattern = "bash:ls".parse().expect("pattern");
        for text in
            ["{", r#"{"version":2,"directories":{}}"#, r#"{"version":1,"directories":{"/p":["bash:"]}}"#]
        {
            std::fs::write(dir.path().join(FILE), text).expect("written");
            assert!(load(dir.path(), "/p").is_err(), "{text}");
            assert!(keep(dir.path(), "/p", &literal).is_err(), "{text}");
            assert_eq!(std::fs::read_to_string(dir.path().join(FILE)).expect("text"), text);
        }
    }
}
