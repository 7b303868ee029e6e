//! A temporary repository with copies of a few files of the user's repository, for formats that only git reads: rare
//! indexes and refs. Git never runs where a project's author wrote the configuration.

use std::path::{Path, PathBuf};

use super::{Git, RepositoryError, disk};

const NAME: &str = "shadow";

/// Removed when it is dropped.
#[derive(Debug)]
pub(super) struct Shadow {
    dir: PathBuf,
    git: Git,
}

impl Shadow {
    /// Creates one in the directory `project`, which reads the objects at `objects`. `extensions` is the part of its
    /// configuration that declares formats.
    pub(super) fn new(
        program: &Path,
        project: &Path,
        objects: &Path,
        extensions: &str,
    ) -> Result<Self, RepositoryError> {
        for left in super::gc::entries_of(project)? {
            if left.file_name().is_some_and(|name| {
                name.as_encoded_bytes().starts_with(NAME.as_bytes()) && disk::maker_is_gone(name)
            }) {
                disk::remove_tree(&left)?;
            }
        }
        let dir = disk::temporary(&project.join(NAME));
        let shadow = Self { git: Git::at(program, &dir), dir };
        disk::remove_tree(&shadow.dir)?;
        let version = u8::from(!extensions.is_empty());
        let config = format!("[core]\nrepositoryformatversion = {version}\nbare = true\n{extensions}");
        let alternates = [objects.as_os_str().as_encoded_bytes(), b"\n"].concat();
        shadow.put("config", config.as_bytes())?;
        shadow.put("HEAD", b"ref: refs/heads/none\n")?;
        shadow.put("objects/info/alternates", &alternates)?;
        disk::make_dirs(&shadow.dir.join("refs/heads"))?;
        Ok(shadow)
    }

    /// Writes a file into it.
    pub(super) fn put(&self, name: &str, content: &[u8]) -> Result<(), RepositoryError> {
        let path = self.dir.join(name);
        path.parent().map_or(Ok(()), disk::make_dirs)?;
        std::fs::write(&path, content).map_err(disk::failed("writing", &path))
    }

    /// Removes a file or a directory from it.
    pub(super) fn remove(&self, name: &str) -> Result<(), RepositoryError> {
        disk::remove_tree(&self.dir.join(name))
    }

    pub(super) fn git(&self) -> &Git {
        &self.git
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        // After a crash, the next one removes it.
        drop(disk::remove_tree(&self.dir));
    }
}
