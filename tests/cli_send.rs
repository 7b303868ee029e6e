//! Messages to running agents.

use crate::support::{Home, run_of};

/// A root that waits for its child, and the child forever: only a user's message makes them continue.
const SCRIPT: &str = r"
- when: {definition: coder, turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: explore, description: look, prompt: look}}]}
- when: {definition: explore}
  reply: {text: found}
  latency_ms: 3600000
- when: {contains: look in b.rs}
  reply: {text: I was told to look in b.rs.}
- reply: {text: nobody told me anything}
";

#[test]
fn a_message_reaches_an_agent_before_its_next_turn() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    let mut going = home.start(&["run", "--json", "--model", "scripted/script.yaml", "look"]);
    let run = run_of(&going.until_event(".1", "agent.model_called"));
    let sent = home.posse(&["send", &run, "look", "in", "b.rs"]).exits(0);
    assert_eq!(sent.stderr, format!("sent to {run}\n"));
    let received = going.until_event("", "agent.message_received");
    assert_eq!(received["summary"], "message: look in b.rs");
    home.posse(&["cancel", &format!("{run}.1")]).exits(0);
    assert_eq!(going.finish().exits(0).result()["text"], "I was told to look in b.rs.");
    let trace = home.posse(&["trace", &run]).exits(0);
    assert!(trace.stdout.contains("message from the user\n    look in b.rs\n"), "{}", trace.stdout);
    let late = home.posse(&["send", &format!("{run}.1"), "more"]).exits(1);
    assert!(late.stderr.contains("has finished; it cannot receive messages"), "{}", late.stderr);
}

#[test]
fn only_an_agent_that_exists_can_be_written_to() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    let mut going = home.start(&["run", "--json", "--model", "scripted/script.yaml", "look"]);
    let run = run_of(&going.until_event(".1", "agent.model_called"));
    let nobody = home.posse(&["send", &format!("{run}.9"), "more"]).exits(2);
    assert!(nobody.stderr.contains(&format!("there is no agent {run}.9")), "{}", nobody.stderr);
    home.posse(&["send", &run, " "]).exits(2);
}

#[test]
fn a_message_to_a_run_that_nobody_carries_waits_for_it() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    let mut going = home.start(&["run", "--json", "--model", "scripted/script.yaml", "look"]);
    let run = run_of(&going.until_event(".1", "agent.model_called"));
    going.kill();
    let sent = home.posse(&["send", &run, "look in b.rs"]).exits(0);
    assert!(sent.stderr.contains(&format!("`posse resume {run}`")), "{}", sent.stderr);
    home.write("script.yaml", &SCRIPT.replace("3600000", "0"));
    let done = home.posse(&["resume", "--json", &run]).exits(0);
    assert_eq!(done.result()["text"], "I was told to look in b.rs.");
    let received = |event: &&serde_json::Value| event["kind"] == "agent.message_received";
    assert_eq!(done.json_lines().iter().filter(received).count(), 1);
}

#[test]
fn a_message_to_a_run_of_one_skill_reaches_the_sub_agent_that_works() {
    let home = Home::new();
    home.write_own(
        ".config/posse/skills/asker.yaml",
        "name: asker\ndescription: asks\ntools: [delegate_to_agent]\nsystem_prompt: Ask.\n",
    );
    home.write(
        "script.yaml",
        r"
- when: {depth: 2}
  reply: {text: never}
  latency_ms: 3600000
- when: {turn: 1}
  reply: {tool_calls: [{name: delegate_to_agent, input: {skill_name: asker, task: ask}}]}
- when: {contains: look in b.rs}
  reply: {text: I was told to look in b.rs.}
- reply: {text: nobody told me anything}
",
    );
    let args = ["run", "--json", "--skill", "asker", "--model", "scripted/script.yaml", "ask"];
    let mut going = home.start(&args);
    let run = run_of(&going.until_event(".1.1", "agent.model_called"));
    home.posse(&["send", &run, "look in b.rs"]).exits(0);
    let received = going.until_event(".1", "agent.message_received");
    assert_eq!(received["summary"], "message: look in b.rs");
    home.posse(&["cancel", &format!("{run}.1.1")]).exits(0);
    let result = going.finish().exits(0).result();
    let text = result["text"].as_str().expect("text");
    assert!(text.contains("I was told to look in b.rs."), "{text}");
}
