//! Commands that the host runs by itself: criteria on a merged tree, and the set-up of a new workspace.
//!
//! They run in a sandbox like an agent's commands do, because what they run is what agents wrote.
//!
//! Why it is like this: `docs/decisions/checks-state.md`.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::disk;
use super::overlay::{lay_over, make_layer};
use posse_files::trees;
use posse_sandbox::process::{CapturedOutput, OutputLimits};
use posse_sandbox::{
    BoxedCommand, Cache, CacheShown, CallEnd, DiskLimit, Exit, RunningCall, Sandbox, SandboxError,
};

/// Without its start-up files: each command begins the same.
const SHELL: [&str; 4] = ["bash", "--noprofile", "--norc", "-c"];
/// How much of an output is kept from its beginning, and from its end, where what failed is usually said.
const HEAD_MAX_BYTES: usize = 4 * 1024;
const TAIL_MAX_BYTES: usize = 12 * 1024;
/// When a command that was asked to end is taken to be stuck. The sandbox ends it before that.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// What to run, and where.
#[derive(Debug, Clone)]
pub struct CheckRequest {
    /// The directory to run in: a tree that was checked out for this, or a new workspace.
    pub dir: PathBuf,
    /// Where the commands see it.
    pub shown_as: PathBuf,
    /// The commands, in their order.
    pub commands: Vec<CheckCommand>,
    /// Names in the directory that the commands cannot change.
    pub protected: Vec<String>,
    /// Directories that appear in it.
    pub caches: Vec<Cache>,
    /// A directory for what the commands change: then each begins with what is in `dir` and in the layers of the caches
    /// now, and nothing that one of them changes is there for the next. None lets them change all of it.
    pub apart: Option<PathBuf>,
    /// What the files of the run may take on disk.
    pub disk_limit: Option<Arc<DiskLimit>>,
    /// Whether the commands share the machine's network.
    pub network: bool,
    /// Further files and directories that they can read, and where they find them.
    pub shown: Vec<(PathBuf, PathBuf)>,
    /// Where it is written down that they are alive.
    pub record: Option<PathBuf>,
}

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckCommand {
    /// For bash.
    pub command: String,
    /// How long it may take.
    pub timeout: Duration,
}

/// What came of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckResult {
    /// The command.
    pub command: String,
    /// How it ended.
    pub ended: CheckEnd,
    /// What it printed: the beginning and the end.
    pub output: String,
    /// How its caches appeared, in their order.
    pub caches: Vec<CacheShown>,
    /// How long it took.
    pub elapsed: Duration,
}

impl CheckResult {
    /// Whether it ended by itself and with success.
    pub fn ok(&self) -> bool {
        self.ended == CheckEnd::Code(0)
    }

    /// One that was not run.
    pub fn not_run(command: String) -> Self {
        let (output, caches, elapsed) = (String::new(), Vec::new(), Duration::ZERO);
        Self { command, ended: CheckEnd::NotRun, output, caches, elapsed }
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckEnd {
    /// By itself, with this code.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// The kernel ended it, or a process of it, because memory ran out.
    OutOfMemory,
    /// The files of the run take more on disk than they may.
    OverDiskLimit,
    /// It took longer than this, which is its limit.
    TimedOut(Duration),
    /// Somebody stopped it.
    Stopped,
    /// It was not run: one before it failed.
    NotRun,
}

/// How often a command is run whose sandbox was lost, where nothing of the lost one is left.
const TRIES_MAX: u32 = 3;

/// Runs commands one after the other until one fails; those after it are not run. When `stop` is ready, what runs is
/// ended and the rest is not run. Nothing of a command is alive when this returns; dropping it ends what runs at once.
/// An error says that a command could not be run, or that nobody knows how it ended: nothing about the work. Only
/// [`SandboxError::BroughtDown`] says that it may be the command's own doing: another one kept its sandbox right after it.
pub async fn check(
    request: CheckRequest,
    sandbox: &Sandbox,
    stop: impl Future<Output = ()>,
) -> Result<Vec<CheckResult>, SandboxError> {
    let mut stop = std::pin::pin!(stop);
    let mut results = Vec::with_capacity(request.commands.len());
    let mut commands = request.commands.iter();
    'commands: for CheckCommand { command, timeout } in commands.by_ref() {
        let mut tries = 0;
        let result = loop {
            let turn = tokio::select! {
                biased;
                () = &mut stop => {
                    let stopped = CheckResult::not_run(command.clone());
                    results.push(CheckResult { ended: CheckEnd::Stopped, ..stopped });
                    break 'commands;
                }
                turn = sandbox.acquire(&request.caches) => turn,
            };
            let apart = request.lay_apart()?;
            let mut running = sandbox.start(turn, request.boxed(command, apart.as_ref()))?;
            let (ended, cut) = wait(&mut running, *timeout, &mut stop).await;
            drop(apart);
            tries += 1;
            match ended {
                Err(SandboxError::Lost) if request.apart.is_some() && tries < TRIES_MAX && cut.is_none() => {}
                Err(SandboxError::BroughtDown) => return Err(request.at_fault(sandbox).await),
                ended => break result(command.clone(), ended?, cut),
            }
        };
        let ok = result.ok();
        results.push(result);
        if !ok {
            break;
        }
    }
    results.extend(commands.map(|left| CheckResult::not_run(left.command.clone())));
    Ok(results)
}

impl CheckRequest {
    /// Why a command lost its sandbox: if one that does nothing keeps its own in the same place, the machine works.
    async fn at_fault(&self, sandbox: &Sandbox) -> SandboxError {
        let turn = sandbox.acquire(&self.caches).await;
        let harmless = async {
            let apart = self.lay_apart()?;
            sandbox.start(turn, self.boxed("true", apart.as_ref()))?.ended().await
        };
        match harmless.await {
            Ok(ended) if ended.exit == Exit::Code(0) => SandboxError::BroughtDown,
            _ => SandboxError::Lost,
        }
    }

