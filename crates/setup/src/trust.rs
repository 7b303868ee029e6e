//! Stores which files of projects a user trusts: `trust.json` in the state directory.
//!
//! A project may only narrow until the user trusts exactly its content: each file by its whole path and the hash of its
//! content. A file that is changed, moved or copied is not trusted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use posse::api::TrustState;
use posse_domain::hash::Hash;
use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::error::{Remedy, SetupError};
use crate::user_file::KeptFile;

const FILE: KeptFile =
    KeptFile { name: "trust.json", lock: "trust.lock", without: "no file of a project is trusted" };
/// Limit of trusted files.
const FILES_MAX: usize = 20_000;

/// The files that a user trusts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trust {
    /// Each file by its whole path, with the hash of the shown content.
    files: BTreeMap<PathBuf, Hash>,
}

impl Trust {
    /// Loads the user's trust; empty if the file does not exist. A damaged file is an error.
    pub fn load(environment: &Environment) -> Result<Self, SetupError> {
        Ok(FILE.read(environment.state_dir()?)?)
    }

    /// Whether the user trusts exactly this content of this file, given by its canonical path. Further files that trust
    /// covers are only read if the user was ever asked.
    pub fn holds(&self, file: &Path, covered: impl FnOnce() -> Option<Hash>) -> bool {
        self.files.contains_key(file) && self.standing(file, covered()) == TrustState::Trusted
    }

    /// Whether the user trusts a file, given the hash of everything that trust in it covers; `None` if that cannot be
    /// read.
    pub fn standing(&self, file: &Path, covered: Option<Hash>) -> TrustState {
        match self.files.get(file) {
            Some(hash) if Some(*hash) == covered => TrustState::Trusted,
            Some(_) => TrustState::Changed,
            None => TrustState::New,
        }
    }

    /// Stores that these contents are trusted. Trust in other files stays.
    pub fn add(state_dir: &Path, shown: Vec<(PathBuf, Hash)>) -> Result<(), SetupError> {
        FILE.change(state_dir, |kept: &mut Trust| {
            kept.files.extend(shown);
            if kept.files.len() > FILES_MAX {
                return Err(SetupError::failed(format!("more than {FILES_MAX} files would be trusted"))
                    .remedy(Remedy::RevokeTrust));
            }
            Ok(())
        })
    }

    /// Revokes the trust of everything beneath a directory, and returns the number of files.
    pub fn revoke(state_dir: &Path, dir: &Path) -> Result<usize, SetupError> {
        let mut taken = 0;
        FILE.change(state_dir, |kept: &mut Trust| {
            let before = kept.files.len();
            kept.files.retain(|file, _| !file.starts_with(dir));
            taken = before - kept.files.len();
            Ok::<_, SetupError>(())
        })?;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn load(state_dir: &Path) -> Result<Trust, SetupError> {
        Ok(FILE.read(state_dir)?)
    }

    #[test]
    fn only_the_exact_content_at_its_place_is_trusted() {
        let dir = tempfile::tempdir().expect("a directory");
        let state = dir.path().join("state");
        assert_eq!(load(&state).expect("nothing yet"), Trust::default());
        let file = |name: &str| PathBuf::from("/p").join(name);
        Trust::add(&state, vec![(file("a"), Hash::of(b"one")), (file("b"), Hash::of(b"two"))]).expect("kept");
        let trust = load(&state).expect("kept");
        assert!(trust.holds(&file("a"), || Some(Hash::of(b"one"))));
        assert!(!trust.holds(&file("a"), || Some(Hash::of(b"One"))), "another content");
        assert!(!trust.holds(&file("c"), || Some(Hash::of(b"one"))), "another place");
        assert_eq!(trust.standing(&file("a"), Some(Hash::of(b""))), TrustState::Changed);
        assert_eq!(trust.standing(&file("c"), Some(Hash::of(b""))), TrustState::New);
        Trust::add(&state, vec![(file("a"), Hash::of(b"three"))]).expect("kept");
        let trust = load(&state).expect("kept");
        assert!(
            !trust.holds(&file("a"), || Some(Hash::of(b"one"))),
            "the content before is not trusted any more"
        );
        assert!(
            trust.holds(&file("a"), || Some(Hash::of(b"three")))
                && trust.holds(&file("b"), || Some(Hash::of(b"two")))
        );
        let mode = std::fs::metadata(state.join(FILE.name)).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn trust_is_taken_back_from_a_directory_and_from_no_other() {
        let dir = tempfile::tempdir().expect("a directory");
        let paths = ["/p/a", "/p/b/c", "/pp/a"].map(|path| (PathBuf::from(path), Hash::of(b"x")));
        Trust::add(dir.path(), paths.to_vec()).expect("kept");
        assert_eq!(Trust::revoke(dir.path(), Path::new("/p")).expect("taken"), 2);
        let left = load(dir.path()).expect("kept");
        assert_eq!(left.files.keys().collect::<Vec<_>>(), [Path::new("/pp/a")]);
    }

    #[test]
    fn two_writers_at_once_keep_what_both_said() {
        let dir = tempfile::tempdir().expect("a directory");
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let state = dir.path();
                scope.spawn(move || {
                    for number in 0..8 {
                        let path = PathBuf::from(format!("/{writer}/{number}"));
                        Trust::add(state, vec![(path, Hash::of(b"x"))]).expect("kept");
                    }
                });
            }
        });
        assert_eq!(load(dir.path()).expect("kept").files.len(), 32);
    }

    #[test]
    fn a_damaged_file_is_an_error_and_nothing_is_trusted_or_overwritten() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(FILE.name);
        for text in [
            "{",
            "[]",
            r#"{"files": {}}"#,
            r#"{"version": 2, "files": {}}"#,
            r#"{"version": 1, "files": {"/a": "not a hash"}}"#,
            r#"{"version": 1, "files": {}, "more": 1}"#,
        ] {
            std::fs::write(&path, text).expect("written");
            let error = load(dir.path()).expect_err(text);
            let error = format!("{error}: {:?}", error.remedy);
            assert!(
                error.contains("trust.json") && error.contains("no file of a project is trusted"),
                "{error}"
            );
            assert!(Trust::add(dir.path(), Vec::new()).is_err(), "{text}");
            assert_eq!(std::fs::read_to_string(&path).expect("text"), text);
        }
    }
}
