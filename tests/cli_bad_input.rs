//! Invalid input is refused with one clear error, and nothing is written.

use crate::support::{Done, Home};

const SCRIPT: &str = "- reply: {text: done}\n";

/// Runs `args` and asserts that standard error contains all of `named`.
#[track_caller]
fn refused(home: &Home, args: &[&str], named: &[&str]) {
    let done = home.posse(args).exits(2);
    assert_eq!(done.stdout, "", "{args:?}");
    assert_eq!(done.stderr.matches("error: ").count(), 1, "{args:?}: {}", done.stderr);
    for name in named {
        assert!(done.stderr.contains(name), "{args:?}: no {name:?} in:\n{}", done.stderr);
    }
    assert!(!home.state_dir().exists(), "{args:?} wrote something");
}

/// The same for `run` with more arguments.
#[track_caller]
fn run_refused(home: &Home, more: &[&str], named: &[&str]) {
    for detach in [&[] as &[&str], &["--detach"]] {
        refused(home, &[&["run"], detach, more].concat(), named);
    }
}

#[test]
fn a_bad_script_is_named_with_its_line() {
    let home = Home::new();
    for (script, named) in [
        ("- reply: {text: a}\n- repply: {text: b}\n", "script.yaml:2: unknown field \"repply\""),
        ("- when: {turn: one}\n  reply: {text: a}\n", "script.yaml:1: turn: expected"),
        ("- when: {turn: 1}\n", "script.yaml:1: the rule has neither `reply` nor `error`"),
        ("- reply: {text: a}\n  times: 0\n", "script.yaml:2: times:"),
        ("", "script.yaml: the script has no rules"),
        ("- reply: {text: [\n", "script.yaml:"),
    ] {
        home.write("script.yaml", script);
        run_refused(&home, &["--model", "scripted/script.yaml", "x"], &[named, "--model: "]);
    }
    std::fs::write(home.project().join("script.yaml"), b"\xff\xfe").expect("a file");
    run_refused(&home, &["--model", "scripted/script.yaml", "x"], &["script.yaml: ", "UTF-8"]);
    run_refused(&home, &["--model", "scripted/none.yaml", "x"], &["none.yaml: cannot read the script"]);
    run_refused(&home, &["--model", "scripted/", "x"], &["names no file"]);
    run_refused(
        &home,
        &["--model", "acme/large", "x"],
        &["unknown provider `acme`", "available: anthropic, openai,"],
    );
    let done = home.posse(&["run", "x"]).exits(4);
    for part in ["no model is selected", "ANTHROPIC_API_KEY", "--model", "posse demo"] {
        assert!(done.stderr.contains(part), "{part}: {}", done.stderr);
    }
}

#[test]
fn a_bad_agents_file_is_named_with_its_line() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    let with = |agents: &str, named: &[&str]| {
        run_refused(&home, &["--model", "scripted/script.yaml", "--agents", agents, "x"], named);
    };
    for (text, named) in [
        (
            "{\n\"lead\": {\"prompt\": \"x\",\n\"toolz\": []}}",
            "agents.json:3: lead: unknown field \"toolz\" (did you mean `tools`?)",
        ),
        (
            "{\"lead\": {\"prompt\": \"x\", \"tools\": [\"grepp\"]}}",
            "agents.json:1: lead: unknown tool \"grepp\"",
        ),
        (
            "{\"lead\": {\"prompt\": \"x\", \"spawns\": [\"nobody\"]}}",
            "agents.json:1: lead.spawns: unknown definition",
        ),
        (
            "{\"lead\": {\"prompt\": \"x\", \"max_turns\": 0}}",
            "agents.json:1: lead: max_turns: expected a whole number from 1",
        ),
        ("{\"lead\": {}}", "agents.json:1: lead.prompt: is missing"),
        ("[]", "agents.json:1: "),
        ("{", "agents.json:1: "),
    ] {
        home.write("agents.json", text);
        with("agents.json", &[named, "--agents: "]);
    }
    with("none.json", &["--agents: none.json: "]);
    with("{\"lead\": 1}", &["--agents: (inline):1: lead: "]);
    with(
        "{\"a\": {\"prompt\": \"x\", \"model\": \"scripted/none.yaml\"}}",
        &["--agents: a.model: none.yaml: cannot read"],
    );
    run_refused(
        &home,
        &["--model", "scripted/script.yaml", "--agent", "codr", "x"],
        &["--agent: unknown definition `codr` (did you mean `coder`?)"],
    );
}

