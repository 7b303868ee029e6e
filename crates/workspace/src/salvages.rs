//! Lists and restores salvage: work that was kept when its workspace was closed.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use super::change::{changes, unreadable};
use super::checkout::Checkout;
use super::{ObjectId, RepositoryError, RunSpace, disk, objects, refs};

/// The kept work of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SalvageEntry {
    /// The agent that did the work.
    pub agent: String,
    /// The number of the agent's attempt.
    pub attempt: u32,
    /// Whether it is only the readable rest after a machine crash.
    pub torn: bool,
    /// Whether it is the `.git` of the workspace, as plain files.
    pub git: bool,
    /// The commit with the kept files.
    pub commit: ObjectId,
    /// The commit time, in seconds since 1970.
    pub time: u64,
    /// How many files differ from the run's base; for a `.git`, how many files it has.
    pub files: usize,
}

impl RunSpace {
    /// All salvage of this run.
    pub fn salvages(&self) -> Result<Vec<SalvageEntry>, RepositoryError> {
        let mut found = salvages_of(self)?;
        let base = self.base()?.commit;
        for salvage in &mut found {
            let git = self.git();
            salvage.files = if salvage.git {
                objects::list(&git, &salvage.commit)?.len()
            } else {
                changes(&git, &base, &salvage.commit)?.len()
            };
        }
        Ok(found)
    }

    /// Writes the salvage of an attempt into `target`, a new or empty directory. Returns the number of files.
    pub fn restore(&self, agent: &str, attempt: u32, target: &Path) -> Result<usize, RepositoryError> {
        self.restore_ref(&refs::salvage_ref(agent, attempt), target)
    }

    /// Like [`RunSpace::restore`], for the readable rest after a machine crash.
    pub fn restore_torn(&self, agent: &str, attempt: u32, target: &Path) -> Result<usize, RepositoryError> {
        self.restore_ref(&refs::torn_ref(agent, attempt), target)
    }

    /// Like [`RunSpace::restore`], for the `.git`. Its borrowed objects are still in the project's repository.
    pub fn restore_git(&self, agent: &str, attempt: u32, target: &Path) -> Result<usize, RepositoryError> {
        let files = self.restore_ref(&refs::salvaged_git_ref(agent, attempt), target)?;
        // Git requires these directories in a repository, and trees do not store empty ones.
        for part in ["objects", "refs"] {
            let part = target.join(part);
            fs::create_dir_all(&part).map_err(disk::failed("making", &part))?;
        }
        Ok(files)
    }

    fn restore_ref(&self, name: &str, target: &Path) -> Result<usize, RepositoryError> {
        let commit = self
            .refs()
            .read(name)?
            .ok_or_else(|| RepositoryError::Unsupported(format!("nothing was kept: there is no {name}")))?;
        match fs::create_dir(target) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let mut entries = fs::read_dir(target).map_err(disk::failed("listing", target))?;
                if entries.next().is_some() {
                    return Err(RepositoryError::Unsupported(format!(
                        "{} is not empty; name a directory that is new or empty",
                        target.display()
                    )));
                }
            }
            Err(error) => return Err(RepositoryError::io("making", target, &error)),
        }
        let git = self.git();
        let files = objects::list(&git, &commit)?;
        let absent = HashSet::new();
        Checkout {
            git: &git,
            into: target,
            files: &files,
            sources: &[],
            absent: &absent,
            read_only: false,
            progress: None,
        }
        .write()?;
        Ok(files.len())
    }

    /// Deletes a salvage if its ref is still at the inspected commit.
    pub(super) fn remove_salvage(&self, salvage: &SalvageEntry) -> Result<(), RepositoryError> {
        let name = match salvage {
            SalvageEntry { torn: true, .. } => refs::torn_ref,
            SalvageEntry { git: true, .. } => refs::salvaged_git_ref,
            _ => refs::salvage_ref,
        };
        let name = name(&salvage.agent, salvage.attempt);
        self.delete_refs(&[(name, salvage.commit)])
    }

    /// Deletes every ref of the run.
    pub(super) fn remove_refs(&self) -> Result<(), RepositoryError> {
        let listed = self.git().run(&["for-each-ref", "--format=%(objectname) %(refname)", "refs/posse/"])?;
        let listed = String::from_utf8(listed).map_err(|_| unreadable("for-each-ref"))?;
        let mut found = Vec::new();
        for line in listed.lines() {
            let (oid, name) = line.split_once(' ').ok_or_else(|| unreadable("for-each-ref"))?;
            let id = name.split('/').nth(3).unwrap_or_default();
            if belongs(id, self.run()) {
                found.push((name.to_owned(), oid.parse().map_err(|_| unreadable("for-each-ref"))?));
            }
        }
        self.delete_refs(&found)
    }

    /// Deletes refs, all or none, each only if it is still at the listed commit.
    fn delete_refs(&self, found: &[(String, ObjectId)]) -> Result<(), RepositoryError> {
        if found.is_empty() {
            return Ok(());
        }
        let _held = self.project.lock_refs(found.iter().map(|(name, _)| name.as_str()))?;
        let orders: Vec<String> = found.iter().map(|(name, oid)| format!("delete {name} {oid}\n")).collect();
        self.git().run_with(&["update-ref", "--no-deref", "--stdin"], orders.concat().as_bytes()).map(drop)
    }
}

