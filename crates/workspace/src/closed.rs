//! Restores access to files and directories of a workspace whose permissions an agent removed.
//!
//! They belong to the user that Posse runs as, so only their permissions block access. A file that cannot be read could
//! be neither merged nor salvaged.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{FileType, Mode as Permissions, OFlags};
use rustix::io::Errno;

use super::content::open_beneath;

/// The bits that reading a file needs.
const FILE_BITS: u32 = 0o400;
/// The bits that listing and changing a directory needs.
const DIR_BITS: u32 = 0o700;

/// Restores the owner's access to the file or directory at `path`, never through a symlink. Returns whether any bit was
/// missing.
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
    // Through the descriptor: the name could refer to another file by now.
    let handle = format!("/proc/self/fd/{}", thing.as_raw_fd());
    rustix::fs::chmod(handle, Permissions::from_raw_mode(bits | needed))?;
    Ok(true)
}

/// Calls `act`, and once more if access was denied and could be restored at `path`.
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
