//! Durable files and directories beneath the state directory, for all of this crate: files are replaced atomically.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::RepositoryError;
use posse_files::trees;

/// Only the owner may read the state directory.
const DIR_MODE: u32 = 0o700;
pub(crate) const FILE_MODE: u32 = 0o600;
/// Separates a file name from the process id in a temporary name.
const TEMPORARY: &str = ".tmp-";
/// The suffix of a temporary name. Git reads every other file among refs as a ref, so the file of a killed process must
/// not look like one.
pub(crate) const NO_REF: &str = ".lock";

/// Maps an I/O error to one that names the operation and the path.
pub(crate) fn failed<'a>(doing: &'a str, path: &'a Path) -> impl Fn(io::Error) -> RepositoryError + 'a {
    move |error| RepositoryError::io(doing, path, &error)
}

/// A name beside `path` that no other process or thread uses.
pub(crate) fn temporary(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!("{TEMPORARY}{}-{number}{NO_REF}", std::process::id()));
    path.with_file_name(name)
}

/// Whether a name is a [`temporary`] one.
pub(crate) fn is_temporary(name: &OsStr) -> bool {
    name.to_string_lossy().contains(TEMPORARY)
}

/// Whether the process that chose a [`temporary`] name has ended.
pub(crate) fn maker_is_gone(name: &OsStr) -> bool {
    let text = name.to_string_lossy();
    let process = text.rsplit_once(TEMPORARY).and_then(|(_, rest)| rest.split('-').next());
    process.is_some_and(|process| !Path::new("/proc").join(process).exists())
}

/// Creates a directory and its parents, each durable.
pub(crate) fn make_dirs(dir: &Path) -> Result<(), RepositoryError> {
    let changed = make_dirs_unsynced(dir)?;
    sync_dirs(changed.iter().map(PathBuf::as_path))
}

/// Creates a directory and its parents. Returns those that have to be synced before a new one of them is durable.
pub(crate) fn make_dirs_unsynced(dir: &Path) -> Result<Vec<PathBuf>, RepositoryError> {
    if dir.is_dir() {
        return Ok(Vec::new());
    }
    let mut changed = dir.parent().map_or(Ok(Vec::new()), make_dirs_unsynced)?;
    match fs::DirBuilder::new().mode(DIR_MODE).create(dir) {
        Ok(()) => changed.extend(dir.parent().map(Path::to_owned)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(RepositoryError::io("making", dir, &error)),
    }
    Ok(changed)
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), RepositoryError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed("syncing", dir))
}

/// Creates a file that must not exist yet.
pub(crate) fn create_new(path: &Path) -> Result<File, RepositoryError> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(FILE_MODE);
    options.open(path).map_err(failed("making", path))
}

/// Replaces a file atomically: after a crash it has its old content or its new one.
pub(crate) fn write_durably(path: &Path, content: &[u8]) -> Result<(), RepositoryError> {
    let file = UnsyncedFile::write(path, content)?;
    file.file().sync_all().map_err(failed("writing", path))?;
    file.put_in_place()?;
    path.parent().map_or(Ok(()), sync_dir)
}

/// The next content of a file, beside it and not synced yet. Removed if it is dropped before it is put in place.
#[derive(Debug)]
pub(crate) struct UnsyncedFile {
    file: File,
    temporary: Option<PathBuf>,
    path: PathBuf,
}

impl UnsyncedFile {
    pub(crate) fn write(path: &Path, content: &[u8]) -> Result<Self, RepositoryError> {
        let temporary = temporary(path);
        let file = create_new(&temporary)?;
        let mut unsynced = Self { file, temporary: Some(temporary), path: path.to_owned() };
        unsynced.file.write_all(content).map_err(failed("writing", path))?;
        Ok(unsynced)
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Replaces the file. The caller has synced this one, and syncs the directory.
    pub(crate) fn put_in_place(mut self) -> Result<(), RepositoryError> {
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.path).map_err(failed("writing", &self.path))?;
            self.temporary = None;
        }
        Ok(())
    }
}

/// Syncs new files together: the writes of all of them are begun first, so that one commit of the filesystem has them all.
pub(crate) fn sync_together(files: &[&File], dir: &Path) -> Result<(), RepositoryError> {
    for file in files {
        // On Linux this begins to write what is not on disk yet. Without it the sync only takes longer.
        let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    }
    files.iter().try_for_each(|file| file.sync_all()).map_err(failed("syncing", dir))
}

/// Makes the names in several directories durable.
pub(crate) fn sync_dirs<'a>(dirs: impl IntoIterator<Item = &'a Path>) -> Result<(), RepositoryError> {
    dirs.into_iter().try_for_each(sync_dir)
}

impl Drop for UnsyncedFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            drop(fs::remove_file(temporary));
        }
    }
}

/// Replaces a file atomically, but without a sync. For content that can be created again after a power cut.
pub(crate) fn write_cache(path: &Path, content: &[u8]) -> Result<(), RepositoryError> {
    let temporary = temporary(path);
    create_new(&temporary)
        .and_then(|mut file| file.write_all(content).map_err(failed("writing", &temporary)))
        .and_then(|()| fs::rename(&temporary, path).map_err(failed("writing", path)))
}

/// Replaces the content of a file that may be torn afterwards: its content shows whether it is whole.
pub(crate) fn overwrite_cache(path: &Path, content: &[u8]) -> Result<(), RepositoryError> {
    let mut options = fs::OpenOptions::new();
    // Shortened afterwards: its blocks stay allocated.
    options.write(true).create(true).truncate(false).mode(FILE_MODE);
    let written = options.open(path).and_then(|mut file| {
        file.write_all(content)?;
        file.set_len(content.len() as u64)
    });
    written.map_err(failed("writing", path))
}

pub(crate) fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, RepositoryError> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(RepositoryError::io("reading", path, &error)),
    }
}

/// Removes a directory tree, including directories without read permission.
pub(crate) fn remove_tree(dir: &Path) -> Result<(), RepositoryError> {
    trees::remove(dir).map_err(failed("removing", dir))
}

/// The disk usage of a directory tree. Files that vanish meanwhile count as empty.
pub(crate) fn bytes_beneath(dir: &Path) -> Result<u64, RepositoryError> {
    trees::bytes_beneath(dir).map_err(failed("listing", dir))
}
