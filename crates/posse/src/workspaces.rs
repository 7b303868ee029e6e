//! The engine's workspaces on this machine: git repositories beneath the state directory, checks in the sandbox.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use posse_domain::event::{BaseSnapshot, CheckRecord, RunResult};
use posse_domain::id::{AgentId, RunId};
use posse_domain::object_id::ObjectId;
use posse_domain::permission::{Approvals, PROTECTED};
use posse_engine::ports::{
    CallContext, CheckRequest, Doing, MadeWorkspace, Merge, MergeRequest, Salvage, StopSignal, Updated,
    Urgency, WORKSPACE_SHOWN_AT, WorkspaceOf, Workspaces,
};
use posse_host::sandbox::{Cache, Isolation, OBJECTS_SHOWN_AT, Sandbox};
use posse_host::workspace::{self as host, Oid, RefusedCode, RunSpace, WorkspaceError};
use posse_tools::{Viewing, WorkspaceView, WorkspaceViews};

use crate::names::Names;
use crate::reports::Reports;

/// How long the set-up of a workspace may take.
const SETUP_TIMEOUT: Duration = Duration::from_mins(10);
/// Runs whose workspaces are kept at hand.
const RUNS_AT_HAND_MAX: usize = 64;
/// Most characters of a failed set-up that are repeated.
const SETUP_SHOWN_MAX_CHARS: usize = 2_000;

/// How workspaces are made, beyond what the host asks for.
#[derive(Debug, Clone, Default)]
pub struct WorkspaceSettings {
    /// What the host asks for.
    pub host: host::WorkspaceOptions,
    /// A command that is run once in each new workspace, sandboxed.
    pub setup: Option<String>,
    /// Names of ignored directories that programs find in their workspaces without a copy; none for the usual ones.
    pub caches: Option<Vec<String>>,
}

/// Workspaces beneath a state directory.
#[derive(Clone)]
pub(crate) struct HostWorkspaces(Arc<Inner>);

struct Inner {
    all: host::Workspaces,
    runs: PathBuf,
    sandbox: Sandbox,
    setup: Option<String>,
    cache_names: Vec<String>,
    at_hand: Mutex<HashMap<String, Arc<AtHand>>>,
    /// One check at a time in each scratch directory: one that is stopped may still be ending.
    scratches: Mutex<HashMap<AgentId, Arc<tokio::sync::Mutex<()>>>>,
    reports: Arc<Reports>,
}

/// What is known of a run's workspaces without looking again.
struct AtHand {
    space: RunSpace,
    caches: Vec<PathBuf>,
}

impl fmt::Debug for HostWorkspaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostWorkspaces").field("runs", &self.0.runs).finish_non_exhaustive()
    }
}

fn oid(id: &ObjectId) -> Oid {
    Oid::from_bytes(*id.as_bytes())
}

fn id(oid: &Oid) -> ObjectId {
    ObjectId::from_bytes(*oid.as_bytes())
}

fn text(error: &WorkspaceError) -> String {
    error.to_string()
}

impl HostWorkspaces {
    pub(crate) fn new(state: &Path, runs: PathBuf, sandbox: Sandbox, settings: WorkspaceSettings) -> Self {
        let usual = || host::CACHE_NAMES.iter().map(ToString::to_string).collect();
        Self(Arc::new(Inner {
            all: host::Workspaces::new(state, settings.host),
            runs,
            sandbox,
            setup: settings.setup,
            cache_names: settings.caches.unwrap_or_else(usual),
            at_hand: Mutex::default(),
            scratches: Mutex::default(),
            reports: Arc::default(),
        }))
    }

