//! A person's own settings of git: those of the machine and of their home, never those of a repository.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::git_dir::read_named;
use super::ignored::MAX_PATTERNS_BYTES;
use super::{Git, WorkspaceError};

const SAFE: &str = "safe.directory";

/// The settings that hold for all repositories of a person.
#[derive(Debug, Default)]
pub(super) struct UserSettings {
    home: Option<PathBuf>,
    values: HashMap<String, String>,
    /// Repositories that the person trusts whoever they belong to.
    safe: Vec<String>,
}

impl UserSettings {
    /// Reads them. Without a home there are none.
    pub(super) fn read(program: &Path, home: Option<&Path>) -> Result<Self, WorkspaceError> {
        let Some(home) = home else { return Ok(Self::default()) };
        // In no repository, so that none has a say.
        let git = Git::at(program, Path::new("/"));
        let answer = git.ask_as(home, &["config", "--list", "-z", "--show-scope"])?;
        if answer.code != Some(0) {
            return Err(WorkspaceError::Unsupported(format!(
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
            // As in git: an empty one takes back all before it.
            self.safe.clear();
        } else {
            self.safe.push(value.to_owned());
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    /// The patterns for all repositories of the person.
    pub(super) fn excludes(&self) -> Result<Option<Vec<u8>>, WorkspaceError> {
        let usual = || self.home.as_ref().map(|home| home.join(".config/git/ignore"));
        let named = self.get("core.excludesfile").filter(|path| !path.is_empty());
        let path = named.map_or_else(usual, |path| self.expand(path));
        path.map_or(Ok(None), |path| read_named(&path, MAX_PATTERNS_BYTES))
    }

    /// An absolute path; none for one that would lead into the repository.
    fn expand(&self, path: &str) -> Option<PathBuf> {
        match (path.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => Some(home.join(rest)),
            _ => Some(PathBuf::from(path)).filter(|path| path.is_absolute()),
        }
    }

    /// Whether the person trusts the repository with this directory: its `.git`, or the folder that is in.
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
