//! Reads whole files.

use std::fs::File;
use std::io::{IoSliceMut, Read};
use std::path::Path;

use rustix::io::{ReadWriteFlags, preadv2};

use super::dir_handle::Links;
use super::{DirHandle, FileError, RelPath};

/// Maximum size of a file that is read whole.
pub const READ_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// How far into a file a NUL is searched, to distinguish text from other data.
const BINARY_PROBE_BYTES: usize = 8 * 1024;

/// Whether content looks like something other than text.
pub fn is_binary(bytes: &[u8]) -> bool {
    bytes[..bytes.len().min(BINARY_PROBE_BYTES)].contains(&0)
}

impl DirHandle {
    /// Reads a regular file of at most [`READ_MAX_BYTES`].
    pub fn read(&self, path: &RelPath) -> Result<Vec<u8>, FileError> {
        let (file, stat) = self.open_admitted(path, Links::Inside)?;
        self.read_open(path, file, size(stat.st_size), READ_MAX_BYTES)
    }

    /// Like [`read`](Self::read), where this is the directory `dir` of a project: a file that git ignores there is not
    /// read, even if a link leads to it.
    pub fn read_of_project(&self, path: &RelPath, dir: &Path, project: &Path) -> Result<Vec<u8>, FileError> {
        let (file, stat) = self.open_admitted(path, Links::Inside)?;
        let real = self.path_in_project(path, &file, dir, project)?;
        if DirHandle::open(project)?.is_ignored(&real, false) {
            return Err(self.git_ignored(path));
        }
        self.read_open(path, file, size(stat.st_size), READ_MAX_BYTES)
    }

    /// Reads a regular file of at most `max` bytes if all of it is in the page cache. None if it is larger or the read
    /// would block. Cheap enough for a thread that must not block.
    pub fn read_cached(&self, path: &RelPath, max: usize) -> Result<Option<Vec<u8>>, FileError> {
        let Some((file, stat)) = self.open_admitted_cached(path)? else { return Ok(None) };
        // Filesystems that generate their files on read report a size of 0.
        let Ok(size @ 1..) = usize::try_from(stat.st_size) else { return Ok(None) };
        if size > max {
            return Ok(None);
        }
        let mut bytes = vec![0; size];
        // All errors, and a file that changed its size, are left to the blocking variant.
        let read = preadv2(&file, &mut [IoSliceMut::new(&mut bytes)], 0, ReadWriteFlags::NOWAIT);
        if !matches!(read, Ok(read) if read == size) {
            return Ok(None);
        }
        Ok(Some(bytes))
    }

    /// Reads an open file. It may grow meanwhile, so the limit applies to the bytes read, not to the reported size.
    pub(super) fn read_open(
        &self,
        path: &RelPath,
        file: File,
        size: u64,
        limit: u64,
    ) -> Result<Vec<u8>, FileError> {
        let too_large = |bytes| FileError::TooLarge { path: self.shown(path), bytes, limit };
        if size > limit {
            return Err(too_large(size));
        }
        // Below the limit, so it fits a usize.
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
        let read = file.take(limit + 1).read_to_end(&mut bytes);
        read.map_err(|source| FileError::of_io(&self.shown(path), source))?;
        if bytes.len() as u64 > limit {
            return Err(too_large(bytes.len() as u64));
        }
        Ok(bytes)
    }
}

/// A size from the kernel, which is signed but never negative.
pub(super) fn size(bytes: i64) -> u64 {
    u64::try_from(bytes).unwrap_or(0)
}
