//! A model that always spawns is stopped exactly at the limits.

use serde_json::Value;

use crate::home::{Home, count, events, hear_event, run_of};

/// Every agent asks for three more of its kind in every turn.
const SCRIPT: &str = r"
- reply:
    text: more
    tool_calls:
      - {name: task, input: {subagent_type: lead, description: more, prompt: more}}
      - {name: task, input: {subagent_type: lead, description: more, prompt: and more}}
      - {name: task, input: {subagent_type: lead, description: more, prompt: and more again}}
  latency_ms: 2
";
const AGENTS: &str =
    r#"{"lead": {"description": "Leads.", "prompt": "Lead.", "spawns": ["lead"], "max_turns": 4}}"#;

fn home() -> Home {
    let home = Home::with_script(SCRIPT);
    std::fs::write(home.path("agents.json"), AGENTS).unwrap();
    home
}

fn codes(events: &[Value]) -> Vec<&str> {
    let refused = events.iter().filter(|event| event["kind"] == "agent.subagent_refused");
    let mut codes: Vec<&str> = refused.map(|event| event["detail"]["code"].as_str().unwrap()).collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}

/// The deepest agent's depth, from the dots in its id.
fn depth(events: &[Value]) -> usize {
    events.iter().map(|event| event["agent_id"].as_str().unwrap().matches('.').count()).max().unwrap()
}

#[test]
fn the_number_of_agents_is_never_exceeded_and_the_run_ends() {
    for max in ["1", "2", "13", "40"] {
        let home = home();
        let (run, said) = home.run(&["--agents", "agents.json", "--agent", "lead", "--max-agents", max]);
        assert!(said.status.code().is_some_and(|code| code != 130), "it ends: {said:?}");
        let journal = home.logs(&run);
        let agents = 1 + count(&journal, "agent.subagent_created");
        assert_eq!(agents.to_string(), max);
        assert!(codes(&journal).contains(&"BUDGET_EXHAUSTED"), "{:?}", codes(&journal));
        assert!(home.posse(&["verify", &run]).status.success());
    }
}

#[test]
fn the_depth_is_never_exceeded_and_the_run_ends() {
    for max in [0, 1, 2, 3] {
        let home = home();
        let depth_arg = max.to_string();
        let (run, _) = home.run(&[
            "--agents",
            "agents.json",
            "--agent",
            "lead",
            "--max-depth",
            &depth_arg,
            "--max-agents",
            "60",
        ]);
        let journal = home.logs(&run);
        assert_eq!(depth(&journal), max);
        let codes = codes(&journal);
        assert!(codes.contains(&"MAX_DEPTH_EXCEEDED"), "{max}: {codes:?}");
        let last = journal.last().unwrap()["kind"].as_str().unwrap();
        assert!(last.starts_with("run."), "{last}");
    }
}

/// A crash gives no agent a second chance.
#[test]
fn the_caps_hold_across_a_kill() {
    let home = home();
    let args =
        ["run", "--json", "--model", "scripted/script.yaml", "--agents", "agents.json", "--agent", "lead"];
    let running = home.start(&[&args[..], &["--max-agents", "17", "x"]].concat());
    let lines = hear_event(&running, ".2.1", "agent.subagent_created");
    let run = run_of(&lines[0]);
    running.kill().unwrap();
    let said = home.posse(&["resume", "--json", &run]);
    assert!(!events(said.out.lines()).is_empty(), "{said:?}");
    let journal = home.logs(&run);
    assert_eq!(count(&journal, "agent.subagent_created"), 16);
    assert!(home.posse(&["verify", &run]).status.success());
}
