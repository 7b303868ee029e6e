//! A repository above a person's folder: what it ignores in the folder. It is only ever read.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::person::{Person, is_git_dir};
use super::{Answer, Git, WorkspaceError};

/// Most ignored files and directories that are told one by one.
const MAX_IGNORED: usize = 20_000;

/// Stands for a byte that a line of patterns cannot hold: any but the printable ones of ASCII.
const UNWRITABLE: &[u8] = b"[! -~]";

/// What the nearest repository above a folder ignores there.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Above {
    /// There is none.
    Nothing,
    /// The folder as a whole, which tells nothing apart in it.
    Whole,
    /// These patterns name all of it and nothing else.
    Patterns(Vec<u8>),
}

impl Above {
    /// Asks git, once, in the nearest repository above `folder`, which is not the top of one itself.
    pub(super) fn of(folder: &Path, program: &Path, home: Option<&Path>) -> Result<Self, WorkspaceError> {
        for top in folder.ancestors().skip(1) {
            let dot_git = top.join(".git");
            // Git, too, passes by a directory of this name that is no repository.
            if dot_git.is_dir() && !is_git_dir(&dot_git) {
                continue;
            }
            if let Some(person) = Person::open(top, program, home)? {
                let beneath = folder.strip_prefix(top).unwrap_or(folder);
                return ignored(&person.looking_at(top)?, folder, beneath);
            }
        }
        Ok(Self::Nothing)
    }

    /// What the person should know of it.
    pub(super) fn note(&self) -> Option<String> {
        let ignored = match self {
            Self::Nothing => return None,
            Self::Whole => "the folder is itself ignored there, so only its own .gitignore files count",
            Self::Patterns(_) => "what is ignored there is left out",
        };
        Some(format!(
            "the folder lies inside a git repository but is not its top: it is taken as a folder of its own, without the \
             repository's history, and the result is not delivered as a branch; {ignored}"
        ))
    }
}

/// What a repository ignores in `folder`, which is `beneath` its top.
fn ignored(git: &Git, folder: &Path, beneath: &Path) -> Result<Above, WorkspaceError> {
    let answer = list(git, beneath)?;
    if answer.code != Some(0) {
        if is_far_down(git, beneath)? {
            return Ok(Above::Whole);
        }
        let folder_shown = folder.display();
        let why = format!(
            "git does not say what it ignores there ({}; `git -C {folder_shown} status` says more)",
            answer.stderr
        );
        return Err(unsupported(folder, &why));
    }
    let mut patterns = Vec::new();
    for (number, path) in paths(&answer).enumerate() {
        if number == MAX_IGNORED {
            return Err(unsupported(folder, &format!("more than {MAX_IGNORED} files in it are ignored")));
        }
        if beneath.starts_with(OsStr::from_bytes(path)) {
            return Ok(Above::Whole);
        }
        // With its slash.
        pattern(path.get(beneath.as_os_str().len() + 1..).unwrap_or_default(), &mut patterns);
    }
    Ok(Above::Patterns(patterns))
}

/// Asks for what is ignored; a directory of which all is, is one path.
fn list(git: &Git, beneath: &Path) -> Result<Answer, WorkspaceError> {
    let words = ["ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z", "--"];
    let args: Vec<&OsStr> = words.iter().map(OsStr::new).chain([beneath.as_os_str()]).collect();
    git.ask(&args, &[])
}

fn paths(answer: &Answer) -> impl Iterator<Item = &[u8]> {
    answer.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty())
}

/// Whether a directory is far down in an ignored one. Git fails when it is asked for such a directory, but answers for
/// one above it.
fn is_far_down(git: &Git, beneath: &Path) -> Result<bool, WorkspaceError> {
    for above in beneath.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
        let answer = list(git, above)?;
        if answer.code == Some(0) {
            return Ok(paths(&answer).any(|path| beneath.starts_with(OsStr::from_bytes(path))));
        }
    }
    Ok(false)
}

fn unsupported(folder: &Path, why: &str) -> WorkspaceError {
    WorkspaceError::Unsupported(format!(
        "{} lies inside a git repository, and {why}; work at the repository's top instead",
        folder.display()
    ))
}

/// Adds a line that matches this path and no other, unless they differ only in [`UNWRITABLE`] bytes.
fn pattern(path: &[u8], patterns: &mut Vec<u8>) {
    patterns.push(b'/');
    for chunk in path.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\\' | '*' | '?' | '[' | ']' | '{' | '}' | ' ' => patterns.extend([b'\\', char as u8]),
                // At the end of a line some of them are taken for nothing.
                char if char.is_whitespace() || char.is_control() => {
                    patterns.extend(UNWRITABLE.repeat(char.len_utf8()));
                }
                char => patterns.extend(char.encode_utf8(&mut [0; 4]).bytes()),
            }
        }
        patterns.extend(UNWRITABLE.repeat(chunk.invalid().len()));
    }
    patterns.push(b'\n');
}

/// Refuses a repository that has no files of its own: its folder is the repository itself.
pub(super) fn refuse_bare(folder: &Path) -> Result<(), WorkspaceError> {
    if !is_git_dir(folder) || folder.join(".git").exists() {
        return Ok(());
    }
    let clone: PathBuf = folder.file_stem().map_or_else(|| "checkout".into(), PathBuf::from);
    Err(WorkspaceError::Unsupported(format!(
        "{} is a bare git repository: what it holds are git's own files, which no agent may change; work on a checkout, \
         for example one made with `git clone {} {}`",
        folder.display(),
        folder.display(),
        clone.display()
    )))
}
