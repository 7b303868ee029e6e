//! Workspaces in memory: files are texts by path, a commit is a map of them, and the death of a process loses nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use futures::FutureExt;
use futures::future::pending;
use posse_domain::event::{BaseSnapshot, CheckRecord, RunResult};
use posse_domain::hash::Hash;
use posse_domain::id::{AgentId, RunId};
use posse_domain::object_id::ObjectId;
use posse_domain::ownership;
use posse_domain::permission::Approvals;
use posse_engine::ports::{
    CallContext, CheckRequest, MadeWorkspace, Merge, MergeRequest, RefusedCode, Salvage, StopSignal,
    UpdateOutcome, Urgency, WorkspaceError, WorkspaceId, WorkspaceResult, Workspaces,
};

use crate::power::Power;

pub(crate) type Files = BTreeMap<String, String>;

#[derive(Default)]
struct Disk {
    commits: HashMap<ObjectId, Files>,
    /// The workspaces that are on disk.
    dirs: HashMap<PathBuf, Files>,
    lines: HashMap<WorkspaceId, ObjectId>,
    bases: HashMap<RunId, ObjectId>,
    salvage: HashMap<WorkspaceId, ObjectId>,
    results: HashMap<RunId, ObjectId>,
    /// Merges in the order in which files were updated.
    updates: Vec<(AgentId, ObjectId)>,
    /// How often each operation was requested, by name.
    asked: BTreeMap<&'static str, usize>,
    /// How often the machine will fail at each operation, by name.
    ailing: BTreeMap<&'static str, Vec<(usize, WorkspaceError)>>,
}

/// A disk that outlives the processes that use it.
#[derive(Clone, Default)]
pub(crate) struct MemoryWorkspaces {
    disk: Arc<Mutex<Disk>>,
    power: Option<Power>,
}

fn commit(files: &Files) -> ObjectId {
    let text = serde_json::to_vec(files).expect("plain");
    let hash = Hash::of(&text);
    ObjectId::from_bytes(hash.as_bytes()[..20].try_into().expect("long enough"))
}

impl MemoryWorkspaces {
    pub(crate) fn with_power(&self, power: Option<Power>) -> Self {
        Self { disk: self.disk.clone(), power }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().expect("no panic while it is held")
    }

    /// Changes a file of a workspace, as a tool would.
    pub(crate) fn put(&self, dir: &PathBuf, path: &str, text: &str) -> bool {
        match self.disk().dirs.get_mut(dir) {
            Some(files) => {
                files.insert(path.to_owned(), text.to_owned());
                true
            }
            None => false,
        }
    }

    pub(crate) fn result(&self, run: &RunId) -> Option<Files> {
        let disk = self.disk();
        disk.results.get(run).map(|commit| disk.commits[commit].clone())
    }

    pub(crate) fn salvaged(&self, agent: &AgentId, attempt: u32) -> Option<Files> {
        let disk = self.disk();
        let of = WorkspaceId { agent: agent.clone(), attempt };
        disk.salvage.get(&of).map(|commit| disk.commits[commit].clone())
    }

    pub(crate) fn updates(&self) -> Vec<AgentId> {
        self.disk().updates.iter().map(|(agent, _)| agent.clone()).collect()
    }

    pub(crate) fn asked(&self, what: &str) -> usize {
        self.disk().asked.get(what).copied().unwrap_or(0)
    }

    /// Makes the machine fail at an operation this many times.
    pub(crate) fn ail(&self, what: &'static str, times: usize) {
        self.disk().ailing.remove(what);
        self.fail(what, times, WorkspaceError::Unavailable(format!("{what} was killed")));
    }

    /// Adds further failures of an operation, after those that are set already.
    pub(crate) fn fail(&self, what: &'static str, times: usize, problem: WorkspaceError) {
        self.disk().ailing.entry(what).or_default().push((times, problem));
    }

