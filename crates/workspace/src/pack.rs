//! Writes the new objects of one snapshot as one pack.
//!
//! One file per object would need one sync per object. Objects are not stored as deltas: an agent waits while the
//! snapshot is written, and `gc` can repack later.

use std::fs::{self, File};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use flate2::{Compression, Crc, write::ZlibEncoder};
use sha1::{Digest, Sha1};

use super::object::{Namer, ObjectType, each_chunk};
use super::objects::PackCache;
use super::{ObjectId, RepositoryError, disk};

/// Speed over size.
const LEVEL: Compression = Compression::new(1);
/// Smaller objects are not compressed: to prepare a compression takes longer than to write them.
const COMPRESS_MIN_BYTES: usize = 512;
/// The same for trees: most of a tree are hashes, and the compression of one with 5,000 directories takes five milliseconds
/// to save a quarter of 160 KB. Larger ones are of directories with tens of thousands of entries.
const COMPRESS_TREE_MIN_BYTES: usize = 1024 * 1024;
/// The longest block of zlib's format that is stored as it is.
const STORED_BLOCK_MAX_BYTES: usize = 0xffff;
/// Larger objects are compressed while they are written, smaller ones before and outside the lock.
pub(crate) const STREAM_BYTES: u64 = 4 * 1024 * 1024;
/// Larger ones would be mapped and unmapped by the allocator each time.
const WRITE_BUFFER_BYTES: usize = 64 * 1024;
/// The largest pack that is kept in memory until it is complete.
const MEMORY_MAX_BYTES: usize = 64 * 1024;
/// The number of objects follows the signature.
const COUNT_BYTES: usize = 4;
const HEADER_BYTES: u64 = (SIGNATURE.len() + COUNT_BYTES) as u64;
const SIGNATURE: &[u8; 8] = b"PACK\0\0\0\x02";
const INDEX_SIGNATURE: &[u8; 8] = b"\xfftOc\0\0\0\x02";
/// Offsets from here on are in a separate table.
const FAR_OFFSET: u64 = 1 << 31;
/// The prefix of unfinished packs, which git also uses for its own.
pub(super) const UNFINISHED: &str = "tmp_pack_posse";
const READ_ONLY_MODE: u32 = 0o444;

/// A pack that is being written. Threads may add objects concurrently.
pub(crate) struct PackWriter {
    dir: PathBuf,
    state: Mutex<State>,
    /// Learns of the pack when it is part of the repository.
    cache: Option<Arc<PackCache>>,
}

/// A pack that is written, but not synced and not yet part of the repository.
pub(crate) struct SealedPack {
    /// The directory that has to be synced after the pack is put in place.
    pub(crate) dir: PathBuf,
    name: String,
    pack: (PathBuf, File),
    /// The path, the file and its bytes.
    index: (PathBuf, File, Vec<u8>),
    cache: Option<Arc<PackCache>>,
    is_in_place: bool,
}

impl Drop for SealedPack {
    fn drop(&mut self) {
        if !self.is_in_place {
            // A pack without its index is not part of the repository.
            for path in [&self.pack.0, &self.index.0] {
                drop(fs::remove_file(path));
            }
        }
    }
}

impl SealedPack {
    /// The files that have to be synced before the pack is put in place.
    pub(crate) fn files(&self) -> [&File; 2] {
        [&self.pack.1, &self.index.1]
    }

    pub(crate) fn put_in_place(mut self) -> Result<(), RepositoryError> {
        let pack = self.dir.join(format!("{}.pack", self.name));
        let index = self.dir.join(format!("{}.idx", self.name));
        // Git finds packs by their index, so the index comes last.
        fs::rename(&self.pack.0, &pack).map_err(disk::failed("writing", &pack))?;
        fs::rename(&self.index.0, &index).map_err(disk::failed("writing", &index))?;
        self.is_in_place = true;
        if let Some(cache) = &self.cache {
            let repository = self.dir.ancestors().nth(2).unwrap_or(&self.dir);
            cache.add(repository, pack.file_name().unwrap_or_default(), std::mem::take(&mut self.index.2));
        }
        Ok(())
    }
}

#[derive(Default)]
struct State {
    /// The beginning of the pack, until it is too large: most packs are small, and some never become a file.
    memory: Vec<u8>,
    out: Option<PackFile>,
    objects: std::collections::HashMap<ObjectId, ObjectOffset>,
    written: u64,
}

