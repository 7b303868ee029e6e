//! Removes from the root's work what a run's result may not contain.
//!
//! A child's change is refused as a whole. The root's own work is never merged: paths that the gate would refuse are
//! restored to the run's base, in one more commit on the root's work ref. The original work is kept in the root's
//! salvage.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{EntryType, changes};
use super::content;
use super::gate::{Problem, Terms};
use super::manifest::Entry;
use super::objects::{self, PresentObjects, TreeFile};
use super::refs::{salvage_ref, work_ref};
use super::space::{ProtectedEntries, ROOT_ATTEMPT};
use super::{ObjectId, RepositoryError, RunSpace};

/// Limit of rounds: restoring one link can make another one leave the tree.
const ROUNDS_MAX: usize = 8;
/// Limit of paths that are listed one by one.
const LISTED_MAX: usize = 100;

/// The files of a commit, by path.
type Files = BTreeMap<Vec<u8>, TreeFile>;

/// The root's work after the refused paths were restored.
struct CleanedCommit {
    commit: ObjectId,
    taken_back: Vec<Problem>,
}

impl RunSpace {
    /// Restores, on the root's work ref, what no agent may change: `protected` names except those `opened`, links that
    /// leave the tree, submodules, and names that could become `.git`. Returns a bounded list of `path: why`. A repeat
    /// after a crash returns the same list.
    pub fn leave_out(&self, protected: &[String], opened: &[String]) -> Result<Vec<String>, RepositoryError> {
        let ProtectedEntries { protected, opened } = self.closed(protected, opened);
        let terms = Terms { owns: &[], protected: &protected, opened: &opened };
        let line = self.result()?;
        // After a crash the work ref may have moved already. The salvage has the original commit.
        let made = self.kept()?.unwrap_or(line);
        let mut cleaned = self.cleaned(&terms, &made)?;
        if made != line {
            let git = self.git();
            if objects::tree_of(&git, &cleaned.commit)? == objects::tree_of(&git, &line)? {
                return Ok(note(&cleaned.taken_back));
            }
            cleaned = self.cleaned(&terms, &line)?;
        }
        if cleaned.commit != line {
            let name = work_ref(&self.run, ROOT_ATTEMPT);
            let held = self.lock_ref(&name)?;
            // A root that changed nothing has no work ref, but it may continue a run whose changes are not allowed now.
            let before = self.read_ref(&name)?.map(|_| line);
            self.swap_ref(&held, &name, before.as_ref(), &cleaned.commit)?;
        }
        Ok(note(&cleaned.taken_back))
    }

    /// The salvage of the root's workspace.
    fn kept(&self) -> Result<Option<ObjectId>, RepositoryError> {
        self.read_ref(&salvage_ref(&self.run, ROOT_ATTEMPT))
    }

    fn cleaned(&self, terms: &Terms<'_>, made: &ObjectId) -> Result<CleanedCommit, RepositoryError> {
        let (git, base) = (self.git(), self.compared_with()?);
        let mut cleaned = CleanedCommit { commit: *made, taken_back: Vec::new() };
        let mut files: Option<(Files, Files)> = None;
        for _ in 0..ROUNDS_MAX {
            let changes = changes(&git, &base, &cleaned.commit)?;
            let problems = terms.problems(&git, &changes, &base, &cleaned.commit)?;
            if problems.is_empty() {
                return Ok(cleaned);
            }
            let (before, now) = match &mut files {
                Some(files) => files,
                none => {
                    none.insert((by_path(objects::list(&git, &base)?), by_path(objects::list(&git, made)?)))
                }
            };
            let mut paths: BTreeSet<&[u8]> = problems.iter().map(|problem| problem.path.as_slice()).collect();
            let is_changed = |path: &[u8]| changes.iter().any(|change| change.path == path);
            if !paths.iter().all(|path| is_changed(path)) {
                // An unchanged link leaves the tree through a changed one.
                let links = changes.iter().filter(|change| change.touches(EntryType::Link));
                paths.extend(links.map(|change| change.path.as_slice()));
            }
            for path in paths {
                take_back(now, before, path);
            }
            cleaned.commit = self.commit_files(now, made)?;
            cleaned.taken_back.extend(problems);
        }
        Err(RepositoryError::Unsupported(format!(
            "links out of the project cannot be removed from the result of run {}; the whole result is kept at {}",
            self.run,
            salvage_ref(&self.run, ROOT_ATTEMPT)
        )))
    }

    fn commit_files(&self, files: &Files, parent: &ObjectId) -> Result<ObjectId, RepositoryError> {
        let entry = |listed: &TreeFile| Entry {
            path: listed.path.clone(),
            mode: listed.mode,
            oid: listed.oid,
            stat: None,
            raw: false,
        };
        let entries: Vec<Entry> = files.values().map(entry).collect();
        let repository = self.project.repository();
        let (present, pack) = (PresentObjects::of(&repository)?, self.new_pack());
        let trees = content::trees(&entries);
        content::add_trees(&trees, &present, &pack)?;
        let tree = trees.last().map_or(ObjectId::ZERO, |(oid, _)| *oid);
        let message = format!("posse: changes that no agent may make are removed from {}", self.run);
        let commit = super::add_commit(&pack, &tree, &[*parent], &message)?;
        pack.finish()?;
        Ok(commit)
    }
}

fn by_path(files: Vec<TreeFile>) -> Files {
    files.into_iter().map(|file| (file.path.clone(), file)).collect()
}

/// Restores a path and removes whatever is in its way.
fn take_back(now: &mut Files, before: &Files, path: &[u8]) {
    now.remove(path);
    let Some(file) = before.get(path) else { return };
    for (at, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
        now.remove(&path[..at]);
    }
    let beneath = [path, b"/"].concat();
    now.retain(|other, _| !other.starts_with(&beneath));
    now.insert(path.to_vec(), file.clone());
}

fn note(problems: &[Problem]) -> Vec<String> {
    let mut texts: Vec<String> =
        problems.iter().map(Problem::text).collect::<BTreeSet<String>>().into_iter().collect();
    let more = texts.len().saturating_sub(LISTED_MAX);
    texts.truncate(LISTED_MAX);
    if more > 0 {
        texts.push(format!("and {more} more"));
    }
    texts
}
