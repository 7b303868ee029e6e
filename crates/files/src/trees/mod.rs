//! Removes and measures whole directory trees, however deep: programs nest ten thousand directories.
//!
//! Nothing here recurses, opens more than a few directories at once, uses a path longer than one name, follows a link,
//! or goes beneath a mount point: a filesystem that is mounted in a tree is not part of it, and may not respond at all.
//! One entry that fails never stops the rest.

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

/// Maximum number of directories of one walk that are open at once.
const OPEN_MAX: usize = 16;
/// The owner's permissions to list and change a directory.
const OWNERS: u32 = 0o700;
/// The owner's permissions to list a directory.
const LISTING: u32 = 0o500;

/// Opens a directory beneath a directory, but not a link to one. If the owner, which is this process, lacks permission,
/// it is granted first. `Errno::XDEV` if something is mounted there.
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

/// Restores the owner's permissions on a directory, through its descriptor.
fn open_up(dir: &OwnedFd) {
    let path = format!("/proc/self/fd/{}", dir.as_raw_fd());
    if let Ok(metadata) = fs::metadata(&path) {
        let mode = metadata.mode() & 0o7777 | OWNERS;
        // If this fails, the next attempt to open it reports the error.
        let _ = fs::set_permissions(&path, fs::Permissions::from_mode(mode));
    }
}

/// A directory that its owner, which is this process, may list for a while. Dropping this restores the permissions:
/// listing changes nothing.
struct ListingPermission {
    path: String,
    before: u32,
    meanwhile: u32,
}

impl ListingPermission {
    /// None if nothing has to be changed, or nothing can be.
    fn open(dir: &OwnedFd) -> Option<Self> {
        let path = format!("/proc/self/fd/{}", dir.as_raw_fd());
        let before = fs::metadata(&path).ok()?.mode() & 0o7777;
        let permission = Self { path, before, meanwhile: before | LISTING };
        let needs_it = before & LISTING != LISTING && !rustix::process::geteuid().is_root();
        (needs_it && permission.set(permission.meanwhile)).then_some(permission)
    }

    fn set(&self, mode: u32) -> bool {
        fs::set_permissions(&self.path, fs::Permissions::from_mode(mode)).is_ok()
    }
}

impl Drop for ListingPermission {
    fn drop(&mut self) {
        // Keeps the mode if another process changed it meanwhile.
        let is_ours = |metadata: fs::Metadata| metadata.mode() & 0o7777 == self.meanwhile;
        if fs::metadata(&self.path).is_ok_and(is_ours) {
            self.set(self.before);
        }
    }
}

/// Opens a directory beneath a directory, but not a link to one, to list it.
fn list(above: &OwnedFd, name: &CStr) -> rustix::io::Result<OwnedFd> {
    match open_beneath(above, name, OFlags::RDONLY) {
        Err(Errno::ACCESS) => {
            let _above = ListingPermission::open(above);
            let reached = open_beneath(above, name, OFlags::PATH)?;
            let _own = ListingPermission::open(&reached);
            open_beneath(above, name, OFlags::RDONLY)
        }
        entered => entered,
    }
}

/// The parent directory of a path, whatever is mounted there, and the last name.
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