impl State {
    fn remember(&mut self, bytes: &[u8]) {
        if self.memory.is_empty() {
            self.memory.extend_from_slice(SIGNATURE);
            self.memory.extend_from_slice(&[0; COUNT_BYTES]);
        }
        self.memory.extend_from_slice(bytes);
    }
}

struct PackFile {
    path: PathBuf,
    file: BufWriter<File>,
}

#[derive(Clone, Copy)]
struct ObjectOffset {
    offset: u64,
    crc: u32,
}

impl PackWriter {
    /// A pack for the repository at `repository`. No file is created before the first object.
    pub(crate) fn new(repository: &Path) -> Self {
        Self { dir: repository.join("objects/pack"), state: Mutex::default(), cache: None }
    }

    /// The same, and `cache` learns of the pack.
    pub(crate) fn known_to(mut self, cache: &Arc<PackCache>) -> Self {
        self.cache = Some(cache.clone());
        self
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.lock().written
    }

    pub(crate) fn holds(&self, oid: &ObjectId) -> bool {
        self.lock().objects.contains_key(oid)
    }

    /// Adds an object whose id is known.
    pub(crate) fn add(&self, kind: ObjectType, oid: ObjectId, content: &[u8]) -> Result<(), RepositoryError> {
        if self.holds(&oid) {
            return Ok(());
        }
        let mut bytes = header(kind, content.len() as u64);
        let compress_min_bytes = match kind {
            ObjectType::Tree => COMPRESS_TREE_MIN_BYTES,
            _ => COMPRESS_MIN_BYTES,
        };
        if content.len() < compress_min_bytes {
            store(content, &mut bytes);
        } else {
            let mut encoder = ZlibEncoder::new(bytes, LEVEL);
            encoder.write_all(content).map_err(disk::failed("compressing into", &self.dir))?;
            bytes = encoder.finish().map_err(disk::failed("compressing into", &self.dir))?;
        }
        let mut crc = Crc::new();
        crc.update(&bytes);
        let mut state = self.lock();
        if state.objects.contains_key(&oid) {
            return Ok(());
        }
        let offset = state.written.max(HEADER_BYTES);
        if state.out.is_none() && state.memory.len() + bytes.len() > MEMORY_MAX_BYTES {
            self.begin_file(&mut state)?;
        }
        match &mut state.out {
            Some(out) => out.file.write_all(&bytes).map_err(disk::failed("writing to", &self.dir))?,
            None => state.remember(&bytes),
        }
        state.written = offset + bytes.len() as u64;
        state.objects.insert(oid, ObjectOffset { offset, crc: crc.sum() });
        Ok(())
    }

    /// Adds a large file while it is read and returns its id. Fails if its size changes.
    pub(crate) fn add_stream(&self, reader: &mut dyn Read, size: u64) -> Result<ObjectId, RepositoryError> {
        let failed = disk::failed("writing a large file to", &self.dir);
        let mut state = self.lock();
        let offset = state.written.max(HEADER_BYTES);
        let out = self.begin_file(&mut state)?;
        let streamed = stream(reader, size, &mut out.file);
        let (oid, crc, length) = match streamed {
            Ok(streamed) => streamed,
            Err(error) => {
                // The next object overwrites the incomplete one.
                out.file.seek(SeekFrom::Start(offset)).map_err(&failed)?;
                out.file.get_ref().set_len(offset).map_err(&failed)?;
                return Err(failed(error));
            }
        };
        if state.objects.contains_key(&oid) {
            // A pack contains each object once, so the second copy is truncated.
            if let Some(out) = state.out.as_mut() {
                out.file.seek(SeekFrom::Start(offset)).map_err(&failed)?;
                out.file.get_ref().set_len(offset).map_err(&failed)?;
            }
            return Ok(oid);
        }
        state.written = offset + length;
        state.objects.insert(oid, ObjectOffset { offset, crc });
        Ok(oid)
    }

    /// Makes the pack durable and adds it to the repository. Without objects, no pack is created.
    pub(crate) fn finish(self) -> Result<(), RepositoryError> {
        let Some(sealed) = self.seal()? else { return Ok(()) };
        disk::sync_together(&sealed.files(), &sealed.dir)?;
        let dir = sealed.dir.clone();
        sealed.put_in_place()?;
        disk::sync_dir(&dir)
    }

