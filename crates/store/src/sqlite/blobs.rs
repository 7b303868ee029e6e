//! Files for blobs that are too long for the database, named by content hash.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use posse_domain::hash::Hash;
use posse_domain::text::Blob;
use posse_engine::ports::{Commit, Faults, StoreError, StorePart, TenantId};

use super::error::{corrupt, from_io};
use super::options::BLOB_IN_DATABASE_MAX_BYTES;
use super::{files, holder};

pub(super) fn is_file(blob: &Blob) -> bool {
    blob.bytes.len() > BLOB_IN_DATABASE_MAX_BYTES
}

/// Whether a commit has blobs that are stored as files.
pub(super) fn has_files(commit: &Commit) -> bool {
    commit.blobs.iter().any(is_file)
}

/// Makes the blob files of a commit durable, before the writers' lock is taken, so that other processes need not wait.
/// A file without its commit is harmless: a later blob with the same content reuses it, or it is never read.
pub(super) fn write_files(root: &Path, commit: &Commit, faults: &Faults) -> Result<(), StoreError> {
    for blob in commit.blobs.iter().filter(|blob| is_file(blob)) {
        let path = path_of(root, &commit.key.tenant, &blob.hash);
        write_file(&path, &blob.bytes).map_err(|error| from_io(StorePart::Blobs, &path, &error))?;
        faults.hit("store.blob.after_file");
    }
    Ok(())
}

/// Reads a blob's file and checks that its content has the hash in its name.
pub(super) fn read_file(root: &Path, tenant: &TenantId, hash: &Hash) -> Result<Vec<u8>, StoreError> {
    let path = path_of(root, tenant, hash);
    let bytes = fs::read(&path).map_err(|error| from_io(StorePart::Blobs, &path, &error))?;
    verified(&path, bytes, hash)
}

/// The length of a blob's file, if the file exists.
pub(super) fn file_len(root: &Path, tenant: &TenantId, hash: &Hash) -> Option<u64> {
    fs::metadata(path_of(root, tenant, hash)).ok().map(|metadata| metadata.len())
}

/// Returns the content if it has this hash.
pub(super) fn verified(path: &Path, bytes: Vec<u8>, hash: &Hash) -> Result<Vec<u8>, StoreError> {
    if Hash::of(&bytes) == *hash {
        return Ok(bytes);
    }
    Err(corrupt(StorePart::Blobs, path, format!("the content of blob {hash} does not match its hash")))
}

/// One folder per tenant, named by hash, because the embedder's tenant name may contain any characters.
fn path_of(root: &Path, tenant: &TenantId, hash: &Hash) -> PathBuf {
    let (tenant, name) = (Hash::of(tenant.as_str().as_bytes()).to_string(), hash.to_string());
    root.join(&tenant[..16]).join(&name[..2]).join(name)
}

fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let Some(folder) = path.parent() else { return Err(io::ErrorKind::InvalidInput.into()) };
    files::make_dir(folder)?;
    let is_there = fs::metadata(path).is_ok_and(|metadata| metadata.len() == bytes.len() as u64);
    if !is_there {
        let name = holder::random_id().map_err(io::Error::other)?;
        let temporary = folder.join(format!("{name}.tmp"));
        let written = write_synced(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
        if written.is_err() {
            let _ = files::remove(&temporary);
        }
        written?;
    }
    files::sync_dir(folder)
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = files::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_back_as_it_was_and_is_checked() {
        let dir = tempfile::tempdir().unwrap();
        let tenant = TenantId::new("../a/b");
        let hash = Hash::of(b"content");
        let path = path_of(dir.path(), &tenant, &hash);
        assert!(path.starts_with(dir.path()));
        write_file(&path, b"content").unwrap();
        write_file(&path, b"content").unwrap();
        assert_eq!(read_file(dir.path(), &tenant, &hash).unwrap(), b"content");
        fs::write(&path, b"kontent").unwrap();
        assert!(matches!(read_file(dir.path(), &tenant, &hash), Err(StoreError::Corrupt { .. })));
        let names = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(names, 1, "nothing temporary stays");
    }
}
