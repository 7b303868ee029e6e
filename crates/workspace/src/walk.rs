//! Walks the directories of a folder for a scan, with a few threads.

mod outside;

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use posse_files::parallel;
use rustix::fs::{AtFlags, FileType, Mode as Permissions, OFlags};

use super::ignored::{IgnorePatterns, MAX_PATTERNS_BYTES};
use super::manifest::Stat;
use super::object::Mode;
use super::scan::{Content, KnownFile, Request, ScanResult, ScannedFile};
use super::secret_files::{is_secret_dir, is_secret_file};
use super::upper::UpperDir;
use super::{RepositoryError, closed, names};
use outside::UntrackableReason;

/// Deepest nesting of directories that is walked.
const MAX_DEPTH: usize = 200;
/// Limit of directories that stay open for pending subdirectories. The others are opened again by path.
const HELD_MAX: usize = 16;
/// Limit of bytes of the path that names a tree that is too deep.
const TOO_DEEP_SHOWN_MAX: usize = 200;
/// Words in `.gitattributes` that make git convert content.
const CONVERTING: &[&str] = &["text", "eol", "crlf", "filter", "ident", "working-tree-encoding"];

/// The reason that is reported for an entry that is neither a file nor a symlink.
const SPECIAL: &str = "a socket, a pipe or a device";
/// The reason that is reported for a directory that is nested too deep.
const TOO_DEEP: &str = "it is a chain of more than 200 directories, one in the other";

/// Walks the whole folder behind `root`. The result is unsorted.
pub(crate) fn walk(request: &Request<'_>, root: OwnedFd) -> Result<ScanResult, RepositoryError> {
    let scan = Scan {
        request,
        root: Arc::new(root),
        held: Arc::default(),
        queue: Mutex::new(Queue::default()),
        changed: Condvar::new(),
        files: AtomicU64::new(0),
        converting: AtomicBool::new(false),
    };
    scan.push(Task {
        parent: None,
        name: b".".to_vec(),
        path: Vec::new(),
        depth: 0,
        known: 0..request.known.len(),
        ignored: request.ignored.clone(),
        all_ignored: false,
        outside: None,
        lower: Some(Vec::new()),
    });
    // An upper layer is usually smaller than the time that a thread takes to start.
    let parts = if request.upper.is_some() { vec![scan.work()] } else { walk_in_parallel(&scan) };
    if let Some(error) = scan.lock().error.take() {
        return Err(error);
    }
    let mut walked = ScanResult { converting: scan.converting.into_inner(), ..ScanResult::default() };
    for part in parts {
        walked.found.extend(part.found);
        walked.copies.extend(part.copies);
        walked.left_out.extend(part.left_out);
        walked.ignored.extend(part.ignored);
        walked.odd_attributes = walked.odd_attributes.or(part.odd_attributes);
        walked.notes.extend(part.notes);
        walked.upper_dirs.extend(part.upper_dirs);
    }
    Ok(walked)
}

fn walk_in_parallel(scan: &Scan<'_>) -> Vec<ScanResult> {
    let threads = parallel::threads();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| scan.work())).collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, ScanResult>| match worker.join() {
            Ok(walked) => walked,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        workers.into_iter().map(join).collect()
    })
}

/// One directory to read.
struct Task {
    /// `None` if the directory is opened again by its path.
    parent: Option<Arc<OpenDirectory>>,
    name: Vec<u8>,
    /// With a slash at its end, except for the top.
    path: Vec<u8>,
    depth: usize,
    /// The range of known files beneath it.
    known: Range<usize>,
    ignored: IgnorePatterns,
    /// The directory is ignored and only read for tracked or wanted files.
    all_ignored: bool,
    /// Why no entry of it can be in a tree.
    outside: Option<UntrackableReason>,
    /// The directory of the lower layers at its place, if there may be one. Used for upper layers only.
    lower: Option<Vec<u8>>,
}

/// An open directory, counted against [`HELD_MAX`].
struct OpenDirectory {
    dir: OwnedFd,
    count: Arc<AtomicUsize>,
}

