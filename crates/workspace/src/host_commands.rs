//! Runs the host's own commands for the engine: checks on a merged tree, and the set-up of a new workspace.
//!
//! They run in a sandbox like an agent's commands, because they execute files that agents wrote.
//!
//! Why it is like this: `docs/decisions/checks-state.md`.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use posse_domain::event::CheckRecord;
use posse_engine::ports::{StopSignal, Urgency};

use super::bases::BaseState;
use super::disk;
use super::overlay::{lay_over, make_layer};
use posse_files::trees;
use posse_sandbox::process::{CapturedOutput, OutputLimits};
use posse_sandbox::{
    BoxedCommand, Cache, CacheShown, CallEnd, DiskLimit, EndReason, Exit, HolderMode, Mounts, OverlayChanges,
    OverlayLayers, OverlayMount, SHELL, Sandbox, SandboxError, TimeLimits,
};

/// How much output is kept from its beginning and its end. Failures are usually reported at the end.
const HEAD_MAX_BYTES: usize = 4 * 1024;
const TAIL_MAX_BYTES: usize = 12 * 1024;

/// A sequence of commands and their sandbox.
#[derive(Debug, Clone)]
pub struct HostCommands {
    /// The working directory: a tree that was checked out for this, or a new workspace.
    pub dir: PathBuf,
    /// The mount with the files of `dir`; `None` if they are in the directory itself.
    pub mount: Option<Arc<OverlayMount>>,
    /// The layers that each command starts from, if `apart` is set and the files are an overlay.
    pub layers: Option<CommandLayers>,
    /// The path of `dir` inside the sandbox.
    pub shown_as: PathBuf,
    /// Executed in this order.
    pub commands: Vec<HostCommand>,
    /// Names in the directory that the commands cannot change.
    pub protected: Vec<String>,
    /// Directories that are mounted into it.
    pub caches: Vec<Cache>,
    /// A directory for the commands' changes. If set, each command starts from the current `dir` and cache layers, and
    /// no command sees the changes of another. If `None`, the commands change `dir` directly.
    pub apart: Option<PathBuf>,
    /// Limit of the disk usage of the run's files.
    pub disk_limit: Option<Arc<DiskLimit>>,
    /// Whether the commands share the machine's network.
    pub network: bool,
    /// Further files and directories that they can read: the path on the machine, and the path inside the sandbox.
    pub shown: Vec<(PathBuf, PathBuf)>,
    /// The file that records the running processes.
    pub record: Option<PathBuf>,
}

/// The layers of an overlay, whose upper layer is not mounted.
#[derive(Debug, Clone)]
pub struct CommandLayers {
    /// Mounts an overlay for each command.
    pub mounts: Mounts,
    /// The topmost first.
    pub lowers: Vec<PathBuf>,
    /// The privileges with which the topmost was mounted.
    pub mode: HolderMode,
    /// The shared layers among them.
    pub(super) state: Arc<BaseState>,
}

/// One command of the host, with its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCommand {
    /// A script for bash.
    pub command: String,
    /// The command is ended after this time.
    pub timeout: Duration,
}

/// The result of one command of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandResult {
    /// The script that was run.
    pub command: String,
    /// How the command ended.
    pub ended: CommandEnd,
    /// The beginning and the end of the output.
    pub output: String,
    /// How each cache was mounted, in order.
    pub caches: Vec<CacheShown>,
    /// The wall time of the command.
    pub elapsed: Duration,
}

impl CommandResult {
    /// Whether the command exited with code 0.
    pub fn ok(&self) -> bool {
        self.ended == CommandEnd::Code(0)
    }

    /// The result of a command that was not run.
    pub fn not_run(command: String) -> Self {
        let (output, caches, elapsed) = (String::new(), Vec::new(), Duration::ZERO);
        Self { command, ended: CommandEnd::NotRun, output, caches, elapsed }
    }
}