    /// Writes everything of the pack; `None` if it has no objects. Nothing is synced or part of the repository yet.
    pub(crate) fn seal(self) -> Result<Option<SealedPack>, RepositoryError> {
        if self.lock().objects.is_empty() {
            return Ok(None);
        }
        let mut state = std::mem::take(&mut *self.lock());
        let count = u32::try_from(state.objects.len())
            .map_err(|_| RepositoryError::Unsupported("too many new objects for one snapshot".to_owned()))?;
        let (path, file, sum) = if let Some(PackFile { path, file }) = state.out.take() {
            let failed = disk::failed("writing", &path);
            let mut file = file.into_inner().map_err(|error| failed(error.into_error()))?;
            let sum = seal(&mut file, count).map_err(&failed)?;
            drop(failed);
            (path, file, sum)
        } else {
            let path = disk::temporary(&self.dir.join(UNFINISHED));
            let mut file = disk::create_new(&path)?;
            let sum = seal_in_memory(&mut state.memory, count);
            file.write_all(&state.memory).map_err(disk::failed("writing", &path))?;
            (path, file, sum)
        };
        let failed = disk::failed("writing", &path);
        let name = format!("pack-{}", ObjectId::from_bytes(sum));
        let index_tmp = disk::temporary(&self.dir.join(UNFINISHED));
        let mut index_file = disk::create_new(&index_tmp)?;
        let index_failed = disk::failed("writing", &index_tmp);
        let index = index_of(&state.objects, &sum);
        index_file.write_all(&index).map_err(&index_failed)?;
        // Their final permissions are synced with them.
        for file in [&file, &index_file] {
            file.set_permissions(fs::Permissions::from_mode(READ_ONLY_MODE)).map_err(&failed)?;
        }
        let (dir, cache) = (self.dir.clone(), self.cache.clone());
        Ok(Some(SealedPack {
            dir,
            name,
            pack: (path.clone(), file),
            index: (index_tmp.clone(), index_file, index),
            cache,
            is_in_place: false,
        }))
    }

    /// The ids of all objects in the pack.
    pub(crate) fn ids(&self) -> Vec<ObjectId> {
        self.lock().objects.keys().copied().collect()
    }

    /// The bytes of the pack, which does not become part of the repository. For packs that fit into memory.
    pub(crate) fn into_bytes(self) -> Result<Vec<u8>, RepositoryError> {
        let mut state = self.lock();
        let count = u32::try_from(state.objects.len()).unwrap_or(u32::MAX);
        let Some(PackFile { path, file }) = state.out.as_mut() else {
            let mut bytes = std::mem::take(&mut state.memory);
            if !bytes.is_empty() {
                seal_in_memory(&mut bytes, count);
            }
            return Ok(bytes);
        };
        let failed = disk::failed("writing", path);
        file.flush().map_err(&failed)?;
        let file = file.get_mut();
        seal(file, count).map_err(&failed)?;
        let mut bytes = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(&failed)?;
        Ok(bytes)
    }

    /// The file of the pack, which is created with what was kept in memory if there is none.
    fn begin_file<'a>(&self, state: &'a mut State) -> Result<&'a mut PackFile, RepositoryError> {
        if state.out.is_none() {
            let path = disk::temporary(&self.dir.join(UNFINISHED));
            let mut file = BufWriter::with_capacity(WRITE_BUFFER_BYTES, disk::create_new(&path)?);
            state.remember(&[]);
            let memory = std::mem::take(&mut state.memory);
            file.write_all(&memory).map_err(disk::failed("writing", &path))?;
            state.out = Some(PackFile { path, file });
        }
        state.out.as_mut().ok_or_else(|| RepositoryError::Damaged("a pack has no file".to_owned()))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Drop for PackWriter {
    fn drop(&mut self) {
        if let Some(out) = self.lock().out.take() {
            drop(fs::remove_file(out.path));
        }
    }
}

/// An object's header in a pack: its type and size, seven bits at a time.
fn header(kind: ObjectType, size: u64) -> Vec<u8> {
    let low = |bits: u64, mask: u64| u8::try_from(bits & mask).unwrap_or_default();
    let mut out = vec![kind.in_pack() << 4 | low(size, 15)];
    let mut left = size >> 4;
    while left > 0 {
        if let Some(last) = out.last_mut() {
            *last |= 0x80;
        }
        out.push(low(left, 0x7f));
        left >>= 7;
    }
    out
}

