//! The live view in a real terminal multiplexer: what the screen and its history show, and what keys do.

use std::process::Command;

use crate::support::Home;
use crate::tmux::Tmux;

const STUCK_MS: u32 = 3_600_000;

/// A run with three children: one is done at once, one fails, and one takes this long.
fn script(latency_ms: u32) -> String {
    format!(
        r#"
- when: {{definition: coder, turn: 1}}
  reply:
    text: I split this.
    tool_calls:
      - {{name: task, input: {{subagent_type: explore, description: find it, prompt: find}}}}
      - {{name: task, input: {{subagent_type: explore, description: break it, prompt: break}}}}
      - {{name: task, input: {{subagent_type: general, description: change it, prompt: change}}}}
    usage: {{input_tokens: 1200, output_tokens: 80}}
- when: {{definition: explore, contains: break}}
  error: {{status: 400, message: broken}}
- when: {{definition: general}}
  reply: {{text: Changed., usage: {{input_tokens: 700, output_tokens: 20}}}}
  latency_ms: {latency_ms}
- reply: {{text: "Done.\n\nNothing is left to do.", usage: {{input_tokens: 700, output_tokens: 20}}}}
"#
    )
}

const RUN: &str = "clear; posse run --model scripted/script.yaml 'Find it and change it'";
const KEYS: &str = "? keys · d detach";

fn home(latency_ms: u32) -> Home {
    let home = Home::new();
    home.write("script.yaml", &script(latency_ms));
    home
}

fn last_run(home: &Home) -> String {
    home.posse(&["ps", "--json"]).json_lines()[0]["run"].as_str().expect("an id").to_owned()
}

/// Waits until only the child that takes long is at work.
fn until_stuck(tmux: &Tmux<'_>) -> String {
    tmux.until_it("one child at work", |screen| screen.contains("waits for 1 child") && screen.contains(KEYS))
}

#[test]
fn the_end_of_a_run_is_readable_at_every_width_and_nothing_floods_the_history() {
    for columns in [60, 80, 120] {
        let home = home(300);
        let tmux = Tmux::open(&home, columns, 24);
        tmux.enters(RUN);
        tmux.until("Nothing is left to do.");
        let screen = tmux.until_prompt();
        assert_eq!(tmux.value("#{history_size}"), "0", "{screen}");
        assert_eq!(tmux.value("#{cursor_flag}"), "1", "the cursor is shown again");
        let run = last_run(&home);
        // The order of those that end at the same time is not fixed.
        assert!(screen.contains("✓ 1 explore"), "{screen}");
        let tree = screen[screen.find(&format!("✓ {run}")).expect("a tree")..].to_owned();
        // Where the totals are cut depends on how the time is written.
        let lines = tree.lines().map(|line| match line.strip_suffix('…') {
            Some(cut) => format!("{} · …", cut.rsplit_once(" · ").expect("totals").0),
            None => line.to_owned(),
        });
        let tree = lines.collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!(format!("end_at_{columns}_columns"), home.redact(&tree, &run));
    }
}

#[test]
fn a_tree_that_fills_a_small_terminal_does_not_scroll() {
    let home = home(500);
    let tmux = Tmux::open(&home, 60, 5);
    tmux.enters(RUN);
    tmux.until_prompt();
    let history = tmux.history();
    assert!(tmux.value("#{history_size}").parse::<u32>().expect("a number") < 12, "{history}");
    assert_eq!(history.matches("✓ 1 explore").count(), 1, "{history}");
}

#[test]
fn a_narrower_window_leaves_no_rubbish() {
    let home = home(STUCK_MS);
    let tmux = Tmux::open(&home, 100, 24);
    tmux.enters(RUN);
    until_stuck(&tmux);
    for columns in ["50", "70", "40"] {
        tmux.run(&["resize-window", "-x", columns]);
        // A row that is cut at the new width was drawn with it.
        let width: usize = columns.parse().expect("a number");
        let is_drawn = |screen: &str| {
            let totals = screen.lines().find(|line| line.contains(" · $0.00"));
            totals.is_some_and(|line| line.chars().count() == width - 1 && line.ends_with('…'))
        };
        let screen = tmux.until_it("the tree at its new width", is_drawn);
        for once in ["coder", "change it\u{20}", "$0.00", KEYS] {
            let count = screen.matches(once).count();
            assert!(count <= 1, "{columns}: {once} {count} times\n{screen}");
        }
    }
    tmux.types(&["C-c"]);
    tmux.until("c cancel the run");
    tmux.types(&["c"]);
    tmux.until_prompt();
}

