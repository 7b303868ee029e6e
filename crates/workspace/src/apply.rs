//! Applies a run's result, or the work of one of its agents, to the user's checkout.
//!
//! Only paths that differ between the base snapshot and the result are inspected. The intent is stored in the run's state
//! directory before the first write, so that the next call can finish an interrupted one and tell its own writes from the
//! user's work, and so that an undo knows what was there before. Index, HEAD and stash are never touched.

use std::collections::BTreeMap;
use std::path::Path;

use posse_engine::ports::{
    ApplyError, ApplyPlan, ApplySummary, PLANNED_FILES_MAX, PlannedFile, PlannedWrite,
};

use super::apply_intent::{Intent, PathWrite, hex};
use super::change::{Change, Side, changes, shown};
use super::path_writer::{FileAction, PathWriter, PlanError, StagedFile, Step};
use super::tree_switch::{PathState, TreeSwitch};
use super::{ObjectId, RepositoryError, object};

/// The changes of a run by their path.
type ChangesByPath = BTreeMap<Vec<u8>, Change>;

/// The result of an earlier run that a run continues.
#[derive(Debug, Clone, Copy)]
pub(super) struct EarlierResult {
    pub(super) commit: ObjectId,
    /// Whether it was applied to the same checkout. The user may have changed or undone that since.
    pub(super) is_applied: bool,
}

/// Keeps contents that only an undo needs, together with the two commits that were compared.
pub(super) type KeepContents<'a> = &'a dyn Fn(&[ObjectId], &[Vec<u8>]) -> Result<(), RepositoryError>;

/// An apply of one result to one checkout.
pub(super) struct Application<'a> {
    pub(super) writer: PathWriter<'a>,
    pub(super) base: ObjectId,
    /// The results of the runs that this one continues, the latest first: a path may be as in `base`, or as in one of them.
    pub(super) earlier: Vec<EarlierResult>,
    pub(super) result: ObjectId,
    /// The file that stores the [`Intent`].
    pub(super) intent: &'a Path,
    pub(super) keep: KeepContents<'a>,
}

