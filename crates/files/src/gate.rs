//! Whether somebody else lets a path be looked at.
//!
//! The kernel keeps everything beneath the workspace; which part of that an agent may see is for its rules to
//! say, and they are about paths. A path that was given may lead through links, so a rule for it says nothing
//! about the file that is opened. With a [`Gate`] a path is opened without following links first, which costs
//! nothing more and succeeds nearly always: then it is where it says. Only behind a link the system is asked
//! where the open file really is, and the gate is asked about that too.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, OFlags, Stat, readlinkat};
use rustix::io::Errno;

use super::dir_handle::Links;
use super::{DirHandle, FileError, RelPath};

/// How the system marks where a file was before its name was removed.
const REMOVED: &[u8] = b" (deleted)";

/// Decides what of a workspace may be looked at. An error says why not, for the one who asked.
///
/// It is asked about every path as it was given and, where that goes through a link, as it really is.
pub trait Gate: Send + Sync + std::fmt::Debug {
    /// Whether a listing or a search may begin in this directory.
    fn enter(&self, dir: &RelPath) -> Result<(), String>;

    /// Whether this file may be opened, or found by a search that only names it.
    fn open(&self, file: &RelPath) -> Result<(), String>;
}

/// What a gate is asked.
type Question = fn(&(dyn Gate + 'static), &RelPath) -> Result<(), String>;

impl DirHandle {
    /// The same directory with a gate, or without one.
    pub fn guarded(mut self, gate: Option<Arc<dyn Gate>>) -> Self {
        self.gate = gate;
        self
    }

    /// Opens a regular file that the gate lets pass.
    pub(super) fn open_admitted(&self, path: &RelPath, links: Links) -> Result<(File, Stat), FileError> {
        if self.gate.is_none() {
            return self.open_regular(path, links);
        }
        self.admit(path)?;
        match self.open_regular(path, Links::Refuse) {
            Err(FileError::Link { .. }) if links == Links::Inside => {
                let (file, stat) = self.open_regular(path, Links::Inside)?;
                let real = self.real_path(path, &file)?;
                self.ask(<dyn Gate>::open, path, &real)?;
                Ok((file, stat))
            }
            opened => opened,
        }
    }

    /// Opens a directory that the gate lets pass, and says where it really is.
    pub(super) fn enter_admitted(&self, dir: &RelPath) -> Result<(OwnedFd, RelPath), FileError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        if self.gate.is_none() {
            return Ok((self.open_at(dir, flags, Links::Inside)?, self.real.below(dir)));
        }
        self.ask(<dyn Gate>::enter, dir, &self.shown(dir))?;
        let (opened, real) = match self.open_at(dir, flags, Links::Refuse) {
            Err(FileError::Link { .. }) => {
                let opened = self.open_at(dir, flags, Links::Inside)?;
                let real = self.real_path(dir, &opened)?;
                (opened, real)
            }
            opened => (opened?, self.real.below(dir)),
        };
        self.ask(<dyn Gate>::enter, dir, &real)?;
        Ok((opened, real))
    }

    /// Asks the gate about a file that is reached without a link from here on.
    pub(super) fn admit(&self, path: &RelPath) -> Result<(), FileError> {
        if self.gate.is_none() {
            return Ok(());
        }
        self.ask(<dyn Gate>::open, path, &self.shown(path))?;
        if self.real == self.at {
            return Ok(());
        }
        self.ask(<dyn Gate>::open, path, &self.real.below(path))
    }

    fn ask(&self, question: Question, path: &RelPath, about: &RelPath) -> Result<(), FileError> {
        let Some(gate) = &self.gate else { return Ok(()) };
        question(&**gate, about).map_err(|reason| FileError::Refused { path: self.shown(path), reason })
    }

    /// Where something that was opened beneath this directory really is, in the workspace. Whatever makes the
    /// system's answer doubtful is an error.
    pub(super) fn real_path(&self, path: &RelPath, opened: &impl AsFd) -> Result<RelPath, FileError> {
        let failed = |errno| FileError::of(&self.shown(path), errno);
        let opened = resolve(opened).map_err(failed)?;
        let root = resolve(self.directory()).map_err(failed)?;
        let unsettled = || FileError::Unsettled { path: self.shown(path) };
        // Moved out between the two looks, or its name was removed: nobody can tell any more.
        let inner = opened.strip_prefix(&root).map_err(|_| unsettled())?;
        if opened.as_os_str().as_bytes().ends_with(REMOVED) {
            return Err(unsettled());
        }
        Ok(inner.iter().fold(self.real.clone(), |at, name| at.join(name)))
    }
}

/// Where the system says that something open is.
fn resolve(opened: &impl AsFd) -> Result<PathBuf, Errno> {
    let name = format!("/proc/self/fd/{}", opened.as_fd().as_raw_fd());
    let place = readlinkat(CWD, Path::new(&name), Vec::new())?;
    Ok(std::ffi::OsString::from_vec(place.into_bytes()).into())
}
