//! Inits and first processes are killed at any moment: no command that never ran counts as done, and no check as
//! passed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use posse_engine::ports::StopSignal;
use posse_sandbox::{Exit, InitBinary, RequiredIsolation, Sandbox, SandboxError, SandboxOptions};
use posse_workspace::{HostCommands, run_commands};
use rustix::process::{Pid, Signal, kill_process};

use crate::{Bench, PATIENCE, checks_in, init, overlays, pipe, tagged, until};

/// How many calls are hit at a random moment.
const ROUNDS: u32 = 40;
/// The latest moment, from the start of a call.
const SOON_MAX: Duration = Duration::from_millis(40);

/// The process that a kill hits.
#[derive(Debug, Clone, Copy)]
enum Victim {
    Init,
    First,
}

fn children_of(pid: u32) -> Vec<u32> {
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// All descendants of this process that are inits, started by any thread.
pub(crate) fn inits() -> Vec<u32> {
    let threads = fs::read_dir("/proc/self/task").expect("threads").flatten();
    let listed = threads.map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    listed
        .flat_map(|pids| pids.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

fn hit(victim: Victim) -> usize {
    let hit: Vec<u32> = match victim {
        Victim::Init => inits(),
        Victim::First => inits().into_iter().flat_map(children_of).collect(),
    };
    let pids = hit.iter().filter_map(|pid| Pid::from_raw(pid.cast_signed()));
    pids.filter(|pid| kill_process(*pid, Signal::KILL).is_ok()).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_init_or_first_process_is_killed_has_no_result() {
    for victim in [Victim::Init, Victim::First] {
        let bench = Bench::new();
        pipe(&bench.path("up"));
        let turn = bench.sandbox.turn().await;
        let running = bench.sandbox.start(turn, bench.command("echo > up; sleep 1000 & wait"));
        let mut running = running.expect("started");
        fs::read(bench.path("up")).expect("up");
        assert!(hit(victim) > 0, "{victim:?}");
        let lost = running.ended().await;
        match (victim, &lost) {
            (Victim::Init, Err(SandboxError::Lost)) | (Victim::First, Err(SandboxError::BroughtDown)) => {}
            _ => panic!("{victim:?}: {lost:?}"),
        }
        until("nothing alive", PATIENCE, || bench.alive().is_empty());
        assert_eq!(bench.say("echo again").await, "again");
    }
}

/// An init that is killed when it starts, this many times.
fn dying_init(dir: &Path, deaths: u32) -> InitBinary {
    let InitBinary::At(init) = init() else { panic!("a test names its init") };
    let script = dir.join("dying-init");
    let count = dir.join("deaths");
    fs::write(&count, "").expect("written");
    let text = format!(
        "#!/bin/sh\nif test $(/usr/bin/wc -c < {count}) -lt {deaths}; then printf x >> {count}; kill -9 $$; fi\n\
         exec {init} \"$@\"\n",
        count = count.display(),
        init = init.display(),
    );
    fs::write(&script, text).expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("executable");
    InitBinary::At(script)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_init_that_is_killed_while_it_proves_the_sandbox_weakens_none_and_fails_no_call() {
    let usual = Bench::new().sandbox.level().await.expect("a level");
    for (required, deaths) in [
        (RequiredIsolation::Namespaces, 2),
        (RequiredIsolation::Landlock, 1),
        (RequiredIsolation::Landlock, 2),
    ] {
        if required == RequiredIsolation::Namespaces && !usual.namespaces {
            continue;
        }
        let bench = Bench::new();
        let options = SandboxOptions {
            required,
            init: dying_init(bench.workspace.path(), deaths),
            ..SandboxOptions::default()
        };
        let sandbox = Sandbox::new(options);
        let turn = sandbox.turn().await;
        let ended = sandbox.start(turn, bench.command("true")).expect("started").ended().await;
        assert_eq!(ended.expect("a call with a result").exit, Exit::Code(0), "{required:?}, {deaths}");
        assert_eq!(sandbox.level().await, Ok(usual.clone()), "{required:?}, {deaths}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_init_that_is_killed_each_time_is_a_lost_call_and_says_nothing_about_the_machine() {
    // Three deaths are one proof. If the weaker sandbox were tried after it, that would succeed.
    for (required, deaths) in [
        (RequiredIsolation::Namespaces, u32::MAX),
        (RequiredIsolation::Landlock, u32::MAX),
        (RequiredIsolation::Landlock, 3),
    ] {
        let bench = Bench::new();
        let init = dying_init(bench.workspace.path(), deaths);
        let sandbox = Sandbox::new(SandboxOptions { required, init, ..SandboxOptions::default() });
        let turn = sandbox.turn().await;
        let ended = sandbox.start(turn, bench.command("true")).expect("started").ended().await;
        assert!(matches!(ended, Err(SandboxError::Lost)), "{required:?}, {deaths}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_counts_as_done_that_never_ran_whenever_it_is_hit() {
    let bench = Bench::new();
    bench.run("true").await;
    for round in 0..ROUNDS {
        let name = format!("ran-{round}");
        let turn = bench.sandbox.turn().await;
        let script = format!("echo done > {name}");
        let mut running = bench.sandbox.start(turn, bench.command(&script)).expect("started");
        let (began, delay) = (Instant::now(), SOON_MAX * round / ROUNDS);
        while began.elapsed() < delay {
            std::hint::spin_loop();
        }
        hit(if round % 2 == 0 { Victim::Init } else { Victim::First });
        if let Ok(ended) = running.ended().await {
            assert_eq!(ended.exit, Exit::Code(0), "round {round}");
            assert!(bench.path(&name).exists(), "round {round}: it is said to be done");
        }
        until("nothing alive", PATIENCE, || bench.alive().is_empty());
    }
}

fn request(top: &Path, script: &str) -> HostCommands {
    HostCommands {
        apart: Some(top.join("checks")),
        shown: vec![(top.join("shown"), PathBuf::from("/run/shown"))],
        ..checks_in(top.join("files"), &[script])
    }
}

/// A directory for checks, with a pipe on which each attempt reports that it runs.
fn checked() -> (tempfile::TempDir, Sandbox) {
    let top = tempfile::tempdir().expect("a directory");
    fs::create_dir_all(top.path().join("files")).expect("made");
    fs::create_dir_all(top.path().join("shown")).expect("made");
    let environment = tagged(&top.path().display().to_string());
    let options = SandboxOptions { init: init(), environment, ..SandboxOptions::default() };
    (top, Sandbox::new(options))
}

/// The init of a script that waits in its `sleep`. Processes of an attempt whose init was killed may still be there: they
/// are below no init of this process, and an init that has not started its script yet has no `sleep`.
fn waiting_script(tag: &str) -> Option<u32> {
    let inits = inits();
    let named = |pid: u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let sleeps = crate::alive(tag).into_iter().filter(|pid| named(*pid) == "sleep\n");
    let mut above = sleeps.filter_map(|pid| {
        let ancestors = std::iter::successors(Some(pid), |pid| parent_of(*pid));
        ancestors.into_iter().find(|pid| inits.contains(pid))
    });
    above.next()
}

fn parent_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_whose_init_is_killed_runs_again_and_one_that_is_killed_each_time_has_not_passed() {
    let (top, sandbox) = checked();
    if !overlays(top.path(), &sandbox).await {
        return;
    }
    // The script waits forever, unless the file `go` exists: then it passes.
    let script = "test -e /run/shown/go || { sleep 1000 & wait; }; echo passed";
    for go_after in [1, usize::MAX] {
        let _ = fs::remove_file(top.path().join("shown/go"));
        let (request, sandbox) = (request(top.path(), script), sandbox.clone());
        let checking =
            tokio::spawn(async move { run_commands(request, &sandbox, &StopSignal::never()).await });
        let tag = top.path().display().to_string();
        let mut hit = Vec::new();
        until("the check is over", PATIENCE, || {
            // Each attempt is hit once: its init, after the script has tested for `go`.
            let waiting = waiting_script(&tag).filter(|init| !hit.contains(init));
            if let Some(init) = waiting.filter(|_| hit.len() < go_after) {
                // The file `go` exists before the next attempt can test for it.
                if hit.len() + 1 >= go_after {
                    fs::write(top.path().join("shown/go"), "").expect("written");
                }
                kill_process(Pid::from_raw(init.cast_signed()).expect("an id"), Signal::KILL)
                    .expect("killed");
                hit.push(init);
            }
            checking.is_finished()
        });
        match (checking.await.expect("joined"), go_after) {
            (Ok(results), 1) => {
                assert_eq!(hit.len(), 1);
                assert!(results[0].ok() && results[0].output.contains("passed"), "{results:?}");
            }
            (Err(SandboxError::Lost), usize::MAX) => assert_eq!(hit.len(), 3, "it is not tried for ever"),
            (other, _) => panic!("{go_after}: {other:?}"),
        }
    }
}
