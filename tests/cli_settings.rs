//! Settings from the file, the environment and flags.

use serde_json::{Value, json};

use crate::support::{Done, Home, run_of};

/// Every agent spawns another until it is refused.
const DEEP: &str = r"
- when: {turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: lead, description: deeper, prompt: go deeper}}]}
- reply: {text: back}
";

/// The depth of a run with these settings, variables and flags.
fn depth(settings: &str, variables: &[(&str, &str)], flags: &[&str]) -> u64 {
    let home = Home::new();
    home.write("script.yaml", DEEP);
    home.write("agents.json", r#"{"lead": {"prompt": "You lead.", "spawns": ["lead"]}}"#);
    home.write_settings(settings);
    let run =
        ["run", "--json", "--model", "scripted/script.yaml", "--agents", "agents.json", "--agent", "lead"];
    let mut command = home.command(&[&run, flags, &["go"]].concat());
    command.envs(variables.iter().copied());
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let last = String::from_utf8(output.stdout).expect("UTF-8").lines().last().expect("a result").to_owned();
    let result: Value = serde_json::from_str(&last).expect("JSON");
    let show = home.posse(&["show", "--json", &run_of(&result)]).json();
    show["by_depth"].as_array().expect("depths").len() as u64 - 1
}

#[test]
fn the_depth_follows_the_run_the_settings_and_the_operators_ceiling() {
    assert_eq!(depth("", &[], &[]), 2, "the default");
    assert_eq!(depth("", &[], &["--max-depth", "1"]), 1);
    assert_eq!(depth("", &[], &["--max-depth", "9"]), 3, "the default ceiling");
    assert_eq!(depth("agent: {max_depth: 1}", &[], &[]), 1);
    assert_eq!(depth("agent: {max_depth: 1}", &[], &["--max-depth", "3"]), 3);
    assert_eq!(depth("agent: {max_orchestration_depth: 4}", &[], &[]), 4, "set alone it is the default too");
    assert_eq!(depth("agent: {max_orchestration_depth: 1, max_depth: 3}", &[], &[]), 1);
    let ceiling = ("POSSE_AGENT__MAX_ORCHESTRATION_DEPTH", "1");
    assert_eq!(depth("agent: {max_orchestration_depth: 4}", &[ceiling], &["--max-depth", "4"]), 1);
}

#[test]
fn the_depth_that_is_shown_is_the_one_that_runs_have() {
    let ceiling = |depth| ("POSSE_AGENT__MAX_ORCHESTRATION_DEPTH", depth);
    let (file, variable) = ("settings.yaml:1", "POSSE_AGENT__MAX_ORCHESTRATION_DEPTH");
    for (settings, variables, origin, unused) in [
        ("", vec![], "default", None),
        ("agent: {max_depth: 1}", vec![], file, None),
        ("agent: {max_depth: 1}", vec![ceiling("3")], file, None),
        ("agent: {max_orchestration_depth: 2}", vec![], file, None),
        ("", vec![ceiling("4")], variable, None),
        ("", vec![ceiling("1")], variable, None),
        ("agent: {max_depth: 3}", vec![ceiling("1")], variable, Some(3)),
        ("agent: {max_depth: 4}", vec![], "default", Some(4)),
    ] {
        let home = Home::new();
        home.write_settings(settings);
        let mut command = home.command(&["settings", "--json"]);
        command.envs(variables.iter().copied());
        let shown = Done::of(command).exits(0).json();
        let rows = shown["settings"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["key"] == "agent.max_depth").expect("the depth");
        assert_eq!(row["value"], depth(settings, &variables, &[]), "{settings} {variables:?}: {row}");
        assert!(
            row["origin"].as_str().expect("an origin").ends_with(origin),
            "{settings} {variables:?}: {row}"
        );
        assert_eq!(row["unused"][0]["value"].as_u64(), unused, "{settings} {variables:?}: {row}");
    }
}

#[test]
fn more_depth_than_the_operator_allows_is_noted() {
    let home = Home::new();
    home.write("script.yaml", "- reply: {text: done}\n");
    let done = home.posse(&["run", "--model", "scripted/script.yaml", "--max-depth", "9", "x"]).exits(0);
    assert!(done.stderr.starts_with("note: --max-depth 9 is more than"), "{}", done.stderr);
}

#[test]
fn a_script_named_in_the_settings_file_is_found_from_anywhere() {
    let home = Home::new();
    home.write_settings("model: scripted/../../project/script.yaml\n");
    home.write("script.yaml", "- reply: {text: found}\n");
    let elsewhere = home.project().join("a/b");
    std::fs::create_dir_all(&elsewhere).expect("a folder");
    let output = home.command(&["run", "x"]).current_dir(elsewhere).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "found\n");
}

