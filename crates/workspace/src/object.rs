//! Computes ids of git objects and encodes trees and commits, for the writer of packs.

use std::fmt::Write as _;
use std::io::{self, Read};

use sha1::{Digest, Sha1};

use super::ObjectId;

/// The author of Posse's own commits.
const AUTHOR: &str = "Posse <posse@localhost>";

/// Size of a read from a large file.
pub(crate) const CHUNK_BYTES: usize = 64 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectType {
    /// The content of a file, or the target of a symlink.
    Blob,
    Tree,
    Commit,
}

impl ObjectType {
    /// The type's name in an object's header.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Blob => "blob",
            Self::Tree => "tree",
            Self::Commit => "commit",
        }
    }

    /// The type's number in a pack.
    pub(crate) const fn in_pack(self) -> u8 {
        match self {
            Self::Commit => 1,
            Self::Tree => 2,
            Self::Blob => 3,
        }
    }
}

/// The mode of a tree entry. Git has these and no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    File,
    Executable,
    Symlink,
    /// The commit of a submodule.
    Gitlink,
}

impl Mode {
    /// `None` for a directory or any other mode.
    pub(crate) const fn from_bits(bits: u32) -> Option<Self> {
        match bits {
            // Very old trees have files with group write permission.
            0o100_644 | 0o100_664 => Some(Self::File),
            0o100_755 => Some(Self::Executable),
            0o120_000 => Some(Self::Symlink),
            0o160_000 => Some(Self::Gitlink),
            _ => None,
        }
    }

    pub(crate) const fn bits(self) -> u32 {
        match self {
            Self::File => 0o100_644,
            Self::Executable => 0o100_755,
            Self::Symlink => 0o120_000,
            Self::Gitlink => 0o160_000,
        }
    }

    pub(crate) const fn is_file(self) -> bool {
        matches!(self, Self::File | Self::Executable)
    }
}

/// Computes the id of an object from a stream of content.
pub(crate) struct Namer(Sha1);

impl Namer {
    /// Starts with the header of an object of this type and size.
    pub(crate) fn new(kind: ObjectType, size: u64) -> Self {
        let mut sha = Sha1::new();
        sha.update(format!("{} {size}\0", kind.name()));
        Self(sha)
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> ObjectId {
        ObjectId::from_bytes(self.0.finalize().into())
    }
}

/// The id of an object with this content.
pub(crate) fn name(kind: ObjectType, content: &[u8]) -> ObjectId {
    let mut namer = Namer::new(kind, content.len() as u64);
    namer.update(content);
    namer.finish()
}

/// The id of a file's content. A file that changes its size while it is read fails with the kind `Interrupted`.
pub(crate) fn name_of_reader(reader: &mut dyn Read, size: u64) -> io::Result<ObjectId> {
    let mut namer = Namer::new(ObjectType::Blob, size);
    each_chunk(reader, size, |chunk| {
        namer.update(chunk);
        Ok(())
    })?;
    Ok(namer.finish())
}

/// Passes the content of a reader to a function in chunks. Fails if it is not exactly `size` bytes.
pub(crate) fn each_chunk(
    reader: &mut dyn Read,
    size: u64,
    mut each: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut left = size;
    loop {
        let read = reader.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        left = left.checked_sub(read as u64).ok_or_else(changed)?;
        each(&buffer[..read])?;
    }
    if left == 0 { Ok(()) } else { Err(changed()) }
}

/// The error for a file that changed while it was read.
pub(crate) fn changed() -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, "it changed while it was read")
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct TreeEntry<'a> {
    /// Without slashes.
    pub(crate) name: &'a [u8],
    /// The mode as a number; 40000 for a directory.
    pub(crate) bits: u32,
    pub(crate) oid: ObjectId,
}

/// The mode of a directory in a tree.
pub(crate) const DIRECTORY_BITS: u32 = 0o040_000;