    /// Executes an operation on the disk. If the process is dead, it never completes.
    fn act<T: Send + 'static>(
        &self,
        what: &'static str,
        act: impl FnOnce(&mut Disk) -> Result<T, String>,
    ) -> WorkspaceResult<T> {
        let mut act = Some(act);
        let mut run = || {
            let mut disk = self.disk();
            *disk.asked.entry(what).or_default() += 1;
            let ailing = disk.ailing.get_mut(what).into_iter().flatten();
            if let Some((times, problem)) = ailing.into_iter().find(|(times, _)| *times > 0) {
                *times -= 1;
                return Some(Err(problem.clone()));
            }
            act.take().map(|act| act(&mut disk).map_err(WorkspaceError::Unsupported))
        };
        let done = match &self.power {
            Some(power) => power.act(&mut run).flatten(),
            None => run(),
        };
        match done {
            Some(result) => async move {
                // Other tasks run first: an operation that is immediate in memory takes time on a disk.
                tokio::task::yield_now().await;
                result
            }
            .boxed(),
            None => pending().boxed(),
        }
    }
}

impl Disk {
    fn line(&self, of: &WorkspaceId) -> Result<ObjectId, String> {
        let base = || self.bases.get(&of.agent.run()).copied();
        self.lines.get(of).copied().or_else(base).ok_or_else(|| "no line".to_owned())
    }

    fn keep(&mut self, files: &Files) -> ObjectId {
        let name = commit(files);
        self.commits.insert(name, files.clone());
        name
    }
}

fn dir_of(of: &WorkspaceId) -> PathBuf {
    PathBuf::from(format!("/memory/{}/{}", of.agent, of.attempt))
}

fn changed(from: &Files, to: &Files) -> BTreeSet<String> {
    let paths = from.keys().chain(to.keys());
    paths.filter(|path| from.get(*path) != to.get(*path)).cloned().collect()
}

impl Workspaces for MemoryWorkspaces {
    fn begin(&self, run: &RunId, _: &str) -> WorkspaceResult<BaseSnapshot> {
        let run = run.clone();
        self.act("begin", move |disk| {
            let files = Files::from([("README".to_owned(), "a project".to_owned())]);
            let name = disk.keep(&files);
            disk.bases.insert(run, name);
            Ok(BaseSnapshot { commit: name, tree: name, head: None, compared_with: None, notes: Vec::new() })
        })
    }

    fn dir(&self, of: &WorkspaceId) -> PathBuf {
        dir_of(of)
    }

    fn make(&self, of: WorkspaceId, origin: ObjectId) -> WorkspaceResult<MadeWorkspace> {
        self.act("make", move |disk| {
            let dir = dir_of(&of);
            let fresh = !disk.dirs.contains_key(&dir);
            if fresh {
                let files = disk.commits.get(&origin).cloned().ok_or("no such commit")?;
                disk.dirs.insert(dir.clone(), files);
                let line = disk.lines.entry(of).or_insert(origin);
                assert_eq!(*line, origin, "it is made from where its line is");
            }
            Ok(MadeWorkspace { dir, commit: fresh.then_some(origin), notes: Vec::new() })
        })
    }

    fn ready(&self, _: &CallContext) -> WorkspaceResult<()> {
        self.act("ready", |_| Ok(()))
    }

    fn shared(&self, _: &RunId, snapshot: ObjectId) -> WorkspaceResult<PathBuf> {
        self.act("shared", move |disk| {
            let files = disk.commits.get(&snapshot).cloned().ok_or("no such commit")?;
            let dir = PathBuf::from(format!("/memory/shared/{snapshot}"));
            disk.dirs.insert(dir.clone(), files);
            Ok(dir)
        })
    }

    fn snapshot(&self, of: WorkspaceId) -> WorkspaceResult<ObjectId> {
        self.act("snapshot", move |disk| {
            let files = disk.dirs.get(&dir_of(&of)).cloned().ok_or("not on disk")?;
            let name = disk.keep(&files);
            disk.lines.insert(of, name);
            Ok(name)
        })
    }

    fn salvage(&self, of: WorkspaceId, base: ObjectId) -> WorkspaceResult<Salvage> {
        self.act("salvage", move |disk| {
            let files = disk.dirs.get(&dir_of(&of)).cloned().ok_or("not on disk")?;
            let name = disk.keep(&files);
            disk.lines.insert(of.clone(), name);
            disk.salvage.insert(of, name);
            Ok(Salvage { commit: name, changed: name != base, left_out: Vec::new(), left_out_count: 0 })
        })
    }