    /// Puts right what a set-up left: files that git does not ignore are no agent's change, and a workspace whose set-up
    /// failed is no workspace.
    fn after_set_up(
        &self,
        run: &RunId,
        agent: &str,
        attempt: u32,
        base: Oid,
        done: Result<(), String>,
    ) -> Doing<Option<String>> {
        let (agent, setup) = (agent.to_owned(), self.0.setup.clone());
        self.with(run, move |_, at_hand| {
            let Some(setup) = setup else { return done.map(|()| None) };
            if let Err(problem) = done {
                at_hand.space.discard_workspace(&agent, attempt).map_err(|error| text(&error))?;
                return Err(problem);
            }
            let changed = at_hand.space.put_back(&agent, attempt, &base).map_err(|error| text(&error))?;
            let note = format!("`{setup}` changed files that git does not ignore; they were put back");
            Ok(changed.then_some(note))
        })
    }

    /// Does something with a run's workspaces on a thread that may block.
    fn with<T: Send + 'static>(
        &self,
        run: &RunId,
        act: impl FnOnce(&Self, &AtHand) -> Result<T, String> + Send + 'static,
    ) -> Doing<T> {
        let (own, run) = (self.clone(), run.to_string());
        blocking(move || {
            let at_hand = own.0.at_hand(&run)?;
            act(&own, &at_hand)
        })
    }
}

/// Runs something that blocks, where that is allowed.
fn blocking<T: Send + 'static>(act: impl FnOnce() -> Result<T, String> + Send + 'static) -> Doing<T> {
    let task = tokio::task::spawn_blocking(act);
    Box::pin(async move { task.await.map_err(|error| error.to_string())? })
}

impl Inner {
    fn at_hand(&self, run: &str) -> Result<Arc<AtHand>, String> {
        let known = self.at_hand.lock().unwrap_or_else(PoisonError::into_inner).get(run).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let space = self.all.open(run).map_err(|error| text(&error))?;
        let caches = space.caches(&self.cache_names);
        let at_hand = Arc::new(AtHand { space, caches });
        let mut all = self.at_hand.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= RUNS_AT_HAND_MAX {
            all.clear();
        }
        Ok(all.entry(run.to_owned()).or_insert(at_hand).clone())
    }

    fn scratch_turn(&self, parent: &AgentId) -> Arc<tokio::sync::Mutex<()>> {
        let mut scratches = self.scratches.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that nobody uses are of runs that ended, or of parents that wait.
        scratches.retain(|_, turn| Arc::strong_count(turn) > 1);
        scratches.entry(parent.clone()).or_default().clone()
    }

    fn dir_of(&self, of: &WorkspaceOf) -> PathBuf {
        let run = self.runs.join(of.agent.run().as_str());
        run.join("workspaces").join(of.agent.to_string()).join(of.attempt.to_string()).join("files")
    }

    /// Whose workspace a call is in, and its attempt: `<run>/workspaces/<agent>/<attempt>/files`.
    fn workspace_of(&self, call: &CallContext) -> Option<(String, u32)> {
        let top = self.runs.join(call.agent.run().as_str()).join("workspaces");
        let mut parts = call.workspace.strip_prefix(top).ok().filter(|_| call.isolated)?.iter();
        let (agent, attempt) = (parts.next()?.to_str()?, parts.next()?.to_str()?);
        Some((agent.to_owned(), attempt.parse().ok()?))
    }

    fn record(&self, run: &str, name: &str) -> PathBuf {
        posse_tools::records(&self.runs, run).join(name)
    }

    /// Runs commands in a directory that looks like a workspace.
    async fn run_commands(
        &self,
        at: &Commands<'_>,
        commands: Vec<(String, Duration)>,
        network: bool,
        stop: StopSignal,
    ) -> Result<Vec<host::CheckResult>, String> {
        let request = host::CheckRequest {
            dir: at.dir.to_owned(),
            shown_as: PathBuf::from(WORKSPACE_SHOWN_AT),
            commands: commands
                .into_iter()
                .map(|(command, timeout)| host::CheckCommand { command, timeout })
                .collect(),
            protected: PROTECTED.iter().map(ToString::to_string).collect(),
            caches: at.caches.to_vec(),
            network,
            shown: vec![(at.objects.to_owned(), PathBuf::from(OBJECTS_SHOWN_AT))],
            record: Some(self.record(at.run, at.record)),
        };
        let mut stop = stop;
        let stopped = async move { stop.at_least(Urgency::Gently).await };
        host::check(request, &self.sandbox, stopped).await.map_err(|error| error.to_string())
    }

