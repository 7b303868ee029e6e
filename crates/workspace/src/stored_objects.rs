//! Reads objects of a project's repository in this process: loose ones and those in packs, with deltas.
//!
//! A git process takes longer to start than most answers take to read, and a merge asks for a few trees and one file.
//! Anything that is not found here, or is larger or stranger than expected, is left to git, which also explains what is
//! wrong with it. The content of every object is checked against its id.

use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use flate2::bufread::ZlibDecoder;

use super::ObjectId;
use super::object::{self, ObjectType};
use super::objects::{KnownPacks, KnownTree, PackCache, PackIndex, RepositoryId};

/// The largest object that is read here.
const OBJECT_MAX_BYTES: u64 = 16 * 1024 * 1024;
/// The longest chain of deltas that is followed. Git makes chains of at most 50 by default.
const DELTAS_MAX: usize = 250;
const READ_BUFFER_BYTES: usize = 4096;
const OID_BYTES: usize = 20;
/// The types of packed objects that are deltas.
const OFFSET_DELTA: u8 = 6;
const NAMED_DELTA: u8 = 7;

/// The objects of a repository: those in known packs, then loose ones, then those in packs that were added since.
pub(crate) struct StoredObjects {
    repository: PathBuf,
    id: RepositoryId,
    objects: PathBuf,
    packs: KnownPacks,
    cache: Arc<PackCache>,
    /// What the repository had when an object was not found among the known packs.
    listed: OnceLock<KnownPacks>,
}

/// An object in a pack, before its deltas are applied.
enum PackedObject {
    Whole(ObjectType, Vec<u8>),
    Delta(DeltaBase, Vec<u8>),
}

enum DeltaBase {
    Offset(u64),
    Named(ObjectId),
}

impl StoredObjects {
    /// The objects of the repository at `repository`.
    pub(crate) fn of(repository: &Path, cache: &Arc<PackCache>) -> Option<Self> {
        let (objects, packs) = (repository.join("objects"), cache.known(repository).ok()?);
        let (id, repository, cache) = (PackCache::id_of(repository)?, repository.to_owned(), cache.clone());
        Some(Self { repository, id, objects, packs, cache, listed: OnceLock::new() })
    }

    /// The pack of these that has an object, and where.
    fn find<'a>(packs: &'a KnownPacks, oid: &ObjectId) -> Option<(&'a PackIndex, u64)> {
        packs.iter().find_map(|pack| Some((&**pack, pack.offset_of(oid)?)))
    }

    /// Like [`find`](Self::find), among the packs that are there now: another process may have added one.
    fn find_listed(&self, oid: &ObjectId) -> Option<(&PackIndex, u64)> {
        let listed = || self.cache.listed(&self.repository).unwrap_or_default();
        Self::find(self.listed.get_or_init(listed), oid)
    }

    /// The type and content of an object; `None` if git should be asked for it.
    pub(crate) fn read(&self, oid: &ObjectId) -> Option<(ObjectType, Vec<u8>)> {
        let (kind, content) = if let Some((pack, offset)) = Self::find(&self.packs, oid) {
            self.unpack(pack, offset).ok()??
        } else if let Some(loose) = self.loose(oid) {
            loose
        } else {
            let (pack, offset) = self.find_listed(oid)?;
            self.unpack(pack, offset).ok()??
        };
        (object::name(kind, &content) == *oid).then_some((kind, content))
    }

    /// The entries of a tree, in git's order.
    pub(crate) fn tree(&self, oid: &ObjectId) -> Option<KnownTree> {
        if let Some(known) = self.cache.tree(self.id, oid) {
            return Some(known);
        }
        let (ObjectType::Tree, content) = self.read(oid)? else { return None };
        let tree = Arc::new(StoredTree::parse(content)?);
        self.cache.keep_tree(self.id, oid, &tree);
        Some(tree)
    }

    /// Keeps a tree in memory that was just written: the next merge reads it.
    pub(crate) fn keep_tree(&self, oid: &ObjectId, content: Vec<u8>) {
        if let Some(tree) = StoredTree::parse(content) {
            self.cache.keep_tree(self.id, oid, &Arc::new(tree));
        }
    }

    /// The tree of a commit, or of a tree itself.
    pub(crate) fn tree_of(&self, commit: &ObjectId) -> Option<ObjectId> {
        match self.read(commit)? {
            (ObjectType::Commit, content) => object::tree_of_commit(&content),
            (ObjectType::Tree, _) => Some(*commit),
            (ObjectType::Blob, _) => None,
        }
    }

    fn loose(&self, oid: &ObjectId) -> Option<(ObjectType, Vec<u8>)> {
        let name = oid.to_string();
        let file = File::open(self.objects.join(&name[..2]).join(&name[2..])).ok()?;
        let mut bytes = Vec::new();
        let reader = ZlibDecoder::new(BufReader::with_capacity(READ_BUFFER_BYTES, file));
        reader.take(OBJECT_MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
        let (kind, content) = object::parts(&bytes)?;
        Some((kind, content.to_vec()))
    }

    fn unpack(&self, pack: &PackIndex, offset: u64) -> io::Result<Option<(ObjectType, Vec<u8>)>> {
        let path = self.objects.join("pack").join(pack.pack_name());
        let mut file = BufReader::with_capacity(READ_BUFFER_BYTES, File::open(path)?);
        let (mut deltas, mut at) = (Vec::new(), offset);
        loop {
            match read_packed(&mut file, at)? {
                None => return Ok(None),
                Some(PackedObject::Whole(kind, content)) => {
                    let applied =
                        deltas.iter().rev().try_fold(content, |base, delta: &Vec<u8>| apply(&base, delta));
                    return Ok(applied.map(|content| (kind, content)));
                }
                Some(PackedObject::Delta(base, delta)) => {
                    deltas.push(delta);
                    let base = match base {
                        DeltaBase::Offset(offset) => Some(offset),
                        DeltaBase::Named(oid) => pack.offset_of(&oid),
                    };
                    match base.filter(|_| deltas.len() <= DELTAS_MAX) {
                        Some(base) => at = base,
                        None => return Ok(None),
                    }
                }
            }
        }
    }
}