impl std::ops::Deref for OpenDirectory {
    type Target = OwnedFd;

    fn deref(&self) -> &OwnedFd {
        &self.dir
    }
}

impl AsFd for OpenDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

impl Drop for OpenDirectory {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Queue {
    tasks: Vec<Task>,
    busy: usize,
    error: Option<RepositoryError>,
}

struct Scan<'a> {
    request: &'a Request<'a>,
    root: Arc<OwnedFd>,
    held: Arc<AtomicUsize>,
    queue: Mutex<Queue>,
    changed: Condvar,
    files: AtomicU64,
    converting: AtomicBool,
}

impl Scan<'_> {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, task: Task) {
        self.lock().tasks.push(task);
        self.changed.notify_one();
    }

    /// Takes directories until the queue is empty and no thread is working.
    fn work(&self) -> ScanResult {
        let mut walked = ScanResult::default();
        let mut queue = self.lock();
        loop {
            if queue.error.is_some() {
                break;
            }
            if let Some(task) = queue.tasks.pop() {
                queue.busy += 1;
                drop(queue);
                let result = self.directory(&task, &mut walked);
                drop(task);
                queue = self.lock();
                queue.busy -= 1;
                if let Err(error) = result {
                    queue.error.get_or_insert(error);
                }
            } else if queue.busy == 0 {
                break;
            } else {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
        drop(queue);
        self.changed.notify_all();
        walked
    }

    fn directory(&self, task: &Task, walked: &mut ScanResult) -> Result<(), RepositoryError> {
        let dir = match self.open(task) {
            Ok(dir) => self.hold(dir),
            // Removed or replaced by another process. The next scan sees the result.
            Err(
                rustix::io::Errno::NOENT
                | rustix::io::Errno::NOTDIR
                | rustix::io::Errno::LOOP
                | rustix::io::Errno::SRCH,
            ) => {
                return Ok(());
            }
            Err(error) => return Err(self.failed("opening", &task.path, error)),
        };
        let names = self.list(&dir, task)?;
        if let Some(outside) = task.outside {
            return self.outside(task, &dir, names, outside, walked);
        }
        let upper = self.request.upper;
        let lower = match upper.map(|upper| upper.lower_of(&dir, task.lower.as_deref())) {
            Some(Err(error)) => return Err(self.failed("reading the attributes of", &task.path, error)),
            Some(Ok(lower)) => lower,
            None => None,
        };
        let mut ignored = task.ignored.clone();
        if !self.request.everything
            && let Some(text) = self.patterns(&dir, &names, lower.as_deref())?
        {
            ignored = ignored.with(&text, task.path.len());
        }
        if upper.is_some() {
            walked.upper_dirs.push(UpperDir::new(&task.path, lower.clone(), &names));
        }
        let tracked = upper.map(|upper| upper.known_in(&task.path, &names));
        let known = tracked.as_deref().unwrap_or(&self.request.known[task.known.clone()]);
        let here = CurrentDirectory { task, dir: &dir, ignored: &ignored, known, lower: lower.as_deref() };
        for (name, kind) in names {
            let mut path = Vec::with_capacity(task.path.len() + name.len() + 1);
            path.extend_from_slice(&task.path);
            path.extend_from_slice(&name);
            self.entry(&here, name, path, kind, walked)?;
        }
        Ok(())
    }

    /// The text of a directory's ignore file.
    fn patterns(
        &self,
        dir: &OwnedFd,
        names: &[(Vec<u8>, FileType)],
        lower: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>, RepositoryError> {
        match (names.iter().find(|(name, _)| name == b".gitignore"), self.request.upper, lower) {
            (Some((_, kind)), Some(_), _) if is_whiteout(*kind) => Ok(None),
            (Some(_), _, _) => Ok(Some(self.read_small(dir, b".gitignore"))),
            (None, Some(upper), Some(lower)) => upper.patterns_in(lower),
            (None, _, _) => Ok(None),
        }
    }

    fn hold(&self, dir: OwnedFd) -> Arc<OpenDirectory> {
        self.held.fetch_add(1, Ordering::Relaxed);
        Arc::new(OpenDirectory { dir, count: self.held.clone() })
    }

    /// Keeps a directory open for its pending subdirectories, unless too many are open.
    fn keep(&self, dir: &Arc<OpenDirectory>) -> Option<Arc<OpenDirectory>> {
        (self.held.load(Ordering::Relaxed) < HELD_MAX).then(|| Arc::clone(dir))
    }

    /// Opens the parent of a task's directory again, part by part: the path may be too long for the kernel, and no part
    /// may have become a link.
    fn reach(&self, task: &Task) -> Result<Arc<OpenDirectory>, rustix::io::Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let above = task.path.len().saturating_sub(task.name.len() + 1);
        let mut dir = rustix::fs::openat(&self.root, ".", flags, Permissions::empty())?;
        for part in task.path[..above].split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            dir = rustix::fs::openat(&dir, part, flags, Permissions::empty())?;
        }
        Ok(self.hold(dir))
    }

    /// Opens a directory. In a workspace, missing permissions are restored first: a directory that can be listed but
    /// not entered hides its files too.
    fn open(&self, task: &Task) -> Result<OwnedFd, rustix::io::Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let parent = task.parent.clone().map_or_else(|| self.reach(task), Ok)?;
        let (parent, name) = (&**parent, task.name.as_slice());
        let open = || rustix::fs::openat(parent, name, flags, Permissions::empty());
        if self.request.is_users_folder {
            return open();
        }
        let dir = closed::opened_up(parent, name, open)?;
        let enterable = rustix::fs::fstat(&dir)?.st_mode & 0o100 != 0;
        if !enterable {
            closed::open_up(parent, name)?;
        }
        Ok(dir)
    }

    /// Reads a small file. Empty if it is not a plain file; git does not follow symlinks for these either.
    fn read_small(&self, dir: &OwnedFd, name: &[u8]) -> Vec<u8> {
        use std::io::Read;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(dir, name, flags, Permissions::empty());
        let opened = if self.request.is_users_folder { open() } else { closed::opened_up(dir, name, open) };
        let mut text = Vec::new();
        if let Ok(file) = opened {
            let file = std::fs::File::from(file);
            if file.metadata().is_ok_and(|metadata| metadata.is_file()) {
                // An unreadable file has no patterns.
                drop(file.take(MAX_PATTERNS_BYTES).read_to_end(&mut text));
            }
        }
        text
    }

    fn list(
        &self,
        dir: &Arc<OpenDirectory>,
        task: &Task,
    ) -> Result<Vec<(Vec<u8>, FileType)>, RepositoryError> {
        let listing = |error| self.failed("listing", &task.path, error);
        let entries = rustix::fs::Dir::read_from(dir).map_err(listing)?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(listing)?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push((name.to_vec(), entry.file_type()));
            }
        }
        Ok(names)
    }

    fn entry(
        &self,
        here: &CurrentDirectory<'_>,
        name: Vec<u8>,
        path: Vec<u8>,
        kind: FileType,
        walked: &mut ScanResult,
    ) -> Result<(), RepositoryError> {
        if let Some(upper) = self.request.upper
            && (is_whiteout(kind) || upper.staging.as_ref() == Some(&path))
        {
            return Ok(());
        }
        if names::could_be_dot_git(&name) {
            return self.git_like(here, name, path, walked);
        }
        if matches!(kind, FileType::Directory) {
            return self.subdirectory(here, name, path, walked);
        }
        let stat = match rustix::fs::statat(here.dir, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(rustix::io::Errno::NOENT) => return Ok(()),
            Err(error) => return Err(self.failed("looking at", &path, error)),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => self.subdirectory(here, name, path, walked),
            FileType::RegularFile | FileType::Symlink => {
                if name == b".gitattributes" {
                    self.attributes(here.dir, walked);
                }
                self.file(here, path, &Stat::of(&stat), walked)
            }
            _ => {
                if name == b".gitattributes" {
                    walked.odd_attributes.get_or_insert_with(|| path.clone());
                }
                if here.is_ignored(&path, false) {
                    self.leave_out(&path, walked);
                } else {
                    walked.notes.special(&path);
                    walked.left_out.work(&path, SPECIAL);
                }
                Ok(())
            }
        }
    }

    fn subdirectory(
        &self,
        here: &CurrentDirectory<'_>,
        name: Vec<u8>,
        mut path: Vec<u8>,
        walked: &mut ScanResult,
    ) -> Result<(), RepositoryError> {
        let Request { is_users_folder, state, wanted, .. } = self.request;
        let submodule = here.exact(&path).is_some_and(|known| known.mode == Mode::Gitlink);
        if submodule && *is_users_folder {
            walked.notes.submodule(&path);
            return Ok(());
        }
        let ignored = here.is_ignored(&path, true);
        let secret = *is_users_folder && !ignored && is_secret_dir(&path);
        path.push(b'/');
        let (beneath, tracked) = if let Some(upper) = self.request.upper {
            (0..0, upper.has_tracked_beneath(&path))
        } else {
            let beneath = here.beneath(&path);
            let tracked = self.request.known[beneath.clone()].iter().any(|known| known.tracked);
            (beneath, tracked)
        };
        let lower = here.lower.map(|lower| [lower, &name, b"/"].concat());
        if secret && !tracked {
            walked.notes.secret(&path);
        }
        let ignored = ignored || secret;
        if ignored && !tracked && !wanted.may_be_beneath(&path) {
            self.leave_out(&path, walked);
            return Ok(());
        }
        if state.is_some_and(|state| identity(here.dir, &name) == Some(state)) {
            return Ok(());
        }
        if here.task.depth >= MAX_DEPTH && !is_users_folder {
            // One bad directory must not keep other work from being salvaged.
            path.truncate(TOO_DEEP_SHOWN_MAX);
            walked.left_out.work(&path, TOO_DEEP);
            return Ok(());
        }
        if here.task.depth >= MAX_DEPTH {
            return Err(RepositoryError::Unsupported(format!(
                "{} is nested more than {MAX_DEPTH} directories deep; move it, or ignore it in .gitignore",
                String::from_utf8_lossy(&path).chars().take(200).collect::<String>()
            )));
        }
        self.push(Task {
            parent: self.keep(here.dir),
            name,
            path,
            depth: here.task.depth + 1,
            known: beneath,
            ignored: here.ignored.clone(),
            all_ignored: ignored,
            outside: None,
            lower,
        });
        Ok(())
    }

    fn file(
        &self,
        here: &CurrentDirectory<'_>,
        path: Vec<u8>,
        stat: &Stat,
        walked: &mut ScanResult,
    ) -> Result<(), RepositoryError> {
        let Request { never, wanted, max_files, is_users_folder, .. } = self.request;
        let known = here.exact(&path);
        if never.contains(&path) {
            walked.left_out.add(&path);
            return Ok(());
        }
        let is_tracked = known.is_some_and(|known| known.tracked);
        let is_ignored = here.is_ignored(&path, false);
        let secret = *is_users_folder && !is_tracked && !is_ignored && is_secret_file(&path);
        if secret && !wanted.takes(&path) {
            walked.notes.secret(&path);
        }
        if !is_tracked && (is_ignored || secret) {
            if wanted.takes(&path) && stat.mode & FILE_TYPE == REGULAR {
                walked.copies.push(path);
            } else {
                self.leave_out(&path, walked);
            }
            return Ok(());
        }
        if self.files.fetch_add(1, Ordering::Relaxed) >= *max_files {
            return Err(RepositoryError::Unsupported(format!(
                "{} has more than {max_files} files that git does not ignore; ignore what is not needed in \
                 .gitignore, or raise workspace.max_files",
                self.request.folder.display()
            )));
        }
        let mode = self.mode(stat, known);
        let content = known.and_then(|known| self.content(known, mode, stat));
        walked.found.push(ScannedFile { path, mode, stat: Some(*stat), content });
        Ok(())
    }

    fn mode(&self, stat: &Stat, known: Option<&KnownFile>) -> Mode {
        if stat.mode & FILE_TYPE != REGULAR {
            return Mode::Symlink;
        }
        let known = known.filter(|known| known.tracked && known.mode.is_file());
        match known {
            Some(known) if !self.request.executable_counts => known.mode,
            _ if !self.request.executable_counts => Mode::File,
            _ if stat.mode & 0o100 != 0 => Mode::Executable,
            _ => Mode::File,
        }
    }

    /// The file's known content, if times and size prove that it is unchanged.
    fn content(&self, known: &KnownFile, mode: Mode, stat: &Stat) -> Option<Content> {
        if known.mode.is_file() != mode.is_file() {
            return None;
        }
        let seen = known.seen.filter(|seen| seen.stat == *stat && stat.unchanged_since(self.request.seen_ns));
        if let Some(seen) = seen {
            return Some(Content { oid: seen.oid, raw: seen.raw, indexed: false });
        }
        let indexed = known.indexed.filter(|indexed| indexed.matches(stat));
        let indexed = indexed.filter(|_| stat.unchanged_since(self.request.indexed_ns));
        indexed.map(|_| Content { oid: known.oid, raw: true, indexed: true })
    }

    fn leave_out(&self, path: &[u8], walked: &mut ScanResult) {
        walked.left_out.add(path);
        if self.request.name_ignored > 0 && walked.ignored.len() <= self.request.name_ignored {
            walked.ignored.push(path.to_vec());
        }
    }

    fn attributes(&self, dir: &OwnedFd, walked: &mut ScanResult) {
        let text = self.read_small(dir, b".gitattributes");
        let text = String::from_utf8_lossy(&text);
        if converts(&text) {
            self.converting.store(true, Ordering::Relaxed);
        }
        if text.contains("filter=lfs") {
            walked.notes.lfs();
        }
    }

    fn failed(&self, doing: &str, path: &[u8], error: rustix::io::Errno) -> RepositoryError {
        use std::os::unix::ffi::OsStrExt;
        let path = self.request.folder.join(std::ffi::OsStr::from_bytes(path));
        RepositoryError::io(doing, &path, &error.into())
    }
}

