//! Compares workspaces, work refs and the result on disk with the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use posse::{AgentId, EventBody};
use posse_domain::hash::Hash;
use posse_domain::object_id::ObjectId;
use posse_workspace::{base_ref, salvage_ref, work_ref};

use super::{Findings, Harm, Journal};

/// The root has only one attempt.
const ROOT_ATTEMPT: u32 = 1;
/// The number after an agent's id for the scratch directory of its checks, which no child has.
const SCRATCH: &str = ".0";

/// The two repositories of a run: Posse's, and the user's.
#[derive(Debug, Clone)]
pub struct Repositories {
    posses: PathBuf,
    persons: PathBuf,
}

impl Repositories {
    /// Finds the repositories of the run of this journal, which began in `folder`. Fails unless there is exactly one.
    pub fn find(state: &Path, folder: &Path, journal: &Journal) -> Result<Self, String> {
        let base = base_ref(journal.run.as_str());
        let projects = std::fs::read_dir(state.join("projects")).map_err(|error| error.to_string())?;
        let all = projects.flatten().map(|project| project.path().join("repo.git"));
        let has =
            |repository: &PathBuf| git(repository, &["rev-parse", "--verify", "--quiet", &base]).is_ok();
        let found: Vec<PathBuf> = all.filter(has).collect();
        match <[PathBuf; 1]>::try_from(found) {
            Ok([posses]) => Ok(Self { posses, persons: folder.join(".git") }),
            Err(found) => Err(format!("{} repositories have the snapshot of the run", found.len())),
        }
    }

    pub fn files(&self, commit: &ObjectId) -> Result<BTreeMap<String, Vec<u8>>, String> {
        let commit = commit.to_string();
        let names = text(git(&self.posses, &["ls-tree", "-r", "--name-only", "-z", &commit])?)?;
        let names = names.split('\0').filter(|name| !name.is_empty());
        names
            .map(|name| {
                let content = git(&self.posses, &["cat-file", "blob", &format!("{commit}:{name}")])?;
                Ok((name.to_owned(), content))
            })
            .collect()
    }

    pub fn hashes(&self, commit: &ObjectId) -> Result<BTreeMap<String, Hash>, String> {
        let files = self.files(commit)?;
        Ok(files.into_iter().map(|(path, content)| (path, Hash::of(&content))).collect())
    }

    /// Checks everything that must hold for the repositories of an ended run.
    pub fn check(&self, journal: &Journal, run_dir: &Path, findings: &mut Findings) {
        for repository in [&self.posses, &self.persons] {
            let sound = git(repository, &["fsck", "--strict", "--no-dangling", "--no-progress"]);
            let sound =
                sound.and_then(text).and_then(|said| if said.is_empty() { Ok(()) } else { Err(said) });
            findings.expect(sound.is_ok(), Harm::Broken, || format!("`git fsck` says {sound:?}"));
        }
        if let Err(problem) = self.result(journal, findings).and_then(|()| self.salvages(journal, findings)) {
            findings.add(Harm::Broken, problem);
        }
        known(journal, run_dir, findings);
    }

    /// Every merge is in the result exactly once, and the refs match the journal.
    fn result(&self, journal: &Journal, findings: &mut Findings) -> Result<(), String> {
        let run = &journal.run;
        let merged = merged(journal, findings);
        let Some(result) = result(journal) else {
            findings.expect(merged.is_empty(), Harm::Lost, || "the run merged and has no result".to_owned());
            return Ok(());
        };
        let line = self.posses_ref(&work_ref(run.as_str(), ROOT_ATTEMPT))?;
        findings.expect(line.as_ref() == Some(&result), Harm::Broken, || {
            format!("the root's line is at {line:?}, the journal says {result}")
        });
        let branch = name_of(&self.persons, &format!("refs/heads/posse/{run}"))?;
        findings.expect(branch.as_ref() == Some(&result), Harm::Lost, || {
            format!("the branch is at {branch:?}, the journal says {result}")
        });
        let base = base(journal).ok_or("the run started without a snapshot")?;
        let range = format!("{base}..{result}");
        let listed = text(git(&self.posses, &["rev-list", "--merges", &range])?)?;
        let in_result: BTreeSet<&str> = listed.lines().collect();
        for (child, commit) in &merged {
            findings.expect(in_result.contains(commit.as_str()), Harm::Lost, || {
                format!("{child} was merged as {commit}, which is not in the result")
            });
        }
        findings.expect(in_result.len() == merged.len(), Harm::Doubled, || {
            format!("the result has {} merges, the journal {}", in_result.len(), merged.len())
        });
        Ok(())
    }

