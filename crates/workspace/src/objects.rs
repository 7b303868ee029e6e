//! Finds and reads objects of a project's repository, for scans, checkouts and merges.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FileType, Stat};

use super::git_dir::GitDir;
use super::object::{self, Mode};
use super::stored_objects::StoredTree;
use super::{Git, ObjectId, RepositoryError, disk};

const INDEX_SIGNATURE: &[u8; 8] = b"\xfftOc\0\0\0\x02";
const FANOUT_BYTES: usize = 256 * 4;
const OID_BYTES: u64 = 20;
/// The bit of an offset that is in the table of far ones.
const FAR: u32 = 1 << 31;
/// The largest index that is kept in memory as a whole.
const SMALL_INDEX_MAX_BYTES: u64 = 64 * 1024;
/// Limit of ids with the same first byte that are read from one index, as in a pack of a thousand million objects. The
/// index may come with a project and be hostile.
const BUCKET_MAX_NAMES: u64 = 4_000_000;
/// The largest tree or commit that is read.
const MAX_META_BYTES: u64 = 64 * 1024 * 1024;

/// Finds objects without git: as loose files and in the indexes of packs.
pub(crate) struct PresentObjects {
    objects: Vec<GitDir>,
    packs: KnownPacks,
    /// Objects that are stored elsewhere.
    elsewhere: Arc<HashSet<ObjectId>>,
    loose: LooseObjects,
}

/// What is known of loose objects. A few are looked up one by one. A snapshot of a large folder looks for each of its
/// files, and a list of all names is then faster.
#[derive(Default)]
struct LooseObjects {
    lookups: AtomicUsize,
    /// The names by their first byte.
    listed: Mutex<HashMap<u8, HashSet<ObjectId>>>,
}

/// How many objects are looked up one by one before names are listed.
const SINGLE_LOOKUPS_MAX: usize = 256;

impl LooseObjects {
    fn has(&self, dirs: &[GitDir], oid: &ObjectId) -> bool {
        if self.are_listed() {
            let first = oid.as_bytes()[0];
            let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
            return listed.entry(first).or_insert_with(|| Self::list(dirs, first)).contains(oid);
        }
        self.lookups.fetch_add(1, Ordering::Relaxed);
        let name = oid.to_string();
        let name = format!("{}/{}", &name[..2], &name[2..]);
        dirs.iter().any(|dir| dir.stat(&name).is_ok_and(|stat| stat.is_some_and(is_plain)))
    }

    fn are_listed(&self) -> bool {
        self.lookups.load(Ordering::Relaxed) >= SINGLE_LOOKUPS_MAX
    }

    /// The loose objects with this first byte. What cannot be listed is written again.
    fn list(dirs: &[GitDir], first: u8) -> HashSet<ObjectId> {
        let above = format!("{first:02x}");
        let dirs = dirs.iter().filter_map(|dir| dir.dir(&above).ok()?);
        let names = dirs.flat_map(|dir| dir.entries().unwrap_or_default());
        let plain = names.filter(|(_, kind)| *kind == FileType::RegularFile);
        plain.filter_map(|(name, _)| format!("{above}{}", name.to_str()?).parse().ok()).collect()
    }
}

/// The indexes of packs, the largest first.
pub(crate) type KnownPacks = Arc<Vec<Arc<PackIndex>>>;

/// The indexes of packs that this process has opened. A pack of a project is never removed but with the whole project.
///
/// A repository is listed when it is first used, and again when an object is not found: until then, packs of other
/// processes are not known. A run makes a pack for each snapshot and each merge, and to list them all each time would
/// take longer than to write one.
#[derive(Default)]
pub(crate) struct PackCache {
    packs: Mutex<HashMap<RepositoryId, KnownPacks>>,
    trees: Mutex<KnownTrees>,
}

/// The device, the inode and the time of a repository's `HEAD`, which is written once. A project that was removed and
/// created again may have the same inodes, but not the same time.
pub(crate) type RepositoryId = (u64, u64, i128);

/// The entries of a tree.
pub(crate) type KnownTree = Arc<StoredTree>;

/// Trees that were read. A merge compares what all merges before it have changed, so each tree is read many times.
#[derive(Default)]
struct KnownTrees {
    trees: HashMap<(RepositoryId, ObjectId), KnownTree>,
    /// How many entries all of them have.
    entries: usize,
}

