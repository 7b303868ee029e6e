//! Sets the user, privileges and resource limits of a program before it starts.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::process::{Gid, Resource, Rlimit, Uid, setrlimit};
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};

use super::super::spec::{Limits, Mode};

/// Maps the user of this process to the same id inside, and no other user.
pub(super) fn map_ids(uid: Uid, gid: Gid) -> io::Result<()> {
    // Without this, only a process that is privileged outside may write a group map.
    fs::write("/proc/self/setgroups", "deny")?;
    let (uid, gid) = (uid.as_raw(), gid.as_raw());
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

/// Forbids further namespaces inside. The system call filter does the same; this works without it.
pub(super) fn forbid_namespaces() {
    for kind in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        let _ = fs::write(format!("/proc/sys/user/max_{kind}_namespaces"), "0");
    }
}

/// Brings up the loopback interface of a network namespace, so that programs can talk to themselves.
#[expect(unsafe_code, reason = "interface flags are set by an ioctl that has no safe form")]
pub(super) fn loopback_up() -> io::Result<()> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    use std::os::fd::AsRawFd;

    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: an all-zero request is valid, its name is ended by zeros, and it outlives the call.
    let done = unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or_default();
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets the limits of each process. The cgroup, if there is one, limits the memory of all together. The kernel counts a
/// user's processes per user namespace: without one, the user's current processes are added to the limit.
pub(super) fn apply(limits: &Limits, mode: Mode) -> io::Result<()> {
    let cap = |resource, most: u64| -> io::Result<()> {
        let now = rustix::process::getrlimit(resource);
        let most = now.maximum.map_or(most, |maximum| maximum.min(most));
        Ok(setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?)
    };
    cap(Resource::Core, 0)?;
    let others = match mode {
        Mode::Namespaces => 0,
        Mode::Landlock => threads_of(rustix::process::getuid()),
    };
    cap(Resource::Nproc, limits.processes.saturating_add(others))?;
    cap(Resource::Fsize, limits.file_bytes)?;
    cap(Resource::Nofile, limits.open_files)?;
    cap(Resource::Data, limits.memory_bytes)?;
    cap(Resource::Msgqueue, 0)?;
    cap(Resource::Memlock, 64 * 1024)?;
    Ok(())
}

/// How many threads a user has on the machine, as far as visible.
fn threads_of(user: Uid) -> u64 {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let theirs = processes.filter(|process| process.metadata().is_ok_and(|is| is.uid() == user.as_raw()));
    // A directory has one link per subdirectory, and two more.
    let threads = theirs.filter_map(|process| process.path().join("task").metadata().ok());
    threads.map(|tasks| tasks.nlink().saturating_sub(2)).sum()
}

/// The file with the OOM score of a process.
const LIKELIHOOD: &str = "/proc/self/oom_score_adj";

/// Makes this process the first that the kernel kills when memory runs out. Returns the previous score.
pub(super) fn be_the_first_to_go() -> String {
    let usual = fs::read_to_string(LIKELIHOOD).unwrap_or_else(|_| "0".to_owned());
    let _ = fs::write(LIKELIHOOD, "1000");
    usual
}

/// Makes this process the last that the kernel kills, or restores the previous score: not every user may lower it.
pub(super) fn be_the_last_to_go(usual: &str) {
    if fs::write(LIKELIHOOD, "-1000").is_err() {
        let _ = fs::write(LIKELIHOOD, usual.trim());
    }
}

/// Drops every privilege permanently. A user without privileges outside cannot drop the bounding set, but "no new
/// privileges" has the same effect.
pub(super) fn drop_privileges(mode: Mode) -> io::Result<()> {
    let locked = drop_bounding_set().and_then(|()| lock_privileges());
    if mode == Mode::Namespaces {
        locked?;
    }
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )?;
    rustix::thread::set_no_new_privs(true)?;
    Ok(())
}

/// Makes root's id meaningless.
fn lock_privileges() -> io::Result<()> {
    rustix::thread::set_capabilities_secure_bits(
        CapabilitiesSecureBits::NO_ROOT
            | CapabilitiesSecureBits::NO_ROOT_LOCKED
            | CapabilitiesSecureBits::NO_SETUID_FIXUP
            | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
            | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED,
    )?;
    Ok(())
}

/// Includes capabilities that are unknown to this program.
#[expect(unsafe_code, reason = "a capability without a name can only be dropped by its number")]
fn drop_bounding_set() -> io::Result<()> {
    for capability in 0..64 {
        // SAFETY: takes integers only.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } != 0 {
            let error = io::Error::last_os_error();
            // The kernel has no more capabilities.
            return if error.raw_os_error() == Some(libc::EINVAL) { Ok(()) } else { Err(error) };
        }
    }
    Ok(())
}

/// Resets all signals to their defaults, whatever the runtime's parent ignored, and unblocks them.
#[expect(unsafe_code, reason = "signal dispositions have no safe form")]
pub(super) fn default_signals() {
    // SAFETY: resetting to the default runs no code of ours; the set is filled before it is used.
    unsafe {
        for signal in 1..=libc::SIGRTMAX() {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}
