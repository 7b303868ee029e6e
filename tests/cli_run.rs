//! A run from its request to its report.

use serde_json::{Value, json};

use crate::support::{Home, run_of};

const SPLIT: &str = r#"
- when: {definition: coder, turn: 1}
  reply:
    text: I will split this.
    tool_calls:
      - {name: task, input: {subagent_type: explore, description: find it, prompt: "Where is main?"}}
    usage: {input_tokens: 1200, output_tokens: 80}
- when: {definition: explore, turn: 1}
  reply:
    text: I search.
    tool_calls:
      - {name: grep, input: {pattern: "fn main"}}
    usage: {input_tokens: 300, output_tokens: 20}
- when: {definition: explore}
  reply: {text: In src/main.rs., usage: {input_tokens: 400, output_tokens: 30}}
- when: {definition: coder}
  reply: {text: It is in src/main.rs., usage: {input_tokens: 1500, output_tokens: 40}}
"#;

fn home(script: &str) -> Home {
    let home = Home::new();
    home.write("script.yaml", script);
    home.write("src/main.rs", "fn main() {}\n");
    home
}

#[test]
fn a_task_goes_to_a_child_and_back() {
    let home = home(SPLIT);
    let done = home.posse(&["run", "--model", "scripted/script.yaml", "Where", "is", "main?"]).exits(0);
    let ps = home.posse(&["ps", "--json"]).json();
    insta::assert_snapshot!(done.screen(&home, ps["run"].as_str().expect("an id")));
}

#[test]
fn the_events_and_the_result_are_json_lines() {
    let home = home(SPLIT);
    let done = home.posse(&["run", "--json", "--model", "scripted/script.yaml", "Where is main?"]).exits(0);
    assert_eq!(done.stderr, "");
    let mut lines = done.json_lines();
    let mut result = lines.pop().expect("a result");
    let run = run_of(&result);
    assert!(result["elapsed_ms"].is_u64());
    result["elapsed_ms"] = json!(0);
    assert_eq!(
        result,
        json!({
            "type": "result", "version": 1, "run": run, "status": "completed", "text": "It is in src/main.rs.",
            "usage": {
                "input_tokens": 3400, "output_tokens": 170, "cached_tokens": 0, "cache_write_tokens": 0,
                "reasoning_tokens": 0, "usd_known": 0.0, "usd_at_most": 0.0, "unpriced_tokens": 0,
                "cut_off_calls": 0, "cut_off_tokens_at_most": 0,
            },
            "elapsed_ms": 0, "refused": [], "refused_count": 0, "unchanged": [], "turns": 4, "agents": 2, "failed": [], "turns_exhausted": false, "turn_limited": [], "exit": 0,
        })
    );
    for (number, event) in lines.iter().enumerate() {
        let mut keys: Vec<&str> = event.as_object().expect("an object").keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["agent_id", "at", "detail", "kind", "seq", "summary", "type", "version"]);
        assert_eq!(event["seq"], number + 1);
    }
    let logs = home.posse(&["logs", "--json", &run]).exits(0);
    assert_eq!(logs.json_lines(), lines, "the journal tells the same");
}

#[test]
fn a_known_price_is_a_number() {
    let home = home(
        "{facts: {price: {input: 3, output: 15}}, rules: [{reply: {text: done, usage: {input_tokens: 1000, output_tokens: 100}}}]}",
    );
    let result = home.posse(&["run", "--json", "--model", "scripted/script.yaml", "x"]).exits(0).result();
    assert_eq!(result["usage"]["usd_known"], json!(0.0045));
}

#[test]
fn the_request_can_come_from_standard_input() {
    let home = home("- when: {contains: two lines}\n  reply: {text: read}\n");
    let request = home.write("request.txt", "a request\nof two lines\n");
    let mut command = home.command(&["run", "--model", "scripted/script.yaml", "-"]);
    command.stdin(std::fs::File::open(request).expect("the request"));
    let output = command.output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "read\n");
}

#[test]
fn a_child_in_the_background_is_heard_of_and_its_result_wakes_the_parent() {
    let home = home(
        r"
- when: {definition: coder, turn: 1}
  reply:
    tool_calls:
      - {name: task, input: {subagent_type: explore, description: survey, prompt: survey it, run_in_background: true}}
- when: {definition: coder, contains: surveyed}
  reply: {text: All is known now.}
- when: {definition: coder}
  reply: {text: I wait.}
- when: {definition: explore}
  reply: {text: surveyed}
  latency_ms: 50
",
    );
    let done = home.posse(&["run", "--json", "--model", "scripted/script.yaml", "survey"]).exits(0);
    assert_eq!(done.result()["text"], "All is known now.");
    let lines = done.json_lines();
    let at = |fits: &dyn Fn(&Value) -> bool| lines.iter().position(fits).expect("an event");
    let told = at(&|event| event["kind"] == "agent.tool_finished" && event["detail"]["tool"] == "task");
    let closed = at(&|event| event["kind"] == "agent.subagent_closed");
    let heard = at(&|event| event["kind"] == "agent.message_received");
    assert!(told < closed && closed < heard, "{told} {closed} {heard}");
}

#[test]
fn a_child_too_deep_is_refused_and_its_parent_reads_why() {
    let home = home(
        r"
- when: {turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: lead, description: deeper, prompt: go deeper}}]}
- when: {contains: MAX_DEPTH_EXCEEDED}
  reply: {text: as deep as it goes}
