//! Writes the files of a tree into a new directory, for workspaces, checks and readers.
//!
//! A file that is unchanged on disk since its snapshot is copied from there, as a reflink where the filesystem can.
//! Only the rest comes from git's objects. The directory is new and beneath the state directory. Still every file is
//! created beneath the directory's handle and never through a symlink, because the tree may be hostile.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, Mode as Permissions, OFlags};

use super::content::open_beneath;
use super::files_progress::{CountedReader, FilesCounter};
use super::manifest::{Entry, Manifest, Stat};
use super::object::{Mode, ObjectType};
use super::objects::{Reader, TreeFile};
use super::{Git, ObjectId, RepositoryError, disk, names, notes, scan};
use posse_files::parallel;

/// Files up to this size are read and written; larger ones are copied by the kernel.
const READ_BYTES: u64 = 256 * 1024;
/// How much the kernel copies at once, so that progress of a large file is reported.
const COPY_BYTES: u64 = 64 * 1024 * 1024;
/// How many git processes read objects in parallel.
const READERS: usize = 2;
/// Longest target of a symlink.
const MAX_TARGET_BYTES: u64 = 4096;
/// Up to this many files are read in this process: a git process takes longer to start. More are shared by several.
const READ_HERE_MAX: usize = 200;
/// How many files of one directory a thread gets at once.
const GROUP_FILES: usize = 256;

/// A folder that has files of the tree, as they were when its snapshot was taken.
pub(crate) struct Source {
    pub(crate) folder: PathBuf,
    pub(crate) manifest: Manifest,
}

/// A tree to be written.
pub(crate) struct Checkout<'a> {
    pub(crate) git: &'a Git,
    /// An existing, empty directory.
    pub(crate) into: &'a Path,
    /// Sorted by path.
    pub(crate) files: &'a [TreeFile],
    pub(crate) sources: &'a [Source],
    /// Paths of the tree that are not written.
    pub(crate) absent: &'a HashSet<Vec<u8>>,
    /// Whether files are written without write permission.
    pub(crate) read_only: bool,
    /// Counts the files that are written.
    pub(crate) progress: Option<&'a FilesCounter>,
}