impl Application<'_> {
    /// What an apply would write now. Writes nothing.
    pub(super) fn check(&self, onto: TreeSwitch) -> Result<ApplyPlan, ApplyError> {
        let known = Intent::load(self.intent)?.unwrap_or_default();
        let changes = self.changes(&onto, &known)?;
        let (steps, mut summary) = self.steps(&onto, &changes, &known)?;
        summary.files = steps.len();
        let files = steps.iter().take(PLANNED_FILES_MAX).map(planned).collect();
        onto.finish()?;
        Ok(ApplyPlan { files, summary })
    }

    pub(super) fn apply(&self, mut onto: TreeSwitch) -> Result<ApplySummary, ApplyError> {
        let known = Intent::load(self.intent)?.unwrap_or_default();
        let changes = self.changes(&onto, &known)?;
        let (steps, mut applied) = self.steps(&onto, &changes, &known)?;
        if steps.is_empty() {
            onto.finish()?;
            // An interrupted call had written everything.
            if !known.done && !known.writes.is_empty() {
                Intent { done: true, ..known }.save(self.intent)?;
            }
            return Ok(applied);
        }
        let staged = self.writer.stage(&mut onto, &steps)?;
        let mut intent = self.record(&onto, &steps, &staged, known)?;
        intent.save(self.intent)?;
        (self.writer.hit)("workspace.apply.after_intent");
        self.writer.execute(onto, &steps, &staged, &mut applied)?;
        intent.done = true;
        intent.save(self.intent)?;
        Ok(applied)
    }

    /// The changes that are to be made.
    fn changes(&self, onto: &TreeSwitch, known: &Intent) -> Result<Vec<Change>, RepositoryError> {
        // A result that was applied before is the new base of the comparison, unless it is the same result: the user
        // may have undone it.
        let before = known.applied().filter(|before| *before != self.result);
        let all = changes(self.writer.git, &before.unwrap_or(self.base), &self.result)?;
        let is_first = self.earlier.is_empty() || before.is_some();
        if is_first { Ok(all) } else { self.fitting(onto, all) }
    }

    /// What is decided about each path.
    fn steps<'c>(
        &self,
        onto: &TreeSwitch,
        changes: &'c [Change],
        known: &Intent,
    ) -> Result<(Vec<Step<'c>>, ApplySummary), ApplyError> {
        self.writer.plan(onto, changes, &known.mixed).map_err(|error| match error {
            PlanError::Conflict(files) => ApplyError::Conflict(files),
            PlanError::Repository(error) => error.into(),
        })
    }

    /// The record of what these steps are about to write. Keeps the contents that an undo needs.
    fn record(
        &self,
        onto: &TreeSwitch,
        steps: &[Step<'_>],
        staged: &[Option<StagedFile>],
        known: Intent,
    ) -> Result<Intent, RepositoryError> {
        let before = match known.applied() {
            Some(before) => Some(before.to_string()).filter(|before| *before != self.result.to_string()),
            None => known.before,
        };
        // The writes of an interrupted call belong to this one, which completes it.
        let writes = if known.done { BTreeMap::new() } else { known.writes };
        let mut intent =
            Intent { result: self.result.to_string(), done: false, mixed: known.mixed, writes, before };
        let mut own = Vec::new();
        for (step, staged) in steps.iter().zip(staged) {
            let path = hex(&step.change.path);
            if let FileAction::Mix(_, content) = &step.doing {
                let oid = object::name(object::ObjectType::Blob, content);
                intent.mixed.insert(path.clone(), oid.to_string());
            }
            own.extend(self.writer.own_contents(onto, step, staged.as_ref())?);
            intent.writes.insert(path, written(onto, step, staged.as_ref())?);
        }
        (self.keep)(&[self.base, self.result], &own)?;
        Ok(intent)
    }

    /// Chooses, for each path that the runs of a chain changed, the change that fits the checkout: since the first of them
    /// began, or since the result of one of them.
    fn fitting(&self, onto: &TreeSwitch, all: Vec<Change>) -> Result<Vec<Change>, RepositoryError> {
        let by_path = |changes: Vec<Change>| -> ChangesByPath {
            changes.into_iter().map(|change| (change.path.clone(), change)).collect()
        };
        let mut since = Vec::with_capacity(self.earlier.len());
        for earlier in &self.earlier {
            since.push((
                by_path(changes(self.writer.git, &earlier.commit, &self.result)?),
                earlier.is_applied,
            ));
        }
        let first = by_path(all);
        let newer = since.iter().flat_map(|(changes, _)| changes.iter());
        let paths: BTreeMap<&Vec<u8>, &Change> = newer.chain(&first).collect();
        let mut fitting = Vec::with_capacity(paths.len());
        for (path, any) in paths {
            let found = self.writer.inspect(onto, path, any)?;
            let is_here = |change: &&Change| found.is(change.old.as_ref());
            let at_result = || since.iter().filter_map(|(changes, _)| changes.get(path)).find(is_here);
            // What the user did with a result that was applied is merged with what the runs after it did.
            let applied =
                || since.iter().find(|(_, is_applied)| *is_applied).map(|(changes, _)| changes.get(path));
            let chosen = match first.get(path).filter(is_here).or_else(at_result) {
                Some(change) => Some(change),
                None => applied().unwrap_or_else(|| first.get(path)),
            };
            fitting.extend(chosen.cloned());
        }
        Ok(fitting)
    }
}

/// A step as users read it.
fn planned(step: &Step<'_>) -> PlannedFile {
    let write = match &step.doing {
        FileAction::Remove => PlannedWrite::Remove,
        FileAction::Mix(..) => PlannedWrite::Merge,
        FileAction::Write(..) | FileAction::Nothing => match step.found {
            PathState::Absent => PlannedWrite::Add,
            PathState::Thing(_) | PathState::Directory | PathState::Other => PlannedWrite::Change,
        },
    };
    PlannedFile { path: shown(&step.change.path), write }
}

/// A path before and after a step.
fn written(
    onto: &TreeSwitch,
    step: &Step<'_>,
    staged: Option<&StagedFile>,
) -> Result<PathWrite, RepositoryError> {
    let before: Option<Side> = match &step.found {
        PathState::Thing(side) => Some(*side),
        PathState::Absent | PathState::Directory | PathState::Other => None,
    };
    let bits = if staged.is_none() { onto.bits(&step.change.path)? } else { None };
    Ok(PathWrite::new(before, staged.map(|staged| staged.side), bits))
}
