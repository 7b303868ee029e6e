//! Builds the root directory of a sandbox: only what programs need, with only the workspace and scratch directories
//! writable.
//!
//! The visible files are cloned from the machine first, as unattached mounts. Then the machine's root is left, and only
//! then is the new root filled. No path or link leads from there to anything else on the machine.
//!
//! Why it is like this: `docs/decisions/sandbox-host-files.md`.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};

use super::super::spec::CallSpec;
use super::caches::{Caches, Layer, TakenCaches};
use super::foreign_mounts::ForeignMounts;
use super::guard::Guard;
use super::mounting::{self, Attributes};
use super::reached;

/// An empty directory and an empty file that cover hidden paths.
const EMPTY_DIR: &str = ".empty";
const EMPTY_FILE: &str = ".nothing";
/// Devices that programs require, and that are harmless.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
/// Size of the root itself, which only has mount points.
const ROOT_SIZE: &str = "1m";

/// The step that failed, and its error.
type FailedStep = (String, io::Error);

/// The complete root of a sandbox.
pub(super) struct SandboxRoot {
    pub(super) caches: Caches,
    /// The workspace as programs see it.
    pub(super) workspace: OwnedFd,
    /// Directories outside the workspace that programs may write.
    pub(super) scratch: Vec<OwnedFd>,
}

/// Builds the new root and leaves the old one.
pub(super) fn build(
    spec: &CallSpec,
    guard: &Guard,
    others: ForeignMounts,
) -> Result<SandboxRoot, FailedStep> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(step("separating mounts"))?;
    let taken = CollectedMounts::of(spec, guard, others)?;
    let scratch = Scratch::make(spec).map_err(step("making scratch directories"))?;
    let root = enter_new_root().map_err(step("making a new root"))?;
    let built = furnish(spec, guard, taken, scratch, &root)?;
    mounting::set_alone(&root, Attributes::ReadOnly).map_err(step("closing the root"))?;
    Ok(built)
}

fn step<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> FailedStep {
    move |error| (what.into(), error.into())
}

/// Mounts that were cloned from the machine, unattached.
struct CollectedMounts {
    workspace: OwnedFd,
    read: Vec<Source>,
    shown: Vec<Source>,
    devices: Vec<OwnedFd>,
    processes: OwnedFd,
    caches: TakenCaches,
}

/// A file or directory of the machine, and its mount point.
struct Source {
    tree: OwnedFd,
    is_dir: bool,
    /// Whether it has other mounts beneath it. An overlay would not show those.
    has_mounts: bool,
    target: PathBuf,
}

impl CollectedMounts {
    fn of(spec: &CallSpec, guard: &Guard, mut others: ForeignMounts) -> Result<Self, FailedStep> {
        let mounts = MountTable::read().map_err(step("reading the table of mounts"))?;
        let mut all = |pairs: &[(String, String)]| -> Result<Vec<Source>, FailedStep> {
            let sources = pairs.iter().map(|(source, target)| {
                let has_mounts = mounts.has_beneath(source);
                match others.remove(source) {
                    Some(tree) => {
                        Ok(Some(Source { tree, is_dir: true, has_mounts, target: PathBuf::from(target) }))
                    }
                    None => Source::take(source, has_mounts, target),
                }
            });
            sources.filter_map(Result::transpose).collect()
        };
        let device = |name: &&str| -> io::Result<OwnedFd> {
            mounting::copy_of(reached::open(Path::new("/dev").join(name))?)
        };
        Ok(Self {
            workspace: take_workspace(spec, guard).map_err(step("showing the workspace"))?,
            read: all(&spec.read)?,
            shown: all(&spec.shown)?,
            devices: DEVICES.iter().map(device).collect::<Result<_, _>>().map_err(step("making /dev"))?,
            // The kernel allows a new procfs only while one is visible.
            processes: mounting::processes().map_err(step("mounting /proc"))?,
            caches: TakenCaches::of(&spec.caches),
        })
    }
}

impl Source {
    /// Clones a source. A missing path, or one behind a new link, is not shown.
    fn take(source: &str, has_mounts: bool, target: &str) -> Result<Option<Self>, FailedStep> {
        let Ok(reached) = reached::open(source) else { return Ok(None) };
        let taken = || -> io::Result<Self> {
            let is_dir = reached::file_type(&reached)? == FileType::Directory;
            let tree = mounting::copy_of(&reached)?;
            mounting::set(&tree, Attributes::ReadOnly)?;
            Ok(Self { tree, is_dir, has_mounts, target: PathBuf::from(target) })
        };
        taken().map(Some).map_err(step(format!("showing {target}")))
    }

