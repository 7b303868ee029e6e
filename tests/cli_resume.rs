//! A run whose process was killed continues, and only one process executes it.

use serde_json::{Value, json};

use crate::support::{Home, RunningCommand, run_of};

/// A root and one child; the child's second turn waits, if it is set to.
fn script(latency_ms: u32) -> String {
    format!(
        r#"
- when: {{definition: coder, turn: 1}}
  reply: {{tool_calls: [{{name: task, input: {{subagent_type: general, description: write it, prompt: write}}}}]}}
- when: {{definition: general, turn: 1}}
  reply: {{tool_calls: [{{name: write, input: {{path: out.txt, content: "once\n"}}}}]}}
- when: {{definition: general}}
  reply: {{text: written}}
  latency_ms: {latency_ms}
- when: {{definition: coder}}
  reply: {{text: all done}}
"#
    )
}

/// Longer than any test: a call with this latency waits until it is killed.
const FOR_EVER: u32 = 3_600_000;

fn home() -> Home {
    let home = Home::new();
    home.write("script.yaml", &script(FOR_EVER));
    home
}

/// A run whose child waits for its second reply.
fn stuck(home: &Home) -> (RunningCommand, String) {
    let mut going = home.start(&["run", "--json", "--model", "scripted/script.yaml", "write it"]);
    going.until_event(".1", "agent.tool_finished");
    let event = going.until_event(".1", "agent.model_called");
    let run = run_of(&event);
    (going, run)
}

/// A run that was killed while its child waited; the next process will not wait.
fn interrupted(home: &Home) -> (String, String) {
    let (going, run) = stuck(home);
    let told = going.kill();
    home.write("script.yaml", &script(0));
    (run, told)
}

#[test]
fn a_killed_run_goes_on_where_it_was() {
    let home = home();
    let (run, before) = interrupted(&home);
    let ps = home.posse(&["ps", "--json"]).exits(0).json();
    assert_eq!((&ps["run"], &ps["status"], &ps["pid"]), (&json!(run), &json!("interrupted"), &Value::Null));

    let done = home.posse(&["resume", "--json", &run]).exits(0);
    assert_eq!(done.result()["text"], "all done");
    let after = done.json_lines();
    assert_eq!(after[0]["kind"], "run.resumed", "only what is new is told");

    let journal = home.posse(&["logs", "--json", &run]).json_lines();
    let told: Vec<Value> = before.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(journal[..told.len()], told, "nothing that was told is lost");
    assert_eq!(journal[told.len()..], after[..after.len() - 1], "the two processes tell the journal, once");
    let writes = journal.iter().filter(|event| event["detail"]["class"] == "write").count();
    assert_eq!(writes, 1, "the finished write is not made again");
    let verified = home.posse(&["verify", "--json", &run]).exits(0).json();
    assert_eq!((&verified["ok"], &verified["events"]), (&json!(true), &json!(journal.len())));
}

#[test]
fn the_progress_of_a_resumed_run_is_told_from_there() {
    let home = home();
    let (run, _) = interrupted(&home);
    let done = home.posse(&["resume", &run[..5]]).exits(0);
    insta::assert_snapshot!(redact_owner(&done.screen(&home, &run)));
}