    /// Every salvage in the journal is kept.
    fn salvages(&self, journal: &Journal, findings: &mut Findings) -> Result<(), String> {
        for event in &journal.events {
            let EventBody::WorkspaceSalvaged(salvaged) = &event.body else { continue };
            let name = salvage_ref(&event.agent_id.to_string(), salvaged.attempt);
            let kept = self.posses_ref(&name)?;
            findings.expect(salvaged.commit.is_some() && kept == salvaged.commit, Harm::Lost, || {
                format!(
                    "{name} is at {kept:?}, the journal says {:?} ({:?})",
                    salvaged.commit, salvaged.problem
                )
            });
        }
        Ok(())
    }

    fn posses_ref(&self, name: &str) -> Result<Option<ObjectId>, String> {
        name_of(&self.posses, name)
    }
}

/// The snapshot that a run started from.
fn base(journal: &Journal) -> Option<ObjectId> {
    journal.events.iter().find_map(|event| match &event.body {
        EventBody::RunStarted(started) => started.base.as_ref().map(|base| base.commit),
        _ => None,
    })
}

pub fn result(journal: &Journal) -> Option<ObjectId> {
    let result = journal.events.iter().find_map(|event| match &event.body {
        EventBody::RunCompleted(end) => end.result.as_ref(),
        EventBody::RunFailed(end) => end.result.as_ref(),
        EventBody::RunCancelled(end) => end.result.as_ref(),
        _ => None,
    });
    result.map(|result| result.commit)
}

/// The merges of the journal. A child is merged once, and accepted after that.
fn merged(journal: &Journal, findings: &mut Findings) -> BTreeMap<AgentId, String> {
    let mut merged = BTreeMap::new();
    let mut passed: BTreeMap<&AgentId, u32> = BTreeMap::new();
    for event in &journal.events {
        match &event.body {
            EventBody::WorktreeMerged(e) => {
                let before = merged.insert(event.agent_id.clone(), e.commit.to_string());
                findings.expect(before.is_none(), Harm::Doubled, || {
                    format!("{} is merged twice", event.agent_id)
                });
            }
            EventBody::IntegrationPassed(_) => *passed.entry(&event.agent_id).or_default() += 1,
            _ => {}
        }
    }
    for child in merged.keys() {
        let times = passed.get(child).copied().unwrap_or_default();
        findings
            .expect(times == 1, Harm::Broken, || format!("{child} is merged and was accepted {times} times"));
    }
    merged
}

/// Every workspace on disk is in the journal, except those that a kill or a cancel interrupted while they were created.
/// Their agents never began to change anything.
fn known(journal: &Journal, run_dir: &Path, findings: &mut Findings) {
    let made: BTreeSet<(String, String)> = journal
        .events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::WorkspaceMade(made) => Some((event.agent_id.to_string(), made.attempt.to_string())),
            _ => None,
        })
        .collect();
    let intends = |agent: &str| {
        let by = |event: &&posse::JournalEvent| event.agent_id.to_string() == agent;
        journal
            .events
            .iter()
            .filter(by)
            .any(|event| matches!(&event.body, EventBody::ToolIntended(e) if e.class.changes_workspace()))
    };
    let names = |dir: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let top = run_dir.join("workspaces");
    for agent in names(&top).into_iter().filter(|agent| !agent.ends_with(SCRATCH)) {
        for attempt in names(&top.join(&agent)) {
            let known = made.contains(&(agent.clone(), attempt.clone())) || !intends(&agent);
            findings
                .expect(known, Harm::Orphan, || format!("unknown workspace of {agent}, attempt {attempt}"));
        }
    }
}

fn name_of(repository: &Path, name: &str) -> Result<Option<ObjectId>, String> {
    match git(repository, &["rev-parse", "--verify", "--quiet", name]) {
        Ok(said) => text(said)?.trim().parse().map(Some).map_err(|_| format!("{name} is not an object id")),
        Err(_) => Ok(None),
    }
}

fn text(said: Vec<u8>) -> Result<String, String> {
    String::from_utf8(said).map_err(|error| error.to_string())
}

fn git(repository: &Path, args: &[&str]) -> Result<Vec<u8>, String> {
    let output = Command::new("git").arg("--git-dir").arg(repository).args(args).output();
    let output = output.map_err(|error| format!("git: {error}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(format!("git {args:?}: {}", String::from_utf8_lossy(&output.stderr)))
}
