//! Writes changes of paths into the user's checkout, for apply and for its undo.
//!
//! All decisions precede all writes: one conflict, and nothing is written. A path that the user changed too is merged, or it
//! is a conflict.

use std::collections::{BTreeMap, BTreeSet};

use posse_engine::ports::{ApplyError, ApplySummary, ConflictKind, FileConflict, FileConflicts};

use super::apply_intent::hex;
use super::change::{Change, EntryType, Side, becomes_directory, shown};
use super::conflict::{self, Conflicts};
use super::manifest::Manifest;
use super::text::{LineEnds, TextMerge, three_way};
use super::tree_switch::{PathState, TreeSwitch};
use super::update::contents;
use super::{Git, ObjectId, RepositoryError, object};

/// Largest file that is merged with a concurrent change by the user.
const MERGE_MAX_BYTES: u64 = 8 * 1024 * 1024;

/// The action that was decided for one path.
pub(super) struct Step<'a> {
    pub(super) change: &'a Change,
    /// The state of the path when the action was decided.
    pub(super) found: PathState,
    pub(super) doing: FileAction,
}

pub(super) enum FileAction {
    Remove,
    /// Write the result's content with these line endings.
    Write(Side, LineEnds),
    /// Write this merged content.
    Mix(EntryType, Vec<u8>),
    /// The file has the run's change already.
    Nothing,
}

/// Staged content for a path.
#[derive(Debug, Clone, Copy)]
pub(super) struct StagedFile {
    pub(super) number: usize,
    pub(super) side: Side,
}

/// Why a plan cannot be made.
pub(super) enum PlanError {
    /// The user changed these files in other ways.
    Conflict(FileConflicts),
    Repository(RepositoryError),
}

impl From<RepositoryError> for PlanError {
    fn from(error: RepositoryError) -> Self {
        Self::Repository(error)
    }
}

/// Merged contents that an earlier call wrote: object id by path (hex).
pub(super) type KnownContents = BTreeMap<String, String>;

/// Writes changes into a checkout.
#[derive(Clone, Copy)]
pub(super) struct PathWriter<'a> {
    pub(super) git: &'a Git,
    /// Whether the executable bit is meaningful in the checkout (`core.fileMode`).
    pub(super) executable_counts: bool,
    /// Whether contents of changes are in the form that git stores. Then the user's line endings are kept.
    pub(super) is_stored: bool,
    /// The checkout when the run began: what git converts when it stores a file, such as one that LFS keeps.
    pub(super) begun: Option<&'a Manifest>,
    pub(super) hit: &'a dyn Fn(&'static str),
}

