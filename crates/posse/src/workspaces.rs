//! The engine's workspaces on this machine: git repositories beneath the state directory, checks in the sandbox.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use posse_domain::event::{BaseSnapshot, CheckRecord, RunResult};
use posse_domain::id::{AgentId, RunId};
use posse_domain::object_id::ObjectId;
use posse_domain::permission::{Approvals, PROTECTED, instructs};
use posse_domain::printable;
use posse_engine::ports::{
    CallContext, CheckRequest, MadeWorkspace, Merge, MergeRequest, Salvage, StopSignal, UpdateOutcome,
    Urgency, WORKSPACE_SHOWN_AT, WorkspaceId, WorkspaceProblem, WorkspaceResult, Workspaces,
};
use posse_sandbox::{Cache, CacheShown, DiskLimit, Isolation, OBJECTS_SHOWN_AT, Sandbox, SandboxError};
use posse_tools::{ViewFuture, WorkspaceView, WorkspaceViews};
use posse_workspace::{self as host, Oid, RefusedCode, RunSpace, WorkspaceError};

use crate::names::Names;
use crate::reports::Reports;

/// How long the set-up of a workspace may take.
const SETUP_TIMEOUT: Duration = Duration::from_mins(10);
/// Runs whose workspaces are kept at hand.
const RUNS_AT_HAND_MAX: usize = 64;
/// Most files that agents obey which a result names.
const INSTRUCTIONS_TOLD_MAX: usize = 100;
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
    /// Whether what a check changes can be kept apart from what it begins with.
    keeps_apart: tokio::sync::OnceCell<bool>,
    reports: Arc<Reports>,
}

/// What is known of a run's workspaces without looking again.
struct AtHand {
    space: RunSpace,
    caches: Vec<PathBuf>,
    disk_limit: Arc<DiskLimit>,
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

fn problem(error: &WorkspaceError) -> WorkspaceProblem {
    WorkspaceProblem { passing: error.is_passing(), ..error.to_string().into() }
}

/// The sandbox itself failed, or there is none.
fn sandbox_problem(error: &SandboxError) -> WorkspaceProblem {
    match error {
        SandboxError::BroughtDown => WorkspaceProblem::suspect("the command ended its own sandbox"),
        SandboxError::Lost | SandboxError::Call(_) => WorkspaceProblem::passing(error.to_string()),
        SandboxError::Unavailable(_) | SandboxError::NoProgram(_) | SandboxError::Workspace(_) => {
            error.to_string().into()
        }
    }
}

/// The objects that are lent to a workspace.
fn lent(space: &RunSpace, agent: &str, attempt: u32) -> Result<PathBuf, WorkspaceProblem> {
    space.objects_of(agent, attempt).map_err(|error| problem(&error))
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
            keeps_apart: tokio::sync::OnceCell::new(),
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
        done: Result<(), WorkspaceProblem>,
    ) -> WorkspaceResult<Option<String>> {
        let (agent, setup) = (agent.to_owned(), self.0.setup.clone());
        self.with(run, move |_, at_hand| {
            let Some(setup) = setup else { return done.map(|()| None) };
            if let Err(failed) = done {
                at_hand.space.discard_workspace(&agent, attempt).map_err(|error| problem(&error))?;
                return Err(failed);
            }
            let changed = at_hand.space.put_back(&agent, attempt, &base).map_err(|error| problem(&error))?;
            let note = format!("`{setup}` changed files that git does not ignore; they were put back");
            Ok(changed.then_some(note))
        })
    }

    /// Lays out the merged files for checks, and sets them up. Nothing of an earlier check is there.
    async fn begin_check(&self, request: &CheckRequest) -> Result<BegunCheck, WorkspaceProblem> {
        let run = request.child.run();
        let (parent, commit) = (request.parent.to_string(), oid(&request.commit));
        let laid_out = self.with(&run, move |_, at_hand| {
            let space = &at_hand.space;
            let scratch = space.scratch(&parent, &commit).map_err(|error| problem(&error))?;
            let layers = space.layers(&scratch.agent, scratch.attempt, &at_hand.caches);
            let objects = lent(space, &scratch.agent, scratch.attempt)?;
            let disk_limit = at_hand.disk_limit.clone();
            Ok((scratch, layers.unwrap_or_default(), objects, disk_limit))
        });
        let (scratch, caches, objects, disk_limit) = laid_out.await?;
        let record = format!("{}-checks", request.child);
        let run_name = run.to_string();
        let apart = None;
        let mut begun =
            BegunCheck { run: run_name, dir: scratch.dir, objects, caches, apart, disk_limit, record };
        let done = self.0.set_up(&begun.at()).await;
        self.after_set_up(&run, &scratch.agent, scratch.attempt, commit, done).await?;
        begun.apart = self.0.keeps_apart(&begun.dir).await.then_some(scratch.apart);
        Ok(begun)
    }

