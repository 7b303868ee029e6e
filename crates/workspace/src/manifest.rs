//! Stores the result of a scan, so that the next scan need not read unchanged files again.
//!
//! It is a cache: it records the content of a file with exactly these times, this size and this inode. Any other file
//! is read.

use std::path::Path;
use std::time::{Duration, SystemTime};

use super::object::Mode;
use super::{ObjectId, RepositoryError, disk};

const MAGIC: &[u8; 8] = b"POSSEmf1";
const SUM_BYTES: usize = 32;
/// Resolution of file times: a file that changes within this time of its scan can look unchanged.
const CLOCK_STEP: Duration = Duration::from_millis(20);
/// The same where times are whole seconds.
const COARSE_CLOCK_STEP: Duration = Duration::from_secs(2);

/// The stat of a file. If all fields are unchanged, so is the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Stat {
    pub(crate) size: u64,
    pub(crate) ino: u64,
    pub(crate) mtime_ns: i128,
    pub(crate) ctime_ns: i128,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) dev: u64,
}

const NS_PER_S: i128 = 1_000_000_000;

impl Stat {
    pub(crate) fn of(stat: &rustix::fs::Stat) -> Self {
        let ns = |seconds: i64, ns| i128::from(seconds) * NS_PER_S + i128::from(ns);
        Self {
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            ino: stat.st_ino,
            mtime_ns: ns(stat.st_mtime, stat.st_mtime_nsec),
            ctime_ns: ns(stat.st_ctime, stat.st_ctime_nsec),
            mode: stat.st_mode,
            uid: stat.st_uid,
            gid: stat.st_gid,
            dev: stat.st_dev,
        }
    }

    /// Whether the times would show any change after `looked_ns`.
    pub(crate) fn unchanged_since(&self, looked_ns: i128) -> bool {
        let whole = self.mtime_ns % NS_PER_S == 0 && self.ctime_ns % NS_PER_S == 0;
        let step = if whole { COARSE_CLOCK_STEP } else { CLOCK_STEP };
        let step = i128::try_from(step.as_nanos()).unwrap_or(i128::MAX);
        self.mtime_ns.max(self.ctime_ns) < looked_ns - step
    }
}

/// The current time on the clock of file times.
pub(crate) fn now_ns() -> i128 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i128::try_from(since.as_nanos()).unwrap_or_default()
}

/// A file, symlink or submodule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Relative to the top. Bytes, because file names need not be UTF-8.
    pub(crate) path: Vec<u8>,
    pub(crate) mode: Mode,
    pub(crate) oid: ObjectId,
    /// `None` if there is no file to compare with: submodules, files outside a sparse checkout.
    pub(crate) stat: Option<Stat>,
    /// Whether the bytes on disk are those of the object. `false` where git converts line endings or runs filters.
    pub(crate) raw: bool,
}

/// A folder's files at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Sorted by path.
    pub(crate) entries: Vec<Entry>,
    /// When the scan began.
    pub(crate) looked_ns: i128,
    /// The commit of this state of the folder.
    pub(crate) commit: ObjectId,
    pub(crate) tree: ObjectId,
}

impl Manifest {
    /// Loads the manifest at `path`; `None` if it does not exist or is damaged.
    pub(crate) fn load(path: &Path) -> Option<Self> {
        let bytes = std::fs::read(path).ok()?;
        let mut input = Input::checked(&bytes, MAGIC)?;
        let looked_ns = i128::from_le_bytes(input.array()?);
        let commit = ObjectId::from_bytes(input.array()?);
        let tree = ObjectId::from_bytes(input.array()?);
        let count = u32::from_le_bytes(input.array()?);
        let entries: Option<Vec<Entry>> = (0..count).map(|_| input.entry()).collect();
        Some(Self { entries: entries?, looked_ns, commit, tree })
    }

    pub(crate) fn save(&self, path: &Path) -> Result<(), RepositoryError> {
        disk::write_cache(path, &self.encode())
    }

    /// The same without a new file, which takes most of the time that a small one needs. A process that reads it
    /// meanwhile, or after a crash, finds a wrong checksum: the file counts as absent.
    pub(crate) fn save_in_place(&self, path: &Path) -> Result<(), RepositoryError> {
        disk::overwrite_cache(path, &self.encode())
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.reserve(self.entries.len() * 160);
        out.extend_from_slice(&self.looked_ns.to_le_bytes());
        out.extend_from_slice(self.commit.as_bytes());
        out.extend_from_slice(self.tree.as_bytes());
        out.extend_from_slice(&u32::try_from(self.entries.len()).unwrap_or_default().to_le_bytes());
        self.entries.iter().for_each(|entry| put(&mut out, entry));
        with_checksum(out)
    }

    pub(crate) fn get(&self, path: &[u8]) -> Option<&Entry> {
        let at = self.entries.binary_search_by(|entry| entry.path.as_slice().cmp(path)).ok()?;
        self.entries.get(at)
    }
}

/// Ends a file that [`Input::checked`] reads.
fn with_checksum(mut out: Vec<u8>) -> Vec<u8> {
    let sum = blake3::hash(&out);
    out.extend_from_slice(sum.as_bytes());
    out
}