/// How a command of the host ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandEnd {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// The kernel killed it, or one of its processes, because memory ran out.
    OutOfMemory,
    /// The files of the run exceed the disk limit.
    OverDiskLimit,
    /// It exceeded this timeout.
    TimedOut(Duration),
    /// The stop signal was given.
    Stopped,
    /// An earlier command failed.
    NotRun,
}

impl std::fmt::Display for CommandEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "ended by signal {signal}"),
            Self::OutOfMemory => f.write_str("its memory limit was reached"),
            Self::OverDiskLimit => {
                f.write_str("the files of the run take more on disk than workspace.max_run_mb")
            }
            Self::TimedOut(limit) => write!(f, "it took longer than its limit of {} ms", limit.as_millis()),
            Self::Stopped => f.write_str("stopped"),
            Self::NotRun => f.write_str("not run: one before it failed"),
        }
    }
}

impl From<CommandResult> for CheckRecord {
    fn from(result: CommandResult) -> Self {
        Self {
            ok: result.ok(),
            ended: result.ended.to_string(),
            command: result.command,
            output: result.output.into(),
            elapsed_ms: u64::try_from(result.elapsed.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// How often a command whose sandbox was lost is tried, if nothing of the lost sandbox remains.
const TRIES_MAX: u32 = 3;

/// Runs commands in order until one fails; the rest is not run. When `stop` is ready, the running command is ended and
/// the rest is not run. No process of a command is alive when this returns; dropping the future ends them at once. An
/// error means that a command could not be run or that its end is unknown, and says nothing about the work. Only
/// [`SandboxError::BroughtDown`] may be the command's own fault: a harmless command kept its sandbox right after it.
pub async fn run_commands(
    request: HostCommands,
    sandbox: &Sandbox,
    stop: &StopSignal,
) -> Result<Vec<CommandResult>, SandboxError> {
    let mut stopped = stop.clone();
    let mut results = Vec::with_capacity(request.commands.len());
    let mut commands = request.commands.iter();
    'commands: for HostCommand { command, timeout } in commands.by_ref() {
        let mut tries = 0;
        let result = loop {
            let turn = tokio::select! {
                biased;
                () = stopped.at_least(Urgency::Gently) => {
                    let not_run = CommandResult::not_run(command.clone());
                    results.push(CommandResult { ended: CommandEnd::Stopped, ..not_run });
                    break 'commands;
                }
                turn = sandbox.acquire(&request.caches) => turn,
            };
            let apart = request.lay_apart()?;
            let mut running = sandbox.start(turn, request.boxed(command, apart.as_ref()))?;
            let limits = TimeLimits { time: *timeout, idle: Duration::MAX };
            let (ended, cut) = running.run_to_end(stop, limits).await;
            drop(apart);
            tries += 1;
            match ended {
                Err(SandboxError::Lost) if request.apart.is_some() && tries < TRIES_MAX && cut.is_none() => {}
                Err(SandboxError::BroughtDown) => return Err(request.at_fault(sandbox).await),
                ended => break result(command.clone(), ended?, cut, *timeout),
            }
        };
        let ok = result.ok();
        results.push(result);
        if !ok {
            break;
        }
    }
    results.extend(commands.map(|left| CommandResult::not_run(left.command.clone())));
    Ok(results)
}

impl HostCommands {
    /// Finds out why a command lost its sandbox: if a command that does nothing keeps its sandbox, the machine works.
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

    /// Creates the layers for the changes of one command.
    fn lay_apart(&self) -> Result<Option<CheckLayers>, SandboxError> {
        let Some(all) = &self.apart else { return Ok(None) };
        // A unique name: the changes of an earlier command may still be being removed.
        let dir = disk::temporary(&all.join("check"));
        let changes = dir.join("files");
        let files = if let Some(layers) = &self.layers {
            CheckFiles::Mount(layers.mount(&changes)?)
        } else {
            make_layer(&self.dir, &changes)?;
            CheckFiles::Layer(changes)
        };
        let caches = lay_over(&self.caches, &dir)?;
        Ok(Some(CheckLayers { files, dir, caches }))
    }

    fn boxed(&self, command: &str, apart: Option<&CheckLayers>) -> BoxedCommand {
        let argv = SHELL.into_iter().chain([command]).map(str::to_owned).collect();
        BoxedCommand {
            shown_as: self.shown_as.clone(),
            protected: self.protected.clone(),
            mount: apart.map_or_else(|| self.mount.clone(), |apart| apart.files.mount()),
            changes: apart.and_then(|apart| apart.files.layer()),
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

/// The layers with the changes of one command, removed when it has ended.
struct CheckLayers {
    files: CheckFiles,
    dir: PathBuf,
    caches: Vec<Cache>,
}

/// Where the changes of one command go.
enum CheckFiles {
    /// A layer that the sandbox mounts over the directory.
    Layer(PathBuf),
    /// The upper layer of this mount.
    Mount(Arc<OverlayMount>),
}

impl CheckFiles {
    fn mount(&self) -> Option<Arc<OverlayMount>> {
        match self {
            Self::Layer(_) => None,
            Self::Mount(mount) => Some(mount.clone()),
        }
    }

    fn layer(&self) -> Option<PathBuf> {
        match self {
            Self::Layer(layer) => Some(layer.clone()),
            Self::Mount(_) => None,
        }
    }
}

impl CommandLayers {
    /// Mounts the layers with a new upper layer beneath `dir`.
    fn mount(&self, dir: &Path) -> Result<Arc<OverlayMount>, SandboxError> {
        let (upper, work) = (dir.join("upper"), dir.join("work"));
        std::fs::create_dir_all(&work)?;
        std::fs::create_dir(&upper)?;
        let (upper, work) = (upper.canonicalize()?, work.canonicalize()?);
        std::fs::set_permissions(&upper, std::fs::Permissions::from_mode(0o755))?;
        let changes = Some(OverlayChanges { upper, work, mode: self.mode });
        let layers = OverlayLayers { lowers: self.lowers.clone(), changes };
        self.mounts.mount(&layers, None, Some(self.state.clone())).map(Arc::new)
    }
}

impl Drop for CheckLayers {
    fn drop(&mut self) {
        let dir = std::mem::take(&mut self.dir);
        // Removed in the background, so that no call waits for the disk. What remains at the end of the process is
        // removed with its parent directory.
        std::thread::spawn(move || drop(trees::remove(&dir)));
    }
}

fn result(command: String, ended: CallEnd, cut: Option<EndReason>, timeout: Duration) -> CommandResult {
    let cut = cut.map(|reason| match reason {
        EndReason::Stopped => CommandEnd::Stopped,
        EndReason::TimeLimit | EndReason::Silent => CommandEnd::TimedOut(timeout),
    });
    let by_itself = match ended.exit {
        _ if ended.over_disk_limit.is_some() => CommandEnd::OverDiskLimit,
        // The command succeeded without the processes that the kernel killed.
        Exit::Code(0) => CommandEnd::Code(0),
        _ if ended.out_of_memory => CommandEnd::OutOfMemory,
        Exit::Code(code) => CommandEnd::Code(code),
        Exit::Signal(signal) => CommandEnd::Signal(signal),
    };
    let output = shown(&ended.output);
    CommandResult {
        command,
        ended: cut.unwrap_or(by_itself),
        output,
        caches: ended.caches,
        elapsed: ended.elapsed,
    }
}

/// The captured output as text, with a note where something is omitted.
fn shown(output: &CapturedOutput) -> String {
    let head = String::from_utf8_lossy(&output.head);
    match output.left_out() {
        0 => head.into_owned(),
        left_out => {
            let end = if head.ends_with('\n') { "" } else { "\n" };
            format!("{head}{end}[{left_out} bytes omitted]\n{}", String::from_utf8_lossy(&output.tail))
        }
    }
}
