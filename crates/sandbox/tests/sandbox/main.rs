//! The box, with real programs in it.

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

use posse_sandbox::process::OutputLimits;
use posse_sandbox::{
    BoxedCommand, CacheShown, CallEnd, Environment, InitBinary, Sandbox, SandboxError, SandboxOptions,
    WORKSPACE_SHOWN_AT,
};
use posse_workspace::{CheckCommand, CheckRequest};
use tempfile::TempDir;

/// The variable by which the programs of a test are told from all others.
const TAG: &str = "POSSE_TEST_TAG";

/// How long something that must happen may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(20);

/// A sandbox with a workspace of its own.
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
        // The name of a fresh directory is as good a tag as any.
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

    /// What a script prints.
    async fn say(&self, script: &str) -> String {
        String::from_utf8(self.run(script).await.output.head).expect("text").trim_end().to_owned()
    }

    /// The programs of this test that are alive.
    fn alive(&self) -> Vec<u32> {
        alive(&self.tag)
    }
}

/// The variable that names another init: for a user who may not see this one.
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
        ..BoxedCommand::in_place(["bash", "-c", script].map(str::to_owned).to_vec(), workspace)
    }
}

/// Commands that the host runs in a directory, one after the other.
fn checks_in(dir: PathBuf, commands: &[&str]) -> CheckRequest {
    let one = |command: &&str| CheckCommand { command: (*command).to_owned(), timeout: PATIENCE };
    CheckRequest {
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

/// Whether the kernel gives overlays here; it is said if not.
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

/// Waits for something that no event tells of, such as the end of a process that is not ours.
fn until(what: &str, patience: Duration, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < patience, "still not: {what}");
        std::thread::yield_now();
    }
}

/// A pipe with a name, by which a program in the box says that it has come so far.
fn pipe(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a pipe");
}