/// The salvage of a run, without counting the files.
fn salvages_of(space: &RunSpace) -> Result<Vec<SalvageEntry>, RepositoryError> {
    let mut found = salvages_beside(space)?;
    found.retain(|salvage| belongs(&salvage.agent, space.run()));
    Ok(found)
}

/// The salvage of many runs. Git lists the salvage of all runs of a project at once and is started once per project.
/// One call per run would list everything again for each of ten thousand runs.
#[derive(Default)]
pub(super) struct AllSalvages(HashMap<String, Result<ByRun, RepositoryError>>);

/// Salvage by run id.
type ByRun = HashMap<String, Vec<SalvageEntry>>;

impl AllSalvages {
    pub(super) fn of(&mut self, space: &RunSpace) -> Result<Vec<SalvageEntry>, RepositoryError> {
        let listed = self.0.entry(space.project_key()).or_insert_with(|| salvages_beside(space).map(by_run));
        match listed {
            Ok(found) => Ok(found.remove(space.run()).unwrap_or_default()),
            Err(error) => Err(error.clone()),
        }
    }
}

fn by_run(found: Vec<SalvageEntry>) -> ByRun {
    let mut runs = ByRun::new();
    for salvage in found {
        let run = salvage.agent.split('.').next().unwrap_or_default();
        runs.entry(run.to_owned()).or_default().push(salvage);
    }
    runs
}

/// The salvage of all runs in the project of this run.
fn salvages_beside(space: &RunSpace) -> Result<Vec<SalvageEntry>, RepositoryError> {
    let format = "--format=%(objectname) %(committerdate:unix) %(refname:lstrip=3)";
    let listed = space.git().run(&["for-each-ref", format, "refs/posse/salvage/"])?;
    let listed = String::from_utf8(listed).map_err(|_| unreadable("for-each-ref"))?;
    let mut found = Vec::new();
    for line in listed.lines() {
        found.push(salvage(line).ok_or_else(|| unreadable("for-each-ref"))?);
    }
    Ok(found)
}

fn salvage(line: &str) -> Option<SalvageEntry> {
    let mut words = line.split(' ');
    let commit = words.next()?.parse().ok()?;
    let time = words.next()?.parse().ok()?;
    let (agent, attempt) = words.next()?.rsplit_once('/')?;
    let (torn, git) = (attempt.ends_with(refs::TORN), attempt.ends_with(refs::GIT));
    let attempt = attempt.trim_end_matches(refs::TORN).trim_end_matches(refs::GIT).parse().ok()?;
    Some(SalvageEntry { agent: agent.to_owned(), attempt, torn, git, commit, time, files: 0 })
}

/// Whether an id, of an agent or of the run itself, belongs to this run.
pub(super) fn belongs(id: &str, run: &str) -> bool {
    id.strip_prefix(run).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_belongs_to_its_run_only() {
        assert!(belongs("k3f", "k3f") && belongs("k3f.2.1", "k3f"));
        assert!(!belongs("k3fa", "k3f") && !belongs("k3", "k3f") && !belongs("x.k3f", "k3f"));
    }
}