#[test]
fn what_is_typed_into_the_tree_stays_there() {
    let home = home(STUCK_MS);
    let tmux = Tmux::open(&home, 80, 24);
    tmux.enters(RUN);
    let before = until_stuck(&tmux);
    tmux.types(&["Enter", "Enter", "x", "e", "c", "n"]);
    tmux.types(&["Down"]);
    let after = tmux.until(KEYS);
    assert_eq!(before.lines().count(), after.lines().count(), "{after}");
    tmux.types(&["C", "y"]);
    let screen = tmux.until_prompt();
    assert!(screen.contains("cancelled") && !screen.contains("command not found"), "{screen}");
    tmux.enters("echo code=$?");
    tmux.until("code=3");
}

#[test]
fn a_suspended_view_starts_below_what_was_written_meanwhile() {
    let home = home(STUCK_MS);
    let tmux = Tmux::open(&home, 80, 30);
    tmux.enters(RUN);
    until_stuck(&tmux);
    tmux.types(&["C-z"]);
    tmux.until("Stopped");
    tmux.until_prompt();
    assert_eq!(tmux.value("#{cursor_flag}"), "1");
    tmux.enters("echo in between");
    tmux.until("\nin between");
    tmux.enters("fg");
    let screen = tmux.until_it("a second tree", |screen| screen.matches(KEYS).count() == 2);
    let at = |text: &str| screen.find(text).expect("shown");
    assert!(at("in between") < screen.rfind("waits for 1 child").expect("shown"), "{screen}");
    assert_eq!(tmux.value("#{cursor_flag}"), "0", "it is hidden while the tree is drawn");
    tmux.types(&["C-c"]);
    tmux.until("c cancel the run");
    tmux.types(&["C-c"]);
    tmux.until("cancelled");
    tmux.until_prompt();
}

#[test]
fn a_stopped_terminal_does_not_slow_the_run() {
    let home = home(2_000);
    let tmux = Tmux::open(&home, 80, 24);
    tmux.enters(RUN);
    until_stuck(&tmux);
    tmux.types(&["C-s"]);
    let run = last_run(&home);
    home.posse(&["wait", &run]).exits(0);
    let screen = tmux.screen();
    assert!(!screen.contains("Nothing is left to do."), "{screen}");
    tmux.types(&["C-q"]);
    tmux.until("Nothing is left to do.");
    tmux.until_prompt();
}

#[test]
fn a_detached_run_continues_and_can_be_watched_from_elsewhere() {
    let home = home(STUCK_MS);
    let tmux = Tmux::open(&home, 80, 24);
    tmux.enters(RUN);
    until_stuck(&tmux);
    let run = last_run(&home);
    let calls = |home: &Home| {
        let events = home.posse(&["logs", "--json", &run]).json_lines();
        events.iter().filter(|event| event["kind"] == "agent.model_called").count()
    };
    let before = calls(&home);
    tmux.types(&["d"]);
    tmux.until(&format!("run {run} continues in the background"));
    tmux.until_prompt();
    tmux.enters("echo code=$?");
    tmux.until("code=0");
    let ps = home.posse(&["ps", "--json"]).json();
    assert_eq!(ps["status"], "running");
    tmux.enters(&format!("clear; posse attach {run}"));
    until_stuck(&tmux);
    tmux.types(&["d"]);
    tmux.until(&format!("run {run} continues; "));
    tmux.until_prompt();
    assert_eq!(calls(&home), before, "no call was interrupted or repeated");
    tmux.enters(&format!("clear; posse attach {run}"));
    until_stuck(&tmux);
    tmux.types(&["C-c"]);
    tmux.until("c cancel the run");
    tmux.types(&["C-c"]);
    tmux.until(&format!("run {run} cancelled"));
    tmux.until_prompt();
    tmux.enters("echo code=$?");
    tmux.until("code=3");
    home.posse(&["verify", &run]).exits(0);
}