/// Writes a content in zlib's format without compressing it.
fn store(content: &[u8], out: &mut Vec<u8>) {
    // The method, the size of the window and their check sum.
    out.extend_from_slice(&[0x78, 0x01]);
    let mut rest = content;
    loop {
        let (block, after) = rest.split_at(rest.len().min(STORED_BLOCK_MAX_BYTES));
        rest = after;
        let length = u16::try_from(block.len()).unwrap_or_default();
        out.push(u8::from(rest.is_empty()));
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(block);
        if rest.is_empty() {
            break;
        }
    }
    out.extend_from_slice(&adler32(content).to_be_bytes());
}

/// The check sum of zlib's format.
fn adler32(bytes: &[u8]) -> u32 {
    /// The largest prime number below 2^16.
    const MODULUS: u32 = 65_521;
    /// After so many bytes a sum could exceed its 32 bits.
    const SUMMED_MAX_BYTES: usize = 5_552;
    let (mut low, mut high) = (1, 0);
    for part in bytes.chunks(SUMMED_MAX_BYTES) {
        for &byte in part {
            low += u32::from(byte);
            high += low;
        }
        low %= MODULUS;
        high %= MODULUS;
    }
    high << 16 | low
}

/// Counts the bytes and computes their checksum.
struct CountingWriter<'a, W> {
    out: &'a mut W,
    crc: Crc,
    length: u64,
}

impl<W: Write> Write for CountingWriter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.crc.update(&bytes[..written]);
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

fn stream(reader: &mut dyn Read, size: u64, out: &mut impl Write) -> std::io::Result<(ObjectId, u32, u64)> {
    let mut counted = CountingWriter { out, crc: Crc::new(), length: 0 };
    counted.write_all(&header(ObjectType::Blob, size))?;
    let mut namer = Namer::new(ObjectType::Blob, size);
    let mut encoder = ZlibEncoder::new(counted, LEVEL);
    each_chunk(reader, size, |chunk| {
        namer.update(chunk);
        encoder.write_all(chunk)
    })?;
    let counted = encoder.finish()?;
    Ok((namer.finish(), counted.crc.sum(), counted.length))
}

/// Writes the number of objects to the pack's header and the checksum to its end.
fn seal(file: &mut File, count: u32) -> std::io::Result<[u8; 20]> {
    file.seek(SeekFrom::Start(SIGNATURE.len() as u64))?;
    file.write_all(&count.to_be_bytes())?;
    file.seek(SeekFrom::Start(0))?;
    let mut sha = Sha1::new();
    let mut buffer = vec![0; WRITE_BUFFER_BYTES];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        sha.update(&buffer[..read]);
    }
    let sum: [u8; 20] = sha.finalize().into();
    file.write_all(&sum)?;
    Ok(sum)
}

/// The same for a pack in memory.
fn seal_in_memory(pack: &mut Vec<u8>, count: u32) -> [u8; 20] {
    pack[SIGNATURE.len()..SIGNATURE.len() + COUNT_BYTES].copy_from_slice(&count.to_be_bytes());
    let sum: [u8; 20] = Sha1::digest(&*pack).into();
    pack.extend_from_slice(&sum);
    sum
}