/// Reads the object at an offset of a pack; `None` if it is too large or of an unknown type.
fn read_packed(file: &mut BufReader<File>, offset: u64) -> io::Result<Option<PackedObject>> {
    file.seek(SeekFrom::Start(offset))?;
    let first = byte(file)?;
    let (kind, mut size, mut shift) = (first >> 4 & 7, u64::from(first & 15), 4);
    let mut last = first;
    while last & 0x80 != 0 {
        last = byte(file)?;
        if shift > 57 {
            return Ok(None);
        }
        size |= u64::from(last & 0x7f) << shift;
        shift += 7;
    }
    if size > OBJECT_MAX_BYTES {
        return Ok(None);
    }
    let base = match kind {
        OFFSET_DELTA => match offset.checked_sub(distance(file)?).filter(|base| *base < offset) {
            Some(base) => Some(DeltaBase::Offset(base)),
            None => return Ok(None),
        },
        NAMED_DELTA => {
            let mut oid = [0; 20];
            file.read_exact(&mut oid)?;
            Some(DeltaBase::Named(ObjectId::from_bytes(oid)))
        }
        _ => None,
    };
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    ZlibDecoder::new(file).take(size + 1).read_to_end(&mut content)?;
    if content.len() as u64 != size {
        return Ok(None);
    }
    let types = [ObjectType::Commit, ObjectType::Tree, ObjectType::Blob];
    Ok(match base {
        Some(base) => Some(PackedObject::Delta(base, content)),
        None => types
            .into_iter()
            .find(|known| known.in_pack() == kind)
            .map(|kind| PackedObject::Whole(kind, content)),
    })
}

fn byte(file: &mut impl Read) -> io::Result<u8> {
    let mut byte = [0];
    file.read_exact(&mut byte)?;
    Ok(byte[0])
}

/// How far before a delta its base is. Each further byte adds one, so that no distance has two encodings.
fn distance(file: &mut impl Read) -> io::Result<u64> {
    let mut last = byte(file)?;
    let mut distance = u64::from(last & 0x7f);
    while last & 0x80 != 0 {
        last = byte(file)?;
        let next = distance.checked_add(1).and_then(|distance| distance.checked_mul(128));
        distance = next.ok_or(io::ErrorKind::InvalidData)? | u64::from(last & 0x7f);
    }
    Ok(distance)
}

