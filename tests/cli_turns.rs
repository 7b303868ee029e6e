//! A run that its turn limit cut off: shown everywhere, and exit code 5.

use serde_json::{Value, json};

use crate::support::{Home, run_of};

/// Agents that keep working until their last turn, and then write a report.
const SCRIPT: &str = r#"
- when: {contains: "This is your last turn"}
  reply: {text: Half of it.}
- when: {definition: coder, turn: 1, contains: delegate}
  reply: {text: I split., tool_calls: [{name: task, input: {subagent_type: explore, description: look, prompt: look, max_turns: 2}}]}
- when: {definition: coder, turn: 2, contains: Half}
  reply: {text: All of it.}
- reply: {text: I go on., tool_calls: [{name: list, input: {path: .}}]}
"#;

fn home() -> Home {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    home
}

const MODEL: &str = "scripted/script.yaml";

#[test]
fn a_run_cut_off_by_its_turn_limit_shows_it_everywhere_and_exits_with_5() {
    let home = home();
    let plain = home.posse(&["run", "--model", MODEL, "--max-turns", "3", "work"]).exits(5);
    assert_eq!(plain.stdout, "Half of it.\n");
    assert!(
        plain.stderr.contains("completed at its turn limit: ") && plain.stderr.contains(", 1 agent, 3 turns"),
        "{}",
        plain.stderr
    );
    assert!(plain.stderr.contains("--max-turns gives more turns"), "{}", plain.stderr);

    let result =
        home.posse(&["run", "--json", "--model", MODEL, "--max-turns", "3", "work"]).exits(5).result();
    let run = run_of(&result);
    assert_eq!((&result["status"], &result["exit"]), (&json!("completed"), &json!(5)));
    assert_eq!((&result["turns_exhausted"], &result["turn_limited"]), (&json!(true), &json!([])));
    let waited = home.posse(&["wait", "--json", &run]).exits(5).result();
    assert_eq!(waited["turns_exhausted"], true);

    let show = home.posse(&["show", &run]).exits(0).stdout;
    assert!(show.contains("completed at its turn limit after"), "{show}");
    assert!(show.lines().any(|line| line.starts_with(&run) && line.contains("turn limit")), "{show}");
    let show = home.posse(&["show", "--json", &run]).exits(0).json_lines().remove(0);
    assert_eq!(
        (&show["turns_exhausted"], &show["agents"][0]["turns_exhausted"]),
        (&json!(true), &json!(true))
    );
    let ps = home.posse(&["ps"]).exits(0).stdout;
    assert_eq!(ps.matches("turn-limit").count(), 2, "{ps}");
    let ps: Vec<Value> = home.posse(&["ps", "--json"]).exits(0).json_lines();
    assert!(ps.iter().all(|line| line["turns_exhausted"] == true && line["status"] == "completed"), "{ps:?}");
    let logs = home.posse(&["logs", &run]).exits(0).stdout;
    assert!(logs.contains("run completed at its turn limit"), "{logs}");
    let report = home.posse(&["report", &run]).exits(0);
    assert_eq!(report.stdout, "Half of it.\n");
    assert!(report.stderr.contains("was cut off by its turn limit"), "{}", report.stderr);
    let trace = home.posse(&["trace", &run]).exits(0).stdout;
    assert!(trace.contains("run completed at its turn limit"), "{trace}");
    home.posse(&["verify", &run]).exits(0);
}

#[test]
fn a_sub_agent_that_was_cut_off_is_named_and_ends_the_run_only_if_it_is_required() {
    let home = home();
    let done = home.posse(&["run", "--model", MODEL, "delegate"]).exits(0);
    assert!(done.stderr.contains(".1 finished at its turn limit: Half of it."), "{}", done.stderr);
    assert!(done.stderr.contains(".1 closed: completed at its turn limit"), "{}", done.stderr);
    assert!(done.stderr.contains(".1 completed at its turn limit\n"), "{}", done.stderr);
    assert!(!done.stderr.contains("--max-turns gives"), "{}", done.stderr);

    home.write(
        "plan.yaml",
        "goal: g\nsteps:\n  - {title: a, description: look, agent: explore, max_turns: 2}\n",
    );
    let done = home.posse(&["run", "--json", "--model", MODEL, "--plan", "plan.yaml"]).exits(5).result();
    assert_eq!((&done["status"], &done["turns_exhausted"]), (&json!("completed"), &json!(false)));
    assert_eq!(done["turn_limited"], json!([format!("{}.1", run_of(&done))]));
    let plan =
        "goal: g\nsteps:\n  - {title: a, description: look, agent: explore, max_turns: 2, required: false}\n";
    home.write("plan.yaml", plan);
    home.posse(&["run", "--model", MODEL, "--plan", "plan.yaml"]).exits(0);
}

