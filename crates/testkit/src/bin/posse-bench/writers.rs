//! Measures children that each write one file of a large project and are merged in order, from the start of the run to
//! its end.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use posse::scripted::{FnModel, ScriptedAnswer, ScriptedCall};
use posse::{Budget, EventKind, NewRun, Posse, RunStatus};

use crate::Plan;
use crate::command::ms;
use crate::report::Report;

const WRITERS: usize = 100;
const WRITERS_QUICK: usize = 10;
/// Number of files in the projects.
const FILES: [usize; 2] = [10_000, 100_000];
const FILES_QUICK: [usize; 1] = [500];
const FILES_PER_DIR: usize = 20;
const DIRS_PER_DIR: usize = 50;
/// Number of runs on a project whose files are laid out. The best counts, because other work of the machine only adds
/// time.
const ROUNDS: usize = 3;
/// Limit of all writers of a run together.
const LIMIT_S: f64 = 2.0;
/// Limit of a workspace: how much longer a child's first write takes than its second.
const WORKSPACE_LIMIT_MS: f64 = 2.0;
/// Number of children whose writes are timed, one after the other. Their median counts.
const TIMED_WRITERS: usize = 21;
/// How much longer they may need in the large folder, which has to be read and checked once. More would mean that a writer
/// costs something for each file of the project.
const SLOWER_MAX: f64 = 1.5;

pub(crate) async fn measure(plan: &Plan, report: &mut Report) {
    let (sizes, writers) = if plan.quick { (&FILES_QUICK[..], WRITERS_QUICK) } else { (&FILES[..], WRITERS) };
    let mut merged = Vec::new();
    for &files in sizes {
        let home = tempfile::tempdir_in(&plan.dir).expect("a directory");
        let project = home.path().join("project");
        make_project(&project, files);
        let first = once(home.path(), &project, writers).await;
        report.plain(format!("{writers} writers, {files} files, first run"), first.all.as_secs_f64(), "s");
        let mut best = RunTimes { all: Duration::MAX, started: Duration::MAX };
        for _ in 0..ROUNDS {
            let now = once(home.path(), &project, writers).await;
            best = RunTimes { all: best.all.min(now.all), started: best.started.min(now.started) };
        }
        report.at_most(format!("{writers} writers, {files} files"), best.all.as_secs_f64(), "s", LIMIT_S);
        let name = format!("{writers} writers, {files} files, after the snapshot of the folder");
        report.plain(name, best.started.as_secs_f64(), "s");
        merged.push(best.started.as_secs_f64());
        let written = if plan.quick { 1 } else { TIMED_WRITERS };
        let times = write_times(home.path(), &project, written).await;
        let spawned = median(times.iter().map(|times| times.since_spawn));
        report.plain(format!("from spawn to first write in the journal, {files} files"), ms(spawned), "ms");
        let workspace = ms(median(times.iter().map(|times| times.first)))
            - ms(median(times.iter().map(|times| times.second)));
        let name = format!("a workspace: first write beyond the second, {files} files");
        report.at_most(name, workspace, "ms", WORKSPACE_LIMIT_MS);
    }
    if let [small, large] = merged[..] {
        let name = format!("{writers} writers after the snapshot, large folder beside small");
        report.at_most(name, large / small, "times", SLOWER_MAX);
    }
}

/// How long a run took.
struct RunTimes {
    all: Duration,
    /// Since it was started: since the user's folder was read.
    started: Duration,
}

async fn once(home: &Path, project: &Path, writers: usize) -> RunTimes {
    let posse = Posse::builder()
        .state_dir(home.join("state"))
        .model("mock/writers", model(writers))
        .open()
        .expect("a store");
    let new = NewRun::new("Write every part.").model("mock/writers").dir(project);
    let began = Instant::now();
    let run = posse.start(new.parallel(1_000_000).budget(Budget::NONE)).await.expect("a run");
    let started = Instant::now();
    run.ended().await.expect("the run ends");
    let took = RunTimes { all: began.elapsed(), started: started.elapsed() };
    let finished = posse.wait(run.id()).await.expect("an outcome");
    let files = finished.result.as_ref().map_or(0, |result| result.files);
    let failed: Vec<&str> = finished.failed.iter().map(|child| child.reason.as_str()).collect();
    assert_eq!((finished.status, files), (RunStatus::Completed, writers as u64), "{failed:?}");
    took
}

/// When the writes of a child were durable in the journal.
#[derive(Default)]
struct WriteTimes {
    /// From the child's creation to the result of its first write: two model calls' commits, the workspace and the write.
    since_spawn: Duration,
    /// From the intent of its first write to the result: the workspace is made in between.
    first: Duration,
    /// The same for its second write.
    second: Duration,
}

