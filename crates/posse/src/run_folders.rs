//! Folders beneath the state directory in which runs work that have no folder of a user: those of the demo and of
//! replays. They are removed with the last run that worked in them.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use posse_engine::ports::{GcSummary, KeptItem, RunEntry};
use posse_files::trees::{bytes_beneath, remove};

use crate::Posse;

/// The folder of the state directory for the projects of demos.
const DEMOS: &str = "demos";
/// The folder of the state directory for the files of replays.
pub(crate) const REPLAYS: &str = "replays";
/// How long a folder that no run uses is kept: its run may be about to start.
pub(crate) const UNUSED_AFTER: Duration = Duration::from_hours(1);
/// How many names are tried for a new folder.
const NAME_TRIES: u32 = 1_000;

impl Posse {
    /// Creates an empty folder beneath the state directory for the project of a demo.
    pub fn demo_folder(&self) -> io::Result<PathBuf> {
        new_folder(&self.state.join(DEMOS), "demo")
    }

    /// Removes the folders in which no run works any more: `remaining` are the runs that stay, `gone` the directories of
    /// those that go.
    pub(crate) fn clean_folders(
        &self,
        remaining: &[RunEntry],
        gone: &HashSet<String>,
        dry_run: bool,
        cleaned: &mut GcSummary,
    ) {
        for kind in [DEMOS, REPLAYS] {
            let Ok(all) = self.state.join(kind).canonicalize() else { continue };
            let Ok(entries) = std::fs::read_dir(&all) else { continue };
            for path in entries.flatten().map(|entry| entry.path()) {
                let is_used = remaining.iter().any(|entry| Path::new(&entry.row.dir).starts_with(&path));
                let was_used = gone.iter().any(|dir| Path::new(dir).starts_with(&path));
                if is_used || !(was_used || is_unused(&path)) {
                    continue;
                }
                let what = format!("folder {}", path.display());
                let bytes = bytes_beneath(&path).unwrap_or_default();
                match if dry_run { Ok(()) } else { remove(&path) } {
                    Ok(()) => {
                        cleaned.removed.push(what);
                        cleaned.freed_bytes += bytes;
                    }
                    Err(error) => cleaned.kept.push(KeptItem::part(what, error.to_string())),
                }
            }
        }
    }
}

/// Whether a folder has not been changed for so long that no run is about to start in it.
pub(crate) fn is_unused(folder: &Path) -> bool {
    let modified = std::fs::symlink_metadata(folder).and_then(|metadata| metadata.modified());
    modified.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age >= UNUSED_AFTER))
}

/// Creates a folder with a free name. Its path is canonical, as that of a run's directory.
pub(crate) fn new_folder(parent: &Path, name: &str) -> io::Result<PathBuf> {
    std::fs::create_dir_all(parent)?;
    let parent = parent.canonicalize()?;
    for number in 1..=NAME_TRIES {
        let dir = parent.join(format!("{name}-{number}"));
        match std::fs::create_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!("no free name in {}", parent.display())))
}