/// Applies a delta to its base; `None` if it does not fit.
fn apply(base: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
    let mut rest = delta;
    if length(&mut rest)? != base.len() as u64 {
        return None;
    }
    let size = length(&mut rest).filter(|size| *size <= OBJECT_MAX_BYTES)?;
    let mut out = Vec::with_capacity(usize::try_from(size).ok()?);
    while let Some((code, after)) = rest.split_first() {
        rest = after;
        if code & 0x80 == 0 {
            let (new, after) = rest.split_at_checked(usize::from(*code)).filter(|_| *code != 0)?;
            out.extend_from_slice(new);
            rest = after;
            continue;
        }
        let mut field = |bits: std::ops::Range<u8>| {
            let mut value = 0_usize;
            for (shift, bit) in bits.enumerate() {
                if code & 1 << bit != 0 {
                    let (byte, after) = rest.split_first()?;
                    value |= usize::from(*byte) << (8 * shift);
                    rest = after;
                }
            }
            Some(value)
        };
        let (from, count) = (field(0..4)?, field(4..7)?);
        let count = if count == 0 { 0x1_0000 } else { count };
        out.extend_from_slice(base.get(from..from.checked_add(count)?)?);
    }
    (out.len() as u64 == size).then_some(out)
}

/// A number of a delta's header, seven bits at a time, the lowest first.
fn length(rest: &mut &[u8]) -> Option<u64> {
    let (mut value, mut shift) = (0_u64, 0);
    loop {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
        shift += 7;
    }
}

/// A tree as it is stored. Its entries refer to its bytes: a project may have thousands of directories side by side, and
/// a name of its own for each entry would take most of the time of a merge.
#[derive(Debug, Default)]
pub(crate) struct StoredTree {
    content: Vec<u8>,
    entries: Vec<EntryPlace>,
}

/// Where the name of an entry is. Its id follows after a zero byte.
#[derive(Debug, Clone, Copy)]
struct EntryPlace {
    start: u32,
    end: u32,
    bits: u32,
}

/// An entry of a stored tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredEntry<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) bits: u32,
    pub(crate) oid: ObjectId,
}

impl StoredEntry<'_> {
    pub(crate) fn is_directory(&self) -> bool {
        self.bits == object::DIRECTORY_BITS
    }

    /// Git's order.
    pub(crate) fn order(&self, other: &StoredEntry<'_>) -> Ordering {
        object::tree_order((self.name, self.is_directory()), (other.name, other.is_directory()))
    }
}

impl StoredTree {
    /// The tree with this content; `None` if it is not one, or not in git's order, which names are found by.
    fn parse(content: Vec<u8>) -> Option<Self> {
        let mut entries = Vec::new();
        let mut at = 0;
        while at < content.len() {
            let rest = &content[at..];
            let space = rest.iter().position(|byte| *byte == b' ')?;
            let bits = u32::from_str_radix(std::str::from_utf8(&rest[..space]).ok()?, 8).ok()?;
            let end = space + 1 + rest[space + 1..].iter().position(|byte| *byte == 0)?;
            rest.get(end + 1..=end + OID_BYTES)?;
            let place = |offset: usize| u32::try_from(at + offset).ok();
            entries.push(EntryPlace { start: place(space + 1)?, end: place(end)?, bits });
            at += end + 1 + OID_BYTES;
        }
        let tree = Self { content, entries };
        tree.entries().is_sorted_by(|a, b| a.order(b).is_lt()).then_some(tree)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entries, in git's order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = StoredEntry<'_>> {
        self.entries.iter().map(|place| self.entry(place))
    }

    fn entry(&self, place: &EntryPlace) -> StoredEntry<'_> {
        let (start, end) = (place.start as usize, place.end as usize);
        let mut oid = [0; OID_BYTES];
        oid.copy_from_slice(&self.content[end + 1..=end + OID_BYTES]);
        StoredEntry { name: &self.content[start..end], bits: place.bits, oid: ObjectId::from_bytes(oid) }
    }

