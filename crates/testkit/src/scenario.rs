//! The run that campaigns kill: one root, 22 children, and every feature of the engine at once.
//!
//! | child | what it is |
//! |---|---|
//! | 1 | background, never answers; the root cancels it |
//! | 2 | background, waits for a message; its own child never answers and is cancelled by it when the message comes |
//! | 3 | background reader |
//! | 4 | background, writes to the ledger twice |
//! | 5 to 9 | foreground readers |
//! | 10 to 13 | foreground writers; the first one's file is too long for the database, the second one's work is checked, the last two own different files and write at once |
//! | 14 to 16 | foreground, write to the ledger twice |
//! | 17 | fails once and is tried again |
//! | 18 | has two children of its own, one of which writes to the ledger |
//! | 19 | fails every time |
//! | 20 | foreground, runs commands that each leave a line in a file |
//! | 21 | the same in the background: its changes are merged, and it is reported once |
//! | 22 | continues the conversation of 5 |
//!
//! Two more children are refused. The root itself reads, writes, edits, keeps a list, writes to the ledger, sends a
//! message and requests its children's state. The folder is a repository. Every writer has a workspace, and its changes
//! are merged into the root's. Answers take a few milliseconds each, so that a kill can happen at any moment.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

/// Children of the root. All are created in every run.
pub const CHILDREN: u32 = 22;
/// Limit of agents in the whole tree: the root, its children, one below the second and two below the eighteenth.
pub const AGENTS: u64 = 1 + CHILDREN as u64 + 3;
/// Number of files in the workspace at the start.
pub const PARTS: u32 = 4;
/// Input and output tokens of every reply. They are equal, so that sums are easy to compute.
pub const TOKENS_PER_REPLY: (u64, u64) = (100, 10);
/// Latency of answers that never arrive in time.
const NEVER_MS: u64 = 90_000;
/// Number of slots in a crowded run.
const CROWDED_SLOTS: u32 = 4;
/// Makes the folder a repository with a commit.
const GIT: [&[&str]; 3] = [&["init", "-q", "-b", "main"], &["add", "-A"], &["commit", "-q", "-m", "first"]];
/// The children that run commands in the sandbox.
const COMMANDERS: [u32; 2] = [20, 21];
/// Number of commands of each of them, one per turn.
const COMMANDS: u32 = 3;
/// The directory in which a command leaves its line.
pub const RAN_DIR: &str = "ran/";
/// Length of the one file that the journal stores outside of the database.
const LONG_BYTES: usize = 300_000;

/// A scenario on disk: everything that a run of it needs, beneath one directory.
#[derive(Debug, Clone)]
pub struct Scenario {
    dir: PathBuf,
    state: PathBuf,
}

impl Scenario {
    pub fn create(dir: &Path) -> io::Result<Self> {
        Self::create_sharing(dir, &dir.join("state"))
    }

    /// Like [`create`](Self::create), with the journal in `state`, which several scenarios may share.
    pub fn create_sharing(dir: &Path, state: &Path) -> io::Result<Self> {
        let scenario = Self { dir: dir.to_owned(), state: state.to_owned() };
        fs::create_dir_all(scenario.workspace())?;
        for n in 0..PARTS {
            fs::write(scenario.workspace().join(part(n)), part_content(n))?;
        }
        for args in GIT {
            git(&scenario.workspace(), args)?;
        }
        fs::write(scenario.script(), serde_json::to_string_pretty(&rules())?)?;
        fs::write(scenario.agents(), serde_json::to_string_pretty(&definitions())?)?;
        Ok(scenario)
    }

    /// The state directory.
    pub fn state(&self) -> PathBuf {
        self.state.clone()
    }

    /// The user's folder: agents work on its content but never change it.
    pub fn workspace(&self) -> PathBuf {
        self.dir.join("workspace")
    }

    /// The ledger outside of Posse.
    pub fn ledger(&self) -> PathBuf {
        self.dir.join("ledger")
    }

    fn script(&self) -> PathBuf {
        self.dir.join("script.yaml")
    }

    fn agents(&self) -> PathBuf {
        self.dir.join("agents.json")
    }

    /// The arguments with which `posse` starts the run.
    pub fn run_args(&self) -> Vec<OsString> {
        let mut model = OsString::from("scripted/");
        model.push(self.script());
        let mut args: Vec<OsString> = ["run", "--json", "--agent", "boss", "--agents"].map(Into::into).into();
        args.push(self.agents().into());
        args.extend(["--dir".into(), self.workspace().into(), "--model".into(), model]);
        // The limit is never reached, but every call must reserve its part.
        args.extend(["--max-tokens".into(), "1000000000".into()]);
        args.push("Do everything at once.".into());
        args
    }

    /// The arguments with so few slots that most calls must wait for one. Calls that never answer hold two of them all
    /// the time.
    pub fn crowded_run_args(&self) -> Vec<OsString> {
        let mut args = self.run_args();
        args.extend(["--parallel".into(), CROWDED_SLOTS.to_string().into()]);
        args
    }

