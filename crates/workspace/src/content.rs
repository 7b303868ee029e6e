//! Turns the result of a scan into a tree: reads files whose content is unknown and writes new objects as one pack.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode as Permissions, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::copies::{SECRET, SECRET_MIN_BYTES};
use super::files_progress::{CountedReader, FilesCounter, OperationReports};
use super::manifest::{Entry, Stat};
use super::object::{self, DIRECTORY_BITS, Mode, ObjectType, TreeEntry};
use super::objects::PresentObjects;
use super::pack::{PackWriter, STREAM_BYTES};
use super::quarantine::Quarantine;
use super::scan::{Content, KnownFile, ScanResult, ScannedFile};
use super::{Git, ObjectId, RepositoryError, closed};
use posse_files::parallel;

/// How often a file that changes while it is read is read again.
const MAX_READS: u32 = 4;

/// Opens a path beneath a folder without following a symlink.
pub(crate) fn open_beneath(
    root: &OwnedFd,
    path: &[u8],
    flags: OFlags,
    permissions: Permissions,
) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    loop {
        match rustix::fs::openat2(root, path, flags | OFlags::CLOEXEC, permissions, resolve) {
            // The kernel returns `EAGAIN` after a concurrent rename.
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return opened,
        }
    }
}

/// Converts file contents to objects.
pub(crate) struct ContentWriter<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) root: &'a OwnedFd,
    pub(crate) known: &'a [KnownFile],
    pub(crate) present: &'a PresentObjects,
    pub(crate) pack: &'a PackWriter,
    /// Whether the folder is a workspace, whose permissions Posse may change.
    pub(crate) owned: bool,
    /// Contents that must not become objects.
    pub(crate) secrets: &'a HashSet<ObjectId>,
    /// Git, for files whose line endings it converts.
    pub(crate) convert: Option<&'a Git>,
    pub(crate) max_file_bytes: u64,
    pub(crate) max_new_bytes: u64,
}

/// The result of reading a file.
enum Read1 {
    Gone,
    /// The content is one of the secrets.
    Secret,
    Is(ObjectId, Stat),
}