#[test]
fn a_run_keeps_its_script_when_it_is_resumed_elsewhere() {
    let home = Home::new();
    home.write("script.yaml", "- reply: {text: done}\n  latency_ms: 3600000\n");
    let mut going = home.start(&["run", "--json", "--model", "scripted/script.yaml", "x"]);
    let run = run_of(&going.until_event("", "agent.model_called"));
    going.kill();
    home.write("script.yaml", "- reply: {text: done}\n");
    let output = home.command(&["resume", &run]).current_dir("/").output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
}

#[test]
fn a_rule_about_a_tool_that_does_not_exist_is_refused_as_a_flag_with_it_is() {
    const TYPO: &str =
        "rules:\n  - {pattern: 'read:.env', decision: deny}\n  - {pattern: 'bsh:*', decision: deny}\n";
    const PROBLEM: &str = "rules: unknown tool `bsh` (did you mean `bash`?)";
    let home = Home::new();
    home.write("script.yaml", "- {when: {}, reply: {text: done}}\n");
    let run = ["run", "--model", "scripted/script.yaml", "do it"];
    home.write_settings(TYPO);
    for command in [&run[..], &["settings"]] {
        let done = home.posse(command).exits(2);
        assert!(done.stderr.contains("settings.yaml:2: ") && done.stderr.contains(PROBLEM), "{done:#?}");
    }
    let looked = home.posse(&["doctor"]).exits(1);
    assert!(looked.stdout.contains(PROBLEM), "{looked:#?}");

    // An untrusted project stops no run.
    home.write_settings("");
    home.write(".posse/settings.yaml", TYPO);
    let done = home.posse(&run).exits(0);
    assert!(done.stderr.contains("warning: ") && done.stderr.contains(PROBLEM), "{done:#?}");
    home.posse(&["trust", "--yes"]).exits(0);
    assert!(home.posse(&run).exits(2).stderr.contains(PROBLEM));

    std::fs::remove_file(home.project().join(".posse/settings.yaml")).expect("removed");
    let agents = r#"{"lead": {"prompt": "x", "rules": [{"pattern": "bsh:*", "decision": "deny"}]}}"#;
    let done = home.posse(&[&run[..3], &["--agents", agents, "do it"]].concat()).exits(2);
    assert!(done.stderr.contains("lead: rules: unknown tool `bsh`"), "{done:#?}");
}

#[test]
fn values_for_programs_are_data() {
    let full = "\
model: openai/x
agent: {max_agents: none, max_tokens: 10, max_usd: 5.5, max_time: 2h, idle_timeout: 90s, may_share_history: true}
providers: {lab: {base_url: 'https://lab.example/v1', key: canary, format: chat, requests_per_minute: 5}}
prices: {lab/x: {input: 3, output: 15}}
search: {provider: brave, key: canary}
sandbox: {read: [/opt/x], env: [A], concurrent: 4}
workspace: {copy: [a], setup: make, caches: [x]}
gc: {workspaces: 7d}
hooks: {PreToolUse: [{matcher: Bash, hooks: [{type: command, command: echo}]}]}
rules: [{pattern: 'read:.env', decision: deny}]
";
    let home = Home::new();
    let rows = || {
        let report = home.posse(&["settings", "--json"]).exits(0).json();
        report["settings"].as_array().expect("rows").clone()
    };
    let value = |rows: &[Value], key: &str| {
        rows.iter().find(|row| row["key"] == key).unwrap_or_else(|| panic!("{key}"))["value"].clone()
    };
    let usual = rows();
    for row in &usual {
        let prose = row["value"].as_str().is_some_and(|text| text.contains(' '));
        assert!(!prose, "{row}");
    }
    for (key, expected) in [
        ("rules", json!([])),
        ("sandbox.read", json!([])),
        ("hooks", Value::Null),
        ("proxy", Value::Null),
        ("sandbox.concurrent", Value::Null),
        ("agent.max_tokens", json!("none")),
        ("agent.idle_timeout", json!("2m")),
    ] {
        assert_eq!(value(&usual, key), expected, "{key}");
    }
    let model = usual.iter().find(|row| row["key"] == "model").expect("a row");
    assert!(
        model["value"].is_null() && model["words"].as_str().is_some_and(|words| words.contains("Ollama"))
    );
    home.write_settings(full);
    let said = rows();
    let key = &value(&said, "providers.lab")["key"]["set_in"];
    assert!(key.as_str().is_some_and(|origin| origin.ends_with("settings.yaml:3")), "{key}");
    let key = &value(&said, "search.key")["set_in"];
    assert!(key.as_str().is_some_and(|origin| origin.ends_with("settings.yaml:5")), "{key}");
    assert_eq!(value(&said, "agent.max_usd"), json!(5.5));
    assert_eq!(value(&said, "rules"), json!([{"pattern": "read:.env", "decision": "deny"}]));
    let text = home.posse(&["settings"]).exits(0).stdout;
    assert!(text.contains("settings.yaml:5") && text.contains("set in "), "{text}");
}