#[test]
fn the_third_ctrl_c_stops_and_leaves_the_run_resumable() {
    let home = home(STUCK_MS);
    let tmux = Tmux::open(&home, 80, 24);
    tmux.enters(RUN);
    until_stuck(&tmux);
    let run = last_run(&home);
    // The holder of the writers' lock blocks all other writers, so the cancel cannot become durable.
    let lock = std::fs::File::open(home.state_dir().join("writers.lock")).expect("the writers' lock");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("locked");
    tmux.types(&["C-c"]);
    tmux.until("c cancel the run");
    tmux.types(&["C-c"]);
    tmux.until("cancelling");
    tmux.types(&["C-c"]);
    tmux.until(&format!("before the cancellation was recorded: `posse resume {run}`"));
    tmux.until_prompt();
    tmux.enters("echo code=$?");
    tmux.until("code=130");
    drop(lock);
    home.write("script.yaml", &script(0));
    home.posse(&["resume", &run]).exits(0);
}

#[test]
fn three_ctrl_c_in_one_burst_are_three() {
    let home = home(STUCK_MS);
    let tmux = Tmux::open(&home, 80, 24);
    tmux.enters(RUN);
    until_stuck(&tmux);
    let run = last_run(&home);
    // The kernel merges three signals that arrive at once, but not three keys.
    tmux.types(&["C-c", "C-c", "C-c"]);
    tmux.until(&format!("`posse resume {run}`"));
    tmux.until_prompt();
    tmux.enters("echo code=$?");
    tmux.until("code=130");
    home.write("script.yaml", &script(0));
    // The cancellation was recorded before the process stopped, or was not.
    let resumed = home.posse(&["resume", &run]);
    assert!(matches!(resumed.code, Some(0 | 3)), "{resumed:?}");
    home.posse(&["verify", &run]).exits(0);
}

#[test]
fn a_killed_process_leaves_a_usable_terminal_and_the_run_resumable() {
    for first in [true, false] {
        let home = home(STUCK_MS);
        let tmux = Tmux::open(&home, 80, 24);
        tmux.enters(RUN);
        until_stuck(&tmux);
        let run = last_run(&home);
        let holder = home.posse(&["ps", "--json"]).json()["pid"].as_i64().expect("a process");
        let holder = i32::try_from(holder).expect("a process");
        let pid = if first { parent_of(holder) } else { holder };
        let pid = rustix::process::Pid::from_raw(pid).expect("a process");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
        if first {
            // The process that executes the run notices it after the shell is back, and its last words may be drawn over
            // the shell's prompt.
            tmux.until("continues the run");
        } else {
            tmux.until_it("a prompt", |screen| {
                screen.lines().rev().take(3).any(|line| line.starts_with('$'))
            });
        }
        tmux.types(&["Enter"]);
        tmux.enters("echo typed-and-seen");
        tmux.until_it("its echo and its output", |screen| screen.matches("typed-and-seen").count() == 2);
        assert_eq!(tmux.value("#{cursor_flag}"), "1");
        home.posse(&["wait", &run]).exits(130);
        home.write("script.yaml", &script(0));
        home.posse(&["resume", &run]).exits(0);
        home.posse(&["verify", &run]).exits(0);
    }
}

fn parent_of(pid: i32) -> i32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:")).expect("a parent");
    line.trim().parse().expect("a number")
}

#[test]
fn a_message_reaches_the_selected_agent() {
    let home = home(STUCK_MS);
    let tmux = Tmux::open(&home, 80, 24);
    tmux.enters(RUN);
    until_stuck(&tmux);
    let run = last_run(&home);
    tmux.types(&["m"]);
    tmux.until(&format!("message to {run}"));
    tmux.types(&["look at the tests too", "Enter"]);
    tmux.until(&format!("sent to {run}"));
    let mut logs = home.start(&["logs", "-f", "--json", &run]);
    let event = logs.until_event("", "agent.message_received");
    assert!(event["detail"].to_string().contains("look at the tests too"), "{event}");
    drop(logs);
    tmux.types(&["C", "y"]);
    tmux.until("cancelled");
    tmux.until_prompt();
}

