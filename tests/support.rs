//! A home, the real binary, and a way to wait for its output, shared by all stories.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{PermissionsExt, lchown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::SystemTime;

use posse_testkit::workspace_kind;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// A user's home with a project in it. Nothing outside is read or written.
pub(crate) struct Home {
    dir: TempDir,
    /// The contents of the settings file, each with the time of its start.
    settings: Mutex<Vec<(SystemTime, String)>>,
    /// Whether its commands ran on a machine without namespaces.
    is_bare: AtomicBool,
    /// Further environment variables of its commands.
    variables: Mutex<Vec<(&'static str, String)>>,
    /// Why its runs are not replayed.
    not_replayed: OnceLock<&'static str>,
    /// Whether its runs were replayed already.
    is_replayed: AtomicBool,
    /// Another user, whose commands these are.
    user: OnceLock<u32>,
}

/// A user of the machine without files.
pub(crate) const ORDINARY_USER: u32 = 65_534;

impl Home {
    pub(crate) fn new() -> Self {
        Self::at(tempfile::tempdir().expect("a directory"))
    }

    /// A home with a path of a fixed length, for outputs in which lines are broken after a path.
    pub(crate) fn with_short_path() -> Self {
        Self::at(tempfile::tempdir_in("/tmp").expect("a directory"))
    }

    fn at(dir: TempDir) -> Self {
        let home = Self {
            dir,
            settings: Mutex::default(),
            is_bare: AtomicBool::new(false),
            variables: Mutex::default(),
            not_replayed: OnceLock::new(),
            is_replayed: AtomicBool::new(false),
            user: OnceLock::new(),
        };
        fs::create_dir(home.project()).expect("a project");
        home
    }

    /// The directory where commands are typed.
    pub(crate) fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    /// The state directory. It does not exist before the first run.
    pub(crate) fn state_dir(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// Writes a file of the project.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.project().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(&path, text).expect("a file");
        path
    }

    /// Writes a file of the user, beneath their home.
    pub(crate) fn write_own(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(&path, text).expect("a file");
        path
    }

    /// Writes the settings file.
    pub(crate) fn write_settings(&self, text: &str) {
        self.settings.lock().expect("alone").push((SystemTime::now(), text.to_owned()));
        self.put_settings(text);
    }

    fn put_settings(&self, text: &str) {
        let file = self.settings_file();
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, text).expect("settings");
    }

    fn settings_file(&self) -> PathBuf {
        self.dir.path().join(".config/posse/settings.yaml")
    }

    /// The changed files of an agent in its first attempt; `agent` is its whole id.
    pub(crate) fn workspace(&self, agent: &str) -> PathBuf {
        let run = self.state_dir().join("runs").join(&agent[..8]);
        run.join("workspaces").join(agent).join("1").join(workspace_kind::changed_dir())
    }

    /// A file in the result of an ended run; `None` if it does not exist.
    #[track_caller]
    pub(crate) fn result_file(&self, run: &str, path: &str) -> Option<String> {
        let ends = ["run.completed", "run.failed", "run.cancelled"];
        let events = self.posse(&["logs", "--json", run]).exits(0).json_lines();
        let end = events.iter().find(|event| ends.iter().any(|kind| event["kind"] == *kind)).expect("an end");
        let commit = end["detail"]["result"]["commit"].as_str()?;
        let projects = fs::read_dir(self.state_dir().join("projects")).expect("projects").flatten();
        let has = |repository: &Path| git(repository, &["cat-file", "-e", commit]).is_some();
        let mut repositories = projects.map(|project| project.path().join("repo.git"));
        let repository = repositories.find(|repository| has(repository)).expect("a repository");
        git(&repository, &["cat-file", "blob", &format!("{commit}:{path}")])
    }

    /// Whether a run's result has a file. Asserts that the project itself does not have it.
    #[track_caller]
    pub(crate) fn made(&self, run: &str, path: &str) -> bool {
        assert!(!self.project().join(path).exists(), "{path} is in the person's folder");
        self.result_file(run, path).is_some()
    }

