//! Reads and writes bundles: a run in one file, to be replayed elsewhere.
//!
//! A bundle is gzip over lines of JSON: a manifest, then every event, every blob and every file of the base, and a last
//! line with the hash of all before it. `zcat` and any JSON tool can read it. The version in the manifest applies to
//! the whole file.
//!
//! Why it is like this: `docs/decisions/replay-bundle-format.md`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Take, Write};
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::read::GzDecoder;
use posse_domain::event::{Event, StoredEvent};
use posse_domain::hash::Hash;
use posse_domain::id::{AgentId, RunId};
use posse_domain::text::BlobRef;
use posse_engine::ports::FileKind;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The version of bundles that are written.
pub(crate) const BUNDLE_VERSION: u32 = 1;
/// The file extension of bundles.
pub const BUNDLE_EXTENSION: &str = "posse";
/// Largest entry that is read.
const ENTRY_MAX_BYTES: u64 = 512 * 1024 * 1024;
/// Largest manifest that is read: room for the names of tens of thousands of files. Its lists take up to eight times
/// that in memory.
const MANIFEST_MAX_BYTES: u64 = 4 * 1024 * 1024;
/// Limit of unpacked bytes that are read from a bundle.
const UNPACKED_MAX_BYTES: u64 = 8 * 1024 * 1024 * 1024;
/// Limit of unpacked bytes for each byte of the file. Journals compress to a tenth; gzip can reach a thousandth.
const UNPACKED_MAX_RATIO: u64 = 64;
/// The minimum of the unpacked limit, for small files.
const UNPACKED_FLOOR_BYTES: u64 = 64 * 1024 * 1024;
/// Limit of JSON values in the events for each byte of the file. A value of two bytes takes 32 in memory.
const VALUES_MAX_RATIO: u64 = 2;
/// The minimum of the limit of values, for small files.
const VALUES_FLOOR: u64 = 2_000_000;
/// Limit of entries of one kind.
const ENTRIES_MAX: u64 = 10_000_000;
/// Longest path of a file.
const PATH_MAX_BYTES: usize = 4_096;

/// Why a bundle cannot be used. Every text names the position.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BundleError {
    /// The file cannot be opened or read.
    #[error("{path}: {problem}", path = .path.display())]
    Unreadable {
        /// The path of the bundle.
        path: PathBuf,
        /// The reason.
        problem: String,
    },
    /// A newer Posse wrote the bundle.
    #[error(
        "{path} was written by a newer Posse (bundle version {found}, this one knows {BUNDLE_VERSION})",
        path = .path.display()
    )]
    Newer {
        /// The path of the bundle.
        path: PathBuf,
        /// The version of the bundle.
        found: u32,
    },
    /// An entry is invalid.
    #[error("{path} is damaged at {entry}: {problem}", path = .path.display())]
    Damaged {
        /// The path of the bundle.
        path: PathBuf,
        /// The position of the entry.
        entry: String,
        /// The reason.
        problem: String,
    },
}

/// The first line of a bundle, which describes its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    pub(crate) posse_bundle: u32,
    pub(crate) posse: String,
    pub(crate) run: RunId,
    pub(crate) tenant: String,
    pub(crate) head_seq: u64,
    pub(crate) head_hash: Hash,
    pub(crate) events: u64,
    pub(crate) blobs: u64,
    pub(crate) files: u64,
    /// The tree of the base, if the run began with one; of the files before secrets were replaced.
    pub(crate) base_tree: Option<String>,
    /// Events in which marks replace secrets: their hashes, and those of all later events, do not match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) changed_events: Vec<u64>,
    /// Blobs in which marks replace secrets: they keep the hash of the original.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) changed_blobs: Vec<Hash>,
    /// Files of the base in which marks replace secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) changed_files: Vec<String>,
    /// Files of the base that the bundle omits, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) left_out: Vec<String>,
    /// The catalogue of discovered definitions without the texts that the run did not use. It keeps the original's
    /// hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shortened_blob: Option<Hash>,
}

impl Manifest {
    pub(crate) fn is_changed(&self) -> bool {
        !(self.changed_events.is_empty() && self.changed_blobs.is_empty() && self.changed_files.is_empty())
    }
}

/// Content, as text if it is valid UTF-8, so that users can read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Content {
    Text(String),
    Base64(String),
}

impl Content {
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes)
            .map_or_else(|error| Self::Base64(BASE64.encode(error.as_bytes())), Self::Text)
    }

    pub(crate) fn into_bytes(self) -> Result<Vec<u8>, String> {
        match self {
            Content::Text(text) => Ok(text.into_bytes()),
            Content::Base64(text) => BASE64.decode(text).map_err(|error| error.to_string()),
        }
    }
}