/// How many repositories have opened indexes in memory.
const CACHED_REPOSITORIES_MAX: usize = 16;
/// How many entries of trees are kept in memory, about 60 bytes each. With more, all of them are forgotten.
const CACHED_ENTRIES_MAX: usize = 500_000;

impl std::fmt::Debug for PackCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PackCache").finish_non_exhaustive()
    }
}

impl PackCache {
    fn lock(&self) -> MutexGuard<'_, HashMap<RepositoryId, KnownPacks>> {
        self.packs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trees(&self) -> MutexGuard<'_, KnownTrees> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A tree that was read before.
    pub(crate) fn tree(&self, repository: RepositoryId, oid: &ObjectId) -> Option<KnownTree> {
        self.trees().trees.get(&(repository, *oid)).cloned()
    }

    pub(crate) fn keep_tree(&self, repository: RepositoryId, oid: &ObjectId, tree: &KnownTree) {
        let mut known = self.trees();
        if known.entries + tree.len() > CACHED_ENTRIES_MAX {
            *known = KnownTrees::default();
        }
        if known.trees.insert((repository, *oid), tree.clone()).is_none() {
            known.entries += tree.len();
        }
    }

    /// What distinguishes a repository from others.
    pub(crate) fn id_of(repository: &Path) -> Option<RepositoryId> {
        let head = std::fs::metadata(repository.join("HEAD")).ok()?;
        let ns = i128::from(head.mtime()) * 1_000_000_000 + i128::from(head.mtime_nsec());
        Some((head.dev(), head.ino(), ns))
    }

    /// Forgets the packs of a repository, so that the next use lists them: others may have been added.
    pub(crate) fn forget(&self, repository: &Path) {
        if let Some(id) = Self::id_of(repository) {
            self.lock().remove(&id);
        }
    }

    /// The known indexes of a repository.
    pub(crate) fn known(&self, repository: &Path) -> Result<KnownPacks, RepositoryError> {
        match Self::id_of(repository).and_then(|id| self.lock().get(&id).cloned()) {
            Some(known) => Ok(known),
            None => self.listed(repository),
        }
    }

    /// The indexes that a repository has now.
    pub(crate) fn listed(&self, repository: &Path) -> Result<KnownPacks, RepositoryError> {
        let objects = objects_dir(repository)?;
        let (Ok(Some(dir)), Some(id)) = (objects.dir("pack"), Self::id_of(repository)) else {
            return Ok(KnownPacks::default());
        };
        let mut all = self.lock();
        if all.len() >= CACHED_REPOSITORIES_MAX && !all.contains_key(&id) {
            all.clear();
        }
        let known = all.entry(id).or_default();
        let mut open: HashMap<OsString, Arc<PackIndex>> =
            known.iter().map(|pack| (pack.pack.clone(), pack.clone())).collect();
        // An unreadable index counts as empty: its objects are written again.
        let packs = index_names(&dir).into_iter().filter_map(|name| {
            let pack = Path::new(&name).with_extension("pack").into_os_string();
            open.remove(&pack).or_else(|| PackIndex::open(&dir, &name).map(Arc::new))
        });
        *known = largest_first(packs.collect());
        Ok(known.clone())
    }

    /// Adds a pack that this process has just written, with the bytes of its index.
    pub(crate) fn add(&self, repository: &Path, pack: &OsStr, index: Vec<u8>) {
        if index.len() as u64 > SMALL_INDEX_MAX_BYTES {
            return self.forget(repository);
        }
        let Some(id) = Self::id_of(repository) else { return };
        let mut all = self.lock();
        // A repository that was not listed yet is listed when it is used.
        let Some(known) = all.get_mut(&id) else { return };
        if known.iter().any(|known| known.pack == pack) {
            return;
        }
        if let Some(index) = PackIndex::read(pack.to_owned(), IndexBytes::Here(index)) {
            // Last, because it is small.
            Arc::make_mut(known).push(Arc::new(index));
        }
    }
}

/// Most objects are in the largest pack, so most lookups end there.
fn largest_first(mut packs: Vec<Arc<PackIndex>>) -> KnownPacks {
    packs.sort_by_key(|pack| std::cmp::Reverse(pack.fanout.last().copied()));
    Arc::new(packs)
}

