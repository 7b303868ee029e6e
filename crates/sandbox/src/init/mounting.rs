//! Mounts by descriptor: what is mounted, and on what, was reached before and is not looked for again.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

/// What is asked of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attributes {
    /// No program with privileges and no device in it counts.
    Plain,
    /// And nothing in it can be changed.
    ReadOnly,
}

impl Attributes {
    fn bits(self) -> u64 {
        let plain = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
        match self {
            Self::Plain => plain,
            Self::ReadOnly => plain | libc::MOUNT_ATTR_RDONLY,
        }
    }
}

/// A copy of what is mounted at and beneath a place, mounted nowhere yet.
pub(super) fn copy_of(place: impl AsFd) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(place, "", flags)?)
}

/// Mounts something on a place.
pub(super) fn put(mounted: impl AsFd, place: impl AsFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mounted, "", place, "", flags)?)
}

/// Mounts a place over itself; what was reached is what is mounted.
pub(super) fn over_itself(place: impl AsFd, attributes: Option<Attributes>) -> io::Result<OwnedFd> {
    let copy = copy_of(&place)?;
    if let Some(attributes) = attributes {
        set(&copy, attributes)?;
    }
    put(&copy, place)?;
    Ok(copy)
}

/// A new filesystem in memory, mounted nowhere yet.
pub(super) fn memory(mode: &str, size: &str) -> io::Result<OwnedFd> {
    new("tmpfs", &[("mode", mode), ("size", size)], &[], usual())
}

/// The processes of this pid namespace, mounted nowhere yet.
pub(super) fn processes() -> io::Result<OwnedFd> {
    new("proc", &[], &[], usual() | MountAttrFlags::MOUNT_ATTR_NOEXEC)
}

/// Directories, the first over the others, with the changes to them in one more; mounted nowhere yet. Needs `/proc`.
pub(super) fn overlay(lowers: &[&OwnedFd], upper: &OwnedFd, work: &OwnedFd) -> io::Result<OwnedFd> {
    let lower = lowers.iter().map(|lower| by_descriptor(lower)).collect::<Vec<_>>().join(":");
    let [upper, work] = [upper, work].map(by_descriptor);
    let layers = [("lowerdir", &*lower), ("upperdir", &*upper), ("workdir", &*work)];
    // Its notes are those that a user without privileges may write; the kernel then follows none of those that lead
    // elsewhere.
    new("overlay", &layers, &["userxattr"], usual())
}

/// A directory that is mounted, once more and read-only, with locks of its own: a lock that is taken there is not seen by
/// any program that opens the file elsewhere. The other directory is an empty one, because the kernel wants two. Mounted
/// nowhere yet. Needs `/proc`.
pub(super) fn with_own_locks(dir: &OwnedFd, empty: &OwnedFd) -> io::Result<OwnedFd> {
    let lower = format!("{}:{}", by_descriptor(empty), by_descriptor(dir));
    new("overlay", &[("lowerdir", &lower)], &["userxattr"], usual() | MountAttrFlags::MOUNT_ATTR_RDONLY)
}

fn usual() -> MountAttrFlags {
    MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV
}

fn new(
    kind: &str,
    texts: &[(&str, &str)],
    flags: &[&str],
    attributes: MountAttrFlags,
) -> io::Result<OwnedFd> {
    let filesystem = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in texts {
        fsconfig_set_string(&filesystem, *key, *value)?;
    }
    for flag in flags {
        fsconfig_set_flag(&filesystem, *flag)?;
    }
    fsconfig_create(&filesystem)?;
    Ok(fsmount(&filesystem, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// How a filesystem is told of a directory: no name has to be escaped, and none can be swapped.
fn by_descriptor(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Lets the numbers of owners in a mount that is nowhere yet, and in all beneath it, be those of a user namespace; nothing in
/// it can be changed.
#[expect(unsafe_code, reason = "mount_setattr has no safe form")]
pub(super) fn set_numbers(mounted: impl AsFd, numbers: BorrowedFd<'_>) -> io::Result<()> {
    let numbers = u64::try_from(numbers.as_raw_fd()).map_err(io::Error::other)?;
    // SAFETY: an all-zero value is valid, and it and the path outlive the call, which is told its size.
    let done = unsafe {
        let mut asked: libc::mount_attr = std::mem::zeroed();
        asked.attr_set = Attributes::ReadOnly.bits() | libc::MOUNT_ATTR_IDMAP;
        asked.userns_fd = numbers;
        libc::syscall(
            libc::SYS_mount_setattr,
            mounted.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const asked,
            size_of::<libc::mount_attr>(),
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets attributes of a mount and of all mounts beneath it.
pub(super) fn set(mounted: impl AsFd, attributes: Attributes) -> io::Result<()> {
    set_with(mounted, attributes, libc::AT_EMPTY_PATH | libc::AT_RECURSIVE)
}

/// Sets attributes of a mount, and of none beneath it.
pub(super) fn set_alone(mounted: impl AsFd, attributes: Attributes) -> io::Result<()> {
    set_with(mounted, attributes, libc::AT_EMPTY_PATH)
}

#[expect(unsafe_code, reason = "mount_setattr has no safe form")]
fn set_with(mounted: impl AsFd, attributes: Attributes, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: an all-zero value is valid, and it and the path outlive the call, which is told its size.
    let done = unsafe {
        let mut asked: libc::mount_attr = std::mem::zeroed();
        asked.attr_set = attributes.bits();
        libc::syscall(
            libc::SYS_mount_setattr,
            mounted.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const asked,
            size_of::<libc::mount_attr>(),
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
