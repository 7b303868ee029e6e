//! Looks at a folder: which files are there, and which of them are known already.
//!
//! Symlinks are never followed and everything is opened beneath the folder's own handle, so that nobody who writes in
//! it while it is looked at can lead the scan elsewhere. Only times and sizes are looked at here; reading the files
//! that are not known is `content`'s part.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode as Permissions, OFlags};

use super::ignored::IgnorePatterns;
use super::index::ShortStat;
use super::manifest::{Stat, now_ns};
use super::notes::{LeftOut, Notes};
use super::object::Mode;
use super::{Oid, WorkspaceError, walk};

/// A file that is known: tracked, or seen by an earlier scan.
#[derive(Debug, Clone)]
pub(crate) struct KnownFile {
    pub(crate) path: Vec<u8>,
    pub(crate) mode: Mode,
    pub(crate) oid: Oid,
    /// In the index or the last commit: kept though it is ignored.
    pub(crate) tracked: bool,
    /// Tracked, and meant not to be on disk.
    pub(crate) skipped: bool,
    /// What it looked like when git had `oid` for it.
    pub(crate) indexed: Option<ShortStat>,
    /// What it looked like at the earlier scan, and what it was.
    pub(crate) seen: Option<EarlierScan>,
}

/// What an earlier scan found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EarlierScan {
    pub(crate) stat: Stat,
    pub(crate) oid: Oid,
    pub(crate) raw: bool,
}

/// What to look at, and how.
pub(crate) struct Request<'a> {
    pub(crate) folder: &'a Path,
    /// Sorted by path, each once.
    pub(crate) known: &'a [KnownFile],
    /// When the index was written; what changed then or later is not known by it.
    pub(crate) indexed_ns: i128,
    /// When the earlier scan began.
    pub(crate) seen_ns: i128,
    /// The patterns above all `.gitignore` files.
    pub(crate) ignored: IgnorePatterns,
    /// Whether the permission to execute counts (`core.fileMode`).
    pub(crate) executable_counts: bool,
    /// The folder is a person's: its submodules are theirs, and are not looked into.
    pub(crate) persons: bool,
    /// Ignore files do not count: all that is there is taken.
    pub(crate) everything: bool,
    /// How many ignored files and directories are named one by one; 0: none are.
    pub(crate) name_ignored: usize,
    /// A directory that is not looked into: Posse's own.
    pub(crate) state: Option<(u64, u64)>,
    /// Paths that are never taken.
    pub(crate) never: &'a HashSet<Vec<u8>>,
    /// Ignored files that are brought along.
    pub(crate) wanted: &'a super::copies::CopyPatterns,
    pub(crate) max_files: u64,
}

/// One file that is there, or that counts as if it were.
#[derive(Debug)]
pub(crate) struct ScannedFile {
    pub(crate) path: Vec<u8>,
    pub(crate) mode: Mode,
    pub(crate) stat: Option<Stat>,
    /// None if it has to be read.
    pub(crate) content: Option<Content>,
}

/// What a file contains.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Content {
    pub(crate) oid: Oid,
    /// Whether the file is that object byte for byte.
    pub(crate) raw: bool,
    /// Whether git's index says so.
    pub(crate) indexed: bool,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct ScanResult {
    /// Sorted by path.
    pub(crate) found: Vec<ScannedFile>,
    pub(crate) looked_ns: i128,
    /// Ignored files that are brought along.
    pub(crate) copies: Vec<Vec<u8>>,
    pub(crate) left_out: LeftOut,
    /// Ignored files and directories, these with a slash at their end; one more than was asked for if there are more.
    pub(crate) ignored: Vec<Vec<u8>>,
    pub(crate) notes: Notes,
    /// A file of attributes that is none: git would wait for it.
    pub(crate) odd_attributes: Option<Vec<u8>>,
    /// Whether attributes let git change content on its way in.
    pub(crate) converting: bool,
}

/// Looks at the folder.
pub(crate) fn scan(request: &Request<'_>) -> Result<ScanResult, WorkspaceError> {
    scan_at(request, open_root(request.folder)?)
}

/// Looks at the folder behind a handle.
pub(crate) fn scan_at(request: &Request<'_>, root: OwnedFd) -> Result<ScanResult, WorkspaceError> {
    let looked_ns = now_ns();
    let mut walked = walk::walk(request, root)?;
    walked.looked_ns = looked_ns;
    walked.found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    walked.copies.sort_unstable();
    add_absent(request.known, &mut walked.found);
    Ok(walked)
}

/// The folder's own handle.
pub(crate) fn open_root(folder: &Path) -> Result<OwnedFd, WorkspaceError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(folder, flags, Permissions::empty())
        .map_err(|error| WorkspaceError::io("opening", folder, &error.into()))
}

/// Adds what is tracked and meant not to be on disk: submodules, and files outside a sparse checkout.
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
