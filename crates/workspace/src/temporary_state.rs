//! A temporary state directory for runs whose journal is in memory.
//!
//! Why it is like this: `docs/decisions/workspace-always-isolated.md`.

use std::path::{Path, PathBuf};

use super::{RepositoryError, disk};

/// Removed when it is dropped.
#[derive(Debug)]
pub struct TemporaryState(PathBuf);

impl TemporaryState {
    /// Creates it in the machine's temporary directory.
    pub fn new() -> Result<Self, RepositoryError> {
        let made = tempfile::Builder::new().prefix("posse-").tempdir();
        let made = made.map_err(|error| {
            RepositoryError::Unsupported(format!("no temporary state directory can be made: {error}"))
        })?;
        Ok(Self(made.keep()))
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryState {
    fn drop(&mut self) {
        // Programs may have created directories that cannot be entered. What cannot be removed stays with the machine's
        // temporary files.
        drop(disk::remove_tree(&self.0));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn nothing_is_left_of_a_temporary_state_directory() {
        let state = TemporaryState::new().expect("made");
        let path = state.path().to_owned();
        let closed = path.join("runs/r/closed");
        fs::create_dir_all(&closed).expect("made");
        fs::write(closed.join("file"), "x").expect("written");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).expect("set");
        drop(state);
        assert!(!path.exists());
    }
}
