//! Compares the files of a state with its manifest.

use std::path::Path;

use rustix::fs::{AtFlags, statat};

use super::super::manifest::{Entry, Manifest, Stat};
use super::super::{RepositoryError, scan};
use posse_files::parallel;

/// Whether every file is as it was when it was laid out, by its stat.
pub(super) fn is_as_laid_out(files: &Path, manifest: &Path) -> bool {
    const GROUP: usize = 64;
    let Some(manifest) = Manifest::load(manifest) else { return false };
    let Ok(root) = scan::open_root(files) else { return false };
    let groups: Vec<&[Entry]> = manifest.entries.chunks(GROUP).collect();
    let checked = parallel::map(groups.len(), |at| {
        let same = |entry: &Entry| {
            let Some(stat) = entry.stat else { return true };
            let now = statat(&root, entry.path.as_slice(), AtFlags::SYMLINK_NOFOLLOW);
            now.is_ok_and(|now| Stat::of(&now) == stat)
        };
        Ok::<bool, RepositoryError>(groups[at].iter().all(same))
    });
    checked.is_ok_and(|checked| checked.into_iter().all(|same| same))
}
