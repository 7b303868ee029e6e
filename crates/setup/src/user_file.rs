//! Stores a user's decisions beyond one run, such as trust: small JSON files in the state directory, which no agent can
//! access. A user may read and fix them by hand.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use posse::atomic_file::{self, ExistingFile};
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
    /// The lock file of a process that changes the file, which itself is replaced.
    pub(crate) lock: &'static str,
    /// The consequence of removing the file, for an error.
    pub(crate) without: &'static str,
}

/// Why such a file could not be read or changed.
#[derive(Debug)]
pub(crate) enum KeptFileError {
    /// The file cannot be read, or its content is invalid.
    Unreadable {
        path: PathBuf,
        problem: String,
        /// What a user can do about it.
        hint: String,
    },
    /// The file cannot be written.
    Unwritable { path: PathBuf, problem: String },
}

impl From<KeptFileError> for SetupError {
    fn from(error: KeptFileError) -> Self {
        match error {
            KeptFileError::Unreadable { path, problem, hint } => {
                SetupError::usage(format!("{}: {problem}", path.display())).hint(hint)
            }
            KeptFileError::Unwritable { path, problem } => {
                SetupError::failed(format!("{} cannot be written: {problem}", path.display()))
            }
        }
    }
}

/// The content with the version of its format, as it is written.
#[derive(Serialize)]
struct VersionedFile<T> {
    version: u32,
    #[serde(flatten)]
    content: T,
}

impl KeptFile {
    /// Reads the content; the default if the file does not exist.
    pub(crate) fn read<T: DeserializeOwned + Default>(&self, state_dir: &Path) -> Result<T, KeptFileError> {
        let path = state_dir.join(self.name);
        let wrong =
            |problem: String| KeptFileError::Unreadable { path: path.clone(), problem, hint: self.hint() };
        let file = match File::open(&path) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(T::default());
            }
            file => file.map_err(|error| wrong(error.to_string()))?,
        };
        let mut text = String::new();
        file.take(FILE_MAX_BYTES).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
        // In two steps, because a flattened type is not parsed strictly.
        let mut kept: Map<String, Value> =
            serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        match kept.remove("version") {
            Some(version) if version == VERSION => {}
            version => {
                let version = version.unwrap_or_default();
                return Err(wrong(format!(
                    "has version {version}; this version of Posse supports {VERSION}"
                )));
            }
        }
        serde_json::from_value(Value::Object(kept)).map_err(|error| wrong(error.to_string()))
    }

    /// What a user can do about a file that cannot be read.
    pub(crate) fn hint(&self) -> String {
        format!("fix the file or remove it; without it {}", self.without)
    }

    /// Changes the content. Concurrent changes are serialised, and nothing is written if `change` fails.
    pub(crate) fn change<T: Serialize + DeserializeOwned + Default, E: From<KeptFileError>>(
        &self,
        state_dir: &Path,
        change: impl FnOnce(&mut T) -> Result<(), E>,
    ) -> Result<(), E> {
        let path = state_dir.join(self.name);
        let failed = |error: std::io::Error| KeptFileError::Unwritable {
            path: path.clone(),
            problem: error.to_string(),
        };
        DirBuilder::new().recursive(true).mode(0o700).create(state_dir).map_err(failed)?;
        let lock = own_file(&state_dir.join(self.lock)).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let mut content = self.read(state_dir)?;
        change(&mut content)?;
        let text = serde_json::to_vec_pretty(&VersionedFile { version: VERSION, content })
            .map_err(|error| failed(error.into()))?;
        let written = atomic_file::write(&path, atomic_file::PRIVATE, ExistingFile::Replace, |file| {
            file.write_all(&text)
        });
        Ok(written.map_err(failed)?)
    }
}

fn own_file(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(path)
}
