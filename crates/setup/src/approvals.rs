//! What a person said "always" to, by the directory they said it in: `approvals.json` in the state directory.
//!
//! [`posse::Posse::answer`] stores such an answer through [`FileApprovals`], whichever front end it came from.
//!
//! Only exact literals are kept, never a pattern that was typed; they count in the next runs of the same directory
//! and lift what `--allow` lifts. The file is the person's own: it may be read, and entries may be removed.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};

use posse::{ApprovalStore, Approvals, Pattern};
use posse_domain::permission::APPROVALS_MAX;
use serde::{Deserialize, Serialize};

use crate::error::SetupError;
use crate::user_file::KeptFile;

const FILE: KeptFile =
    KeptFile { name: "approvals.json", lock: "approvals.lock", without: "every question is asked again" };

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredApprovals {
    directories: BTreeMap<String, Vec<Pattern>>,
}

/// What was said in this directory, given by its whole path.
pub fn load(state_dir: &Path, dir: &str) -> Result<Approvals, SetupError> {
    let mut kept: StoredApprovals = FILE.read(state_dir)?;
    Ok(kept.directories.remove(dir).unwrap_or_default().into_iter().collect())
}

/// The approvals in a state directory.
#[derive(Debug)]
pub struct FileApprovals {
    state_dir: PathBuf,
}

impl FileApprovals {
    /// Those in this state directory.
    pub fn new(state_dir: &Path) -> Self {
        Self { state_dir: state_dir.to_owned() }
    }
}

impl ApprovalStore for FileApprovals {
    fn keep(&self, dir: &str, literal: &Pattern) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(keep(&self.state_dir, dir, literal)?)
    }
}

/// Keeps a literal for this directory.
fn keep(state_dir: &Path, dir: &str, literal: &Pattern) -> Result<(), SetupError> {
    FILE.change(state_dir, |kept: &mut StoredApprovals| {
        let literals = kept.directories.entry(dir.to_owned()).or_default();
        if literals.contains(literal) {
            return Ok(());
        }
        if literals.len() >= APPROVALS_MAX {
            return Err(SetupError::failed(format!("{APPROVALS_MAX} approvals are kept for {dir} already"))
                .hint(format!("remove some from {}", state_dir.join(FILE.name).display())));
        }
        literals.push(literal.clone());
        Ok(())
    })
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
        let mode = std::fs::metadata(state.join(FILE.name)).expect("a file").permissions().mode();
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
            std::fs::write(dir.path().join(FILE.name), text).expect("written");
            assert!(load(dir.path(), "/p").is_err(), "{text}");
            assert!(keep(dir.path(), "/p", &literal).is_err(), "{text}");
            assert_eq!(std::fs::read_to_string(dir.path().join(FILE.name)).expect("text"), text);
        }
    }
}
