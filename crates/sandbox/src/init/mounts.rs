//! What programs in the box see: a new root, with only what they need, and only the workspace and scratch writable.
//!
//! What is shown is taken from the machine first, as mounts that are nowhere yet. Then the machine's root is left, and
//! only then is the new one furnished: no path and no link leads from there to anything but what was taken.
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

/// An empty directory and an empty file, which stand for what is hidden.
const EMPTY_DIR: &str = ".empty";
const EMPTY_FILE: &str = ".nothing";
/// Devices that programs cannot do without, and that lead nowhere.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
/// Size of the root itself: it has only names to mount on.
const ROOT_SIZE: &str = "1m";

/// The step that failed, and how.
type FailedStep = (String, io::Error);

/// A box that stands.
pub(super) struct SandboxRoot {
    /// How the caches appear.
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

/// What was taken from the machine, mounted nowhere yet.
struct CollectedMounts {
    workspace: OwnedFd,
    read: Vec<Source>,
    shown: Vec<Source>,
    devices: Vec<OwnedFd>,
    processes: OwnedFd,
    caches: TakenCaches,
}

/// A file or directory of the machine, and where it appears.
struct Source {
    tree: OwnedFd,
    is_dir: bool,
    /// Whether something else is mounted beneath it. An overlay would not show that.
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
            // The kernel gives a new one only where one is visible already.
            processes: mounting::processes().map_err(step("mounting /proc"))?,
            caches: TakenCaches::of(&spec.caches),
        })
    }
}

impl Source {
    /// What is not there is not shown, nor what a link has come to be on the way to.
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

    fn put(self, root: &OwnedFd, covers: &Covers) -> Result<(), FailedStep> {
        let put = || -> io::Result<()> {
            mounting::put(&self.tree, reached::make(root, &self.target, self.is_dir)?)?;
            if self.is_dir && !self.has_mounts {
                self.separate_locks(covers);
            }
            Ok(())
        };
        put().map_err(step(format!("showing {}", self.target.display())))
    }

    /// A command that locks a file of the machine must not stop the programs outside. Where the kernel gives no such
    /// overlay the command's time limit is what ends a lock.
    fn separate_locks(&self, covers: &Covers) {
        if let Ok(separate) = mounting::with_own_locks(&self.tree, &covers.dir) {
            let _ = mounting::put(separate, &self.tree);
        }
    }
}

/// What was mounted on the machine when the call began.
struct MountTable(String);

impl MountTable {
    fn read() -> io::Result<Self> {
        std::fs::read_to_string("/proc/self/mountinfo").map(Self)
    }

    fn has_beneath(&self, dir: &str) -> bool {
        // The fifth field is where something is mounted; it has blanks and backslashes as octal numbers.
        let dir =
            dir.replace('\\', "\\134").replace(' ', "\\040").replace('\t', "\\011").replace('\n', "\\012");
        let places = self.0.lines().filter_map(|line| line.split(' ').nth(4));
        places.filter_map(|place| place.strip_prefix(&*dir)).any(|rest| rest.starts_with('/'))
    }
}

/// The workspace that the guard looks after, and no other.
fn take_workspace(spec: &CallSpec, guard: &Guard) -> io::Result<OwnedFd> {
    let reached = reached::open_dir(&spec.workspace)?;
    if !reached::is_same(&reached, guard.dir())? {
        return Err(changed("the workspace"));
    }
    let tree = match &spec.changes {
        Some(layer) => Layer::open(layer)?.over(&[&reached])?,
        None => mounting::copy_of(&reached)?,
    };
    mounting::set(&tree, if spec.read_only { Attributes::ReadOnly } else { Attributes::Plain })?;
    Ok(tree)
}

fn changed(what: &str) -> io::Error {
    io::Error::other(format!("{what} was replaced while the sandbox was made; try again"))
}

/// Makes an empty root and goes there. Nothing of the machine's can be reached by a path any more.
fn enter_new_root() -> io::Result<OwnedFd> {
    let root = mounting::memory("0755", ROOT_SIZE)?;
    mounting::put(&root, reached::open_dir("/")?)?;
    rustix::process::fchdir(&root)?;
    // The old root comes to lie over the new one, and is taken away from there.
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
    let covers = Covers::make(root).map_err(step("making an empty file"))?;
    let beneath_scratch = |path: &Path| spec.scratch.iter().any(|scratch| path.starts_with(scratch));
    // What lies beneath scratch is mounted after it, or it would be covered.
    let (later, sooner): (Vec<_>, Vec<_>) =
        taken.read.into_iter().partition(|source| beneath_scratch(&source.target));
    let (later_links, sooner_links): (Vec<_>, Vec<_>) =
        spec.links.iter().partition(|(link, _)| beneath_scratch(Path::new(link)));
    // The layers of overlays are named by their descriptors there.
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

/// The directories that programs may write, with where they appear, mounted nowhere yet: parts of one filesystem in memory,
/// so that its size is the limit of all together.
struct Scratch(Vec<(OwnedFd, PathBuf)>);

impl Scratch {
    /// A part can be taken only of what is mounted somewhere. This is mounted on the machine's root, in these namespaces
    /// alone, and goes when that is left: the kernel waits for every core when something is unmounted.
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

/// The workspace, and those of its directories that are mounted over themselves: such a directory cannot be renamed,
/// with what it holds. Each is held by its descriptor; another call may be swapping names.
struct PinnedWorkspace {
    workspace: OwnedFd,
    /// By their paths in the workspace.
    dirs: HashMap<PathBuf, OwnedFd>,
}

impl PinnedWorkspace {
    /// Mounts the directories above a name over themselves; the last of them. What is no directory is an error.
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

    /// Lets nobody change what is under a name. The guard saw something there that is no link, and so does this, or
    /// there is no box.
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

    /// Covers something in the workspace. If a directory above it were renamed, the next call would not find what it
    /// has to hide. Behind a link it has another name, by which it is hidden too.
    fn hide(&mut self, inside: &Path, covers: &Covers) -> io::Result<()> {
        let (above, last) = parts_of(inside)?;
        // What is not there pins nothing.
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

/// Whether there is something at a path beneath a directory, without a link on the way.
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

/// Whether an error only says that a path does not lead where it did.
fn is_of_names(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

fn parts_of(path: &Path) -> io::Result<(&Path, &OsStr)> {
    let last = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok((path.parent().unwrap_or(Path::new("")), last))
}

/// What stands for what is hidden.
struct Covers {
    dir: OwnedFd,
    file: OwnedFd,
}

impl Covers {
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

/// Covers something outside the workspace.
fn hide(root: &OwnedFd, path: &Path, covers: &Covers) -> io::Result<()> {
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

/// What closes what /proc shows of the machine itself, mounted nowhere yet.
pub(super) struct ProcClosed(Vec<(OwnedFd, OwnedFd)>);

impl ProcClosed {
    /// The kernel asks only for the user's number there, and root's is the same inside: it could set which program
    /// handles crashes of the whole machine. No mount can be copied any more once no namespace can be made.
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
                // An entry may be gone, or be one that nobody may look at.
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