    fn merge(&self, request: MergeRequest) -> WorkspaceResult<Merge> {
        self.act("merge", move |disk| {
            let files = |name: &ObjectId| disk.commits.get(name).cloned().ok_or("no such commit");
            let (ours, base, theirs) =
                (files(&request.ours)?, files(&request.base)?, files(&request.theirs)?);
            let paths = changed(&base, &theirs);
            let owned = |path: &String| {
                request.owns.is_empty() || request.owns.iter().any(|owned| ownership::holds(owned, path))
            };
            let outside: Vec<String> = paths.iter().filter(|path| !owned(path)).cloned().collect();
            if !outside.is_empty() {
                return Ok(Merge::Refused { code: RefusedCode::Ownership, problems: outside });
            }
            let both =
                |path: &&String| ours.get(*path) != base.get(*path) && ours.get(*path) != theirs.get(*path);
            let conflicts: Vec<String> = paths.iter().filter(both).cloned().collect();
            if !conflicts.is_empty() {
                return Ok(Merge::Conflict { files: conflicts });
            }
            let mut merged = ours.clone();
            for path in &paths {
                match theirs.get(path) {
                    Some(text) => merged.insert(path.clone(), text.clone()),
                    None => merged.remove(path),
                };
            }
            let count = changed(&ours, &merged).len() as u64;
            let name = disk.keep(&merged);
            Ok(Merge::Merged { commit: name, tree: name, paths: count })
        })
    }

    /// A check is `FILE=TEXT`, which passes if the file has that text, or `hang`.
    fn check(&self, request: CheckRequest, mut stop: StopSignal) -> WorkspaceResult<Vec<CheckRecord>> {
        let hangs = request.commands.iter().any(|(command, _)| command == "hang");
        let checked = self.act("check", move |disk| {
            let files = disk.commits.get(&request.commit).cloned().ok_or("no such commit")?;
            let check = |(command, _): &(String, _)| {
                let ok = command
                    .split_once('=')
                    .is_some_and(|(file, text)| files.get(file).is_some_and(|t| t == text));
                CheckRecord {
                    command: command.clone(),
                    ok,
                    ended: if ok { "exit code 0".to_owned() } else { "exit code 1".to_owned() },
                    output: format!("looked at {command}").into(),
                    elapsed_ms: 1,
                }
            };
            Ok(request.commands.iter().map(check).collect())
        });
        async move {
            if hangs {
                stop.at_least(Urgency::Gently).await;
                return Err(WorkspaceError::Unsupported("stopped".to_owned()));
            }
            checked.await
        }
        .boxed()
    }

    fn update(&self, of: WorkspaceId, old: ObjectId, new: ObjectId) -> WorkspaceResult<UpdateOutcome> {
        self.act("update", move |disk| {
            // A work ref that has not moved yet is at the commit that its agent started from.
            let line = disk.lines.get(&of).copied().unwrap_or(old);
            assert!(line == old || line == new, "the line of {} is at neither end of the update", of.agent);
            if line != new {
                disk.updates.push((of.agent.clone(), new));
            }
            let (before, after) = (disk.commits[&old].clone(), disk.commits[&new].clone());
            if let Some(files) = disk.dirs.get_mut(&dir_of(&of)) {
                for path in changed(&before, &after) {
                    match after.get(&path) {
                        Some(text) => files.insert(path, text.clone()),
                        None => files.remove(&path),
                    };
                }
            }
            disk.lines.insert(of, new);
            Ok(UpdateOutcome::default())
        })
    }

    fn publish(&self, run: &RunId, _: Approvals) -> WorkspaceResult<Option<RunResult>> {
        let run = run.clone();
        self.act("deliver", move |disk| {
            let line = disk.line(&WorkspaceId { agent: run.root(), attempt: 1 })?;
            if disk.bases.get(&run) == Some(&line) {
                return Ok(None);
            }
            disk.results.insert(run.clone(), line);
            Ok(Some(RunResult {
                commit: line,
                branch: Some(format!("posse/{run}")),
                files: 1,
                problem: None,
                left_out: Vec::new(),
                instructions: Vec::new(),
            }))
        })
    }
}
