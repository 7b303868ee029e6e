//! Folders of a project that git ignores.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::{DirHandle, GitRules};

/// Tells which folders git ignores. Folders beside each other have the same rules, which are read once.
#[derive(Debug, Default)]
pub struct IgnoredFolders(Mutex<BTreeMap<PathBuf, Option<GitRules>>>);

impl IgnoredFolders {
    /// Whether git ignores this folder of a project, given without links: by a rule for it or for one above it. What cannot
    /// be looked up counts as ignored.
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
