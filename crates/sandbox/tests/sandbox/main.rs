//! The sandbox, with real programs in it.

mod basics;
mod caches;
mod checks;
mod disk_limit;
mod inits;
mod isolated;
mod kills;
mod locks;
mod mounts;
mod others;
mod owners;
mod poisoned;
mod processes;
mod streams;
mod users;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use posse_engine::ports::WORKSPACE_SHOWN_AT;
use posse_sandbox::process::OutputLimits;
use posse_sandbox::{
    BoxedCommand, CacheShown, CallEnd, Environment, InitBinary, Sandbox, SandboxError, SandboxOptions,
};
use posse_workspace::{HostCommand, HostCommands};
use tempfile::TempDir;

/// The variable that marks the programs of a test.
const TAG: &str = "POSSE_TEST_TAG";

/// The timeout for an event that must happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A sandbox with its own workspace.
struct Bench {
    workspace: TempDir,
    sandbox: Sandbox,
    tag: String,
}

impl Bench {
    fn new() -> Self {
        Self::with(SandboxOptions::default())
    }

    fn with(options: SandboxOptions) -> Self {
        let workspace = tempfile::tempdir().expect("a directory");
        // The name of a fresh directory is a unique tag.
        let tag = workspace.path().display().to_string();
        let sandbox = Sandbox::new(SandboxOptions { environment: tagged(&tag), init: init(), ..options });
        Self { workspace, sandbox, tag }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.workspace.path().join(name)
    }

    fn command(&self, script: &str) -> BoxedCommand {
        command(self.workspace.path(), script)
    }

    async fn try_run(&self, script: &str) -> Result<CallEnd, SandboxError> {
        let turn = self.sandbox.turn().await;
        self.sandbox.start(turn, self.command(script))?.ended().await
    }

    async fn run(&self, script: &str) -> CallEnd {
        self.try_run(script).await.expect("a result")
    }

    async fn say(&self, script: &str) -> String {
        String::from_utf8(self.run(script).await.output.head).expect("text").trim_end().to_owned()
    }

    /// The programs of this test that are alive.
    fn alive(&self) -> Vec<u32> {
        alive(&self.tag)
    }
}

/// The variable that names another init, for a user who may not read this one.
const INIT: &str = "POSSE_TEST_INIT";

#[expect(clippy::disallowed_methods, reason = "the only way to tell a test binary something")]
fn init() -> InitBinary {
    let other = std::env::var_os(INIT).map(PathBuf::from);
    InitBinary::At(other.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_posse-init"))))
}

fn tagged(tag: &str) -> Environment {
    Environment::from_variables([(TAG.to_owned(), tag.to_owned())], &[TAG.to_owned()])
}

fn command(workspace: &Path, script: &str) -> BoxedCommand {
    BoxedCommand {
        protected: [".git", ".mcp.json", ".github/workflows"].map(str::to_owned).to_vec(),
        output: OutputLimits { head_bytes: 64 << 10, tail_bytes: 64 << 10, spill: None, spill_bytes: 0 },
        read_only: false,
        ..BoxedCommand::in_folder(["bash", "-c", script].map(str::to_owned).to_vec(), workspace)
    }
}

/// Commands that the host runs in a directory, in order.
fn checks_in(dir: PathBuf, commands: &[&str]) -> HostCommands {
    let one = |command: &&str| HostCommand { command: (*command).to_owned(), timeout: PATIENCE };
    HostCommands {
        mount: None,
        layers: None,
        dir,
        shown_as: PathBuf::from(WORKSPACE_SHOWN_AT),
        commands: commands.iter().map(one).collect(),
        protected: Vec::new(),
        caches: Vec::new(),
        apart: None,
        disk_limit: None,
        network: false,
        shown: Vec::new(),
        record: None,
    }
}

/// Whether the kernel supports overlays here. Prints a note if not.
async fn overlays(dir: &Path, sandbox: &Sandbox) -> bool {
    let gives = matches!(sandbox.cache_in(dir).await, Ok(CacheShown::Overlay));
    if !gives {
        println!("skipped: the kernel gives no overlay here");
    }
    gives
}

/// The processes whose environment has the tag.
fn alive(tag: &str) -> Vec<u32> {
    let wanted = format!("{TAG}={tag}");
    let of = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let environment = fs::read(entry.path().join("environ")).ok()?;
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()).then_some(pid)
    };
    fs::read_dir("/proc").expect("/proc").flatten().filter_map(of).collect()
}

/// Polls for a condition without an event, such as the end of a process that is not a child.
fn until(what: &str, patience: Duration, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < patience, "still not: {what}");
        std::thread::yield_now();
    }
}

/// A named pipe on which a program in the sandbox reports progress.
fn pipe(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a pipe");
}
