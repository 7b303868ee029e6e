//! Advisory locks on open files, for the turnstile and for life locks. They belong to the open file, so the kernel
//! frees them when its process dies, and any thread that shares the file may take or free them.

use std::fs::File;
use std::io;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Waits for the exclusive lock. The kernel serves waiters first come, first served.
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

/// Whether the exclusive lock is free. Concurrent callers do not disturb each other, because the probe is a shared
/// lock.
pub(super) fn is_free(file: &File) -> io::Result<bool> {
    let free = try_flock(file, FlockOperation::NonBlockingLockShared)?;
    if free {
        unlock(file)?;
    }
    Ok(free)
}

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