/// One line of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Entry {
    Manifest(Manifest),
    Event { seq: u64, agent: AgentId, kind: Arc<str>, at_ms: i64, version: u32, payload: String, hash: Hash },
    Blob { hash: Hash, content: Content },
    File { path: Content, kind: FileKind, content: Content },
    End { hash: Hash },
}

impl Entry {
    pub(crate) fn event(stored: StoredEvent) -> Self {
        let StoredEvent { seq, agent, kind, at_ms, version, payload, hash } = stored;
        Self::Event { seq, agent, kind, at_ms, version, payload, hash }
    }

    fn name(&self) -> String {
        match self {
            Entry::Manifest(_) => "its manifest".to_owned(),
            Entry::Event { seq, .. } => format!("event {seq}"),
            Entry::Blob { hash, .. } => format!("blob {hash}"),
            Entry::File { path: Content::Text(path), .. } => format!("file {path}"),
            Entry::File { .. } => "a file whose name is not text".to_owned(),
            Entry::End { .. } => "its last line".to_owned(),
        }
    }
}

/// Writes the lines of a bundle and hashes them.
pub(crate) struct Writer<W> {
    to: W,
    hasher: LineHash,
}

/// The hash over all lines: each line's hash is combined with the one before it.
struct LineHash(Hash);

impl LineHash {
    fn add(&mut self, line: &[u8]) {
        self.0 = Hash::of_parts([self.0.as_bytes().as_slice(), line]);
    }
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(to: W) -> Self {
        Self { to, hasher: LineHash(Hash::ZERO) }
    }

    pub(crate) fn entry(&mut self, entry: &Entry) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        self.hasher.add(&line);
        line.push(b'\n');
        self.to.write_all(&line)
    }

    pub(crate) fn end(mut self) -> std::io::Result<W> {
        let hash = self.hasher.0;
        self.entry(&Entry::End { hash })?;
        Ok(self.to)
    }
}

/// Reads and checks the lines of a bundle, one after the other.
struct Reader {
    path: PathBuf,
    from: BufReader<GzDecoder<BufReader<Take<File>>>>,
    hasher: LineHash,
    read: u64,
    limits: Limits,
}

/// Limits of reading a bundle: a small file stays small in memory, whatever it contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    unpacked_bytes: u64,
    values: u64,
}

impl Limits {
    fn of(file_bytes: u64) -> Self {
        let unpacked = file_bytes.saturating_mul(UNPACKED_MAX_RATIO);
        Self {
            unpacked_bytes: unpacked.clamp(UNPACKED_FLOOR_BYTES, UNPACKED_MAX_BYTES),
            values: file_bytes.saturating_mul(VALUES_MAX_RATIO).max(VALUES_FLOOR),
        }
    }
}

/// An upper bound of the JSON values in a text: each but the first follows one of these characters.
fn values_at_most(json: &str) -> u64 {
    1 + json.bytes().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{')).count() as u64
}

impl Reader {
    fn open(path: &Path) -> Result<Self, BundleError> {
        let unreadable = |error: std::io::Error| BundleError::Unreadable {
            path: path.to_owned(),
            problem: error.to_string(),
        };
        let file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            let problem = "is not a file".to_owned();
            return Err(BundleError::Unreadable { path: path.to_owned(), problem });
        }
        let limits = Limits::of(metadata.len());
        // A file that grows while it is read is only read to its original length.
        let from = BufReader::new(GzDecoder::new(BufReader::new(file.take(metadata.len()))));
        Ok(Self { path: path.to_owned(), from, hasher: LineHash(Hash::ZERO), read: 0, limits })
    }

    fn damaged(&self, entry: impl Into<String>, problem: impl Into<String>) -> BundleError {
        BundleError::Damaged { path: self.path.clone(), entry: entry.into(), problem: problem.into() }
    }

    fn next(&mut self, number: u64) -> Result<Entry, BundleError> {
        let place = || format!("line {}", number + 1);
        let mut line = Vec::new();
        let entry_max = if number == 0 { MANIFEST_MAX_BYTES } else { ENTRY_MAX_BYTES };
        let most = entry_max.min(self.limits.unpacked_bytes - self.read);
        let read = self.from.by_ref().take(most).read_until(b'\n', &mut line);
        let read = read.map_err(|error| self.damaged(place(), error.to_string()))?;
        self.read += read as u64;
        if line.pop() != Some(b'\n') {
            let problem =
                if read as u64 == most { "it is larger than is read" } else { "the file ends in it" };
            return Err(self.damaged(place(), problem));
        }
        let entry: Entry =
            serde_json::from_slice(&line).map_err(|error| self.unknown(&line, place(), &error))?;
        if let Entry::Event { payload, .. } = &entry {
            let values = values_at_most(payload);
            if values > self.limits.values {
                return Err(self.damaged(entry.name(), "the events have more values than are read"));
            }
            self.limits.values -= values;
        }
        if let Entry::End { hash } = &entry {
            if *hash != self.hasher.0 {
                return Err(self.damaged(entry.name(), "the hash does not match the lines before it"));
            }
        } else {
            self.hasher.add(&line);
        }
        Ok(entry)
    }

    /// The error for a line that does not parse. If the bundle has a newer version, that is the reason.
    fn unknown(&self, line: &[u8], place: String, error: &serde_json::Error) -> BundleError {
        // Only the version is kept: a whole hostile line as values would take many times its size.
        #[derive(Deserialize)]
        struct Peek {
            manifest: PeekManifest,
        }
        #[derive(Deserialize)]
        struct PeekManifest {
            posse_bundle: u32,
        }
        let peek: Option<Peek> = serde_json::from_slice(line).ok();
        match peek.map(|peek| peek.manifest.posse_bundle) {
            Some(found) if found > BUNDLE_VERSION => BundleError::Newer { path: self.path.clone(), found },
            _ => self.damaged(place, error.to_string()),
        }
    }
}

