//! A call that does nothing, to find out how a cache is mounted.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::{BoxedCommand, Cache};

/// The program of the call.
const NOTHING: &str = "/bin/true";

/// A directory that is removed when this is dropped.
pub(super) struct Probe(PathBuf);

impl Probe {
    pub(super) fn make(dir: &Path) -> io::Result<Self> {
        let number = fs::read_to_string("/proc/sys/kernel/random/uuid")?;
        let probe = Self(dir.join(format!(".probe-{}", number.trim())));
        fs::DirBuilder::new().mode(0o700).create(&probe.0)?;
        for part in ["files", "lower", "layer", "layer/upper", "layer/work"] {
            fs::create_dir(probe.0.join(part))?;
        }
        Ok(probe)
    }

    pub(super) fn command(&self) -> BoxedCommand {
        let cache = Cache {
            lower: self.0.join("lower"),
            at: PathBuf::from("cache"),
            below: None,
            layer: Some(self.0.join("layer")),
        };
        BoxedCommand {
            caches: vec![cache],
            ..BoxedCommand::isolated(vec![NOTHING.to_owned()], self.0.join("files"))
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // The kernel leaves an unreadable directory in it.
        let _ = posse_files::trees::remove(&self.0);
    }
}
