//! The terminal, the view and the process that executes a run are killed in any order, also while the run is detached,
//! continued and retried: the journal is intact, and `resume` continues the run.

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Home, run_of};
use crate::tmux::Tmux;

const KEYS: &str = "? keys · d detach";
const FAILING: &str = "- error: {status: 400, message: broken}\n";
const ENDING: &str = "- reply: {text: Done.}\n";
const STUCK: &str = "- reply: {text: Done.}\n  latency_ms: 3600000\n";

/// What is killed.
#[derive(Debug, Clone, Copy)]
enum Victim {
    /// The terminal with everything in it.
    Terminal,
    /// The process that the shell waits for.
    First,
    /// The process that executes the run.
    Second,
}

const VICTIMS: [Victim; 3] = [Victim::Terminal, Victim::First, Victim::Second];

fn newest(home: &Home) -> serde_json::Value {
    home.posse(&["ps", "--json"]).json_lines().swap_remove(0)
}

fn parent_of(pid: i32) -> i32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:")).expect("a parent");
    line.trim().parse().expect("a number")
}

fn kill(pid: i32) {
    // It may have ended by itself meanwhile.
    let _ = kill_process(Pid::from_raw(pid).expect("a process"), Signal::KILL);
}

fn pid(run: &serde_json::Value) -> Option<i32> {
    run["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok())
}

/// Starts a command that shows a run whose model never replies, and returns that run.
fn start(home: &Home, tmux: &Tmux<'_>, verb: &str) -> serde_json::Value {
    let earlier = if verb == "retry" { FAILING } else { ENDING };
    home.write("script.yaml", earlier);
    let done = home.posse(&["run", "--json", "--model", "scripted/script.yaml", "look"]);
    let first = run_of(&done.result());
    home.write("script.yaml", STUCK);
    tmux.enters(&match verb {
        "run" => "clear; posse run --model scripted/script.yaml 'look again'".to_owned(),
        "continue" => format!("clear; posse continue {first} 'look again'"),
        _ => format!("clear; posse {verb} {first}"),
    });
    tmux.until_it("a run", |screen| screen.contains(KEYS) && screen.contains("turn 1"));
    let run = newest(home);
    assert_ne!(run["run"].as_str(), Some(first.as_str()), "a new run");
    run
}

/// Kills what executes the run, if something still does, and lets `resume` end it.
fn resumes(home: &Home, run: &str, case: &str) {
    if let Some(pid) = pid(&newest(home)) {
        kill(pid);
    }
    home.posse(&["wait", run]).exits(130);
    home.posse(&["verify", run]).exits(0);
    home.write("script.yaml", ENDING);
    let resumed = home.posse(&["resume", run]);
    assert_eq!(resumed.code, Some(0), "{case}: {resumed:?}");
    home.posse(&["verify", run]).exits(0);
}

#[test]
fn a_run_that_is_started_continued_or_retried_survives_any_kill() {
    for verb in ["run", "continue", "retry"] {
        for victim in VICTIMS {
            let home = Home::new();
            let tmux = Tmux::open(&home, 80, 24);
            let run = start(&home, &tmux, verb);
            let holder = pid(&run).expect("a process");
            match victim {
                Victim::Terminal => drop(tmux),
                Victim::First => kill(parent_of(holder)),
                Victim::Second => kill(holder),
            }
            resumes(&home, run["run"].as_str().expect("an id"), &format!("{verb}, {victim:?}"));
        }
    }
}

#[test]
fn a_run_survives_a_kill_while_it_is_detached() {
    for victim in VICTIMS {
        let home = Home::new();
        let tmux = Tmux::open(&home, 80, 24);
        let run = start(&home, &tmux, "run");
        let holder = pid(&run).expect("a process");
        let first = parent_of(holder);
        // Nothing is awaited: the kill comes before, within or after the detaching.
        tmux.types(&["d"]);
        match victim {
            Victim::Terminal => drop(tmux),
            Victim::First => kill(first),
            Victim::Second => kill(holder),
        }
        resumes(&home, run["run"].as_str().expect("an id"), &format!("detaching, {victim:?}"));
    }
}

#[test]
fn a_killed_view_of_a_detached_run_does_not_affect_it() {
    let home = Home::new();
    let tmux = Tmux::open(&home, 80, 24);
    let run = start(&home, &tmux, "run");
    let id = run["run"].as_str().expect("an id").to_owned();
    tmux.types(&["d"]);
    tmux.until("continues in the background");
    tmux.until_prompt();
    for verb in ["attach", "top"] {
        tmux.enters(&format!("clear; posse {verb} {id}"));
        tmux.until("? keys");
        let shell = tmux.value("#{pane_pid}");
        let children =
            std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).expect("children");
        let view = children.split_whitespace().last().and_then(|pid| pid.parse().ok()).expect("a view");
        kill(view);
        tmux.until("Killed");
        tmux.enters("reset");
        assert_eq!(newest(&home)["status"], "running", "{verb}");
    }
    drop(tmux);
    resumes(&home, &id, "detached");
}
