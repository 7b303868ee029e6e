//! A private place on disk for a call that has no mounts of its own.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Where it is made.
const PLACE: &str = "/tmp";
/// How often another name is tried.
const TRIES: u32 = 1_000;

/// A directory that is gone after the call.
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

    /// The environment with the directories that are in here.
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
