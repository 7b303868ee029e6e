//! What programs in the box see: a new root, with only what they need, and only the workspace and scratch writable.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change, unmount,
};

use super::super::spec::CallSpec;
use super::caches::Caches;

/// Where the machine's own root is while the new one is built.
const OLD: &str = "/.old";
/// Where scratch is while it is handed out.
const SCRATCH: &str = "/.scratch";
/// An empty directory and an empty file, which stand for what is hidden.
const EMPTY_DIR: &str = "/.empty";
const EMPTY_FILE: &str = "/.nothing";
/// Devices that programs cannot do without, and that lead nowhere.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// The step that failed, and how.
type Failed = (String, io::Error);

/// Builds the new root and leaves the old one.
pub(super) fn build(spec: &CallSpec, protected: &[&Path]) -> Result<Caches, Failed> {
    enter_new_root(&spec.workspace)?;
    let caches = furnish(spec, protected)?;
    unmount(OLD, UnmountFlags::DETACH).map_err(step("leaving the machine's root"))?;
    fs::remove_dir(OLD).map_err(step("leaving the machine's root"))?;
    set_attributes(Path::new("/"), Attributes::READ_ONLY, false).map_err(step("closing the root"))?;
    Ok(caches)
}

fn step<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Failed {
    move |error| (what.into(), error.into())
}

/// Makes an empty root and goes there; the machine's is at [`OLD`]. Any directory serves as the place where it is
/// mounted, and is uncovered again by going there.
fn enter_new_root(place: &str) -> Result<(), Failed> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(step("separating mounts"))?;
    tmpfs(place, c"mode=0755,size=1m").map_err(step("making a new root"))?;
    let old = format!("{place}{OLD}");
    fs::create_dir(&old).map_err(step("making a new root"))?;
    rustix::process::pivot_root(place, &old).map_err(step("going to the new root"))?;
    rustix::process::chdir("/").map_err(step("going to the new root"))
}

fn furnish(spec: &CallSpec, protected: &[&Path]) -> Result<Caches, Failed> {
    for (link, target) in &spec.links {
        std::os::unix::fs::symlink(target, link).map_err(step(format!("making the link {link}")))?;
    }
    fs::create_dir(EMPTY_DIR)
        .and_then(|()| File::create(EMPTY_FILE))
        .map_err(step("making an empty file"))?;
    let beneath_scratch =
        |path: &&String| spec.scratch.iter().any(|scratch| Path::new(path).starts_with(scratch));
    // What lies beneath scratch is mounted after it, or it would be covered.
    for path in spec.read.iter().filter(|path| !beneath_scratch(path)) {
        show(path)?;
    }
    hand_out_scratch(spec)?;
    for path in spec.read.iter().filter(beneath_scratch) {
        show(path)?;
    }
    devices()?;
    fs::create_dir("/proc").map_err(step("making /proc"))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, None).map_err(step("mounting /proc"))?;
    workspace(spec, protected)?;
    let caches = Caches::mount(Path::new(&spec.shown_as), &spec.caches);
    for (source, target) in &spec.shown {
        show_at(source, target)?;
    }
    for path in &spec.hidden {
        hide(path, &spec.shown_as)?;
    }
    Ok(caches)
}

/// Shows a file or directory of the machine, read-only. What is not there is not shown.
fn show(path: &str) -> Result<(), Failed> {
    show_at(path, path)
}

fn show_at(source: &str, path: &str) -> Result<(), Failed> {
    let source = old(source);
    let Ok(metadata) = fs::metadata(&source) else { return Ok(()) };
    let shown = || -> io::Result<()> {
        target(Path::new(path), metadata.is_dir())?;
        mount_bind_recursive(&source, path)?;
        set_attributes(Path::new(path), Attributes::READ_ONLY, true)
    };
    shown().map_err(step(format!("showing {path}")))
}

fn hand_out_scratch(spec: &CallSpec) -> Result<(), Failed> {
    let made = || -> io::Result<()> {
        fs::create_dir(SCRATCH)?;
        let options = format!("mode=0700,size={}\0", spec.limits.scratch_bytes);
        tmpfs(SCRATCH, CStr::from_bytes_with_nul(options.as_bytes()).map_err(io::Error::other)?)?;
        for (number, path) in spec.scratch.iter().enumerate() {
            let own = Path::new(SCRATCH).join(number.to_string());
            fs::DirBuilder::new().mode(0o700).create(&own)?;
            if path.ends_with("tmp") {
                fs::set_permissions(&own, fs::Permissions::from_mode(0o1777))?;
            }
            target(Path::new(path), true)?;
            mount_bind_recursive(&own, path)?;
        }
        unmount(SCRATCH, UnmountFlags::DETACH)?;
        fs::remove_dir(SCRATCH)
    };
    made().map_err(step("making scratch directories"))
}