#[test]
fn notes_are_shown_once_in_full_above_the_tree() {
    let home = home(0);
    let nested = "inner/nested";
    home.write(&format!("{nested}/file.txt"), "x");
    for dir in [home.project(), home.project().join(nested)] {
        let git = Command::new("git").args(["init", "--quiet"]).current_dir(dir).status();
        assert!(git.expect("git runs").success());
    }
    let tmux = Tmux::open(&home, 60, 30);
    tmux.enters(RUN);
    let screen = tmux.until("Nothing is left to do.");
    let joined = screen.lines().collect::<Vec<_>>().join(" ");
    assert_eq!(joined.matches("note: ").count(), 1, "{screen}");
    let piped = home.posse(&["run", "--model", "scripted/script.yaml", "x"]).exits(0).stderr;
    let note = piped.lines().find(|line| line.starts_with("note: ")).expect("a note");
    assert!(joined.contains(note), "{note}\n{screen}");
    assert!(screen.find("note: ") < screen.find("coder"), "{screen}");
}

#[test]
fn a_question_can_be_put_off_and_answered_later() {
    let home = Home::new();
    home.write(
        "script.yaml",
        "- when: {turn: 1}\n  reply: {tool_calls: [{name: write, input: {path: made.txt, content: x}}]}\n- reply: {text: \
         all done}\n",
    );
    let tmux = Tmux::open(&home, 80, 24);
    tmux.enters("clear; posse run --ask write --model scripted/script.yaml 'Make it'");
    tmux.until("[Enter = deny]:");
    tmux.types(&["C-c"]);
    tmux.until("c cancel the run");
    tmux.types(&["k"]);
    let screen = tmux.until_it("the tree with its keys", |screen| screen.ends_with("Ctrl-C cancel"));
    assert!(screen.contains("needs your approval: write:"), "{screen}");
    tmux.types(&["a"]);
    tmux.until_it("the question again", |screen| screen.ends_with("[Enter = deny]:"));
    tmux.types(&["o", "Enter"]);
    tmux.until("all done");
    tmux.until_prompt();
    assert!(home.made(&last_run(&home), "made.txt"));
}

#[test]
fn an_interrupted_run_cannot_be_watched_and_an_ended_one_is_shown() {
    let home = home(STUCK_MS);
    let mut going = home.start(&["run", "--json", "--model", "scripted/script.yaml", "look"]);
    let run = crate::support::run_of(&going.until_event(".1", "agent.model_called"));
    going.kill();
    let watched = home.posse(&["attach", &run]).exits(130);
    assert!(watched.stderr.contains(&format!("`posse resume {run}` continues it")), "{}", watched.stderr);
    home.write("script.yaml", &script(0));
    home.posse(&["resume", &run]).exits(0);
    let shown = home.posse(&["attach", &run]).exits(0);
    assert!(shown.stdout.starts_with("Done."), "{shown:?}");
}

#[test]
fn a_closed_terminal_stops_the_run_unless_it_was_detached() {
    for is_detached in [false, true] {
        let home = home(STUCK_MS);
        let tmux = Tmux::open(&home, 80, 24);
        tmux.enters(RUN);
        until_stuck(&tmux);
        let run = last_run(&home);
        if is_detached {
            tmux.types(&["d"]);
            tmux.until("continues in the background");
            tmux.until_prompt();
        }
        drop(tmux);
        if is_detached {
            let ps = home.posse(&["ps", "--json"]).json();
            assert_eq!(ps["status"], "running", "it has no terminal to lose");
            let pid = ps["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
            let pid = pid.and_then(rustix::process::Pid::from_raw).expect("a process");
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
        }
        home.posse(&["wait", &run]).exits(130);
        home.write("script.yaml", &script(0));
        home.posse(&["resume", &run]).exits(0);
        home.posse(&["verify", &run]).exits(0);
    }
}
