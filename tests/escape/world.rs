//! A small world: a user's home with secrets, a workspace, neighbours, listeners, and a process to attack. All of it is
//! outside the sandbox, and so is every check of it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use posse_testkit::workspace_kind;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::case::Case;
use super::landlock;
use super::listeners::Listeners;
use super::oracle::{self, Snapshot};
use super::victim::Victim;

/// How many calls a reply has.
const CALLS_PER_TURN: usize = 16;
/// The timeout of a whole run, in seconds.
const HUNG_AFTER: &str = "180";

/// The call that creates files in the workspace that no snapshot contains.
const FURNISH: &str = "furnish";
/// A pipe, a socket without a listener, and a huge file that git ignores.
const FURNISHING: &str = "mkfifo pipe; truncate -s 4G sparse; python3 -c 'import socket; \
    socket.socket(socket.AF_UNIX).bind(\"in.sock\")'; ls -l pipe sparse && pwd";
/// Where programs see their workspace.
const SHOWN_AT: &str = "/workspace";

/// Secrets of the home directory; each file contains the canary.
pub(crate) const SECRETS: [&str; 14] = [
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".netrc",
    ".cargo/credentials.toml",
    ".config/gh/hosts.yml",
    ".npmrc",
    ".git-credentials",
    ".docker/config.json",
    ".kube/config",
    ".gnupg/private-keys-v1.d/key",
    ".bash_history",
    ".local/share/uv/credentials/credentials.toml",
    ".m2/settings.xml",
    "Documents/plan.txt",
];

/// The world of one group of cases.
pub(crate) struct World {
    top: TempDir,
    /// In every command of this world, and nowhere else on the machine.
    pub(crate) tag: String,
    /// In every secret of this world.
    canary: String,
    setting: Setting,
    program: Arc<Program>,
    pub(crate) listeners: Listeners,
    pub(crate) victim: Victim,
    before: Snapshot,
}

/// The user of the runtime, and the isolation level.
#[derive(Clone, Copy, Default)]
pub(crate) struct Setting {
    /// A user of the machine; `None` is the user who runs the test.
    pub(crate) user: Option<u32>,
    pub(crate) level: Level,
}

/// The isolation level.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Level {
    /// Everything that the machine has.
    #[default]
    Namespaces,
    /// The rest without user namespaces, for a user who requests it.
    Landlock,
}

/// Starts `"$@"` in the directory `$0/ws` without user namespaces: the kernel creates none for a process whose root is
/// not its mount namespace's. Everything else is unchanged, including processes and users.
const WITHOUT_NAMESPACES: &str =
    r#"mount --rbind / "$0/root" && exec chroot $AS "$0/root" env -u AS -C "$0/ws" "$@""#;
/// The same for users who may not mount. Their own processes are then more isolated than normal.
const WITHOUT_NAMESPACES_AS_USER: &str =
    r#"echo 0 > /proc/sys/user/max_user_namespaces && cd "$0/ws" && exec "$@""#;

/// How the runtime is started.
#[derive(Clone, Copy)]
pub(crate) struct Launch {
    /// Further flags.
    pub(crate) flags: &'static [&'static str],
    /// A shell command that starts it as `"$@"`, if it is not started directly.
    pub(crate) through: Option<&'static str>,
    /// Further settings of the sandbox, each with a comma after it.
    pub(crate) sandbox: &'static str,
}

/// The results of a world's cases.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) ran: Vec<&'static str>,
    pub(crate) skipped: Vec<String>,
    /// Attempts that succeeded, because the level does not promise to prevent them.
    pub(crate) not_held: Vec<String>,
    pub(crate) problems: Vec<String>,
    /// How many decisions of rules were compared with `explain`.
    pub(crate) explained: usize,
}

/// The command, where the user of a setting can execute it.
pub(crate) struct Program {
    path: PathBuf,
    /// The directory of a copy for another user, who may not reach the original.
    _copy: Option<TempDir>,
}

impl Program {
    pub(crate) fn of(setting: Setting) -> Self {
        let original = Path::new(env!("CARGO_BIN_EXE_posse"));
        if setting.user.is_none() {
            return Self { path: original.to_owned(), _copy: None };
        }
        let dir = tempfile::tempdir().expect("a directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("open to all");
        let path = dir.path().join("posse");
        fs::copy(original, &path).expect("a binary for others");
        Self { path, _copy: Some(dir) }
    }
}

impl World {
    pub(crate) fn new(setting: Setting, launch: Launch) -> Self {
        Self::with(Arc::new(Program::of(setting)), setting, launch)
    }