    /// The entry of a name.
    pub(crate) fn get(&self, name: &[u8]) -> Option<StoredEntry<'_>> {
        // A directory of the name has another place than a file.
        [false, true].into_iter().find_map(|is_directory| {
            let order = |place: &EntryPlace| {
                let entry = self.entry(place);
                object::tree_order((entry.name, entry.is_directory()), (name, is_directory))
            };
            let at = self.entries.binary_search_by(order).ok()?;
            Some(self.entry(&self.entries[at])).filter(|entry| entry.name == name)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn git(dir: &Path, args: &[&str]) -> String {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=T", "-c", "user.email=t@example.com"]).args(args).current_dir(dir);
        let done = command.output().expect("git");
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    /// Every object of a repository is read as git reads it, loose and in a pack full of deltas.
    #[test]
    fn objects_are_those_that_git_reads() {
        let dir = tempfile::tempdir().expect("a directory");
        git(dir.path(), &["init", "-q", "."]);
        let lines: Vec<String> = (0..2_000).map(|line| format!("line {line} of a long file")).collect();
        let text = lines.join("\n");
        for round in 0..12 {
            std::fs::write(dir.path().join("long"), text.replace("line 7", &format!("line {round}")))
                .expect("written");
            std::fs::create_dir_all(dir.path().join(format!("d{round}/e"))).expect("a directory");
            std::fs::write(dir.path().join(format!("d{round}/e/f")), format!("{round}")).expect("written");
            std::os::unix::fs::symlink("long", dir.path().join(format!("l{round}"))).expect("a link");
            git(dir.path(), &["add", "-A"]);
            git(dir.path(), &["commit", "-q", "-m", &round.to_string()]);
        }
        let listed = git(dir.path(), &["cat-file", "--batch-all-objects", "--batch-check"]);
        let check = || {
            let stored = StoredObjects::of(&dir.path().join(".git"), &Arc::default()).expect("a repository");
            for line in listed.lines() {
                let words: Vec<&str> = line.split(' ').collect();
                let oid: ObjectId = words[0].parse().expect("an id");
                let (kind, content) = stored.read(&oid).expect("read");
                assert_eq!((kind.name(), content.len().to_string().as_str()), (words[1], words[2]));
            }
            assert_eq!(stored.read(&ObjectId::from_bytes([7; 20])), None);
        };
        check();
        git(dir.path(), &["repack", "-q", "-a", "-d", "-f", "--depth=50", "--window=20"]);
        let packed = git(dir.path(), &["count-objects", "-v"]);
        assert!(packed.contains("count: 0\n"), "{packed}");
        check();
    }

    #[test]
    fn an_entry_is_found_by_its_name_whatever_it_is() {
        let names: [(&[u8], u32); 6] = [
            (b"a", object::DIRECTORY_BITS),
            (b"a-b", 0o100_644),
            (b"a.b", object::DIRECTORY_BITS),
            (b"a0", 0o100_755),
            (b"ab", object::DIRECTORY_BITS),
            (b"b", 0o120_000),
        ];
        let oid = |number: usize| ObjectId::from_bytes([u8::try_from(number).expect("few"); 20]);
        let mut entries: Vec<object::TreeEntry<'_>> = names
            .iter()
            .enumerate()
            .map(|(at, (name, bits))| object::TreeEntry { name, bits: *bits, oid: oid(at) })
            .collect();
        let tree = StoredTree::parse(object::encode_tree(&mut entries)).expect("a tree");
        assert_eq!(tree.len(), names.len());
        for (at, (name, bits)) in names.into_iter().enumerate() {
            assert_eq!(tree.get(name), Some(StoredEntry { name, bits, oid: oid(at) }));
        }
        for absent in [&b""[..], b"a/", b"a-", b"b0", b"0"] {
            assert_eq!(tree.get(absent), None);
        }
        assert!(StoredTree::parse(b"40000 cut off\0short".to_vec()).is_none());
        let twice = [&b"100644 b\0"[..], &[1; 20], b"100644 a\0", &[2; 20]].concat();
        assert!(StoredTree::parse(twice).is_none(), "not in git's order");
    }

    #[test]
    fn a_delta_that_does_not_fit_its_base_is_refused() {
        let copy_all = [3, 3, 0x90, 3];
        assert_eq!(apply(b"abc", &copy_all), Some(b"abc".to_vec()));
        assert_eq!(apply(b"abcd", &copy_all), None, "another base");
        assert_eq!(apply(b"abc", &[3, 4, 0x90, 3]), None, "another size");
        assert_eq!(apply(b"abc", &[3, 3, 0x91, 1, 3]), None, "beyond the end");
        assert_eq!(apply(b"abc", &[3, 1, 0]), None, "a reserved code");
        assert_eq!(apply(b"abc", &[3, 2, 2, b'x']), None, "cut off");
        assert_eq!(apply(b"abc", &[3, 4, 2, b'x', b'y', 0x91, 1, 2]), Some(b"xybc".to_vec()));
    }
}
