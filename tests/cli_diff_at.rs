//! The files after each call are in the journal: `posse diff --at` shows a workspace at any moment, and a cut-off call
//! is never taken for a finished one.

use std::fs;

use serde_json::Value;

use crate::support::{Home, RunningCommand, run_of};

/// A child writes, changes and deletes files, each in a call of its own.
const SCRIPT: &str = r#"
- when: {definition: coder, turn: 1}
  reply:
    tool_calls:
      - {name: task, input: {subagent_type: general, description: work, prompt: "work"}}
- when: {definition: general, turn: 1}
  reply:
    tool_calls:
      - {name: write, input: {path: new.txt, content: "new\n"}}
      - {name: bash, input: {command: "rm a.txt; printf 'two\\n' > b.txt", description: change}}
      - {name: bash, input: {command: "true", description: nothing}}
- when: {definition: general, turn: 2}
  reply:
    tool_calls:
      - {name: bash, input: {command: "git mv b.txt c.txt", description: rename}}
- when: {definition: general}
  reply: {text: done}
- when: {definition: coder}
  reply: {text: done}
"#;

fn home(script: &str) -> Home {
    let home = Home::new();
    fs::write(home.project().with_file_name("script.yaml"), script).expect("a script");
    home.write("a.txt", "one\n");
    home.write("b.txt", "one\n");
    home
}

/// The events of a run with their numbers and details.
fn events(home: &Home, run: &str) -> Vec<Value> {
    home.posse(&["logs", "--json", run]).exits(0).json_lines()
}

fn seqs(events: &[Value], agent: &str, kind: &str) -> Vec<u64> {
    let fits = |event: &&Value| event["agent_id"] == agent && event["kind"] == kind;
    events.iter().filter(fits).filter_map(|event| event["seq"].as_u64()).collect()
}

#[test]
fn a_workspace_is_shown_as_it_was_at_any_event() {
    let home = home(SCRIPT);
    let done = home.posse(&["run", "--json", "--model", "scripted/../script.yaml", "go"]).exits(0);
    let run = run_of(&done.result());
    let child = format!("{run}.1");
    let all = events(&home, &run);
    let finished = seqs(&all, &child, "agent.tool_finished");
    assert_eq!(finished.len(), 4, "{all:#?}");
    let names = |agent: &str, at: u64| {
        home.posse(&["diff", "--name-status", "--at", &at.to_string(), agent]).exits(0).stdout
    };
    let intended = seqs(&all, &child, "agent.tool_intended");
    assert_eq!(names(&child, intended[0]), "", "before the first call has ended");
    assert_eq!(names(&child, finished[0]), "A\tnew.txt\n");
    assert_eq!(names(&child, finished[1]), "D\ta.txt\nM\tb.txt\nA\tnew.txt\n");
    assert_eq!(names(&child, finished[2]), names(&child, finished[1]), "a call that changed nothing");
    assert_eq!(names(&child, finished[3]), "D\ta.txt\nD\tb.txt\nA\tc.txt\nA\tnew.txt\n");
    let nothing = all.iter().find(|event| event["seq"] == finished[2]).expect("there");
    assert!(nothing["detail"]["files"].is_null(), "{nothing}");
    let merged = seqs(&all, &child, "agent.worktree_merged");
    assert_eq!(names(&run, merged[0] - 1), "");
    assert_eq!(names(&run, merged[0]), names(&child, finished[3]));
    let patch = home.posse(&["diff", "--at", &finished[1].to_string(), &run, "1"]).exits(0).stdout;
    assert!(patch.contains("\n-one\n+two\n"), "{patch}");
    home.posse(&["verify", &run]).exits(0);
    let last = all.len() as u64;
    for at in [0, last + 1] {
        let said = home.posse(&["diff", "--at", &at.to_string(), &run]).exits(2).stderr;
        assert!(said.contains(&format!("no event {at}; its last event is {last}")), "{said}");
    }
}

/// A command changes a file, says so, and waits to be killed.
const WAITING: &str = r#"
- when: {definition: coder, turn: 1}
  reply:
    tool_calls:
      - {name: write, input: {path: whole.txt, content: "by a finished call\n"}}
- when: {definition: coder, turn: 2}
  reply:
    tool_calls:
      - {name: bash, input: {command: "echo half > half.txt; sleep 1000", description: wait}}
- when: {definition: coder}
  reply: {text: done}
"#;

/// Waits until the program of the second call has written its file.
fn wait_for_half(home: &Home, running: &mut RunningCommand) -> String {
    let first = running.until(|event| event["kind"] == "run.started");
    let run = run_of(&first);
    running.until(|event| event["kind"] == "agent.tool_intended" && event["detail"]["tool"] == "bash");
    let half = home.workspace(&run).join("half.txt");
    while !half.exists() {
        std::thread::yield_now();
    }
    run
}

#[test]
fn what_a_killed_call_left_is_journalled_with_its_interruption() {
    let home = home(WAITING);
    home.not_replayed("its process is killed");
    let mut running = home.start(&["run", "--json", "--model", "scripted/../script.yaml", "go"]);
    let run = wait_for_half(&home, &mut running);
    running.kill();
    assert_eq!(home.posse(&["diff", "--name-status", &run]).exits(0).stdout, "A\twhole.txt\n");
    home.posse(&["resume", &run]).exits(0);
    let all = events(&home, &run);
    let interrupted = seqs(&all, &run, "agent.tool_interrupted");
    let names =
        |at: u64| home.posse(&["diff", "--name-status", "--at", &at.to_string(), &run]).exits(0).stdout;
    assert_eq!(names(interrupted[0] - 1), "A\twhole.txt\n");
    assert_eq!(names(interrupted[0]), "A\thalf.txt\nA\twhole.txt\n");
    home.posse(&["verify", &run]).exits(0);
}