#[test]
fn a_bad_flag_is_named() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    for (flags, named) in [
        (&["--max-turns", "0"] as &[&str], &["--max-turns", "at least 1"] as &[&str]),
        (&["--max-turns", "many"], &["--max-turns", "`none`"]),
        (&["--max-agents", "0"], &["--max-agents", "at least 1"]),
        (&["--max-agents", "-1"], &["-1"]),
        (&["--max-tokens", "1.5"], &["--max-tokens", "whole number"]),
        (&["--max-depth", "none"], &["--max-depth"]),
        (&["--parallel", "0"], &["--parallel", "at least 1"]),
        (&["--dir", "nowhere"], &["--dir", "nowhere"]),
        (&["--dir", "script.yaml"], &["--dir", "is not a directory"]),
        (&["--modle", "x"], &["--modle", "--model"]),
    ] {
        run_refused(&home, &[&["--model", "scripted/script.yaml"], flags, &["x"]].concat(), named);
    }
    run_refused(&home, &["--model", "scripted/script.yaml"], &["the request is missing"]);
    run_refused(&home, &["--model", "scripted/script.yaml", " "], &["the request is empty"]);
    run_refused(&home, &["--model", "scripted/script.yaml", "-"], &["the request is empty"]);
}

#[test]
fn bad_settings_are_named_with_their_place() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    let run = ["--model", "scripted/script.yaml", "x"];
    home.write_settings("model: scripted/none.yaml\nagent:\n  max_dept: 1\n");
    run_refused(
        &home,
        &run,
        &[".config/posse/settings.yaml:3: unknown key `agent.max_dept` (did you mean `max_depth`?)"],
    );
    home.write_settings("model: scripted/none.yaml\n");
    run_refused(&home, &["x"], &[".config/posse/settings.yaml:1: none.yaml: cannot read the script"]);
    home.write_settings("");
    let mut command = home.command(&["run", "x"]);
    let output = command.env("POSSE_MODEL", "scripted/none.yaml").output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(text.starts_with("error: POSSE_MODEL: none.yaml: cannot read the script"), "{text}");
}

#[test]
fn a_run_that_does_not_exist_is_said_so_and_nothing_is_made() {
    let home = Home::new();
    for verb in ["show", "logs", "wait", "resume", "verify", "trace", "cancel"] {
        refused(&home, &[verb, "k3f9"], &["there is no run `k3f9`", "posse ps"]);
        refused(&home, &[verb, "what?"], &["what?"]);
    }
    refused(&home, &["send", "k3f9.1", "hello"], &["there is no run `k3f9`"]);
    refused(&home, &["explain", "k3f9.1", "read"], &["there is no run `k3f9`"]);
    refused(&home, &["verify", "k3f9.1"], &["that is an agent; its run is `k3f9`"]);
    refused(&home, &["resume", "--last"], &["no run was interrupted"]);
    refused(&home, &["frobnicate"], &["frobnicate"]);
    let ps = home.posse(&["ps"]).exits(0);
    assert!(ps.stdout.is_empty() && !home.state_dir().exists(), "{ps:?}");
}

#[test]
fn an_agent_that_does_not_exist_and_an_ambiguous_prefix_are_said_so() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    // More runs than letters that an id can begin with: two ids begin with the same one.
    let mut runs: Vec<String> = Vec::new();
    while !runs.iter().enumerate().any(|(at, run)| runs[..at].iter().any(|other| other[..1] == run[..1])) {
        let done = home.posse(&["run", "--json", "--model", "scripted/script.yaml", "x"]).exits(0);
        runs.push(crate::support::run_of(&done.result()));
    }
    let newest = runs.last().expect("a run");
    let done = home.posse(&["show", &newest[..1]]).exits(2);
    assert!(done.stderr.contains("fits several runs: ") && done.stderr.contains(newest), "{}", done.stderr);
    let done = home.posse(&["trace", &format!("{newest}.7")]).exits(2);
    assert!(done.stderr.contains(&format!("there is no agent {newest}.7")), "{}", done.stderr);
    home.posse(&["show", &newest[..7]]).exits(0);
}

#[test]
fn a_request_is_as_long_as_the_engine_takes_it_and_no_longer() {
    let home = Home::new();
    home.write("script.yaml", "- reply: {text: done}\n");
    for (bytes, code) in [(posse::REQUEST_MAX_BYTES, 0), (posse::REQUEST_MAX_BYTES + 1, 2)] {
        let request = home.write("../request", &"x".repeat(bytes));
        let mut command = home.command(&["run", "--model", "scripted/script.yaml", "-"]);
        command.stdin(std::fs::File::open(request).expect("a file"));
        let done = Done::of(command).exits(code);
        let most = format!("the request has more than the {} bytes accepted", posse::REQUEST_MAX_BYTES);
        assert_eq!(done.stderr.contains(&most), code == 2, "{done:?}");
    }
}