/// Redacts how long no process executed the run, and the estimated cost of an interrupted call.
fn redact_owner(screen: &str) -> String {
    let cut = |line: &str| match [" after [TIME]", " tokens in"].iter().find_map(|mark| line.find(mark)) {
        Some(end) => line[..end].trim_end_matches(|c: char| c.is_ascii_digit()).to_owned(),
        None => line.to_owned(),
    };
    screen.lines().map(cut).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_last_run_is_the_newest_that_was_interrupted() {
    let home = home();
    let (run, _) = interrupted(&home);
    let done = home.posse(&["run", "--json", "--model", "scripted/script.yaml", "another"]).exits(0);
    assert_ne!(run_of(&done.result()), run, "a newer one has ended");
    let resumed = home.posse(&["resume", "--last", "--json"]).exits(0).result();
    assert_eq!(resumed["run"], json!(run));
    let nothing = home.posse(&["resume", "--last"]).exits(2);
    assert!(nothing.stderr.starts_with("error: no run was interrupted\n"), "{}", nothing.stderr);
}

#[test]
fn a_run_that_somebody_carries_is_left_alone() {
    let home = home();
    let (going, run) = stuck(&home);
    let done = home.posse(&["resume", &run]).exits(1);
    assert_eq!(done.stdout, "");
    let said = format!("error: run {run} is already running (process {})\n", going.pid());
    assert!(done.stderr.starts_with(&said), "{}", done.stderr);
    let ps = home.posse(&["ps", "--json"]).json();
    assert_eq!((&ps["status"], &ps["pid"]), (&json!("running"), &json!(going.pid())));
    let show = home.posse(&["show", &run]).exits(0);
    assert!(show.stdout.contains(&format!(", run by process {}, 2 agents", going.pid())), "{}", show.stdout);
}

#[test]
fn of_two_that_resume_at_once_one_owns_the_run_and_the_other_says_who_does() {
    let home = home();
    let (run, _) = interrupted(&home);
    home.write("script.yaml", &script(FOR_EVER));
    let mut one = home.start(&["resume", "--json", &run]);
    let mut two = home.start(&["resume", "--json", &run]);
    // Only the lease holder writes a line; the other ends without one.
    let (mut owner, other) = if one.line().is_some() {
        (one, two)
    } else {
        two.line().expect("one of them owns the run");
        (two, one)
    };
    let pid = owner.pid();
    let other = other.finish().exits(1);
    assert!(other.stderr.contains(&format!("is already running (process {pid})\n")), "{}", other.stderr);
    owner.until_event(".1", "agent.model_called");
    owner.kill();
    home.write("script.yaml", &script(0));
    home.posse(&["resume", &run]).exits(0);
}

#[test]
fn a_run_that_has_ended_is_told_again_with_its_code() {
    let home = home();
    home.write("script.yaml", &script(0));
    let first =
        home.posse(&["run", "--json", "--model", "scripted/script.yaml", "write it"]).exits(0).result();
    let again = home.posse(&["resume", "--json", &run_of(&first)]).exits(0);
    assert_eq!(again.json_lines(), [first]);
    home.write("script.yaml", "- error: {status: 500, message: no}\n");
    let failed = home.posse(&["run", "--json", "--model", "scripted/script.yaml", "x"]).exits(1).result();
    home.posse(&["resume", &run_of(&failed)]).exits(1);
    home.posse(&["wait", &run_of(&failed)]).exits(1);
}

#[test]
fn a_resume_finishes_a_cancel() {
    let home = home();
    let (run, _) = interrupted(&home);
    home.posse(&["cancel", "--no-wait", &run]).exits(0);
    let resumed = home.posse(&["resume", "--json", &run]).exits(3);
    assert_eq!(resumed.result()["status"], "cancelled");
}

#[test]
fn a_run_whose_script_is_gone_is_left_as_it_is() {
    let home = home();
    let (run, _) = interrupted(&home);
    let before = home.posse(&["logs", "--json", &run]).stdout;
    for broken in ["- repply: {text: x}\n", ""] {
        home.write("script.yaml", broken);
        let done = home.posse(&["resume", &run]).exits(2);
        assert!(done.stderr.contains("project/script.yaml"), "{}", done.stderr);
    }
    assert_eq!(home.posse(&["logs", "--json", &run]).stdout, before);
    home.write("script.yaml", &script(0));
    home.posse(&["resume", &run]).exits(0);
}

#[test]
fn waiting_for_a_run_that_nobody_carries_is_refused() {
    let home = home();
    let (run, _) = interrupted(&home);
    let done = home.posse(&["wait", &run]).exits(130);
    assert!(done.stderr.contains(&format!("`posse resume {run}` continues it")), "{}", done.stderr);
    for args in [&["retry", run.as_str()][..], &["continue", &run, "more"]] {
        let refused = home.posse(args).exits(130).stderr;
        assert!(refused.contains(&format!("`posse resume {run}` continues it")), "{refused}");
        assert!(!refused.contains("posse send"), "{refused}");
    }
}
