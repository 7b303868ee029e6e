//! Stores operations that a user always allows, by the directory of the run: `approvals.json` in the state directory.
//!
//! [`posse::Posse::answer`] stores such an answer through [`FileApprovals`], for every front end.
//!
//! Only exact literals are stored, never a typed pattern. They apply to later runs in the same directory, like
//! operations that a request allows in advance. The file belongs to the user, who may read it and remove entries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use futures::future::BoxFuture;
use posse::{ApprovalError, ApprovalStore, Approvals, Pattern};
use posse_domain::permission::APPROVALS_MAX;
use serde::{Deserialize, Serialize};

use crate::error::SetupError;
use crate::user_file::{KeptFile, KeptFileError};

const FILE: KeptFile =
    KeptFile { name: "approvals.json", lock: "approvals.lock", without: "Posse asks every question again" };

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredApprovals {
    directories: BTreeMap<String, Vec<Pattern>>,
}

/// Loads the approvals for this directory, given by its whole path.
fn load(state_dir: &Path, dir: &str) -> Result<Approvals, ApprovalError> {
    let mut kept: StoredApprovals = FILE.read(state_dir)?;
    Ok(kept.directories.remove(dir).unwrap_or_default().into_iter().collect())
}

/// The store of approvals in a state directory.
#[derive(Debug)]
pub struct FileApprovals {
    state_dir: PathBuf,
}

/// An operation that is always allowed in the runs of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredOperation {
    /// The whole path of the directory.
    pub dir: String,
    /// The allowed operation.
    pub operation: Pattern,
}

impl FileApprovals {
    /// The store in `state_dir`.
    pub fn new(state_dir: &Path) -> Self {
        Self { state_dir: state_dir.to_owned() }
    }

    /// All stored operations, by directory.
    pub fn all(&self) -> Result<Vec<StoredOperation>, SetupError> {
        let kept: StoredApprovals = FILE.read(&self.state_dir)?;
        let of_dir = |(dir, operations): (String, Vec<Pattern>)| {
            operations.into_iter().map(move |operation| StoredOperation { dir: dir.clone(), operation })
        };
        Ok(kept.directories.into_iter().flat_map(of_dir).collect())
    }

    /// Removes operations: later runs ask again. One that is not stored is not an error.
    pub fn revoke(&self, operations: &[StoredOperation]) -> Result<(), SetupError> {
        FILE.change(&self.state_dir, |kept: &mut StoredApprovals| {
            for (dir, literals) in &mut kept.directories {
                let is_revoked = |literal: &Pattern| {
                    operations.iter().any(|revoked| revoked.dir == *dir && revoked.operation == *literal)
                };
                literals.retain(|literal| !is_revoked(literal));
            }
            kept.directories.retain(|_, literals| !literals.is_empty());
            Ok(())
        })
    }
}

impl ApprovalStore for FileApprovals {
    fn load(&self, dir: &str) -> BoxFuture<'static, Result<Approvals, ApprovalError>> {
        let (state_dir, dir) = (self.state_dir.clone(), dir.to_owned());
        Box::pin(on_own_thread(move || load(&state_dir, &dir)))
    }

    fn keep(&self, dir: &str, literal: &Pattern) -> BoxFuture<'static, Result<(), ApprovalError>> {
        let (state_dir, dir, literal) = (self.state_dir.clone(), dir.to_owned(), literal.clone());
        Box::pin(on_own_thread(move || keep(&state_dir, &dir, &literal)))
    }
}

/// Waits for the lock of the file and for the disk on a thread of its own: others use the caller's thread meanwhile.
async fn on_own_thread<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, ApprovalError> + Send + 'static,
) -> Result<T, ApprovalError> {
    match tokio::task::spawn_blocking(act).await {
        Ok(done) => done,
        // The runtime ends, and the answer is not stored.
        Err(stopped) => {
            Err(ApprovalError::Unwritable { store: FILE.name.to_owned(), problem: stopped.to_string() })
        }
    }
}

impl From<KeptFileError> for ApprovalError {
    fn from(error: KeptFileError) -> Self {
        match error {
            KeptFileError::Unreadable { path, problem, .. } => {
                Self::Unreadable { store: path.display().to_string(), problem }
            }
            KeptFileError::Unwritable { path, problem } => {
                Self::Unwritable { store: path.display().to_string(), problem }
            }
        }
    }
}