impl Checkout<'_> {
    /// Writes the files and returns their stats.
    pub(crate) fn write(&self) -> Result<Vec<Entry>, RepositoryError> {
        if let Some(bad) = self.files.iter().find(|file| !names::is_plain(&file.path)) {
            let path = notes::readable(&bad.path);
            return Err(RepositoryError::Damaged(format!("a tree holds `{path}`, which is never written")));
        }
        let root = scan::open_root(self.into)?;
        let dirs = self.make_dirs(&root)?;
        let groups = self.groups();
        let sources: Result<Vec<(OwnedFd, &Manifest)>, RepositoryError> = self
            .sources
            .iter()
            .map(|source| Ok((scan::open_root(&source.folder)?, &source.manifest)))
            .collect();
        // A source that no longer exists is skipped.
        let sources = sources.unwrap_or_default();
        let clones = AtomicBool::new(true);
        let copying = CopyJob { checkout: self, root: &root, sources: &sources, clones: &clones };
        let written = parallel::map(groups.len(), |at| copying.group(groups[at].clone()))?;
        let mut stats: Vec<Option<Stat>> = written.into_iter().flatten().collect();
        self.write_objects(&root, &mut stats)?;
        if self.read_only {
            for dir in dirs.iter().rev() {
                set_mode(&root, dir, 0o555).map_err(|error| self.failed(dir, &error))?;
            }
        }
        let entry = |(file, stat): (&TreeFile, Option<Stat>)| Entry {
            path: file.path.clone(),
            mode: file.mode,
            oid: file.oid,
            stat,
            raw: true,
        };
        Ok(self.files.iter().zip(stats).map(entry).collect())
    }

    /// Whether an entry is written as a file.
    fn is_written(&self, file: &TreeFile) -> bool {
        file.mode != Mode::Gitlink && !self.absent.contains(&file.path)
    }

    fn count(&self, files: usize) {
        if let Some(progress) = self.progress {
            progress.add(files);
        }
    }

    fn count_bytes(&self, bytes: u64) {
        if let Some(progress) = self.progress {
            progress.add_bytes(bytes);
        }
    }

    fn make_dirs(&self, root: &OwnedFd) -> Result<Vec<Vec<u8>>, RepositoryError> {
        let mut dirs: Vec<Vec<u8>> = Vec::new();
        let mut last: &[u8] = b"";
        for file in self.files.iter().filter(|file| !self.absent.contains(&file.path)) {
            let dir = if file.mode == Mode::Gitlink { &file.path } else { parent(&file.path) };
            if dir == last {
                continue;
            }
            last = dir;
            let ends = dir.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
            for end in ends.chain([dir.len()]).filter(|end| *end > 0) {
                let dir = &dir[..end];
                match rustix::fs::mkdirat(root, dir, Permissions::from_raw_mode(0o755)) {
                    Ok(()) => {
                        // Independent of the umask.
                        set_mode(root, dir, 0o755).map_err(|error| self.failed(dir, &error))?;
                        dirs.push(dir.to_vec());
                    }
                    Err(rustix::io::Errno::EXIST) => {}
                    Err(error) => return Err(self.failed(dir, &error.into())),
                }
            }
        }
        Ok(dirs)
    }

    /// Ranges of files in the same directory, which one thread writes.
    fn groups(&self) -> Vec<Range<usize>> {
        let mut groups: Vec<Range<usize>> = Vec::new();
        for (at, file) in self.files.iter().enumerate() {
            match groups.last_mut() {
                Some(group)
                    if group.len() < GROUP_FILES
                        && parent(&self.files[group.start].path) == parent(&file.path) =>
                {
                    group.end = at + 1;
                }
                _ => groups.push(at..at + 1),
            }
        }
        groups
    }

    /// Writes the files that could not be copied.
    fn write_objects(&self, root: &OwnedFd, stats: &mut [Option<Stat>]) -> Result<(), RepositoryError> {
        let mut missing: Vec<usize> = (0..self.files.len())
            .filter(|at| stats[*at].is_none() && self.is_written(&self.files[*at]))
            .collect();
        if missing.len() <= READ_HERE_MAX {
            missing = self.write_objects_here(root, &missing, stats)?;
        }
        if missing.is_empty() {
            return Ok(());
        }
        let share = missing.len().div_ceil(READERS);
        let parts: Vec<&[usize]> = missing.chunks(share).collect();
        let written = std::thread::scope(|scope| {
            let workers: Vec<_> =
                parts.iter().map(|part| scope.spawn(move || self.write_some_objects(root, part))).collect();
            let join = |worker: std::thread::ScopedJoinHandle<'_, _>| match worker.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            workers.into_iter().map(join).collect::<Result<Vec<Vec<Stat>>, RepositoryError>>()
        })?;
        for (at, stat) in missing.iter().zip(written.into_iter().flatten()) {
            stats[*at] = Some(stat);
        }
        Ok(())
    }

    /// Writes files whose objects can be read in this process, and returns the others.
    fn write_objects_here(
        &self,
        root: &OwnedFd,
        missing: &[usize],
        stats: &mut [Option<Stat>],
    ) -> Result<Vec<usize>, RepositoryError> {
        let Some(stored) = self.git.stored_objects().filter(|_| !missing.is_empty()) else {
            return Ok(missing.to_vec());
        };
        let mut left = Vec::new();
        for at in missing.iter().copied() {
            let file = &self.files[at];
            let Some((ObjectType::Blob, content)) = stored.read(&file.oid) else {
                left.push(at);
                continue;
            };
            let written = self.one_from_object(root, file, content.len() as u64, &mut content.as_slice());
            stats[at] = Some(written.map_err(|error| self.failed(&file.path, &error))?);
            self.count(1);
        }
        Ok(left)
    }

    fn write_some_objects(&self, root: &OwnedFd, part: &[usize]) -> Result<Vec<Stat>, RepositoryError> {
        let wanted: Vec<ObjectId> = part.iter().map(|at| self.files[*at].oid).collect();
        let mut stats = Vec::with_capacity(part.len());
        Reader::start(self.git)?.each(&wanted, |place, size, content| {
            let file = &self.files[part[place]];
            let written = self.one_from_object(root, file, size, content);
            stats.push(written.map_err(|error| self.failed(&file.path, &error))?);
            self.count(1);
            Ok(())
        })?;
        Ok(stats)
    }

    fn one_from_object(
        &self,
        root: &OwnedFd,
        file: &TreeFile,
        size: u64,
        content: &mut dyn Read,
    ) -> io::Result<Stat> {
        let dir = open_dir(root, parent(&file.path))?;
        let name = base(&file.path);
        if file.mode == Mode::Symlink {
            let mut target = Vec::new();
            content.take(size.min(MAX_TARGET_BYTES)).read_to_end(&mut target)?;
            return link(&dir, name, &target);
        }
        let mut out = create(&dir, name)?;
        io::copy(&mut CountedReader { from: content, counter: self.progress }, &mut out)?;
        self.finish(&out, file.mode)
    }

    /// Sets the permissions of a written file and returns its stat.
    fn finish(&self, out: &File, mode: Mode) -> io::Result<Stat> {
        let stat = rustix::fs::fstat(out)?;
        let wanted = match (mode, self.read_only) {
            (Mode::Executable, false) => 0o755,
            (Mode::Executable, true) => 0o555,
            (_, false) => 0o644,
            (_, true) => 0o444,
        };
        if stat.st_mode & 0o7777 == wanted {
            return Ok(Stat::of(&stat));
        }
        rustix::fs::fchmod(out, Permissions::from_raw_mode(wanted))?;
        Ok(Stat::of(&rustix::fs::fstat(out)?))
    }

    fn failed(&self, path: &[u8], error: &io::Error) -> RepositoryError {
        use std::os::unix::ffi::OsStrExt;
        RepositoryError::io("writing", &self.into.join(std::ffi::OsStr::from_bytes(path)), error)
    }
}