/// Runs children one after the other, each of which writes twice, and times them by the events as a subscriber receives them.
async fn write_times(home: &Path, project: &Path, writers: usize) -> Vec<WriteTimes> {
    let posse = Posse::builder()
        .state_dir(home.join("state"))
        .model("mock/writers", FnModel::new(move |request| one_after_the_other(request, writers)))
        .open()
        .expect("a store");
    let new = NewRun::new("Write every part.").model("mock/writers").dir(project).budget(Budget::NONE);
    let run = posse.start(new).await.expect("a run");
    let mut events = posse.events(run.id(), 0);
    let mut times: Vec<WriteTimes> = Vec::new();
    let (mut spawned, mut intended) = (Instant::now(), Instant::now());
    loop {
        let event = events.next().await.expect("an event");
        match event.kind {
            EventKind::SubagentCreated => {
                spawned = Instant::now();
                times.push(WriteTimes::default());
            }
            EventKind::ToolIntended if event.agent_id.depth() == 1 => intended = Instant::now(),
            EventKind::ToolFinished if event.agent_id.depth() == 1 => {
                let times = times.last_mut().expect("its child was created");
                if times.first.is_zero() {
                    (times.since_spawn, times.first) = (spawned.elapsed(), intended.elapsed());
                } else {
                    times.second = intended.elapsed();
                }
            }
            EventKind::RunCompleted => break,
            _ => {}
        }
    }
    assert!(times.len() == writers && times.iter().all(|times| !times.second.is_zero()));
    times
}

fn one_after_the_other(request: &posse::ports::ModelRequest, writers: usize) -> ScriptedAnswer {
    let turn = request.turn as usize;
    match request.depth {
        0 if turn <= writers => {
            let input = serde_json::json!({
                "subagent_type": "general", "description": "write", "prompt": "Write twice.",
                "owns": [format!("g0/timed-{turn}/**")],
            });
            ScriptedAnswer::text("Next.").call("task", input)
        }
        0 => ScriptedAnswer::text("All parts are written."),
        _ if turn <= 2 => {
            let number = request.agent.number().unwrap_or_default();
            let path = format!("g0/timed-{number}/{turn}.txt");
            ScriptedAnswer::text("Writing.")
                .call("write", serde_json::json!({"path": path, "content": "x\n"}))
        }
        _ => ScriptedAnswer::text("Written."),
    }
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort();
    times[times.len() / 2]
}

/// Each child writes the file that it owns, and reports.
fn model(writers: usize) -> FnModel<impl Fn(&posse::ports::ModelRequest) -> ScriptedAnswer> {
    let path = |number: usize| format!("g{}/d{number}/written.txt", number / DIRS_PER_DIR);
    let calls: Arc<[ScriptedCall]> = (1..=writers)
        .map(|number| {
            let input = serde_json::json!({
                "subagent_type": "general", "description": format!("write {number}"),
                "prompt": format!("Write part {number}."), "owns": [path(number)],
            });
            ScriptedCall::new("task", input)
        })
        .collect();
    FnModel::new(move |request| match (request.depth, request.turn) {
        (0, 1) => ScriptedAnswer::text("I will split this.").calls(calls.iter().cloned()),
        (1, 1) => {
            let number = request.agent.number().unwrap_or_default() as usize;
            let input = serde_json::json!({"path": path(number), "content": format!("part {number}\n")});
            ScriptedAnswer::text("Writing.").call("write", input)
        }
        (1, _) => ScriptedAnswer::text("Written."),
        _ => ScriptedAnswer::text("All parts are written."),
    })
}

fn make_project(dir: &Path, files: usize) {
    for number in 0..files {
        // Directories are in directories, as in projects of this size.
        let at = number / FILES_PER_DIR;
        let path = dir.join(format!("g{}/d{at}/f{}.txt", at / DIRS_PER_DIR, number % FILES_PER_DIR));
        std::fs::create_dir_all(path.parent().unwrap_or(dir)).expect("a directory");
        std::fs::write(path, format!("file {number}\n").repeat(40)).expect("a file");
    }
    for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "first"]] {
        let mut git = Command::new("git");
        // Git would pack the objects in the background, and disturb what is measured.
        let settings = ["-c", "user.name=T", "-c", "user.email=t@example.com", "-c", "gc.auto=0"];
        git.current_dir(dir).args(settings).args(args);
        assert!(git.status().expect("git starts").success(), "git {args:?}");
    }
}
