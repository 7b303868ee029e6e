//! A call ends when none of its processes is alive.

use std::fs;
use std::time::{Duration, Instant};

use posse_sandbox::{Exit, SandboxOptions};

use crate::{Bench, PATIENCE, pipe, until};

/// Ways to leave a process behind.
const LEFT_BEHIND: [&str; 9] = [
    "sleep 1000 &",
    "nohup sleep 1000 >/dev/null 2>&1 &",
    "setsid sleep 1000 &",
    "setsid -f sleep 1000 </dev/null >/dev/null 2>&1",
    "(sleep 1000 & disown) ; ( ( sleep 1000 & ) & )",
    "(trap '' TERM HUP INT QUIT; sleep 1000) &",
    "bash -c 'kill -STOP $$' & sleep 1000 &",
    "python3 -c 'import os,time\nif os.fork()==0:\n os.setsid()\n if os.fork()==0:\n  os.closerange(0,3)\n  time.sleep(1000)' &",
    "for i in 1 2 3 4 5 6 7 8; do (while :; do sleep 1000; done) & done",
];

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_behind() {
    let bench = Bench::new();
    for script in LEFT_BEHIND {
        let ended = bench.run(&format!("{script}\necho ran")).await;
        assert_eq!((ended.exit, ended.output.head.as_slice()), (Exit::Code(0), &b"ran\n"[..]), "{script}");
        assert_eq!(bench.alive(), Vec::<u32>::new(), "{script}");
    }
}