struct CopyJob<'a> {
    checkout: &'a Checkout<'a>,
    root: &'a OwnedFd,
    sources: &'a [(OwnedFd, &'a Manifest)],
    /// Whether the filesystem supports reflinks, as far as is known.
    clones: &'a AtomicBool,
}

impl CopyJob<'_> {
    /// Copies the files that a source has unchanged; `None` for the others.
    fn group(&self, group: Range<usize>) -> Result<Vec<Option<Stat>>, RepositoryError> {
        let files = &self.checkout.files[group];
        let Some(dir) = files.first().map(|file| parent(&file.path)) else { return Ok(Vec::new()) };
        if !files.iter().any(|file| self.checkout.is_written(file)) {
            return Ok(vec![None; files.len()]);
        }
        let into = open_dir(self.root, dir).map_err(|error| self.checkout.failed(dir, &error))?;
        let sources: Vec<(OwnedFd, &Manifest)> = self
            .sources
            .iter()
            .filter_map(|(root, manifest)| Some((open_dir(root, dir).ok()?, *manifest)))
            .collect();
        let mut buffer = Vec::new();
        let copied = files.iter().map(|file| {
            if !self.checkout.is_written(file) {
                return Ok(None);
            }
            let from = sources.iter().filter_map(|(dir, manifest)| {
                let entry = manifest.get(&file.path)?;
                let stat = entry.stat.filter(|stat| stat.unchanged_since(manifest.looked_ns))?;
                (entry.raw && entry.oid == file.oid).then_some((dir, stat))
            });
            for (from, stat) in from {
                if let Some(stat) = self.file(from, &stat, &into, file, &mut buffer)? {
                    return Ok(Some(stat));
                }
            }
            Ok(None)
        });
        let copied: Vec<Option<Stat>> = copied.collect::<Result<_, RepositoryError>>()?;
        self.checkout.count(copied.iter().flatten().count());
        Ok(copied)
    }

    /// Copies one file, if it still matches `stat` before and after.
    fn file(
        &self,
        from: &OwnedFd,
        stat: &Stat,
        into: &OwnedFd,
        file: &TreeFile,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<Stat>, RepositoryError> {
        let name = base(&file.path);
        let failed = |error: io::Error| self.checkout.failed(&file.path, &error);
        if file.mode == Mode::Symlink {
            let Ok(target) = rustix::fs::readlinkat(from, name, Vec::new()) else { return Ok(None) };
            let now = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW);
            if !now.is_ok_and(|now| Stat::of(&now) == *stat) {
                return Ok(None);
            }
            return link(into, name, target.to_bytes()).map(Some).map_err(failed);
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(from) = rustix::fs::openat(from, name, flags, Permissions::empty()) else { return Ok(None) };
        let unchanged = |from: &OwnedFd| rustix::fs::fstat(from).is_ok_and(|now| Stat::of(&now) == *stat);
        if !unchanged(&from) {
            return Ok(None);
        }
        let out = create(into, name).map_err(failed)?;
        let copied = self.content(&from, &out, stat.size, buffer);
        // A source that is unreadable or has changed is skipped. A failure to write the output repeats when the object
        // is written, and is reported then.
        if copied.is_err() || !unchanged(&from) {
            drop(out);
            rustix::fs::unlinkat(into, name, AtFlags::empty()).map_err(|error| failed(error.into()))?;
            return Ok(None);
        }
        self.checkout.finish(&out, file.mode).map(Some).map_err(failed)
    }

    fn content(&self, from: &OwnedFd, mut out: &File, size: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
        if size > 0 && self.clones.load(Ordering::Relaxed) {
            if rustix::fs::ioctl_ficlone(out, from).is_ok() {
                return Ok(());
            }
            self.clones.store(false, Ordering::Relaxed);
        }
        if size > READ_BYTES {
            let mut left = size;
            while left > 0 {
                let chunk = usize::try_from(left.min(COPY_BYTES)).unwrap_or(usize::MAX);
                let copied = rustix::fs::copy_file_range(from, None, out, None, chunk)?;
                if copied == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                left -= copied as u64;
                self.checkout.count_bytes(copied as u64);
            }
            return Ok(());
        }
        buffer.resize(usize::try_from(size).unwrap_or_default(), 0);
        let mut filled = 0;
        while filled < buffer.len() {
            let read = rustix::io::read(from, &mut buffer[filled..])?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += read;
        }
        self.checkout.count_bytes(size);
        out.write_all(buffer)
    }
}

