//! A temporary directory for the objects of a merge, before they become part of the repository.
//!
//! Git syncs each object that it writes but never its directory. Here git syncs nothing. Its objects become one pack,
//! which is durable as a whole, and a refused merge leaves nothing behind.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use flate2::read::ZlibDecoder;

use super::gc::entries_of;
use super::object;
use super::pack::PackWriter;
use super::{Git, ObjectId, RepositoryError, disk};

/// The prefix of these directories, which git also uses for its own and treats as temporary.
pub(super) const PREFIX: &str = "tmp_objdir-posse";

/// Objects that are not part of the repository yet.
pub(super) struct Quarantine {
    dir: PathBuf,
    git: Git,
}

impl Quarantine {
    /// Creates a directory beside the objects of `git`.
    pub(super) fn new(git: &Git) -> Result<Self, RepositoryError> {
        let objects = git.git_dir().join("objects");
        let dir = disk::temporary(&objects.join(PREFIX));
        fs::create_dir(&dir).map_err(disk::failed("making", &dir))?;
        let git = git.clone().with_objects(&dir, quoted(&objects));
        Ok(Self { dir, git })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// A git that reads from both and writes only here.
    pub(super) fn git(&self) -> &Git {
        &self.git
    }

    /// Adds all objects to a pack.
    pub(super) fn pour_into(&self, pack: &PackWriter) -> Result<(), RepositoryError> {
        for fan in entries_of(&self.dir)? {
            let first = fan.file_name().unwrap_or_default().to_owned();
            if first.len() != 2 {
                continue;
            }
            for file in entries_of(&fan)? {
                let rest = file.file_name().unwrap_or_default();
                let name = [first.as_bytes(), rest.as_bytes()].concat();
                // Incomplete files of git have other names.
                if let Some(oid) = std::str::from_utf8(&name).ok().and_then(|name| name.parse().ok()) {
                    add_loose(&file, oid, pack)?;
                }
            }
        }
        Ok(())
    }
}

impl Drop for Quarantine {
    fn drop(&mut self) {
        // After a crash, the next cleaning removes it.
        drop(disk::remove_tree(&self.dir));
    }
}

fn add_loose(path: &Path, oid: ObjectId, pack: &PackWriter) -> Result<(), RepositoryError> {
    let file = fs::File::open(path).map_err(disk::failed("opening", path))?;
    let mut bytes = Vec::new();
    ZlibDecoder::new(file).read_to_end(&mut bytes).map_err(disk::failed("reading", path))?;
    let (kind, content) =
        object::parts(&bytes).filter(|(kind, content)| object::name(*kind, content) == oid).ok_or_else(
            || RepositoryError::Damaged(format!("git wrote {} and it is not {oid}", path.display())),
        )?;
    pack.add(kind, oid, content)
}

/// Quotes a path for a list of paths in git, where a colon is a separator.
pub(super) fn quoted(path: &Path) -> OsString {
    let mut out = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
    OsString::from_vec(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_a_colon_is_one_path() {
        assert_eq!(quoted(Path::new("/a:b/\"c\\")), OsString::from("\"/a:b/\\\"c\\\\\""));
    }
}
