//! Publishes the result of a run as a branch in the user's repository, and as a diff.
//!
//! Objects are transferred as one pack of exactly the missing ones, then one ref is created. Nothing is checked out,
//! and nothing else in the user's repository is touched: no HEAD, index, reflog, `FETCH_HEAD` or cleaning. Git never
//! runs there: it packs in Posse's repository, and Posse itself writes the pack and the ref.
//!
//! Why it is like this: `docs/decisions/runs-result-of-failed.md`.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};

use posse_engine::ports::{DiffForm, DiffOptions};

use super::change::unreadable;
use super::gc::entries_of;
use super::git_dir::GitDir;
use super::objects::{PresentObjects, tree_of};
use super::project::{Project, alternates, pack_part};
use super::shadow::Shadow;
use super::unnamed_file::FileLifetime;
use super::user_refs::Branch;
use super::user_repository::UserRepository;
use super::{Git, ObjectId, RepositoryError, disk};

/// Limit of the user's refs that the pack excludes. Skipping further refs only makes the pack larger.
const KNOWN_REFS_MAX: usize = 500;
/// Of how many of these commits the files are excluded too, if the result contains uncommitted files: those that an earlier
/// run has brought, which its branch still reaches.
const KNOWN_TREES_MAX: usize = 8;
/// Largest diff that is returned. The rest is cut off with a note.
const DIFF_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Packs the missing objects without deltas against other packs.
const PACKING: &[&str] = &["pack-objects", "--revs", "--non-empty", "--delta-base-offset", "-q"];

/// The result of publishing a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedResult {
    /// The commit of the run's result, which Posse's repository has in any case.
    pub commit: ObjectId,
    /// The branch in the user's repository; `None` if nothing changed or there is no repository.
    pub branch: Option<String>,
    /// How many files the run changed.
    pub files: usize,
    /// The paths of the changed files.
    pub paths: Vec<String>,
}

/// The difference between two commits, as text. Programs that attributes or settings name are not run.
pub fn diff(
    git: &Git,
    from: &ObjectId,
    to: &ObjectId,
    options: DiffOptions,
) -> Result<Vec<u8>, RepositoryError> {
    let form = match options.form {
        DiffForm::Patch => "--patch",
        DiffForm::Stat => "--stat",
        DiffForm::NameStatus => "--name-status",
    };
    let colour = if options.colour { "--color=always" } else { "--color=never" };
    let (from, to) = (from.to_string(), to.to_string());
    let plain = ["diff-tree", "-r", "-M", "--no-ext-diff", "--no-textconv", "--no-commit-id"];
    let args: Vec<&str> = plain.into_iter().chain([form, colour, &from, &to]).collect();
    let mut text = git.run(&args)?;
    if text.len() > DIFF_MAX_BYTES {
        text.truncate(DIFF_MAX_BYTES);
        text.extend_from_slice(b"\n[the rest is omitted; the run's branch has all of it]\n");
    }
    Ok(text)
}

/// Transfers the result of a run to a user's repository.
pub(super) struct ResultTransfer<'a> {
    pub(super) ours: &'a Git,
    pub(super) user_repository: &'a UserRepository,
    pub(super) project: &'a Project,
    pub(super) folder: &'a Path,
    pub(super) program: &'a Path,
    /// Whether the result contains files that the user had not committed.
    pub(super) has_snapshot: bool,
}

impl ResultTransfer<'_> {
    /// Creates `branch` in the user's repository for `commit` of Posse's. An existing branch at another commit is not
    /// changed, which is an error.
    pub(super) fn publish(
        &self,
        name: &str,
        commit: &ObjectId,
        hit: &dyn Fn(&'static str),
    ) -> Result<(), RepositoryError> {
        let branch = Branch { name, commit: *commit, kept_in: self.ours.git_dir() };
        if self.user_repository.has_branch(&branch)? {
            return Ok(());
        }
        self.bring(commit)?;
        hit("workspace.publish.before_ref");
        self.user_repository.make_branch(&branch, self.folder, self.project, self.program)
    }

    /// Transfers the missing objects as one self-contained pack.
    fn bring(&self, commit: &ObjectId) -> Result<(), RepositoryError> {
        let mut wanted = format!("{commit}\n");
        for (at, tip) in self.known_to_both()?.into_iter().enumerate() {
            wanted.extend(["^", &tip.to_string(), "\n"]);
            // Git looks at the files of a commit only if it is an ancestor.
            if self.has_snapshot && at < KNOWN_TREES_MAX {
                wanted.extend(["^", &tip.to_string(), "^{tree}\n"]);
            }
        }
        let making = Shadow::new(self.program, self.project.dir(), &self.ours.git_dir().join("objects"), "")?;
        let dir = making.git().git_dir().join("out");
        disk::make_dirs(&dir)?;
        let name = dir.join("pack");
        let args: Vec<&OsStr> = PACKING.iter().map(OsStr::new).chain([name.as_os_str()]).collect();
        let unsynced = self.ours.clone().with_settings(vec!["core.fsync=none".to_owned()]);
        unsynced.packing_in(&making.git().git_dir().join("objects")).run_with(&args, wanted.as_bytes())?;
        let into = self.user_repository.common.made_dir("objects")?.made_dir("pack")?;
        let mut made: Vec<PathBuf> = entries_of(&dir)?;
        made.sort_by_key(|path| pack_part(path.as_os_str()));
        made.iter().try_for_each(|path| put(path, &into))
    }

    /// Commits that both repositories have. The objects they reach need no transfer.
    fn known_to_both(&self) -> Result<Vec<ObjectId>, RepositoryError> {
        let tips = self.user_repository.tips(self.folder, self.project, self.program)?;
        if tips.is_empty() {
            return Ok(Vec::new());
        }
        let limit = format!("--max-count={KNOWN_REFS_MAX}");
        let asked = tips.iter().map(ObjectId::to_string).collect::<Vec<_>>().join("\n");
        // The latest first.
        let args = ["rev-list", "--no-walk=sorted", "--ignore-missing", "--stdin", &limit];
        let known = self.ours.run_with(&args, asked.as_bytes())?;
        let known = String::from_utf8(known).map_err(|_| unreadable("rev-list"))?;
        let theirs = self
            .user_repository
            .common
            .dir("objects")?
            .map(|own| alternates(own, &self.user_repository.user));
        let theirs = PresentObjects::beneath(theirs.transpose()?.unwrap_or_default());
        // A ref may name a missing object.
        Ok(known.lines().filter_map(|line| line.parse().ok()).filter(|oid| theirs.has(oid)).collect())
    }
}

/// Copies a part of a pack into a directory of packs. Its name is a hash of the content, so a replaced file is the same.
fn put(path: &Path, into: &GitDir) -> Result<(), RepositoryError> {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let mut part = File::open(path).map_err(disk::failed("opening", path))?;
    into.write_waiting(name, &mut part, FileLifetime::Fixed)?.replacing(name)
}

pub(super) fn same_tree(git: &Git, a: &ObjectId, b: &ObjectId) -> Result<bool, RepositoryError> {
    Ok(a == b || tree_of(git, a)? == tree_of(git, b)?)
}
