//! Lists and reads the files of a commit in Posse's repository, for exports and replays of a run.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use posse_engine::ports::{FileKind, FileListing, ListedFile};

use super::change::unreadable;
use super::{Git, ObjectId, RepositoryError};

pub(super) fn list(git: &Git, tree: &ObjectId) -> Result<FileListing, RepositoryError> {
    let text = git.run(&["ls-tree", "-r", "-z", "-l", "--full-tree", &tree.to_string()])?;
    let mut listing = FileListing::default();
    for line in text.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
        let tab = line.iter().position(|byte| *byte == b'\t').ok_or_else(|| unreadable("ls-tree"))?;
        let path = PathBuf::from(OsString::from_vec(line[tab + 1..].to_vec()));
        let head = String::from_utf8_lossy(&line[..tab]);
        let mut words = head.split_whitespace();
        let (Some(mode), Some(_), Some(object), Some(bytes)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(unreadable("ls-tree"));
        };
        let kind = match mode {
            "100644" => FileKind::Plain,
            "100755" => FileKind::Executable,
            "120000" => FileKind::Symlink,
            _ => {
                let why = "a repository of its own, of which only the commit is known";
                listing.omitted.push(format!("{}: {why}", path.display()));
                continue;
            }
        };
        let object = object.parse().map_err(|_| unreadable("ls-tree"))?;
        let bytes = bytes.parse().map_err(|_| unreadable("ls-tree"))?;
        listing.files.push(ListedFile { path, kind, object, bytes });
    }
    Ok(listing)
}

/// The contents of files, in their order.
pub(super) fn contents(git: &Git, files: &[ListedFile]) -> Result<Vec<Vec<u8>>, RepositoryError> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<String> = files.iter().map(|file| format!("{}\n", file.object)).collect();
    let answer = git.run_with(&["cat-file", "--batch"], names.concat().as_bytes())?;
    let mut rest = answer.as_slice();
    let mut contents = Vec::with_capacity(files.len());
    for file in files {
        let lost = || {
            RepositoryError::Damaged(format!("git does not give {} ({})", file.object, file.path.display()))
        };
        let line = rest.iter().position(|byte| *byte == b'\n').ok_or_else(lost)?;
        let head = format!("{} blob {}", file.object, file.bytes);
        let length = usize::try_from(file.bytes).map_err(|_| lost())?;
        if rest[..line] != *head.as_bytes() || rest.len() < line + 1 + length + 1 {
            return Err(lost());
        }
        contents.push(rest[line + 1..line + 1 + length].to_vec());
        rest = &rest[line + 1 + length + 1..];
    }
    Ok(contents)
}
