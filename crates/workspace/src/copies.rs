//! Copies ignored files that `workspace.copy` names into workspaces, and keeps their content out of all commits.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use rustix::fs::{Mode as Permissions, OFlags};
use serde::{Deserialize, Serialize};

use super::object::{self, ObjectType};
use super::{ObjectId, RepositoryError, disk};

/// Limit of copied files.
const MAX_COPIES: usize = 1000;
/// Largest file that is copied.
const MAX_COPY_BYTES: u64 = 16 * 1024 * 1024;
/// A shorter file may equal a copied one by chance, so it counts as work.
pub(crate) const SECRET_MIN_BYTES: u64 = 32;
/// The reason that is reported when such a file is omitted.
pub(crate) const SECRET: &str = "the content is that of a file named by workspace.copy";
const WILD: &[char] = &['*', '?', '[', '{', '\\'];

/// Selects the ignored files to copy. A glob without a slash matches a name anywhere outside ignored directories. One
/// with a slash matches from the top, also inside an ignored directory that it names (`secrets/**`).
#[derive(Debug, Default)]
pub(crate) struct CopyPatterns {
    globs: GlobSet,
    /// The literal prefix of each glob, up to its last slash before a wildcard.
    roots: Vec<Vec<u8>>,
}

impl CopyPatterns {
    /// Parses the globs of the settings.
    pub(crate) fn new(globs: &[String]) -> Result<Self, RepositoryError> {
        let mut set = GlobSetBuilder::new();
        let mut roots = Vec::new();
        for text in globs {
            let glob = text.trim_start_matches('/');
            let anywhere = if glob.contains('/') { glob.to_owned() } else { format!("**/{glob}") };
            let built = GlobBuilder::new(&anywhere).literal_separator(true).build();
            set.add(built.map_err(|error| bad_glob(text, &error))?);
            let literal = glob.find(WILD).map_or(glob, |at| &glob[..at]);
            roots.extend(literal.rfind('/').map(|at| literal.as_bytes()[..=at].to_vec()));
        }
        let globs = set.build().map_err(|error| bad_glob(&globs.join(", "), &error))?;
        Ok(Self { globs, roots })
    }

    /// Whether an ignored file is copied.
    pub(crate) fn takes(&self, path: &[u8]) -> bool {
        !self.globs.is_empty() && std::str::from_utf8(path).is_ok_and(|path| self.globs.is_match(path))
    }

    /// Whether an ignored directory may contain a file to copy. `dir` ends in a slash.
    pub(crate) fn may_be_beneath(&self, dir: &[u8]) -> bool {
        self.roots.iter().any(|root| root.starts_with(dir) || dir.starts_with(root))
    }
}

fn bad_glob(text: &str, error: &globset::Error) -> RepositoryError {
    RepositoryError::Unsupported(format!(
        "workspace.copy has `{text}`, which is not a glob: {}",
        error.kind()
    ))
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CopiedFile {
    pub(crate) path: String,
    /// The id that the content would have as an object. It never becomes one.
    pub(crate) name: String,
    pub(crate) executable: bool,
}

/// The copied files of a run.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    pub(crate) files: Vec<CopiedFile>,
}

impl Copies {
    /// Copies the files at `paths` from a folder to `store`, which belongs to the run.
    pub(crate) fn take(root: &OwnedFd, paths: &[Vec<u8>], store: &Path) -> Result<Self, RepositoryError> {
        if paths.len() > MAX_COPIES {
            return Err(RepositoryError::Unsupported(format!(
                "workspace.copy matches {} ignored files; at most {MAX_COPIES} are brought along, so name fewer",
                paths.len()
            )));
        }
        let mut files = Vec::new();
        for path in paths {
            // It matched a glob as text, so it is UTF-8.
            let path = String::from_utf8_lossy(path).into_owned();
            let (content, executable) = read(root, &path)?;
            let at = store.join(&path);
            at.parent().map_or(Ok(()), disk::make_dirs)?;
            disk::write_durably(&at, &content)?;
            let name = object::name(ObjectType::Blob, &content).to_string();
            files.push(CopiedFile { path, name, executable });
        }
        Ok(Self { files })
    }

    pub(crate) fn paths(&self) -> HashSet<Vec<u8>> {
        self.files.iter().map(|file| file.path.as_bytes().to_vec()).collect()
    }

    /// Ids of contents that must not become objects, if they have at least [`SECRET_MIN_BYTES`].
    pub(crate) fn names(&self) -> HashSet<ObjectId> {
        self.files.iter().filter_map(|file| file.name.parse().ok()).collect()
    }
}

fn read(root: &OwnedFd, path: &str) -> Result<(Vec<u8>, bool), RepositoryError> {
    use std::os::unix::fs::PermissionsExt;
    let failed = disk::failed("copying", Path::new(path));
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = super::content::open_beneath(root, path.as_bytes(), flags, Permissions::empty());
    let file = File::from(file.map_err(|error| failed(error.into()))?);
    let metadata = file.metadata().map_err(&failed)?;
    let mut content = Vec::new();
    file.take(MAX_COPY_BYTES + 1).read_to_end(&mut content).map_err(&failed)?;
    if !metadata.is_file() || content.len() as u64 > MAX_COPY_BYTES {
        return Err(RepositoryError::Unsupported(format!(
            "workspace.copy matches {path}, which is larger than {MAX_COPY_BYTES} bytes; name less"
        )));
    }
    Ok((content, metadata.permissions().mode() & 0o100 != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_say_what_is_brought_along() {
        let wanted = CopyPatterns::new(&[".env".to_owned(), "secrets/**".to_owned(), "a/b/*.key".to_owned()]);
        let wanted = wanted.expect("globs");
        for yes in [".env", "sub/.env", "secrets/x/y", "a/b/c.key"] {
            assert!(wanted.takes(yes.as_bytes()), "{yes}");
        }
        for no in ["env", ".env.local", "x/secrets/y", "a/b/c/d.key"] {
            assert!(!wanted.takes(no.as_bytes()), "{no}");
        }
        for dir in ["secrets/", "secrets/x/", "a/", "a/b/"] {
            assert!(wanted.may_be_beneath(dir.as_bytes()), "{dir}");
        }
        for dir in ["node_modules/", "x/secrets/"] {
            assert!(!wanted.may_be_beneath(dir.as_bytes()), "{dir}");
        }
        assert!(CopyPatterns::new(&["a{".to_owned()]).is_err());
    }
}
