//! Lets the caller's permission rules decide which paths may be read.
//!
//! The kernel keeps everything beneath the workspace. The agent's rules decide which part of it the agent may see, and
//! they are about paths. A given path may lead through links, so a rule for it does not cover the file that is opened.
//! With a [`ReadFilter`] a path is first opened without following links, which costs nothing extra and nearly always
//! succeeds: then the path is the real one. Only for a path through a link, the kernel is asked for the real path of
//! the open file, and the filter decides about that too.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, OFlags, Stat, readlinkat};
use rustix::io::Errno;

use super::dir_handle::Links;
use super::{DirHandle, FileError, RelPath};

/// The suffix with which the kernel marks a removed file.
const REMOVED: &[u8] = b" (deleted)";

/// Decides which paths of a workspace may be read. An error is the reason for the caller.
///
/// It is called for every given path and, if that goes through a link, for the real path too.
pub trait ReadFilter: Send + Sync + std::fmt::Debug {
    /// Whether a listing or a search may begin in this directory.
    fn enter(&self, dir: &RelPath) -> Result<(), String>;

    /// Whether this file may be opened, or found by a search that only names it.
    fn open(&self, file: &RelPath) -> Result<(), String>;
}

/// A method of the filter.
type Question = fn(&(dyn ReadFilter + 'static), &RelPath) -> Result<(), String>;

impl DirHandle {
    /// The same directory with a filter, or without one.
    pub fn with_read_filter(mut self, filter: Option<Arc<dyn ReadFilter>>) -> Self {
        self.filter = filter;
        self
    }

    /// Opens a regular file that the filter admits.
    pub(super) fn open_admitted(&self, path: &RelPath, links: Links) -> Result<(File, Stat), FileError> {
        if self.filter.is_none() {
            return self.open_regular(path, links);
        }
        self.admit(path)?;
        match self.open_regular(path, Links::Refuse) {
            Err(FileError::Link { .. }) if links == Links::Inside => {
                let (file, stat) = self.open_regular(path, Links::Inside)?;
                let real = self.real_path(path, &file)?;
                self.ask(<dyn ReadFilter>::open, path, &real)?;
                Ok((file, stat))
            }
            opened => opened,
        }
    }

    /// Opens a directory that the filter admits, and returns its real path.
    pub(super) fn enter_admitted(&self, dir: &RelPath) -> Result<(OwnedFd, RelPath), FileError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        if self.filter.is_none() {
            return Ok((self.open_at(dir, flags, Links::Inside)?, self.real.below(dir)));
        }
        self.ask(<dyn ReadFilter>::enter, dir, &self.shown(dir))?;
        let (opened, real) = match self.open_at(dir, flags, Links::Refuse) {
            Err(FileError::Link { .. }) => {
                let opened = self.open_at(dir, flags, Links::Inside)?;
                let real = self.real_path(dir, &opened)?;
                (opened, real)
            }
            opened => (opened?, self.real.below(dir)),
        };
        self.ask(<dyn ReadFilter>::enter, dir, &real)?;
        Ok((opened, real))
    }

    /// Checks the filter for a file that is reached without a link from here on.
    pub(super) fn admit(&self, path: &RelPath) -> Result<(), FileError> {
        if self.filter.is_none() {
            return Ok(());
        }
        self.ask(<dyn ReadFilter>::open, path, &self.shown(path))?;
        if self.real == self.at {
            return Ok(());
        }
        self.ask(<dyn ReadFilter>::open, path, &self.real.below(path))
    }

    fn ask(&self, question: Question, path: &RelPath, about: &RelPath) -> Result<(), FileError> {
        let Some(filter) = &self.filter else { return Ok(()) };
        question(&**filter, about).map_err(|reason| FileError::Refused { path: self.shown(path), reason })
    }

    /// The real path in the workspace of a file that was opened beneath this directory. A doubtful answer of the kernel
    /// is an error.
    pub(super) fn real_path(&self, path: &RelPath, opened: &impl AsFd) -> Result<RelPath, FileError> {
        let failed = |errno| FileError::of(&self.shown(path), errno);
        let opened = resolve(opened).map_err(failed)?;
        let root = resolve(self.directory()).map_err(failed)?;
        let unsettled = || FileError::Unsettled { path: self.shown(path) };
        // Moved out between the two calls, or its name was removed: the real path is unknown.
        let inner = opened.strip_prefix(&root).map_err(|_| unsettled())?;
        if opened.as_os_str().as_bytes().ends_with(REMOVED) {
            return Err(unsettled());
        }
        Ok(inner.iter().fold(self.real.clone(), |at, name| at.join(name)))
    }
}

/// The path of an open file, from the kernel.
fn resolve(opened: &impl AsFd) -> Result<PathBuf, Errno> {
    let name = format!("/proc/self/fd/{}", opened.as_fd().as_raw_fd());
    let place = readlinkat(CWD, Path::new(&name), Vec::new())?;
    Ok(std::ffi::OsString::from_vec(place.into_bytes()).into())
}
