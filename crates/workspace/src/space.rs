//! Merges, updates and publishes the work of a run.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use posse_engine::ports::{DiffForm, DiffOptions, Merge, UpdateOutcome};

use super::change::changes;
use super::forbidden::holds;
use super::gc::{entries_of, names_in};
use super::overlays::WorkspaceFiles;
use super::publish::{ResultTransfer, same_tree};
use super::refs::{check_id, work_ref};
use super::torn::Durability;
use super::tree_switch::{Permissions, TreeSwitch};
use super::update::update_files;
use super::upper::{self, STAGING_PREFIX, STAGING_RECORD};
use super::user_repository::UserRepository;
use super::{ObjectId, PublishedResult, RepositoryError, RunSpace, TreeMerge, diff, disk, merge, sync};

/// A run's root has one attempt: its failure ends the run.
pub(super) const ROOT_ATTEMPT: u32 = 1;

/// A staging directory inside an overlay, because a rename does not cross mounts. Its name is random, so that it is no
/// name of the agent's, and is recorded before it is used, so that no snapshot takes it for work.
fn inner_staging(home: &Path, dir: &Path) -> Result<PathBuf, RepositoryError> {
    let record = home.join(STAGING_RECORD);
    if let Some(left) = upper::staging_of(home)? {
        disk::remove_tree(&dir.join(OsString::from_vec(left)))?;
    }
    let name = format!("{STAGING_PREFIX}{:016x}", drawn(dir)?);
    disk::write_cache(&record, name.as_bytes())?;
    Ok(dir.join(name))
}

pub(super) fn drawn(dir: &Path) -> Result<u64, RepositoryError> {
    let mut drawn = [0; 8];
    rustix::rand::getrandom(&mut drawn, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| RepositoryError::io("drawing a name in", dir, &error.into()))?;
    Ok(u64::from_ne_bytes(drawn))
}

/// The names that no agent of a run may change, and the exceptions.
pub(super) struct ProtectedEntries {
    pub(super) protected: Vec<String>,
    pub(super) opened: Vec<String>,
}

impl RunSpace {
    /// Adds the state directory to the protected names if it is in the user's folder, without any exception: Posse
    /// would trust what an applied result writes there.
    pub(super) fn closed(&self, protected: &[String], opened: &[String]) -> ProtectedEntries {
        let (mut protected, mut opened) = (protected.to_vec(), opened.to_vec());
        let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let state = whole(&self.spaces.state);
        if let Ok(inside) = state.strip_prefix(whole(self.folder())) {
            let inside = inside.to_string_lossy().into_owned();
            opened.retain(|pattern| !holds(pattern, inside.as_bytes()));
            protected.extend(Some(inside).filter(|inside| !inside.is_empty()));
        }
        ProtectedEntries { protected, opened }
    }

    /// Checks the gate and merges a child's work. Only objects are written: no ref moves, no file changes.
    pub fn merge(&self, request: &TreeMerge) -> Result<Option<Merge>, RepositoryError> {
        let ProtectedEntries { protected, opened } = self.closed(&request.protected, &request.opened);
        let merged = merge(&self.git(), &TreeMerge { protected, opened, ..request.clone() })?;
        self.spaces.options.hit("workspace.merge.after_objects");
        Ok(merged)
    }

    /// Moves an agent's work ref from `old` to `new` and updates exactly the differing paths in its workspace. A path
    /// that is neither old nor new is kept. Repeated after a crash, the same call finishes the update.
    pub fn update(
        &self,
        agent: &str,
        attempt: u32,
        old: &ObjectId,
        new: &ObjectId,
    ) -> Result<UpdateOutcome, RepositoryError> {
        check_id(agent)?;
        self.spaces.calls.forget(&self.attempt_dir(agent, attempt));
        let name = work_ref(agent, attempt);
        let held = self.lock_ref(&name)?;
        let now = self.read_ref(&name)?;
        if now.as_ref() != Some(new) {
            // A work ref is created by its first move; until then its agent is at its base.
            self.swap_ref(&held, &name, now.as_ref().map(|_| old), new)?;
        }
        drop(held);
        let options = &self.spaces.options;
        options.hit("workspace.update.after_ref");
        let lasted = self.mark(agent, attempt)?.map(|mark| self.lasted(agent, attempt, mark)).transpose()?;
        match lasted {
            Some(Durability::Whole) => {}
            Some(Durability::Behind) => drop(self.make_files(agent, attempt, new)?),
            // Its files are not on disk, or have to be created again from the work ref.
            None | Some(Durability::Torn) => return Ok(UpdateOutcome::default()),
        }
        let home = self.attempt_dir(agent, attempt);
        // Kept until the update is done: an unmounted overlay has no files.
        let files = self.open_files(agent, attempt)?;
        let dir = files.path();
        let staging = match &files {
            WorkspaceFiles::Directory(_) => home.join("staging"),
            WorkspaceFiles::Mount(..) => inner_staging(&home, &dir)?,
        };
        let onto = TreeSwitch::open(&dir, &staging, Permissions::Fixed)?;
        let updated = update_files(&self.git(), onto, old, new, &|point| options.hit(point))?;
        if !staging.exists() {
            drop(fs::remove_file(home.join(STAGING_RECORD)));
        }
        sync::soon(&home, new);
        Ok(updated)
    }