/// The index of a pack, in version 2 of git's format.
fn index_of(objects: &std::collections::HashMap<ObjectId, ObjectOffset>, pack_sum: &[u8; 20]) -> Vec<u8> {
    let mut sorted: Vec<(&ObjectId, &ObjectOffset)> = objects.iter().collect();
    sorted.sort_unstable_by_key(|(oid, _)| **oid);
    let mut out = INDEX_SIGNATURE.to_vec();
    let mut at = 0;
    for first in 0..=u8::MAX {
        at += sorted[at..].partition_point(|(oid, _)| oid.as_bytes()[0] <= first);
        out.extend_from_slice(&u32::try_from(at).unwrap_or(u32::MAX).to_be_bytes());
    }
    out.extend(sorted.iter().flat_map(|(oid, _)| *oid.as_bytes()));
    out.extend(sorted.iter().flat_map(|(_, place)| place.crc.to_be_bytes()));
    let mut far: Vec<u64> = Vec::new();
    for (_, place) in &sorted {
        let offset = if place.offset < FAR_OFFSET {
            place.offset
        } else {
            far.push(place.offset);
            FAR_OFFSET | (far.len() as u64 - 1)
        };
        out.extend_from_slice(&u32::try_from(offset).unwrap_or(u32::MAX).to_be_bytes());
    }
    out.extend(far.iter().flat_map(|offset| offset.to_be_bytes()));
    out.extend_from_slice(pack_sum);
    let sum: [u8; 20] = Sha1::digest(&out).into();
    out.extend_from_slice(&sum);
    out
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::object;

    /// Random bytes of a given length, which do not become smaller.
    fn noise(seed: u64, bytes: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes);
        blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill({
            out.resize(bytes, 0);
            &mut out
        });
        out
    }

    fn repository() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        let made = Command::new("git").args(["init", "-q", "--bare", "."]).current_dir(dir.path()).status();
        assert!(made.expect("git").success());
        dir
    }

    #[test]
    fn what_is_stored_without_compression_is_read_back() {
        use flate2::read::ZlibDecoder;
        for bytes in [0, 1, 5_552, 5_553, 65_535, 65_536, 200_000] {
            for content in [noise(bytes as u64, bytes), vec![0xff; bytes]] {
                let mut stored = Vec::new();
                store(&content, &mut stored);
                let mut read = Vec::new();
                // The decoder compares the check sum.
                ZlibDecoder::new(stored.as_slice()).read_to_end(&mut read).expect("zlib's format");
                assert_eq!(read, content, "{bytes} bytes");
            }
        }
    }

    fn packs(dir: &Path) -> Vec<String> {
        let names = fs::read_dir(dir.join("objects/pack")).expect("listed").flatten();
        let mut names: Vec<String> =
            names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn git_reads_small_and_large_packs_and_streams() {
        let sizes: [&[usize]; 4] = [&[3], &[10, 20, 30], &[60_000, 60_000, 5], &[200_000, 1]];
        for (round, sizes) in sizes.into_iter().enumerate() {
            for streamed in [None, Some(0), Some(sizes.len() - 1)] {
                let dir = repository();
                let pack = PackWriter::new(dir.path());
                let mut ids = Vec::new();
                for (at, size) in sizes.iter().enumerate() {
                    let content = noise((round * 100 + at) as u64, *size);
                    let oid = object::name(ObjectType::Blob, &content);
                    if streamed == Some(at) {
                        let named = pack.add_stream(&mut &content[..], content.len() as u64).expect("added");
                        assert_eq!(named, oid);
                        // A second copy is not kept.
                        pack.add_stream(&mut &content[..], content.len() as u64).expect("added");
                    } else {
                        pack.add(ObjectType::Blob, oid, &content).expect("added");
                        pack.add(ObjectType::Blob, oid, &content).expect("added");
                    }
                    ids.push((oid, content));
                }
                pack.finish().expect("written");
                let checked =
                    Command::new("git").args(["fsck", "--strict", "--full"]).current_dir(dir.path()).output();
                assert!(checked.expect("git").status.success());
                for (oid, content) in ids {
                    let args = ["cat-file", "blob", &oid.to_string()];
                    let read = Command::new("git").args(args).current_dir(dir.path()).output().expect("git");
                    assert!(read.stdout == content, "{sizes:?}, {streamed:?}");
                }
                assert_eq!(packs(dir.path()).len(), 2);
            }
        }
    }

    #[test]
    fn the_bytes_of_a_pack_are_what_git_indexes() {
        for size in [5, 100_000] {
            let dir = repository();
            let pack = PackWriter::new(dir.path());
            let content = noise(1, size);
            pack.add(ObjectType::Blob, object::name(ObjectType::Blob, &content), &content).expect("added");
            let bytes = pack.into_bytes().expect("read");
            assert_eq!(packs(dir.path()), [""; 0], "nothing is left of it");
            fs::write(dir.path().join("a.pack"), bytes).expect("written");
            let indexed = Command::new("git")
                .args(["index-pack", "--strict", "a.pack"])
                .current_dir(dir.path())
                .output();
            assert!(indexed.expect("git").status.success());
        }
        let empty = PackWriter::new(repository().path());
        assert_eq!(empty.into_bytes().expect("nothing"), [0; 0]);
    }

    #[test]
    fn what_is_not_put_in_place_leaves_nothing() {
        let dir = repository();
        let pack = PackWriter::new(dir.path());
        let failed = pack.add_stream(&mut &b"short"[..], 100);
        assert!(failed.is_err() && pack.seal().expect("nothing to seal").is_none());
        let pack = PackWriter::new(dir.path());
        pack.add(ObjectType::Blob, object::name(ObjectType::Blob, b"x"), b"x").expect("added");
        drop(pack.seal().expect("sealed"));
        assert_eq!(packs(dir.path()), [""; 0]);
    }
}