impl PresentObjects {
    /// The objects that a repository has now.
    pub(crate) fn of(repository: &Path) -> Result<Self, RepositoryError> {
        let dir = objects_dir(repository)?;
        Ok(Self::beneath(vec![dir]))
    }

    /// The objects of a repository that are known to this process. Those that are not are written again.
    pub(crate) fn cached(repository: &Path, cache: &PackCache) -> Result<Self, RepositoryError> {
        let packs = cache.known(repository)?;
        let objects = vec![objects_dir(repository)?];
        Ok(Self { objects, packs, elsewhere: Arc::default(), loose: LooseObjects::default() })
    }

    /// The objects that these directories have now.
    pub(super) fn beneath(objects: Vec<GitDir>) -> Self {
        // An unreadable index counts as empty: its objects are written again.
        let packs = largest_first(objects.iter().flat_map(indexes).map(Arc::new).collect());
        Self { objects, packs, elsewhere: Arc::default(), loose: LooseObjects::default() }
    }

    /// The same objects, and others that the caller has stored elsewhere.
    pub(crate) fn with(self, elsewhere: Arc<HashSet<ObjectId>>) -> Self {
        Self { elsewhere, ..self }
    }

    pub(crate) fn has(&self, oid: &ObjectId) -> bool {
        if self.elsewhere.contains(oid) {
            return true;
        }
        // A list of loose objects is faster than hundreds of small packs.
        let (is_loose, is_packed) =
            (|| self.loose.has(&self.objects, oid), || self.packs.iter().any(|pack| pack.has(oid)));
        let loose_first = self.loose.are_listed();
        (loose_first && is_loose()) || is_packed() || (!loose_first && is_loose())
    }
}

fn objects_dir(repository: &Path) -> Result<GitDir, RepositoryError> {
    let objects = repository.join("objects");
    GitDir::open(&objects)?.ok_or_else(|| RepositoryError::Damaged(format!("{} is gone", objects.display())))
}