#[test]
fn an_unknown_verb_and_a_missing_run_are_told_with_what_is_near() {
    let home = Home::new();
    refused(
        &home,
        &["rnu"],
        &["there is no verb `rnu`", "did you mean `run`?", "`posse help` lists the verbs"],
    );
    refused(&home, &["help", "nosuch"], &["there is no verb `nosuch`"]);
    assert!(home.posse(&["help", "--help"]).exits(0).stdout.contains("Exit codes:"));
    let missing = home.posse(&["run"]).exits(2).stderr;
    assert!(missing.starts_with("error: the request is missing: describe what to do\n"), "{missing}");
    home.write("script.yaml", "- reply: {text: done}\n");
    let done = home.posse(&["run", "--json", "--model", "scripted/script.yaml", "look"]).exits(0);
    let run = crate::support::run_of(&done.result());
    let tells = |args: &[&str], part: &str| {
        let told = home.posse(args).exits(2).stderr;
        assert!(told.contains(part), "{args:?}: {told}");
    };
    for verb in ["rm", "cancel", "kill", "apply"] {
        tells(&[verb], "RUN is missing");
        tells(&[verb], &format!("the newest run of this project is {run} (`@` names it)"));
    }
    home.posse(&["run", "--model", "replay/@"]).exits(0);
    tells(&["export", "-o", "-"], "not written to standard output");
    tells(&["run", "--dir", "/nope", "x"], "/nope: no such file or directory");
    let negative = home.posse(&["run", "--max-turns", "-1", "--nope", "x"]).exits(2).stderr;
    assert!(!negative.contains("tip: to pass"), "{negative}");
}

#[test]
fn settings_that_a_new_user_gets_wrong_are_named_with_file_line_and_choices() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    let run = ["--model", "scripted/script.yaml", "x"];
    for (text, named) in [
        ("modle: x\n", &["settings.yaml:1: unknown key `modle` (did you mean `model`?)"] as &[&str]),
        ("agent: {max_turn: 3}\n", &[":1: unknown key `agent.max_turn` (did you mean `max_turns`?)"]),
        ("on_ask: maybe\n", &[":1: on_ask: `maybe` is not one of deny, escalate"]),
        ("sandbox: {level: none}\n", &[":1: sandbox.level: `none` is not one of namespaces, landlock"]),
        ("agent:\n\tmax_turns: 1\n", &[":2: tabs"]),
        ("model: a/b\nmodel: a/c\n", &[":2: the key `model` is written twice"]),
        ("- a\n", &["settings.yaml:1: "]),
        ("model: \"abc\n", &["settings.yaml:"]),
        ("hooks: {PreToolUs: []}\n", &[":1: unknown key `hooks.PreToolUs` (did you mean `PreToolUse`?)"]),
    ] {
        home.write_settings(text);
        run_refused(&home, &run, named);
    }
    home.write_settings("hooks: {PreToolUse: [{matcher: 'Bash(', hooks: [{type: command, command: x}]}]}\n");
    let ran = || home.posse(&[&["run"], &run[..]].concat()).exits(2).stderr;
    let told = ran();
    assert!(
        told.contains(":1: hooks.PreToolUse: the matcher `Bash(`") && told.contains("unclosed group"),
        "{told}"
    );
    home.write_settings("sandbox: {env: [ANTHROPIC_API_KEY]}\n");
    let told = ran();
    assert!(told.contains(":1: sandbox.env: `ANTHROPIC_API_KEY` is the name of a secret"), "{told}");
    assert!(told.ends_with("hint: remove it from the list\n"), "{told}");
    home.write_settings("");
    for (name, value, said) in [
        ("POSSE_AGENT_MAX_TURNS", "2", "did you mean `POSSE_AGENT__MAX_TURNS`?"),
        ("POSSE_MODLE", "x", "did you mean `POSSE_MODEL`?"),
        ("POSSE_AGENT__MAX_TURNS", "x", "expected a whole number of at least 1"),
    ] {
        let mut command = home.command(&["run", "--model", "scripted/script.yaml", "x"]);
        command.env(name, value);
        let told = Done::of(command).exits(2).stderr;
        assert!(told.starts_with(&format!("error: {name}: ")) && told.contains(said), "{told}");
    }
}

