//! What becomes of the work of a run: merged, brought up to date, delivered, applied.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::apply::Application;
use super::change::changes;
use super::forbidden::holds;
use super::gc::{entries_of, names_in};
use super::publish::{Delivery, same_tree};
use super::refs::{check_id, work_ref};
use super::torn::Durability;
use super::tree_switch::{Permissions, TreeSwitch};
use super::update::update_files;
use super::user_repository::Person;
use super::{
    ApplyError, ApplySummary, DiffOptions, Lock, Merge, MergeRequest, Oid, PublishedResult, RunSpace,
    UpdateOutcome, WorkspaceError, diff, disk, merge, sync,
};

/// How the names of places begin in which contents wait to be applied.
const STAGING: &str = ".posse-apply-";
/// A run's root is tried once: what fails it ends the run.
pub(super) const ROOT_ATTEMPT: u32 = 1;

/// The names that nobody may change in a run, and what is open of them.
pub(super) struct ProtectedEntries {
    pub(super) protected: Vec<String>,
    pub(super) opened: Vec<String>,
}

impl RunSpace {
    /// Those names, and the state directory if it is in the person's folder: what a result has there would be believed
    /// by Posse itself once it is applied. Nothing opens it.
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

    /// Gates and merges a child's work. Only objects are written: no ref moves, no file changes.
    pub fn merge(&self, request: &MergeRequest) -> Result<Merge, WorkspaceError> {
        let ProtectedEntries { protected, opened } = self.closed(&request.protected, &request.opened);
        let merged = merge(&self.git(), &MergeRequest { protected, opened, ..request.clone() })?;
        self.spaces.options.hit("workspace.merge.after_objects");
        Ok(merged)
    }

    /// Moves an agent's line from `old` to `new` and brings exactly the paths that differ up to date in its workspace.
    /// Whatever is neither old nor new there is kept. Made again after a crash, the same call finishes.
    pub fn update(
        &self,
        agent: &str,
        attempt: u32,
        old: &Oid,
        new: &Oid,
    ) -> Result<UpdateOutcome, WorkspaceError> {
        check_id(agent)?;
        let name = work_ref(agent, attempt);
        let held = self.lock()?;
        let now = self.read_ref(&name)?;
        if now.as_ref() != Some(new) {
            // A line begins where its agent did; one that has not moved yet is not there.
            self.swap_ref(&held, &name, now.as_ref().map(|_| old), new)?;
        }
        drop(held);
        let options = &self.spaces.options;
        options.hit("workspace.update.after_ref");
        let lasted = self.mark(agent, attempt)?.map(|mark| self.lasted(agent, attempt, mark)).transpose()?;
        match lasted {
            Some(Durability::Whole) => {}
            Some(Durability::Behind) => drop(self.make(agent, attempt, new)?),
            // Its files are not on disk, or have to be made anew: from where the line is.
            None | Some(Durability::Torn) => return Ok(UpdateOutcome::default()),
        }
        let home = self.attempt_dir(agent, attempt);
        let onto = TreeSwitch::open(&self.dir_of(agent, attempt), &home.join("staging"), Permissions::Fixed)?;
        let updated = update_files(&self.git(), onto, old, new, &|point| options.hit(point))?;
        sync::soon(&home, new);
        Ok(updated)
    }

    /// The run's result: where the line of the root's one attempt stands, or the base if the root has none.
    pub fn result(&self) -> Result<Oid, WorkspaceError> {
        match self.read_ref(&work_ref(&self.run, ROOT_ATTEMPT))? {
            Some(commit) => Ok(commit),
            None => Ok(self.base()?.commit),
        }
    }

    /// What the run made, wherever it is delivered.
    pub fn made(&self) -> Result<PublishedResult, WorkspaceError> {
        let git = self.git();
        let (base, commit) = (self.base()?.commit, self.result()?);
        let changed =
            if same_tree(&git, &base, &commit)? { Vec::new() } else { changes(&git, &base, &commit)? };
        let paths: Vec<String> =
            changed.iter().map(|change| String::from_utf8_lossy(&change.path).into_owned()).collect();
        Ok(PublishedResult { commit, branch: None, files: paths.len(), paths })
    }

    /// Makes the run's result the branch `posse/<run>` in the person's repository. Nothing is checked out, and nothing
    /// else there is touched. Without a change, or without a repository, there is no branch.
    pub fn publish(&self) -> Result<PublishedResult, WorkspaceError> {
        let made = self.made()?;
        if made.files == 0 {
            return Ok(made);
        }
        let options = &self.spaces.options;
        let person = Person::find(self.folder(), &options.git, options.home.as_deref())?;
        let Some(person) = person.filter(|_| self.is_repository()) else { return Ok(made) };
        let branch = format!("posse/{}", self.run);
        let delivery = Delivery {
            ours: &self.git(),
            person: &person,
            project: &self.project,
            folder: self.folder(),
            program: &options.git,
        };
        delivery.publish(&branch, &made.commit, &|point| options.hit(point))?;
        Ok(PublishedResult { branch: Some(branch), ..made })
    }

    /// What differs between two commits, as text.
    pub fn diff(&self, from: &Oid, to: &Oid, options: DiffOptions) -> Result<Vec<u8>, WorkspaceError> {
        diff(&self.git(), from, to, options)
    }

    /// Brings the run's result into the person's checkout at `dir`: all of it, or nothing if anything is in conflict.
    pub fn apply(&self, dir: &Path) -> Result<ApplySummary, ApplyError> {
        let options = &self.spaces.options;
        // Two at once would take each other's files for the person's.
        let _held = Lock::wait(&self.dir().join("apply.lock"))?;
        let person = Person::find(dir, &options.git, options.home.as_deref())?;
        let git = self.git();
        let application = Application {
            git: &git,
            base: self.base()?.commit,
            result: self.result()?,
            intent: &self.dir().join("apply.json"),
            executable_counts: person.as_ref().is_none_or(Person::executable_counts),
            hit: &|point| options.hit(point),
        };
        let record = self.dir().join("apply.staging");
        let staging = self.staging(dir, &record)?;
        let applied = application.apply(TreeSwitch::open(dir, &staging, Permissions::AsBefore)?);
        if !staging.exists() {
            fs::remove_file(&record).map_err(disk::failed("removing", &record))?;
        }
        applied
    }

    /// A new place for contents that wait, beside the files, because a rename does not cross filesystems. Its name is drawn,
    /// so that no path of a result can be beneath it, and written down before it is made, so that only what an interrupted
    /// call made is ever removed.
    fn staging(&self, dir: &Path, record: &Path) -> Result<PathBuf, WorkspaceError> {
        let left = disk::read_if_there(record)?.map(|path| PathBuf::from(OsString::from_vec(path)));
        let is_ours = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(STAGING.as_bytes()))
        };
        if let Some(left) = left.filter(is_ours) {
            disk::remove_tree(&left)?;
        }
        let mut drawn = [0; 8];
        rustix::rand::getrandom(&mut drawn, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| WorkspaceError::io("drawing a name in", dir, &error.into()))?;
        let staging = dir.join(format!("{STAGING}{}-{:016x}", self.run, u64::from_ne_bytes(drawn)));
        disk::write_durably(record, staging.as_os_str().as_encoded_bytes())?;
        Ok(staging)
    }

    /// Every workspace that is there, complete or not: agent and attempt.
    pub(super) fn workspaces(&self) -> Result<Vec<(String, u32)>, WorkspaceError> {
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

    /// What stands beside workspaces and is none: set aside when the machine stopped, or not known at all.
    pub(super) fn strays(&self) -> Result<Vec<PathBuf>, WorkspaceError> {
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
