//! The result of a run as a branch in the person's repository, and as text.
//!
//! Objects are brought over as one pack of exactly what is missing there, and then one ref is made. Nothing is
//! checked out, and nothing else of their repository is touched: no HEAD, index, reflog, `FETCH_HEAD` or cleaning.

use std::path::Path;

use super::change::unreadable;
use super::objects::tree_of;
use super::{Git, Oid, WorkspaceError, disk};

/// Most refs of the person's repository that are named as known there; more only make the pack larger.
const KNOWN_REFS_MAX: usize = 500;
/// Largest diff that is handed over; the rest is cut off with a note.
const DIFF_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Where a delivery makes names in a repository, whichever way it keeps its refs.
const NAMES_IN: &[&str] = &["objects/pack", "refs/heads/posse", "refs/heads", "reftable"];

/// What was delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
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

/// Makes `branch` in the person's repository name `commit` of Posse's. A branch that is there with another commit is
/// left alone, which is an error.
pub(super) fn deliver_branch(
    ours: &Git,
    theirs: &Git,
    branch: &str,
    commit: &Oid,
    hit: &dyn Fn(&'static str),
) -> Result<(), WorkspaceError> {
    let name = format!("refs/heads/{branch}");
    if let Some(there) = resolve(theirs, &name)? {
        if there == *commit {
            return Ok(());
        }
        return Err(WorkspaceError::Unsupported(format!(
            "there is a branch {branch} at {there} already, which this run did not make; rename it with `git branch -m \
             {branch} NEW` and try again (the result is commit {commit} in {})",
            ours.git_dir().display()
        )));
    }
    bring(ours, theirs, commit)?;
    hit("workspace.deliver.before_ref");
    let quiet = theirs.clone().with_settings(vec!["core.logAllRefUpdates=false".to_owned()]);
    let none = Oid::ZERO.to_string();
    quiet.run(&["update-ref", "--no-deref", &name, &commit.to_string(), &none]).map(drop)
}

/// Makes the names of what was delivered durable: git syncs files, but not the directories that they stand in.
pub(super) fn sync_names(repository: &Path) -> Result<(), WorkspaceError> {
    let dirs = NAMES_IN.iter().map(|dir| repository.join(dir)).filter(|dir| dir.is_dir());
    dirs.into_iter().try_for_each(|dir| disk::sync_dir(&dir))
}

/// Brings over what is missing, and makes sure that nothing is.
fn bring(ours: &Git, theirs: &Git, commit: &Oid) -> Result<(), WorkspaceError> {
    let mut wanted = format!("{commit}\n");
    for tip in known_to_both(ours, theirs)? {
        wanted.extend(["^", &tip.to_string(), "\n"]);
    }
    let pack = ours
        .run_with(&["pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset"], wanted.as_bytes())?;
    theirs.run_with(&["index-pack", "--stdin"], &pack)?;
    let whole =
        theirs.ask(&["rev-list", "--objects", "--quiet", &commit.to_string(), "--not", "--all"], &[])?;
    if whole.code == Some(0) {
        return Ok(());
    }
    Err(WorkspaceError::Damaged(format!(
        "the result could not be brought over whole ({}); `git fsck` in the project's folder says what is missing there",
        whole.stderr
    )))
}

/// The tips of the person's refs that Posse's repository has too: what they reach need not be brought over.
fn known_to_both(ours: &Git, theirs: &Git) -> Result<Vec<Oid>, WorkspaceError> {
    let limit = format!("--count={KNOWN_REFS_MAX}");
    let listed = theirs.run(&["for-each-ref", &limit, "--sort=-committerdate", "--format=%(objectname)"])?;
    let mut tips = String::from_utf8(listed).map_err(|_| unreadable("for-each-ref"))?;
    if let Some(head) = resolve(theirs, "HEAD")? {
        tips.extend([&head.to_string(), "\n"]);
    }
    if tips.is_empty() {
        return Ok(Vec::new());
    }
    let checked = ours.run_with(&["cat-file", "--batch-check"], tips.as_bytes())?;
    let checked = String::from_utf8(checked).map_err(|_| unreadable("cat-file"))?;
    let known = |line: &str| {
        let (oid, what) = line.split_once(' ')?;
        (what.starts_with("commit") || what.starts_with("tag")).then(|| oid.parse().ok()).flatten()
    };
    Ok(checked.lines().filter_map(known).collect())
}

/// What a name stands for in a repository; none if it is not there.
fn resolve(git: &Git, name: &str) -> Result<Option<Oid>, WorkspaceError> {
    let answer = git.ask(&["rev-parse", "--verify", "--quiet", "--end-of-options", name], &[])?;
    match answer.code {
        Some(0) => {
            let text = String::from_utf8_lossy(&answer.stdout);
            let oid = text.lines().last().and_then(|line| line.parse().ok());
            oid.map(Some).ok_or_else(|| unreadable("rev-parse"))
        }
        Some(1) => Ok(None),
        code => Err(WorkspaceError::Git { command: "rev-parse".to_owned(), code, stderr: answer.stderr }),
    }
}

/// Whether two commits have the same files.
pub(super) fn same_tree(git: &Git, a: &Oid, b: &Oid) -> Result<bool, WorkspaceError> {
    Ok(a == b || tree_of(git, a)? == tree_of(git, b)?)
}