impl PathWriter<'_> {
    /// Decides on every path. A single conflict fails the whole plan.
    pub(super) fn plan<'c>(
        &self,
        onto: &TreeSwitch,
        changes: &'c [Change],
        known: &KnownContents,
    ) -> Result<(Vec<Step<'c>>, ApplySummary), PlanError> {
        let mut applied = ApplySummary::default();
        let mut steps = Vec::new();
        let mut conflicts = Conflicts::default();
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
                None => {
                    let conflict = self.describe(onto, change, &found, conflicts.shows_lines())?;
                    conflicts.push(conflict);
                }
            }
        }
        if conflicts.is_empty() {
            Ok((steps, applied))
        } else {
            Err(PlanError::Conflict(conflicts.into_inner()))
        }
    }

    /// What keeps a change from being made, with the lines of both sides if they are wanted.
    fn describe(
        &self,
        onto: &TreeSwitch,
        change: &Change,
        found: &PathState,
        shows_lines: bool,
    ) -> Result<FileConflict, RepositoryError> {
        let named = |kind| Ok(conflict::named(&change.path, kind));
        let is_file = |side: &Side| matches!(side.kind, EntryType::File | EntryType::Executable);
        let (side, new) = match (found, &change.new) {
            _ if change.touches(EntryType::Submodule) => return named(ConflictKind::NotText),
            (PathState::Absent, _) if change.old.is_some() => return named(ConflictKind::OursDeleted),
            (PathState::Thing(_), None) => return named(ConflictKind::TheirsDeleted),
            (PathState::Thing(side), Some(new)) => (side, new),
            _ => return named(ConflictKind::InTheWay),
        };
        if !is_file(side) || !is_file(new) || change.old.is_some_and(|old| !is_file(&old)) {
            return named(ConflictKind::NotText);
        }
        if !shows_lines {
            return named(ConflictKind::Lines);
        }
        let Some(content) = onto.read(&change.path, MERGE_MAX_BYTES)? else {
            return named(ConflictKind::NotText);
        };
        let ours = self.ends_of(&content).stored(&content);
        let base = change.old.map(|old| old.oid);
        let conflict = conflict::of_lines(self.git, &change.path, &ours, base.as_ref(), &new.oid)?;
        // The files are the same, and something else of the two changes is not.
        Ok(conflict.unwrap_or_else(|| conflict::named(&change.path, ConflictKind::Lines)))
    }

    fn ends_of(&self, content: &[u8]) -> LineEnds {
        if self.is_stored { LineEnds::of(content) } else { LineEnds::AsStored }
    }

    /// The state of a path. Where the executable bit is not meaningful, the tree's mode is assumed.
    pub(super) fn inspect(
        &self,
        onto: &TreeSwitch,
        path: &[u8],
        change: &Change,
    ) -> Result<PathState, RepositoryError> {
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
            let is_as_before = found.is(change.old.as_ref())
                || self.same_text(onto, change, found)?
                || self.is_converted(onto, change)?;
            return Ok(is_as_before.then_some(FileAction::Remove));
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
            PathState::Thing(side) => match self.mix(onto, change, side, &new)? {
                None if self.is_converted(onto, change)? => write,
                mixed => Ok(mixed),
            },
            _ => Ok(None),
        }
    }

    /// Whether a file differs from the base only because git converts it, and is unchanged since the run began.
    fn is_converted(&self, onto: &TreeSwitch, change: &Change) -> Result<bool, RepositoryError> {
        let entry = self.begun.and_then(|begun| begun.get(&change.path)).filter(|entry| !entry.raw);
        let (Some(entry), Some(old)) = (entry, change.old) else { return Ok(false) };
        Ok(entry.oid == old.oid && entry.stat.is_some() && onto.stat(&change.path)? == entry.stat)
    }

    /// Whether a file differs from the base only in its line endings.
    fn same_text(
        &self,
        onto: &TreeSwitch,
        change: &Change,
        found: &PathState,
    ) -> Result<bool, RepositoryError> {
        let (PathState::Thing(side), Some(old)) = (found, change.old) else { return Ok(false) };
        if side.kind != old.kind || side.kind == EntryType::Link {
            return Ok(false);
        }
        let Some(content) = onto.read(&change.path, MERGE_MAX_BYTES)? else { return Ok(false) };
        Ok(object::name(object::ObjectType::Blob, &self.ends_of(&content).stored(&content)) == old.oid)
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
        let ends = self.ends_of(&content);
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
        let TextMerge::Merged(merged) = three_way(self.git, &stored, Some(&old.oid), &new.oid)? else {
            return Ok(None);
        };
        let there = kind == found.kind && merged == stored;
        Ok(Some(if there { FileAction::Nothing } else { FileAction::Mix(kind, ends.on_disk(merged)) }))
    }

    /// Writes everything that was staged for these steps, and removes the rest. The caller has synced the staged content.
    pub(super) fn execute(
        &self,
        mut onto: TreeSwitch,
        steps: &[Step<'_>],
        staged: &[Option<StagedFile>],
        applied: &mut ApplySummary,
    ) -> Result<(), ApplyError> {
        let removals = steps.iter().zip(staged).filter(|(step, _)| matches!(step.doing, FileAction::Remove));
        let writes = steps.iter().zip(staged).filter(|(step, _)| !matches!(step.doing, FileAction::Remove));
        for (step, staged) in removals.chain(writes) {
            let path = &step.change.path;
            let now = self.inspect(&onto, path, step.change)?;
            // An earlier removal may have emptied the directory.
            let as_planned =
                now == step.found || (now == PathState::Absent && step.found == PathState::Directory);
            let placed = as_planned
                && match staged {
                    None => onto.remove(path).map(|()| true)?,
                    Some(staged) => onto.put(staged.number, path, staged.side.kind)?,
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

    /// Stages all contents durably and returns what was staged for each step, or `None` for a removal.
    pub(super) fn stage(
        &self,
        onto: &mut TreeSwitch,
        steps: &[Step<'_>],
    ) -> Result<Vec<Option<StagedFile>>, RepositoryError> {
        let stage = |onto: &mut TreeSwitch, kind, content: &[u8]| -> Result<_, RepositoryError> {
            let oid = object::name(object::ObjectType::Blob, content);
            Ok(Some(StagedFile { number: onto.stage(kind, content)?, side: Side { kind, oid } }))
        };
        let mut staged = vec![None; steps.len()];
        let mut wanted = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            match &step.doing {
                FileAction::Remove | FileAction::Nothing => {}
                FileAction::Mix(kind, content) => staged[at] = stage(onto, *kind, content)?,
                FileAction::Write(side, ends) => wanted.push((at, *side, *ends)),
            }
        }
        let oids: Vec<ObjectId> = wanted.iter().map(|(_, side, _)| side.oid).collect();
        contents(self.git, &oids, |place, content| {
            let (at, side, ends) = wanted[place];
            let content = if side.kind == EntryType::Link { content } else { ends.on_disk(content) };
            staged[at] = stage(onto, side.kind, &content)?;
            Ok(())
        })?;
        onto.sync_staged()?;
        (self.hit)("workspace.apply.after_staging");
        Ok(staged)
    }

    /// The content that a step replaces or writes and that no commit of the run has, for an undo.
    pub(super) fn own_contents(
        &self,
        onto: &TreeSwitch,
        step: &Step<'_>,
        staged: Option<&StagedFile>,
    ) -> Result<Vec<Vec<u8>>, RepositoryError> {
        let mut own = Vec::new();
        let is_of_tree =
            |oid| [step.change.old, step.change.new].iter().flatten().any(|side| side.oid == oid);
        if let PathState::Thing(side) = &step.found
            && side.kind != EntryType::Link
            && !is_of_tree(side.oid)
        {
            own.extend(onto.read(&step.change.path, MERGE_MAX_BYTES)?);
        }
        match (&step.doing, staged) {
            (FileAction::Mix(_, content), _) => own.push(content.clone()),
            (FileAction::Write(side, LineEnds::CrLf), Some(staged)) if staged.side.oid != side.oid => {
                contents(self.git, &[side.oid], |_, content| {
                    own.push(LineEnds::CrLf.on_disk(content));
                    Ok(())
                })?;
            }
            _ => {}
        }
        Ok(own)
    }
}

/// Whether an earlier call wrote the content that was found.
fn is_known(found: &PathState, change: &Change, known: &KnownContents) -> bool {
    let PathState::Thing(side) = found else { return false };
    known.get(&hex(&change.path)).is_some_and(|oid| *oid == side.oid.to_string())
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
