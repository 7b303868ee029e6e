//! Inspecting a run: ps, show, trace, explain, verify.

use serde_json::json;

use crate::support::{Home, run_of};

const SCRIPT: &str = r#"
- when: {definition: coder, turn: 1}
  reply:
    text: I split this.
    tool_calls:
      - {name: task, input: {subagent_type: explore, description: find it, prompt: "Find it in src."}}
      - {name: task, input: {subagent_type: general, description: change it, prompt: "Change it."}}
    usage: {input_tokens: 1200, output_tokens: 80}
- when: {definition: explore, turn: 1}
  reply:
    tool_calls:
      - {name: list, input: {path: src}}
      - {name: write, input: {path: a.txt, content: no}}
      - {name: read, input: '{"path": '}
    usage: {input_tokens: 300, output_tokens: 20}
- when: {definition: explore}
  reply: {text: "Found:\n\n- src/main.rs", usage: {input_tokens: 400, output_tokens: 30}}
  latency_ms: 100
- when: {definition: general}
  error: {status: 500, message: broken}
- reply: {text: It is found., usage: {input_tokens: 1500, output_tokens: 40}}
"#;

fn looked_at() -> (Home, String) {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    home.write("src/main.rs", "fn main() {}\n");
    home.write_settings("rules:\n  - {pattern: 'write:*.lock', decision: deny}\n");
    let done = home.posse(&["run", "--json", "--model", "scripted/script.yaml", "Find it,\nand change it."]);
    let run = run_of(&done.exits(0).result());
    (home, run)
}

#[test]
fn the_list_of_runs_shows_what_became_of_each() {
    let (home, run) = looked_at();
    let list = home.posse(&["ps"]).exits(0);
    insta::assert_snapshot!(list.screen(&home, &run));
    home.posse(&["run", "--model", "scripted/script.yaml", "another"]).exits(0);
    let lines = home.posse(&["ps", "--json"]).json_lines();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[1]["run"], &lines[1]["status"]), (&json!(run), &json!("completed")), "newest first");
    assert_eq!(home.posse(&["ps", "--json", "-n", "1"]).json_lines().len(), 1);
}

#[test]
fn a_run_is_shown_with_its_agents() {
    let (home, run) = looked_at();
    insta::assert_snapshot!(home.posse(&["show", &run]).exits(0).screen(&home, &run));
}

#[test]
fn every_verb_takes_the_newest_run_as_last_and_an_agent_of_it() {
    let home = Home::new();
    let none = home.posse(&["show", "last"]).exits(2).stderr;
    assert!(none.contains("there are no runs yet"), "{none}");
    drop(home);
    let (home, run) = looked_at();
    for (args, agent) in [
        (&["show"][..], ""),
        (&["wait"], ""),
        (&["logs"], ".1"),
        (&["trace"], ".1"),
        (&["report"], ".1"),
        (&["stats"], ""),
        (&["verify"], ""),
    ] {
        let told = |id: String| home.posse(&[args, &[&id]].concat()).exits(0).stdout;
        assert_eq!(told(format!("last{agent}")), told(format!("{run}{agent}")), "{args:?}");
    }
    let prefix = &run[..6];
    for id in ["last.1", &format!("{prefix}.1"), &format!("{run}.1")] {
        home.posse(&["explain", id, "bash"]).exits(0);
        let ended = home.posse(&["send", id, "a message"]).exits(1).stderr;
        assert!(ended.contains(&format!("agent {run}.1 has finished")), "{ended}");
    }
    for args in [&["explain", "last.99", "bash"][..], &["send", "last.99", "a message"]] {
        let unknown = home.posse(args).exits(2).stderr;
        assert!(unknown.contains("has 1, 2; ") && unknown.contains("lists its agents"), "{unknown}");
    }
}