    /// The command with these arguments, ready to be started.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let own = self.own_program();
        let is_given = self.user.get().is_some();
        let mut command = Command::new(if is_given { &own } else { Path::new(env!("CARGO_BIN_EXE_posse")) });
        if let Some(user) = self.user.get() {
            command.uid(*user).gid(*user);
        }
        command
            .args(args)
            .current_dir(self.project())
            .env_clear()
            .env("HOME", self.dir.path())
            .env("POSSE_HOME", self.state_dir())
            .env("TZ", "UTC")
            // No server answers there, whatever runs on this machine.
            .env("OLLAMA_HOST", "127.0.0.1:9")
            .env("TMPDIR", self.dir.path())
            .envs(workspace_kind::given())
            .envs(self.variables.lock().expect("alone").iter().cloned())
            .stdin(Stdio::null());
        command
    }

    /// Makes it the home of another user, who runs all later commands. Only root can do that.
    pub(crate) fn give_to(&self, user: u32) {
        // The other user may not reach the original.
        fs::copy(env!("CARGO_BIN_EXE_posse"), self.own_program()).expect("a copy of the command");
        fs::set_permissions(self.dir.path(), fs::Permissions::from_mode(0o755)).expect("open to all");
        let mut waiting = vec![self.dir.path().to_owned()];
        while let Some(path) = waiting.pop() {
            lchown(&path, Some(user), Some(user)).expect("given away");
            if fs::symlink_metadata(&path).expect("looked at").is_dir() {
                waiting.extend(fs::read_dir(&path).expect("listed").flatten().map(|entry| entry.path()));
            }
        }
        self.user.set(user).expect("one user");
    }

    fn own_program(&self) -> PathBuf {
        self.dir.path().join("posse")
    }

    /// Sets a variable for every later command.
    pub(crate) fn set(&self, name: &'static str, value: &str) {
        self.variables.lock().expect("alone").push((name, value.to_owned()));
    }

    /// Runs the command to its end.
    pub(crate) fn posse(&self, args: &[&str]) -> Done {
        Done::of(self.command(args))
    }

    /// The verbs of the command, in the order of its help.
    pub(crate) fn verbs(&self) -> Vec<String> {
        let help = self.posse(&["--help"]).exits(0).stdout;
        // The groups of verbs are between the usage and the options.
        let listed = help.lines().skip_while(|line| *line != "Start:").take_while(|line| *line != "Options:");
        let verbs = listed
            .filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|verb| !verb.is_empty()));
        let verbs: Vec<String> = verbs.filter(|verb| *verb != "help").map(str::to_owned).collect();
        assert!(verbs.len() > 20, "{help}");
        verbs
    }

    /// The verbs of the command and the verbs beneath them, such as `plan check`.
    pub(crate) fn verbs_and_subverbs(&self) -> Vec<String> {
        let mut left = self.verbs();
        let mut all = Vec::new();
        while let Some(verb) = left.pop() {
            let mut args: Vec<&str> = verb.split(' ').collect();
            args.push("--help");
            let help = self.posse(&args).exits(0).stdout;
            let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
            let names = listed
                .take_while(|line| !line.is_empty())
                .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
                .filter(|name| !name.is_empty() && *name != "help");
            left.extend(names.map(|name| format!("{verb} {name}")));
            all.push(verb);
        }
        all.sort();
        all
    }

    /// Runs the command on a machine without namespaces: inside one whose limit is zero.
    pub(crate) fn without_namespaces(&self, args: &[&str]) -> Done {
        const THROUGH: &str = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
        self.is_bare.store(true, Ordering::Relaxed);
        let direct = self.command(args);
        let mut unshare = Command::new("unshare");
        unshare.args(["--user", "--map-root-user", "bash", "-c", THROUGH, "through"]);
        unshare.arg(direct.get_program()).args(direct.get_args()).current_dir(self.project()).env_clear();
        unshare.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        unshare.envs(direct.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Done::of(unshare)
    }

    /// Runs the command as on a kernel without these system calls.
    pub(crate) fn without_calls(&self, calls: &str, args: &[&str]) -> Done {
        let direct = self.command(args);
        // Without it nothing is shown, so a story that needs it is not skipped. Install the package `strace`.
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={calls}")]);
        strace.args(["-e", &format!("inject={calls}:error=ENOSYS"), "--"]);
        strace.arg(direct.get_program()).args(direct.get_args());
        strace.current_dir(self.project()).env_clear().stdin(Stdio::null());
        strace.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        strace.envs(direct.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Done::of(strace)
    }

    /// Runs the command to its end, and returns which of these system calls it and all its processes made, one per
    /// line.
    pub(crate) fn traced(&self, calls: &str, args: &[&str]) -> (Done, String) {
        // Without it nothing is shown, so a story that needs it is not skipped. Install the package `strace`.
        let version = Command::new("strace").arg("-V").stdout(Stdio::null()).status();
        assert!(version.is_ok(), "strace is not installed");
        let log = tempfile::NamedTempFile::new_in(self.dir.path()).expect("a file");
        let direct = self.command(args);
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-s", "4096", "-e", &format!("trace={calls}"), "-o"]).arg(log.path());
        strace.arg("--").arg(direct.get_program()).args(direct.get_args());
        strace.current_dir(self.project()).env_clear().stdin(Stdio::null());
        strace.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        strace.envs(direct.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let done = Done::of(strace);
        (done, fs::read_to_string(log.path()).expect("a trace"))
    }

    /// Sets why no run of this home is replayed; see [`crate::replays`].
    pub(crate) fn not_replayed(&self, reason: &'static str) {
        self.not_replayed.set(reason).expect("one reason");
    }

    /// Replays its runs now, because the next step breaks their recordings.
    pub(crate) fn replay_now(&self) {
        crate::replays::all(self);
        self.is_replayed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_replayed(&self) -> bool {
        self.is_replayed.load(Ordering::Relaxed)
    }

    pub(crate) fn why_not_replayed(&self) -> Option<&'static str> {
        self.not_replayed.get().copied()
    }

    /// Restores the settings of a time, because a replay uses the current rules.
    pub(crate) fn restore_settings(&self, at: SystemTime) {
        let settings = self.settings.lock().expect("alone");
        match settings.iter().rfind(|(since, _)| *since <= at) {
            Some((_, text)) => self.put_settings(text),
            None if settings.is_empty() => {}
            // There was no file yet; an empty file has the same effect.
            None => self.put_settings(""),
        }
    }

    /// Runs the command like the others of this home.
    pub(crate) fn again(&self, args: &[&str]) -> Done {
        if self.is_bare.load(Ordering::Relaxed) { self.without_namespaces(args) } else { self.posse(args) }
    }

    /// Starts a command that the story then watches.
    pub(crate) fn start(&self, args: &[&str]) -> RunningCommand {
        RunningCommand::of(self.command(args), self.dir.path())
    }

    /// Redacts what differs from one time to the next: ids, times, folders, process ids.
    pub(crate) fn redact(&self, text: &str, run: &str) -> String {
        let whole = self.dir.path().canonicalize().expect("a path");
        let text = text.replace(run, "RUN-----").replace(whole.to_str().expect("UTF-8"), "[HOME]");
        text.lines().map(redact_line).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // A failed story has already reported the problem.
        if !std::thread::panicking() {
            crate::replays::all(self);
        }
    }
}

/// The output of git in a repository; `None` if it fails.
fn git(repository: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("--git-dir").arg(repository).args(args).output().expect("git runs");
    output.status.success().then(|| String::from_utf8(output.stdout).expect("UTF-8"))
}

/// Replaces times of day, dates, durations and sizes, which all consist of digits.
fn redact_line(line: &str) -> String {
    const DATE_AND_TIME: &str = "9999-99-99 99:99:99";
    let mut line = line.to_owned();
    let shape =
        |line: &str| -> String { line.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect() };
    while let Some(at) = shape(&line).find(DATE_AND_TIME) {
        line.replace_range(at..at + DATE_AND_TIME.len(), "[TIME]");
    }
    let words: Vec<String> = line.split(' ').map(redact_word).collect();
    let mut text = words.join(" ");
    for unit in [" ms", " s", " min"] {
        while let Some(at) = duration_before(&text, unit) {
            text.replace_range(at..at + text[at..].find(unit).expect("found") + unit.len(), "[TIME]");
        }
    }
    for unit in [" KiB", " MiB"] {
        while let Some(at) = duration_before(&text, unit) {
            text.replace_range(at..at + text[at..].find(unit).expect("found") + unit.len(), "[SIZE]");
        }
    }
    // A column is as wide as its widest entry, so the distance of a time from its left edge is irrelevant.
    while text.contains("   [TIME]") {
        text = text.replace("   [TIME]", "  [TIME]");
    }
    text
}

/// The start of a number before this unit.
fn duration_before(text: &str, unit: &str) -> Option<usize> {
    text.match_indices(unit).find_map(|(end, _)| {
        let after = text[end + unit.len()..].chars().next();
        let digits = text[..end].bytes().rev().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let is_word_end = after.is_none_or(|c| !c.is_alphanumeric());
        (digits > 0 && is_word_end).then_some(end - digits)
    })
}

fn redact_word(word: &str) -> String {
    let shape: String = word.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
    let core = shape.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    match core {
        "99:99:99.999" | "9999-99-99T99:99:99.999Z" => shape.replace(core, "[TIME]"),
        _ if core.len() == 64 && core.chars().all(|c| c.is_ascii_hexdigit()) => "[HASH]".to_owned(),
        _ => word.to_owned(),
    }
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Done {
    /// Runs a command to its end.
    pub(crate) fn of(mut command: Command) -> Self {
        let output = command.output().expect("the command runs");
        let args: Vec<String> = command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
        let done = Self::new(output.status, &output.stdout, &output.stderr);
        crate::api_schema::check(&args, &done.stdout);
        done
    }

    fn new(status: ExitStatus, stdout: &[u8], stderr: &[u8]) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
        Self { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }

    /// Asserts that it ended with this code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Standard output as one JSON value.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// Standard output as JSON lines.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.stdout.lines().map(parse).collect()
    }

    /// The result: the last of the JSON lines.
    #[track_caller]
    pub(crate) fn result(&self) -> Value {
        let last = self.json_lines().pop().expect("a line");
        assert_eq!(last["type"], "result", "{self:#?}");
        last
    }

    /// Both outputs and the code, for a snapshot.
    pub(crate) fn screen(&self, home: &Home, run: &str) -> String {
        let code = self.code.map_or_else(|| "none".to_owned(), |code| code.to_string());
        let text = format!("-- stderr\n{}-- stdout\n{}-- exit {code}\n", self.stderr, self.stdout);
        home.redact(&text, run)
    }
}

/// A running command, whose standard output is read line by line.
pub(crate) struct RunningCommand {
    child: Child,
    lines: BufReader<ChildStdout>,
    read: String,
    stderr: PathBuf,
}

impl RunningCommand {
    fn of(mut command: Command, folder: &Path) -> Self {
        // A file, because a pipe without a reader fills up.
        let stderr = tempfile::Builder::new().prefix("stderr-").tempfile_in(folder).expect("a file");
        let (file, stderr) = stderr.keep().expect("a file");
        let mut child = command.stdout(Stdio::piped()).stderr(file).spawn().expect("the command starts");
        let lines = BufReader::new(child.stdout.take().expect("standard output"));
        Self { child, lines, read: String::new(), stderr }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line; `None` at the end.
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        self.read.push_str(&line);
        (!line.is_empty()).then_some(line)
    }

    /// Reads events until one matches, and returns it.
    #[track_caller]
    pub(crate) fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        while let Some(line) = self.line() {
            let event: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            if fits(&event) {
                return event;
            }
        }
        panic!("it ended first: {}\n{}", self.read, fs::read_to_string(&self.stderr).unwrap_or_default());
    }

    /// Reads events until an agent has one of this kind; `agent` is the end of its id, `""` is the root.
    #[track_caller]
    pub(crate) fn until_event(&mut self, agent: &str, kind: &str) -> Value {
        self.until(|event| {
            let id = event["agent_id"].as_str().unwrap_or_default();
            event["kind"] == kind && id.get(8..) == Some(agent)
        })
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).expect("a process id");
        kill_process(pid, signal).expect("the signal is sent");
    }

    /// Ends it like a power cut.
    pub(crate) fn kill(mut self) -> String {
        self.signal(Signal::KILL);
        self.child.wait().expect("it has ended");
        std::mem::take(&mut self.read)
    }

    /// Waits until it has ended by itself.
    pub(crate) fn finish(mut self) -> Done {
        self.lines.read_to_string(&mut self.read).expect("the rest");
        let status = self.child.wait().expect("it has ended");
        let stderr = fs::read(&self.stderr).expect("standard error");
        Done::new(status, self.read.as_bytes(), &stderr)
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        // A failed story leaves no process behind. Killing an ended process fails harmlessly.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The run that an event or a result is about.
pub(crate) fn run_of(event: &Value) -> String {
    let id = event["run"].as_str().or_else(|| event["agent_id"].as_str()).expect("an id");
    id[..8].to_owned()
}
