//! Commands of agents: sandboxed, journalled, ended, and never run twice.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Done, Home, run_of};

/// The timeout for an event that must happen.
const PATIENCE: Duration = Duration::from_mins(1);

/// A root that makes these calls, one per turn, and ends.
fn script(calls: &[(&str, Value)]) -> String {
    let mut rules: Vec<Value> = Vec::new();
    for (turn, (tool, input)) in calls.iter().enumerate() {
        let call = json!({"name": tool, "input": input});
        rules.push(json!({"when": {"turn": turn + 1}, "reply": {"text": "next", "tool_calls": [call]}}));
    }
    rules.push(json!({"when": {}, "reply": {"text": "all done"}}));
    // JSON is YAML.
    Value::from(rules).to_string()
}

fn bash(command: &str) -> (&'static str, Value) {
    ("bash", json!({"command": command}))
}

fn home(calls: &[(&str, Value)]) -> Home {
    let home = Home::new();
    home.write("../script.yaml", &script(calls));
    home
}

const RUN: [&str; 5] = ["run", "--json", "--model", "scripted/../script.yaml", "do it"];

/// The events of this kind, in order.
fn events(done: &Done, kind: &str) -> Vec<Value> {
    done.json_lines().into_iter().filter(|event| event["kind"] == kind).collect()
}

fn outputs(done: &Done) -> Vec<String> {
    let text = |event: &Value| event["detail"]["output"].as_str().expect("an output").to_owned();
    events(done, "agent.tool_finished").iter().map(text).collect()
}

/// Waits until a file exists.
fn wait_for(path: &Path) {
    let until = Instant::now() + PATIENCE;
    while !path.exists() {
        assert!(Instant::now() < until, "there is no {}", path.display());
        std::thread::yield_now();
    }
}

#[test]
fn a_command_runs_in_the_workspace_and_its_box_is_in_the_journal() {
    let home =
        home(&[bash("pwd; echo made > made.txt; echo odd >&2; exit 3"), bash("cat made.txt; cd /; pwd")]);
    let done = home.posse(&RUN).exits(0);
    let outputs = outputs(&done);
    assert_eq!(outputs[0], "/workspace\nodd\n[exit code 3]");
    assert_eq!(outputs[1], "made\n/\n[exit code 0]");
    let intended = events(&done, "agent.tool_intended");
    assert_eq!(intended.len(), 2);
    for event in &intended {
        let level = event["detail"]["sandbox"].as_str().expect("a level");
        assert!(level.starts_with("namespaces ") && level.ends_with(" no-network"), "{level}");
    }
    let finished = &events(&done, "agent.tool_finished")[0];
    assert_eq!(finished["detail"]["ok"], true, "an exit code is for the model to judge");
    assert!(home.made(&run_of(finished), "made.txt"));
}

#[test]
fn a_long_output_is_shown_in_part_and_read_by_range() {
    let home = home(&[
        bash("seq 1 100000"),
        ("read", json!({"path": "@output/call_1_1.txt", "offset": 50_000, "limit": 2})),
        bash("sed -n '99999p' /run/output/call_1_1.txt; echo x > /run/output/call_1_1.txt"),
        ("read", json!({"path": "@output/../../../posse.db"})),
        ("read", json!({"path": "@output/none.txt"})),
        ("read", json!({"path": "@output/call_1_1.txt", "offset": 200_000})),
    ]);
    let done = home.posse(&RUN).exits(0);
    let outputs = outputs(&done);
    assert!(outputs[0].starts_with("1\n2\n3\n") && outputs[0].ends_with("99999\n100000\n[exit code 0]"));
    assert!(outputs[0].contains("`@output/call_1_1.txt`"), "{}", &outputs[0][outputs[0].len() - 400..]);
    assert!(outputs[0].len() < 40 * 1024, "{}", outputs[0].len());
    assert_eq!(
        outputs[1],
        "50000\t50000\n50001\t50001\n[lines 50000 to 50001 of 100000; go on with offset 50002]"
    );
    assert!(
        outputs[2].starts_with("99999\n") && outputs[2].contains("Read-only file system"),
        "{}",
        outputs[2]
    );
    for refused in &outputs[3..5] {
        assert!(refused.contains("There is no output") || refused.contains("`..`"), "{refused}");
    }
    assert!(outputs[5].contains("has only 100000 lines"), "{}", outputs[5]);
}

#[test]
fn a_command_that_takes_too_long_is_ended_with_what_it_said() {
    let calls =
        [("bash", json!({"command": "echo before; (setsid sleep 600 &); sleep 600", "timeout_ms": 200}))];
    let done = home(&calls).posse(&RUN).exits(0);
    let finished = &events(&done, "agent.tool_finished")[0]["detail"];
    assert_eq!((&finished["ok"], &finished["code"]), (&json!(false), &json!("TIMEOUT")));
    let text = finished["output"].as_str().expect("an output");
    assert!(text.contains("before\n[the command took longer than 200 ms"), "{text}");
}

#[test]
fn a_cancel_ends_the_command_and_waits_for_it() {
    let home =
        home(&[bash("trap 'echo tidied > tidied; exit 1' TERM; echo up > up; while :; do sleep 0.02; done")]);
    let mut going = home.start(&RUN);
    let run = run_of(&going.until_event("", "agent.tool_intended"));
    wait_for(&home.workspace(&run).join("up"));
    home.posse(&["cancel", &run]).exits(0);
    let done = going.finish().exits(3);
    assert!(home.workspace(&run).join("tidied").exists(), "it could tidy up");
    assert!(!home.project().join("up").exists());
    let finished = &events(&done, "agent.tool_finished")[0]["detail"];
    assert_eq!(finished["code"], "CANCELLED");
}