#[test]
fn a_run_is_shown_as_json() {
    let (home, run) = looked_at();
    let mut show = home.posse(&["show", "--json", &run[..4]]).exits(0).json();
    let taken = show.as_object_mut().and_then(|show| show.remove("disk_bytes"));
    assert!(taken.is_some_and(|bytes| bytes.is_u64()), "what it takes on disk");
    let journal = home.posse(&["logs", "--json", &run]).exits(0).json_lines();
    assert_eq!(show["events"], journal.len());
    show["events"] = json!(0);
    assert!(show["elapsed_ms"].is_u64());
    show["elapsed_ms"] = json!(0);
    for time in ["created_at", "ended_at"] {
        assert!(show[time].as_str().is_some_and(|at| at.ends_with('Z')), "{show}");
        show[time] = json!("");
    }
    assert!(show["refused"][0]["at"].is_string() && show["refused"][0]["seq"].is_u64());
    show["refused"][0]["at"] = json!("");
    show["refused"][0]["seq"] = json!(0);
    for part in ["agents", "by_depth"] {
        for entry in show[part].as_array_mut().expect("a list") {
            assert!(entry["wall_ms"].is_u64());
            entry["wall_ms"] = json!(0);
        }
    }
    let usage = |input: u64, output: u64| {
        json!({
            "input_tokens": input, "output_tokens": output, "cached_tokens": 0, "cache_write_tokens": 0,
            "reasoning_tokens": 0, "usd_known": 0.0, "usd_at_most": 0.0, "unpriced_tokens": 0,
            "cut_off_calls": 0, "cut_off_tokens_at_most": 0,
        })
    };
    let dir = home.project().canonicalize().expect("a path").display().to_string();
    let model = format!("scripted/{dir}/script.yaml");
    let zero = usage(0, 0);
    assert_eq!(
        show,
        json!({
            "version": 1, "run": run, "status": "completed", "turns_exhausted": false, "elapsed_ms": 0, "events": 0,
            "request": "Find it,", "model": model, "created_at": "", "ended_at": "",
            "dir": dir,
            "usage": usage(3400, 170), "refused_count": 1,
            "refused": [{"agent": format!("{run}.1"), "operation": "write:a.txt", "code": "PERMISSION_DENIED",
                         "by": "grant", "reason": "the tool is not among the agent's tools", "at": "", "seq": 0}],
            "agents": [
                {"id": run, "parent": null, "depth": 0, "definition": "coder", "title": "Find it,", "model": model, "state": "closed",
                 "final_status": "completed", "close_reason": "integrated", "turns": 2, "turn_limit": 40, "tool_calls": 2,
                 "open_calls": 0, "refused": 0, "files_changed": 0, "wall_ms": 0, "turns_exhausted": false, "usage": usage(2700, 120), "subtree_usage": usage(3400, 170)},
                {"id": format!("{run}.1"), "parent": run, "depth": 1, "definition": "explore", "title": "find it", "model": model, "state": "closed",
                 "final_status": "completed", "close_reason": "integrated", "turns": 2, "turn_limit": 15, "tool_calls": 3,
                 "open_calls": 0, "refused": 1, "files_changed": null, "wall_ms": 0, "turns_exhausted": false, "usage": usage(700, 50), "subtree_usage": usage(700, 50)},
                {"id": format!("{run}.2"), "parent": run, "depth": 1, "definition": "general", "title": "change it", "model": model,
                 "code": "MODEL_ERROR", "reason": "broken", "state": "closed",
                 "final_status": "failed", "close_reason": "execution", "turns": 0, "turn_limit": 20, "tool_calls": 0,
                 "open_calls": 0, "refused": 0, "files_changed": null, "wall_ms": 0, "turns_exhausted": false, "usage": zero, "subtree_usage": zero},
            ],
            "by_depth": [
                {"depth": 0, "agents": 1, "turns": 2, "tool_calls": 2, "wall_ms": 0, "usage": usage(2700, 120)},
                {"depth": 1, "agents": 2, "turns": 2, "tool_calls": 3, "wall_ms": 0, "usage": usage(700, 50)},
            ],
        })
    );
}

#[test]
fn the_trace_of_an_agent_is_its_whole_conversation() {
    let (home, run) = looked_at();
    insta::assert_snapshot!("trace_root", home.posse(&["trace", &run]).exits(0).screen(&home, &run));
    let child = home.posse(&["trace", &format!("{}.1", &run[..5])]).exits(0);
    insta::assert_snapshot!("trace_child", child.screen(&home, &run));
}