    /// The run's result: the work ref of the root's one attempt, or the base if the root has none.
    pub fn result(&self) -> Result<ObjectId, RepositoryError> {
        match self.read_ref(&work_ref(&self.run, ROOT_ATTEMPT))? {
            Some(commit) => Ok(commit),
            None => Ok(self.base()?.commit),
        }
    }

    /// The run's changes, whether or not they are published.
    pub fn made(&self) -> Result<PublishedResult, RepositoryError> {
        let git = self.git();
        let (base, commit) = (self.compared_with()?, self.result()?);
        let changed =
            if same_tree(&git, &base, &commit)? { Vec::new() } else { changes(&git, &base, &commit)? };
        let paths: Vec<String> =
            changed.iter().map(|change| String::from_utf8_lossy(&change.path).into_owned()).collect();
        let is_rename = |new: bool| {
            changed.iter().any(|change| change.new.is_some() == new && change.old.is_some() != new)
        };
        // A renamed file is one file, as in a diff.
        let files = if is_rename(true) && is_rename(false) {
            let options = DiffOptions { form: DiffForm::NameStatus, colour: false };
            let lines = diff(&git, &base, &commit, options)?;
            lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count()
        } else {
            paths.len()
        };
        Ok(PublishedResult { commit, branch: None, files, paths })
    }

    /// Publishes the run's result as the branch `posse/<run>` in the user's repository. Nothing is checked out, and
    /// nothing else there changes. Without a change or without a repository, no branch is created.
    pub fn publish(&self) -> Result<PublishedResult, RepositoryError> {
        let made = self.made()?;
        if made.files == 0 {
            return Ok(made);
        }
        let options = &self.spaces.options;
        let user_repository = UserRepository::find(self.folder(), &options.git, options.home.as_deref())?;
        let Some(user_repository) = user_repository.filter(|_| self.is_repository()) else { return Ok(made) };
        let branch = format!("posse/{}", self.run);
        let transfer = ResultTransfer {
            ours: &self.git(),
            user_repository: &user_repository,
            project: &self.project,
            folder: self.folder(),
            program: &options.git,
            has_snapshot: self.record.head.as_deref() != Some(self.base()?.commit.to_string().as_str()),
        };
        transfer.publish(&branch, &made.commit, &|point| options.hit(point))?;
        Ok(PublishedResult { branch: Some(branch), ..made })
    }

    /// The difference between two commits, as text.
    pub fn diff(
        &self,
        from: &ObjectId,
        to: &ObjectId,
        options: DiffOptions,
    ) -> Result<Vec<u8>, RepositoryError> {
        diff(&self.git(), from, to, options)
    }

    /// Every workspace, complete or not: agent and attempt.
    pub(super) fn workspaces(&self) -> Result<Vec<(String, u32)>, RepositoryError> {
        let top = self.dir().join("workspaces");
        let mut found = Vec::new();
        for agent in names_in(&top)? {
            for attempt in names_in(&top.join(&agent))? {
                if let Ok(attempt) = attempt.parse() {
                    found.push((agent.clone(), attempt));
                }
            }
        }
        Ok(found)
    }

    /// Directories beside the workspaces that are not workspaces: set aside after a machine crash, or unknown.
    pub(super) fn strays(&self) -> Result<Vec<PathBuf>, RepositoryError> {
        let top = self.dir().join("workspaces");
        let known: HashSet<PathBuf> =
            self.workspaces()?.iter().map(|(agent, attempt)| self.attempt_dir(agent, *attempt)).collect();
        let mut strays = Vec::new();
        for agent in entries_of(&top)? {
            if agent.is_dir() && !agent.is_symlink() {
                strays.extend(entries_of(&agent)?.into_iter().filter(|path| !known.contains(path)));
            } else {
                strays.push(agent);
            }
        }
        strays.sort();
        Ok(strays)
    }

    pub(super) fn project_key(&self) -> String {
        self.project.key()
    }
}
