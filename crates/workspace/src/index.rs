//! Reads git's index (the tracked files with their stats) for scans, and writes one for new workspaces.
//!
//! The user's index is only read. Rare formats (split, sparse) are read by git itself. That loses the files' times, so
//! each file is read once. A workspace gets its own index, so that git in it need not read files that were just
//! written.

use std::path::Path;

use sha1::{Digest, Sha1};

use super::git_dir::{GitDir, INDEX_MAX_BYTES};
use super::manifest::{Entry, Stat};
use super::object::Mode;
use super::project::Project;
use super::shadow::Shadow;
use super::{Git, ObjectId, RepositoryError};

/// The file's name below `.git`, and the prefix of its shared parts.
pub(super) const NAME: &str = "index";
const SHARED: &str = "sharedindex.";
/// Limit of shared parts that are read. Git keeps one or two.
const MAX_SHARED: usize = 8;

const SIGNATURE: &[u8; 4] = b"DIRC";
const SUM_BYTES: usize = 20;
const EXTENDED: u16 = 0x4000;
const STAGE: u16 = 0x3000;
const NAME_LENGTH: u16 = 0x0fff;
const SKIP_WORKTREE: u16 = 0x4000;
const INTENT_TO_ADD: u16 = 0x2000;
/// The signature, the version, and the number of entries.
const HEADER_BYTES: usize = 12;
/// The version of an index without and with entries that are outside of the checkout.
const PLAIN: u32 = 2;
const WITH_SKIPPED: u32 = 3;
/// Where an entry has its flags: after ten numbers and an object id.
const FLAGS_AT: usize = 60;
const NS_PER_S: i128 = 1_000_000_000;

/// The ten stat fields that an index keeps, each cut to 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShortStat([u32; 10]);

impl ShortStat {
    /// The fields that an index would keep of `stat`.
    pub(crate) fn of(stat: &Stat) -> Self {
        let low = |number: u64| u32::try_from(number & u64::from(u32::MAX)).unwrap_or_default();
        let part = |ns: i128| u32::try_from(ns & i128::from(u32::MAX)).unwrap_or_default();
        let time = |ns: i128| (part(ns.div_euclid(NS_PER_S)), part(ns.rem_euclid(NS_PER_S)));
        let ((cs, cn), (ms, mn)) = (time(stat.ctime_ns), time(stat.mtime_ns));
        Self([cs, cn, ms, mn, low(stat.dev), low(stat.ino), stat.mode, stat.uid, stat.gid, low(stat.size)])
    }

