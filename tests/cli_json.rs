//! `--json` of every verb: objects, one per line, each with its version.

use serde_json::Value;

use crate::support::{Home, run_of};

const SCRIPT: &str = "
- when: {definition: coder, turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: general, description: one, prompt: one}}]}
- when: {definition: general, turn: 1}
  reply: {tool_calls: [{name: write, input: {path: made.txt, content: made}}]}
- reply: {text: done}
";
const PLAN: &str = "goal: look\nsteps:\n  - {title: one, description: Look., agent: explore}\n";

/// Every verb that takes `--json`, according to its own help.
fn verbs_with_json(home: &Home) -> Vec<String> {
    let has_json = |verb: &String| home.posse(&[verb, "--help"]).stdout.contains("--json");
    home.verbs().into_iter().filter(has_json).collect()
}

#[test]
fn every_object_of_every_verb_has_its_version() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    home.write("plan.yaml", PLAN);
    let started = home.posse(&["run", "--json", "--model", "scripted/script.yaml", "look"]).exits(0);
    let run = run_of(&started.result());
    let child = format!("{run}.1");
    let bundle = home.project().join("run.posse");
    let bundle = bundle.to_str().expect("UTF-8");
    // Each with whether there is something to print.
    let rows: &[(bool, &[&str])] = &[
        (true, &["run", "--json", "--model", "scripted/script.yaml", "look"]),
        (true, &["run", "-d", "--json", "--model", "scripted/script.yaml", "look"]),
        (true, &["plan", "check", "plan.yaml", "--json"]),
        (true, &["ps", "--all", "--json"]),
        (true, &["show", &run, "--json"]),
        (true, &["stats", "--json"]),
        (true, &["stats", &run, "--json"]),
        (true, &["logs", &run, "--json"]),
        (true, &["trace", &child, "--json"]),
        (true, &["salvage", &run, "--json"]),
        (true, &["wait", &run, "--json"]),
        (true, &["continue", &run, "--json", "look again"]),
        (false, &["retry", &run, "--json"]),
        (true, &["attach", &run, "--json"]),
        (true, &["resume", &run, "--json"]),
        (false, &["approve", "--yes", &run, "--json"]),
        (false, &["deny", "--yes", &run, "--json"]),
        (false, &["approvals", "--json"]),
        (true, &["models", "--json"]),
        (true, &["wait", &child, "--json"]),
        (true, &["verify", &run, "--json"]),
        (true, &["verify", "--all", "--json"]),
        (true, &["explain", &child, "bash:ls", "--json"]),
        (true, &["export", &run, "--output", bundle, "--json"]),
        (true, &["agents", "--json"]),
        (true, &["agents", "show", "explore", "--json"]),
        (true, &["skills", "--json"]),
        (true, &["gc", "--dry-run", "--json"]),
        (true, &["settings", "--json"]),
        (true, &["trust", "--list", "--json"]),
        (true, &["doctor", "--json"]),
        (true, &["apply", &run, "--check", "--json"]),
        (true, &["apply", &run, "--json"]),
        (true, &["token", "ls", "--json"]),
        (true, &["diff", &run, "--json"]),
        (true, &["report", &child, "--json"]),
        (false, &["cancel", &run, "--json"]),
        (false, &["kill", &child, "--json"]),
        (false, &["send", &run, "--json", "more"]),
        (true, &["init", "--json"]),
        (true, &["approvals", "revoke", "--all", "--yes", "--json"]),
        (true, &["rm", "--yes", "@", "--json"]),
    ];
    for (prints, args) in rows {
        let done = home.posse(args);
        assert_eq!(!done.stdout.is_empty(), *prints, "{args:?}: {}{}", done.stdout, done.stderr);
        for line in done.stdout.lines() {
            let object: Value =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{args:?}: {error}: {line}"));
            assert_eq!(object["version"], 1, "{args:?}: {line}");
        }
    }
    for verb in verbs_with_json(&home) {
        assert!(rows.iter().any(|(_, args)| args[0] == verb), "`{verb} --json` is not looked at");
    }
}

/// The verbs and subcommands without `--json`, each with the reason.
const WITHOUT_JSON: &[(&str, &str)] = &[
    ("top", "a full-screen view"),
    ("demo", "shows a run to a user"),
    ("serve", "a server, which prints its URL"),
    ("token", "has verbs of its own"),
    ("token new", "prints the token, for a file or a variable"),
    ("token revoke", "has nothing to print"),
    ("completions", "a script for a shell"),
    ("man", "pages for a reader"),
    ("plan schema", "is JSON"),
    ("settings schema", "is JSON"),
    ("agents schema", "is JSON"),
    ("skills schema", "is JSON"),
];

#[test]
fn every_verb_that_prints_data_has_json() {
    let home = Home::new();
    for name in home.verbs_and_subverbs() {
        let args: Vec<&str> = name.split(' ').chain(["--help"]).collect();
        let help = home.posse(&args).exits(0).stdout;
        let has_json = help.lines().any(|line| line.trim_start().starts_with("--json"));
        let is_listed = WITHOUT_JSON.iter().any(|(verb, _)| *verb == name);
        assert!(
            has_json != is_listed,
            "`posse {name}` has --json: {has_json}, and is listed here: {is_listed}"
        );
    }
}

#[test]
fn a_diff_and_a_report_name_what_they_are_about() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    let run =
        run_of(&home.posse(&["run", "--json", "--model", "scripted/script.yaml", "look"]).exits(0).result());
    let diff = home.posse(&["diff", "--json", &run]).exits(0).json();
    let file = &diff["files"][0];
    assert_eq!((&file["old_path"], &file["new_path"]), (&Value::Null, &"made.txt".into()), "{diff}");
    assert_eq!((&file["added"], &file["removed"]), (&1.into(), &0.into()), "{diff}");
    assert_eq!(diff["text"].as_str(), Some(home.posse(&["diff", &run]).exits(0).stdout.as_str()));
    let report = home.posse(&["report", "--json", &run, "1"]).exits(0).json();
    assert_eq!(report["agent"], format!("{run}.1"));
    assert_eq!((&report["state"], &report["report"]), (&"closed".into(), &"done".into()), "{report}");
    assert_eq!(report["checks"], Value::Array(Vec::new()));
}

#[test]
fn every_line_of_a_run_has_its_type() {
    let home = Home::new();
    home.write("script.yaml", "- reply: {text: done}\n");
    let lines =
        home.posse(&["run", "--json", "--model", "scripted/script.yaml", "look"]).exits(0).json_lines();
    let (result, events) = lines.split_last().expect("lines");
    assert_eq!(result["type"], "result");
    assert!(!events.is_empty() && events.iter().all(|event| event["type"] == "event"), "{events:?}");
}

#[test]
fn a_message_and_a_cancel_are_told_as_objects() {
    let home = Home::new();
    home.write("script.yaml", "- reply: {text: done}\n  latency_ms: 3600000\n");
    let mut going = home.start(&["run", "--json", "--model", "scripted/script.yaml", "look"]);
    let run = run_of(&going.until_event("", "agent.model_called"));
    let sent = home.posse(&["send", "--json", &run, "more"]).exits(0).json();
    assert_eq!((&sent["agent"], &sent["carried"]), (&run.as_str().into(), &true.into()), "{sent}");
    let cancelled = home.posse(&["cancel", "--json", &run]).exits(0).json();
    assert_eq!(
        (&cancelled["agent"], &cancelled["state"]),
        (&run.as_str().into(), &"ended".into()),
        "{cancelled}"
    );
    going.finish().exits(3);
}
