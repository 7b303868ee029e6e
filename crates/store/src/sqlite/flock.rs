//! Advisory locks on open files. They belong to the open file, so the kernel frees them when its process dies,
//! and any thread that shares the file may take or free them.

use std::fs::File;
use std::io;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Waits for the exclusive lock. The order of the waiters is the kernel's: first come, first served.
pub(super) fn lock(file: &File) -> io::Result<()> {
    loop {
        match flock(file, FlockOperation::LockExclusive) {
            Err(Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

/// Takes the exclusive lock if it is free.
pub(super) fn try_lock(file: &File) -> io::Result<bool> {
    try_flock(file, FlockOperation::NonBlockingLockExclusive)
}

/// Whether nobody holds the exclusive lock. Askers do not disturb each other: they share it for the moment.
pub(super) fn is_free(file: &File) -> io::Result<bool> {
    let free = try_flock(file, FlockOperation::NonBlockingLockShared)?;
    if free {
        unlock(file)?;
    }
    Ok(free)
}

/// Frees the lock.
pub(super) fn unlock(file: &File) -> io::Result<()> {
    Ok(flock(file, FlockOperation::Unlock)?)
}

fn try_flock(file: &File, operation: FlockOperation) -> io::Result<bool> {
    loop {
        match flock(file, operation) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
