//! Measures verbs that read all runs, with a state directory of many runs. Each has one root and two children, and the
//! files that a run with changes leaves on disk.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use futures::StreamExt;
use posse::scripted::ScriptedModel;
use posse::{NewRun, Posse};
use posse_testkit::fanout;

use crate::Plan;
use crate::command::{beside_this, ms};
use crate::report::Report;

/// Concurrent runs while the directory is filled.
const PARALLEL: usize = 64;
const CHILDREN: usize = 2;
/// Number of rounds. The best counts, because other work of the machine only adds time.
const ROUNDS: usize = 3;
/// Time limit of a verb that reads all runs or a whole journal.
const LIMIT_MS: f64 = 1_000.0;
/// Time limits of verbs that people type again and again.
const VERSION_LIMIT_MS: f64 = 10.0;
const LOOK_LIMIT_MS: f64 = 100.0;
/// Time limit of a verb that finds a run interrupted, which it has to be sure of.
const INTERRUPTED_LIMIT_MS: f64 = 150.0;
/// Number of agents of the large run.
const WIDE: usize = 1_000;

pub(crate) async fn measure(plan: &Plan, report: &mut Report) {
    // The command group reports if the command is not built.
    let Some(posse) = beside_this() else { return };
    let runs = if plan.quick { 100 } else { 10_000 };
    let home = tempfile::tempdir_in(&plan.dir).expect("a directory");
    fs::write(home.path().join("hello.txt"), "hello\n").expect("a file");
    let made = fill(home.path(), runs, CHILDREN).await;
    let writer = write(home.path()).await;
    furnish(&home.path().join("state"), &writer, &made);
    let last = made.into_iter().next_back().unwrap_or_default();
    let agents = if plan.quick { 10 } else { WIDE };
    let wide = fill(home.path(), 1, agents - 1).await.remove(0);
    for (args, limit) in [
        (&["--version"][..], VERSION_LIMIT_MS),
        (&["stats"], LIMIT_MS),
        (&["stats", "--json"], LIMIT_MS),
        (&["gc", "--dry-run"], LIMIT_MS),
        (&["ps"], LOOK_LIMIT_MS),
        (&["ps", "--all"], LIMIT_MS),
        (&["show", &last], LOOK_LIMIT_MS),
        (&["show", &wide], LOOK_LIMIT_MS),
        (&["wait", &last], LIMIT_MS),
        (&["verify", &last], LIMIT_MS),
    ] {
        let took = (0..ROUNDS).map(|_| once(&posse, home.path(), args)).min().unwrap_or_default();
        let shown = |arg: &&str| match *arg {
            arg if arg == last => "RUN".to_owned(),
            arg if arg == wide => format!("RUN (of {agents} agents)"),
            arg => arg.to_owned(),
        };
        let verb = args.iter().map(shown).collect::<Vec<_>>().join(" ");
        report.at_most(format!("`posse {verb}` with {runs} runs"), ms(took), "ms", limit);
    }
    for verb in ["wait", "cancel"] {
        let times = (0..ROUNDS).map(|_| {
            let interrupted = interrupt(&posse, home.path());
            timed(&mut command(&posse, home.path(), &[verb, &interrupted])).1
        });
        let took = times.min().unwrap_or_default();
        report.at_most(format!("`posse {verb}` of an interrupted run"), ms(took), "ms", INTERRUPTED_LIMIT_MS);
    }
}

/// Starts a run in a process of its own, kills the process, and returns the run.
fn interrupt(posse: &Path, home: &Path) -> String {
    let script = home.join("slow.yaml");
    fs::write(&script, "- {reply: {text: late}, latency_ms: 600000}\n").expect("a script");
    let mut command = command(posse, home, &["run", "--json", "--model", "scripted/slow.yaml", "wait"]);
    let mut process = command.stdout(Stdio::piped()).spawn().expect("the command starts");
    let mut line = String::new();
    BufReader::new(process.stdout.take().expect("its output")).read_line(&mut line).expect("an event");
    process.kill().expect("killed");
    process.wait().expect("its end");
    let event: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    let agent = event["agent_id"].as_str().expect("the root agent");
    agent.to_owned()
}

/// Executes a run that changes a file, and returns its id.
async fn write(home: &Path) -> String {
    const SCRIPT: &str = "- {when: {turn: 1}, reply: {tool_calls: [{name: write, input: {path: b.txt, content: b}}]}}\n\
        - reply: {text: done}\n";
    let script = ScriptedModel::from_yaml(SCRIPT, "script.yaml").expect("a script");
    let posse = Posse::builder()
        .state_dir(home.join("state"))
        .model("scripted/writer", script)
        .open()
        .expect("a store");
    let run = posse.start(NewRun::new("write").model("scripted/writer").dir(home)).await.expect("a run");
    run.ended().await.expect("its end");
    run.id().to_string()
}

/// Gives every run the files that a run with changes leaves on disk: the record of its project, a workspace, and a ref
/// that keeps its work.
fn furnish(state: &Path, writer: &str, runs: &[String]) {
    let record = fs::read(state.join("runs").join(writer).join("project.json")).expect("a record");
    let projects: Vec<_> = fs::read_dir(state.join("projects")).expect("projects").flatten().collect();
    let salvages = projects[0].path().join("repo.git/refs/posse/salvage");
    let kept = fs::read(salvages.join(writer).join("1")).expect("salvaged work");
    for run in runs {
        let dir = state.join("runs").join(run);
        fs::create_dir_all(dir.join("workspaces").join(run).join("1/files")).expect("a workspace");
        fs::write(dir.join("project.json"), &record).expect("a record");
        fs::create_dir_all(salvages.join(run)).expect("a folder");
        fs::write(salvages.join(run).join("1"), &kept).expect("a ref");
    }
}

/// Executes this many runs to their end, and returns their ids.
pub(crate) async fn fill(home: &Path, runs: usize, children: usize) -> Vec<String> {
    let posse = Posse::builder()
        .state_dir(home.join("state"))
        .model("mock/fanout", fanout::model(children, Duration::ZERO))
        .open()
        .expect("a store");
    let lead = fanout::lead(&posse.tool_names());
    let started = futures::stream::iter(0..runs).map(|_| async {
        let new = fanout::run(home).definitions(lead.clone()).definition("lead");
        let run = posse.start(new).await.expect("a run");
        run.ended().await.expect("its end");
        run.id().to_string()
    });
    started.buffer_unordered(PARALLEL).collect().await
}

/// The duration of the command in its own process.
fn once(posse: &Path, home: &Path, args: &[&str]) -> Duration {
    let (status, took) = timed(&mut command(posse, home, args));
    assert!(status.success(), "{args:?} ended with {status}");
    took
}

fn timed(command: &mut Command) -> (ExitStatus, Duration) {
    let began = Instant::now();
    let status = command.status().expect("the command starts");
    (status, began.elapsed())
}

fn command(posse: &Path, home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(posse);
    // A home elsewhere: no run starts in a user's home.
    command
        .env_clear()
        .env("HOME", home.join("home"))
        .env("POSSE_HOME", home.join("state"))
        .current_dir(home);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}
