//! Recovers workspaces that lost files when the machine crashed.

use std::fs;

use posse_sandbox::HolderMode;

use super::content;
use super::refs::{torn_ref, work_ref};
use super::run::Mark;
use super::snapshot::{EarlierStats, WorkspaceScan};
use super::{ObjectId, RepositoryError, RunSpace, disk, objects, sync};

/// How much of a workspace reached the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    /// Everything that a snapshot has.
    Whole,
    /// Less than its last snapshot, which has the rest.
    Behind,
    Torn,
}

impl RunSpace {
    /// How much of a workspace reached the disk. A complete one is marked with the current boot.
    pub(super) fn lasted(
        &self,
        agent: &str,
        attempt: u32,
        mark: Mark,
    ) -> Result<Durability, RepositoryError> {
        let now = self.spaces.options.boot();
        if now.is_some() && now == mark.boot {
            return Ok(Durability::Whole);
        }
        let (home, base) = (self.attempt_dir(agent, attempt), mark.base()?);
        let Some(synced) = sync::commit(&home) else { return Ok(Durability::Torn) };
        if self.refs().read(&work_ref(agent, attempt))?.unwrap_or(base) != synced {
            return Ok(Durability::Behind);
        }
        Mark { boot: now, ..mark }.save(&home)?;
        Ok(Durability::Whole)
    }

    /// Makes room for a torn workspace: keeps all readable files of it, or sets it aside unchanged if some are
    /// unreadable. Returns a text that says what was done.
    pub(super) fn set_aside(&self, agent: &str, attempt: u32) -> Result<String, RepositoryError> {
        self.release(agent, attempt);
        // Before the rename: after a crash between the two, this is repeated.
        let kept = self.keep_torn(agent, attempt);
        self.spaces.options.hit("workspace.torn.before_rename");
        let became = match kept {
            Ok(kept) => {
                self.spaces.discard(&self.attempt_dir(agent, attempt))?;
                kept.map_or_else(
                    || "nothing in it differed from that".to_owned(),
                    |name| format!("what the machine kept of it is {name}"),
                )
            }
            Err(error) => {
                let home = self.attempt_dir(agent, attempt);
                let aside = disk::temporary(&home.with_file_name(format!("torn-{attempt}")));
                fs::rename(&home, &aside).map_err(disk::failed("setting aside", &home))?;
                format!("not all of it could be kept ({error}) and it is now at {}", aside.display())
            }
        };
        Ok(format!(
            "the machine stopped before the workspace of {agent} (attempt {attempt}) had reached the disk; it was made anew \
             from its last snapshot; {became}"
        ))
    }

    /// Writes the mark of an overlay again that a machine crash lost. It was made from `base`: an overlay is marked
    /// durably before its work ref exists.
    pub(super) fn mark_again(
        &self,
        agent: &str,
        attempt: u32,
        base: &ObjectId,
    ) -> Result<(), RepositoryError> {
        let home = self.attempt_dir(agent, attempt);
        let is_marked = self.mark(agent, attempt).is_ok_and(|mark| mark.is_some());
        if is_marked || !home.join(super::overlays::UPPER).is_dir() {
            return Ok(());
        }
        let likely = || HolderMode::possible()[0];
        let mode = self.usable_overlays().map_or_else(likely, |(_, mode)| mode);
        // Whatever of it reached the disk, it is torn: no boot had it whole.
        Mark { base: base.to_string(), bytes: 0, boot: None, overlay: Some(mode) }.save(&home)?;
        sync::forget(&home)
    }

    /// Commits the readable files of a torn workspace beside its work ref, reachable from its torn ref; `None` if they
    /// equal the work ref's.
    fn keep_torn(&self, agent: &str, attempt: u32) -> Result<Option<String>, RepositoryError> {
        let refs = self.refs();
        let line = refs.read(&work_ref(agent, attempt))?;
        let base = self
            .mark(agent, attempt)?
            .filter(|mark| mark.overlay.is_some())
            .map(|mark| mark.base())
            .transpose()?;
        let tip = line.or(base).ok_or_else(|| RepositoryError::Damaged("its line is gone".to_owned()))?;
        // File times prove nothing here: a file may have its times without its content.
        let WorkspaceScan { trees, tree, present, pack, mut walked, .. } =
            self.scan(agent, attempt, &tip, EarlierStats::Nothing)?;
        if !Self::is_scratch(agent) {
            self.keep_git(agent, attempt, &mut walked.left_out)?;
            if let Some(unkept) = walked.left_out.unkept() {
                return Err(RepositoryError::Damaged(unkept));
            }
        }
        let name = torn_ref(agent, attempt);
        let before = refs.read(&name)?;
        let git = self.git();
        let same = |commit: &ObjectId| objects::tree_of(&git, commit).map(|other| other == tree);
        if same(&tip)? {
            return Ok(None);
        }
        if before.as_ref().map_or(Ok(false), same)? {
            return Ok(Some(name));
        }
        content::add_trees(&trees, &present, &pack)?;
        let parents: Vec<ObjectId> = [tip].into_iter().chain(before).collect();
        let message = format!("posse: work of {agent}, as far as the machine kept it");
        let commit = super::add_commit(&pack, &tree, &parents, &message)?;
        pack.finish()?;
        let lock = self.project.lock_ref(&name)?;
        refs.swap(&lock, &name, before.as_ref(), &commit)?;
        Ok(Some(name))
    }
}