    fn put(self, root: &OwnedFd, covers: &CoverFiles) -> Result<(), FailedStep> {
        let put = || -> io::Result<()> {
            mounting::put(&self.tree, reached::make(root, &self.target, self.is_dir)?)?;
            if self.is_dir && !self.has_mounts {
                self.separate_locks(covers);
            }
            Ok(())
        };
        put().map_err(step(format!("showing {}", self.target.display())))
    }

    /// Separates file locks, so that a command that locks a file of the machine does not block programs outside. Where
    /// the kernel supports no such overlay, only the command's time limit ends a lock.
    fn separate_locks(&self, covers: &CoverFiles) {
        if let Ok(separate) = mounting::with_own_locks(&self.tree, &covers.dir) {
            let _ = mounting::put(separate, &self.tree);
        }
    }
}

/// The mounts of the machine when the call began.
struct MountTable(String);

impl MountTable {
    fn read() -> io::Result<Self> {
        std::fs::read_to_string("/proc/self/mountinfo").map(Self)
    }

    fn has_beneath(&self, dir: &str) -> bool {
        // The fifth field is the mount point, with blanks and backslashes as octal numbers.
        let dir =
            dir.replace('\\', "\\134").replace(' ', "\\040").replace('\t', "\\011").replace('\n', "\\012");
        let places = self.0.lines().filter_map(|line| line.split(' ').nth(4));
        places.filter_map(|place| place.strip_prefix(&*dir)).any(|rest| rest.starts_with('/'))
    }
}

/// Takes the workspace: the mount that the runtime passed, or a clone of the directory, after checking that it is the
/// one that the guard checked.
fn take_workspace(spec: &CallSpec, guard: &Guard) -> io::Result<OwnedFd> {
    let attributes = if spec.read_only { Attributes::ReadOnly } else { Attributes::Plain };
    if let Some(mount) = guard.mount() {
        let tree = mount.try_clone()?;
        mounting::set(&tree, attributes)?;
        return Ok(tree);
    }
    let reached = reached::open_dir(&spec.workspace)?;
    if !reached::is_same(&reached, guard.dir())? {
        return Err(changed("the workspace"));
    }
    let tree = match &spec.changes {
        Some(layer) => Layer::open(layer)?.over(&[&reached])?,
        None => mounting::copy_of(&reached)?,
    };
    mounting::set(&tree, attributes)?;
    Ok(tree)
}

fn changed(what: &str) -> io::Error {
    io::Error::other(format!("{what} was replaced while the sandbox was made; try again"))
}

/// Creates an empty root and enters it. No path leads to the machine's files any more.
fn enter_new_root() -> io::Result<OwnedFd> {
    let root = mounting::memory("0755", ROOT_SIZE)?;
    mounting::put(&root, reached::open_dir("/")?)?;
    rustix::process::fchdir(&root)?;
    // The old root is now mounted over the new one, and is detached from there.
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    Ok(root)
}

fn furnish(
    spec: &CallSpec,
    guard: &Guard,
    taken: CollectedMounts,
    scratch: Scratch,
    root: &OwnedFd,
) -> Result<SandboxRoot, FailedStep> {
    let covers = CoverFiles::make(root).map_err(step("making an empty file"))?;
    let beneath_scratch = |path: &Path| spec.scratch.iter().any(|scratch| path.starts_with(scratch));
    // Mounts beneath scratch directories come after them, or they would be covered.
    let (later, sooner): (Vec<_>, Vec<_>) =
        taken.read.into_iter().partition(|source| beneath_scratch(&source.target));
    let (later_links, sooner_links): (Vec<_>, Vec<_>) =
        spec.links.iter().partition(|(link, _)| beneath_scratch(Path::new(link)));
    // Overlays name their layers by descriptor in `/proc`.
    reached::make(root, Path::new("proc"), true)
        .and_then(|place| mounting::put(&taken.processes, place))
        .map_err(step("mounting /proc"))?;
    links(root, &sooner_links)?;
    sooner.into_iter().try_for_each(|source| source.put(root, &covers))?;
    let scratch = scratch.put(root).map_err(step("making scratch directories"))?;
    links(root, &later_links)?;
    later.into_iter().try_for_each(|source| source.put(root, &covers))?;
    devices(root, taken.devices).map_err(step("making /dev"))?;
    let workspace = taken.workspace;
    reached::make(root, Path::new(&spec.shown_as), true)
        .and_then(|place| mounting::put(&workspace, place))
        .map_err(step("showing the workspace"))?;
    let mut pinned = PinnedWorkspace { workspace, dirs: HashMap::new() };
    for name in guard.existing().filter(|_| !spec.read_only) {
        pinned.protect(name).map_err(step(format!("protecting {}", name.display())))?;
    }
    let caches = taken.caches.put(&pinned.workspace);
    taken.shown.into_iter().try_for_each(|source| source.put(root, &covers))?;
    for path in &spec.hidden {
        let path = Path::new(path);
        let hidden = match path.strip_prefix(&spec.shown_as) {
            Ok(inside) => pinned.hide(inside, &covers),
            Err(_) => hide(root, path, &covers),
        };
        hidden.map_err(step(format!("hiding {}", path.display())))?;
    }
    Ok(SandboxRoot { caches, workspace: pinned.workspace, scratch })
}

