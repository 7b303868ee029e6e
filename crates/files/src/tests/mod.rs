//! Tests of the whole crate. Tests of a single module are in that module.

mod find;
mod fuzz;
mod hostile;
mod race;
mod read;
mod write;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;

/// Content that must never be seen or changed.
const SECRET: &str = "SECRET";

/// A workspace `ws`, beside it a twin `ws-evil` with a secret.
struct Scene {
    top: TempDir,
    beneath: DirHandle,
}

impl Scene {
    fn new() -> Self {
        let top = tempfile::tempdir().unwrap();
        let ws = top.path().join("ws");
        fs::create_dir(&ws).unwrap();
        let evil = top.path().join("ws-evil");
        fs::create_dir_all(evil.join("SECRET-dir")).unwrap();
        fs::write(evil.join("secret.txt"), format!("{SECRET}\n")).unwrap();
        fs::write(evil.join("SECRET-dir/SECRET-name.txt"), format!("{SECRET}\n")).unwrap();
        let beneath = DirHandle::open(&ws).unwrap();
        Self { top, beneath }
    }

    fn ws(&self, path: &str) -> PathBuf {
        self.top.path().join("ws").join(path)
    }

    fn evil(&self, path: &str) -> PathBuf {
        self.top.path().join("ws-evil").join(path)
    }

    fn file(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.ws(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    fn link(&self, target: impl AsRef<std::path::Path>, path: &str) -> &Self {
        symlink(target, self.ws(path)).unwrap();
        self
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, FileError> {
        self.beneath.read(&at(path))
    }

    fn glob(&self, pattern: &str) -> Vec<String> {
        let pattern = GlobPattern::parse(&RelPath::root(), pattern).unwrap();
        let found = self.beneath.glob(&pattern, GLOB_RESULTS_MAX, &Stop::new()).unwrap();
        assert_eq!(found.files.len(), found.total);
        found.files.iter().map(ToString::to_string).collect()
    }

    fn list(&self, path: &str) -> Vec<String> {
        let listing = self.beneath.list(&at(path)).unwrap();
        listing.entries.iter().map(|entry| entry.path.to_string()).collect()
    }

    fn write(&self, path: &str, content: &str, expected: ExpectedFile) -> Result<(), FileError> {
        self.beneath.replace(&at(path), content.as_bytes(), expected, &Stop::new())
    }

    /// Every name in a directory of the workspace, finished or not.
    fn names(&self, path: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.ws(path))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

fn at(path: &str) -> RelPath {
    if path.is_empty() { RelPath::root() } else { RelPath::parse(path).unwrap() }
}

fn hash(content: &str) -> ExpectedFile {
    ExpectedFile::Hash(*blake3::hash(content.as_bytes()).as_bytes())
}
