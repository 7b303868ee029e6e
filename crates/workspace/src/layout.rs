//! Creates a new folder with recorded files as its own repository, which a replay begins with.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use posse_engine::ports::FileKind;

use super::{Git, RepositoryError, disk};

/// A new folder that is filled with the files of a base.
#[derive(Debug)]
pub struct Layout {
    dir: PathBuf,
    /// Created last, so that no file is written through a link.
    symlinks: Vec<(PathBuf, Vec<u8>)>,
}

impl Layout {
    /// Creates the folder.
    pub fn new(dir: &Path) -> Result<Self, RepositoryError> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(disk::failed("making", dir))?;
        Ok(Self { dir: dir.to_owned(), symlinks: Vec::new() })
    }

    /// Adds a file. The caller ensures that its path stays beneath the folder.
    pub fn add(&mut self, path: &Path, kind: FileKind, content: Vec<u8>) -> Result<(), RepositoryError> {
        let path = self.dir.join(path);
        if kind == FileKind::Symlink {
            self.symlinks.push((path, content));
            return Ok(());
        }
        self.make_above(&path)?;
        let mode = if kind == FileKind::Executable { 0o755 } else { 0o644 };
        let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
        let written = opened.and_then(|mut opened| opened.write_all(&content));
        written.map_err(disk::failed("writing", &path))
    }

    fn make_above(&self, path: &Path) -> Result<(), RepositoryError> {
        let above = path.parent().unwrap_or(&self.dir);
        fs::create_dir_all(above).map_err(disk::failed("making", above))
    }

    /// Turns the folder into a repository and commits every file, whatever its ignore files say.
    pub fn finish(self, program: &Path) -> Result<(), RepositoryError> {
        for (path, target) in &self.symlinks {
            self.make_above(path)?;
            let target = Path::new(std::ffi::OsStr::from_bytes(target));
            symlink(target, path).map_err(disk::failed("linking", path))?;
        }
        let settings = ["user.name=posse", "user.email=posse@localhost", "core.autocrlf=false"];
        let git = Git::at(program, &self.dir.join(".git"))
            .with_work_tree(&self.dir)
            .with_settings(settings.map(str::to_owned).to_vec());
        git.run(&["init", "--quiet"])?;
        // Contents are stored unchanged: attributes were applied when they were recorded.
        let info = self.dir.join(".git/info");
        let raw = b"* !text !eol !filter !ident !working-tree-encoding\n";
        let written = fs::create_dir_all(&info).and_then(|()| fs::write(info.join("attributes"), raw));
        written.map_err(disk::failed("writing", &info))?;
        git.run(&["add", "--all", "--force"])?;
        let line = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
        let tree = line(git.run(&["write-tree"])?);
        let commit = line(git.run(&["commit-tree", &tree, "-m", "the recorded base"])?);
        git.run(&["update-ref", "HEAD", &commit]).map(drop)
    }
}