#[test]
fn values_that_a_new_user_gets_wrong_are_named_with_what_is_expected() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    for (flags, named) in [
        (&["--max-turns", "-1"] as &[&str], &["'-1'", "at least 1, or `none`"] as &[&str]),
        (&["--max-usd", "-5"], &["'-5'", "dollars such as `5` or `0.50`, or `none`"]),
        (&["--max-time", "5"], &["'5'", "a time such as `90s`, `30m` or `1h30m`"]),
        (&["--max-time", "5x"], &["'5x'", "a time such as"]),
        (&["--parallel", "0"], &["at least 1, or `none`"]),
        (&["--on-ask", "maybe"], &["expected `deny` or `escalate`"]),
        (&["--allow", "foo:bar"], &["--allow: unknown tool `foo`"]),
        (&["--agents", "{bad"], &["--agents: (inline):1: ", "for example {\"reader\""]),
        (&["--skill", "nope"], &["unknown skill `nope`", "`posse skills` lists"]),
        (&["--unowned-writers", "x"], &["expected `queue` or `parallel`"]),
        (&["--dir", "script.yaml"], &["script.yaml is not a directory"]),
    ] {
        run_refused(&home, &[&["--model", "scripted/script.yaml"], flags, &["x"]].concat(), named);
    }
    for (model, named) in [
        ("nope/model", &["unknown provider `nope`", "available: anthropic"] as &[&str]),
        ("script.yaml", &["unknown model `script.yaml`", "for example `scripted/script.yaml`"]),
        ("", &["unknown model ``", "for example `anthropic/"]),
        ("replay/none.posse", &["none.posse: no such file or directory", "that `posse export` wrote"]),
    ] {
        run_refused(&home, &["--model", model, "x"], named);
    }
    refused(&home, &["run", "--model", "replay/none.posse"], &["name a bundle"]);
    refused(&home, &["run", "--plan", "nope.yaml"], &["nope.yaml: no such file or directory", "plan file"]);
    refused(&home, &["ps", "-n", "0"], &["at least 1; use --all"]);
    refused(&home, &["gc", "--runs", "soon"], &["'soon'"]);
    refused(&home, &["wait", "--timeout", "5"], &["a time such as"]);
    home.posse(&["gc", "--runs", "30m"]).exits(0);
    let free = ["run", "--model", "scripted/script.yaml", "--max-usd", "0", "x"];
    let told = home.posse(&free).exits(2).stderr;
    assert!(told.starts_with("error: --max-usd: $0.00 allows no call, not even"), "{told}");
    let deep = ["run", "--model", "scripted/script.yaml", "--max-depth", "99", "x"];
    let told = home.posse(&deep).exits(0).stderr;
    assert!(
        told.starts_with("note: --max-depth 99 is more than agent.max_orchestration_depth allows: 3"),
        "{told}"
    );
}

#[test]
fn names_that_a_new_user_gets_wrong_are_answered_with_what_there_is() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    home.posse(&["run", "--model", "scripted/script.yaml", "look"]).exits(0);
    let run = home.posse(&["ps", "-q"]).exits(0).stdout.trim().to_owned();
    for (args, named) in [
        (&["explain"] as &[&str], &["OPERATION"] as &[&str]),
        (&["explain", "@"], &["the operation is missing", "explain @ write:src/main.rs"]),
        (&["explain", "@", "foo"], &["unknown tool `foo`"]),
        (&["show", "zz"], &["there is no run `zz`", &run]),
        (&["trace", "@.99"], &["there is no agent", "has no sub-agents"]),
        (&["report", "@", "99"], &["there is no agent", "has no sub-agents"]),
        (&["logs", "@", "--agent", "zz"], &["such as `1` or `2.1`"]),
        (&["logs", "@", "--agent", "1"], &["there is no agent", "has no sub-agents"]),
        (&["salvage", "@.3", "--attempt", "7"], &["--restore"]),
        (&["export", "@", "-o", "x.txt"], &["must end in .posse"]),
        (&["diff", "@", "--at", "9999"], &["has no event 9999; its last event is"]),
        (&["ps", "--format", "{nosuch}"], &["there is no field `nosuch`", "the fields are run, status"]),
        (&["stats", "--since", "yesterday"], &["an age such as `30m`"]),
        (&["models", "nosuch"], &["no model with a known price has `nosuch`", "models --all"]),
    ] {
        let told = home.posse(args).exits(2).stderr;
        assert!(named.iter().all(|name| told.contains(name)), "{args:?}: {named:?} in {told}");
    }
    for (args, said) in [
        (&["logs", "@", "--after", "9999"] as &[&str], "ends with event"),
        (&["cancel", "@"], "has ended (completed)"),
        (&["send", "@", "hi"], "has finished; it cannot receive messages"),
    ] {
        let done = home.posse(args);
        assert!(done.stderr.contains(said), "{args:?}: {done:?}");
    }
}
