//! What a person said that counts beyond one run: small JSON files of their own in the state directory, where no agent
//! reaches them. They may be read by anybody who wonders, and mended by hand.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::SetupError;

const VERSION: u32 = 1;
/// Largest file that is read.
const FILE_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// One such file.
pub(crate) struct KeptFile {
    /// Its name in the state directory.
    pub(crate) name: &'static str,
    /// The process that changes the file holds this one; the file itself is replaced.
    pub(crate) lock: &'static str,
    /// What follows if it is removed, for an error.
    pub(crate) without: &'static str,
}

/// The content with the version of its format, as it is written.
#[derive(Serialize)]
struct VersionedFile<T> {
    version: u32,
    #[serde(flatten)]
    content: T,
}

impl KeptFile {
    /// What is kept; nothing if there is no file.
    pub(crate) fn read<T: DeserializeOwned + Default>(&self, state_dir: &Path) -> Result<T, SetupError> {
        let path = state_dir.join(self.name);
        let wrong = |problem: String| {
            SetupError::usage(format!("{}: {problem}", path.display()))
                .hint(format!("fix the file or remove it; without it {}", self.without))
        };
        let file = match File::open(&path) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(T::default());
            }
            file => file.map_err(|error| wrong(error.to_string()))?,
        };
        let mut text = String::new();
        file.take(FILE_MAX_BYTES).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
        // In two steps: what is flattened into another shape is not read strictly.
        let mut kept: Map<String, Value> =
            serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        match kept.remove("version") {
            Some(version) if version == VERSION => {}
            version => {
                let version = version.unwrap_or_default();
                return Err(wrong(format!("has version {version}, and this Posse knows {VERSION}")));
            }
        }
        serde_json::from_value(Value::Object(kept)).map_err(|error| wrong(error.to_string()))
    }

    /// Changes what is kept. Two who do it at once do it one after the other; nothing is written if `change` fails.
    pub(crate) fn change<T: Serialize + DeserializeOwned + Default>(
        &self,
        state_dir: &Path,
        change: impl FnOnce(&mut T) -> Result<(), SetupError>,
    ) -> Result<(), SetupError> {
        let path = state_dir.join(self.name);
        let failed = |error: std::io::Error| {
            SetupError::failed(format!("{} cannot be written: {error}", path.display()))
        };
        DirBuilder::new().recursive(true).mode(0o700).create(state_dir).map_err(failed)?;
        let lock = own_file(&state_dir.join(self.lock)).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let mut content = self.read(state_dir)?;
        change(&mut content)?;
        let text = serde_json::to_vec_pretty(&VersionedFile { version: VERSION, content })
            .map_err(|error| SetupError::failed(error.to_string()))?;
        replace(&path, state_dir, &text).map_err(failed)
    }
}

fn own_file(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(path)
}

/// The old content or the new, whatever happens meanwhile.
fn replace(path: &Path, state_dir: &Path, text: &[u8]) -> std::io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".kept-").tempfile_in(state_dir)?;
    file.write_all(text)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(state_dir)?.sync_all()
}
