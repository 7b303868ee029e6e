//! Mounts by descriptor: sources and mount points were opened before and are not resolved again.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

/// Longest explanation of a failed mount that is read from the kernel.
const EXPLANATION_MAX_BYTES: usize = 512;

/// The attributes of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attributes {
    /// Ignores set-user-id bits and devices.
    Plain,
    /// Plain, and read-only.
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

/// An unattached copy of the mounts at and beneath a path.
pub(super) fn copy_of(place: impl AsFd) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(place, "", flags)?)
}

/// Attaches a mount to a mount point.
pub(super) fn put(mounted: impl AsFd, place: impl AsFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mounted, "", place, "", flags)?)
}

/// Mounts a path over itself, by descriptor.
pub(super) fn over_itself(place: impl AsFd, attributes: Option<Attributes>) -> io::Result<OwnedFd> {
    let copy = copy_of(&place)?;
    if let Some(attributes) = attributes {
        set(&copy, attributes)?;
    }
    put(&copy, place)?;
    Ok(copy)
}

/// A new tmpfs, unattached.
pub(super) fn memory(mode: &str, size: &str) -> io::Result<OwnedFd> {
    new("tmpfs", &[("mode", mode), ("size", size)], &[], usual())
}

/// A procfs of this pid namespace, unattached.
pub(super) fn processes() -> io::Result<OwnedFd> {
    new("proc", &[], &[], usual() | MountAttrFlags::MOUNT_ATTR_NOEXEC)
}

/// An overlay of directories, the topmost first, with `upper` for changes; unattached. Needs `/proc`.
pub(super) fn overlay(lowers: &[&OwnedFd], upper: &OwnedFd, work: &OwnedFd) -> io::Result<OwnedFd> {
    let lower = lowers.iter().map(|lower| by_descriptor(lower)).collect::<Vec<_>>().join(":");
    let [upper, work] = [upper, work].map(by_descriptor);
    let layers = [("lowerdir", &*lower), ("upperdir", &*upper), ("workdir", &*work)];
    // With `userxattr`, an unprivileged user may write the overlay's attributes, and the kernel follows no redirects in
    // them.
    new("overlay", &layers, &["userxattr"], usual())
}

/// The directories for the changes of an overlay.
pub(super) struct OverlayChanges {
    pub(super) upper: OwnedFd,
    /// An empty directory for the kernel, used by one mount only.
    pub(super) work: OwnedFd,
    /// Whether directories of the lower layers can be renamed. Needs the privileges of root.
    pub(super) renames: bool,
}

/// An overlay of any number of directories, the topmost first; unattached. Read-only without `changes`. Its syncs do
/// nothing. Needs `/proc`.
pub(super) fn layers(lowers: &[OwnedFd], changes: Option<&OverlayChanges>) -> io::Result<OwnedFd> {
    match layers_by(add_each_lower, lowers, changes) {
        // An older kernel takes all lower layers in one text.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => layers_by(add_lowers, lowers, changes),
        mounted => mounted,
    }
}

fn layers_by(
    add: fn(&OwnedFd, &[OwnedFd]) -> io::Result<()>,
    lowers: &[OwnedFd],
    changes: Option<&OverlayChanges>,
) -> io::Result<OwnedFd> {
    let filesystem = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let made = || -> io::Result<OwnedFd> {
        add(&filesystem, lowers)?;
        match changes {
            None => fsconfig_set_flag(&filesystem, "userxattr")?,
            Some(OverlayChanges { upper, work, renames }) => {
                fsconfig_set_string(&filesystem, "upperdir", by_descriptor(upper))?;
                fsconfig_set_string(&filesystem, "workdir", by_descriptor(work))?;
                if *renames {
                    fsconfig_set_string(&filesystem, "redirect_dir", "on")?;
                    // A machine may have it on: a file whose mode was changed would then be empty in the upper layer, which
                    // snapshots read alone.
                    fsconfig_set_string(&filesystem, "metacopy", "off")?;
                } else {
                    fsconfig_set_flag(&filesystem, "userxattr")?;
                }
                fsconfig_set_flag(&filesystem, "volatile")?;
            }
        }
        fsconfig_create(&filesystem)?;
        let read_only = MountAttrFlags::MOUNT_ATTR_RDONLY;
        let attributes = if changes.is_some() { usual() } else { usual() | read_only };
        Ok(fsmount(&filesystem, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
    };
    made().map_err(|error| explained(&filesystem, error))
}

fn add_each_lower(filesystem: &OwnedFd, lowers: &[OwnedFd]) -> io::Result<()> {
    Ok(lowers
        .iter()
        .try_for_each(|lower| fsconfig_set_string(filesystem, "lowerdir+", by_descriptor(lower)))?)
}

fn add_lowers(filesystem: &OwnedFd, lowers: &[OwnedFd]) -> io::Result<()> {
    let all = lowers.iter().map(by_descriptor).collect::<Vec<_>>().join(":");
    Ok(fsconfig_set_string(filesystem, "lowerdir", all)?)
}

/// Adds the kernel's own explanation of a failed mount to its error.
fn explained(filesystem: &OwnedFd, error: io::Error) -> io::Error {
    let mut buffer = [0; EXPLANATION_MAX_BYTES];
    match rustix::io::read(filesystem, &mut buffer) {
        Ok(length) if length > 0 => {
            let text = String::from_utf8_lossy(&buffer[..length]);
            let text = text.trim().trim_start_matches(['e', 'w', 'i']).trim();
            io::Error::new(error.kind(), format!("{error} ({text})"))
        }
        _ => error,
    }
}

/// A read-only copy of a mounted directory with separate file locks: a lock that is taken there does not affect
/// programs that open the file elsewhere. It is an overlay with an empty second directory, because the kernel requires
/// two. Unattached. Needs `/proc`.
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

/// A path for a filesystem option that needs no escaping and cannot be replaced.
fn by_descriptor(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Maps the owners in an unattached mount, and in all beneath it, through a user namespace, and makes it read-only.
#[expect(unsafe_code, reason = "mount_setattr has no safe form")]
pub(super) fn set_numbers(mounted: impl AsFd, numbers: BorrowedFd<'_>) -> io::Result<()> {
    let numbers = u64::try_from(numbers.as_raw_fd()).map_err(io::Error::other)?;
    // SAFETY: an all-zero value is valid, and it and the path outlive the call, which gets its size.
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

/// Sets attributes of a single mount.
pub(super) fn set_alone(mounted: impl AsFd, attributes: Attributes) -> io::Result<()> {
    set_with(mounted, attributes, libc::AT_EMPTY_PATH)
}

#[expect(unsafe_code, reason = "mount_setattr has no safe form")]
fn set_with(mounted: impl AsFd, attributes: Attributes, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: an all-zero value is valid, and it and the path outlive the call, which gets its size.
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