const FILE_TYPE: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;

/// Whether attributes make git convert content.
pub(crate) fn converts(text: &str) -> bool {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.flat_map(|line| line.split_whitespace().skip(1)).any(|word| {
        let word = word.trim_start_matches(['-', '!']);
        CONVERTING.contains(&word.split('=').next().unwrap_or_default())
    })
}

fn identity(dir: &OwnedFd, name: &[u8]) -> Option<(u64, u64)> {
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

/// Whether an entry of an upper layer hides one of the lower layers. Programs can make no other device there.
pub(crate) fn is_whiteout(kind: FileType) -> bool {
    kind == FileType::CharacterDevice
}

/// The directory that is being read.
struct CurrentDirectory<'a> {
    task: &'a Task,
    dir: &'a Arc<OpenDirectory>,
    ignored: &'a IgnorePatterns,
    /// The known files in it, and, in a directory that is not an upper layer's, beneath it.
    known: &'a [KnownFile],
    /// The directory of the lower layers that is merged with it.
    lower: Option<&'a [u8]>,
}

impl CurrentDirectory<'_> {
    fn is_ignored(&self, path: &[u8], is_dir: bool) -> bool {
        self.task.all_ignored || self.ignored.matches(path, is_dir)
    }

    fn exact(&self, path: &[u8]) -> Option<&KnownFile> {
        let at = self.known.binary_search_by(|known| known.path.as_slice().cmp(path)).ok()?;
        Some(&self.known[at])
    }

    /// The range of known files beneath a path that ends in a slash.
    fn beneath(&self, path: &[u8]) -> Range<usize> {
        let start = self.known.partition_point(|known| known.path.as_slice() < path);
        let length = self.known[start..].partition_point(|known| known.path.starts_with(path));
        let start = start + self.task.known.start;
        start..start + length
    }
}