    /// Runs the set-up command of new workspaces.
    async fn set_up(&self, at: &Commands<'_>) -> Result<(), String> {
        let Some(setup) = &self.setup else { return Ok(()) };
        let commands = vec![(setup.clone(), SETUP_TIMEOUT)];
        let results = self.run_commands(at, commands, false, StopSignal::never()).await?;
        match results.into_iter().find(|result| !result.ok()) {
            None => Ok(()),
            Some(failed) => {
                let output: String = failed.output.chars().take(SETUP_SHOWN_MAX_CHARS).collect();
                Err(format!("workspace.setup `{setup}` failed ({}):\n{output}", ended(failed.ended)))
            }
        }
    }
}

/// Where commands of the host run.
struct Commands<'a> {
    run: &'a str,
    dir: &'a Path,
    objects: &'a Path,
    caches: &'a [Cache],
    record: &'a str,
}

impl Workspaces for HostWorkspaces {
    fn begin(&self, run: &RunId, dir: &str) -> Doing<BaseSnapshot> {
        let (own, run, dir) = (self.clone(), run.to_string(), PathBuf::from(dir));
        blocking(move || {
            let begun = own.0.all.begin(&run, &dir).map_err(|error| text(&error))?;
            Ok(BaseSnapshot {
                commit: id(&begun.snapshot.commit),
                tree: id(&begun.snapshot.tree),
                head: begun.head.as_ref().map(id),
                notes: begun.notes,
            })
        })
    }

    fn dir(&self, of: &WorkspaceOf) -> PathBuf {
        self.0.dir_of(of)
    }

    fn make(&self, of: WorkspaceOf, origin: ObjectId) -> Doing<MadeWorkspace> {
        let own = self.clone();
        let agent = of.agent.to_string();
        let run = of.agent.run();
        let name = agent.clone();
        let own_setup = self.0.setup.clone();
        let made = self.with(&run, move |_, at_hand| {
            let made = at_hand.space.make(&name, of.attempt, &oid(&origin)).map_err(|error| text(&error))?;
            let layers = at_hand.space.layers(&name, of.attempt, &at_hand.caches);
            // Programs need them, and here only the set-up is one.
            let objects = match &own_setup {
                Some(_) if made.fresh => {
                    at_hand.space.objects_of(&name, of.attempt).map_err(|error| text(&error))?
                }
                _ => PathBuf::new(),
            };
            Ok((made, layers.unwrap_or_default(), objects))
        });
        Box::pin(async move {
            let (made, caches, objects) = made.await?;
            let record = format!("{agent}-setup");
            let at = Commands {
                run: run.as_str(),
                dir: &made.dir,
                objects: &objects,
                caches: &caches,
                record: &record,
            };
            let mut notes = made.notes;
            if made.fresh {
                let done = own.0.set_up(&at).await;
                notes.extend(own.after_set_up(&run, &agent, of.attempt, made.base, done).await?);
            }
            let commit = made.fresh.then(|| id(&made.base));
            Ok(MadeWorkspace { dir: made.dir, commit, notes })
        })
    }

    fn shared(&self, run: &RunId, snapshot: ObjectId) -> Doing<PathBuf> {
        self.with(run, move |_, at_hand| at_hand.space.shared(&oid(&snapshot)).map_err(|error| text(&error)))
    }

    fn snapshot(&self, of: WorkspaceOf) -> Doing<ObjectId> {
        self.with(&of.agent.run(), move |_, at_hand| {
            let taken = at_hand.space.snapshot(&of.agent.to_string(), of.attempt);
            taken.map(|snapshot| id(&snapshot.commit)).map_err(|error| text(&error))
        })
    }

