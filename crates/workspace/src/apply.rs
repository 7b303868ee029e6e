//! Bringing a run's result into the person's checkout.
//!
//! Only the paths that differ between the run's base snapshot and its result are looked at. Everything is decided
//! before anything is written: one conflict, and nothing is. What will be written is put down beneath the run's state
//! first, so that a call that was cut off is finished by the next one, which knows its own half from the person's
//! work. Index, HEAD and stash are never touched.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::change::{Change, EntryType, Side, becomes_directory, changes, shown};
use super::text::{LineEnds, three_way};
use super::tree_switch::{PathState, TreeSwitch};
use super::update::contents;
use super::{Git, Oid, WorkspaceError, disk, object};

/// Largest file that is merged with what the person did meanwhile.
const MERGE_MAX_BYTES: u64 = 8 * 1024 * 1024;
/// Most conflicting files that are named.
const CONFLICTS_MAX: usize = 200;

/// What was brought into the checkout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ApplySummary {
    /// How many files were written or removed.
    pub files: usize,
    /// How many of those hold both the run's change and the person's.
    pub merged: usize,
    /// How many were as in the result already.
    pub already: usize,
}

/// Why nothing was brought into the checkout.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ApplyError {
    /// Files that the person changed too; nothing was written.
    #[error(
        "these files were changed since the run began, and nothing was written: {}; merge the run's branch by \
         hand, or undo your change of those files and apply again",
        .files.join(", ")
    )]
    Conflict {
        /// The files, a bounded list.
        files: Vec<String>,
    },
    /// A file changed while the result was being written. Applying again goes on.
    #[error("{file} changed while the result was being written; {written} files were; apply again to go on")]
    Moved {
        /// The file.
        file: String,
        /// How many files were written before.
        written: usize,
    },
    /// Something else.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
}

/// What an apply is about to write, or has written.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Intent {
    /// The tree whose content is brought over.
    result: String,
    /// Whether all of it was written.
    done: bool,
    /// Contents that are neither the base's nor the result's: by path (hex), the name of the content.
    mixed: BTreeMap<String, String>,
}

impl Intent {
    fn load(path: &Path) -> Result<Option<Self>, WorkspaceError> {
        let Some(text) = disk::read_if_there(path)? else { return Ok(None) };
        // It is written whole, so one that cannot be read was not written by this version; it vouches for nothing.
        Ok(serde_json::from_slice(&text).ok())
    }

    fn save(&self, path: &Path) -> Result<(), WorkspaceError> {
        disk::write_durably(path, &serde_json::to_vec(self).unwrap_or_default())
    }
}

/// What is to be done with one path.
struct Step<'a> {
    change: &'a Change,
    /// What was there when it was decided.
    found: PathState,
    doing: FileAction,
}

enum FileAction {
    Remove,
    /// Write the result's content, with these line ends.
    Write(Side, LineEnds),
    /// Write this content.
    Mix(EntryType, Vec<u8>),
    /// What is there holds the run's change already.
    Nothing,
}

/// Where a result is brought from and to.
pub(super) struct Application<'a> {
    /// The bare repository.
    pub(super) git: &'a Git,
    /// The run's base snapshot.
    pub(super) base: Oid,
    /// The run's result.
    pub(super) result: Oid,
    /// Where the intent is put down.
    pub(super) intent: &'a Path,
    /// Whether the permission to execute counts in the checkout.
    pub(super) executable_counts: bool,
    /// Fault points.
    pub(super) hit: &'a dyn Fn(&'static str),
}

impl Application<'_> {
    /// Brings it over.
    pub(super) fn apply(&self, onto: TreeSwitch) -> Result<ApplySummary, ApplyError> {
        let known = Intent::load(self.intent)?;
        let before =
            known.as_ref().filter(|intent| intent.done).and_then(|intent| intent.result.parse().ok());
        // An earlier result that was applied is what the checkout is compared with now. The same one is not: the
        // person may have undone it.
        let before = before.filter(|before| *before != self.result);
        let known = known.unwrap_or_default();
        let changes = changes(self.git, &before.unwrap_or(self.base), &self.result)?;
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

    /// Decides on every path; one conflict and there is no plan.
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

    /// What is there; where the permission to execute does not count, it is as the tree has it.
    fn inspect(&self, onto: &TreeSwitch, path: &[u8], change: &Change) -> Result<PathState, WorkspaceError> {
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

    /// None is a conflict.
    fn decide(
        &self,
        onto: &TreeSwitch,
        change: &Change,
        found: &PathState,
        removed: &BTreeSet<&[u8]>,
    ) -> Result<Option<FileAction>, WorkspaceError> {
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
                // Something above it may be in the way: a file that the result turns into a directory.
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

    /// Whether a file differs from the base only in its line ends.
    fn same_text(onto: &TreeSwitch, change: &Change, found: &PathState) -> Result<bool, WorkspaceError> {
        let (PathState::Thing(side), Some(old)) = (found, change.old) else { return Ok(false) };
        if side.kind != old.kind || side.kind == EntryType::Link {
            return Ok(false);
        }
        let Some(content) = onto.read(&change.path, MERGE_MAX_BYTES)? else { return Ok(false) };
        Ok(object::name(object::ObjectType::Blob, &LineEnds::of(&content).stored(&content)) == old.oid)
    }

    /// The person's change and the run's in one file, if they do not meet.
    fn mix(
        &self,
        onto: &TreeSwitch,
        change: &Change,
        found: &Side,
        new: &Side,
    ) -> Result<Option<FileAction>, WorkspaceError> {
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
            // The content is the result's; what may be left is the permission to execute.
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
            // Room was made by the removals before.
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

    /// Stages all contents; gives each its number, or none for a removal.
    fn stage(
        &self,
        onto: &mut TreeSwitch,
        steps: &[Step<'_>],
    ) -> Result<Vec<Option<(usize, EntryType)>>, WorkspaceError> {
        let mut staged = vec![None; steps.len()];
        let mut wanted = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            match &step.doing {
                FileAction::Remove | FileAction::Nothing => {}
                FileAction::Mix(kind, content) => staged[at] = Some((onto.stage(*kind, content)?, *kind)),
                FileAction::Write(side, ends) => wanted.push((at, *side, *ends)),
            }
        }
        let oids: Vec<Oid> = wanted.iter().map(|(_, side, _)| side.oid).collect();
        contents(self.git, &oids, |place, content| {
            let (at, side, ends) = wanted[place];
            let content = if side.kind == EntryType::Link { content } else { ends.on_disk(content) };
            staged[at] = Some((onto.stage(side.kind, &content)?, side.kind));
            Ok(())
        })?;
        Ok(staged)
    }
}

/// Whether an earlier call wrote what is there.
fn is_known(found: &PathState, change: &Change, known: &Intent) -> bool {
    let PathState::Thing(side) = found else { return false };
    known.mixed.get(&hex(&change.path)).is_some_and(|oid| *oid == side.oid.to_string())
}

/// Whether every directory above a new path is there, or free, or a file that will be removed.
fn above_is_free(onto: &TreeSwitch, path: &[u8], removed: &BTreeSet<&[u8]>) -> Result<bool, WorkspaceError> {
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

/// A path as text that any content of it survives.
fn hex(path: &[u8]) -> String {
    use std::fmt::Write as _;
    path.iter().fold(String::with_capacity(path.len() * 2), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