fn is_plain(stat: Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// The indexes of the packs in a directory of objects.
fn indexes(objects: &GitDir) -> Vec<PackIndex> {
    let Ok(Some(dir)) = objects.dir("pack") else { return Vec::new() };
    index_names(&dir).iter().filter_map(|name| PackIndex::open(&dir, name)).collect()
}

fn index_names(packs: &GitDir) -> Vec<OsString> {
    let names = packs.entries().unwrap_or_default().into_iter().map(|(name, _)| name);
    names.filter(|name| Path::new(name).extension().is_some_and(|end| end == "idx")).collect()
}

/// The index of one pack. Ids are read by their first byte, on demand.
pub(crate) struct PackIndex {
    pack: OsString,
    bytes: IndexBytes,
    fanout: Vec<u32>,
    buckets: Mutex<HashMap<u8, Vec<[u8; 20]>>>,
}

impl PackIndex {
    fn open(dir: &GitDir, name: &OsString) -> Option<Self> {
        // An index without its pack is useless.
        let pack = Path::new(name).with_extension("pack").into_os_string();
        dir.lstat(&pack).ok().filter(|stat| is_plain(*stat))?;
        Self::read(pack, IndexBytes::of(dir.file(name).ok()?).ok()?)
    }

    fn read(pack: OsString, bytes: IndexBytes) -> Option<Self> {
        let mut head = vec![0; INDEX_SIGNATURE.len() + FANOUT_BYTES];
        bytes.read_exact_at(&mut head, 0).ok()?;
        let fanout = head.strip_prefix(INDEX_SIGNATURE)?;
        let number = |bytes: &[u8]| bytes.try_into().map(u32::from_be_bytes).ok();
        let fanout = fanout.chunks_exact(4).map(number).collect::<Option<Vec<u32>>>()?;
        Some(Self { pack, bytes, fanout, buckets: Mutex::default() })
    }

    /// The name of the pack's file.
    pub(crate) fn pack_name(&self) -> &OsStr {
        &self.pack
    }

    fn has(&self, oid: &ObjectId) -> bool {
        self.position(oid).is_some()
    }

    /// The position of an id among all ids of the pack.
    fn position(&self, oid: &ObjectId) -> Option<u64> {
        let first = oid.as_bytes()[0];
        // Of a small pack, most ids are excluded by this.
        if self.start_of(first) == u64::from(self.fanout[usize::from(first)]) {
            return None;
        }
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = buckets.entry(first).or_insert_with(|| self.bucket(first).unwrap_or_default());
        let at = bucket.binary_search(oid.as_bytes()).ok()?;
        Some(self.start_of(first) + at as u64)
    }

    /// How many ids have a smaller first byte.
    fn start_of(&self, first: u8) -> u64 {
        first.checked_sub(1).map_or(0, |before| u64::from(self.fanout[usize::from(before)]))
    }

    /// Where an object is in the pack; `None` if it is not there.
    pub(crate) fn offset_of(&self, oid: &ObjectId) -> Option<u64> {
        let position = self.position(oid)?;
        let count = self.fanout.last().copied().map_or(0, u64::from);
        // The tables of ids and checksums come first.
        let offsets = (INDEX_SIGNATURE.len() + FANOUT_BYTES) as u64 + count * (OID_BYTES + 4);
        let mut near = [0; 4];
        self.bytes.read_exact_at(&mut near, offsets + position * 4).ok()?;
        let near = u32::from_be_bytes(near);
        if near & FAR == 0 {
            return Some(u64::from(near));
        }
        let mut far = [0; 8];
        self.bytes.read_exact_at(&mut far, offsets + count * 4 + u64::from(near & !FAR) * 8).ok()?;
        Some(u64::from_be_bytes(far))
    }

    fn bucket(&self, first: u8) -> io::Result<Vec<[u8; 20]>> {
        let end = u64::from(self.fanout[usize::from(first)]);
        let start = self.start_of(first);
        let names = end.saturating_sub(start);
        if names > BUCKET_MAX_NAMES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let length = usize::try_from(names * OID_BYTES).unwrap_or_default();
        let mut bytes = vec![0; length];
        let head = (INDEX_SIGNATURE.len() + FANOUT_BYTES) as u64;
        self.bytes.read_exact_at(&mut bytes, head + start * OID_BYTES)?;
        Ok(bytes.chunks_exact(20).filter_map(|name| name.try_into().ok()).collect())
    }
}

/// The bytes of an index. A run makes one small pack for each snapshot and each merge, and an open file for each of them
/// would be more than a process may have.
enum IndexBytes {
    Here(Vec<u8>),
    File(File),
}

impl IndexBytes {
    fn of(mut file: File) -> io::Result<Self> {
        if file.metadata()?.len() > SMALL_INDEX_MAX_BYTES {
            return Ok(Self::File(file));
        }
        let mut bytes = Vec::new();
        (&mut file).take(SMALL_INDEX_MAX_BYTES).read_to_end(&mut bytes)?;
        Ok(Self::Here(bytes))
    }

    fn read_exact_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        match self {
            Self::File(file) => file.read_exact_at(into, at),
            Self::Here(bytes) => {
                let from = usize::try_from(at).ok().and_then(|at| bytes.get(at..));
                let found =
                    from.and_then(|from| from.get(..into.len())).ok_or(io::ErrorKind::UnexpectedEof)?;
                into.copy_from_slice(found);
                Ok(())
            }
        }
    }
}

/// Reads objects through one git process.
pub(crate) struct Reader {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    repository: PathBuf,
}

