//! Begins a run with the files of an earlier one, instead of those of the user's folder.
//!
//! The new run has a snapshot of its own: one commit with these files on the user's commit, so that its agents see no
//! other work of the earlier run. What both runs changed is one change: it is compared with what the earlier run began
//! with.
//!
//! Why it is like this: `docs/decisions/runs-continued.md`.

use std::fs;
use std::path::Path;

use posse_domain::request::ContinuedFiles;
use serde::{Deserialize, Serialize};

use super::apply::EarlierResult;
use super::apply_intent::applied_result;
use super::begin::{Record, begun};
use super::refs::{Refs, base_ref, check_id, kept_ref};
use super::run::SPARSE;
use super::transfer::missing;
use super::{LocalFiles, ObjectId, RepositoryError, RunBase, RunSpace, disk, objects};

/// How many of the runs that a run continues are looked at when it is applied.
const CHAIN_MAX: usize = 16;
const COPIES: &str = "copies";

/// The earlier run that a run continues, in its record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContinuedRecord {
    run: String,
    /// The commit that the result is compared with.
    pub(super) compared_with: String,
    /// Whether the files are those that one of its sub-agents left, and not its result.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    of_sub_agent: bool,
}

impl LocalFiles {
    /// Begins a run with files of an earlier one. The user's folder is not read. Idempotent, like [`LocalFiles::begin`].
    pub fn continue_from(
        &self,
        run: &str,
        earlier: &str,
        files: ContinuedFiles,
    ) -> Result<RunBase, RepositoryError> {
        check_id(run)?;
        if let Some(record) = self.record(run)? {
            return begun(&record, run);
        }
        let gone = || {
            RepositoryError::Unsupported(format!(
                "the files of run {earlier} are no longer kept, so that it cannot be continued"
            ))
        };
        let Some(record) = self.record(earlier)? else { return Err(gone()) };
        let space = RunSpace::new(self.clone(), earlier, record)?;
        let (compared_with, left) = match files {
            ContinuedFiles::Result => (space.compared_with()?, space.result()?),
            ContinuedFiles::Left { base, commit } => (base, commit),
        };
        if !missing(&space.git(), &[compared_with, left])?.is_empty() {
            return Err(gone());
        }
        let of_sub_agent = matches!(files, ContinuedFiles::Left { .. });
        let record = space.begin_next(run, &left, &compared_with, of_sub_agent)?;
        begun(&record, run)
    }
}

impl RunSpace {
    /// The commit that the run's result is compared with: the snapshot that the run began with, or that of the first of
    /// the runs that it continues.
    pub fn compared_with(&self) -> Result<ObjectId, RepositoryError> {
        match &self.record.continues {
            None => Ok(self.base()?.commit),
            Some(continued) => continued.compared_with.parse().map_err(|_| {
                RepositoryError::Damaged(format!("project.json of run {} names no object", self.run))
            }),
        }
    }

    /// The results of the runs that this one continues, the latest first.
    pub(super) fn earlier_results(&self) -> Result<Vec<EarlierResult>, RepositoryError> {
        let mut results = Vec::new();
        let mut at = self.clone();
        while let Some(continued) = at.record.continues.clone().filter(|_| results.len() < CHAIN_MAX) {
            let commit = at.base()?.commit;
            let Some(record) = self.spaces.record(&continued.run)? else {
                results.push(EarlierResult { commit, is_applied: false });
                break;
            };
            at = RunSpace::new(self.spaces.clone(), &continued.run, record)?;
            // Whether the work of a sub-agent is part of the result that was applied is not known: it may have been
            // refused.
            let is_result = !continued.of_sub_agent;
            let is_applied = is_result && applied_result(&at.intent(&continued.run))? == Some(at.result()?);
            results.push(EarlierResult { commit, is_applied });
            if !is_result {
                break;
            }
        }
        Ok(results)
    }

    /// Writes the beginning of a run that continues this one: its snapshot with the files of the commit `left`.
    fn begin_next(
        &self,
        run: &str,
        left: &ObjectId,
        compared_with: &ObjectId,
        of_sub_agent: bool,
    ) -> Result<Record, RepositoryError> {
        let run_dir = self.spaces.run_dir(run);
        disk::make_dirs(&run_dir)?;
        copy_files(&self.dir(), &run_dir, self.record.copies.iter().map(|file| Path::new(&file.path)))?;
        if let Some(sparse) = disk::read_if_there(&self.dir().join(SPARSE))? {
            disk::write_durably(&run_dir.join(SPARSE), &sparse)?;
        }
        let tree = objects::tree_of(&self.git(), left)?;
        let unreadable =
            || RepositoryError::Damaged(format!("the record of run {} has an unreadable `head`", self.run));
        let head: Option<ObjectId> = match &self.record.head {
            Some(head) => Some(head.parse().map_err(|_| unreadable())?),
            None => None,
        };
        let pack = self.new_pack();
        let commit = super::add_commit(&pack, &tree, head.as_slice(), "posse: snapshot")?;
        let lock = self.project.lock()?;
        pack.finish()?;
        let refs = Refs::of(&self.project.repository());
        for (name, commit) in [(kept_ref(run, compared_with), compared_with), (base_ref(run), &commit)] {
            refs.swap(&lock, &name, refs.read(&name)?.as_ref(), commit)?;
        }
        let record = Record {
            commit: commit.to_string(),
            tree: tree.to_string(),
            dirty: true,
            continues: Some(ContinuedRecord {
                run: self.run.clone(),
                compared_with: compared_with.to_string(),
                of_sub_agent,
            }),
            ..self.record.clone()
        };
        record.save(&run_dir)?;
        Ok(record)
    }
}

/// Copies the files that `workspace.copy` named when the earlier run began.
fn copy_files<'a>(
    from: &Path,
    to: &Path,
    paths: impl Iterator<Item = &'a Path>,
) -> Result<(), RepositoryError> {
    for path in paths {
        let (from, to) = (from.join(COPIES).join(path), to.join(COPIES).join(path));
        let content = fs::read(&from).map_err(disk::failed("copying", &from))?;
        to.parent().map_or(Ok(()), disk::make_dirs)?;
        disk::write_durably(&to, &content)?;
    }
    Ok(())
}
