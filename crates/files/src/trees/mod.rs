//! Whole directories with all they hold, however deep: programs make ten thousand directories, one in the other.
//!
//! Nothing here calls itself, opens more than a few directories at once, uses a path longer than one name, follows a
//! link, or goes beneath a mount point: what is mounted in a tree is not part of it, and may not answer at all. One entry
//! that cannot be dealt with never stops the rest.

mod remove;
mod sum;

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

pub use remove::remove;
pub use sum::{BLOCK_BYTES, bytes_beneath};

/// Most directories of one walk that are open at once.
const OPEN_MAX: usize = 16;
/// What the owner of a directory needs to list it and to change it.
const OWNERS: u32 = 0o700;
/// What the owner needs to list it.
const LOOKING: u32 = 0o500;

/// Opens a directory of a directory, and no link to one. If its owner, which this process is, may not look into it, that
/// is changed first. `Errno::XDEV` if something is mounted there.
fn enter(dir: impl AsFd, name: &CStr) -> rustix::io::Result<OwnedFd> {
    match open_beneath(&dir, name, OFlags::RDONLY) {
        Err(Errno::ACCESS) => {
            open_up(&open_beneath(&dir, name, OFlags::PATH)?);
            open_beneath(&dir, name, OFlags::RDONLY)
        }
        entered => entered,
    }
}

fn open_beneath(dir: impl AsFd, name: &CStr, how: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = how | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(dir, name, flags, Mode::empty(), ResolveFlags::NO_XDEV)
}

/// Gives the owner of a directory the permissions on it back. It is reached by its descriptor.
fn open_up(dir: &OwnedFd) {
    let path = format!("/proc/self/fd/{}", dir.as_raw_fd());
    if let Ok(metadata) = fs::metadata(&path) {
        let mode = metadata.mode() & 0o7777 | OWNERS;
        // What cannot be opened up is noticed by whoever tries again.
        let _ = fs::set_permissions(&path, fs::Permissions::from_mode(mode));
    }
}

/// A directory into which its owner, which this process is, may look for a while. When this is dropped, its permissions are
/// as before: looking changes nothing.
struct LookedInto {
    path: String,
    before: u32,
    meanwhile: u32,
}

impl LookedInto {
    /// None if nothing has to be changed, or nothing can be.
    fn open(dir: &OwnedFd) -> Option<Self> {
        let path = format!("/proc/self/fd/{}", dir.as_raw_fd());
        let before = fs::metadata(&path).ok()?.mode() & 0o7777;
        let looked_into = Self { path, before, meanwhile: before | LOOKING };
        let needs_it = before & LOOKING != LOOKING && !rustix::process::geteuid().is_root();
        (needs_it && looked_into.set(looked_into.meanwhile)).then_some(looked_into)
    }

    fn set(&self, mode: u32) -> bool {
        fs::set_permissions(&self.path, fs::Permissions::from_mode(mode)).is_ok()
    }
}

impl Drop for LookedInto {
    fn drop(&mut self) {
        // Whoever changed them meanwhile wants them so.
        let is_ours = |metadata: fs::Metadata| metadata.mode() & 0o7777 == self.meanwhile;
        if fs::metadata(&self.path).is_ok_and(is_ours) {
            self.set(self.before);
        }
    }
}

/// Opens a directory of a directory, and no link to one, to look at what it holds.
fn list(above: &OwnedFd, name: &CStr) -> rustix::io::Result<OwnedFd> {
    match open_beneath(above, name, OFlags::RDONLY) {
        Err(Errno::ACCESS) => {
            let _above = LookedInto::open(above);
            let reached = open_beneath(above, name, OFlags::PATH)?;
            let _own = LookedInto::open(&reached);
            open_beneath(above, name, OFlags::RDONLY)
        }
        entered => entered,
    }
}

/// The directory that something is in, wherever that is mounted, and its name there.
fn parts_of(path: &Path) -> io::Result<(OwnedFd, CString)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = rustix::fs::openat(rustix::fs::CWD, above, flags, Mode::empty())?;
    Ok((above, CString::new(name.as_encoded_bytes())?))
}

fn is_self_or_above(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

#[cfg(test)]
mod tests;
