//! Reads the user's own git settings: those of the machine and of their home, never those of a repository.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::git_dir::read_named;
use super::ignored::MAX_PATTERNS_BYTES;
use super::{Git, RepositoryError};

const SAFE: &str = "safe.directory";

/// The settings that apply to all repositories of a user.
#[derive(Debug, Default)]
pub(super) struct UserSettings {
    home: Option<PathBuf>,
    values: HashMap<String, String>,
    /// Repositories that the user trusts (`safe.directory`), also those of other users.
    safe: Vec<String>,
}

impl UserSettings {
    /// Reads the settings. Without a home they are empty.
    pub(super) fn read(program: &Path, home: Option<&Path>) -> Result<Self, RepositoryError> {
        let Some(home) = home else { return Ok(Self::default()) };
        // Outside any repository, so that no repository adds settings.
        let git = Git::at(program, Path::new("/"));
        let answer = git.ask_as(home, &["config", "--list", "-z", "--show-scope"])?;
        if answer.code != Some(0) {
            return Err(RepositoryError::Unsupported(format!(
                "your own git settings cannot be read ({}); `git config --global --list` says where they are wrong",
                answer.stderr
            )));
        }
        let mut settings = Self { home: Some(home.to_owned()), ..Self::default() };
        let text = String::from_utf8_lossy(&answer.stdout);
        let mut words = text.split('\0');
        while let (Some(scope), Some(setting)) = (words.next(), words.next()) {
            if matches!(scope, "system" | "global") {
                let (key, value) = setting.split_once('\n').unwrap_or((setting, "true"));
                settings.add(key, value);
            }
        }
        Ok(settings)
    }

    fn add(&mut self, key: &str, value: &str) {
        if key != SAFE {
            self.values.insert(key.to_owned(), value.to_owned());
        } else if value.is_empty() {
            // As in git, an empty value resets the list.
            self.safe.clear();
        } else {
            self.safe.push(value.to_owned());
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    /// The ignore patterns for all repositories of the user.
    pub(super) fn excludes(&self) -> Result<Option<Vec<u8>>, RepositoryError> {
        let usual = || self.home.as_ref().map(|home| home.join(".config/git/ignore"));
        let named = self.get("core.excludesfile").filter(|path| !path.is_empty());
        let path = named.map_or_else(usual, |path| self.expand(path));
        path.map_or(Ok(None), |path| read_named(&path, MAX_PATTERNS_BYTES))
    }

    /// An absolute path; `None` for one that would lead into the repository.
    fn expand(&self, path: &str) -> Option<PathBuf> {
        match (path.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => Some(home.join(rest)),
            _ => Some(PathBuf::from(path)).filter(|path| path.is_absolute()),
        }
    }

    /// Whether the user trusts the repository with this directory: its `.git`, or the folder that contains it.
    pub(super) fn trusts(&self, git_dir: &Path) -> bool {
        let folder = git_dir.parent().unwrap_or(git_dir);
        self.safe.iter().any(|safe| {
            if safe == "*" {
                return true;
            }
            let (safe, beneath) = safe.strip_suffix("/*").map_or((safe.as_str(), false), |safe| (safe, true));
            let Some(safe) = self.expand(safe) else { return false };
            let safe = safe.canonicalize().unwrap_or(safe);
            [git_dir, folder].iter().any(|path| *path == safe || (beneath && path.starts_with(&safe)))
        })
    }
}