/// Starts a script that reports when it is up.
async fn up(bench: &Bench, script: &str) -> posse_sandbox::RunningCall {
    let turn = bench.sandbox.turn().await;
    let said = bench.path("up");
    if !said.exists() {
        pipe(&said);
    }
    let mut running = bench.sandbox.start(turn, bench.command(script)).expect("started");
    let (mut heard, release) =
        (tokio::task::spawn_blocking(move || fs::read(said).expect("up")), bench.path("up"));
    tokio::select! {
        _ = &mut heard => {}
        ended = running.ended() => {
            // The thread that reads the pipe would block forever.
            drop(fs::OpenOptions::new().read(true).write(true).open(release));
            panic!("it ended before it was up: {ended:?}");
        }
    }
    running
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_asked_to_end_can_tidy_up() {
    let bench = Bench::new();
    let mut running =
        up(&bench, "trap 'echo tidy > tidied; exit 3' TERM; echo > up; while :; do sleep 0.05; done").await;
    running.terminate();
    let ended = running.ended().await.expect("a result");
    assert_eq!(ended.exit, Exit::Code(3));
    assert_eq!(fs::read_to_string(bench.path("tidied")).expect("the file"), "tidy\n");
    assert_eq!(bench.alive(), Vec::<u32>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_does_not_listen_is_ended_after_a_while() {
    let bench = Bench::new();
    let deaf =
        "trap '' TERM INT HUP; (trap '' TERM; setsid sleep 1000) & echo > up; while :; do sleep 1; done";
    let mut running = up(&bench, deaf).await;
    running.terminate();
    assert_eq!(running.ended().await.expect("a result").exit, Exit::Signal(9));
    assert_eq!(bench.alive(), Vec::<u32>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_ends_all_of_it_at_once() {
    let bench = Bench::new();
    let mut running = up(&bench, "trap '' TERM; sleep 1000 & setsid sleep 1000 & echo > up; wait").await;
    let began = Instant::now();
    running.kill();
    assert_eq!(running.ended().await.expect("a result").exit, Exit::Signal(9));
    assert!(began.elapsed() < Duration::from_secs(2), "the grace is not for a kill");
    assert_eq!(bench.alive(), Vec::<u32>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_nobody_waits_for_ends() {
    let bench = Bench::new();
    drop(up(&bench, "sleep 1000 & echo > up; wait").await);
    until("nothing alive", PATIENCE, || bench.alive().is_empty());
    // Its permit is free again.
    assert_eq!(bench.say("echo fine").await, "fine");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_wait_for_their_turn() {
    let bench = Bench::with(SandboxOptions { concurrent: Some(1), ..SandboxOptions::default() });
    pipe(&bench.path("go"));
    let mut first = up(&bench, "echo > up; read -r x < go; echo first >> order").await;
    let second = bench.say("echo second >> order");
    tokio::pin!(second);
    // The second cannot even begin.
    assert!(done_soon(&mut second).await.is_none());
    assert!(!bench.path("order").exists());
    let go = bench.path("go");
    tokio::task::spawn_blocking(move || fs::write(go, "\n").expect("go")).await.expect("joined");
    first.ended().await.expect("a result");
    drop(first);
    second.await;
    assert_eq!(fs::read_to_string(bench.path("order")).expect("the file"), "first\nsecond\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_calls_as_cores_run_at_once_if_nobody_says() {
    let bench = Bench::new();
    let cores = std::thread::available_parallelism().expect("cores").get();
    let mut turns = Vec::new();
    for _ in 0..cores {
        turns.push(bench.sandbox.turn().await);
    }
    let next = bench.sandbox.turn();
    tokio::pin!(next);
    assert!(done_soon(&mut next).await.is_none());
    drop(turns.pop());
    next.await;
}

/// Whether a future completes after other tasks had many chances to run.
async fn done_soon<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    for _ in 0..1_000 {
        tokio::select! {
            biased;
            done = &mut *future => return Some(done),
            () = tokio::task::yield_now() => {}
        }
    }
    None
}

/// Only a user of the machine can kill an init: the next call gets a new one.
#[tokio::test(flavor = "multi_thread")]
async fn an_init_that_was_killed_is_replaced() {
    let bench = Bench::new();
    assert_eq!(bench.say("echo one").await, "one");
    for pid in children() {
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a process");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
    }
    until("it is dead", PATIENCE, || zombies() > 0);
    assert_eq!(bench.say("echo two").await, "two");
    // An init that is killed while it serves a call ends the call.
    let mut running = up(&bench, "echo > up; sleep 1000 & wait").await;
    for pid in children() {
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a process");
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    let error = running.ended().await.expect_err("no result");
    assert_eq!(error.to_string(), "the sandbox ended before the program did");
    until("nothing alive", PATIENCE, || bench.alive().is_empty());
    assert_eq!(bench.say("echo three").await, "three");
}

/// A program that locks the workspace does not block the next call.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_on_the_workspace_holds_nobody_up() {
    let bench = Bench::with(SandboxOptions { concurrent: Some(2), ..SandboxOptions::default() });
    let mut locking = up(&bench, "flock -x . bash -c 'echo > up; sleep 1000'").await;
    assert_eq!(bench.say("echo fine").await, "fine");
    locking.kill();
    locking.ended().await.expect("a result");
}

/// A thousand calls leave neither a zombie nor a descriptor.
/// How many calls are made.
const CALLS: u32 = if option_env!("POSSE_CAMPAIGNS").is_some() { 1_000 } else { 300 };

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_leave_nothing() {
    let bench = Bench::new();
    for _ in 0..10 {
        bench.run("true").await;
    }
    let descriptors = || fs::read_dir("/proc/self/fd").expect("descriptors").count();
    let before = descriptors();
    for number in 0..CALLS {
        let script = if number % 10 == 0 { "sleep 1000 & true & (true &)" } else { "true" };
        assert_eq!(bench.run(script).await.exit, Exit::Code(0));
    }
    assert!(descriptors() <= before, "{} and {before}", descriptors());
    assert_eq!(zombies(), 0);
    assert_eq!(bench.alive(), Vec::<u32>::new());
    drop(bench);
    assert_eq!(children(), Vec::<u32>::new(), "the inits go with the sandbox");
}

/// The children of this process, or of one of its threads.
fn children() -> Vec<u32> {
    let tasks = fs::read_dir("/proc/self/task").expect("threads").flatten();
    let of = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let all: String = tasks.map(of).collect::<Vec<_>>().join(" ");
    all.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

fn zombies() -> usize {
    let dead = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
            stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
        })
    };
    children().iter().filter(|pid| dead(pid)).count()
}

/// A death signal tied to the parent's *thread* would end the tool here: the thread that started the init is gone.
#[test]
fn a_tool_outlives_the_thread_that_started_it() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).thread_keep_alive(Duration::from_millis(1)).enable_all();
    let runtime = builder.build().expect("a runtime");
    let bench = Bench::new();
    let threads = || fs::read_dir("/proc/self/task").expect("threads").count();
    let before = threads();
    // An otherwise idle thread starts the init, and soon ends.
    runtime.block_on(bench.sandbox.level()).expect("a level");
    until("the thread is gone", PATIENCE, || threads() <= before);
    pipe(&bench.path("go"));
    let mut running = runtime.block_on(up(&bench, "echo > up; read -r x < go; exit 5"));
    assert_eq!(bench.alive().len(), 1);
    fs::write(bench.path("go"), "\n").expect("go");
    assert_eq!(runtime.block_on(running.ended()).expect("a result").exit, Exit::Code(5));
}
