//! Files and directories of a workspace that an agent closed to its own user.
//!
//! They belong to the user that Posse runs as, so nothing but their permissions keeps it from looking; and what cannot
//! be looked at could be neither merged nor kept.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{FileType, Mode as Permissions, OFlags};
use rustix::io::Errno;

use super::content::open_beneath;

/// What it takes to look at a file.
const FILE_BITS: u32 = 0o400;
/// What it takes to look into a directory and to change what is in it.
const DIR_BITS: u32 = 0o700;

/// Gives the owner back what is needed to look at the file or directory at `path`; never through a symlink. Says whether
/// anything was missing.
pub(crate) fn open_up(root: &OwnedFd, path: &[u8]) -> Result<bool, Errno> {
    let thing = open_beneath(root, path, OFlags::PATH | OFlags::NOFOLLOW, Permissions::empty())?;
    let stat = rustix::fs::fstat(&thing)?;
    let needed = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => DIR_BITS,
        FileType::RegularFile => FILE_BITS,
        _ => return Ok(false),
    };
    let bits = stat.st_mode & 0o7777;
    if bits & needed == needed {
        return Ok(false);
    }
    // Through the handle: by its name it could be another thing by now.
    let handle = format!("/proc/self/fd/{}", thing.as_raw_fd());
    rustix::fs::chmod(handle, Permissions::from_raw_mode(bits | needed))?;
    Ok(true)
}

/// Does something, and once more if that was not permitted and the owner could be given back what is needed at `path`.
pub(crate) fn opened_up<T>(
    root: &OwnedFd,
    path: &[u8],
    mut act: impl FnMut() -> Result<T, Errno>,
) -> Result<T, Errno> {
    match act() {
        Err(Errno::ACCESS) if open_up(root, path).unwrap_or(false) => act(),
        done => done,
    }
}