    /// Makes what holds the changes of one command.
    fn lay_apart(&self) -> Result<Option<CheckLayers>, SandboxError> {
        let Some(all) = &self.apart else { return Ok(None) };
        // No other has this name: what an earlier command changed may still be being removed.
        let dir = disk::temporary(&all.join("check"));
        let changes = dir.join("files");
        make_layer(&self.dir, &changes)?;
        let caches = lay_over(&self.caches, &dir)?;
        Ok(Some(CheckLayers { dir, changes, caches }))
    }

    fn boxed(&self, command: &str, apart: Option<&CheckLayers>) -> BoxedCommand {
        let argv = SHELL.into_iter().chain([command]).map(str::to_owned).collect();
        BoxedCommand {
            shown_as: self.shown_as.clone(),
            protected: self.protected.clone(),
            changes: apart.map(|apart| apart.changes.clone()),
            caches: apart.map_or(&self.caches, |apart| &apart.caches).clone(),
            disk_limit: self.disk_limit.clone(),
            network: self.network,
            shown: self.shown.clone(),
            record: self.record.clone(),
            output: OutputLimits {
                head_bytes: HEAD_MAX_BYTES,
                tail_bytes: TAIL_MAX_BYTES,
                spill: None,
                spill_bytes: 0,
            },
            ..BoxedCommand::isolated(argv, &self.dir)
        }
    }
}

/// What holds the changes of one command, as long as it runs.
struct CheckLayers {
    dir: PathBuf,
    changes: PathBuf,
    caches: Vec<Cache>,
}

impl Drop for CheckLayers {
    fn drop(&mut self) {
        let dir = std::mem::take(&mut self.dir);
        // Nobody waits for the disk; what is not gone when the process ends goes with the directory it is in.
        std::thread::spawn(move || drop(trees::remove(&dir)));
    }
}

/// Waits for a command, and ends it when its time is up or somebody says so.
async fn wait(
    running: &mut RunningCall,
    timeout: Duration,
    stop: &mut (impl Future<Output = ()> + Unpin),
) -> (Result<CallEnd, SandboxError>, Option<CheckEnd>) {
    let cut = tokio::select! {
        biased;
        ended = running.ended() => return (ended, None),
        () = stop => CheckEnd::Stopped,
        () = tokio::time::sleep(timeout) => CheckEnd::TimedOut(timeout),
    };
    running.terminate();
    if let Ok(ended) = tokio::time::timeout(STUCK_AFTER, running.ended()).await {
        return (ended, Some(cut));
    }
    running.kill();
    (running.ended().await, Some(cut))
}

fn result(command: String, ended: CallEnd, cut: Option<CheckEnd>) -> CheckResult {
    let by_itself = match ended.exit {
        _ if ended.over_disk_limit.is_some() => CheckEnd::OverDiskLimit,
        // Whatever the kernel ended of it, it did not need.
        Exit::Code(0) => CheckEnd::Code(0),
        _ if ended.out_of_memory => CheckEnd::OutOfMemory,
        Exit::Code(code) => CheckEnd::Code(code),
        Exit::Signal(signal) => CheckEnd::Signal(signal),
    };
    let output = shown(&ended.output);
    CheckResult {
        command,
        ended: cut.unwrap_or(by_itself),
        output,
        caches: ended.caches,
        elapsed: ended.elapsed,
    }
}

/// Text of what was printed, with a note where something is left out.
fn shown(output: &CapturedOutput) -> String {
    let head = String::from_utf8_lossy(&output.head);
    match output.left_out() {
        0 => head.into_owned(),
        left_out => {
            let end = if head.ends_with('\n') { "" } else { "\n" };
            format!("{head}{end}[{left_out} bytes left out]\n{}", String::from_utf8_lossy(&output.tail))
        }
    }
}