/// The content of a tree object. Sorts `entries` into git's order, in which a directory's name ends in a slash.
pub(crate) fn encode_tree(entries: &mut [TreeEntry<'_>]) -> Vec<u8> {
    let is_directory = |entry: &TreeEntry<'_>| entry.bits == DIRECTORY_BITS;
    entries.sort_unstable_by(|a, b| tree_order((a.name, is_directory(a)), (b.name, is_directory(b))));
    let mut out = Vec::with_capacity(entries.iter().map(|entry| entry.name.len() + 28).sum());
    for entry in entries {
        match entry.bits {
            DIRECTORY_BITS => out.extend_from_slice(b"40000 "),
            0o100_644 => out.extend_from_slice(b"100644 "),
            bits => out.extend_from_slice(format!("{bits:o} ").as_bytes()),
        }
        out.extend_from_slice(entry.name);
        out.push(0);
        out.extend_from_slice(entry.oid.as_bytes());
    }
    out
}

/// Git's order of the entries of a tree, each with whether it is a directory: as if the names of directories ended in a
/// slash.
pub(crate) fn tree_order(
    (a, a_is_directory): (&[u8], bool),
    (b, b_is_directory): (&[u8], bool),
) -> std::cmp::Ordering {
    let common = a.len().min(b.len());
    let next =
        |name: &[u8], is_directory: bool| name.get(common).copied().or_else(|| is_directory.then_some(b'/'));
    let same = a[..common].cmp(&b[..common]);
    same.then_with(|| next(a, a_is_directory).cmp(&next(b, b_is_directory)))
}

/// The content of a commit by Posse.
pub(crate) fn encode_commit(tree: &ObjectId, parents: &[ObjectId], seconds: u64, message: &str) -> Vec<u8> {
    let mut out = format!("tree {tree}\n");
    for parent in parents {
        let _ = writeln!(out, "parent {parent}");
    }
    // The message contains text from agents, and git prints it unescaped.
    let message = posse_domain::printable::clean(message);
    let _ = write!(out, "author {AUTHOR} {seconds} +0000\ncommitter {AUTHOR} {seconds} +0000\n\n{message}\n");
    out.into_bytes()
}

/// Whether `content` is what [`encode_commit`] makes, at any time.
pub(crate) fn is_commit_of(content: &[u8], tree: &ObjectId, parents: &[ObjectId], message: &str) -> bool {
    let seconds = content.split(|byte| *byte == b'\n').find_map(|line| {
        let after = line.strip_prefix(b"author ")?.strip_prefix(AUTHOR.as_bytes())?;
        std::str::from_utf8(after).ok()?.trim().split(' ').next()?.parse().ok()
    });
    seconds.is_some_and(|seconds| content == encode_commit(tree, parents, seconds, message))
}

/// The tree that a commit names in its first line.
pub(crate) fn tree_of_commit(content: &[u8]) -> Option<ObjectId> {
    let line = content.split(|byte| *byte == b'\n').next()?;
    std::str::from_utf8(line.strip_prefix(b"tree ")?).ok()?.parse().ok()
}

/// Parses `<kind> <size>\0<content>`.
pub(crate) fn parts(bytes: &[u8]) -> Option<(ObjectType, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    let (kind, size) = std::str::from_utf8(&bytes[..end]).ok()?.split_once(' ')?;
    let kind = [ObjectType::Blob, ObjectType::Tree, ObjectType::Commit]
        .into_iter()
        .find(|known| known.name() == kind)?;
    let content = &bytes[end + 1..];
    (size.parse() == Ok(content.len())).then_some((kind, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_as_git_names_them() {
        assert_eq!(name(ObjectType::Blob, b"").to_string(), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(
            name(ObjectType::Blob, b"hello\n").to_string(),
            "ce013625030ba8dba906f756967f9e9ca394464a"
        );
        assert_eq!(name(ObjectType::Tree, b"").to_string(), "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
        let read = name_of_reader(&mut &b"hello\n"[..], 6).expect("read");
        assert_eq!(read, name(ObjectType::Blob, b"hello\n"));
    }

    #[test]
    fn objects_are_read_as_git_writes_them() {
        assert_eq!(parts(b"blob 3\0abc"), Some((ObjectType::Blob, &b"abc"[..])));
        assert_eq!(parts(b"tree 0\0"), Some((ObjectType::Tree, &b""[..])));
        for bad in [&b"blob 4\0abc"[..], b"blob abc", b"blob\0abc", b"tag 3\0abc", b""] {
            assert_eq!(parts(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn content_of_another_length_has_no_name() {
        assert!(name_of_reader(&mut &b"hello\n"[..], 5).is_err());
        assert!(name_of_reader(&mut &b"hello\n"[..], 7).is_err());
    }

    #[test]
    fn a_directory_sorts_as_if_it_ended_in_a_slash() {
        let oid = ObjectId::ZERO;
        let mut entries = [
            TreeEntry { name: b"a", bits: DIRECTORY_BITS, oid },
            TreeEntry { name: b"a.b", bits: 0o100_644, oid },
            TreeEntry { name: b"a0", bits: 0o100_644, oid },
        ];
        encode_tree(&mut entries);
        let names: Vec<_> = entries.iter().map(|entry| entry.name).collect();
        assert_eq!(names, [&b"a.b"[..], b"a", b"a0"]);
    }

    #[test]
    fn the_tree_of_a_commit_is_read_back() {
        let tree = name(ObjectType::Tree, b"");
        let commit = encode_commit(&tree, &[ObjectId::ZERO], 1, "posse: snapshot");
        assert_eq!(tree_of_commit(&commit), Some(tree));
        assert!(is_commit_of(&commit, &tree, &[ObjectId::ZERO], "posse: snapshot"));
        assert!(!is_commit_of(&commit, &tree, &[], "posse: snapshot"));
        assert!(!is_commit_of(&commit, &tree, &[ObjectId::ZERO], "posse: work"));
        assert!(!is_commit_of(b"author nobody", &tree, &[], ""));
    }
}
