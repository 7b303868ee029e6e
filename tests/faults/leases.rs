//! The lease of a run: only the process that took the lease last writes.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use posse_testkit::check::AcknowledgedEvents;
use posse_testkit::dice::Dice;
use posse_testkit::ended_run::{EndedRun, no_locks};
use posse_testkit::process::{Launch, ProcessOutput, RunningProcess, last_words};
use posse_testkit::scenario::Scenario;
use posse_testkit::variables;
use posse_testkit::workspace_kind::changed_dir;
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;

use crate::home::{Home, PATIENCE, PROGRAM, count, events, hear_event, run_of};

/// A root whose child writes, and then waits for its second reply.
fn script(latency_ms: u32) -> String {
    format!(
        r#"
- when: {{agent: "0", turn: 1}}
  reply: {{tool_calls: [{{name: task, input: {{subagent_type: general, description: write it, prompt: write}}}}]}}
- when: {{agent: "1", turn: 1}}
  reply: {{tool_calls: [{{name: write, input: {{path: out.txt, content: "once\n"}}}}]}}
- when: {{agent: "1"}}
  reply: {{text: written}}
  latency_ms: {latency_ms}
- reply: {{text: all done}}
"#
    )
}

/// Longer than any story.
const FOR_EVER: u32 = 3_600_000;

/// A run whose child waits for its second reply.
fn stuck(home: &Home) -> (RunningProcess, String) {
    let running = home.start_run();
    hear_event(&running, ".1", "agent.tool_finished");
    let lines = hear_event(&running, ".1", "agent.model_called");
    let run = run_of(lines.last().unwrap());
    (running, run)
}

#[test]
fn of_many_that_resume_at_once_one_owns_the_run_and_the_others_say_who() {
    const ROUNDS: usize = 4;
    let home = Home::with_script(&script(FOR_EVER));
    let (running, run) = stuck(&home);
    running.kill().unwrap();
    for round in 1..=ROUNDS {
        let mut many: Vec<RunningProcess> = (0..4).map(|_| home.start(&["resume", "--json", &run])).collect();
        // Only the lease holder writes lines; the others end without one.
        let until = Instant::now() + PATIENCE;
        let owner = loop {
            let next = Instant::now() + Duration::from_millis(5);
            if let Some(at) =
                many.iter().position(|one| matches!(one.read_line(next), ProcessOutput::Line(_)))
            {
                break many.remove(at);
            }
            assert!(Instant::now() < until, "nobody owns the run");
        };
        for other in many {
            let (said, status) = other.finish().unwrap();
            assert_eq!((said, status.code()), (Vec::new(), Some(1)));
        }
        let words = last_words(&home.launch.errors());
        let named = format!("run {run} is already running (process {})\n", owner.id());
        assert_eq!(words.matches(&named).count(), 3, "{words}");
        std::fs::remove_file(home.launch.errors()).unwrap();
        owner.kill().unwrap();
        assert_eq!(count(&home.logs(&run), "run.resumed"), round);
    }
    home.write_script(&script(0));
    assert!(home.posse(&["resume", &run]).status.success());
    assert!(home.posse(&["verify", &run]).status.success());
}

#[test]
fn after_a_kill_the_next_owner_need_not_wait() {
    let home = Home::with_script(&script(FOR_EVER));
    let (running, run) = stuck(&home);
    running.kill().unwrap();
    home.write_script(&script(0));
    // The first attempt succeeds, although the dead holder's lease has most of its ten seconds left.
    let said = home.posse(&["resume", "--json", &run]);
    assert!(said.status.success(), "{said:?}");
    let resumed = events(said.out.lines());
    assert_eq!(resumed[0]["kind"], "run.resumed");
    let unowned_ms = resumed[0]["detail"]["unowned_ms"].as_u64().unwrap();
    assert!(unowned_ms < 10_000, "{unowned_ms} ms without an owner");
}

/// Stops a lease holder, but not while it holds the writers' lock or a project's: then all others would wait for it,
/// and not for its lease. Returns whether it is stopped; it may have ended.
fn stop(owner: &RunningProcess, state: &Path) -> bool {
    loop {
        if !owner.stop().unwrap() {
            return false;
        }
        let projects = std::fs::read_dir(state.join("projects")).into_iter().flatten().flatten();
        let locks = projects.flat_map(|project| {
            let of_refs = std::fs::read_dir(project.path().join("ref-locks")).into_iter().flatten().flatten();
            of_refs.map(|lock| lock.path()).chain([project.path().join("lock")]).collect::<Vec<PathBuf>>()
        });
        let locks = locks.filter(|lock| lock.exists());
        let all = ["writers.queue", "writers.lock"].map(|name| state.join(name));
        let free = all.into_iter().chain(locks).all(|lock| is_free(&lock));
        if free {
            return true;
        }
        owner.signal(Signal::CONT).unwrap();
    }
}

fn is_free(lock: &Path) -> bool {
    let file = File::open(lock).unwrap();
    flock(&file, FlockOperation::NonBlockingLockShared).is_ok()
}