fn devices() -> Result<(), Failed> {
    let made = || -> io::Result<()> {
        fs::create_dir_all("/dev")?;
        for name in DEVICES {
            let (source, device) = (old(&format!("/dev/{name}")), format!("/dev/{name}"));
            File::create(&device)?;
            mount_bind_recursive(&source, &device)?;
        }
        for (link, to) in [("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
            std::os::unix::fs::symlink(format!("/proc/self/{to}"), format!("/dev/{link}"))?;
        }
        Ok(())
    };
    made().map_err(step("making /dev"))
}

/// Shows the workspace, read-only or writable but for its protected names.
fn workspace(spec: &CallSpec, protected: &[&Path]) -> Result<(), Failed> {
    let path = Path::new(&spec.shown_as);
    let shown = || -> io::Result<()> {
        target(path, true)?;
        mount_bind_recursive(old(&spec.workspace), path)?;
        let attributes = if spec.read_only { Attributes::READ_ONLY } else { Attributes::PLAIN };
        set_attributes(path, attributes, true)
    };
    shown().map_err(step("showing the workspace"))?;
    for name in protected.iter().filter(|_| !spec.read_only) {
        protect(path, name).map_err(step(format!("protecting {}", name.display())))?;
    }
    Ok(())
}

/// Mounts a name of the workspace over itself, read-only. The directories above it are mounted too: a directory
/// that is a mount cannot be renamed, with the protected name in it.
fn protect(workspace: &Path, name: &Path) -> io::Result<()> {
    let mut path = workspace.to_owned();
    let mut parts = name.iter().peekable();
    while let Some(part) = parts.next() {
        path.push(part);
        let Ok(metadata) = fs::symlink_metadata(&path) else { return Ok(()) };
        // A link above it leads elsewhere: what is there is not in the workspace, or has a name of its own.
        if metadata.is_symlink() {
            return Ok(());
        }
        if parts.peek().is_none() {
            mount_bind_recursive(&path, &path)?;
            set_attributes(&path, Attributes::READ_ONLY, true)?;
        } else if metadata.is_dir() {
            mount_bind_recursive(&path, &path)?;
        }
    }
    Ok(())
}

/// Closes what /proc shows of the machine itself. The kernel asks only for the user's number there, and root's is the
/// same inside: it could set which program handles crashes of the whole machine.
pub(super) fn close_proc() -> Result<(), Failed> {
    let closed = || -> io::Result<()> {
        for entry in fs::read_dir("/proc")? {
            let entry = entry?;
            let is_process = entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit);
            // An entry may be gone, or be one that nobody may look at.
            let Some(metadata) = entry.metadata().ok().filter(|_| !is_process) else { continue };
            let (path, mode) = (entry.path(), metadata.permissions().mode());
            let cover = match metadata {
                metadata if metadata.is_symlink() => continue,
                metadata if metadata.is_dir() || mode & 0o222 != 0 => path.as_path(),
                _ if mode & 0o004 == 0 => Path::new(EMPTY_FILE),
                _ => continue,
            };
            mount_bind_recursive(cover, &path)?;
            set_attributes(&path, Attributes::READ_ONLY, true)?;
        }
        Ok(())
    };
    closed().map_err(step("closing /proc"))
}

/// Covers a file or directory. In the workspace the directories above it are mounted too: if one were renamed, the
/// next call would not find what it has to hide.
fn hide(path: &str, workspace: &str) -> Result<(), Failed> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    let cover = match metadata {
        metadata if metadata.is_dir() => EMPTY_DIR,
        metadata if metadata.is_symlink() => return Ok(()),
        _ => EMPTY_FILE,
    };
    let hidden = || -> io::Result<()> {
        let path = Path::new(path);
        let above = path.parent().and_then(|parent| parent.strip_prefix(workspace).ok());
        let mut dir = PathBuf::from(workspace);
        for part in above.into_iter().flatten() {
            dir.push(part);
            mount_bind_recursive(&dir, &dir)?;
        }
        mount_bind_recursive(cover, path)?;
        set_attributes(path, Attributes::READ_ONLY, true)
    };
    hidden().map_err(step(format!("hiding {path}")))
}

/// Where something of the machine is while the box is built.
pub(super) fn old(path: &str) -> PathBuf {
    PathBuf::from(format!("{OLD}{path}"))
}

/// Makes what a mount needs to stand on.
fn target(path: &Path, dir: bool) -> io::Result<()> {
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    if dir {
        return fs::create_dir_all(path);
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    File::create(path).map(drop)
}

fn tmpfs(place: &str, options: &CStr) -> io::Result<()> {
    Ok(mount("tmpfs", place, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, Some(options))?)
}

/// What is asked of a mount.
pub(super) struct Attributes;

impl Attributes {
    const PLAIN: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    pub(super) const READ_ONLY: u64 = Self::PLAIN | libc::MOUNT_ATTR_RDONLY;
}

/// Sets attributes of a mount and, if `all`, of all mounts beneath it.
fn set_attributes(path: &Path, set: u64, all: bool) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;

    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    let flags = libc::AT_SYMLINK_NOFOLLOW | if all { libc::AT_RECURSIVE } else { 0 };
    mount_setattr(libc::AT_FDCWD, &path, flags, set)
}

/// Sets attributes of a mount that is nowhere yet, and of all mounts beneath it.
pub(super) fn set_attributes_of(mounted: BorrowedFd<'_>, set: u64) -> io::Result<()> {
    mount_setattr(mounted.as_raw_fd(), c"", libc::AT_EMPTY_PATH | libc::AT_RECURSIVE, set)
}

#[expect(unsafe_code, reason = "mount_setattr has no safe form")]
fn mount_setattr(dir: RawFd, path: &CStr, flags: libc::c_int, set: u64) -> io::Result<()> {
    // SAFETY: an all-zero value is valid, and it and the path outlive the call, which is told its size.
    let done = unsafe {
        let mut attributes: libc::mount_attr = std::mem::zeroed();
        attributes.attr_set = set;
        libc::syscall(
            libc::SYS_mount_setattr,
            dir,
            path.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