    /// Whether a file with `stat` is the indexed one. As in git, the device is ignored (it changes when a disk is
    /// mounted again), and only the part of the mode that git stores counts.
    pub(crate) fn matches(&self, stat: &Stat) -> bool {
        let now = Self::of(stat).0;
        let same = |range: std::ops::Range<usize>| self.0[range.clone()] == now[range];
        same(0..4) && same(5..6) && same(7..10)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrackedFile {
    pub(crate) path: Vec<u8>,
    pub(crate) mode: Mode,
    pub(crate) oid: ObjectId,
    /// Outside a sparse checkout: not on disk, and not deleted.
    pub(crate) skipped: bool,
    /// Whether `oid` is the content. `false` during a merge and for an intent to add.
    pub(crate) settled: bool,
    pub(crate) stat: Option<ShortStat>,
}

/// The index of a user's repository.
pub(crate) enum Index {
    /// The tracked files, sorted by path, each once.
    Read(Vec<TrackedFile>),
    /// The bytes of a format that only git reads.
    Odd(Vec<u8>),
}

/// Reads the index below a user's `.git`.
pub(super) fn read(dir: &GitDir) -> Result<Index, RepositoryError> {
    let Some(bytes) = dir.read(NAME, INDEX_MAX_BYTES)? else { return Ok(Index::Read(Vec::new())) };
    Ok(match parse(&bytes) {
        Some(tracked) => Index::Read(sorted(tracked)),
        None => Index::Odd(bytes),
    })
}

/// Lets git read a copy of the index, with the objects of the project's repository.
pub(super) fn read_odd(
    dir: &GitDir,
    bytes: &[u8],
    project: &Project,
    program: &Path,
    folder: &Path,
) -> Result<Vec<TrackedFile>, RepositoryError> {
    let shadow = Shadow::new(program, project.dir(), &project.repository().join("objects"), "")?;
    shadow.put(NAME, bytes)?;
    // A split index has its larger part in another file.
    let shared = dir.entries()?.into_iter().filter_map(|(name, _)| name.into_string().ok());
    for name in shared.filter(|name| name.starts_with(SHARED)).take(MAX_SHARED) {
        let content = dir.read(&name, INDEX_MAX_BYTES)?.unwrap_or_default();
        shadow.put(&name, &content)?;
    }
    ask_git(shadow.git(), folder).map(sorted)
}

fn sorted(mut tracked: Vec<TrackedFile>) -> Vec<TrackedFile> {
    tracked.sort_by(|a, b| a.path.cmp(&b.path));
    tracked.dedup_by(|later, earlier| later.path == earlier.path);
    tracked
}

/// `None` for an unknown format.
fn parse(bytes: &[u8]) -> Option<Vec<TrackedFile>> {
    let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(SUM_BYTES)?)?;
    let real: [u8; SUM_BYTES] = Sha1::digest(body).into();
    // A checksum of zeros means that git skipped it (`index.skipHash`).
    if sum != real && sum != [0; SUM_BYTES] {
        return None;
    }
    let mut input = Input { rest: body.strip_prefix(SIGNATURE)?, previous: Vec::new(), version: 0 };
    input.version = input.number()?;
    if !(2..=4).contains(&input.version) {
        return None;
    }
    let count = input.number()?;
    let tracked: Option<Vec<TrackedFile>> = (0..count).map(|_| input.entry()).collect();
    while !input.rest.is_empty() {
        let name = input.take(4)?;
        // Lower case marks a required extension.
        if !name.first()?.is_ascii_uppercase() {
            return None;
        }
        let length = usize::try_from(input.number()?).ok()?;
        input.take(length)?;
    }
    tracked
}

struct Input<'a> {
    rest: &'a [u8],
    previous: Vec<u8>,
    version: u32,
}

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(head)
    }

    fn number(&mut self) -> Option<u32> {
        self.take(4)?.try_into().map(u32::from_be_bytes).ok()
    }

    fn short(&mut self) -> Option<u16> {
        self.take(2)?.try_into().map(u16::from_be_bytes).ok()
    }

    fn entry(&mut self) -> Option<TrackedFile> {
        let before = self.rest.len();
        let mut stat = [0; 10];
        for number in &mut stat {
            *number = self.number()?;
        }
        let oid = ObjectId::from_bytes(self.take(20)?.try_into().ok()?);
        let flags = self.short()?;
        let more = if self.version >= 3 && flags & EXTENDED != 0 { self.short()? } else { 0 };
        if self.version == 4 {
            let keep = self.previous.len().checked_sub(self.offset()?)?;
            self.previous.truncate(keep);
        } else {
            self.previous.clear();
        }
        let end = self.rest.iter().position(|byte| *byte == 0)?;
        let name = self.take(end)?;
        self.previous.extend_from_slice(name);
        if self.version == 4 {
            self.take(1)?;
        } else {
            // One to eight zeros pad the entry to a multiple of eight.
            let length = before - self.rest.len();
            self.take(8 - length % 8)?;
        }
        Some(TrackedFile {
            path: self.previous.clone(),
            mode: Mode::from_bits(stat[6])?,
            oid,
            skipped: more & SKIP_WORKTREE != 0,
            settled: flags & STAGE == 0 && more & INTENT_TO_ADD == 0,
            stat: Some(ShortStat(stat)),
        })
    }

    /// A number in the encoding of pack offsets.
    fn offset(&mut self) -> Option<usize> {
        let mut byte = *self.take(1)?.first()?;
        let mut value = usize::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = *self.take(1)?.first()?;
            value = value.checked_add(1)?.checked_mul(0x80)? | usize::from(byte & 0x7f);
        }
        Some(value)
    }
}

/// Lists an index with git: `<tag> <mode> <oid> <stage>\t<path>`.
fn ask_git(git: &Git, folder: &Path) -> Result<Vec<TrackedFile>, RepositoryError> {
    let broken = |why: &str| {
        let folder = folder.display();
        RepositoryError::Unsupported(format!(
            "the git index of {folder} cannot be read ({why}); `git -C {folder} reset` creates it again and leaves \
             your files as they are, `git -C {folder} fsck` looks for more damage"
        ))
    };
    let answer = git.ask(&["ls-files", "--stage", "-t", "-z"], &[])?;
    if answer.code != Some(0) {
        return Err(broken(&answer.stderr));
    }
    let records = answer.stdout.split(|byte| *byte == 0).filter(|record| !record.is_empty());
    let tracked: Option<Vec<TrackedFile>> = records.map(answered).collect();
    tracked.ok_or_else(|| broken("git printed output that Posse cannot read"))
}