#[test]
fn long_texts_are_whole_in_a_trace() {
    let home = Home::new();
    let long = "0123456789".repeat(2_000);
    home.write("script.yaml", &format!("- reply: {{text: '{long}'}}\n"));
    let done = home.posse(&["run", "--json", "--model", "scripted/script.yaml", &long]).exits(0);
    assert_eq!(done.result()["text"], json!(long));
    let run = run_of(&done.result());
    let trace = home.posse(&["trace", &run]).exits(0);
    assert_eq!(trace.stdout.matches(&long).count(), 3, "request, reply and report");
    let lines = home.posse(&["trace", "--json", &run]).exits(0).json_lines();
    assert_eq!(lines[0]["detail"]["request"], json!(long));
    assert!(lines.iter().any(|event| event["detail"]["reply"]["text"] == json!(long)));
}

#[test]
fn a_decision_is_explained_layer_by_layer() {
    let (home, run) = looked_at();
    let explain = |agent: &str, operation: &str| {
        home.posse(&["explain", &format!("{run}{agent}"), operation]).exits(0).screen(&home, &run)
    };
    insta::assert_snapshot!("explain_denied_by_the_operator", explain(".2", "write:Cargo.lock"));
    insta::assert_snapshot!("explain_not_granted", explain(".1", "write:a.txt"));
    let json = home.posse(&["explain", "--json", &format!("{run}.2"), "write:a.txt"]).exits(0).json();
    assert_eq!(json["decision"], "allow");
    assert_eq!(json["layers"][0], json!({"layer": "operator", "decision": null, "source": null}));
}

#[test]
fn a_journal_is_verified() {
    let (home, run) = looked_at();
    let events = home.posse(&["logs", "--json", &run]).json_lines().len();
    let verified = home.posse(&["verify", "--json", &run]).exits(0).json();
    assert_eq!((&verified["ok"], &verified["events"]), (&json!(true), &json!(events)));
    let head = verified["head"].as_str().expect("a hash");
    let all = home.posse(&["verify", "--all"]).exits(0);
    assert_eq!(all.stdout, format!("run {run} is intact: {events} events, head {head}\n"));
}

#[test]
fn a_picture_that_was_read_is_named_and_never_printed() {
    let home = Home::new();
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0\x08\x06\0\0\0".to_vec();
    png.resize(12_000, 0);
    std::fs::write(home.write("shot.png", ""), &png).expect("a picture");
    home.write(
        "script.yaml",
        "- when: {turn: 1}\n  reply: {tool_calls: [{name: read, input: {path: shot.png}}]}\n- reply: {text: Seen.}\n",
    );
    let done = home.posse(&["run", "--json", "--model", "scripted/script.yaml", "Look."]).exits(0);
    let run = run_of(&done.result());
    let base64 = "iVBORw0KGgo";
    let trace = home.posse(&["trace", &run]).exits(0);
    assert!(
        trace.stdout.contains("`shot.png` is a picture: PNG, 640 x 480, 12000 bytes."),
        "{}",
        trace.stdout
    );
    assert!(trace.stdout.contains("[1 picture (image/png, 12 kB)]"), "{}", trace.stdout);
    let logs = home.posse(&["logs", &run]).exits(0);
    assert!(logs.stdout.contains("read done, 1 picture (image/png, 12 kB)"), "{}", logs.stdout);
    let json = home.posse(&["logs", "--json", &run]).exits(0);
    for (what, printed) in [("trace", &trace), ("logs", &logs), ("logs --json", &json), ("run --json", &done)]
    {
        assert!(!printed.stdout.contains(base64), "{what}");
    }
    // What the model saw is in the journal all the same, and is returned completely.
    let full = home.posse(&["trace", "--json", &run]).exits(0);
    assert!(full.stdout.contains(base64), "trace --json has everything");
    home.posse(&["verify", &run]).exits(0);
}
