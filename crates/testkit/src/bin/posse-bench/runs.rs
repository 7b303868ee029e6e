//! Measures verbs that read all runs, with a state directory of many runs. Each has one root and two children, and the
//! files that a run with changes leaves on disk.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use futures::StreamExt;
use posse::scripted::ScriptedModel;
use posse::{NewRun, Posse};
use posse_testkit::fanout;

use crate::Plan;
use crate::command::beside_this;
use crate::report::Report;

/// Concurrent runs while the directory is filled.
const PARALLEL: usize = 64;
const CHILDREN: usize = 2;
/// Number of rounds. The best counts, because other work of the machine only adds time.
const ROUNDS: usize = 3;
/// Time limit of a verb, in seconds.
const LIMIT_S: f64 = 1.0;

pub(crate) async fn measure(plan: &Plan, report: &mut Report) {
    // The command group reports if the command is not built.
    let Some(posse) = beside_this() else { return };
    let runs = if plan.quick { 100 } else { 10_000 };
    let home = tempfile::tempdir_in(&plan.dir).expect("a directory");
    fs::write(home.path().join("hello.txt"), "hello\n").expect("a file");
    let made = fill(home.path(), runs).await;
    let writer = write(home.path()).await;
    furnish(&home.path().join("state"), &writer, &made);
    let last = made.into_iter().next_back().unwrap_or_default();
    for args in [
        &["stats"][..],
        &["stats", "--json"],
        &["gc", "--dry-run"],
        &["ps"],
        &["ps", "--all"],
        &["show", &last],
        &["wait", &last],
        &["verify", &last],
    ] {
        let took = (0..ROUNDS).map(|_| once(&posse, home.path(), args)).min().unwrap_or_default();
        let verb =
            args.iter().map(|arg| if *arg == last { "RUN" } else { arg }).collect::<Vec<_>>().join(" ");
        report.at_most(format!("`posse {verb}` with {runs} runs"), took.as_secs_f64(), "s", LIMIT_S);
    }
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
async fn fill(home: &Path, runs: usize) -> Vec<String> {
    let posse = Posse::builder()
        .state_dir(home.join("state"))
        .model("mock/fanout", fanout::model(CHILDREN, Duration::ZERO))
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
    let mut command = Command::new(posse);
    command.env_clear().env("HOME", home).env("POSSE_HOME", home.join("state")).current_dir(home);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let began = Instant::now();
    let status = command.status().expect("the command starts");
    let took = began.elapsed();
    assert!(status.success(), "{args:?} ended with {status}");
    took
}