fn answered(record: &[u8]) -> Option<TrackedFile> {
    let tab = record.iter().position(|byte| *byte == b'\t')?;
    let mut words = std::str::from_utf8(&record[..tab]).ok()?.split(' ');
    let tag = words.next()?;
    let mode = Mode::from_bits(u32::from_str_radix(words.next()?, 8).ok()?)?;
    let oid = words.next()?.parse().ok()?;
    let settled = words.next()? == "0";
    let path = record[tab + 1..].to_vec();
    // An intent to add has the id of the empty file. Its size does not match, so the file is read.
    Some(TrackedFile { path, mode, oid, skipped: tag == "S", settled, stat: None })
}

/// An index for a workspace with these files, sorted by path. A file without a stat is outside its checkout.
pub(crate) fn encode(entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(entries.len() * 96 + 64);
    out.extend_from_slice(&[0; HEADER_BYTES]);
    for entry in entries {
        put(&mut out, entry);
    }
    let version = if entries.iter().any(is_skipped) { WITH_SKIPPED } else { PLAIN };
    sealed(out, version, entries.len())
}

/// The index after changes of some paths, which are sorted: each gets another entry, or none. What did not change is
/// copied, and not read. `None` for an index that [`encode`] has not written.
///
/// A *split* index would not repeat what did not change. But many programs do not use git itself to read an index, and
/// most of their libraries (libgit2, `JGit`) refuse a split one.
pub(crate) fn changed(index: &[u8], changes: &[(&[u8], Option<&Entry>)]) -> Option<Vec<u8>> {
    let (body, _) = index.split_at_checked(index.len().checked_sub(SUM_BYTES)?)?;
    let number = |at: usize| body.get(at..at + 4)?.try_into().map(u32::from_be_bytes).ok();
    let (mut version, count) = (number(4)?, usize::try_from(number(8)?).ok()?);
    if !body.starts_with(SIGNATURE) || !(PLAIN..=WITH_SKIPPED).contains(&version) {
        return None;
    }
    let mut out = Vec::with_capacity(index.len() + changes.len() * 128);
    out.extend_from_slice(&[0; HEADER_BYTES]);
    let (mut at, mut copied, mut total) = (HEADER_BYTES, HEADER_BYTES, count);
    let mut changes = changes.iter().peekable();
    let mut add = |out: &mut Vec<u8>, entry: Option<&Entry>| {
        if let Some(entry) = entry {
            put(out, entry);
            version = if is_skipped(entry) { WITH_SKIPPED } else { version };
        }
        usize::from(entry.is_some())
    };
    for _ in 0..count {
        let (name, end) = entry_at(body, at)?;
        while let Some((path, entry)) = changes.next_if(|(path, _)| *path <= name) {
            out.extend_from_slice(&body[copied..at]);
            total += add(&mut out, *entry);
            let is_replaced = *path == name;
            copied = if is_replaced { end } else { at };
            total -= usize::from(is_replaced);
        }
        at = end;
    }
    if at != body.len() {
        return None;
    }
    out.extend_from_slice(&body[copied..]);
    for (_, entry) in changes {
        total += add(&mut out, *entry);
    }
    Some(sealed(out, version, total))
}

/// The name of the entry at an offset, and the offset after it.
fn entry_at(body: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let flags_at = at + FLAGS_AT;
    let flags = u16::from_be_bytes(body.get(flags_at..flags_at + 2)?.try_into().ok()?);
    let name_at = flags_at + if flags & EXTENDED == 0 { 2 } else { 4 };
    let length = match flags & NAME_LENGTH {
        NAME_LENGTH => body.get(name_at..)?.iter().position(|byte| *byte == 0)?,
        length => usize::from(length),
    };
    let name = body.get(name_at..name_at + length)?;
    // One to eight zeros pad the entry to a multiple of eight.
    let end = at + (name_at + length - at) / 8 * 8 + 8;
    (end <= body.len()).then_some((name, end))
}

fn is_skipped(entry: &Entry) -> bool {
    entry.stat.is_none() && entry.mode != Mode::Gitlink
}