    /// A world that shares the program with others: a copy for each would be most of what a world writes.
    pub(crate) fn with(program: Arc<Program>, setting: Setting, launch: Launch) -> Self {
        let top = tempfile::tempdir().expect("a directory");
        fs::set_permissions(top.path(), fs::Permissions::from_mode(0o755)).expect("open to all");
        let unique = top.path().file_name().and_then(|name| name.to_str()).expect("a name");
        let unique = unique.trim_start_matches('.').to_owned();
        let (tag, canary) = (format!("esc-{unique}"), format!("CANARY-{unique}"));
        furnish(top.path(), &canary, setting.level, launch);
        let listeners = Listeners::open(top.path());
        if let Some(user) = setting.user {
            oracle::walk(top.path(), &mut |path, _| {
                lchown(path, Some(user), Some(user)).expect("given away");
            });
        }
        let victim = Victim::start(top.path(), &canary, setting.user);
        let before = Snapshot::of(top.path());
        Self { top, tag, canary, setting, program, listeners, victim, before }
    }

    /// Records the current state of everything.
    pub(crate) fn look(&mut self) {
        self.before = Snapshot::of(self.top.path());
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.top.path().join(path)
    }

    /// Replaces names by values of this world.
    fn fill(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let mut text = text.clone();
                for (name, is) in self.names() {
                    text = text.replace(&format!("@{name}@"), &is);
                }
                Value::String(text)
            }
            Value::Object(fields) => {
                fields.iter().map(|(name, field)| (name.clone(), self.fill(field))).collect()
            }
            other => other.clone(),
        }
    }

    fn names(&self) -> Vec<(&'static str, String)> {
        let path = |name: &str| self.at(name).display().to_string();
        let mut names = vec![
            ("tag", self.tag.clone()),
            ("top", self.top.path().display().to_string()),
            ("ws", path("ws")),
            ("box", SHOWN_AT.to_owned()),
            ("home", path("home")),
            ("state", path("home/state")),
            ("victim", self.victim.pid().to_string()),
        ];
        names.extend(self.listeners.names());
        names
    }

    /// A model that makes these calls, some in each turn, and reports if it ever sees a secret.
    fn script(&self, cases: &[Case]) -> String {
        let mut rules = vec![json!({"when": {"contains": self.canary}, "reply": {"text": "LEAKED"}})];
        let furnish = json!({"name": "bash", "id": FURNISH, "input": {"command": FURNISHING}});
        rules.push(json!({"when": {"turn": 1}, "reply": {"text": "first", "tool_calls": [furnish]}}));
        for (turn, some) in cases.chunks(CALLS_PER_TURN).enumerate() {
            let calls: Vec<Value> = some
                .iter()
                .map(|case| json!({"name": case.tool, "id": case.call_id(), "input": self.fill(&case.input)}))
                .collect();
            rules.push(json!({"when": {"turn": turn + 2}, "reply": {"text": "next", "tool_calls": calls}}));
        }
        rules.push(json!({"reply": {"text": "all done"}}));
        // JSON is YAML.
        Value::from(rules).to_string()
    }

    /// The command with these arguments, as this world's user starts it.
    fn command(&self, launch: Launch, args: &[&str]) -> Command {
        let mut command = self.outer();
        command.args(["timeout", "-k", "5", HUNG_AFTER]);
        if let Some(through) = launch.through {
            command.args(["bash", "-c", through, "through"]);
        }
        command
            .arg(&self.program.path)
            .args(args)
            .current_dir(self.at("ws"))
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", self.at("home"))
            .env("POSSE_HOME", self.at("home/state"))
            .env("POSSE_LOG", "debug")
            .env("TOP", self.top.path())
            .env("TZ", "UTC")
            .envs(workspace_kind::given())
            .stdin(Stdio::null());
        for name in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "CANARY_SECRET", "SSH_AUTH_SOCK", "GH_TOKEN"] {
            command.env(name, &self.canary);
        }
        match (self.setting.user, self.setting.level) {
            (Some(user), Level::Namespaces) => drop(command.uid(user).gid(user)),
            (Some(user), Level::Landlock) => drop(command.env("AS", format!("--userspec={user}:{user}"))),
            (None, _) => {}
        }
        command
    }

    /// The command that starts a program at this world's level.
    fn outer(&self) -> Command {
        let mut command = match self.setting.level {
            Level::Namespaces => return Command::new("env"),
            Level::Landlock => Command::new("unshare"),
        };
        if rustix::process::geteuid().is_root() {
            command.args(["--mount", "--propagation", "private", "bash", "-c", WITHOUT_NAMESPACES]);
        } else {
            command.args(["--user", "--map-root-user", "bash", "-c", WITHOUT_NAMESPACES_AS_USER]);
        }
        command.arg(self.top.path());
        command
    }

    /// The output of `posse doctor` for this world's user.
    pub(crate) fn doctor(&self) -> String {
        let output = self.command(super::PLAIN, &["doctor"]).output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Executes these cases with the real binary, and checks everything afterwards.
    pub(crate) fn run(&self, cases: Vec<Case>, launch: Launch) -> Report {
        let mut report = Report::default();
        let (cases, without): (Vec<Case>, Vec<Case>) = cases.into_iter().partition(oracle::can);
        report.skipped =
            without.iter().map(|case| format!("{} (no {})", case.name, case.needs.join(", "))).collect();
        let (cases, harmful): (Vec<Case>, Vec<Case>) =
            cases.into_iter().partition(|case| !landlock::is_harmful(self.setting, case));
        report.not_held.extend(harmful.iter().map(|case| format!("{} (not run)", case.name)));
        if cases.is_empty() {
            return report;
        }
        // Outside the checked directory, because it contains the canary.
        let aside = tempfile::Builder::new().suffix(".yaml").tempfile().expect("a file");
        fs::write(aside.path(), self.script(&cases)).expect("a script");
        fs::set_permissions(aside.path(), fs::Permissions::from_mode(0o644)).expect("open to all");
        let log = tempfile::tempfile().expect("a file");
        let model = format!("scripted/{}", aside.path().display());
        let run = ["run", "--json", "--max-turns", "none", "--model", &model];
        let args = [&run[..], launch.flags, &["do your worst"]].concat();
        let mut command = self.command(launch, &args);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(log.try_clone().expect("a file"))
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("standard output")).lines();
        let mut said = String::new();
        for line in lines.map_while(Result::ok) {
            self.hear(&cases, &line, &mut report);
            said.push_str(&line);
            said.push('\n');
        }
        let status = child.wait().expect("it has ended");
        let log = oracle::whole(log);
        if !status.success() || !said.contains("all done") {
            let why = String::from_utf8_lossy(&log);
            report.problems.push(format!(
                "the run ended with {status}: {} {}",
                oracle::tail(&said),
                oracle::tail(&why)
            ));
        }
        let unanswered = cases.iter().map(|case| case.name).filter(|name| !report.ran.contains(name));
        let unanswered: Vec<&str> = unanswered.collect();
        if !unanswered.is_empty() {
            report.problems.push(format!("no answer: {unanswered:?}"));
        }
        for (text, what) in [(said.as_bytes(), "events"), (&log, "log")] {
            if oracle::holds(text, self.canary.as_bytes()) {
                report.problems.push(format!("a secret is in the {what}"));
            }
        }
        self.hold_against_explain(launch, &said, &mut report);
        report.problems.extend(self.result(&said));
        report.problems.extend(self.problems());
        report
    }

    /// The problems with the run's changes to the folder.
    fn result(&self, said: &str) -> Vec<String> {
        let events: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let detail =
            |kind: &str| events.iter().find(|event| event["kind"] == kind).map(|event| &event["detail"]);
        let commit = |value: &Value| value["commit"].as_str().map(str::to_owned);
        let base = detail("run.started").and_then(|detail| commit(&detail["base"]));
        let result = detail("run.completed").and_then(|detail| commit(&detail["result"]));
        // Without a change there is no result.
        let (Some(base), Some(result)) = (base, result) else { return Vec::new() };
        let projects = fs::read_dir(self.state().join("projects")).into_iter().flatten().flatten();
        let repositories: Vec<PathBuf> = projects.map(|project| project.path().join("repo.git")).collect();
        assert_eq!(repositories.len(), 1, "one folder, one repository");
        oracle::result(&repositories[0], &base, &result, &self.canary)
    }

    /// The state directory of this world.
    fn state(&self) -> PathBuf {
        let inside = self.at("ws/deep/er/state");
        if inside.exists() { inside } else { self.at("home/state") }
    }

    /// Compares the decisions of the run with the output of `explain`.
    fn hold_against_explain(&self, launch: Launch, said: &str, report: &mut Report) {
        let events = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        for event in events.filter(|event| event["kind"] == "agent.permission_decided") {
            let detail = &event["detail"];
            let (agent, operation) = (event["agent_id"].as_str(), detail["operation"].as_str());
            let (Some(agent), Some(operation)) = (agent, operation) else { continue };
            // No argument of a program is longer.
            if operation.len() > 100_000 || operation.contains('\0') {
                continue;
            }
            let output =
                self.command(launch, &["explain", "--json", agent, operation]).output().expect("it runs");
            let explained: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let same = ["decision", "layer", "rule"].iter().all(|field| explained[field] == detail[field]);
            if !same {
                report.problems.push(format!("{operation}: decided {detail}, explained {explained}"));
            }
            report.explained += 1;
        }
    }

    /// Checks one event while the run continues.
    fn hear(&self, cases: &[Case], line: &str, report: &mut Report) {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            return report.problems.push(format!("not an event: {line}"));
        };
        if event["kind"] != "agent.tool_finished" {
            return;
        }
        let answer = &event["detail"];
        if answer["call_id"] == FURNISH {
            let shown_at = match self.setting.level {
                Level::Namespaces => SHOWN_AT.to_owned(),
                Level::Landlock => self.state().join("runs").display().to_string(),
            };
            let furnished = answer["output"].as_str().is_some_and(|text| text.contains(&shown_at));
            return report.problems.extend((!furnished).then(|| format!("not furnished: {answer}")));
        }
        let Some(case) = cases.iter().find(|case| answer["call_id"] == case.call_id()) else {
            return report.problems.push(format!("an answer to nobody: {answer}"));
        };
        report.ran.push(case.name);
        let judged = case.judge(answer);
        if judged.is_some() && landlock::lacks(self.setting, case).is_some() {
            report.not_held.push(case.name.to_owned());
        } else {
            report.problems.extend(judged);
        }
        // What the runtime needs beyond a command's own limit: two seconds for it to end by itself, and some reserve on
        // a busy machine.
        let elapsed = answer["elapsed_ms"].as_u64().unwrap_or_default();
        if elapsed > case.timeout_ms() + 6_000 {
            report.problems.push(format!("{}: took {elapsed} ms", case.name));
        }
        let alive = oracle::alive(&format!("{}.{}.", self.tag, case.name));
        if !alive.is_empty() {
            report.problems.push(format!("{}: is still alive: {alive:?}", case.name));
        }
    }

    /// Everything that happened but must not.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = self.before.changes(&Snapshot::of(self.top.path()));
        problems.extend(oracle::state(&self.state(), &self.tag));
        problems.extend(oracle::scattered(&self.tag));
        problems.extend(self.listeners.problems());
        problems.extend(self.victim.problems());
        let alive = oracle::alive(&self.tag);
        if !alive.is_empty() {
            problems.push(format!("processes are left: {alive:?}"));
        }
        for place in [self.at("ws"), self.state()] {
            problems.extend(oracle::leaks(&place, &self.canary));
        }
        problems
    }
}

