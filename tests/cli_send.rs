//! Messages to agents at work.

use crate::support::{Home, run_of};

const SCRIPT: &str = r"
- when: {definition: coder, turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: explore, description: look, prompt: look}}]}
- when: {definition: explore, contains: look in b.rs}
  reply: {text: found in b.rs}
- when: {definition: explore}
  reply: {text: thinking, tool_calls: [{name: list, input: {}}]}
  latency_ms: 20
- reply: {text: done}
";

#[test]
fn a_message_reaches_an_agent_before_its_next_turn() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    let mut going = home.start(&["run", "--json", "--model", "scripted/script.yaml", "look"]);
    let run = run_of(&going.until_event(".1", "agent.model_called"));
    let sent = home.posse(&["send", &format!("{run}.1"), "look", "in", "b.rs"]).exits(0);
    assert_eq!(sent.stderr, format!("sent to {run}.1\n"));
    let received = going.until_event(".1", "agent.message_received");
    assert_eq!(received["summary"], "message: look in b.rs");
    going.finish().exits(0);
    let trace = home.posse(&["trace", &format!("{run}.1")]).exits(0);
    assert!(trace.stdout.contains("message from a person\n    look in b.rs\n"), "{}", trace.stdout);

    let late = home.posse(&["send", &format!("{run}.1"), "more"]).exits(1);
    assert!(late.stderr.contains("has ended"), "{}", late.stderr);
    let nobody = home.posse(&["send", &format!("{run}.9"), "more"]);
    assert_ne!(nobody.code, Some(0));
}

#[test]
fn a_message_to_a_run_that_nobody_carries_waits_for_it() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    let mut going = home.start(&["run", "--json", "--model", "scripted/script.yaml", "look"]);
    let run = run_of(&going.until_event(".1", "agent.model_called"));
    going.kill();
    let sent = home.posse(&["send", &format!("{run}.1"), "look in b.rs"]).exits(0);
    assert!(sent.stderr.contains(&format!("`posse resume {run}`")), "{}", sent.stderr);
    let done = home.posse(&["resume", "--json", &run]).exits(0);
    let received = |event: &&serde_json::Value| event["kind"] == "agent.message_received";
    assert_eq!(done.json_lines().iter().filter(received).count(), 1);
}
