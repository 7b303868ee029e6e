//! A repository above a person's folder: what it ignores in the folder. It is only ever read, and never by git.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::git_dir::read_at;
use super::ignored::{IgnorePatterns, MAX_PATTERNS_BYTES};
use super::index::{self, Index, TrackedFile};
use super::project::Project;
use super::user_repository::{Person, TopOfFolder, is_git_dir};
use super::{WorkspaceError, WorkspaceOptions};

/// Most ignored files and directories that are told one by one.
pub(super) const MAX_IGNORED: usize = 20_000;

/// Stands for a byte that a line of patterns cannot hold: any but the printable ones of ASCII.
const UNWRITABLE: &[u8] = b"[! -~]";

/// What the nearest repository above a folder says of it.
#[derive(Debug)]
pub(super) enum EnclosingRepository {
    /// There is none.
    Nothing,
    /// There is one of another user, which is not read.
    Foreign(String),
    /// It ignores the folder as a whole, which tells nothing apart in it.
    Whole,
    /// It ignores some of it.
    Part {
        /// By these patterns.
        ignored: IgnorePatterns,
        /// But for these files, which it tracks.
        tracked: Vec<TrackedFile>,
    },
}

impl EnclosingRepository {
    /// Looks for the nearest repository above `folder`, which is not the top of one itself.
    pub(super) fn of(
        folder: &Path,
        project: &Project,
        options: &WorkspaceOptions,
    ) -> Result<Self, WorkspaceError> {
        for top in folder.ancestors().skip(1) {
            let dot_git = top.join(".git");
            // Git, too, passes by a directory of this name that is no repository.
            if dot_git.is_dir() && !is_git_dir(&dot_git) {
                continue;
            }
            match Person::open(top, &options.git, options.home.as_deref())? {
                TopOfFolder::Nothing => {}
                TopOfFolder::Foreign(why) => return Ok(Self::Foreign(why.to_string())),
                TopOfFolder::Repository(person) => return Self::read(&person, top, folder, project, options),
            }
        }
        Ok(Self::Nothing)
    }

    fn read(
        person: &Person,
        top: &Path,
        folder: &Path,
        project: &Project,
        options: &WorkspaceOptions,
    ) -> Result<Self, WorkspaceError> {
        let beneath = folder.strip_prefix(top).unwrap_or(folder);
        let lead = |above: &Path| {
            let rest = beneath.strip_prefix(above).unwrap_or(beneath);
            [rest.as_os_str().as_bytes(), b"/"].concat()
        };
        let excludes = person.excludes()?;
        let mut ignored = excludes.iter().fold(IgnorePatterns::default(), |ignored, text| {
            ignored.with_from_above(text, &lead(Path::new("")))
        });
        let tracked = tracked_beneath(person, top, beneath, project, options)?;
        // From the top down: what is ignored above is not asked about below.
        let above: Vec<&Path> = beneath.ancestors().collect();
        for (dir, next) in above.iter().rev().zip(above.iter().rev().skip(1)) {
            let text = read_at(&top.join(dir).join(".gitignore"), MAX_PATTERNS_BYTES);
            // What is no plain file has no patterns, as in the folder itself.
            ignored = ignored.with_from_above(&text.ok().flatten().unwrap_or_default(), &lead(dir));
            if ignored.matches_above(beneath.as_os_str().as_bytes(), next.as_os_str().as_bytes()) {
                if tracked.is_empty() {
                    return Ok(Self::Whole);
                }
                // All but what is tracked.
                ignored = ignored.with(b"*", 0);
                break;
            }
        }
        Ok(Self::Part { ignored, tracked })
    }

    /// The patterns that hold in the folder.
    pub(super) fn ignored(&self) -> IgnorePatterns {
        match self {
            Self::Part { ignored, .. } => ignored.clone(),
            _ => IgnorePatterns::default(),
        }
    }

    /// The files of the folder that the repository tracks. What they contain is not known: its objects are not read.
    pub(super) fn tracked(&self) -> Vec<TrackedFile> {
        let Self::Part { tracked, .. } = self else { return Vec::new() };
        let unread = |tracked: &TrackedFile| TrackedFile {
            skipped: false,
            settled: false,
            stat: None,
            ..tracked.clone()
        };
        tracked.iter().filter(|tracked| tracked.mode.is_file()).map(unread).collect()
    }

    /// What the person should know of it.
    pub(super) fn note(&self) -> Option<String> {
        let ignored = match self {
            Self::Nothing => return None,
            Self::Foreign(why) => {
                return Some(format!("the folder lies inside a git repository that is not read: {why}"));
            }
            Self::Whole => "the folder is itself ignored there, so only its own .gitignore files count",
            Self::Part { .. } => "what is ignored there is left out",
        };
        Some(format!(
            "the folder lies inside a git repository but is not its top: it is taken as a folder of its own, without the \
             repository's history, and the result is not delivered as a branch; {ignored}"
        ))
    }
}

/// The files that a repository tracks in the directory `beneath` its top, with their paths from there.
fn tracked_beneath(
    person: &Person,
    top: &Path,
    beneath: &Path,
    project: &Project,
    options: &WorkspaceOptions,
) -> Result<Vec<TrackedFile>, WorkspaceError> {
    let tracked = match index::read(&person.git_dir)? {
        Index::Read(tracked) => tracked,
        Index::Odd(bytes) => index::read_odd(&person.git_dir, &bytes, project, &options.git, top)?,
    };
    let prefix = [beneath.as_os_str().as_bytes(), b"/"].concat();
    let inside = |mut tracked: TrackedFile| {
        tracked.path = tracked.path.strip_prefix(prefix.as_slice())?.to_vec();
        Some(tracked)
    };
    Ok(tracked.into_iter().filter_map(inside).collect())
}

/// Patterns that name exactly these paths, which were left out of the folder.
pub(super) fn patterns_of(paths: &[Vec<u8>], folder: &Path) -> Result<Vec<u8>, WorkspaceError> {
    if paths.len() > MAX_IGNORED {
        return Err(WorkspaceError::Unsupported(format!(
            "{} lies inside a git repository, and more than {MAX_IGNORED} files in it are ignored; work at the \
             repository's top instead",
            folder.display()
        )));
    }
    let mut patterns = Vec::new();
    for path in paths {
        pattern(path, &mut patterns);
    }
    Ok(patterns)
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