    /// Does something with a run's workspaces on a thread that may block.
    fn with<T: Send + 'static>(
        &self,
        run: &RunId,
        act: impl FnOnce(&Self, &AtHand) -> Result<T, WorkspaceProblem> + Send + 'static,
    ) -> WorkspaceResult<T> {
        let (own, run) = (self.clone(), run.to_string());
        blocking(move || {
            let at_hand = own.0.at_hand(&run)?;
            act(&own, &at_hand)
        })
    }
}

impl HostWorkspaces {
    fn viewing(
        &self,
        call: &CallContext,
        look: impl FnOnce(&AtHand) -> Result<WorkspaceView, WorkspaceProblem> + Send + 'static,
    ) -> ViewFuture {
        let looking = self.with(&call.agent.run(), |_, at_hand| look(at_hand));
        Box::pin(async { looking.await.map_err(|problem| problem.text) })
    }
}

/// Runs something that blocks, where that is allowed.
fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, WorkspaceProblem> + Send + 'static,
) -> WorkspaceResult<T> {
    let task = tokio::task::spawn_blocking(act);
    Box::pin(async move { task.await.map_err(|error| WorkspaceProblem::from(error.to_string()))? })
}

impl Inner {
    fn at_hand(&self, run: &str) -> Result<Arc<AtHand>, WorkspaceProblem> {
        let known = self.at_hand.lock().unwrap_or_else(PoisonError::into_inner).get(run).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let space = self.all.open(run).map_err(|error| problem(&error))?;
        let caches = space.caches(&self.cache_names);
        let disk_limit = Arc::new(space.disk_limit());
        let at_hand = Arc::new(AtHand { space, caches, disk_limit });
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

    /// Whether the kernel gives overlays beside this directory.
    async fn keeps_apart(&self, dir: &Path) -> bool {
        let beside = dir.parent().unwrap_or(dir);
        let probe = || async { matches!(self.sandbox.cache_in(beside).await, Ok(CacheShown::Overlay)) };
        *self.keeps_apart.get_or_init(probe).await
    }

    fn dir_of(&self, of: &WorkspaceId) -> PathBuf {
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
    ) -> Result<Vec<host::CheckResult>, WorkspaceProblem> {
        let request = host::CheckRequest {
            dir: at.dir.to_owned(),
            shown_as: PathBuf::from(WORKSPACE_SHOWN_AT),
            commands: commands
                .into_iter()
                .map(|(command, timeout)| host::CheckCommand { command, timeout })
                .collect(),
            protected: PROTECTED.iter().map(ToString::to_string).collect(),
            caches: at.caches.to_vec(),
            apart: at.apart.map(Path::to_owned),
            disk_limit: Some(at.disk_limit.clone()),
            network,
            shown: vec![(at.objects.to_owned(), PathBuf::from(OBJECTS_SHOWN_AT))],
            record: Some(self.record(at.run, at.record)),
        };
        let mut stop = stop;
        let stopped = async move { stop.at_least(Urgency::Gently).await };
        host::check(request, &self.sandbox, stopped).await.map_err(|error| sandbox_problem(&error))
    }

    /// Runs the set-up command of new workspaces.
    async fn set_up(&self, at: &Commands<'_>) -> Result<(), WorkspaceProblem> {
        let Some(setup) = &self.setup else { return Ok(()) };
        let commands = vec![(setup.clone(), SETUP_TIMEOUT)];
        let ran = self.run_commands(at, commands, false, StopSignal::never()).await;
        let results = ran.map_err(|problem| WorkspaceProblem {
            text: format!("workspace.setup `{setup}`: {problem}"),
            ..problem
        })?;
        match results.into_iter().find(|result| !result.ok()) {
            None => Ok(()),
            Some(failed) => {
                let output: String = failed.output.chars().take(SETUP_SHOWN_MAX_CHARS).collect();
                let ended = ended(failed.ended);
                Err(format!("workspace.setup `{setup}` failed ({ended}):\n{output}").into())
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
    /// Where what each command changes is kept apart; none lets them change the directory itself.
    apart: Option<&'a Path>,
    disk_limit: &'a Arc<DiskLimit>,
    record: &'a str,
}

/// Files that are ready to be checked.
struct BegunCheck {
    run: String,
    dir: PathBuf,
    objects: PathBuf,
    caches: Vec<Cache>,
    apart: Option<PathBuf>,
    disk_limit: Arc<DiskLimit>,
    record: String,
}

impl BegunCheck {
    fn at(&self) -> Commands<'_> {
        Commands {
            run: &self.run,
            dir: &self.dir,
            objects: &self.objects,
            caches: &self.caches,
            apart: self.apart.as_deref(),
            disk_limit: &self.disk_limit,
            record: &self.record,
        }
    }
}

impl Workspaces for HostWorkspaces {
    fn begin(&self, run: &RunId, dir: &str) -> WorkspaceResult<BaseSnapshot> {
        let (own, run, dir) = (self.clone(), run.to_string(), PathBuf::from(dir));
        blocking(move || {
            let begun = own.0.all.begin(&run, &dir).map_err(|error| problem(&error))?;
            Ok(BaseSnapshot {
                commit: id(&begun.snapshot.commit),
                tree: id(&begun.snapshot.tree),
                head: begun.head.as_ref().map(id),
                notes: begun.notes,
            })
        })
    }

    fn dir(&self, of: &WorkspaceId) -> PathBuf {
        self.0.dir_of(of)
    }

    fn make(&self, of: WorkspaceId, origin: ObjectId) -> WorkspaceResult<MadeWorkspace> {
        let own = self.clone();
        let agent = of.agent.to_string();
        let run = of.agent.run();
        let name = agent.clone();
        let own_setup = self.0.setup.clone();
        let made = self.with(&run, move |_, at_hand| {
            let made =
                at_hand.space.make(&name, of.attempt, &oid(&origin)).map_err(|error| problem(&error))?;
            let layers = at_hand.space.layers(&name, of.attempt, &at_hand.caches);
            // Programs need them, and here only the set-up is one.
            let objects = match &own_setup {
                Some(_) if made.fresh => lent(&at_hand.space, &name, of.attempt)?,
                _ => PathBuf::new(),
            };
            Ok((made, layers.unwrap_or_default(), objects, at_hand.disk_limit.clone()))
        });
        Box::pin(async move {
            let (made, caches, objects, disk_limit) = made.await?;
            let record = format!("{agent}-setup");
            let at = Commands {
                run: run.as_str(),
                dir: &made.dir,
                objects: &objects,
                caches: &caches,
                apart: None,
                disk_limit: &disk_limit,
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

    fn ready(&self, call: &CallContext) -> WorkspaceResult<()> {
        let Some((agent, attempt)) = self.0.workspace_of(call) else {
            return Box::pin(std::future::ready(Ok(())));
        };
        self.with(&call.agent.run(), move |_, at_hand| lent(&at_hand.space, &agent, attempt).map(drop))
    }

    fn shared(&self, run: &RunId, snapshot: ObjectId) -> WorkspaceResult<PathBuf> {
        self.with(run, move |_, at_hand| {
            at_hand.space.shared(&oid(&snapshot)).map_err(|error| problem(&error))
        })
    }

    fn snapshot(&self, of: WorkspaceId) -> WorkspaceResult<ObjectId> {
        self.with(&of.agent.run(), move |_, at_hand| {
            let taken = at_hand.space.snapshot(&of.agent.to_string(), of.attempt);
            taken.map(|snapshot| id(&snapshot.commit)).map_err(|error| problem(&error))
        })
    }

    fn salvage(&self, of: WorkspaceId, base: ObjectId) -> WorkspaceResult<Salvage> {
        self.with(&of.agent.run(), move |_, at_hand| {
            let space = &at_hand.space;
            let salvaged =
                space.salvage(&of.agent.to_string(), of.attempt).map_err(|error| problem(&error))?;
            let commit = salvaged.snapshot.commit;
            // A line that only moved by merges and back is no change either.
            let changed = commit != oid(&base)
                && !space.same_files(&commit, &oid(&base)).map_err(|error| problem(&error))?;
            let (left_out, left_out_count) = (salvaged.left_out, salvaged.left_out_count);
            Ok(Salvage { commit: id(&commit), changed, left_out, left_out_count })
        })
    }

    fn merge(&self, request: MergeRequest) -> WorkspaceResult<Merge> {
        self.with(&request.child.run(), move |_, at_hand| {
            let Names { protected, opened } = Names::of(&request.approvals);
            let message = format!("posse: {} ({})\n", printable::line(&request.title), request.child);
            let asked = host::MergeRequest {
                ours: oid(&request.ours),
                base: oid(&request.base),
                theirs: oid(&request.theirs),
                owns: request.owns,
                protected,
                opened,
                message,
            };
            let merged = at_hand.space.merge(&asked).map_err(|error| problem(&error))?;
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

    fn check(&self, request: CheckRequest, stop: StopSignal) -> WorkspaceResult<Vec<CheckRecord>> {
        let own = self.clone();
        let turn = self.0.scratch_turn(&request.parent);
        Box::pin(async move {
            let _turn = turn.lock().await;
            let mut results = Vec::with_capacity(request.commands.len());
            let mut commands = request.commands.clone();
            while !commands.is_empty() && results.iter().all(host::CheckResult::ok) {
                let begun = own.begin_check(&request).await?;
                // Where what one changes cannot be kept apart, each begins in a new directory.
                let rest = commands.split_off(if begun.apart.is_some() { commands.len() } else { 1 });
                let at = begun.at();
                let done = own.0.run_commands(&at, commands, request.network, stop.clone()).await?;
                results.extend(done);
                commands = rest;
            }
            results.extend(commands.into_iter().map(|(command, _)| host::CheckResult::not_run(command)));
            Ok(results.into_iter().map(check_record).collect())
        })
    }

    fn update(&self, of: WorkspaceId, old: ObjectId, new: ObjectId) -> WorkspaceResult<UpdateOutcome> {
        self.with(&of.agent.run(), move |_, at_hand| {
            let updated = at_hand.space.update(&of.agent.to_string(), of.attempt, &oid(&old), &oid(&new));
            updated.map(|updated| UpdateOutcome { kept: updated.kept }).map_err(|error| problem(&error))
        })
    }

    fn publish(&self, run: &RunId, approvals: Approvals) -> WorkspaceResult<Option<RunResult>> {
        self.with(run, move |_, at_hand| {
            let Names { protected, opened } = Names::of(&approvals);
            let left_out = at_hand.space.leave_out(&protected, &opened).map_err(|error| problem(&error))?;
            let (delivered, undelivered) = match at_hand.space.publish() {
                Ok(delivered) => (delivered, None),
                Err(error) if error.is_passing() => return Err(problem(&error)),
                // The work itself is kept; how much it is can be told without a branch.
                Err(error) => (at_hand.space.made().map_err(|_| problem(&error))?, Some(error.to_string())),
            };
            let mut instructions = delivered.paths.clone();
            instructions.retain(|path| instructs(path));
            instructions.truncate(INSTRUCTIONS_TOLD_MAX);
            let result = |delivered: host::PublishedResult| RunResult {
                commit: id(&delivered.commit),
                branch: delivered.branch,
                files: delivered.files as u64,
                problem: undelivered,
                left_out: left_out.clone(),
                instructions,
            };
            let worth_telling =
                |delivered: &host::PublishedResult| delivered.files > 0 || !left_out.is_empty();
            Ok(Some(delivered).filter(worth_telling).map(result))
        })
    }

    fn report(&self, parent: &AgentId, path: String, report: Arc<str>) -> WorkspaceResult<()> {
        let dir = self.0.runs.join(parent.run().as_str()).join("reports").join(parent.to_string());
        self.0.reports.write(dir, path, report)
    }
}

impl WorkspaceViews for HostWorkspaces {
    fn isolation(&self) -> Isolation {
        Isolation::Own
    }

    fn view(&self, call: &CallContext) -> ViewFuture {
        let Some((agent, attempt)) = self.0.workspace_of(call) else { return self.bare(call) };
        self.viewing(call, move |at_hand| {
            let layers = at_hand.space.layers(&agent, attempt, &at_hand.caches);
            let objects = lent(&at_hand.space, &agent, attempt)?;
            Ok(WorkspaceView {
                isolation: Isolation::Own,
                objects: Some(objects),
                caches: layers.unwrap_or_default(),
                disk_limit: Some(at_hand.disk_limit.clone()),
            })
        })
    }

    fn bare(&self, call: &CallContext) -> ViewFuture {
        if let Some((agent, attempt)) = self.0.workspace_of(call) {
            return self.viewing(call, move |at_hand| {
                let objects = lent(&at_hand.space, &agent, attempt)?;
                let (objects, disk_limit) = (Some(objects), Some(at_hand.disk_limit.clone()));
                Ok(WorkspaceView { isolation: Isolation::Own, objects, caches: Vec::new(), disk_limit })
            });
        }
        // A checkout that is shared has no repository. The folder of a replay lies in the state directory, which no program
        // sees where it is.
        let is_hidden = self.0.runs.parent().is_some_and(|state| call.workspace.starts_with(state));
        let isolation = if call.isolated || is_hidden { Isolation::Own } else { Isolation::InPlace };
        let at_hand = self.0.at_hand(call.agent.run().as_str()).ok().filter(|_| call.isolated);
        let disk_limit = at_hand.map(|at_hand| at_hand.disk_limit.clone());
        Box::pin(std::future::ready(Ok(WorkspaceView { isolation, disk_limit, ..WorkspaceView::default() })))
    }
}

fn ended(end: host::CheckEnd) -> String {
    match end {
        host::CheckEnd::Code(code) => format!("exit code {code}"),
        host::CheckEnd::Signal(signal) => format!("ended by signal {signal}"),
        host::CheckEnd::OutOfMemory => "its memory limit was reached".to_owned(),
        host::CheckEnd::OverDiskLimit => {
            "the files of the run take more on disk than workspace.max_run_mb".to_owned()
        }
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