#[test]
fn a_killed_run_takes_its_commands_with_it_and_runs_none_again() {
    let home = home(&[
        bash("echo once >> ran; echo up > up; (setsid sleep 600 &); sleep 600"),
        bash("echo next >> ran"),
    ]);
    let mut going = home.start(&RUN);
    let run = run_of(&going.until_event("", "agent.tool_intended"));
    wait_for(&home.workspace(&run).join("up"));
    going.kill();
    let done = home.posse(&["resume", "--json", &run]).exits(0);
    let interrupted = &events(&done, "agent.tool_interrupted")[0]["detail"];
    assert_eq!(interrupted["tool"], "bash");
    assert_eq!(home.result_file(&run, "ran").as_deref(), Some("once\nnext\n"));
    assert_eq!(
        fs::read_dir(home.project()).expect("the folder").count(),
        0,
        "nothing is left in the person's folder"
    );
}

#[test]
fn a_protected_name_is_left_out_of_the_result_and_the_person_is_told() {
    let home = home(&[
        bash(
            "echo evil > .mcp.json; mkdir -p .github/workflows sub; echo x > .github/workflows/ci.yml; git init -q sub",
        ),
        bash(
            "echo evil > .vscode/settings.json; ln -s /etc way; ln -s good.txt inside; echo good > good.txt",
        ),
    ]);
    home.write(".vscode/settings.json", "{}");
    let done = home.posse(&RUN).exits(0);
    assert!(outputs(&done)[1].contains("Read-only file system"), "what exists cannot be changed: {done:?}");
    let result = &events(&done, "run.completed")[0]["detail"]["result"];
    let left_out = result["left_out"].as_array().expect("a list");
    let left_out: Vec<&str> = left_out.iter().filter_map(Value::as_str).collect();
    for refused in
        [".mcp.json: `.mcp.json` is protected", ".github/workflows/ci.yml: ", "way: a symbolic link"]
    {
        assert!(left_out.iter().any(|text| text.starts_with(refused)), "{refused}: {left_out:?}");
    }
    assert_eq!(left_out.len(), 3, "{left_out:?}");
    let run = run_of(&done.json_lines()[0]);
    for (path, there) in [
        (".mcp.json", false),
        (".github/workflows/ci.yml", false),
        ("way", false),
        ("inside", true),
        ("good.txt", true),
    ] {
        assert_eq!(home.made(&run, path), there, "{path}");
    }
    assert_eq!(home.result_file(&run, ".vscode/settings.json").as_deref(), Some("{}"));
    let kept = home.workspace(&run).join(".mcp.json");
    assert_eq!(fs::read_to_string(kept).expect("kept"), "evil\n");
}

#[test]
fn a_childs_protected_name_is_refused_with_its_change_and_its_parent_is_told() {
    let input = json!({"subagent_type": "general", "description": "a part", "prompt": "do it"});
    let rules = json!([
        {"when": {"definition": "coder", "turn": 1}, "reply": {"text": "", "tool_calls": [{"name": "task", "input": input}]}},
        {"when": {"definition": "general", "turn": 1}, "reply": {"text": "", "tool_calls":
            [{"name": "bash", "input": {"command": "echo evil > .mcp.json; echo good > good.txt"}}]}},
        {"when": {}, "reply": {"text": "all done"}},
    ]);
    let home = Home::new();
    home.write("../script.yaml", &rules.to_string());
    let done = home.posse(&RUN).exits(0);
    let refused = &events(&done, "agent.integration_failed")[0]["detail"];
    assert_eq!(refused["code"], "PERMISSION_DENIED", "{refused}");
    let told = outputs(&done).pop().expect("the result of the call");
    assert!(told.contains(".mcp.json: `.mcp.json` is protected"), "{told}");
    let run = run_of(&done.json_lines()[0]);
    assert!(!home.made(&run, ".mcp.json") && !home.made(&run, "good.txt"));
}

#[test]
fn the_network_is_shut_unless_a_person_opens_it() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = listener.local_addr().expect("an address").port();
    let home =
        home(&[bash(&format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected; wc -l < /proc/net/dev"))]);
    let shut = home.posse(&RUN).exits(0);
    assert!(outputs(&shut)[0].contains("Connection refused"), "{}", outputs(&shut)[0]);
    assert!(!outputs(&shut)[0].contains("connected"));
    let opened = [RUN.as_slice(), &["--allow", "network"]].concat();
    let opened = home.posse(&opened).exits(0);
    assert!(outputs(&opened)[0].starts_with("connected\n"), "{}", outputs(&opened)[0]);
    let intended = events(&opened, "agent.tool_intended");
    assert!(intended[0]["detail"]["sandbox"].as_str().is_some_and(|level| level.ends_with(" network")));
    // An approval that does not name the network opens none.
    let wide = [RUN.as_slice(), &["--allow", "*"]].concat();
    assert!(outputs(&home.posse(&wide).exits(0))[0].contains("Connection refused"));
}

#[test]
fn a_command_that_prints_nothing_for_too_long_is_ended() {
    let home = home(&[bash("echo begun; sleep 3600"), bash("echo quick")]);
    home.write_settings("agent: {idle_timeout: 1s}\n");
    let done = home.posse(&RUN).exits(0);
    let outputs = outputs(&done);
    assert!(outputs[0].starts_with("TIMEOUT: begun\n"), "{}", outputs[0]);
    assert!(outputs[0].contains("printed nothing for 1000 ms and was ended"), "{}", outputs[0]);
    assert!(outputs[1].starts_with("quick\n"), "{}", outputs[1]);
}
