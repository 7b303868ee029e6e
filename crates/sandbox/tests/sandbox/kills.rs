//! The runtime is killed at any moment: everything in its sandboxes ends.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use posse_sandbox::{BoxedCommand, Sandbox, SandboxOptions};
use rustix::fs::FlockOperation;
use serde_json::{Value, json};

use crate::{alive, command, init, pipe, tagged, until};

/// How many kills happen soon after the start of a tool, and how many later.
const SOON: u32 = if option_env!("POSSE_CAMPAIGNS").is_some() { 200 } else { 80 };
const LATER: u32 = if option_env!("POSSE_CAMPAIGNS").is_some() { 100 } else { 30 };
const SOON_MAX: Duration = Duration::from_millis(20);
/// The deadline for everything to be gone: a second, but ci runs other tests beside this one.
const GONE_MAX: Duration =
    if option_env!("POSSE_CAMPAIGNS").is_some() { Duration::from_secs(1) } else { crate::PATIENCE };

/// A script that is hard to end.
const CLINGING: &str = "trap '' TERM HUP INT; setsid sleep 1000 & nohup sleep 1000 >/dev/null 2>&1 & \
                        (sleep 1000 & disown); setsid -f sleep 1000 </dev/null >/dev/null 2>&1; \
                        if [ -p up ]; then echo > up; fi; sleep 1000 & wait; wait; wait";

/// A runtime in a separate process.
pub(crate) struct RuntimeProcess {
    pub(crate) child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl RuntimeProcess {
    pub(crate) fn start(workspace: &Path, record: &Path, tag: &str, warm: bool) -> Self {
        let mut child = Command::new("/proc/self/exe")
            .args(["kills::runtime_process", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a process");
        let order = json!({ "workspace": workspace, "record": record, "tag": tag, "warm": warm });
        let mut orders = child.stdin.take().expect("its input");
        writeln!(orders, "{order}").expect("told");
        drop(orders);
        let answers = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, answers }
    }

    /// Waits until the process prints `word`.
    pub(crate) fn hear(&mut self, word: &str) {
        let mut line = String::new();
        while !line.trim_end().ends_with(&format!("@{word}")) {
            line.clear();
            assert!(self.answers.read_line(&mut line).expect("a line") > 0, "the process ended");
        }
    }

    fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }
}

impl Drop for RuntimeProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test: the separate process of the tests here.
#[test]
#[ignore = "is started by other tests"]
fn runtime_process() {
    let mut order = String::new();
    std::io::stdin().read_line(&mut order).expect("an order");
    let order: Value = serde_json::from_str(&order).expect("an order");
    let text = |field: &str| order[field].as_str().expect(field).to_owned();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let options =
            SandboxOptions { init: init(), environment: tagged(&text("tag")), ..SandboxOptions::default() };
        let sandbox = Sandbox::new(options);
        if order["warm"] == true {
            sandbox.level().await.expect("a level");
        }
        let workspace = PathBuf::from(text("workspace"));
        let command =
            BoxedCommand { record: Some(PathBuf::from(text("record"))), ..command(&workspace, CLINGING) };
        let turn = sandbox.turn().await;
        println!("@starting");
        let mut running = sandbox.start(turn, command).expect("started");
        running.ended().await.expect("a result");
    });
}

/// Whether no tagged process lives and the record's lock is free: its init and its first process are gone too.
fn gone(tag: &str, record: &Path) -> bool {
    let free = match File::open(record) {
        Ok(file) => rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok(),
        Err(_) => true,
    };
    free && alive(tag).is_empty()
}

#[test]
fn killed_soon_after_a_tool_started() {
    let dir = tempfile::tempdir().expect("a directory");
    for round in 0..SOON {
        let tag = format!("{}-{round}", dir.path().display());
        let (workspace, record) =
            (dir.path().join(format!("ws{round}")), dir.path().join(format!("rec{round}")));
        fs::create_dir(&workspace).expect("made");
        let mut process = RuntimeProcess::start(&workspace, &record, &tag, round % 2 == 0);
        process.hear("starting");
        let began = Instant::now();
        let delay = SOON_MAX * round / SOON;
        while began.elapsed() < delay {
            std::hint::spin_loop();
        }
        process.kill();
        // An init that received the call just before may start it after no process seemed to be alive.
        until(&format!("round {round}: nothing alive"), GONE_MAX, || gone(&tag, &record));
    }
}

#[test]
fn killed_while_a_tool_is_busy() {
    let dir = tempfile::tempdir().expect("a directory");
    for round in 0..LATER {
        let tag = format!("{}-{round}", dir.path().display());
        let (workspace, record) =
            (dir.path().join(format!("ws{round}")), dir.path().join(format!("rec{round}")));
        fs::create_dir(&workspace).expect("made");
        pipe(&workspace.join("up"));
        let mut process = RuntimeProcess::start(&workspace, &record, &tag, true);
        process.hear("starting");
        fs::read(workspace.join("up")).expect("up");
        until("they are really there", crate::PATIENCE, || alive(&tag).len() > 3);
        process.kill();
        until(&format!("round {round}: nothing alive"), GONE_MAX, || gone(&tag, &record));
    }
}