impl ContentWriter<'_> {
    /// The entries of the scanned files. New objects are in the pack when this returns.
    pub(crate) fn entries(&self, walked: &mut ScanResult) -> Result<Vec<Entry>, RepositoryError> {
        self.entries_reporting(walked, None)
    }

    /// The same, and reports how many files are read.
    pub(crate) fn entries_reporting(
        &self,
        walked: &mut ScanResult,
        reports: Option<OperationReports>,
    ) -> Result<Vec<Entry>, RepositoryError> {
        for found in &mut walked.found {
            self.doubt(found, walked.converting);
        }
        let unread: Vec<usize> =
            (0..walked.found.len()).filter(|at| walked.found[*at].content.is_none()).collect();
        let counter = reports.map(|reports| FilesCounter::new(unread.len(), Some(reports), []));
        let read = parallel::map(unread.len(), |at| {
            let read = self.read(&walked.found[unread[at]], counter.as_ref());
            if let Some(counter) = &counter {
                counter.add(1);
            }
            read
        })?;
        drop(counter);
        let mut gone = HashSet::new();
        for (at, read) in unread.iter().zip(&read) {
            let found = &mut walked.found[*at];
            match read {
                Read1::Gone => {
                    gone.insert(*at);
                }
                Read1::Secret => {
                    walked.notes.identical(&found.path);
                    walked.left_out.work(&found.path, SECRET);
                    // A tracked file keeps its old content; an untracked one is dropped.
                    match self.tracked(&found.path).filter(|known| self.present.has(&known.oid)) {
                        Some(known) => {
                            found.content = Some(Content { oid: known.oid, raw: false, indexed: false });
                            // So that the next scan reads the file and reports it again.
                            found.stat = None;
                        }
                        None => {
                            gone.insert(*at);
                        }
                    }
                }
                Read1::Is(oid, stat) => {
                    found.content = Some(Content { oid: *oid, raw: true, indexed: false });
                    found.stat = Some(*stat);
                }
            }
        }
        if let Some(git) = self.convert {
            let files = unread.iter().filter(|at| !gone.contains(at)).copied();
            convert(git, self.pack, walked, &files.collect::<Vec<_>>())?;
        }
        let found = std::mem::take(&mut walked.found).into_iter().enumerate();
        let found = found.filter(|(at, _)| !gone.contains(at)).map(|(_, found)| found);
        Ok(found.filter_map(entry).collect())
    }

    /// Drops the known content of a file if it is unreliable, so that the file is read.
    fn doubt(&self, found: &mut ScannedFile, converting: bool) {
        let (Some(content), Some(_)) = (&mut found.content, &found.stat) else { return };
        // The bytes on disk may differ from the object's by an unknown conversion.
        content.raw &= !(content.indexed && (converting || self.convert.is_some()));
        let oid = content.oid;
        let secret =
            self.secrets.contains(&oid) && self.tracked(&found.path).is_none_or(|known| known.oid != oid);
        if secret || !self.present.has(&oid) {
            found.content = None;
        }
    }

    fn is_secret(&self, oid: &ObjectId, bytes: u64) -> bool {
        bytes >= SECRET_MIN_BYTES && self.secrets.contains(oid)
    }

    fn tracked(&self, path: &[u8]) -> Option<&KnownFile> {
        let at = self.known.binary_search_by(|known| known.path.as_slice().cmp(path)).ok()?;
        Some(&self.known[at]).filter(|known| known.tracked && known.mode != Mode::Gitlink)
    }

    fn read(&self, found: &ScannedFile, counter: Option<&FilesCounter>) -> Result<Read1, RepositoryError> {
        let mut result = Err(object::changed());
        for _ in 0..MAX_READS {
            result =
                if found.mode == Mode::Symlink { self.symlink(found) } else { self.file(found, counter)? };
            match &result {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        if self.pack.bytes() > self.max_new_bytes {
            return Err(RepositoryError::Unsupported(format!(
                "the new content of {} is larger than {} bytes; ignore what is not needed in .gitignore, or raise \
                 workspace.max_run_mb",
                self.folder.display(),
                self.max_new_bytes
            )));
        }
        result.map_err(|error| self.failed(&found.path, &error))
    }

    fn symlink(&self, found: &ScannedFile) -> io::Result<Read1> {
        let link =
            match open_beneath(self.root, &found.path, OFlags::PATH | OFlags::NOFOLLOW, Permissions::empty())
            {
                Ok(link) => link,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(Read1::Gone),
                Err(error) => return Err(error.into()),
            };
        let stat = Stat::of(&rustix::fs::fstat(&link)?);
        let target = match rustix::fs::readlinkat(&link, "", Vec::new()) {
            Ok(target) => target,
            // No longer a symlink. The next scan sees the new type.
            Err(Errno::INVAL | Errno::NOENT) => return Ok(Read1::Gone),
            Err(error) => return Err(error.into()),
        };
        self.keep(target.to_bytes(), stat)
    }

    fn file(
        &self,
        found: &ScannedFile,
        counter: Option<&FilesCounter>,
    ) -> Result<io::Result<Read1>, RepositoryError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let open = || open_beneath(self.root, &found.path, flags, Permissions::empty());
        let opened = if self.owned { closed::opened_up(self.root, &found.path, open) } else { open() };
        let file = match opened {
            Ok(file) => File::from(file),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO) => return Ok(Ok(Read1::Gone)),
            Err(error) => return Ok(Err(error.into())),
        };
        let stat = match rustix::fs::fstat(&file) {
            Ok(stat) => Stat::of(&stat),
            Err(error) => return Ok(Err(error.into())),
        };
        if stat.size > self.max_file_bytes {
            return Err(RepositoryError::Unsupported(format!(
                "{} has {} bytes, more than the {} that a file may have; ignore it in .gitignore, or raise \
                 workspace.max_file_mb",
                super::notes::readable(&found.path),
                stat.size,
                self.max_file_bytes
            )));
        }
        if stat.size > STREAM_BYTES {
            return Ok(self.large(file, stat, counter));
        }
        let read = self.small(file, stat);
        if let Some(counter) = counter {
            counter.add_bytes(stat.size);
        }
        Ok(read)
    }

    fn small(&self, file: File, stat: Stat) -> io::Result<Read1> {
        let mut content = Vec::with_capacity(usize::try_from(stat.size).unwrap_or_default() + 1);
        file.take(stat.size + 1).read_to_end(&mut content)?;
        if content.len() as u64 != stat.size {
            return Err(object::changed());
        }
        self.keep(&content, stat)
    }

    fn keep(&self, content: &[u8], stat: Stat) -> io::Result<Read1> {
        let oid = object::name(ObjectType::Blob, content);
        if self.is_secret(&oid, stat.size) {
            return Ok(Read1::Secret);
        }
        let symlink = stat.mode & 0o170_000 == 0o120_000;
        if (self.convert.is_none() || symlink) && !self.present.has(&oid) {
            self.pack.add(ObjectType::Blob, oid, content).map_err(io::Error::other)?;
        }
        Ok(Read1::Is(oid, stat))
    }

    /// Reads a large file twice: for its name, and for the pack if it is new. Counts the bytes of the first time.
    fn large(&self, mut file: File, stat: Stat, counter: Option<&FilesCounter>) -> io::Result<Read1> {
        let oid = object::name_of_reader(&mut CountedReader { from: &mut file, counter }, stat.size)?;
        if self.is_secret(&oid, stat.size) {
            return Ok(Read1::Secret);
        }
        if self.convert.is_some() || self.present.has(&oid) || self.pack.holds(&oid) {
            return Ok(Read1::Is(oid, stat));
        }
        file.rewind()?;
        let written = self.pack.add_stream(&mut file, stat.size).map_err(io::Error::other)?;
        if written == oid { Ok(Read1::Is(oid, stat)) } else { Err(object::changed()) }
    }

    fn failed(&self, path: &[u8], error: &io::Error) -> RepositoryError {
        use std::os::unix::ffi::OsStrExt;
        let path = self.folder.join(std::ffi::OsStr::from_bytes(path));
        RepositoryError::io("reading", &path, error)
    }
}

