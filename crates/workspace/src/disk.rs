//! Small durable things on disk: files written whole or not at all, directories.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::WorkspaceError;
use posse_files::trees;

/// Nobody but its owner looks into the state directory.
const DIR_MODE: u32 = 0o700;
pub(crate) const FILE_MODE: u32 = 0o600;
/// What stands between a name and the process that uses it for a while.
const TEMPORARY: &str = ".tmp-";
/// What a temporary name ends with. Among refs git takes every file for one, but for these: what a killed process leaves
/// there must not be read as a ref that points nowhere.
pub(crate) const NO_REF: &str = ".lock";

/// Says what was being done when the machine said no.
pub(crate) fn failed<'a>(doing: &'a str, path: &'a Path) -> impl Fn(io::Error) -> WorkspaceError + 'a {
    move |error| WorkspaceError::io(doing, path, &error)
}

/// A name beside `path` that no other process or thread uses.
pub(crate) fn temporary(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!("{TEMPORARY}{}-{number}{NO_REF}", std::process::id()));
    path.with_file_name(name)
}

/// Whether the process that chose a [`temporary`] name is gone.
pub(crate) fn maker_is_gone(name: &OsStr) -> bool {
    let text = name.to_string_lossy();
    let process = text.rsplit_once(TEMPORARY).and_then(|(_, rest)| rest.split('-').next());
    process.is_some_and(|process| !Path::new("/proc").join(process).exists())
}

/// Makes a directory and those above it, each durable.
pub(crate) fn make_dirs(dir: &Path) -> Result<(), WorkspaceError> {
    if dir.is_dir() {
        return Ok(());
    }
    if let Some(parent) = dir.parent() {
        make_dirs(parent)?;
    }
    match fs::DirBuilder::new().mode(DIR_MODE).create(dir) {
        Ok(()) => dir.parent().map_or(Ok(()), sync_dir),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(WorkspaceError::io("making", dir, &error)),
    }
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), WorkspaceError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed("syncing", dir))
}

/// A new file that must not be there yet.
pub(crate) fn create_new(path: &Path) -> Result<File, WorkspaceError> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(FILE_MODE);
    options.open(path).map_err(failed("making", path))
}

/// Writes a file whole: after a crash it has its old content or its new one.
pub(crate) fn write_durably(path: &Path, content: &[u8]) -> Result<(), WorkspaceError> {
    let temporary = temporary(path);
    let written = create_new(&temporary).and_then(|mut file| {
        file.write_all(content).and_then(|()| file.sync_all()).map_err(failed("writing", &temporary))?;
        fs::rename(&temporary, path).map_err(failed("writing", path))
    });
    if written.is_err() {
        // It is only the half of something; what went wrong is told.
        drop(fs::remove_file(&temporary));
        return written;
    }
    path.parent().map_or(Ok(()), sync_dir)
}

/// Writes a file whole, but for a power cut. For what can be made again.
pub(crate) fn write_cache(path: &Path, content: &[u8]) -> Result<(), WorkspaceError> {
    let temporary = temporary(path);
    create_new(&temporary)
        .and_then(|mut file| file.write_all(content).map_err(failed("writing", &temporary)))
        .and_then(|()| fs::rename(&temporary, path).map_err(failed("writing", path)))
}

/// The content of a file that may not be there.
pub(crate) fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, WorkspaceError> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(WorkspaceError::io("reading", path, &error)),
    }
}

/// Removes a directory with all it holds, also directories without permission to be looked into.
pub(crate) fn remove_tree(dir: &Path) -> Result<(), WorkspaceError> {
    trees::remove(dir).map_err(failed("removing", dir))
}

/// What a directory and all it holds take on disk; what vanishes meanwhile takes nothing.
pub(crate) fn bytes_beneath(dir: &Path) -> Result<u64, WorkspaceError> {
    trees::bytes_beneath(dir).map_err(failed("listing", dir))
}