/// A bundle that was read and checked completely.
pub(crate) struct Bundle {
    pub(crate) manifest: Manifest,
    /// The events, with their long texts.
    pub(crate) events: Vec<Event>,
}

/// A file of the base.
pub(crate) struct BaseFile {
    pub(crate) path: PathBuf,
    pub(crate) kind: FileKind,
    pub(crate) content: Vec<u8>,
}

/// Reads a bundle to its end and checks everything in it.
pub(crate) fn read(path: &Path) -> Result<Bundle, BundleError> {
    let mut stored: Vec<StoredEvent> = Vec::new();
    // A set, because each blob is looked up in it.
    let mut changed: Option<HashSet<Hash>> = None;
    let mut blobs: HashMap<Hash, String> = HashMap::new();
    let mut paths = BundlePaths::default();
    let damaged =
        |entry: String, problem: String| BundleError::Damaged { path: path.to_owned(), entry, problem };
    let manifest = walk(path, |manifest, entry| {
        let name = entry.name();
        match entry {
            Entry::Event { seq, agent, kind, at_ms, version, payload, hash } => {
                let event = StoredEvent { seq, agent, kind, at_ms, version, payload, hash };
                check_event(manifest, stored.last(), &event).map_err(|problem| damaged(name, problem))?;
                stored.push(event);
            }
            Entry::Blob { hash, content } => {
                let bytes = content.into_bytes().map_err(|problem| damaged(name.clone(), problem))?;
                let changed = changed.get_or_insert_with(|| manifest.changed_blobs.iter().copied().collect());
                let is_whole = manifest.shortened_blob != Some(hash) && !changed.contains(&hash);
                if is_whole && Hash::of(&bytes) != hash {
                    return Err(damaged(name, "its content does not fit its name".to_owned()));
                }
                blobs.insert(hash, String::from_utf8_lossy(&bytes).into_owned());
            }
            Entry::File { path, .. } => {
                let path = safe_path(path).map_err(|problem| damaged(name.clone(), problem))?;
                if !paths.insert(&path) {
                    return Err(damaged(
                        name,
                        "another file has its name, or is where its folder is".to_owned(),
                    ));
                }
            }
            Entry::Manifest(_) | Entry::End { .. } => {}
        }
        Ok(())
    })?;
    let last = stored.last().map(|event| (event.seq, event.hash));
    if last != Some((manifest.head_seq, manifest.head_hash)) {
        return Err(damaged("its events".to_owned(), "they do not end where the manifest states".to_owned()));
    }
    let events = whole(&stored, &blobs).map_err(|(seq, problem)| damaged(format!("event {seq}"), problem))?;
    Ok(Bundle { manifest, events })
}

/// Passes the files of the base to `take`. The bundle was checked before.
pub(crate) fn files(
    path: &Path,
    mut take: impl FnMut(BaseFile) -> Result<(), BundleError>,
) -> Result<(), BundleError> {
    walk(path, |_, entry| {
        let name = entry.name();
        let Entry::File { path: file, kind, content } = entry else { return Ok(()) };
        let damaged = |problem| BundleError::Damaged { path: path.to_owned(), entry: name.clone(), problem };
        let file = safe_path(file).map_err(damaged)?;
        take(BaseFile { path: file, kind, content: content.into_bytes().map_err(damaged)? })
    })
    .map(drop)
}