fn links(root: &OwnedFd, links: &[&(String, String)]) -> Result<(), FailedStep> {
    for (link, target) in links {
        let path = Path::new(link);
        let made = || -> io::Result<()> {
            let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
            let dir = reached::make(root, path.parent().unwrap_or(Path::new("/")), true)?;
            Ok(rustix::fs::symlinkat(target, &dir, name)?)
        };
        made().map_err(step(format!("making the link {link}")))?;
    }
    Ok(())
}

/// The writable directories with their mount points, unattached. They are parts of one tmpfs, so that its size limits
/// all of them together.
struct Scratch(Vec<(OwnedFd, PathBuf)>);

impl Scratch {
    /// Only attached mounts can be cloned. This one is attached on the machine's root, in these namespaces alone, and
    /// disappears with it: an explicit unmount would wait for every core.
    fn make(spec: &CallSpec) -> io::Result<Self> {
        let memory = mounting::memory("0700", &spec.limits.scratch_bytes.to_string())?;
        mounting::put(&memory, reached::open_dir("/proc")?)?;
        let parts = spec.scratch.iter().enumerate().map(|(number, path)| {
            let name = number.to_string();
            let own = reached::make_dir(&memory, OsStr::new(&name))?;
            let mode = if path.ends_with("tmp") { 0o1777 } else { 0o700 };
            rustix::fs::chmodat(&memory, name, Mode::from_raw_mode(mode), AtFlags::empty())?;
            Ok((mounting::copy_of(&own)?, PathBuf::from(path)))
        });
        parts.collect::<io::Result<_>>().map(Self)
    }

    fn put(self, root: &OwnedFd) -> io::Result<Vec<OwnedFd>> {
        let put = |(part, path): (OwnedFd, PathBuf)| {
            mounting::put(&part, reached::make(root, &path, true)?)?;
            Ok(part)
        };
        self.0.into_iter().map(put).collect()
    }
}