    fn salvage(&self, of: WorkspaceOf, base: ObjectId) -> Doing<Salvage> {
        self.with(&of.agent.run(), move |_, at_hand| {
            let space = &at_hand.space;
            let salvaged = space.salvage(&of.agent.to_string(), of.attempt).map_err(|error| text(&error))?;
            let commit = salvaged.snapshot.commit;
            // A line that only moved by merges and back is no change either.
            let changed = commit != oid(&base)
                && !space.same_files(&commit, &oid(&base)).map_err(|error| text(&error))?;
            let (left_out, left_out_count) = (salvaged.left_out, salvaged.left_out_count);
            Ok(Salvage { commit: id(&commit), changed, left_out, left_out_count })
        })
    }

    fn merge(&self, request: MergeRequest) -> Doing<Merge> {
        self.with(&request.child.run(), move |_, at_hand| {
            let Names { protected, opened } = Names::of(&request.approvals);
            let message = format!("posse: {} ({})\n", request.title, request.child);
            let asked = host::MergeRequest {
                ours: oid(&request.ours),
                base: oid(&request.base),
                theirs: oid(&request.theirs),
                owns: request.owns,
                protected,
                opened,
                message,
            };
            let merged = at_hand.space.merge(&asked).map_err(|error| text(&error))?;
            Ok(match merged {
                host::Merge::Same => {
                    let (commit, tree) = (request.ours, request.ours);
                    Merge::Merged { commit, tree, paths: 0 }
                }
                host::Merge::Merged { commit, tree, paths } => {
                    Merge::Merged { commit: id(&commit), tree: id(&tree), paths: paths as u64 }
                }
                host::Merge::Conflict { files } => Merge::Conflict { files },
                host::Merge::Refused { code, problems } => {
                    Merge::Refused { ownership: code == RefusedCode::Ownership, problems }
                }
            })
        })
    }

    fn check(&self, request: CheckRequest, stop: StopSignal) -> Doing<Vec<CheckRecord>> {
        let own = self.clone();
        let run = request.child.run();
        let parent = request.parent.to_string();
        let commit = oid(&request.commit);
        let turn = self.0.scratch_turn(&request.parent);
        Box::pin(async move {
            let _turn = turn.lock().await;
            let laid_out = own.with(&run, move |_, at_hand| {
                let space = &at_hand.space;
                let scratch = space.scratch(&parent, &commit).map_err(|error| text(&error))?;
                let layers = space.layers(&scratch.agent, scratch.attempt, &at_hand.caches);
                let objects =
                    space.objects_of(&scratch.agent, scratch.attempt).map_err(|error| text(&error))?;
                Ok((scratch, layers.unwrap_or_default(), objects))
            });
            let (scratch, caches, objects) = laid_out.await?;
            let record = format!("{}-checks", request.child);
            let at = Commands {
                run: run.as_str(),
                dir: &scratch.dir,
                objects: &objects,
                caches: &caches,
                record: &record,
            };
            if scratch.fresh {
                let done = own.0.set_up(&at).await;
                own.after_set_up(&run, &scratch.agent, scratch.attempt, commit, done).await?;
            }
            let results = own.0.run_commands(&at, request.commands, request.network, stop).await?;
            if results.iter().all(host::CheckResult::ok) {
                let keep = own.with(&run, move |_, at_hand| {
                    at_hand.space.keep_scratch(&scratch).map_err(|error| text(&error))
                });
                keep.await?;
            }
            Ok(results.into_iter().map(check_record).collect())
        })
    }

    fn update(&self, of: WorkspaceOf, old: ObjectId, new: ObjectId) -> Doing<Updated> {
        self.with(&of.agent.run(), move |_, at_hand| {
            let updated = at_hand.space.update(&of.agent.to_string(), of.attempt, &oid(&old), &oid(&new));
            updated.map(|updated| Updated { kept: updated.kept }).map_err(|error| text(&error))
        })
    }