fn put(out: &mut Vec<u8>, entry: &Entry) {
    let before = out.len();
    let mut stat = entry.stat.map_or([0; 10], |stat| ShortStat::of(&stat).0);
    stat[6] = entry.mode.bits();
    for number in stat {
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.extend_from_slice(entry.oid.as_bytes());
    let length = u16::try_from(entry.path.len()).map_or(NAME_LENGTH, |length| length.min(NAME_LENGTH));
    if is_skipped(entry) {
        out.extend_from_slice(&(length | EXTENDED).to_be_bytes());
        out.extend_from_slice(&SKIP_WORKTREE.to_be_bytes());
    } else {
        out.extend_from_slice(&length.to_be_bytes());
    }
    out.extend_from_slice(&entry.path);
    let padding = 8 - (out.len() - before) % 8;
    out.extend_from_slice(&[0; 8][..padding]);
}

/// Completes an index: its header, which has room at the beginning, and its checksum.
fn sealed(mut out: Vec<u8>, version: u32, count: usize) -> Vec<u8> {
    let count = u32::try_from(count).unwrap_or_default();
    out[..4].copy_from_slice(SIGNATURE);
    out[4..8].copy_from_slice(&version.to_be_bytes());
    out[8..HEADER_BYTES].copy_from_slice(&count.to_be_bytes());
    let sum: [u8; SUM_BYTES] = Sha1::digest(&out).into();
    out.extend_from_slice(&sum);
    out
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    fn entry(path: &[u8], stat: Option<Stat>) -> Entry {
        Entry { path: path.to_vec(), mode: Mode::File, oid: ObjectId::from_bytes([7; 20]), stat, raw: true }
    }

    #[test]
    fn an_index_is_read_as_it_was_written() {
        let stat = Stat { size: 5, ino: 1 << 40, mtime_ns: 3_000_000_007, ctime_ns: 9, ..Stat::default() };
        let long = vec![b'x'; 5000];
        let entries: Vec<Entry> =
            [&b"a"[..], b"bb\n", &long].iter().map(|path| entry(path, Some(stat))).collect();
        let read = parse(&encode(&entries)).expect("an index");
        assert_eq!(read.len(), 3);
        for (read, written) in read.iter().zip(&entries) {
            assert_eq!((&read.path, read.oid, read.skipped), (&written.path, written.oid, false));
            assert!(read.stat.is_some_and(|short| short.matches(&stat)));
            assert!(!read.stat.is_some_and(|short| short.matches(&Stat { size: 6, ..stat })));
        }
    }

    proptest! {
        #[test]
        fn a_changed_index_is_that_of_the_changed_files(
            before in prop::collection::btree_map("[ab/]{1,9}", any::<bool>(), 0..20),
            after in prop::collection::btree_map("[ab/]{1,9}", any::<bool>(), 0..20),
            long in 0_usize..6000,
        ) {
            let stat = |size: bool| Some(Stat { size: u64::from(size) + 5, ..Stat::default() });
            let listed = |files: &BTreeMap<String, bool>| -> Vec<Entry> {
                let mut all: Vec<Entry> =
                    files.iter().map(|(path, size)| entry(path.as_bytes(), stat(*size).filter(|_| *size))).collect();
                all.push(entry(&vec![b'x'; long + 1], stat(false)));
                all
            };
            let (old, new) = (listed(&before), listed(&after));
            let paths: BTreeSet<&[u8]> = old.iter().chain(&new).map(|entry| entry.path.as_slice()).collect();
            let of = |all: &[Entry], path: &[u8]| all.iter().find(|entry| entry.path == path).cloned();
            let sides: Vec<(&[u8], Option<Entry>, Option<Entry>)> =
                paths.into_iter().map(|path| (path, of(&old, path), of(&new, path))).collect();
            let changes: Vec<(&[u8], Option<&Entry>)> = sides
                .iter()
                .filter(|(_, old, new)| old != new)
                .map(|(path, _, new)| (*path, new.as_ref()))
                .collect();
            let spliced = changed(&encode(&old), &changes).expect("an index");
            prop_assert_eq!(parse(&spliced), parse(&encode(&new)));
        }
    }

    #[test]
    fn a_cut_or_foreign_index_is_not_changed() {
        let good = encode(&[entry(b"a", None), entry(b"b", None)]);
        for length in 0..good.len() {
            assert_eq!(changed(&good[..length], &[]), None, "cut to {length}");
        }
        let mut extended = good[..good.len() - SUM_BYTES].to_vec();
        extended.extend_from_slice(b"TREE\0\0\0\0");
        extended.extend_from_slice(&[0; SUM_BYTES]);
        assert_eq!(changed(&extended, &[]), None, "an extension would be out of date");
    }

    #[test]
    fn a_file_outside_the_checkout_stays_outside() {
        let read = parse(&encode(&[entry(b"a", None)])).expect("an index");
        assert!(read[0].skipped);
    }

    #[test]
    fn damage_is_noticed() {
        let good = encode(&[entry(b"a", None)]);
        for at in [0, 5, 20, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(parse(&bad), None, "byte {at}");
        }
        for length in 0..good.len() {
            assert_eq!(parse(&good[..length]), None, "cut to {length}");
        }
    }
}