/// Adds to an error of [`FileApprovals`] what a user can do about it.
impl From<ApprovalError> for SetupError {
    fn from(error: ApprovalError) -> Self {
        let message = error.to_string();
        match error {
            ApprovalError::Unreadable { .. } => SetupError::usage(message).hint(FILE.hint()),
            ApprovalError::Full { store, .. } => {
                SetupError::failed(message).hint(format!("remove some of them from {store}"))
            }
            ApprovalError::Unwritable { .. } => SetupError::failed(message),
        }
    }
}

/// Stores a literal for this directory.
fn keep(state_dir: &Path, dir: &str, literal: &Pattern) -> Result<(), ApprovalError> {
    FILE.change(state_dir, |kept: &mut StoredApprovals| {
        let literals = kept.directories.entry(dir.to_owned()).or_default();
        if literals.contains(literal) {
            return Ok(());
        }
        if literals.len() >= APPROVALS_MAX {
            let store = state_dir.join(FILE.name).display().to_string();
            return Err(ApprovalError::Full { store, dir: dir.to_owned(), max: APPROVALS_MAX });
        }
        literals.push(literal.clone());
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::error::Remedy;

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
            let error = keep(dir.path(), "/p", &literal).expect_err(text);
            assert!(matches!(error, ApprovalError::Unreadable { .. }), "{error:?}");
            let loaded = load(dir.path(), "/p").expect_err(text);
            assert_eq!(error, loaded, "the same words");
            let hint = Some(Remedy::Hint(FILE.hint()));
            assert_eq!(SetupError::from(loaded).remedy, hint);
            assert_eq!(std::fs::read_to_string(dir.path().join(FILE.name)).expect("text"), text);
        }
    }
    #[test]
    fn a_directory_has_a_limit_of_approvals() {
        let dir = tempfile::tempdir().expect("a directory");
        let literal = |n: usize| format!("bash:echo {n}").parse::<Pattern>().expect("pattern");
        let directories = BTreeMap::from([("/p".to_owned(), (0..APPROVALS_MAX).map(literal).collect())]);
        let full = |kept: &mut StoredApprovals| {
            kept.directories = directories;
            Ok::<_, SetupError>(())
        };
        FILE.change(dir.path(), full).expect("written");
        keep(dir.path(), "/p", &literal(0)).expect("it is stored already");
        keep(dir.path(), "/q", &literal(0)).expect("another directory");
        let error = keep(dir.path(), "/p", &literal(APPROVALS_MAX)).expect_err("full");
        assert!(matches!(error, ApprovalError::Full { max: APPROVALS_MAX, .. }), "{error:?}");
        let text = SetupError::from(error).text();
        let file = dir.path().join(FILE.name).display().to_string();
        assert_eq!(
            text,
            format!(
                "error: /p already has {APPROVALS_MAX} stored approvals\nhint: remove some of them from {file}\n"
            )
        );
    }

    #[test]
    fn a_revoked_operation_is_gone_from_its_directory_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = FileApprovals::new(dir.path());
        assert_eq!(store.all().expect("none").len(), 0);
        let stored = |dir: &str, operation: &str| StoredOperation {
            dir: dir.to_owned(),
            operation: operation.parse().expect("pattern"),
        };
        let all = [stored("/p", "bash:ls"), stored("/p", "read:a"), stored("/q", "bash:ls")];
        for StoredOperation { dir: of, operation } in &all {
            keep(dir.path(), of, operation).expect("kept");
        }
        assert_eq!(store.all().expect("stored"), all);
        store.revoke(&[all[0].clone(), stored("/p", "read:other")]).expect("revoked");
        assert_eq!(store.all().expect("stored"), all[1..]);
        store.revoke(&all).expect("revoked");
        assert_eq!(store.all().expect("none"), []);
    }

    #[test]
    fn a_state_directory_that_cannot_be_created_is_an_error_of_its_own() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("file"), "").expect("written");
        let state = dir.path().join("file/state");
        let error = keep(&state, "/p", &"bash:ls".parse().expect("pattern")).expect_err("not a directory");
        assert!(matches!(error, ApprovalError::Unwritable { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("approvals.json cannot be written: "), "{text}");
    }
}