/// Creates what there is to steal and to break.
fn furnish(top: &Path, canary: &str, level: Level, launch: Launch) {
    let put = |name: &str, text: &str| {
        let path = top.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    for secret in SECRETS {
        put(&format!("home/{secret}"), &format!("{canary} {secret}\n"));
    }
    put(
        "home/.config/posse/settings.yaml",
        &format!(
            "# {canary} is not for agents\non_ask: deny\nsandbox: {{{}level: {}}}\n",
            launch.sandbox,
            if level == Level::Landlock { "landlock" } else { "namespaces" }
        ),
    );
    if level == Level::Landlock {
        fs::create_dir(top.join("root")).expect("a folder");
    }
    put("home/.config/git/config", "[user]\nname = Somebody\n");
    put("home/.bashrc", "# mine\n");
    put("home/.gitconfig", "[user]\nname = Somebody\n");
    put("home/project/notes.txt", canary);
    put("sibling/secret.txt", canary);
    put("sibling/workflows/ci.yml", "on: push\n");
    put("sibling/config.toml", "[build]\n");
    put("ws-evil/secret.txt", canary);
    put("parent.txt", canary);
    put("victim.log", "");
    put("ws/README.md", "hello\n");
    put("ws/.gitignore", "/sparse\n/big\n");
    put("ws/src/main.rs", "fn main() {}\n");
    put("ws/swap/f.txt", "inside\n");
    for (name, text) in oracle::PRESENT {
        put(&format!("ws/{name}"), text);
    }
    // They lead outside wherever the workspace is.
    for (link, to) in [
        ("ws/out", "sibling"),
        ("ws/out-file", "sibling/secret.txt"),
        ("ws/key", "home/.ssh/id_ed25519"),
        ("ws/dangling", "made-by-link"),
        ("ws/swap-link", "sibling"),
    ] {
        symlink(top.join(to), top.join(link)).expect("a link");
    }
    for (link, to) in [
        ("ws/near", "../sibling"),
        ("ws/zero", "/dev/zero"),
        ("ws/loop", "loop"),
        ("ws/g", ".git"),
        ("ws/.claude", "docs"),
    ] {
        symlink(to, top.join(link)).expect("a link");
    }
    put("ws/docs/guide.md", "guide\n");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        top.join("ws/pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("a pipe");
    fs::File::create(top.join("ws/sparse")).and_then(|file| file.set_len(10 << 30)).expect("a large file");
}