    fn deliver(&self, run: &RunId, approvals: Approvals) -> Doing<Option<RunResult>> {
        self.with(run, move |_, at_hand| {
            let Names { protected, opened } = Names::of(&approvals);
            let left_out = at_hand.space.leave_out(&protected, &opened).map_err(|error| text(&error))?;
            let (delivered, problem) = match at_hand.space.deliver() {
                Ok(delivered) => (delivered, None),
                // The work itself is kept; how much it is can be told without a branch.
                Err(error) => (at_hand.space.made().map_err(|_| text(&error))?, Some(text(&error))),
            };
            let result = |delivered: host::Delivered| RunResult {
                commit: id(&delivered.commit),
                branch: delivered.branch,
                files: delivered.files as u64,
                problem,
                left_out: left_out.clone(),
            };
            let worth_telling = |delivered: &host::Delivered| delivered.files > 0 || !left_out.is_empty();
            Ok(Some(delivered).filter(worth_telling).map(result))
        })
    }

    fn report(&self, parent: &AgentId, path: String, report: Arc<str>) -> Doing<()> {
        let dir = self.0.runs.join(parent.run().as_str()).join("reports").join(parent.to_string());
        self.0.reports.write(dir, path, report)
    }
}

impl WorkspaceViews for HostWorkspaces {
    fn isolation(&self) -> Isolation {
        Isolation::Own
    }

    fn view(&self, call: &CallContext) -> Viewing {
        let Some((agent, attempt)) = self.0.workspace_of(call) else { return self.bare(call) };
        self.with(&call.agent.run(), move |_, at_hand| {
            let layers = at_hand.space.layers(&agent, attempt, &at_hand.caches);
            let objects = at_hand.space.objects_of(&agent, attempt).map_err(|error| text(&error))?;
            Ok(WorkspaceView {
                isolation: Isolation::Own,
                objects: Some(objects),
                caches: layers.unwrap_or_default(),
            })
        })
    }

    fn bare(&self, call: &CallContext) -> Viewing {
        if let Some((agent, attempt)) = self.0.workspace_of(call) {
            return self.with(&call.agent.run(), move |_, at_hand| {
                let objects = at_hand.space.objects_of(&agent, attempt).map_err(|error| text(&error))?;
                Ok(WorkspaceView { isolation: Isolation::Own, objects: Some(objects), caches: Vec::new() })
            });
        }
        // A checkout that is shared has no repository. The folder of a replay lies in the state directory, which no program
        // sees where it is.
        let is_hidden = self.0.runs.parent().is_some_and(|state| call.workspace.starts_with(state));
        let isolation = if call.isolated || is_hidden { Isolation::Own } else { Isolation::InPlace };
        Box::pin(std::future::ready(Ok(WorkspaceView { isolation, ..WorkspaceView::default() })))
    }
}

fn ended(end: host::CheckEnd) -> String {
    match end {
        host::CheckEnd::Code(code) => format!("exit code {code}"),
        host::CheckEnd::Signal(signal) => format!("ended by signal {signal}"),
        host::CheckEnd::OutOfMemory => "its memory limit was reached".to_owned(),
        host::CheckEnd::TimedOut(limit) => {
            format!("it took longer than its limit of {} ms", limit.as_millis())
        }
        host::CheckEnd::Stopped => "stopped".to_owned(),
        host::CheckEnd::NotRun => "not run: one before it failed".to_owned(),
    }
}

fn check_record(result: host::CheckResult) -> CheckRecord {
    CheckRecord {
        ok: result.ok(),
        ended: ended(result.ended),
        command: result.command,
        output: result.output.into(),
        elapsed_ms: u64::try_from(result.elapsed.as_millis()).unwrap_or(u64::MAX),
    }
}
