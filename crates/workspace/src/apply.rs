//! Applies a run's result to the user's checkout.
//!
//! Only paths that differ between the run's base snapshot and its result are inspected. All decisions precede all
//! writes: one conflict, and nothing is written. The intent is stored in the run's state directory first, so that the
//! next call can finish an interrupted one and tell its own writes from the user's work. Index, HEAD and stash are
//! never touched.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use posse_engine::ports::{ApplyError, ApplySummary};
use serde::{Deserialize, Serialize};

use super::change::{Change, EntryType, Side, becomes_directory, changes, shown};
use super::text::{LineEnds, three_way};
use super::tree_switch::{PathState, TreeSwitch};
use super::update::contents;
use super::{Git, ObjectId, RepositoryError, disk, object};

/// Largest file that is merged with a concurrent change by the user.
const MERGE_MAX_BYTES: u64 = 8 * 1024 * 1024;
/// Limit of conflicting files that an error names.
const CONFLICTS_MAX: usize = 200;

/// The file of a run that stores what was applied.
pub(super) const INTENT: &str = "apply.json";

/// What an apply is about to write, or has written. Stored before the first write.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Intent {
    /// The tree that is applied.
    result: String,
    /// Whether every path was written.
    done: bool,
    /// Merged contents, which are neither the base's nor the result's: object id by path (hex).
    mixed: BTreeMap<String, String>,
}

impl Intent {
    fn load(path: &Path) -> Result<Option<Self>, RepositoryError> {
        let Some(text) = disk::read_if_there(path)? else { return Ok(None) };
        // The file is replaced atomically, so an unreadable one is from another version and proves nothing.
        Ok(serde_json::from_slice(&text).ok())
    }

    fn save(&self, path: &Path) -> Result<(), RepositoryError> {
        disk::write_durably(path, &serde_json::to_vec(self).unwrap_or_default())
    }
}

/// The result of a run, with this directory, that was applied completely.
pub(super) fn applied_result(run_dir: &Path) -> Result<Option<ObjectId>, RepositoryError> {
    let intent = Intent::load(&run_dir.join(INTENT))?.filter(|intent| intent.done);
    Ok(intent.and_then(|intent| intent.result.parse().ok()))
}

/// The action that was decided for one path.
struct Step<'a> {
    change: &'a Change,
    /// The state of the path when the action was decided.
    found: PathState,
    doing: FileAction,
}

enum FileAction {
    Remove,
    /// Write the result's content with these line endings.
    Write(Side, LineEnds),
    /// Write this merged content.
    Mix(EntryType, Vec<u8>),
    /// The file has the run's change already.
    Nothing,
}

/// The changes of a run by their path.
type ChangesByPath = BTreeMap<Vec<u8>, Change>;

/// The result of an earlier run that a run continues.
#[derive(Debug, Clone, Copy)]
pub(super) struct EarlierResult {
    pub(super) commit: ObjectId,
    /// Whether it was applied to the same checkout. The user may have changed or undone that since.
    pub(super) is_applied: bool,
}

/// An apply of one result to one checkout.
pub(super) struct Application<'a> {
    pub(super) git: &'a Git,
    pub(super) base: ObjectId,
    /// The results of the runs that this one continues, the latest first: a path may be as in `base`, or as in one of them.
    pub(super) earlier: Vec<EarlierResult>,
    pub(super) result: ObjectId,
    /// The file that stores the [`Intent`].
    pub(super) intent: &'a Path,
    /// Whether the executable bit is meaningful in the checkout (`core.fileMode`).
    pub(super) executable_counts: bool,
    pub(super) hit: &'a dyn Fn(&'static str),
}

