//! A private scratch directory on disk, for a call without its own mounts.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

const PLACE: &str = "/tmp";
/// How many names are tried.
const TRIES: u32 = 1_000;

/// Removed after the call.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn make() -> io::Result<Self> {
        let own = std::process::id();
        for number in 0..TRIES {
            let path = Path::new(PLACE).join(format!("posse-{own}-{number}"));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    fs::create_dir(path.join("home"))?;
                    fs::create_dir(path.join("tmp"))?;
                    return Ok(Self(path));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::from(io::ErrorKind::AlreadyExists))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// The environment with `HOME` and `TMPDIR` in this directory.
    pub(super) fn environment(&self, given: &[(String, String)]) -> Vec<(String, String)> {
        let own = [("HOME", self.0.join("home")), ("TMPDIR", self.0.join("tmp"))];
        let kept = given.iter().filter(|(name, _)| own.iter().all(|(own, _)| own != name)).cloned();
        kept.chain(own.iter().map(|(name, path)| ((*name).to_owned(), path.display().to_string()))).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = posse_files::trees::remove(&self.0);
    }
}
