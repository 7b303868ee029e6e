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
        (true, &["apply", &run, "--json"]),
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