    /// The files in the folder before and after the run.
    pub fn folder_files() -> BTreeMap<String, String> {
        (0..PARTS).map(|n| (part(n), part_content(n))).collect()
    }

    /// The files that the agents' writes leave in the result, by path. A crash never changes them: an interrupted write
    /// is completed or repeated, never given up.
    pub fn expected_files() -> BTreeMap<String, String> {
        let mut files: BTreeMap<String, String> = (10..14)
            .map(|n| (written_by(n), format!("{}changed once\nchanged twice\n", first_content(n))))
            .collect();
        files.insert("notes.txt".to_owned(), "noted, and corrected\n".to_owned());
        files
    }

    /// The agents that fail in every run, by relative id.
    pub fn expected_failures() -> [&'static str; 3] {
        ["1", "19", "2.1"]
    }
}

fn definitions() -> Value {
    json!({
        "boss": {
            "description": "Does everything.", "prompt": "Do everything.",
            "tools": ["read", "list", "glob", "grep", "write", "edit", "bash", "todo", "ledger",
                "task", "task_status", "task_send", "task_cancel", "task_close"],
            "spawns": ["explore", "general", "clerk", "lead", "foreman"], "mode": "primary",
        },
        "clerk": {"description": "Keeps the ledger.", "prompt": "Keep the ledger.", "tools": ["ledger", "read"]},
        "lead": {"description": "Leads readers.", "prompt": "Lead.", "tools": ["read", "list", "glob", "grep"],
            "spawns": ["explore"]},
        "foreman": {"description": "Leads clerks.", "prompt": "Lead.",
            "tools": ["read", "list", "glob", "grep", "ledger"], "spawns": ["explore", "clerk"]},
    })
}

/// The name of a file that is in the workspace at the start.
pub fn part(n: u32) -> String {
    format!("part{n}.txt")
}

fn part_content(n: u32) -> String {
    format!("part {n}\nneedle {n}\n")
}

/// Runs git in the user's folder, without any settings of this machine.
fn git(folder: &Path, args: &[&str]) -> io::Result<()> {
    let output = Command::new("git")
        .current_dir(folder)
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
        .args(args)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("git {args:?}: {}", String::from_utf8_lossy(&output.stderr))))
}

fn written_by(n: u32) -> String {
    format!("out/{n}.txt")
}

/// Ends in a word that occurs only once, for the edit that follows.
fn first_content(n: u32) -> String {
    let filler = if n == 10 { "long ".repeat(LONG_BYTES / 5) } else { format!("written by {n} ") };
    format!("{filler}end\n")
}

fn call(name: &str, input: impl Into<Value>) -> Value {
    let input: Value = input.into();
    json!({"name": name, "input": input})
}

fn task(kind: &str, title: &str) -> Value {
    call("task", json!({"subagent_type": kind, "description": title, "prompt": format!("Please: {title}.")}))
}

fn writer(n: u32) -> Value {
    let mut task = task("general", "write a file");
    match n {
        11 => {
            let command = format!("grep -q 'changed twice' {}", written_by(n));
            task["input"]["success_criteria"] = json!([{"command": command}]);
        }
        12 | 13 => task["input"]["owns"] = json!([written_by(n)]),
        _ => {}
    }
    task
}

fn commander(n: u32) -> Value {
    let mut task = task("general", "run commands");
    task["input"]["owns"] = json!([ran_by(n)]);
    task
}

fn ran_by(n: u32) -> String {
    format!("{RAN_DIR}{n}.txt")
}

/// The line that a command leaves, if it leaves one.
pub fn line_of(command: &str) -> Option<&str> {
    command.strip_prefix("echo ")?.split(' ').next()
}

/// Each command leaves its own line, and takes a moment before and after, so that a kill can happen there.
fn commander_rules(n: u32) -> impl Iterator<Item = Value> {
    (1..=COMMANDS).map(move |turn| {
        let file = ran_by(n);
        let command =
            format!("echo {n}.{turn} | (sleep 0.01; mkdir -p {RAN_DIR}; cat >> {file}); sleep 0.01");
        rule(&n.to_string(), turn, 4, "Running.", &[call("bash", json!({"command": command}))])
    })
}

fn background(mut task: Value) -> Value {
    task["input"]["run_in_background"] = json!(true);
    task
}

fn read(n: u32) -> Value {
    call("read", json!({"path": part(n % PARTS)}))
}

fn ledger(delay_ms: u64) -> Value {
    call("ledger", json!({"delay_ms": delay_ms}))
}

/// A rule for one agent. A `turn` of 0 matches any turn.
fn rule(agent: &str, turn: u32, latency_ms: u64, text: &str, calls: &[Value]) -> Value {
    let (input, output) = TOKENS_PER_REPLY;
    let mut rule = json!({
        "when": {"agent": agent},
        "reply": {"text": text, "tool_calls": calls, "usage": {"input_tokens": input, "output_tokens": output}},
        "latency_ms": latency_ms,
    });
    if turn > 0 {
        rule["when"]["turn"] = json!(turn);
    }
    rule
}

