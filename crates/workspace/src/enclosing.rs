//! Reads what a repository above the user's folder ignores in it, for snapshots of a subfolder. The repository is only
//! read, and never by git.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::git_dir::read_at;
use super::ignored::{IgnorePatterns, MAX_PATTERNS_BYTES};
use super::index::{self, Index, TrackedFile};
use super::project::Project;
use super::user_repository::{TopOfFolder, UserRepository, is_git_dir};
use super::{RepositoryError, WorkspaceOptions};

/// Limit of ignored files and directories that are listed one by one.
pub(super) const MAX_IGNORED: usize = 20_000;

/// Matches a byte that a line of patterns cannot contain: any but the printable ones of ASCII.
const UNWRITABLE: &[u8] = b"[! -~]";

/// What the nearest repository above a folder says about it.
#[derive(Debug)]
pub(super) enum EnclosingRepository {
    /// There is no such repository.
    Nothing,
    /// It belongs to another user and is not read.
    Foreign(String),
    /// It ignores the whole folder, which says nothing about single files.
    Whole,
    /// It ignores some files of the folder.
    Part {
        ignored: IgnorePatterns,
        /// Tracked files, which are not ignored even if a pattern matches.
        tracked: Vec<TrackedFile>,
    },
}

impl EnclosingRepository {
    /// Finds the nearest repository above `folder`, which is not itself the top of one.
    pub(super) fn of(
        folder: &Path,
        project: &Project,
        options: &WorkspaceOptions,
    ) -> Result<Self, RepositoryError> {
        for top in folder.ancestors().skip(1) {
            let dot_git = top.join(".git");
            // Git, too, skips a directory of this name that is not a repository.
            if dot_git.is_dir() && !is_git_dir(&dot_git) {
                continue;
            }
            match UserRepository::open(top, &options.git, options.home.as_deref())? {
                TopOfFolder::Nothing => {}
                TopOfFolder::Foreign(why) => return Ok(Self::Foreign(why.to_string())),
                TopOfFolder::Repository(user_repository) => {
                    return Self::read(&user_repository, top, folder, project, options);
                }
            }
        }
        Ok(Self::Nothing)
    }

    fn read(
        user_repository: &UserRepository,
        top: &Path,
        folder: &Path,
        project: &Project,
        options: &WorkspaceOptions,
    ) -> Result<Self, RepositoryError> {
        let beneath = folder.strip_prefix(top).unwrap_or(folder);
        let lead = |above: &Path| {
            let rest = beneath.strip_prefix(above).unwrap_or(beneath);
            [rest.as_os_str().as_bytes(), b"/"].concat()
        };
        let excludes = user_repository.excludes()?;
        let mut ignored = excludes.iter().fold(IgnorePatterns::default(), |ignored, text| {
            ignored.with_from_above(text, &lead(Path::new("")))
        });
        let tracked = tracked_beneath(user_repository, top, beneath, project, options)?;
        // From the top down: an ignored parent decides for everything below it.
        let above: Vec<&Path> = beneath.ancestors().collect();
        for (dir, next) in above.iter().rev().zip(above.iter().rev().skip(1)) {
            let text = read_at(&top.join(dir).join(".gitignore"), MAX_PATTERNS_BYTES);
            // Only a plain file has patterns, as in the folder itself.
            ignored = ignored.with_from_above(&text.ok().flatten().unwrap_or_default(), &lead(dir));
            if ignored.matches_above(beneath.as_os_str().as_bytes(), next.as_os_str().as_bytes()) {
                if tracked.is_empty() {
                    return Ok(Self::Whole);
                }
                // Everything but the tracked files.
                ignored = ignored.with(b"*", 0);
                break;
            }
        }
        Ok(Self::Part { ignored, tracked })
    }

    /// The patterns that apply in the folder.
    pub(super) fn ignored(&self) -> IgnorePatterns {
        match self {
            Self::Part { ignored, .. } => ignored.clone(),
            _ => IgnorePatterns::default(),
        }
    }

    /// The files of the folder that the repository tracks. Their contents are unknown, because its objects are not
    /// read.
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

    /// A note for the user about files that the snapshot omits.
    pub(super) fn note(&self) -> Option<String> {
        let ignored = match self {
            Self::Nothing => return None,
            Self::Foreign(why) => {
                return Some(format!("the folder lies inside a git repository that is not read: {why}"));
            }
            Self::Whole => "the folder is itself ignored there, so only its own .gitignore files are used",
            Self::Part { .. } => "files that it ignores are omitted",
        };
        Some(format!(
            "the folder is a subdirectory of a git repository; Posse uses it without the repository's history and creates no \
             branch (run from the top of the repository to get one); {ignored}"
        ))
    }
}

/// The files that a repository tracks in the directory `beneath` its top, with paths relative to that directory.
fn tracked_beneath(
    user_repository: &UserRepository,
    top: &Path,
    beneath: &Path,
    project: &Project,
    options: &WorkspaceOptions,
) -> Result<Vec<TrackedFile>, RepositoryError> {
    let tracked = match index::read(&user_repository.git_dir)? {
        Index::Read(tracked) => tracked,
        Index::Odd(bytes) => index::read_odd(&user_repository.git_dir, &bytes, project, &options.git, top)?,
    };
    let prefix = [beneath.as_os_str().as_bytes(), b"/"].concat();
    let inside = |mut tracked: TrackedFile| {
        tracked.path = tracked.path.strip_prefix(prefix.as_slice())?.to_vec();
        Some(tracked)
    };
    Ok(tracked.into_iter().filter_map(inside).collect())
}

/// Patterns that match exactly these paths, which the folder's snapshot omits.
pub(super) fn patterns_of(paths: &[Vec<u8>], folder: &Path) -> Result<Vec<u8>, RepositoryError> {
    if paths.len() > MAX_IGNORED {
        return Err(RepositoryError::Unsupported(format!(
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

/// Adds a line that matches only this path, or others that differ only in [`UNWRITABLE`] bytes.
fn pattern(path: &[u8], patterns: &mut Vec<u8>) {
    patterns.push(b'/');
    for chunk in path.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\\' | '*' | '?' | '[' | ']' | '{' | '}' | ' ' => patterns.extend([b'\\', char as u8]),
                // Git strips some of them at the end of a line.
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

/// Refuses a bare repository: its folder has no files to work on.
pub(super) fn refuse_bare(folder: &Path) -> Result<(), RepositoryError> {
    if !is_git_dir(folder) || folder.join(".git").exists() {
        return Ok(());
    }
    let clone: PathBuf = folder.file_stem().map_or_else(|| "checkout".into(), PathBuf::from);
    Err(RepositoryError::Unsupported(format!(
        "{} is a bare git repository: what it holds are git's own files, which no agent may change; work on a checkout, \
         for example one made with `git clone {} {}`",
        folder.display(),
        folder.display(),
        clone.display()
    )))
}
