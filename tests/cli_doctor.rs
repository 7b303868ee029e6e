//! What a machine offers, said to people.

use std::fs;

use serde_json::{Value, json};

use crate::support::Home;

#[test]
fn a_machine_with_a_sandbox_is_well() {
    let home = Home::new();
    let done = home.posse(&["doctor", "--json"]).exits(0);
    let report = done.json();
    assert_eq!((&report["version"], &report["ok"]), (&json!(1), &json!(true)));
    assert!(report["sandbox"].as_str().is_some_and(|level| level.starts_with("namespaces")), "{report}");
    let names: Vec<&str> =
        report["checks"].as_array().expect("checks").iter().filter_map(|row| row["name"].as_str()).collect();
    for name in
        ["sandbox", "landlock", "seccomp", "cgroups", "git", "sqlite", "state directory", "model keys"]
    {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert!(!home.state_dir().exists(), "looking makes nothing");
    let text = home.posse(&["doctor"]).exits(0).stdout;
    assert!(text.contains("ok       sandbox          namespaces"), "{text}");
}

#[test]
fn keys_are_named_and_never_shown() {
    let home = Home::new();
    for args in [&["doctor"][..], &["doctor", "--json"]] {
        let mut command = home.command(args);
        let output =
            command.env("ANTHROPIC_API_KEY", "sk-CANARY").env("OPENAI_API_KEY", "").output().expect("runs");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(text.contains("set: ANTHROPIC_API_KEY; not set: OPENAI_API_KEY"), "{text}");
        assert!(!text.contains("CANARY"), "{text}");
    }
}

/// In a box no further box can be made: a machine without namespaces.
#[test]
fn a_machine_without_namespaces_refuses_commands_and_says_what_to_do() {
    let home = Home::new();
    fs::copy(env!("CARGO_BIN_EXE_posse"), home.project().join("posse")).expect("copied");
    let inner = json!([
        {"when": {"turn": 1}, "reply": {"text": "try", "tool_calls": [{"name": "bash", "input": {"command": "true"}}]}},
        {"when": {}, "reply": {"text": "done"}},
    ]);
    home.write("inner.yaml", &inner.to_string());
    let command = "./posse doctor; echo \"doctor $?\"; ./posse run --json --model scripted/inner.yaml x";
    let outer = json!([
        {"when": {"turn": 1}, "reply": {"text": "go", "tool_calls": [{"name": "bash", "input": {"command": command}}]}},
        {"when": {}, "reply": {"text": "done"}},
    ]);
    home.write("outer.yaml", &outer.to_string());
    let done = home.posse(&["run", "--json", "--model", "scripted/outer.yaml", "x"]).exits(0);
    let finished =
        done.json_lines().into_iter().find(|event| event["kind"] == "agent.tool_finished").expect("a result");
    let said = finished["detail"]["output"].as_str().expect("an output");
    assert!(
        said.contains("MISSING  sandbox          none, so `bash` is refused: making the namespaces failed"),
        "{said}"
    );
    assert!(said.contains("doctor 1"), "{said}");
    let refused = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let refused: Vec<Value> = refused.filter(|event| event["kind"] == "agent.tool_finished").collect();
    let text = refused[0]["detail"]["output"].as_str().expect("an output");
    assert!(text.starts_with("UNSUPPORTED: No command was run: the sandbox cannot be made"), "{text}");
    assert!(!said.contains("\"agent.tool_intended\""), "nothing was intended: {said}");
}