fn entry(found: ScannedFile) -> Option<Entry> {
    let Content { oid, raw, .. } = found.content?;
    Some(Entry { path: found.path, mode: found.mode, oid, stat: found.stat, raw })
}

/// Lets git store the files whose line endings it converts. It uses the user's attributes and line-ending settings.
/// Filters are off, so that no program of the user runs.
fn convert(
    git: &Git,
    pack: &PackWriter,
    walked: &mut ScanResult,
    files: &[usize],
) -> Result<(), RepositoryError> {
    let files: Vec<usize> = files.iter().copied().filter(|at| walked.found[*at].mode.is_file()).collect();
    if files.is_empty() {
        return Ok(());
    }
    let mut input = Vec::new();
    for at in &files {
        quote(&walked.found[*at].path, &mut input);
    }
    let quarantine = Quarantine::new(git)?;
    let out = quarantine.git().run_with(&["hash-object", "-w", "--stdin-paths"], &input)?;
    quarantine.pour_into(pack)?;
    let out = String::from_utf8_lossy(&out);
    let oids: Vec<ObjectId> = out.lines().filter_map(|line| line.parse().ok()).collect();
    if oids.len() != files.len() {
        return Err(RepositoryError::Damaged(format!(
            "git hash-object named {} of {} files; try again when nothing writes in the folder",
            oids.len(),
            files.len()
        )));
    }
    for (at, oid) in files.into_iter().zip(oids) {
        if let Some(content) = &mut walked.found[at].content {
            content.raw = content.oid == oid;
            content.oid = oid;
        }
    }
    Ok(())
}

/// Appends a path in the quotes that git reads.
fn quote(path: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in path {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            0x20..=0x7e => out.push(*byte),
            _ => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
        }
    }
    out.extend_from_slice(b"\"\n");
}

/// A tree object that may have to be written.
pub(crate) type NewTree = (ObjectId, Vec<u8>);

/// A directory whose entries are being collected.
struct DirectoryEntries<'a> {
    /// With a slash at its end; empty at the top.
    path: &'a [u8],
    items: Vec<TreeEntry<'a>>,
}

/// All trees of these entries, which are sorted by path; the last is the top. Not recursive, because a project's author
/// decides how deep the paths are.
pub(crate) fn trees(entries: &[Entry]) -> Vec<NewTree> {
    let mut out = Vec::new();
    let mut open = vec![DirectoryEntries { path: &[], items: Vec::new() }];
    for entry in entries {
        while open.len() > 1 && open.last().is_some_and(|dir| !entry.path.starts_with(dir.path)) {
            close(&mut open, &mut out);
        }
        let mut from = open.last().map_or(0, |dir| dir.path.len());
        while let Some(slash) = entry.path[from..].iter().position(|byte| *byte == b'/') {
            from += slash + 1;
            open.push(DirectoryEntries { path: &entry.path[..from], items: Vec::new() });
        }
        let item = TreeEntry { name: &entry.path[from..], bits: entry.mode.bits(), oid: entry.oid };
        if let Some(dir) = open.last_mut() {
            dir.items.push(item);
        }
    }
    while !open.is_empty() {
        close(&mut open, &mut out);
    }
    out
}

/// Encodes the innermost open directory and adds it to its parent.
fn close(open: &mut Vec<DirectoryEntries<'_>>, out: &mut Vec<NewTree>) {
    let Some(DirectoryEntries { path, mut items }) = open.pop() else { return };
    let content = object::encode_tree(&mut items);
    let oid = object::name(ObjectType::Tree, &content);
    out.push((oid, content));
    if let Some(above) = open.last_mut() {
        let name = &path[above.path.len()..path.len() - 1];
        above.items.push(TreeEntry { name, bits: DIRECTORY_BITS, oid });
    }
}

/// Adds the trees that the repository does not have yet.
pub(crate) fn add_trees(
    trees: &[NewTree],
    present: &PresentObjects,
    pack: &PackWriter,
) -> Result<(), RepositoryError> {
    let new = trees.iter().filter(|(oid, _)| !present.has(oid));
    new.into_iter().try_for_each(|(oid, content)| pack.add(ObjectType::Tree, *oid, content))
}