fn devices(root: &OwnedFd, devices: Vec<OwnedFd>) -> io::Result<()> {
    for (name, device) in DEVICES.iter().zip(devices) {
        mounting::put(device, reached::make(root, &Path::new("dev").join(name), false)?)?;
    }
    let dir = reached::make(root, Path::new("dev"), true)?;
    for (link, to) in [("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        rustix::fs::symlinkat(format!("/proc/self/{to}"), &dir, link)?;
    }
    Ok(())
}

/// The workspace, and its directories that are mounted over themselves: such a directory cannot be renamed. Each is
/// held by its descriptor, because another call may be swapping names.
struct PinnedWorkspace {
    workspace: OwnedFd,
    /// By their paths in the workspace.
    dirs: HashMap<PathBuf, OwnedFd>,
}

impl PinnedWorkspace {
    /// Mounts the parent directories of a name over themselves and returns the last. A part that is not a directory is
    /// an error.
    fn pin(&mut self, above: &Path) -> io::Result<&OwnedFd> {
        let mut path = PathBuf::new();
        for part in above {
            let inside = path.join(part);
            if !self.dirs.contains_key(&inside) {
                let reached = reached::open_subdir(self.at(&path), part)?;
                let pinned = mounting::over_itself(reached, None)?;
                self.dirs.insert(inside.clone(), pinned);
            }
            path = inside;
        }
        Ok(self.at(&path))
    }

    fn at(&self, path: &Path) -> &OwnedFd {
        self.dirs.get(path).unwrap_or(&self.workspace)
    }

    /// Makes a name read-only. The guard saw a file there that is not a link, and this must see the same, or the call
    /// fails.
    fn protect(&mut self, name: &Path) -> io::Result<()> {
        let (above, last) = parts_of(name)?;
        let reached = self.pin(above).and_then(|dir| Ok(reached::open_entry(dir, last)?));
        match reached {
            Ok(reached) if reached::file_type(&reached)? != FileType::Symlink => {
                mounting::over_itself(&reached, Some(Attributes::ReadOnly)).map(drop)
            }
            Err(error) if !is_of_names(&error) => Err(error),
            _ => Err(changed("what is under this name")),
        }
    }

    /// Covers a path in the workspace. Its parents are pinned: if one were renamed, the next call would not find the
    /// path to hide. A path behind a link is also hidden under its other name.
    fn hide(&mut self, inside: &Path, covers: &CoverFiles) -> io::Result<()> {
        let (above, last) = parts_of(inside)?;
        // A missing path needs no pin.
        if !is_there(&self.workspace, inside) {
            return Ok(());
        }
        match self.pin(above).and_then(|dir| Ok(reached::open_entry(dir, last)?)) {
            Ok(reached) => covers.cover(&reached),
            Err(error) if is_of_names(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Whether a path beneath a directory exists, without a link on the way.
fn is_there(dir: &OwnedFd, path: &Path) -> bool {
    let mut reached = None::<OwnedFd>;
    path.iter().all(|part| match reached::open_entry(reached.as_ref().unwrap_or(dir), part) {
        Ok(next) => {
            reached = Some(next);
            true
        }
        Err(_) => false,
    })
}

/// Whether an error only means that a path has changed.
fn is_of_names(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

fn parts_of(path: &Path) -> io::Result<(&Path, &OsStr)> {
    let last = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok((path.parent().unwrap_or(Path::new("")), last))
}

/// The mounts that cover hidden paths.
struct CoverFiles {
    dir: OwnedFd,
    file: OwnedFd,
}

impl CoverFiles {
    fn make(root: &OwnedFd) -> io::Result<Self> {
        let dir = reached::make(root, Path::new(EMPTY_DIR), true)?;
        let file = reached::make(root, Path::new(EMPTY_FILE), false)?;
        Ok(Self { dir, file })
    }

    fn cover(&self, hidden: &OwnedFd) -> io::Result<()> {
        let cover = match reached::file_type(hidden)? {
            FileType::Directory => &self.dir,
            FileType::Symlink => return Ok(()),
            _ => &self.file,
        };
        let cover = mounting::copy_of(cover)?;
        mounting::set(&cover, Attributes::ReadOnly)?;
        mounting::put(cover, hidden)
    }
}

/// Covers a path outside the workspace.
fn hide(root: &OwnedFd, path: &Path, covers: &CoverFiles) -> io::Result<()> {
    let mut reached = root.try_clone()?;
    for part in path.strip_prefix("/").unwrap_or(path) {
        reached = match reached::open_entry(&reached, part) {
            Ok(next) => next,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
    }
    covers.cover(&reached)
}

/// Unattached mounts that cover the machine's settings in `/proc`.
pub(super) struct ProcClosed(Vec<(OwnedFd, OwnedFd)>);

impl ProcClosed {
    /// The kernel checks only the user id there, and root's is the same inside: a program could set the crash handler
    /// of the whole machine. Prepared early, because no mount can be cloned after namespaces are forbidden.
    pub(super) fn prepare() -> Result<Self, FailedStep> {
        let prepared = || -> io::Result<Self> {
            let proc = reached::open_dir("/proc")?;
            let nothing = reached::open(Path::new("/").join(EMPTY_FILE))?;
            let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
            let listed = rustix::fs::openat(CWD, "/proc", flags, Mode::empty())?;
            let mut covers = Vec::new();
            for entry in rustix::fs::Dir::new(listed)? {
                let entry = entry?;
                let name = entry.file_name().to_bytes();
                let is_process = name.iter().all(u8::is_ascii_digit);
                if is_process || matches!(name, b"." | b"..") {
                    continue;
                }
                // An entry may be gone or unreadable.
                let Ok(reached) = reached::open_entry(&proc, as_text(name)) else { continue };
                let Ok(stat) = rustix::fs::fstat(&reached) else { continue };
                let shown = match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Symlink => continue,
                    kind if kind == FileType::Directory || stat.st_mode & 0o222 != 0 => &reached,
                    _ if stat.st_mode & 0o004 == 0 => &nothing,
                    _ => continue,
                };
                let cover = mounting::copy_of(shown)?;
                mounting::set(&cover, Attributes::ReadOnly)?;
                covers.push((cover, reached));
            }
            Ok(Self(covers))
        };
        prepared().map_err(step("closing /proc"))
    }

    pub(super) fn put(self) -> Result<(), FailedStep> {
        let mut covers = self.0.into_iter();
        covers.try_for_each(|(cover, reached)| mounting::put(cover, reached)).map_err(step("closing /proc"))
    }
}

fn as_text(name: &[u8]) -> &OsStr {
    use std::os::unix::ffi::OsStrExt;
    OsStr::from_bytes(name)
}
