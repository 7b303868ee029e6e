//! Permissions: flags, questions that wait for a user, and what `explain` reports about every decision.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Done, Home, RunningCommand, run_of};

/// Agents that make these calls, one per turn, and end: the root's, and its child's if it has one.
fn script(root: &[Value], child: &[Value]) -> String {
    let mut rules: Vec<Value> = Vec::new();
    for (definition, calls) in [("coder", root), ("general", child)] {
        for (turn, call) in calls.iter().enumerate() {
            let when = json!({"definition": definition, "turn": turn + 1});
            rules.push(json!({"when": when, "reply": {"text": "next", "tool_calls": [call]}}));
        }
    }
    rules.push(json!({"when": {}, "reply": {"text": "all done"}}));
    // JSON is YAML.
    Value::from(rules).to_string()
}

fn write(path: &str) -> Value {
    json!({"name": "write", "input": {"path": path, "content": "x"}})
}

fn bash(command: &str) -> Value {
    json!({"name": "bash", "input": {"command": command}})
}

fn child() -> Value {
    let input = json!({"subagent_type": "general", "description": "a part", "prompt": "do it"});
    json!({"name": "task", "input": input})
}

fn home(root: &[Value], child: &[Value]) -> Home {
    let home = Home::new();
    home.write("../script.yaml", &script(root, child));
    home
}

const MODEL: [&str; 2] = ["--model", "scripted/../script.yaml"];

fn run(flags: &[&str]) -> Vec<String> {
    let args = [&["run", "--json"], &MODEL[..], flags, &["do it"]].concat();
    args.into_iter().map(str::to_owned).collect()
}