- reply: {text: back}
",
    );
    home.write("agents.json", r#"{"lead": {"prompt": "You lead.", "spawns": ["lead"]}}"#);
    let args = ["run", "--json", "--model", "scripted/script.yaml", "--agents", "agents.json"];
    let run = |more: &[&str]| {
        let done = home.posse(&[&args, more, &["--agent", "lead", "go"]].concat()).exits(0);
        let refused: Vec<Value> =
            done.json_lines().into_iter().filter(|event| event["kind"] == "agent.subagent_refused").collect();
        (done.result()["agents"].clone(), refused)
    };
    let (agents, refused) = run(&[]);
    assert_eq!((agents, refused.len()), (json!(3), 1), "depths 0, 1 and 2");
    assert_eq!(refused[0]["detail"]["code"], "MAX_DEPTH_EXCEEDED");
    let reason = refused[0]["detail"]["reason"].as_str().expect("a reason");
    assert!(reason.contains("maximum depth 2") && reason.contains("at depth 2"), "{reason}");
    let (agents, refused) = run(&["--max-depth", "0"]);
    assert_eq!((agents, refused.len()), (json!(1), 1), "zero means none");
}

#[test]
fn a_child_whose_model_fails_is_tried_again() {
    let home = home(
        r"
- when: {definition: coder, turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: explore, description: look, prompt: look}}]}
- when: {definition: explore}
  error: {status: 529, message: overloaded}
  times: 1
- reply: {text: found}
",
    );
    let done = home.posse(&["run", "--model", "scripted/script.yaml", "look"]).exits(0);
    assert!(done.stderr.contains(".1 attempt 2: overloaded\n"), "{}", done.stderr);
    assert!(!done.stderr.contains("failed"), "{}", done.stderr);
}

#[test]
fn a_failed_child_is_in_the_result_of_a_run_that_completed() {
    let home = home(
        r#"
- when: {definition: coder, turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: explore, description: look, prompt: look}}]}
- when: {definition: explore}
  error: {status: 500, message: broken}
- reply: {text: "done without it"}
"#,
    );
    let result = home.posse(&["run", "--json", "--model", "scripted/script.yaml", "look"]).exits(0).result();
    assert_eq!(result["status"], "completed");
    let failed = result["failed"].as_array().expect("a list");
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["id"], format!("{}.1", run_of(&result)));
    assert_eq!(failed[0]["code"], "MODEL_ERROR");
}

#[test]
fn the_exit_code_tells_how_the_run_ended() {
    let home = home("- error: {status: 500, message: the model is gone}\n");
    let done = home.posse(&["run", "--model", "scripted/script.yaml", "x"]).exits(1);
    assert_eq!(done.stdout, "");
    assert!(done.stderr.ends_with("  the model is gone (MODEL_ERROR)\n"), "{}", done.stderr);
    let done = home.posse(&["run", "--json", "--model", "scripted/script.yaml", "x"]).exits(1);
    assert_eq!((&done.result()["status"], &done.result()["exit"]), (&json!("failed"), &json!(1)));

    // It keeps working until its tokens are used up.
    home.write("script.yaml", WORKS_ON);
    let run = ["run", "--json", "--model", "scripted/script.yaml", "--max-tokens", "30000", "x"];
    let result = home.posse(&run).exits(5).result();
    assert_eq!((&result["status"], &result["exit"]), (&json!("failed"), &json!(5)));
}

/// An agent that works for as long as it may, and then writes its report.
const WORKS_ON: &str = "- when: {contains: \"is used up\"}\n  reply: {text: What I found.}\n\
                        - reply: {text: I look., tool_calls: [{name: list, input: {path: .}}]}\n";

#[test]
fn a_run_that_a_limit_ends_has_a_report_and_one_without_room_for_it_does_not_start() {
    let home = home(WORKS_ON);
    let mut refused = 0;
    for (flag, value) in [
        ("--max-tokens", "0"),
        ("--max-tokens", "5000"),
        ("--max-tokens", "15000"),
        ("--max-tokens", "22000"),
        ("--max-tokens", "26000"),
        ("--max-tokens", "30000"),
    ] {
        let done = home.posse(&["run", "--model", "scripted/script.yaml", flag, value, "x"]);
        if done.code == Some(2) {
            assert!(done.stderr.contains("the first call and a report need"), "{value}: {}", done.stderr);
            assert!(done.stderr.contains("--max-tokens none"), "{value}: {}", done.stderr);
            refused += 1;
            continue;
        }
        let done = done.exits(5);
        assert_eq!(done.stdout, "What I found.\n", "{value}: {}", done.stderr);
        let reason = format!("  the budget of the run is exhausted: its limit is {value} tokens, of which");
        assert!(done.stderr.contains(&reason), "{value}: {}", done.stderr);
        assert!(done.stderr.contains("a new run with a higher limit"), "{value}: {}", done.stderr);
    }
    assert!((2..=4).contains(&refused), "{refused}");
}

#[test]
fn a_run_outlives_the_readers_of_its_output() {
    let home = home(SPLIT);
    for args in [&["run"] as &[&str], &["run", "--json"]] {
        let args = [args, &["--model", "scripted/script.yaml", "x"]].concat();
        let mut command = home.command(&args);
        let mut child = command
            .env("POSSE_LOG", "debug")
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("it starts");
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().expect("it ends").code(), Some(0), "{args:?}");
        assert_eq!(home.posse(&["ps", "--json", "-n", "1"]).json()["status"], "completed");
    }
}