fn put(out: &mut Vec<u8>, entry: &Entry) {
    put_path(out, &entry.path);
    out.extend_from_slice(&entry.mode.bits().to_le_bytes());
    out.extend_from_slice(entry.oid.as_bytes());
    out.push(u8::from(entry.stat.is_some()) | u8::from(entry.raw) << 1);
    put_stat(out, &entry.stat.unwrap_or_default());
}

fn put_path(out: &mut Vec<u8>, path: &[u8]) {
    out.extend_from_slice(&u32::try_from(path.len()).unwrap_or_default().to_le_bytes());
    out.extend_from_slice(path);
}

fn put_stat(out: &mut Vec<u8>, stat: &Stat) {
    for number in [stat.size, stat.ino, stat.dev] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    for time in [stat.mtime_ns, stat.ctime_ns] {
        out.extend_from_slice(&time.to_le_bytes());
    }
    for number in [stat.mode, stat.uid, stat.gid] {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// The content of a file after its first bytes; `None` if it is damaged.
    fn checked(bytes: &'a [u8], magic: &[u8]) -> Option<Self> {
        let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(SUM_BYTES)?)?;
        let is_whole = blake3::hash(body).as_bytes() == sum;
        is_whole.then(|| body.strip_prefix(magic)).flatten().map(Self)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn path(&mut self) -> Option<Vec<u8>> {
        let length = usize::try_from(u32::from_le_bytes(self.array()?)).ok()?;
        let (path, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(path.to_vec())
    }

    fn stat(&mut self) -> Option<Stat> {
        Some(Stat {
            size: u64::from_le_bytes(self.array()?),
            ino: u64::from_le_bytes(self.array()?),
            dev: u64::from_le_bytes(self.array()?),
            mtime_ns: i128::from_le_bytes(self.array()?),
            ctime_ns: i128::from_le_bytes(self.array()?),
            mode: u32::from_le_bytes(self.array()?),
            uid: u32::from_le_bytes(self.array()?),
            gid: u32::from_le_bytes(self.array()?),
        })
    }

    fn entry(&mut self) -> Option<Entry> {
        let path = self.path()?;
        let mode = Mode::from_bits(u32::from_le_bytes(self.array()?))?;
        let oid = ObjectId::from_bytes(self.array()?);
        let [flags] = self.array()?;
        let stat = self.stat()?;
        Some(Entry { path, mode, oid, stat: (flags & 1 != 0).then_some(stat), raw: flags & 2 != 0 })
    }
}

/// The stats of paths, in the order in which they were found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PathStats(pub(crate) Vec<(Vec<u8>, Stat)>);

impl PathStats {
    const MAGIC: &[u8; 8] = b"POSSEps1";

    /// Loads the list at `path`; `None` if it does not exist or is damaged.
    pub(crate) fn load(path: &Path) -> Option<Self> {
        let bytes = std::fs::read(path).ok()?;
        let mut input = Input::checked(&bytes, Self::MAGIC)?;
        let mut stats = Vec::new();
        while !input.0.is_empty() {
            stats.push((input.path()?, input.stat()?));
        }
        Some(Self(stats))
    }

    pub(crate) fn save(&self, path: &Path) -> Result<(), RepositoryError> {
        let mut out = Self::MAGIC.to_vec();
        for (path, stat) in &self.0 {
            put_path(&mut out, path);
            put_stat(&mut out, stat);
        }
        disk::write_cache(path, &with_checksum(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Manifest {
        let stat = Stat { size: 3, ino: 9, mtime_ns: -5, ctime_ns: 7, mode: 0o100_644, ..Stat::default() };
        let entry = |path: &[u8], mode, stat| Entry {
            path: path.to_vec(),
            mode,
            oid: ObjectId::ZERO,
            stat,
            raw: true,
        };
        let entries = vec![entry(b"a\n\xff", Mode::File, Some(stat)), entry(b"b", Mode::Gitlink, None)];
        Manifest {
            entries,
            looked_ns: 12,
            commit: ObjectId::from_bytes([1; 20]),
            tree: ObjectId::from_bytes([2; 20]),
        }
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("manifest");
        sample().save(&path).expect("saved");
        assert_eq!(Manifest::load(&path), Some(sample()));
    }

    #[test]
    fn a_damaged_manifest_is_none() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("manifest");
        sample().save(&path).expect("saved");
        let mut bytes = std::fs::read(&path).expect("read");
        bytes[30] ^= 1;
        std::fs::write(&path, &bytes).expect("written");
        assert_eq!(Manifest::load(&path), None);
        std::fs::write(&path, &bytes[..20]).expect("written");
        assert_eq!(Manifest::load(&path), None);
    }

    #[test]
    fn what_changed_just_now_is_not_settled() {
        let stat = Stat { mtime_ns: 1, ctime_ns: NS_PER_S + 1, ..Stat::default() };
        assert!(!stat.unchanged_since(NS_PER_S + 5));
        assert!(stat.unchanged_since(NS_PER_S * 2));
        let whole = Stat { mtime_ns: 0, ctime_ns: NS_PER_S, ..Stat::default() };
        assert!(!whole.unchanged_since(NS_PER_S * 2));
        assert!(whole.unchanged_since(NS_PER_S * 4));
    }
}
