//! Whole directories with all they hold, however deep: programs make ten thousand directories, one in the other.
//!
//! Nothing here calls itself, opens more than a few directories at once, uses a path longer than one name, or follows a
//! link. One entry that cannot be dealt with never stops the rest.

mod remove;
mod sum;

use std::ffi::CStr;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

pub use remove::remove;
pub(crate) use sum::bytes_beneath;

/// Most directories of one walk that are open at once.
const OPEN_MAX: usize = 16;
/// What the owner of a directory needs to list it and to change it.
const OWNERS: u32 = 0o700;

/// Opens a directory of a directory, and no link to one. If its owner, which this process is, may not look into it, that
/// is changed first.
fn enter(dir: impl AsFd, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(&dir, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let reached = openat(&dir, name, flags | OFlags::PATH, Mode::empty())?;
            open_up(&reached);
            openat(&dir, name, flags, Mode::empty())
        }
        entered => entered,
    }
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

fn is_self_or_above(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

#[cfg(test)]
mod tests;
