//! Starts and controls child processes for the tests.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use posse_store::{SqliteOptions, SqliteStore};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::{Value, json};

/// A child process of the test. It is killed when the value is dropped.
pub(crate) struct ChildProcess {
    child: Child,
    /// `None` after its input was closed.
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl ChildProcess {
    /// Starts a child process on the store in `dir` and waits until it has opened the store.
    pub(crate) fn start(dir: &Path) -> Self {
        Self::start_with(dir, json!({}))
    }

    /// Like [`start`](Self::start), with further settings.
    pub(crate) fn start_with(dir: &Path, settings: Value) -> Self {
        let mut process = Self::spawn(dir, settings, &mut this_binary());
        assert_eq!(process.hear(), "open");
        process
    }

    /// Starts a child process with `command`, without waiting.
    pub(crate) fn spawn(dir: &Path, mut settings: Value, command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let commands = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut process = Self { child, commands, answers };
        settings["dir"] = json!(dir);
        process.tell(&settings.to_string());
        process
    }

    /// Sends a command. A dead child process does not receive it.
    pub(crate) fn tell(&mut self, command: &str) {
        if let Some(commands) = &mut self.commands {
            let _ = writeln!(commands, "{command}");
        }
    }

    /// Closes the input. The child process closes its store when it has executed its commands.
    pub(crate) fn end_input(mut self) -> Self {
        self.commands = None;
        self
    }

    /// The next answer. `None` if the child process has ended.
    pub(crate) fn try_hear(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.answers.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // The test harness of the child process writes to the same output.
            if let Some((_, answer)) = line.trim_end().split_once('@') {
                return Some(answer.to_owned());
            }
        }
    }

    pub(crate) fn hear(&mut self) -> String {
        self.try_hear().expect("a child process that lives")
    }

    /// Sends a command and waits for its single answer.
    pub(crate) fn ask(&mut self, command: &str) -> String {
        self.tell(command);
        self.hear()
    }

    pub(crate) fn create(&mut self, run: u64) {
        assert_eq!(self.ask(&format!("create {run}")), "epoch 1");
    }

    /// The number at the end of an answer that starts with `word`.
    pub(crate) fn hear_number(&mut self, word: &str) -> u64 {
        number(&self.hear(), word)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the child process with SIGKILL, and returns its remaining answers.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::iter::from_fn(|| self.try_hear()).collect()
    }

    /// The remaining answers until the child process ends by itself.
    pub(crate) fn hear_out(mut self) -> (Vec<String>, std::process::ExitStatus) {
        let said = std::iter::from_fn(|| self.try_hear()).collect();
        (said, self.child.wait().unwrap())
    }

    /// Closes the input and waits until the child process has closed its store.
    pub(crate) fn close(self) {
        let (said, status) = self.end_input().hear_out();
        assert_eq!(said.last().map(String::as_str), Some("closed"));
        assert!(status.success());
    }

    /// Stops the child process with SIGSTOP and waits until it is stopped.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        self.wait_stopped();
    }

    /// Waits until the child process is stopped.
    pub(crate) fn wait_stopped(&self) {
        let (_, status) = waitpid(Some(self.os_pid()), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped(), "{status:?}");
    }

    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.os_pid(), signal).unwrap();
    }

    fn os_pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // Also kills a stopped child process. One that has already ended is not an error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command that starts this binary as a child process.
pub(crate) fn this_binary() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(child_process_args());
    command
}

/// The arguments that make this binary a child process.
pub(crate) fn child_process_args() -> [&'static str; 5] {
    ["--exact", "child_process", "--ignored", "--nocapture", "--test-threads=1"]
}

/// The number at the end of `answer`, which starts with `word`.
pub(crate) fn number(answer: &str, word: &str) -> u64 {
    let number = answer.strip_prefix(word).unwrap_or_else(|| panic!("`{answer}` is not `{word}`"));
    number.trim().parse().unwrap()
}

/// Opens the store in this process.
pub(crate) fn open(dir: &Path) -> SqliteStore {
    SqliteStore::open(dir, SqliteOptions::default()).unwrap()
}

/// Pseudo-random numbers that are the same in every execution.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}
