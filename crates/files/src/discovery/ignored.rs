//! Finds the folders of a project that git ignores.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::{DirHandle, GitRules};

/// Caches git's ignore rules: folders with the same parent share rules that are read once.
#[derive(Debug, Default)]
pub struct IgnoredFolders(Mutex<BTreeMap<PathBuf, Option<GitRules>>>);

impl IgnoredFolders {
    /// Whether git ignores this folder of a project, by a rule for it or for a directory above it. The path must be
    /// free of links. If the rules cannot be read, the folder counts as ignored.
    pub fn holds(&self, dir: &Path, project: &Path) -> bool {
        let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else { return true };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rules = known.entry(parent.to_owned()).or_insert_with(|| {
            let beneath = parent.strip_prefix(project).ok()?;
            DirHandle::open(project).ok()?.git_rules(beneath)
        });
        rules.as_ref().is_none_or(|rules| rules.ignores(name, true))
    }
}