fn ran(home: &Home, flags: &[&str]) -> Done {
    let args = run(flags);
    home.posse(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

fn started(home: &Home, flags: &[&str]) -> RunningCommand {
    let args = run(flags);
    home.start(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

fn outputs(events: &[Value]) -> Vec<String> {
    let finished = events.iter().filter(|event| event["kind"] == "agent.tool_finished");
    finished.map(|event| event["detail"]["output"].as_str().unwrap_or_default().to_owned()).collect()
}

fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["kind"] == kind).collect()
}

/// Compares every decision in a run's journal with the output of `explain`. Returns their number.
#[track_caller]
pub(crate) fn check_explained(home: &Home, run: &str) -> usize {
    let events = home.posse(&["logs", "--json", run]).exits(0).json_lines();
    let decided = of_kind(&events, "agent.permission_decided");
    for event in &decided {
        let (agent, detail) = (event["agent_id"].as_str().expect("an id"), &event["detail"]);
        let operation = detail["operation"].as_str().expect("an operation");
        let explained = home.posse(&["explain", "--json", agent, operation]).exits(0).json();
        // Approvals since then count by now; the layer that asked reports that.
        let always = of_kind(&events, "agent.input_answered").into_iter().any(|answered| {
            let same = |asked: &&&Value| {
                asked["detail"]["approval"] == answered["detail"]["approval"]
                    && asked["detail"]["operation"] == operation
            };
            answered["detail"]["always"] == true
                && of_kind(&events, "agent.input_requested").iter().find(same).is_some()
        });
        if always {
            let says = explained["layers"].as_array().expect("layers").iter();
            let mut asked = says.filter(|layer| layer["layer"] == detail["layer"]);
            let source = asked.next().expect("the layer that asked")["source"].as_str().expect("a source");
            assert_eq!(explained["decision"], "allow");
            assert!(source.starts_with("because a user allowed"), "{source}");
            continue;
        }
        assert_eq!(explained["decision"], detail["decision"], "{agent} {operation}: {explained}");
        assert_eq!(explained["layer"], detail["layer"], "{agent} {operation}: {explained}");
        assert_eq!(explained["rule"], detail["rule"], "{agent} {operation}: {explained}");
    }
    decided.len()
}

#[test]
fn flags_rule_the_run_and_allow_lifts_only_what_a_definition_asks() {
    let calls = [
        write("asked/a.txt"),
        write("denied/a.txt"),
        write("denied/but-asked.txt"),
        write("free.txt"),
        bash("git push origin main"),
        bash("git push origin main --force"),
        bash("sudo true"),
        write(".github/workflows/ci.yml"),
        write(".envrc"),
        write(".git/config"),
    ];
    let home = home(&calls, &[]);
    let flags = [
        ["--deny", "write:denied/**"],
        ["--ask", "write:asked/**"],
        ["--ask", "write:denied/but-asked.txt"],
        ["--allow", "write:asked/**"],
        ["--allow", "write:denied/a.txt"],
        ["--allow", "bash:git push origin main"],
        ["--allow", "write:.github/**"],
    ]
    .concat();
    let done = ran(&home, &flags).exits(0);
    let events = done.json_lines();
    let said = outputs(&events);
    for (at, expected) in [
        (0, "no user can be asked (ask: run, by the rule `write:asked/**`)"),
        (1, "is not allowed (deny: run, by the rule `write:denied/**`)"),
        (2, "no user can be asked (ask: run, by the rule `write:denied/but-asked.txt`)"),
        (5, "(ask: definition coder, by the rule `bash:git push*`); a user can allow `bash:"),
        (6, "(ask: definition coder, by the rule `bash:sudo *`)"),
        (8, "`.envrc` is a protected name; a user opens it by allowing `write:.envrc`"),
        (9, "`.git` is a protected name, and nothing opens it"),
    ] {
        assert!(
            said[at].starts_with("PERMISSION_DENIED: ") && said[at].contains(expected),
            "{at}: {}",
            said[at]
        );
    }
    for at in [3, 4, 7] {
        assert!(!said[at].contains("PERMISSION_DENIED"), "{at}: {}", said[at]);
    }
    let run = run_of(&events[0]);
    for (path, there) in [("free.txt", true), (".github/workflows/ci.yml", true), ("denied/a.txt", false)] {
        assert_eq!(home.made(&run, path), there, "{path}");
    }
    assert_eq!(check_explained(&home, &run), 7);
    let network = home.posse(&["explain", &run, "network"]).exits(0);
    assert!(network.stdout.contains("deny: rule `network` of definition coder"), "{}", network.stdout);
    assert!(
        network
            .stdout
            .contains("Posse never asks about the network; allow it in advance with --allow network"),
        "{}",
        network.stdout
    );
    let unknown = home.posse(&["explain", &run, "frobnicate:x"]).exits(2);
    assert!(unknown.stderr.contains("unknown tool `frobnicate`"), "{unknown:?}");
    let opened = home.posse(&["explain", &run, "bash:git push origin main"]).exits(0);
    assert!(
        opened.stdout.contains("because a user allowed `bash:git push origin main`"),
        "{}",
        opened.stdout
    );
}

#[test]
fn a_bad_pattern_is_a_usage_error_that_names_the_flag_and_the_problem() {
    let home = home(&[], &[]);
    for (flag, pattern, problem) in [
        ("--allow", "write:../secrets", "a path with `..` is always denied"),
        ("--ask", "bash:", "nothing follows the colon"),
        ("--deny", "*:x", "stands for every tool"),
        ("--on-ask", "maybe", "expected `deny` or `escalate`"),
    ] {
        let done = ran(&home, &[flag, pattern]).exits(2);
        assert!(done.stderr.contains(flag) && done.stderr.contains(problem), "{}", done.stderr);
    }
    home.write_settings("on_ask: maybe\n");
    let done = ran(&home, &[]).exits(2);
    assert!(done.stderr.contains("settings.yaml:1"), "{}", done.stderr);
    assert!(!home.state_dir().exists(), "nothing was done");
}

#[test]
fn a_childs_question_is_a_no_unless_it_escalates_to_somebody_who_answers() {
    let home = home(&[child()], &[write("by-the-child.txt")]);
    let done = ran(&home, &["--ask", "write"]).exits(0);
    let said = outputs(&done.json_lines());
    assert!(said[0].contains("sub-agents cannot request permission"), "{said:?}");
    assert_eq!(check_explained(&home, &run_of(&done.json_lines()[0])), 1);
    let child = format!("{}.1", run_of(&done.json_lines()[0]));
    let explained = home.posse(&["explain", &child, "write:by-the-child.txt"]).exits(0).stdout;
    let refused = "in this run it is refused: the run does not let sub-agents ask (on_ask: deny)";
    assert!(explained.contains("\nask: ") && explained.contains(refused), "{explained}");
    let json = home.posse(&["explain", "--json", &child, "write:by-the-child.txt"]).exits(0).json();
    assert_eq!((&json["decision"], &json["ask_is_refused"]), (&json!("ask"), &json!(true)));
    home.write_settings("on_ask: escalate\n");
    let mut going = started(&home, &["--ask", "write"]);
    let asked = going.until_event(".1", "agent.input_requested");
    let run = run_of(&asked);
    let agent = format!("{run}.1");
    let waits = "needs your approval: write:by-the-child.txt";
    let ps = home.posse(&["ps"]).exits(0);
    assert!(ps.stderr.contains(&format!("{agent} {waits}")), "{}", ps.stderr);
    assert_eq!(home.posse(&["ps", "--json"]).json_lines()[0]["waiting"], 1);
    let show = home.posse(&["show", &run]).exits(0);
    assert!(show.stdout.contains(&format!("[blocked: {waits}]")), "{}", show.stdout);
    assert_eq!(home.posse(&["show", "--json", &run]).json()["agents"][1]["blocked"], waits);
    let trace = home.posse(&["trace", &agent]).exits(0);
    assert!(trace.stdout.contains(&format!("blocked: {waits}")), "{}", trace.stdout);
    let wrong = home.posse(&["approve", "--yes", &agent, "call_9_9"]).exits(1);
    assert!(wrong.stderr.contains("the call call_9_9 does not wait for an answer"), "{}", wrong.stderr);
    let pointless = home.posse(&["approve", "--yes", "--always"]).exits(1);
    assert!(pointless.stderr.contains("rule `write` (run) asks every time"), "{}", pointless.stderr);
    let approved = home.posse(&["approve", "--yes", "--json"]).exits(0);
    assert!(approved.stderr.contains("write:by-the-child.txt"), "{}", approved.stderr);
    let line = approved.json();
    assert_eq!(
        (&line["agent"], &line["decision"], &line["carried"]),
        (&json!(agent), &json!("allow"), &json!(true))
    );
    going.finish().exits(0);
    assert!(home.made(&run, "by-the-child.txt"));
    assert_eq!(check_explained(&home, &run), 1);
    let late = home.posse(&["approve", "--yes", &run]).exits(1);
    assert!(late.stderr.contains("has ended"), "{}", late.stderr);
    let nothing = home.posse(&["deny", "--yes"]).exits(1);
    assert!(nothing.stderr.contains("nothing is waiting for approval"), "{}", nothing.stderr);
}

#[test]
fn an_answer_given_between_a_kill_and_a_resume_counts() {
    for (verb, happens) in
        [(&["approve", "--yes"] as &[&str], true), (&["deny", "--yes", "--reason", "not this file"], false)]
    {
        let home = home(&[write("asked.txt")], &[]);
        let mut going = started(&home, &["--ask", "write", "--on-ask", "escalate"]);
        let run = run_of(&going.until_event("", "agent.input_requested"));
        going.kill();
        let answered = home.posse(&[verb, &[run.as_str()][..]].concat()).exits(0);
        assert!(answered.stderr.contains(&format!("`posse resume {run}`")), "{}", answered.stderr);
        let twice = home.posse(&[verb, &[run.as_str()][..]].concat()).exits(1);
        assert!(twice.stderr.contains("was already answered"), "{}", twice.stderr);
        let show = home.posse(&["show", &run]).exits(0);
        assert!(show.stdout.contains("asked.txt (answered)]"), "{}", show.stdout);
        let done = home.posse(&["resume", "--json", &run]).exits(0);
        assert_eq!(home.made(&run, "asked.txt"), happens);
        let events = home.posse(&["logs", "--json", &run]).json_lines();
        for kind in ["agent.permission_decided", "agent.input_requested", "agent.input_answered"] {
            assert_eq!(of_kind(&events, kind).len(), 1, "{kind}");
        }
        if !happens {
            let said = outputs(&done.json_lines());
            assert_eq!(said, ["PERMISSION_DENIED: the user denied `write:asked.txt`: not this file"]);
        }
        assert_eq!(check_explained(&home, &run), 1);
        home.posse(&["verify", &run]).exits(0);
    }
}

#[test]
fn a_question_outlives_its_process_and_is_answered_after_the_resume() {
    let home = home(&[write("asked.txt")], &[]);
    let flags = ["--ask", "write", "--on-ask", "escalate"];
    let mut going = started(&home, &flags);
    let run = run_of(&going.until_event("", "agent.input_requested"));
    going.kill();
    let mut resumed = home.start(&["resume", "--json", &run]);
    resumed.until_event("", "run.resumed");
    home.posse(&["approve", "--yes", &run]).exits(0);
    let done = resumed.finish().exits(0);
    assert!(of_kind(&done.json_lines(), "agent.input_requested").is_empty(), "not asked twice");
    assert!(home.made(&run, "asked.txt"));
}

#[test]
fn several_questions_are_listed_and_one_is_picked() {
    let home = Home::new();
    // Readers run in parallel.
    let input = json!({"subagent_type": "explore", "description": "a part", "prompt": "look"});
    let look = json!({"name": "task", "input": input});
    let rules = json!([
        {"when": {"definition": "coder", "turn": 1}, "reply": {"text": "two", "tool_calls": [look, look]}},
        {"when": {"definition": "explore", "turn": 1}, "reply": {"text": "", "tool_calls":
            [{"name": "read", "input": {"path": "a.txt"}}, {"name": "read", "input": {"path": "b.txt"}}]}},
        {"when": {}, "reply": {"text": "all done"}},
    ]);
    home.write("../script.yaml", &rules.to_string());
    home.write("a.txt", "a");
    home.write("b.txt", "b");
    let mut going = started(&home, &["--ask", "read", "--on-ask", "escalate"]);
    let mut run = String::new();
    for _ in 0..2 {
        run = run_of(&going.until(|event| {
            event["detail"]["operation"] == "read:b.txt" && event["kind"] == "agent.input_requested"
        }));
    }
    let listed = home.posse(&["approve", "--yes"]);
    let several = listed.exits(2);
    assert!(several.stderr.contains("calls wait for an answer"), "{}", several.stderr);
    let lines: Vec<&str> = several.stdout.lines().collect();
    assert_eq!(lines.len(), home.posse(&["deny", "--yes", "--json"]).exits(2).json_lines().len());
    let first: Vec<&str> = lines[0].split("  ").collect();
    home.posse(&["approve", "--yes", first[0], first[1]]).exits(0);
    while home.posse(&["ps", "--json"]).json_lines()[0]["status"] == "running" {
        let left = home.posse(&["approve", "--yes", "--json"]);
        let Some(next) = left.json_lines().into_iter().next().filter(|_| left.code == Some(2)) else {
            continue;
        };
        let (agent, call) =
            (next["agent"].as_str().expect("an id"), next["call_id"].as_str().expect("a call"));
        home.posse(&["deny", "--yes", agent, call]);
    }
    let done = going.finish().exits(0);
    assert!(of_kind(&done.json_lines(), "agent.input_answered").len() >= 4);
    assert_eq!(check_explained(&home, &run), 4);
}

#[test]
fn always_is_kept_for_the_directory_exactly_and_counts_in_the_next_run() {
    let home = home(&[bash("git push origin main"), bash("git push origin main2")], &[]);
    let mut going = started(&home, &["--on-ask", "escalate"]);
    let run = run_of(&going.until_event("", "agent.input_requested"));
    let approved = home.posse(&["approve", "--yes", "--always", "--json", &run]).exits(0);
    assert_eq!(approved.json()["literal"], "bash:git push origin main");
    assert!(approved.stderr.contains("always allowed from now on in "), "{}", approved.stderr);
    let longer = going.until_event("", "agent.input_requested");
    assert_eq!(longer["detail"]["operation"], "bash:git push origin main2", "a longer command asks again");
    home.posse(&["deny", "--yes", &run]).exits(0);
    let done = going.finish().exits(0);
    let pushed = &outputs(&done.json_lines())[0];
    assert!(
        !pushed.contains("PERMISSION_DENIED") && pushed.contains("; a workspace has no remote: "),
        "{pushed}"
    );
    assert_eq!(check_explained(&home, &run), 2);
    let kept = fs::read_to_string(home.state_dir().join("approvals.json")).expect("a file");
    assert!(kept.contains("bash:git push origin main\"") && !kept.contains("main2"), "{kept}");
    let again = ran(&home, &[]).exits(0);
    let said = outputs(&again.json_lines());
    assert!(!said[0].contains("PERMISSION_DENIED") && said[1].contains("no user can be asked"), "{said:?}");
    assert_eq!(check_explained(&home, &run_of(&again.json_lines()[0])), 1);
    fs::create_dir(home.project().join("elsewhere")).expect("a folder");
    let elsewhere = ran(&home, &["--dir", "elsewhere"]).exits(0);
    assert!(
        outputs(&elsewhere.json_lines())[0].contains("no user can be asked"),
        "another directory, another question"
    );
}

#[test]
fn a_cancel_ends_a_run_that_waits_for_a_person() {
    let home = home(&[child()], &[write("asked.txt")]);
    let mut going = started(&home, &["--ask", "write", "--on-ask", "escalate"]);
    going.until_event(".1", "agent.input_requested");
    going.signal(Signal::INT);
    let done = going.finish().exits(3);
    let said = outputs(&done.json_lines());
    assert!(said[0].starts_with("CANCELLED: "), "{said:?}");
    assert!(!home.made(&run_of(&done.json_lines()[0]), "asked.txt"));
}