#[test]
fn a_limit_that_ends_a_required_step_ends_the_run_with_5() {
    let home = home();
    home.write("slow.yaml", "- when: {definition: explore}\n  reply: {text: late}\n  latency_ms: 3600000\n- reply: {text: done}\n");
    let plan =
        "goal: g\nsteps:\n  - {title: a, description: look, agent: explore, timeout_ms: 1, max_retries: 0}\n";
    home.write("plan.yaml", plan);
    let run = ["run", "--json", "--model", "scripted/slow.yaml", "--plan", "plan.yaml"];
    let result = home.posse(&run).exits(5).result();
    assert!(result["failed"][0]["code"] == "TIMEOUT", "{result}");
}

#[test]
fn a_required_step_whose_last_reply_calls_tools_ends_the_run_with_its_limit() {
    let home = Home::new();
    home.write(
        "script.yaml",
        "- when: {definition: general}\n  reply: {text: More., tool_calls: [{name: list, input: {path: .}}]}\n\
         - reply: {text: The step failed.}\n",
    );
    let step = "{title: one, description: do it, max_turns: 2, max_retries: 0}";
    home.write("plan.yaml", &format!("goal: do it\nsteps: [{step}]\n"));
    let done = home.posse(&["run", "--model", MODEL, "--plan", "plan.yaml"]).exits(5);
    assert!(done.stderr.contains("failed at its turn limit"), "{}", done.stderr);
    assert!(done.stderr.contains("\n  required sub-agent 1 failed"), "{}", done.stderr);
    assert!(done.stderr.contains("(TURN_LIMIT)"), "{}", done.stderr);
    let shown = home.posse(&["show", "--json", &done.stderr[..8]]).exits(0).json();
    assert_eq!((&shown["status"], &shown["turns_exhausted"]), (&"failed".into(), &true.into()));
}

#[test]
fn a_last_reply_that_still_calls_tools_is_a_failure() {
    let home = Home::new();
    home.write("script.yaml", "- reply: {text: On and on., tool_calls: [{name: list, input: {path: .}}]}\n");
    let done = home.posse(&["run", "--model", MODEL, "--max-turns", "2", "work"]).exits(5);
    assert!(done.stderr.contains("failed at its turn limit"), "{}", done.stderr);
    assert!(done.stderr.contains("TURN_LIMIT"), "{}", done.stderr);
    assert!(done.stderr.contains("called tools instead of reporting"), "{}", done.stderr);
    assert!(done.stderr.contains("it reached its limit of 2 turns"), "{}", done.stderr);
    assert_eq!(done.stdout, "", "what it said is no report");
    let run = &done.stderr[..8];
    let show = home.posse(&["show", "--json", run]).exits(0).json();
    assert_eq!(show["turns_exhausted"], true);
    let root = &show["agents"][0];
    assert_eq!((&root["turns_exhausted"], &root["code"]), (&json!(true), &json!("TURN_LIMIT")), "{root}");
    assert_eq!(
        (&root["title"], &show["request"], &show["model"]),
        (&json!("work"), &json!("work"), &root["model"])
    );
    assert!(
        show["dir"].is_string() && show["created_at"].is_string() && show["ended_at"].is_string(),
        "{show}"
    );
    let waited = home.posse(&["wait", "--json", run]).exits(5).result();
    assert_eq!((&waited["code"], &waited["reason"]), (&json!("TURN_LIMIT"), &root["reason"]), "{waited}");
    assert!(waited["reason"].as_str().is_some_and(|reason| reason.starts_with("it used up its 2 turns")));
    for status in ["turn-limit", "failed"] {
        let ps = home.posse(&["ps", "--status", status]).exits(0).stdout;
        assert!(ps.contains(&format!("{run}  turn-limit ")), "{status}: {ps}");
    }
    assert_eq!(home.posse(&["ps", "--json", "--status", "completed"]).exits(0).stdout, "");
    assert!(!home.posse(&["report", run]).exits(0).stdout.contains("On and on."));
    assert!(home.posse(&["trace", run]).exits(0).stdout.contains("On and on."), "it is in the trace");
}