impl Reader {
    pub(crate) fn start(git: &Git) -> Result<Self, RepositoryError> {
        let failed = disk::failed("starting git cat-file in", git.git_dir());
        let mut command = git.command(&["cat-file", "--batch", "--buffer"]);
        command.stdin(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(&failed)?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = pipes else {
            return Err(failed(io::Error::from(io::ErrorKind::BrokenPipe)));
        };
        let output = BufReader::with_capacity(object::CHUNK_BYTES, output);
        Ok(Self { child, input: Some(input), output, repository: git.git_dir().to_owned() })
    }

    /// Requests all of `wanted` and passes each to `take` in that order: its index in the list, its size, and a reader
    /// of exactly its content.
    pub(crate) fn each(
        mut self,
        wanted: &[ObjectId],
        mut take: impl FnMut(usize, u64, &mut dyn Read) -> Result<(), RepositoryError>,
    ) -> Result<(), RepositoryError> {
        let input = self.input.take();
        std::thread::scope(|scope| {
            // Requests and replies run in parallel, or both processes could wait for each other.
            let asking = scope.spawn(move || ask(input, wanted));
            let answered = (0..wanted.len()).try_for_each(|place| {
                let size = self.head(&wanted[place])?;
                let mut content = (&mut self.output).take(size);
                take(place, size, &mut content)?;
                let mut rest = content;
                io::copy(&mut rest, &mut io::sink()).map_err(|error| self.failed(&error))?;
                self.output.read_exact(&mut [0]).map_err(|error| match error.kind() {
                    io::ErrorKind::UnexpectedEof => RepositoryError::killed("cat-file"),
                    _ => self.failed(&error),
                })
            });
            if answered.is_err() {
                // The reader failed. Killing the process ends the requesting thread.
                drop(self.child.kill());
            }
            drop(asking.join());
            answered
        })
    }

    /// Reads the header line of an object and returns its size.
    fn head(&mut self, oid: &ObjectId) -> Result<u64, RepositoryError> {
        let mut line = String::new();
        if self.output.read_line(&mut line).map_err(|error| self.failed(&error))? == 0 {
            // Git replies for every object, even a missing one, so an early end means that it was killed.
            return Err(RepositoryError::killed("cat-file"));
        }
        let size = line.trim_end().rsplit(' ').next().and_then(|size| size.parse().ok());
        size.ok_or_else(|| {
            RepositoryError::Damaged(format!(
                "object {oid} is missing in {}; run `git fsck` in the project's folder to see what else is",
                self.repository.display()
            ))
        })
    }

    fn failed(&self, error: &io::Error) -> RepositoryError {
        RepositoryError::io("reading objects of", &self.repository, error)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        drop(self.input.take());
        // Git ends when its input does. Without a wait it would stay in the process table.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn ask(input: Option<ChildStdin>, wanted: &[ObjectId]) -> io::Result<()> {
    let Some(input) = input else { return Ok(()) };
    let mut input = io::BufWriter::new(input);
    wanted.iter().try_for_each(|oid| writeln!(input, "{oid}"))?;
    input.flush()
}

pub(crate) fn tree_of(git: &Git, commit: &ObjectId) -> Result<ObjectId, RepositoryError> {
    if let Some(tree) = git.stored_objects().and_then(|stored| stored.tree_of(commit)) {
        return Ok(tree);
    }
    let mut content = Vec::new();
    Reader::start(git)?.each(&[*commit], |_, size, reader| {
        let failed = disk::failed("reading a commit of", git.git_dir());
        reader.take(size.min(MAX_META_BYTES)).read_to_end(&mut content).map(drop).map_err(failed)
    })?;
    object::tree_of_commit(&content).ok_or_else(|| {
        RepositoryError::Damaged(format!("{commit} in {} is not a commit", git.git_dir().display()))
    })
}

/// One file of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeFile {
    /// Relative to the top.
    pub(crate) path: Vec<u8>,
    pub(crate) mode: Mode,
    pub(crate) oid: ObjectId,
}

/// All files of a commit or tree, sorted by path.
pub(crate) fn list(git: &Git, tree: &ObjectId) -> Result<Vec<TreeFile>, RepositoryError> {
    let out = git.run(&["ls-tree", "-r", "-z", "--full-tree", &tree.to_string()])?;
    let records = out.split(|byte| *byte == 0).filter(|record| !record.is_empty());
    let listed: Option<Vec<TreeFile>> = records.map(listed).collect();
    let mut listed = listed.ok_or_else(|| {
        RepositoryError::Damaged(format!("tree {tree} in {} has strange entries", git.git_dir().display()))
    })?;
    listed.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(listed)
}

/// Parses `<mode> <type> <oid>\t<path>`.
fn listed(record: &[u8]) -> Option<TreeFile> {
    let tab = record.iter().position(|byte| *byte == b'\t')?;
    let mut words = std::str::from_utf8(&record[..tab]).ok()?.split(' ');
    let mode = Mode::from_bits(u32::from_str_radix(words.next()?, 8).ok()?)?;
    let oid = words.nth(1)?.parse().ok()?;
    Some(TreeFile { path: record[tab + 1..].to_vec(), mode, oid })
}