/// The directory part of a path; empty at the top.
pub(crate) fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(b"", |slash| &path[..slash])
}

fn base(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(path, |slash| &path[slash + 1..])
}

fn open_dir(root: &OwnedFd, dir: &[u8]) -> io::Result<OwnedFd> {
    let dir = if dir.is_empty() { b"." } else { dir };
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    Ok(open_beneath(root, dir, flags, Permissions::empty())?)
}

fn create(dir: &OwnedFd, name: &[u8]) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(dir, name, flags, Permissions::from_raw_mode(0o644))?))
}

fn link(dir: &OwnedFd, name: &[u8], target: &[u8]) -> io::Result<Stat> {
    rustix::fs::symlinkat(target, dir, name)?;
    Ok(Stat::of(&rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?))
}

fn set_mode(root: &OwnedFd, path: &[u8], mode: u32) -> io::Result<()> {
    let dir = open_beneath(root, path, OFlags::RDONLY | OFlags::DIRECTORY, Permissions::empty())?;
    Ok(rustix::fs::fchmod(&dir, Permissions::from_raw_mode(mode))?)
}

/// Creates a small file, which must not exist, in a new workspace.
pub(crate) fn plant(path: &Path, content: &[u8], executable: bool) -> Result<(), RepositoryError> {
    use std::os::unix::fs::PermissionsExt;
    let mut file = disk::create_new(path)?;
    let mode = if executable { 0o700 } else { 0o600 };
    file.write_all(content)
        .and_then(|()| file.set_permissions(std::fs::Permissions::from_mode(mode)))
        .map_err(disk::failed("writing", path))
}
