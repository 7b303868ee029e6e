//! Signals: the first Ctrl-C cancels, the second stops; SIGTERM and SIGHUP stop.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use rustix::time::Timespec;
use serde_json::json;

use crate::support::{Home, RunningCommand, run_of};

/// Far longer than a killed process takes to end.
const PATIENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

fn script(latency_ms: u32) -> String {
    format!(
        "- when: {{definition: coder, turn: 1}}\n  reply: {{tool_calls: [{{name: task, input: {{subagent_type: \
         explore, description: look, prompt: look}}}}]}}\n- reply: {{text: done}}\n  latency_ms: {latency_ms}\n"
    )
}

/// A run whose child waits forever.
fn stuck(home: &Home) -> (RunningCommand, String) {
    home.write("script.yaml", &script(3_600_000));
    let mut going = home.start(&["run", "--json", "--model", "scripted/script.yaml", "look"]);
    let event = going.until_event(".1", "agent.model_called");
    (going, run_of(&event))
}

#[test]
fn the_first_ctrl_c_cancels_and_says_so() {
    let home = Home::new();
    let (going, run) = stuck(&home);
    going.signal(Signal::INT);
    let done = going.finish().exits(3);
    assert!(done.stderr.starts_with("cancelling; press Ctrl-C again to stop at once"), "{}", done.stderr);
    let result = done.result();
    assert_eq!((&result["status"], &result["exit"]), (&json!("cancelled"), &json!(3)));
    home.posse(&["resume", &run]).exits(3);
    let show = home.posse(&["show", "--json", &run]).json();
    for agent in show["agents"].as_array().expect("agents") {
        assert_eq!((&agent["state"], &agent["close_reason"]), (&json!("closed"), &json!("cancelled")));
    }
}

#[test]
fn a_second_ctrl_c_stops_at_once_even_if_the_disk_hangs() {
    let home = Home::new();
    home.write("script.yaml", &script(3_600_000));
    let mut command = home.command(&["run", "--model", "scripted/script.yaml", "look"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("standard error"))
        .lines()
        .map(|line| line.expect("a line"));
    let started = lines.find(|line| line.ends_with(".1 started")).expect("a child");
    let run = &started[..8];
    // The holder of the writers' lock blocks all other writers, so the cancel cannot become durable.
    let lock = File::open(home.state_dir().join("writers.lock")).expect("the writers' lock");
    flock(&lock, FlockOperation::LockExclusive).expect("locked");
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::INT).expect("sent");
    let said = lines.next().expect("a line");
    assert!(said.starts_with("cancelling; press Ctrl-C again to stop at once"), "{said}");
    kill_process(pid, Signal::INT).expect("sent");
    let said = lines.next().expect("a line");
    let resumable =
        format!("stopped before the cancellation was recorded: `posse resume {run}` continues the run");
    assert!(said.starts_with(&resumable), "{said}");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    drop(lock);
    home.write("script.yaml", &script(0));
    home.posse(&["resume", run]).exits(0);
}

/// The git process that was started for a user.
fn helper_of(home: &Home) -> OwnedFd {
    let person = home.project().parent().expect("a home").to_str().expect("a path").to_owned();
    let processes = fs::read_dir("/proc").expect("listed").flatten().map(|process| process.path());
    let is_git = |path: &PathBuf| {
        let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        name == "git\n" && String::from_utf8_lossy(&environment).contains(&format!("HOME={person}\0"))
    };
    let found = processes.into_iter().find(is_git).expect("a git");
    let pid = found.file_name().and_then(|name| name.to_str()?.parse().ok()).and_then(Pid::from_raw);
    pidfd_open(pid.expect("a number"), PidfdFlags::empty()).expect("it runs")
}

#[test]
fn a_signal_ends_a_run_that_hangs_before_it_has_begun() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130)] {
        let home = Home::new();
        home.write("script.yaml", &script(0));
        home.write(".git/HEAD", "ref: refs/heads/main\n");
        // The user's own settings: git waits for this pipe until something writes to it.
        let settings = home.project().with_file_name(".gitconfig");
        assert!(Command::new("mkfifo").arg(&settings).status().expect("mkfifo runs").success());
        let going = home.start(&["run", "--model", "scripted/script.yaml", "look"]);
        // Returns once git has opened it.
        let writer = OpenOptions::new().write(true).open(&settings).expect("a reader");
        let git = helper_of(&home);
        going.signal(signal);
        going.finish().exits(code);
        let mut ended = [PollFd::new(&git, PollFlags::IN)];
        assert_eq!(poll(&mut ended, Some(&PATIENCE)), Ok(1), "git outlasts what started it");
        drop(writer);
    }
}

#[test]
fn sigterm_and_sighup_stop_at_once_and_leave_the_run_resumable() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let home = Home::new();
        let (going, run) = stuck(&home);
        going.signal(signal);
        let done = going.finish().exits(code);
        assert_eq!(done.stderr, format!("stopped; `posse resume {run}` continues the run\n"));
        let ps = home.posse(&["ps", "--json"]).json();
        assert_eq!(ps["status"], "interrupted");
        home.write("script.yaml", &script(0));
        assert_eq!(home.posse(&["resume", "--json", &run]).exits(0).result()["text"], "done");
        home.posse(&["verify", &run]).exits(0);
    }
}