fn failing(agent: &str, times: Option<u32>) -> Value {
    let mut rule = json!({
        "when": {"agent": agent},
        "error": {"status": 529, "message": "overloaded"},
        "latency_ms": 8,
    });
    if let Some(times) = times {
        rule["times"] = json!(times);
    }
    rule
}

fn rules() -> Value {
    let mut rules = vec![rule("0", 1, 5, "I will split this.", &first_calls())];
    rules.extend(later_root_rules());
    rules.extend(cancelled_rules());
    rules.push(rule("3", 1, 15, "Looking.", &[read(3), call("grep", json!({"pattern": "needle"}))]));
    for n in [4, 14, 15, 16] {
        let agent = n.to_string();
        rules.push(rule(&agent, 1, 4, "Writing.", &[ledger(6), ledger(6)]));
    }
    for n in 5..10 {
        let agent = n.to_string();
        let latency = u64::from(n) * 2 - 7;
        rules.push(rule(&agent, 1, latency, "Looking.", &[read(n), call("list", json!({"path": "."}))]));
        rules.push(rule(&agent, 2, latency, "And more.", &[call("glob", json!({"pattern": "*.txt"}))]));
    }
    rules.extend((10..14).flat_map(writer_rules));
    rules.push(failing("17", Some(1)));
    rules.push(rule("17", 1, 6, "Looking again.", &[read(1)]));
    rules.push(rule("18", 1, 5, "Splitting.", &[task("clerk", "keep it"), task("explore", "look below")]));
    rules.push(rule("18.1", 1, 4, "Writing.", &[ledger(8)]));
    rules.push(rule("18.2", 1, 12, "Looking.", &[read(2)]));
    rules.push(failing("19", None));
    rules.extend(COMMANDERS.into_iter().flat_map(commander_rules));
    rules.push(rule("22", 1, 6, "Once more.", &[read(0)]));
    rules.push(rule("*", 0, 5, "Done: all that was asked for.", &[]));
    Value::Array(rules)
}

fn first_calls() -> Vec<Value> {
    let mut calls = vec![
        call("todo", json!({"items": [{"text": "split it", "status": "in_progress"}]})),
        background(task("explore", "never answer")),
        background(task("lead", "wait for word")),
        background(task("explore", "look aside")),
        background(task("clerk", "keep it aside")),
        task("nobody", "be refused"),
        task("planner", "be refused too"),
    ];
    calls.extend((5..10).map(|_| task("explore", "look around")));
    calls.extend((10..14).map(writer));
    calls.extend((14..17).map(|_| task("clerk", "keep the ledger")));
    calls.extend([task("explore", "fail once"), task("foreman", "lead two"), task("explore", "fail always")]);
    calls.extend([commander(20), background(commander(21))]);
    calls.push(read(0));
    calls
}

fn later_root_rules() -> Vec<Value> {
    let mut again = task("explore", "look once more");
    again["input"]["task_id"] = json!("5");
    vec![
        rule(
            "0",
            2,
            5,
            "Going on.",
            &[
                call("task_status", json!({})),
                call("task_send", json!({"task_id": "2", "message": "You may go on now."})),
                call("task_cancel", json!({"task_id": "1", "reason": "not needed any more"})),
                ledger(4),
                call("write", json!({"path": "notes.txt", "content": "noted\n"})),
                again,
            ],
        ),
        rule(
            "0",
            3,
            5,
            "Correcting.",
            &[call(
                "edit",
                json!({"path": "notes.txt", "old_text": "noted", "new_text": "noted, and corrected"}),
            )],
        ),
    ]
}

/// The agents that are cancelled, and the agent that waits for a message to cancel its child.
fn cancelled_rules() -> Vec<Value> {
    let mut at_the_word = rule(
        "2",
        0,
        5,
        "Then it is not needed.",
        &[call("task_cancel", json!({"task_id": "2.1", "reason": "the word came"}))],
    );
    at_the_word["when"]["contains"] = json!("go on now");
    vec![
        rule("1", 0, NEVER_MS, "Too late.", &[]),
        rule("2.1", 0, NEVER_MS, "Too late.", &[]),
        at_the_word,
        rule("2", 1, 5, "I will need help.", &[background(task("explore", "never answer either"))]),
    ]
}

fn writer_rules(n: u32) -> [Value; 3] {
    let (agent, path) = (n.to_string(), written_by(n));
    let edit = |old: &str, new: &str| call("edit", json!({"path": path, "old_text": old, "new_text": new}));
    let look = call("read", json!({"path": path, "limit": 1}));
    [
        rule(&agent, 1, 4, "Writing.", &[call("write", json!({"path": path, "content": first_content(n)}))]),
        rule(&agent, 2, 4, "Changing.", &[edit("end\n", "end\nchanged once\n"), look]),
        rule(&agent, 3, 4, "Changing.", &[edit("changed once\n", "changed once\nchanged twice\n")]),
    ]
}
