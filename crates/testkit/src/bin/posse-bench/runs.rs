//! Verbs that look at all runs, with a state directory of many: runs of one root and two children each.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use futures::StreamExt;
use posse::Posse;
use posse_testkit::fanout;

use crate::Plan;
use crate::command::beside_this;
use crate::report::Report;

/// Runs under way at once while the directory is filled.
const PARALLEL: usize = 64;
/// Children of each run.
const CHILDREN: usize = 2;
/// Rounds of which the best counts: the machine's other work only ever adds.
const ROUNDS: usize = 3;
/// Most that a verb may take, in seconds.
const LIMIT_S: f64 = 1.0;

pub(crate) async fn measure(plan: &Plan, report: &mut Report) {
    // The group of the command says if there is none.
    let Some(posse) = beside_this() else { return };
    let runs = if plan.quick { 100 } else { 10_000 };
    let home = tempfile::tempdir_in(&plan.dir).expect("a directory");
    std::fs::write(home.path().join("hello.txt"), "hello\n").expect("a file");
    let last = fill(home.path(), runs).await;
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

/// Makes so many runs that have ended; gives one of them.
async fn fill(home: &Path, runs: usize) -> String {
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
    let made: Vec<String> = started.buffer_unordered(PARALLEL).collect().await;
    made.into_iter().next_back().unwrap_or_default()
}

/// How long the command takes in a process of its own.
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