/// Passes every entry between the manifest and the last line to `take`.
fn walk(
    path: &Path,
    mut take: impl FnMut(&Manifest, Entry) -> Result<(), BundleError>,
) -> Result<Manifest, BundleError> {
    let mut reader = Reader::open(path)?;
    let Entry::Manifest(manifest) = reader.next(0)? else {
        return Err(reader.damaged("line 1", "it is not the manifest of a bundle"));
    };
    if manifest.posse_bundle > BUNDLE_VERSION {
        return Err(BundleError::Newer { path: path.to_owned(), found: manifest.posse_bundle });
    }
    let mut counts = [0_u64; 3];
    for number in 1.. {
        let entry = reader.next(number)?;
        let count = match &entry {
            Entry::Event { .. } => 0,
            Entry::Blob { .. } => 1,
            Entry::File { .. } => 2,
            Entry::Manifest(_) => {
                return Err(reader.damaged(format!("line {}", number + 1), "a second manifest"));
            }
            Entry::End { .. } => break,
        };
        counts[count] += 1;
        if counts[count] > ENTRIES_MAX {
            return Err(reader.damaged(entry.name(), "there are more entries than are read"));
        }
        take(&manifest, entry)?;
    }
    if counts != [manifest.events, manifest.blobs, manifest.files] {
        return Err(reader.damaged("its manifest", "it counts other entries than there are"));
    }
    Ok(manifest)
}

/// Checks an event. The hash chain is valid up to the first changed event.
fn check_event(manifest: &Manifest, before: Option<&StoredEvent>, event: &StoredEvent) -> Result<(), String> {
    let expected = before.map_or(1, |before| before.seq + 1);
    if event.seq != expected {
        return Err(format!("event {expected} should be here"));
    }
    let changed = manifest.changed_events.first().is_some_and(|first| *first <= event.seq);
    let previous = before.map_or(Hash::ZERO, |before| before.hash);
    if !changed && event.expected_hash(&previous, &manifest.tenant, &manifest.run) != event.hash {
        return Err("the hash chain is broken".to_owned());
    }
    if event.agent.run() != manifest.run {
        return Err("it is of another run".to_owned());
    }
    Ok(())
}

fn whole(stored: &[StoredEvent], blobs: &HashMap<Hash, String>) -> Result<Vec<Event>, (u64, String)> {
    let decode = |stored: &StoredEvent| {
        let failed = |error: posse_domain::event::CodecError| (stored.seq, error.to_string());
        let mut event = Event::decode(stored).map_err(failed)?;
        event.body.fill(&mut |at: &BlobRef| blobs.get(&at.blob).cloned()).map_err(failed)?;
        Ok(event)
    };
    stored.iter().map(decode).collect()
}

/// The paths of the files in a bundle. Each is stored with a zero byte between its parts, the smallest byte and one that no path has:
/// whatever lies beneath a path then follows it at once, and two paths are compared as bytes, which is ten times as fast as part by
/// part.
#[derive(Default)]
struct BundlePaths(BTreeSet<Vec<u8>>);

impl BundlePaths {
    /// Adds a path. `false`: a file has this path, lies above it or beneath it.
    fn insert(&mut self, path: &Path) -> bool {
        let key: Vec<u8> =
            path.as_os_str().as_bytes().iter().map(|b| if *b == b'/' { 0 } else { *b }).collect();
        let mut above = key.iter().enumerate().filter(|(_, byte)| **byte == 0);
        if above.any(|(end, _)| self.0.contains(&key[..end])) {
            return false;
        }
        let next = self.0.range::<[u8], _>((Bound::Included(key.as_slice()), Bound::Unbounded)).next();
        let is_taken = next
            .and_then(|next| next.strip_prefix(key.as_slice()))
            .is_some_and(|beneath| beneath.first().is_none_or(|byte| *byte == 0));
        !is_taken && self.0.insert(key)
    }
}

/// A path that stays beneath its target directory and is not part of a repository.
fn safe_path(path: Content) -> Result<PathBuf, String> {
    use std::os::unix::ffi::OsStringExt;
    let bytes = path.into_bytes()?;
    if bytes.is_empty() || bytes.len() > PATH_MAX_BYTES || bytes.contains(&0) {
        return Err("its path is empty, too long or none".to_owned());
    }
    let bad =
        |part: &[u8]| part.is_empty() || part == b"." || part == b".." || part.eq_ignore_ascii_case(b".git");
    if bytes.split(|byte| *byte == b'/').any(bad) {
        return Err("its path leaves the folder, or is in a repository's own".to_owned());
    }
    Ok(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests;