impl Application<'_> {
    pub(super) fn apply(&self, onto: TreeSwitch) -> Result<ApplySummary, ApplyError> {
        let known = Intent::load(self.intent)?;
        let before =
            known.as_ref().filter(|intent| intent.done).and_then(|intent| intent.result.parse().ok());
        // A result that was applied before is the new base of the comparison, unless it is the same result: the user
        // may have undone it.
        let before = before.filter(|before| *before != self.result);
        let known = known.unwrap_or_default();
        let all = changes(self.git, &before.unwrap_or(self.base), &self.result)?;
        let is_first = self.earlier.is_empty() || before.is_some();
        let changes = if is_first { all } else { self.fitting(&onto, all)? };
        let (steps, mut applied) = self.plan(&onto, &changes, &known)?;
        if steps.is_empty() {
            onto.finish()?;
            return Ok(applied);
        }
        let mut intent = Intent { result: self.result.to_string(), done: false, mixed: known.mixed };
        for step in &steps {
            if let FileAction::Mix(_, content) = &step.doing {
                let oid = object::name(object::ObjectType::Blob, content);
                intent.mixed.insert(hex(&step.change.path), oid.to_string());
            }
        }
        intent.save(self.intent)?;
        (self.hit)("workspace.apply.after_intent");
        self.execute(onto, &steps, &mut applied)?;
        intent.done = true;
        intent.save(self.intent)?;
        Ok(applied)
    }

    /// Chooses, for each path that the runs of a chain changed, the change that fits the checkout: since the first of them
    /// began, or since the result of one of them.
    fn fitting(&self, onto: &TreeSwitch, all: Vec<Change>) -> Result<Vec<Change>, RepositoryError> {
        let by_path = |changes: Vec<Change>| -> ChangesByPath {
            changes.into_iter().map(|change| (change.path.clone(), change)).collect()
        };
        let mut since = Vec::with_capacity(self.earlier.len());
        for earlier in &self.earlier {
            since.push((by_path(changes(self.git, &earlier.commit, &self.result)?), earlier.is_applied));
        }
        let first = by_path(all);
        let newer = since.iter().flat_map(|(changes, _)| changes.iter());
        let paths: BTreeMap<&Vec<u8>, &Change> = newer.chain(&first).collect();
        let mut fitting = Vec::with_capacity(paths.len());
        for (path, any) in paths {
            let found = self.inspect(onto, path, any)?;
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

    /// Decides on every path. A single conflict fails the whole plan.
    fn plan<'c>(
        &self,
        onto: &TreeSwitch,
        changes: &'c [Change],
        known: &Intent,
    ) -> Result<(Vec<Step<'c>>, ApplySummary), ApplyError> {
        let mut applied = ApplySummary::default();
        let mut steps = Vec::new();
        let mut conflicts = Vec::new();
        let removed: BTreeSet<&[u8]> = changes
            .iter()
            .filter(|change| change.new.is_none())
            .map(|change| change.path.as_slice())
            .collect();
        for change in changes {
            let found = self.inspect(onto, &change.path, change)?;
            let made = found == PathState::Directory && becomes_directory(change, changes);
            if made || found.is(change.new.as_ref()) || is_known(&found, change, known) {
                applied.already += 1;
                continue;
            }
            match self.decide(onto, change, &found, &removed)? {
                Some(FileAction::Nothing) => applied.already += 1,
                Some(doing) => {
                    applied.merged += usize::from(matches!(doing, FileAction::Mix(..)));
                    steps.push(Step { change, found, doing });
                }
                None => conflicts.push(shown(&change.path)),
            }
        }
        if conflicts.is_empty() {
            return Ok((steps, applied));
        }
        let more = conflicts.len().saturating_sub(CONFLICTS_MAX);
        conflicts.truncate(CONFLICTS_MAX);
        conflicts.extend((more > 0).then(|| format!("and {more} more")));
        Err(ApplyError::Conflict { files: conflicts })
    }

    /// The state of a path. Where the executable bit is not meaningful, the tree's mode is assumed.
    fn inspect(&self, onto: &TreeSwitch, path: &[u8], change: &Change) -> Result<PathState, RepositoryError> {
        let found = onto.inspect(path)?;
        let is_file = |kind| matches!(kind, EntryType::File | EntryType::Executable);
        match (found, change.old.or(change.new)) {
            (PathState::Thing(side), Some(tree))
                if !self.executable_counts && is_file(side.kind) && is_file(tree.kind) =>
            {
                Ok(PathState::Thing(Side { kind: tree.kind, ..side }))
            }
            (found, _) => Ok(found),
        }
    }

    /// Returns `None` for a conflict.
    fn decide(
        &self,
        onto: &TreeSwitch,
        change: &Change,
        found: &PathState,
        removed: &BTreeSet<&[u8]>,
    ) -> Result<Option<FileAction>, RepositoryError> {
        if change.touches(EntryType::Submodule) {
            return Ok(None);
        }
        let Some(new) = change.new else {
            let as_before = found.is(change.old.as_ref()) || Self::same_text(onto, change, found)?;
            return Ok(as_before.then_some(FileAction::Remove));
        };
        let write = Ok(Some(FileAction::Write(new, LineEnds::AsStored)));
        match found {
            found if found.is(change.old.as_ref()) => {
                // A parent of the path may be a file that the result turns into a directory.
                let free = change.old.is_some() || above_is_free(onto, &change.path, removed)?;
                if free { write } else { Ok(None) }
            }
            PathState::Directory if change.old.is_none() => {
                let inside = onto.beneath(&change.path)?.unwrap_or_else(|| vec![Vec::new()]);
                if inside.iter().all(|path| removed.contains(path.as_slice())) { write } else { Ok(None) }
            }
            PathState::Thing(side) => self.mix(onto, change, side, &new),
            _ => Ok(None),
        }
    }

    /// Whether a file differs from the base only in its line endings.
    fn same_text(onto: &TreeSwitch, change: &Change, found: &PathState) -> Result<bool, RepositoryError> {
        let (PathState::Thing(side), Some(old)) = (found, change.old) else { return Ok(false) };
        if side.kind != old.kind || side.kind == EntryType::Link {
            return Ok(false);
        }
        let Some(content) = onto.read(&change.path, MERGE_MAX_BYTES)? else { return Ok(false) };
        Ok(object::name(object::ObjectType::Blob, &LineEnds::of(&content).stored(&content)) == old.oid)
    }

    /// Merges the user's change and the run's change of one file; `None` if they conflict.
    fn mix(
        &self,
        onto: &TreeSwitch,
        change: &Change,
        found: &Side,
        new: &Side,
    ) -> Result<Option<FileAction>, RepositoryError> {
        let Some(old) = change.old else { return Ok(None) };
        if [found.kind, old.kind, new.kind].contains(&EntryType::Link) {
            return Ok(None);
        }
        let Some(content) = onto.read(&change.path, MERGE_MAX_BYTES)? else { return Ok(None) };
        let ends = LineEnds::of(&content);
        let stored = ends.stored(&content);
        let kind = if found.kind == old.kind { new.kind } else { found.kind };
        let name = object::name(object::ObjectType::Blob, &stored);
        if name == old.oid {
            return Ok(Some(FileAction::Write(Side { kind, ..*new }, ends)));
        }
        if name == new.oid {
            // The content is the result's already. Only the executable bit may differ.
            let doing = if kind == found.kind { FileAction::Nothing } else { FileAction::Mix(kind, content) };
            return Ok(Some(doing));
        }
        let merged = three_way(self.git, &stored, &old.oid, &new.oid)?;
        Ok(merged.map(|merged| {
            let there = kind == found.kind && merged == stored;
            if there { FileAction::Nothing } else { FileAction::Mix(kind, ends.on_disk(merged)) }
        }))
    }

    fn execute(
        &self,
        mut onto: TreeSwitch,
        steps: &[Step<'_>],
        applied: &mut ApplySummary,
    ) -> Result<(), ApplyError> {
        let staged = self.stage(&mut onto, steps)?;
        onto.sync_staged()?;
        (self.hit)("workspace.apply.after_staging");
        let removals = steps.iter().zip(&staged).filter(|(step, _)| matches!(step.doing, FileAction::Remove));
        let writes = steps.iter().zip(&staged).filter(|(step, _)| !matches!(step.doing, FileAction::Remove));
        for (step, staged) in removals.chain(writes) {
            let path = &step.change.path;
            let now = self.inspect(&onto, path, step.change)?;
            // An earlier removal may have emptied the directory.
            let as_planned =
                now == step.found || (now == PathState::Absent && step.found == PathState::Directory);
            let placed = as_planned
                && match staged {
                    None => onto.remove(path).map(|()| true)?,
                    Some((number, kind)) => onto.put(*number, path, *kind)?,
                };
            if !placed {
                return Err(ApplyError::Moved { file: shown(path), written: applied.files });
            }
            applied.files += 1;
            (self.hit)("workspace.apply.between_paths");
        }
        onto.finish()?;
        Ok(())
    }

    /// Stages all contents and returns the number of each, or `None` for a removal.
    fn stage(
        &self,
        onto: &mut TreeSwitch,
        steps: &[Step<'_>],
    ) -> Result<Vec<Option<(usize, EntryType)>>, RepositoryError> {
        let mut staged = vec![None; steps.len()];
        let mut wanted = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            match &step.doing {
                FileAction::Remove | FileAction::Nothing => {}
                FileAction::Mix(kind, content) => staged[at] = Some((onto.stage(*kind, content)?, *kind)),
                FileAction::Write(side, ends) => wanted.push((at, *side, *ends)),
            }
        }
        let oids: Vec<ObjectId> = wanted.iter().map(|(_, side, _)| side.oid).collect();
        contents(self.git, &oids, |place, content| {
            let (at, side, ends) = wanted[place];
            let content = if side.kind == EntryType::Link { content } else { ends.on_disk(content) };
            staged[at] = Some((onto.stage(side.kind, &content)?, side.kind));
            Ok(())
        })?;
        Ok(staged)
    }
}

/// Whether an earlier call wrote the content that was found.
fn is_known(found: &PathState, change: &Change, known: &Intent) -> bool {
    let PathState::Thing(side) = found else { return false };
    known.mixed.get(&hex(&change.path)).is_some_and(|oid| *oid == side.oid.to_string())
}

/// Whether each parent directory of a new path exists, is absent, or is a file that will be removed.
fn above_is_free(onto: &TreeSwitch, path: &[u8], removed: &BTreeSet<&[u8]>) -> Result<bool, RepositoryError> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    for (at, _) in slashes {
        match onto.inspect(&path[..at])? {
            PathState::Directory => {}
            PathState::Absent => return Ok(true),
            _ => return Ok(removed.contains(&path[..at])),
        }
    }
    Ok(true)
}

/// A path as text that is lossless for any bytes.
fn hex(path: &[u8]) -> String {
    use std::fmt::Write as _;
    path.iter().fold(String::with_capacity(path.len() * 2), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
