//! Scans a folder for snapshots: which files exist, and which of them have known content.
//!
//! Symlinks are never followed, and everything is opened beneath the folder's handle, so that a process that writes in
//! the folder cannot redirect the scan. Only times and sizes are compared here. `content` reads the unknown files.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode as Permissions, OFlags};

use super::ignored::IgnorePatterns;
use super::index::ShortStat;
use super::manifest::{Stat, now_ns};
use super::notes::{LeftOut, Notes};
use super::object::Mode;
use super::upper::{UpperDir, UpperView};
use super::{ObjectId, RepositoryError, walk};

/// A file with known content: tracked, or seen by an earlier scan.
#[derive(Debug, Clone)]
pub(crate) struct KnownFile {
    pub(crate) path: Vec<u8>,
    pub(crate) mode: Mode,
    pub(crate) oid: ObjectId,
    /// In the index or the last commit. Kept even if it is ignored.
    pub(crate) tracked: bool,
    /// Tracked, but outside a sparse checkout.
    pub(crate) skipped: bool,
    /// The stat that git's index has for `oid`.
    pub(crate) indexed: Option<ShortStat>,
    pub(crate) seen: Option<EarlierScan>,
}

/// The stat and content of a file in an earlier scan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EarlierScan {
    pub(crate) stat: Stat,
    pub(crate) oid: ObjectId,
    pub(crate) raw: bool,
}

/// What to scan, and how.
pub(crate) struct Request<'a> {
    pub(crate) folder: &'a Path,
    /// Sorted by path, each once.
    pub(crate) known: &'a [KnownFile],
    /// When the index was written. It says nothing about files that changed then or later.
    pub(crate) indexed_ns: i128,
    /// When the earlier scan began.
    pub(crate) seen_ns: i128,
    /// The patterns above all `.gitignore` files.
    pub(crate) ignored: IgnorePatterns,
    /// Whether the executable bit is meaningful (`core.fileMode`).
    pub(crate) executable_counts: bool,
    /// Whether the folder is the user's. Submodules in it are not scanned.
    pub(crate) is_users_folder: bool,
    /// Whether ignore files are disregarded.
    pub(crate) everything: bool,
    /// Limit of ignored files and directories that are listed; 0 lists none.
    pub(crate) name_ignored: usize,
    /// Posse's own state directory (device and inode), which is skipped.
    pub(crate) state: Option<(u64, u64)>,
    /// Paths that are never included.
    pub(crate) never: &'a HashSet<Vec<u8>>,
    /// Ignored files that are copied.
    pub(crate) wanted: &'a super::copies::CopyPatterns,
    pub(crate) max_files: u64,
    /// What lies beneath the folder, if that is the upper layer of an overlay. `known` is empty then.
    pub(crate) upper: Option<&'a UpperView<'a>>,
}

/// A file that exists, or that is tracked and deliberately not on disk.
#[derive(Debug)]
pub(crate) struct ScannedFile {
    pub(crate) path: Vec<u8>,
    pub(crate) mode: Mode,
    pub(crate) stat: Option<Stat>,
    /// `None` if the file has to be read.
    pub(crate) content: Option<Content>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Content {
    pub(crate) oid: ObjectId,
    /// Whether the file equals that object byte for byte.
    pub(crate) raw: bool,
    /// Whether the id comes from git's index.
    pub(crate) indexed: bool,
}

#[derive(Debug, Default)]
pub(crate) struct ScanResult {
    /// Sorted by path.
    pub(crate) found: Vec<ScannedFile>,
    pub(crate) looked_ns: i128,
    /// Ignored files that are copied.
    pub(crate) copies: Vec<Vec<u8>>,
    pub(crate) left_out: LeftOut,
    /// Ignored files and directories, the latter with a trailing slash. Has one more than the limit if there are more.
    pub(crate) ignored: Vec<Vec<u8>>,
    pub(crate) notes: Notes,
    /// An attributes file that is not a plain file: git would block on it.
    pub(crate) odd_attributes: Option<Vec<u8>>,
    /// Whether attributes make git convert content.
    pub(crate) converting: bool,
    /// The directories of an upper layer that were read.
    pub(crate) upper_dirs: Vec<UpperDir>,
}

pub(crate) fn scan(request: &Request<'_>) -> Result<ScanResult, RepositoryError> {
    scan_at(request, open_root(request.folder)?)
}

/// Scans the folder behind a handle.
pub(crate) fn scan_at(request: &Request<'_>, root: OwnedFd) -> Result<ScanResult, RepositoryError> {
    let looked_ns = now_ns();
    let mut walked = walk::walk(request, root)?;
    walked.looked_ns = looked_ns;
    walked.found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    walked.copies.sort_unstable();
    add_absent(request.known, &mut walked.found);
    Ok(walked)
}

pub(crate) fn open_root(folder: &Path) -> Result<OwnedFd, RepositoryError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(folder, flags, Permissions::empty())
        .map_err(|error| RepositoryError::io("opening", folder, &error.into()))
}

/// Adds tracked paths that are deliberately not on disk: submodules, and files outside a sparse checkout.
fn add_absent(known: &[KnownFile], found: &mut Vec<ScannedFile>) {
    let there = |path: &[u8]| found.binary_search_by(|found| found.path.as_slice().cmp(path)).is_ok();
    let beneath = |path: &[u8]| {
        let prefix = [path, b"/"].concat();
        let at = found.partition_point(|found| found.path < prefix);
        found.get(at).is_some_and(|found| found.path.starts_with(&prefix))
    };
    let above = |path: &[u8]| {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        slashes.map(|(at, _)| &path[..at]).any(there)
    };
    let absent = known.iter().filter(|known| known.tracked && (known.skipped || known.mode == Mode::Gitlink));
    let absent = absent.filter(|known| !there(&known.path) && !beneath(&known.path) && !above(&known.path));
    let absent: Vec<ScannedFile> = absent
        .map(|known| ScannedFile {
            path: known.path.clone(),
            mode: known.mode,
            stat: None,
            content: Some(Content { oid: known.oid, raw: true, indexed: true }),
        })
        .collect();
    if !absent.is_empty() {
        found.extend(absent);
        found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    }
}
