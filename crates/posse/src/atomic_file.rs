//! Writes whole files for users: a reader finds the old content or the new one, also after a crash.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The mode of a file that only its owner reads.
pub const PRIVATE: u32 = 0o600;
/// The mode of a file that others read like the user's other files. The user's mask applies.
pub const SHARED: u32 = 0o666;

/// What happens to a file that has the name already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistingFile {
    /// It stays as it is, and the error has the kind [`io::ErrorKind::AlreadyExists`].
    Keep,
    /// It is replaced.
    Replace,
}

/// Writes a file of which `content` writes the bytes. If anything fails, no file has the name that did not have it
/// before, and nothing else is left in the folder.
pub fn write<T, E: From<io::Error>>(
    path: &Path,
    mode: u32,
    existing: ExistingFile,
    content: impl FnOnce(&mut File) -> Result<T, E>,
) -> Result<T, E> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".posse-").suffix(".unfinished").permissions(Permissions::from_mode(mode));
    let mut file = builder.tempfile_in(folder)?;
    let written = content(file.as_file_mut())?;
    file.as_file().sync_all()?;
    let named = match existing {
        ExistingFile::Keep => file.persist_noclobber(path),
        ExistingFile::Replace => file.persist(path),
    };
    named.map_err(|error| error.error)?;
    File::open(folder)?.sync_all()?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn write_text(path: &Path, existing: ExistingFile, text: &str) -> io::Result<()> {
        write(path, PRIVATE, existing, |file| file.write_all(text.as_bytes()))
    }

    #[test]
    fn a_file_is_replaced_only_if_that_was_asked_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        let text = || std::fs::read_to_string(&path).expect("text");
        write_text(&path, ExistingFile::Keep, "one").expect("written");
        let error = write_text(&path, ExistingFile::Keep, "two").expect_err("it exists");
        assert_eq!((error.kind(), text().as_str()), (io::ErrorKind::AlreadyExists, "one"));
        write_text(&path, ExistingFile::Replace, "two").expect("replaced");
        assert_eq!(text(), "two");
        assert_eq!(std::fs::metadata(&path).expect("a file").permissions().mode() & 0o777, PRIVATE);
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 1);
    }

    #[test]
    fn a_failure_leaves_the_old_content_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        write_text(&path, ExistingFile::Keep, "old").expect("written");
        let failing = |file: &mut File| {
            file.write_all(b"half")?;
            Err::<(), _>(io::Error::other("the disk is full"))
        };
        let error = write(&path, PRIVATE, ExistingFile::Replace, failing).expect_err("it fails");
        assert_eq!(error.to_string(), "the disk is full");
        assert_eq!(std::fs::read_to_string(&path).expect("text"), "old");
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 1);
    }
}
