//! Reports entries that no tree can contain, because they are or could become `.git`. A scan lists them file by file,
//! so that no reader assumes they were kept.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use super::{CurrentDirectory, MAX_DEPTH, OpenDirectory, Scan, Task};
use crate::RepositoryError;
use crate::scan::ScanResult;

/// The reason that is reported for a workspace's `.git` that is not a directory.
const NOT_A_DIRECTORY: &str = "not a directory";

/// Why an entry cannot be in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UntrackableReason {
    /// The `.git` of a repository beneath the top.
    Nested,
    /// A filesystem could treat its name as `.git`.
    GitLike,
}

impl UntrackableReason {
    const fn why(self) -> &'static str {
        match self {
            Self::Nested => "a repository in the workspace",
            Self::GitLike => "a name that could become .git",
        }
    }
}

impl Scan<'_> {
    /// Handles an entry that is or could become `.git`. The folder's own `.git` is handled elsewhere if it is a
    /// directory.
    pub(super) fn git_like(
        &self,
        here: &CurrentDirectory<'_>,
        name: Vec<u8>,
        mut path: Vec<u8>,
        walked: &mut ScanResult,
    ) -> Result<(), RepositoryError> {
        let own = path == b".git" && !self.request.everything;
        if !own {
            walked.notes.git_like(&path, &name);
        }
        if self.request.is_users_folder {
            return Ok(());
        }
        let Some(kind) = self.kind(here.dir, &name, &path)? else { return Ok(()) };
        let is_dir = kind == FileType::Directory;
        if own {
            if !is_dir {
                walked.left_out.work(&path, NOT_A_DIRECTORY);
            }
            return Ok(());
        }
        let ignored = here.is_ignored(&path, is_dir);
        let outside = if name == b".git" { UntrackableReason::Nested } else { UntrackableReason::GitLike };
        if is_dir {
            path.push(b'/');
        }
        if ignored {
            walked.left_out.add(&path);
        } else if is_dir {
            self.classify(here.task, here.dir, name, path, outside, walked);
        } else {
            walked.left_out.work(&path, outside.why());
        }
        Ok(())
    }

    /// Reports the content of a directory that cannot be in a tree. An empty one is not reported.
    pub(super) fn outside(
        &self,
        task: &Task,
        dir: &Arc<OpenDirectory>,
        names: Vec<(Vec<u8>, FileType)>,
        outside: UntrackableReason,
        walked: &mut ScanResult,
    ) -> Result<(), RepositoryError> {
        // A repository's objects would only fill the list.
        if outside == UntrackableReason::Nested {
            if !names.is_empty() {
                walked.left_out.work(&task.path, outside.why());
            }
            return Ok(());
        }
        for (name, _) in names {
            let mut path = [task.path.as_slice(), &name].concat();
            match self.kind(dir, &name, &path)? {
                None => {}
                Some(FileType::Directory) => {
                    path.push(b'/');
                    self.classify(task, dir, name, path, outside, walked);
                }
                Some(_) => walked.left_out.work(&path, outside.why()),
            }
        }
        Ok(())
    }

    fn classify(
        &self,
        above: &Task,
        parent: &Arc<OpenDirectory>,
        name: Vec<u8>,
        path: Vec<u8>,
        outside: UntrackableReason,
        walked: &mut ScanResult,
    ) {
        if above.depth >= MAX_DEPTH {
            walked.left_out.work(&path, outside.why());
            return;
        }
        self.push(Task {
            parent: self.keep(parent),
            name,
            path,
            depth: above.depth + 1,
            known: 0..0,
            ignored: above.ignored.clone(),
            all_ignored: false,
            outside: Some(outside),
            lower: None,
        });
    }

    /// The type of an entry; `None` if it is gone.
    fn kind(&self, dir: &OwnedFd, name: &[u8], path: &[u8]) -> Result<Option<FileType>, RepositoryError> {
        match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.failed("looking at", path, error)),
        }
    }
}