/// Tries to resume until one process gets the run, and counts the refused ones.
fn take_over(launch: &Launch, run: &str) -> (RunningProcess, usize) {
    let until = Instant::now() + PATIENCE;
    let mut refused = 0;
    while Instant::now() < until {
        let running = launch.start(["resume", "--json", run]).unwrap();
        match running.read_line(until) {
            ProcessOutput::Line(_) => return (running, refused),
            ProcessOutput::End => {
                let (_, status) = running.finish().unwrap();
                assert_eq!(status.code(), Some(1), "{}", last_words(&launch.errors()));
                refused += 1;
            }
            ProcessOutput::Nothing => break,
        }
    }
    panic!("nobody is granted the run: {}", last_words(&launch.errors()));
}

#[test]
fn a_paused_owner_that_wakes_too_late_writes_nothing_more_and_says_why() {
    let mut home = Home::with_script(&script(FOR_EVER));
    home.launch = home.launch.with(variables::LEASE_MS, "3000");
    let (running, run) = stuck(&home);
    assert!(stop(&running, &home.path("state")));
    home.write_script(&script(0));
    let (successor, refused) = take_over(&home.launch, &run);
    assert!(refused > 0, "the lease of the paused owner was not waited for");
    let (_, status) = successor.finish().unwrap();
    assert!(status.success());
    let ended = home.logs(&run);
    running.signal(Signal::CONT).unwrap();
    let (_, status) = running.finish().unwrap();
    assert_eq!(status.code(), Some(1));
    let words = last_words(&home.launch.errors());
    assert!(words.contains(&format!("this process does not hold the lease of run {run}")), "{words}");
    assert_eq!(home.logs(&run), ended, "the stale owner wrote to the journal");
    assert!(home.posse(&["verify", &run]).status.success());
}

/// A stopped lease holder still has its programs: the process that takes over ends them before it continues.
#[test]
fn what_a_paused_owner_runs_is_ended_before_another_goes_on() {
    let script = r#"
- when: {turn: 1}
  reply:
    tool_calls: [{name: bash, input: {command: "echo up > up; while :; do date +%N > next; mv next tick; done"}}]
- when: {turn: 2}
  reply: {tool_calls: [{name: bash, input: {command: "cat tick; cat tick"}}]}
- reply: {text: all done}
"#;
    let mut home = Home::with_script(script);
    home.launch = home.launch.with(variables::LEASE_MS, "3000");
    std::fs::create_dir(home.path("project")).unwrap();
    let running =
        home.start(&["run", "--json", "--model", "scripted/script.yaml", "--dir", "project", "do it"]);
    let run = run_of(hear_event(&running, "", "agent.tool_intended").last().unwrap());
    let until = Instant::now() + PATIENCE;
    let workspace = home.path(&format!("state/runs/{run}/workspaces/{run}/1/{}", changed_dir()));
    while !workspace.join("tick").exists() {
        assert!(Instant::now() < until, "the command does not run");
        std::thread::yield_now();
    }
    assert!(stop(&running, &home.path("state")));
    let (successor, _) = take_over(&home.launch, &run);
    assert!(successor.finish().unwrap().1.success());
    let events = home.logs(&run);
    assert_eq!(count(&events, "agent.tool_interrupted"), 1);
    let ticks = events.iter().rev().find_map(|event| event["detail"]["output"].as_str()).unwrap();
    let ticks: Vec<&str> = ticks.lines().take(2).collect();
    assert_eq!(ticks[0], ticks[1], "nobody writes it any more");
    running.kill().unwrap();
}

/// How many lease holders are stopped.
const STOPPED: u64 = if option_env!("POSSE_CAMPAIGNS").is_some() { 8 } else { 4 };

/// Lease holders stopped at random moments: their successors and the journal agree, and no effect is doubled.
#[test]
fn owners_stopped_at_random_moments_are_fenced() {
    let mut fenced = 0;
    for part in 0..STOPPED {
        let dir = tempfile::tempdir().unwrap();
        let scenario = Scenario::create(dir.path()).unwrap();
        let launch = Launch::new(Path::new(PROGRAM), dir.path(), &scenario.state())
            .with(variables::LEDGER, scenario.ledger())
            .with(variables::LEASE_MS, "200");
        let owner = launch.start(scenario.run_args()).unwrap();
        let mut told = AcknowledgedEvents::default();
        let lines = 1 + Dice::of_part(0x5709, part).roll(200);
        for _ in 0..lines {
            hear_one(&owner, &mut told);
        }
        let run = told.run().unwrap();
        if stop(&owner, &scenario.state()) {
            let (successor, _) = take_over(&launch, run.as_str());
            owner.signal(Signal::CONT).unwrap();
            hear_out(owner, &mut told);
            hear_out(successor, &mut told);
            fenced += 1;
        } else {
            hear_out(owner, &mut told);
        }
        let aftermath = EndedRun { launch: &launch, scenario: &scenario, run: &run, told: &told };
        let mut findings = aftermath.examine().unwrap().findings;
        no_locks(&scenario.state(), &mut findings);
        assert_eq!(findings.into_breaches(), [], "part {part}: {}", last_words(&launch.errors()));
    }
    assert!(fenced > 0, "every run ended before its owner was stopped");
}

fn hear_one(running: &RunningProcess, told: &mut AcknowledgedEvents) {
    match running.read_line(Instant::now() + PATIENCE) {
        ProcessOutput::Line(line) => told.take(&line).unwrap(),
        heard => panic!("{heard:?} after {} events", told.len()),
    }
}

fn hear_out(running: RunningProcess, told: &mut AcknowledgedEvents) {
    for line in running.finish().unwrap().0 {
        told.take(&line).unwrap();
    }
}
