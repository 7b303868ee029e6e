//! The result of a run as a branch in the person's repository, and as text.
//!
//! Objects are brought over as one pack of exactly what is missing there, and then one ref is made. Nothing is
//! checked out, and nothing else of their repository is touched: no HEAD, index, reflog, `FETCH_HEAD` or cleaning. Git
//! never runs there: it packs in Posse's repository, and the pack and the ref are put in their places by Posse.
//!
//! Why it is like this: `docs/decisions/runs-result-of-failed.md`.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::change::unreadable;
use super::gc::entries_of;
use super::git_dir::GitDir;
use super::objects::{Present, tree_of};
use super::project::{Project, alternates, pack_part};
use super::shadow::Shadow;
use super::unnamed_file::FileLifetime;
use super::user_refs::Branch;
use super::user_repository::Person;
use super::{Git, Oid, WorkspaceError, disk};

/// Most refs of the person's repository that are named as known there; more only make the pack larger.
const KNOWN_REFS_MAX: usize = 500;
/// Largest diff that is handed over; the rest is cut off with a note.
const DIFF_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Packs what is missing, with nothing in it that depends on another pack.
const PACKING: &[&str] = &["pack-objects", "--revs", "--non-empty", "--delta-base-offset", "-q"];

/// What was delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedResult {
    /// The commit of the run's result, in Posse's repository in any case.
    pub commit: Oid,
    /// The branch in the person's repository; none if nothing changed or there is no repository.
    pub branch: Option<String>,
    /// How many files the run changed.
    pub files: usize,
    /// Those files, by their paths.
    pub paths: Vec<String>,
}

/// How a diff is to be shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiffOptions {
    /// Which form.
    pub form: DiffForm,
    /// With colours for a terminal.
    pub colour: bool,
}

/// The forms of a diff.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DiffForm {
    /// Unified, with binary files only named.
    #[default]
    Patch,
    /// Files with the number of lines.
    Stat,
    /// Files with a letter for what happened to them.
    NameStatus,
}

/// What differs between two commits, as text. Nothing that attributes or settings name is run.
pub fn diff(git: &Git, from: &Oid, to: &Oid, options: DiffOptions) -> Result<Vec<u8>, WorkspaceError> {
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
        text.extend_from_slice(b"\n[the rest is left out; the run's branch has all of it]\n");
    }
    Ok(text)
}

/// A delivery into a person's repository.
pub(super) struct Delivery<'a> {
    pub(super) ours: &'a Git,
    pub(super) person: &'a Person,
    pub(super) project: &'a Project,
    pub(super) folder: &'a Path,
    pub(super) program: &'a Path,
}

impl Delivery<'_> {
    /// Makes `branch` in the person's repository name `commit` of Posse's. A branch that is there with another commit is
    /// left alone, which is an error.
    pub(super) fn publish(
        &self,
        name: &str,
        commit: &Oid,
        hit: &dyn Fn(&'static str),
    ) -> Result<(), WorkspaceError> {
        let branch = Branch { name, commit: *commit, kept_in: self.ours.git_dir() };
        if self.person.has_branch(&branch)? {
            return Ok(());
        }
        self.bring(commit)?;
        hit("workspace.deliver.before_ref");
        self.person.make_branch(&branch, self.folder, self.project, self.program)
    }

    /// Brings over what is missing, as one pack that needs nothing else.
    fn bring(&self, commit: &Oid) -> Result<(), WorkspaceError> {
        let mut wanted = format!("{commit}\n");
        for tip in self.known_to_both()? {
            wanted.extend(["^", &tip.to_string(), "\n"]);
        }
        let making = Shadow::new(self.program, self.project.dir(), &self.ours.git_dir().join("objects"), "")?;
        let dir = making.git().git_dir().join("out");
        disk::make_dirs(&dir)?;
        let name = dir.join("pack");
        let args: Vec<&OsStr> = PACKING.iter().map(OsStr::new).chain([name.as_os_str()]).collect();
        let unsynced = self.ours.clone().with_settings(vec!["core.fsync=none".to_owned()]);
        unsynced.run_with(&args, wanted.as_bytes())?;
        let into = self.person.common.made_dir("objects")?.made_dir("pack")?;
        let mut made: Vec<PathBuf> = entries_of(&dir)?;
        made.sort_by_key(|path| pack_part(path.as_os_str()));
        made.iter().try_for_each(|path| put(path, &into))
    }

    /// Commits that both repositories have: what they reach need not be brought over.
    fn known_to_both(&self) -> Result<Vec<Oid>, WorkspaceError> {
        let tips = self.person.tips(self.folder, self.project, self.program)?;
        if tips.is_empty() {
            return Ok(Vec::new());
        }
        let limit = format!("--max-count={KNOWN_REFS_MAX}");
        let asked = tips.iter().map(Oid::to_string).collect::<Vec<_>>().join("\n");
        // The latest first.
        let args = ["rev-list", "--no-walk=sorted", "--ignore-missing", "--stdin", &limit];
        let known = self.ours.run_with(&args, asked.as_bytes())?;
        let known = String::from_utf8(known).map_err(|_| unreadable("rev-list"))?;
        let theirs = self.person.common.dir("objects")?.map(|own| alternates(own, &self.person.user));
        let theirs = Present::beneath(theirs.transpose()?.unwrap_or_default());
        // A ref may name what is not there.
        Ok(known.lines().filter_map(|line| line.parse().ok()).filter(|oid| theirs.has(oid)).collect())
    }
}

/// Copies a part of a pack into a directory of packs, unless it is there: its name says what it holds.
fn put(path: &Path, into: &GitDir) -> Result<(), WorkspaceError> {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let mut part = File::open(path).map_err(disk::failed("opening", path))?;
    into.write_waiting(name, &mut part, FileLifetime::Fixed)?.replacing(name)
}

/// Whether two commits have the same files.
pub(super) fn same_tree(git: &Git, a: &Oid, b: &Oid) -> Result<bool, WorkspaceError> {
    Ok(a == b || tree_of(git, a)? == tree_of(git, b)?)
}
