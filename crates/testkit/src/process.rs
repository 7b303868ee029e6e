//! Starts the real command as a process with a tag, reads it line by line, kills it, and finds leftover processes.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::faults::CrashPoint;
use crate::{variables, workspace_kind};

/// Limit of unread lines. Beyond it the process waits, as for any slow reader.
const LINES_MAX: usize = 4_096;

/// How the command is started: its directories, and the armed faults.
#[derive(Debug, Clone)]
pub struct Launch {
    program: PathBuf,
    dir: PathBuf,
    /// The tag by which the process table is searched afterwards.
    pub tag: String,
    state: PathBuf,
    variables: Vec<(&'static str, OsString)>,
}

impl Launch {
    /// `program` with its state in `state`. It works in `dir`, which also gets its standard error.
    pub fn new(program: &Path, dir: &Path, state: &Path) -> Self {
        // Each directory is used by one test only.
        let tag = dir.display().to_string();
        Self {
            program: program.to_owned(),
            dir: dir.to_owned(),
            tag,
            state: state.to_owned(),
            variables: Vec::new(),
        }
    }

    /// Sets a variable.
    pub fn with(&self, name: &'static str, value: impl AsRef<OsStr>) -> Self {
        let mut launch = self.clone();
        launch.variables.push((name, value.as_ref().to_owned()));
        launch
    }

    /// Arms the death at this point.
    pub fn dying(&self, death: &CrashPoint) -> Self {
        self.with(variables::FAULT, death.to_string())
    }

    /// The file with the standard error of all processes.
    pub fn errors(&self) -> PathBuf {
        self.dir.join("stderr")
    }

    fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(&self.program);
        // The user's own settings and keys must not affect a test. No run works in a home directory.
        command
            .env_clear()
            .env("HOME", self.dir.join("home"))
            .env("NO_COLOR", "1")
            .env("POSSE_HOME", &self.state);
        command.env(variables::TAG, &self.tag).envs(workspace_kind::given());
        for (name, value) in &self.variables {
            command.env(name, value);
        }
        command.args(args).current_dir(&self.dir).stdin(Stdio::null());
        command
    }

    pub fn start<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> io::Result<RunningProcess> {
        let errors = OpenOptions::new().create(true).append(true).open(self.errors())?;
        let mut child = self.command(args).stdout(Stdio::piped()).stderr(errors).spawn()?;
        let (sender, lines) = sync_channel(LINES_MAX);
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                let mut output = BufReader::new(output);
                let mut line = Vec::new();
                // A line that a kill cut off does not count as output.
                while output.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) && line.ends_with(b"\n")
                {
                    line.pop();
                    let text = String::from_utf8_lossy(&line).into_owned();
                    if sender.send(text).is_err() {
                        return;
                    }
                    line.clear();
                }
            });
        }
        Ok(RunningProcess { child, lines })
    }

    /// Runs the command to its end and returns its status, standard output and standard error.
    pub fn output<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> io::Result<ProcessResult> {
        let output = self.command(args).output()?;
        Ok(ProcessResult {
            status: output.status,
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// The processes that still have the tag.
    pub fn left_behind(&self) -> Vec<u32> {
        tagged(&self.tag)
    }
}

/// The result of a process that has ended.
#[derive(Debug)]
pub struct ProcessResult {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

/// What was read from a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessOutput {
    /// A line of its standard output.
    Line(String),
    /// The process will print nothing more.
    End,
    /// The process printed nothing until the deadline.
    Nothing,
}

#[derive(Debug)]
pub struct RunningProcess {
    child: Child,
    lines: Receiver<String>,
}

impl RunningProcess {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line, if there is one before `until`.
    pub fn read_line(&self, until: Instant) -> ProcessOutput {
        match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) => ProcessOutput::Line(line),
            Err(RecvTimeoutError::Disconnected) => ProcessOutput::End,
            Err(RecvTimeoutError::Timeout) => ProcessOutput::Nothing,
        }
    }

    /// Waits for the first line that satisfies `wanted`, and returns all lines up to it.
    pub fn read_until(
        &self,
        patience: Duration,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>, Vec<String>> {
        let until = Instant::now() + patience;
        let mut lines = Vec::new();
        loop {
            match self.read_line(until) {
                ProcessOutput::Line(line) => {
                    let found = wanted(&line);
                    lines.push(line);
                    if found {
                        return Ok(lines);
                    }
                }
                ProcessOutput::End | ProcessOutput::Nothing => return Err(lines),
            }
        }
    }

    fn pid(&self) -> io::Result<Pid> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        pid.ok_or_else(|| io::Error::other("a process without an id"))
    }

    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(self.pid()?, signal)?)
    }

    /// Stops the process. Returns false if it has ended instead.
    pub fn stop(&self) -> io::Result<bool> {
        self.signal(Signal::STOP)?;
        // Only peeks: the exit status stays available to the caller that waits for the process.
        let looks = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(self.pid()?), looks)?;
        Ok(status.is_some_and(|status| status.stopped()))
    }

    /// Kills the process like a crash, and returns its remaining lines.
    pub fn kill(mut self) -> io::Result<(Vec<String>, ExitStatus)> {
        self.child.kill()?;
        self.finish()
    }

    /// The remaining lines, and the exit status.
    pub fn finish(mut self) -> io::Result<(Vec<String>, ExitStatus)> {
        let lines = self.lines.iter().collect();
        Ok((lines, self.child.wait()?))
    }
}

/// The wait of each thread of a process, one per line: its name, state, kernel function and system call. For reports of
/// a process that hangs.
pub fn threads(pid: u32) -> String {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return String::new() };
    let line = |task: &Path| {
        let read = |name: &str| fs::read_to_string(task.join(name)).unwrap_or_default().trim().to_owned();
        let stat = read("stat");
        let state = stat.rsplit_once(')').map_or("?", |(_, rest)| rest.trim_start().get(..1).unwrap_or("?"));
        format!("{} {state} {} {}", read("comm"), read("wchan"), read("syscall"))
    };
    tasks.flatten().map(|task| line(&task.path())).collect::<Vec<_>>().join("\n")
}

/// The processes whose environment has the tag.
pub fn tagged(tag: &str) -> Vec<u32> {
    let wanted = format!("{}={tag}", variables::TAG);
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
    })
    .collect()
}

/// The end of the standard error, for reports.
pub fn last_words(errors: &Path) -> String {
    const SHOWN_BYTES: u64 = 2_000;
    let read = || -> io::Result<Vec<u8>> {
        use std::io::{Read, Seek, SeekFrom};
        let mut file = File::open(errors)?;
        let start = file.metadata()?.len().saturating_sub(SHOWN_BYTES);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_heard_found_and_gone() {
        let dir = tempfile::tempdir().unwrap();
        let launch = Launch::new(Path::new("/bin/sh"), dir.path(), dir.path());
        let script = "echo one; printf half; read never < /dev/zero";
        let running = launch.start(["-c", script]).unwrap();
        let soon = Instant::now() + Duration::from_secs(10);
        assert_eq!(running.read_line(soon), ProcessOutput::Line("one".to_owned()));
        assert_eq!(launch.left_behind(), [running.id()]);
        let (rest, status) = running.kill().unwrap();
        assert_eq!(rest, [""; 0], "half a line was never said");
        assert!(!status.success());
        assert_eq!(launch.left_behind(), [0; 0]);
    }
}
