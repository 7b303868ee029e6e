//! Writes the new objects of one snapshot as one pack.
//!
//! One file per object would need one sync per object. Objects are not stored as deltas: an agent waits while the
//! snapshot is written, and `gc` can repack later.

use std::fs::{self, File};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use flate2::{Compression, Crc, write::ZlibEncoder};
use sha1::{Digest, Sha1};

use super::object::{Namer, ObjectType, each_chunk};
use super::{ObjectId, RepositoryError, disk};

/// Speed over size.
const LEVEL: Compression = Compression::new(1);
/// Larger objects are compressed while they are written, smaller ones before and outside the lock.
pub(crate) const STREAM_BYTES: u64 = 4 * 1024 * 1024;
const WRITE_BUFFER_BYTES: usize = 256 * 1024;
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
}

#[derive(Default)]
struct State {
    out: Option<PackFile>,
    objects: std::collections::HashMap<ObjectId, ObjectOffset>,
    written: u64,
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
        Self { dir: repository.join("objects/pack"), state: Mutex::default() }
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
        let mut encoder = ZlibEncoder::new(header(kind, content.len() as u64), LEVEL);
        encoder.write_all(content).map_err(disk::failed("compressing into", &self.dir))?;
        let bytes = encoder.finish().map_err(disk::failed("compressing into", &self.dir))?;
        let mut crc = Crc::new();
        crc.update(&bytes);
        let mut state = self.lock();
        if state.objects.contains_key(&oid) {
            return Ok(());
        }
        let offset = state.written.max(self.begin(&mut state)?);
        let out = state.out.as_mut().map(|out| out.file.write_all(&bytes));
        out.transpose().map_err(disk::failed("writing to", &self.dir))?;
        state.written = offset + bytes.len() as u64;
        state.objects.insert(oid, ObjectOffset { offset, crc: crc.sum() });
        Ok(())
    }

    /// Adds a large file while it is read and returns its id. Fails if its size changes.
    pub(crate) fn add_stream(&self, reader: &mut dyn Read, size: u64) -> Result<ObjectId, RepositoryError> {
        let failed = disk::failed("writing a large file to", &self.dir);
        let mut state = self.lock();
        let offset = state.written.max(self.begin(&mut state)?);
        let Some(out) = state.out.as_mut() else {
            return Err(RepositoryError::Damaged("a pack has no file".to_owned()));
        };
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
        let mut state = std::mem::take(&mut *self.lock());
        let Some(PackFile { path, file }) = state.out.take() else {
            return Ok(());
        };
        let failed = disk::failed("writing", &path);
        let mut file = file.into_inner().map_err(|error| failed(error.into_error()))?;
        let count = u32::try_from(state.objects.len())
            .map_err(|_| RepositoryError::Unsupported("too many new objects for one snapshot".to_owned()))?;
        let sum = seal(&mut file, count).map_err(&failed)?;
        let name = format!("pack-{}", ObjectId::from_bytes(sum));
        let index = self.dir.join(format!("{name}.idx"));
        let index_tmp = disk::temporary(&index);
        let mut index_file = disk::create_new(&index_tmp)?;
        let index_failed = disk::failed("writing", &index_tmp);
        index_file.write_all(&index_of(&state.objects, &sum)).map_err(&index_failed)?;
        // At once, so that the filesystem commits both together.
        let (pack_synced, index_synced) = std::thread::scope(|scope| {
            let pack = scope.spawn(|| file.sync_all());
            let index = index_file.sync_all();
            (pack.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), index)
        });
        pack_synced.map_err(&failed)?;
        index_synced.map_err(&index_failed)?;
        for file in [&file, &index_file] {
            file.set_permissions(fs::Permissions::from_mode(READ_ONLY_MODE)).map_err(&failed)?;
        }
        // Git finds packs by their index, so the index comes last.
        fs::rename(&path, self.dir.join(format!("{name}.pack"))).map_err(&failed)?;
        fs::rename(&index_tmp, &index).map_err(disk::failed("writing", &index))?;
        disk::sync_dir(&self.dir)
    }

    /// The ids of all objects in the pack.
    pub(crate) fn ids(&self) -> Vec<ObjectId> {
        self.lock().objects.keys().copied().collect()
    }

    /// The bytes of the pack, which does not become part of the repository. For packs that fit into memory.
    pub(crate) fn into_bytes(self) -> Result<Vec<u8>, RepositoryError> {
        let mut state = self.lock();
        let count = state.objects.len();
        let Some(PackFile { path, file }) = state.out.as_mut() else { return Ok(Vec::new()) };
        let failed = disk::failed("writing", path);
        file.flush().map_err(&failed)?;
        let file = file.get_mut();
        seal(file, u32::try_from(count).unwrap_or(u32::MAX)).map_err(&failed)?;
        let mut bytes = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(&failed)?;
        Ok(bytes)
    }

    /// Creates the file of a new pack and returns its first offset; 0 if the file exists.
    fn begin(&self, state: &mut State) -> Result<u64, RepositoryError> {
        if state.out.is_some() {
            return Ok(0);
        }
        let path = disk::temporary(&self.dir.join(UNFINISHED));
        let mut file = BufWriter::with_capacity(WRITE_BUFFER_BYTES, disk::create_new(&path)?);
        let header = [&SIGNATURE[..], &[0; 4]].concat();
        file.write_all(&header).map_err(disk::failed("writing", &path))?;
        state.out = Some(PackFile { path, file });
        Ok(header.len() as u64)
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
