//! Cancelling runs and agents, whichever process executes them.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::support::{Home, RunningCommand, run_of};

fn script(latency_ms: u32) -> String {
    format!(
        r"
- when: {{definition: coder, turn: 1}}
  reply:
    tool_calls:
      - {{name: task, input: {{subagent_type: explore, description: one, prompt: one}}}}
      - {{name: task, input: {{subagent_type: explore, description: two, prompt: two}}}}
- when: {{definition: explore, contains: one}}
  reply: {{text: found}}
  latency_ms: {latency_ms}
- reply: {{text: done}}
"
    )
}

/// A run whose first child waits forever.
fn stuck(home: &Home) -> (RunningCommand, String) {
    home.write("script.yaml", &script(3_600_000));
    let mut going = home.start(&["run", "--json", "--model", "scripted/script.yaml", "look"]);
    let event = going.until_event(".1", "agent.model_called");
    (going, run_of(&event))
}

#[test]
fn a_run_that_another_process_carries_is_cancelled_there() {
    let home = Home::new();
    let (going, run) = stuck(&home);
    let cancel = home.posse(&["cancel", &run[..6], "--reason", "not needed"]).exits(0);
    assert_eq!(cancel.stderr, format!("{run}: run cancelled: not needed\n"));
    let result = going.finish().exits(3).result();
    assert_eq!(result["status"], "cancelled");
    let end = home.posse(&["wait", &run]).exits(3).stderr;
    assert_eq!(end.matches("not needed").count(), 1, "each agent was cancelled with its run: {end}");
    let late = home.posse(&["cancel", &run]).exits(1);
    assert!(late.stderr.starts_with(&format!("error: run {run} has ended (cancelled)\n")), "{}", late.stderr);
}

#[test]
fn one_agent_can_be_cancelled_and_the_run_goes_on() {
    let home = Home::new();
    let (going, run) = stuck(&home);
    let cancel = home.posse(&["cancel", &format!("{run}.1")]).exits(0);
    assert_eq!(cancel.stderr, format!("agent {run}.1: closed: cancelled\n"));
    let result = going.finish().exits(0).result();
    assert_eq!(result["failed"][0]["code"], "CANCELLED");
    let show = home.posse(&["show", "--json", &run]).json();
    let states: Vec<_> =
        show["agents"].as_array().expect("agents").iter().map(|agent| &agent["close_reason"]).collect();
    assert_eq!(states, [&json!("integrated"), &json!("cancelled"), &json!("integrated")]);
}

#[test]
fn a_run_that_nobody_carries_is_ended_by_the_command_itself() {
    let home = Home::new();
    let (going, run) = stuck(&home);
    going.kill();
    let cancel = home.posse(&["cancel", &run]).exits(0);
    assert_eq!(cancel.stderr, format!("{run}: run cancelled by the user\n"));
    home.posse(&["resume", &run]).exits(3);
    home.posse(&["verify", &run]).exits(0);
}

#[test]
fn an_agent_of_a_run_that_nobody_carries_is_cancelled_when_it_goes_on() {
    let home = Home::new();
    let (going, run) = stuck(&home);
    going.kill();
    let cancel = home.posse(&["cancel", &format!("{run}.1")]).exits(0);
    assert!(cancel.stderr.contains(&format!("when `posse resume {run}` continues it")), "{}", cancel.stderr);
    let result = home.posse(&["resume", "--json", &run]).exits(0).result();
    assert_eq!(result["failed"][0]["code"], "CANCELLED", "its model would still wait");
}

#[test]
fn the_wish_alone_can_be_left_behind() {
    let home = Home::new();
    let (going, run) = stuck(&home);
    let cancel = home.posse(&["cancel", "--no-wait", &run]).exits(0);
    assert_eq!(cancel.stderr, format!("{run} will be cancelled\n"));
    going.finish().exits(3);
}

/// Whether a file of this name is beneath a directory.
fn has_file(dir: &Path, name: &str) -> bool {
    // Folders of a workspace come and go.
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_dir { has_file(&entry.path(), name) } else { entry.file_name() == name }
    })
}

#[test]
fn a_run_that_is_cancelled_and_then_killed_is_replayed_with_both() {
    let home = Home::new();
    let command =
        "{name: bash, input: {command: \"trap '' TERM INT; echo begun > begun; exec tail -f /dev/null\"}}";
    home.write(
        "script.yaml",
        &format!("- when: {{turn: 1}}\n  reply: {{tool_calls: [{command}]}}\n- reply: {{text: done}}\n"),
    );
    let mut going = home.start(&["run", "--json", "--model", "scripted/script.yaml", "wait"]);
    let run = run_of(&going.until_event("", "agent.tool_intended"));
    // A cancel asks commands to end, and waits a while before it ends them; this one does not obey.
    while !has_file(&home.state_dir().join("runs").join(&run), "begun") {
        std::thread::yield_now();
    }
    home.posse(&["cancel", "--no-wait", &run]).exits(0);
    going.until_event("", "agent.cancel_requested");
    home.posse(&["kill", &run]).exits(0);
    going.finish().exits(3);
    let journal = home.posse(&["logs", "--json", &run]).exits(0).json_lines();
    let cancels = journal.iter().filter(|event| event["kind"] == "agent.cancel_requested");
    let kills: Vec<_> = cancels.map(|event| event["detail"]["kill"].clone()).collect();
    assert_eq!(kills, [json!(null), json!(true)]);
    // Every story replays its runs when it has ended.
}
