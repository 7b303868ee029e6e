//! Mounts the system's directories so that root sees them like any other user.
//!
//! Root in the sandbox has root's id outside, so that it can work on its own files. Even without privileges it may read
//! files that only root may read, because it is their owner. A list of such files is outdated as soon as one is
//! created. So the system's directories are mounted with an id mapping that has only the unprivileged id 65534: root
//! does not own the files there and has only the permissions for others. That also covers files that are created or
//! replaced while a command runs.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::super::spec::CallSpec;
use super::{mounting, reached, wire};

/// The unprivileged user and group id. It is mapped to itself, because a mapping cannot be empty.
const NOBODY: u32 = 65_534;

/// Unattached mounts, by their sources.
pub(super) type ForeignMounts = HashMap<String, OwnedFd>;

/// Clones the mounts that root sees like others. Needs the machine's own root. A mount that cannot be cloned is missing
/// from the result; then only the list of hidden files protects it.
pub(super) fn take(spec: &CallSpec) -> ForeignMounts {
    // One for all calls of this init.
    static NUMBERS: OnceLock<Option<OwnedFd>> = OnceLock::new();
    if !rustix::process::geteuid().is_root() || spec.as_others.is_empty() {
        return ForeignMounts::new();
    }
    let Some(numbers) = NUMBERS.get_or_init(|| nobodys_numbers().ok()) else { return ForeignMounts::new() };
    let taken = spec.as_others.iter().filter_map(|source| {
        let tree = mounting::copy_of(reached::open(source).ok()?).ok()?;
        mounting::set_numbers(&tree, numbers.as_fd()).ok()?;
        Some((source.clone(), tree))
    });
    taken.collect()
}

/// A user namespace that maps only the unprivileged id 65534.
fn nobodys_numbers() -> io::Result<OwnedFd> {
    let (ours, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let Some(child) = clone_user()? else {
        // Waits until the pipe closes, then ends.
        drop(theirs);
        let _ = rustix::io::read(&ours, &mut [0; 1]);
        super::first::leave();
    };
    let named = name(child);
    drop(theirs);
    let _ = kill_process(child, Signal::KILL);
    let _ = wire::retry(|| waitpid(Some(child), WaitOptions::empty()));
    named
}

fn name(child: Pid) -> io::Result<OwnedFd> {
    let of = |file: &str| format!("/proc/{}/{file}", child.as_raw_nonzero());
    let map = format!("{NOBODY} {NOBODY} 1");
    fs::write(of("uid_map"), &map)?;
    fs::write(of("gid_map"), &map)?;
    Ok(File::open(of("ns/user"))?.into())
}

#[expect(unsafe_code, reason = "fork with flags has no safe form; sound because this process has one thread")]
fn clone_user() -> io::Result<Option<Pid>> {
    // SAFETY: without a stack and without CLONE_VM this is a fork; there is no other thread.
    let pid = unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_NEWUSER | libc::SIGCHLD, 0, 0, 0, 0) };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(i32::try_from(pid).ok().and_then(Pid::from_raw))
}
