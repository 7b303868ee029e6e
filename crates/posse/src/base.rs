//! The files that a run began with: read from Posse's repository, and laid out again somewhere else.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use posse_workspace::{Git, RunSpace, WorkspaceError};

use crate::bundle::{BaseFile, FileKind};

/// Bytes of files that are asked for at once.
const BATCH_BYTES: u64 = 32 * 1024 * 1024;

/// A file of a tree, without its content.
#[derive(Debug, Clone)]
struct TreeFile {
    kind: FileKind,
    oid: String,
    bytes: u64,
    path: PathBuf,
}

/// Hands every file of the run's base to `take`; gives what is not a file, each with why it is left out.
pub(crate) fn each_file<E: From<WorkspaceError>>(
    space: &RunSpace,
    mut take: impl FnMut(BaseFile) -> Result<(), E>,
) -> Result<Vec<String>, E> {
    let git = space.git();
    let tree = space.base()?.tree.to_string();
    let (listed, left_out) = list(&git, &tree)?;
    let mut rest = listed.as_slice();
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |file: &&TreeFile| {
            bytes += file.bytes;
            bytes <= BATCH_BYTES
        };
        let count = rest.iter().take_while(fits).count().max(1);
        let (batch, after) = rest.split_at(count);
        for (file, content) in batch.iter().zip(contents(&git, batch)?) {
            take(BaseFile { path: file.path.clone(), kind: file.kind, content })?;
        }
        rest = after;
    }
    Ok(left_out)
}

fn list(git: &Git, tree: &str) -> Result<(Vec<TreeFile>, Vec<String>), WorkspaceError> {
    let text = git.run(&["ls-tree", "-r", "-z", "-l", "--full-tree", tree])?;
    let (mut listed, mut left_out) = (Vec::new(), Vec::new());
    for line in text.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
        let unreadable = || WorkspaceError::Damaged(format!("git listed the tree {tree} in another form"));
        let tab = line.iter().position(|byte| *byte == b'\t').ok_or_else(unreadable)?;
        let path = PathBuf::from(std::ffi::OsString::from_vec(line[tab + 1..].to_vec()));
        let head = String::from_utf8_lossy(&line[..tab]);
        let mut words = head.split_whitespace();
        let (Some(mode), Some(_), Some(oid), Some(bytes)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(unreadable());
        };
        let kind = match mode {
            "100644" => FileKind::Plain,
            "100755" => FileKind::Executable,
            "120000" => FileKind::Symlink,
            _ => {
                left_out.push(format!(
                    "{}: a repository of its own, of which only the commit is known",
                    path.display()
                ));
                continue;
            }
        };
        listed.push(TreeFile {
            kind,
            oid: oid.to_owned(),
            bytes: bytes.parse().map_err(|_| unreadable())?,
            path,
        });
    }
    Ok((listed, left_out))
}

fn contents(git: &Git, files: &[TreeFile]) -> Result<Vec<Vec<u8>>, WorkspaceError> {
    let names: Vec<&str> = files.iter().map(|file| file.oid.as_str()).collect();
    let names = format!("{}\n", names.join("\n"));
    let answer = git.run_with(&["cat-file", "--batch"], names.as_bytes())?;
    let mut rest = answer.as_slice();
    let mut contents = Vec::with_capacity(files.len());
    for file in files {
        let lost =
            || WorkspaceError::Damaged(format!("git does not give {} ({})", file.oid, file.path.display()));
        let line = rest.iter().position(|byte| *byte == b'\n').ok_or_else(lost)?;
        let head = format!("{} blob {}", file.oid, file.bytes);
        let length = usize::try_from(file.bytes).map_err(|_| lost())?;
        if rest[..line] != *head.as_bytes() || rest.len() < line + 1 + length + 1 {
            return Err(lost());
        }
        contents.push(rest[line + 1..line + 1 + length].to_vec());
        rest = &rest[line + 1 + length + 1..];
    }
    Ok(contents)
}

/// A new folder that is filled with the files of a base.
pub(crate) struct Layout {
    dir: PathBuf,
    /// Made last: nothing is ever written through one.
    symlinks: Vec<(PathBuf, Vec<u8>)>,
}

impl Layout {
    /// Makes the folder.
    pub(crate) fn new(dir: &Path) -> Result<Self, WorkspaceError> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(|error| io("making", dir, &error))?;
        Ok(Self { dir: dir.to_owned(), symlinks: Vec::new() })
    }

    /// Adds a file. Its path stays beneath the folder; whoever gives it has made sure of that.
    pub(crate) fn add(&mut self, file: BaseFile) -> Result<(), WorkspaceError> {
        let path = self.dir.join(&file.path);
        if file.kind == FileKind::Symlink {
            self.symlinks.push((path, file.content));
            return Ok(());
        }
        self.make_above(&path)?;
        let mode = if file.kind == FileKind::Executable { 0o755 } else { 0o644 };
        let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
        let written = opened.and_then(|mut opened| opened.write_all(&file.content));
        written.map_err(|error| io("writing", &path, &error))
    }

    fn make_above(&self, path: &Path) -> Result<(), WorkspaceError> {
        let above = path.parent().unwrap_or(&self.dir);
        fs::create_dir_all(above).map_err(|error| io("making", above, &error))
    }

    /// Makes it a repository in which all of it is committed, whatever its ignore files say.
    pub(crate) fn finish(self, program: &Path) -> Result<(), WorkspaceError> {
        for (path, target) in &self.symlinks {
            self.make_above(path)?;
            let target = Path::new(std::ffi::OsStr::from_bytes(target));
            symlink(target, path).map_err(|error| io("linking", path, &error))?;
        }
        let settings = ["user.name=posse", "user.email=posse@localhost", "core.autocrlf=false"];
        let git = Git::at(program, &self.dir.join(".git"))
            .with_work_tree(&self.dir)
            .with_settings(settings.map(str::to_owned).to_vec());
        git.run(&["init", "--quiet"])?;
        // Contents are taken as they are: what attributes say of them was done when they were recorded.
        let info = self.dir.join(".git/info");
        let raw = b"* !text !eol !filter !ident !working-tree-encoding\n";
        let written = fs::create_dir_all(&info).and_then(|()| fs::write(info.join("attributes"), raw));
        written.map_err(|error| io("writing", &info, &error))?;
        git.run(&["add", "--all", "--force"])?;
        let line = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
        let tree = line(git.run(&["write-tree"])?);
        let commit = line(git.run(&["commit-tree", &tree, "-m", "the recorded base"])?);
        git.run(&["update-ref", "HEAD", &commit]).map(drop)
    }
}

fn io(what: &str, path: &Path, error: &std::io::Error) -> WorkspaceError {
    WorkspaceError::Unsupported(format!("{what} {}: {error}", path.display()))
}
