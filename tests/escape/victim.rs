//! A process of the same user as a target for signals, tracing and reading, none of which succeeds.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

/// Logs every signal that reaches it, and waits.
const SCRIPT: &str = r#"
for s in HUP INT QUIT USR1 USR2 TERM CONT ALRM; do trap "echo $s >> \"$0\"" $s; done
echo ready
while :; do read -r _ || exit; done
"#;

/// The target process.
pub(crate) struct Victim {
    child: Mutex<Child>,
    log: PathBuf,
}

impl Victim {
    pub(crate) fn start(top: &Path, canary: &str, user: Option<u32>) -> Self {
        let log = top.join("victim.log");
        let mut command = Command::new("bash");
        command.args(["-c", SCRIPT]).arg(&log).env_clear().env("VICTIM_SECRET", canary).current_dir(top);
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        Self { child: Mutex::new(child), log }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.lock().expect("alone").id()
    }

    /// Waits until it has ended.
    pub(crate) fn wait(&self) {
        self.child.lock().expect("alone").wait().expect("it has ended");
    }

    /// What was done to it.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if let Ok(Some(status)) = self.child.lock().expect("alone").try_wait() {
            return vec![format!("the victim was ended: {status}")];
        }
        let signals = fs::read_to_string(&self.log).expect("its log");
        if !signals.is_empty() {
            problems.push(format!("the victim got signals: {signals:?}"));
        }
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("its status");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(|rest| rest.trim_start_matches(':').trim().to_owned()).unwrap_or_default()
        };
        if field("TracerPid") != "0" || field("State").starts_with(['T', 't', 'Z']) {
            problems.push(format!("the victim is traced or stopped: {status}"));
        }
        problems
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let mut child = self.child.lock().expect("alone");
        drop(child.kill());
        drop(child.wait());
    }
}
