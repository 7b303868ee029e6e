//! The true outcome of a run: its known and its maximum cost, what was refused, what changed nothing, and what to type next.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Done, Home, RunningCommand, run_of};

const MODEL: [&str; 2] = ["--model", "scripted/script.yaml"];
/// Longer than any test: a call with this latency waits until it is cut off.
const FOR_EVER: u32 = 3_600_000;

/// A root that was answered once, and a child whose first call is never answered; a turn of the root costs $0.0045.
fn cut_off_script() -> String {
    format!(
        r"
facts: {{price: {{input: 3, output: 15}}}}
rules:
- when: {{definition: coder}}
  reply:
    text: I split.
    tool_calls: [{{name: task, input: {{subagent_type: general, description: a part, prompt: part}}}}]
    usage: {{input_tokens: 1000, output_tokens: 100}}
- when: {{definition: general}}
  reply: {{text: done}}
  latency_ms: {FOR_EVER}
"
    )
}

fn home(script: &str) -> Home {
    let home = Home::new();
    home.write("script.yaml", script);
    home
}

fn started(home: &Home, flags: &[&str]) -> RunningCommand {
    home.start(&[&["run", "--json"], &MODEL[..], flags, &["do it"]].concat())
}

fn ran(home: &Home, flags: &[&str]) -> Done {
    home.posse(&[&["run"], &MODEL[..], flags, &["do it"]].concat())
}

/// The run that the last line of standard error about a run names.
fn run_in(done: &Done) -> String {
    let line = done.stderr.lines().find_map(|line| line.strip_prefix("run ")).expect("an end");
    line[..8].to_owned()
}

#[test]
fn the_reserve_of_a_call_that_was_cut_off_is_never_shown_as_spent() {
    let home = home(&cut_off_script());
    let mut going = started(&home, &[]);
    let run = run_of(&going.until_event(".1", "agent.model_called"));
    going.signal(Signal::INT);
    let done = going.finish().exits(3);
    let usage = &done.result()["usage"];
    assert_eq!(usage["usd_known"], 0.0045, "{usage}");
    assert!(usage["usd_at_most"].as_f64().is_some_and(|most| most > 0.1), "{usage}");
    assert_eq!((&usage["input_tokens"], &usage["output_tokens"]), (&json!(1000), &json!(100)));
    assert_eq!(usage["cut_off_calls"], 1);
    assert!(usage["cut_off_tokens_at_most"].as_u64().is_some_and(|tokens| tokens > 1000), "{usage}");

    let end = home.posse(&["wait", &run]).exits(3).stderr;
    assert!(
        end.contains(" ($0.0045 known, 1 call was cut off), 2 agents, 1 turn, 1000 tokens in, 100 out"),
        "{end}"
    );
    assert!(
        end.lines().next().is_some_and(|line| line.contains(" cancelled: ") && line.contains("≤ $")),
        "{end}"
    );
    assert!(!end.contains("failed") && !end.contains("CANCELLED"), "{end}");

    for verb in ["show", "stats", "trace"] {
        let page = home.posse(&[verb, &run]).exits(0).stdout;
        assert!(page.contains("$0.0045"), "{verb}: {page}");
        assert!(verb == "trace" || page.contains("≤$"), "{verb}: {page}");
    }
    let all = home.posse(&["stats"]).exits(0).stdout;
    assert!(all.contains("($0.0045 known, 1 call was cut off)"), "{all}");
    let child = home.posse(&["show", "--json", &run]).exits(0).json()["agents"][1].clone();
    assert_eq!((&child["usage"]["input_tokens"], &child["usage"]["usd_known"]), (&json!(0), &json!(0.0)));
    let shown = home.posse(&["show", &run]).exits(0).stdout;
    let states = shown.lines().filter(|line| line.contains(" cancelled ") || line.starts_with("cancelled "));
    assert_eq!(states.count(), 3, "the run and both agents: {shown}");
    assert!(!shown.contains("failed"), "{shown}");
    home.posse(&["verify", &run]).exits(0);
}

#[test]
fn an_interrupted_run_shows_the_same_maximum_as_the_cancelled_one_that_it_becomes() {
    let home = home(&cut_off_script());
    let mut going = started(&home, &[]);
    let run = run_of(&going.until_event(".1", "agent.model_called"));
    going.kill();
    let ps = home.posse(&["ps", "--json"]).exits(0).json();
    let show = home.posse(&["show", "--json", &run]).exits(0).json();
    let stats = home.posse(&["stats", "--json", &run]).exits(0).json()["total"]["usage"].clone();
    let child = show["agents"][1]["usage"].clone();
    for usage in [&ps["usage"], &show["usage"], &stats, &child] {
        assert_eq!(usage["cut_off_calls"], 1, "{usage}");
        assert!(usage["usd_at_most"].as_f64().is_some_and(|most| most > 0.1), "{usage}");
    }
    assert_eq!((&ps["usage"]["usd_known"], &ps["usage"]), (&json!(0.0045), &show["usage"]));
    let all = home.posse(&["stats", "--json"]).exits(0).json();
    assert_eq!(
        (&all["total"]["usage"], &all["by_day"][0]["usage"]),
        (&show["usage"], &show["usage"]),
        "{all}"
    );
    assert!(
        all["total"]["wall_ms"].as_u64().is_some_and(|time| time > 0),
        "its agents have not ended: {all}"
    );
    assert!(home.posse(&["stats"]).exits(0).stdout.contains("($0.0045 known, 1 call was cut off)"));
    assert_eq!(child["usd_known"], 0.0);
    let page = home.posse(&["show", &run]).exits(0).stdout;
    assert!(page.contains("($0.0045 known, 1 call was cut off)"), "{page}");
    assert!(page.contains(&format!("2 agents; continue it with `posse resume {run}`\n")), "{page}");
    // When its process ended is not known, only until when it lived.
    assert!(page.contains("interrupted after at least ") && page.contains(" ≥"), "{page}");
    assert!(home.posse(&["ps"]).exits(0).stdout.contains(" ≥"));
    assert!(home.posse(&["ps"]).exits(0).stdout.contains("≤$"));
    let trace = home.posse(&["trace", &format!("{run}.1")]).exits(0).stdout;
    assert!(trace.starts_with(&format!("agent {run}.1: general, depth 1, interrupted\n")), "{trace}");
    assert!(trace.contains("≤ $"), "{trace}");

    home.posse(&["cancel", &run]).exits(0);
    let cancelled = home.posse(&["show", "--json", &run]).exits(0).json();
    assert_eq!(cancelled["usage"], show["usage"], "before and after the cancel");
    assert_eq!(cancelled["agents"][1]["usage"], child);
    let logs = home.posse(&["logs", &run]).exits(0).stdout;
    assert!(
        logs.contains("cancel requested by user\n") && logs.contains("run cancelled by the user\n"),
        "{logs}"
    );
    assert!(!logs.contains("cancelled:"), "nothing is said twice: {logs}");
    home.posse(&["verify", &run]).exits(0);
}

#[test]
fn a_call_in_progress_at_an_unknown_price_is_not_shown_as_free() {
    let home = home(&format!(
        "facts: {{price: unknown}}\nrules: [{{reply: {{text: done}}, latency_ms: {FOR_EVER}}}]\n"
    ));
    let mut going = started(&home, &[]);
    let run = run_of(&going.until_event("", "agent.model_called"));
    let running = home.posse(&["ps", "--json"]).exits(0).json();
    assert_eq!((&running["status"], &running["usage"]["usd_at_most"]), (&json!("running"), &Value::Null));
    let show = home.posse(&["show", "--json", &run]).exits(0).json();
    let figures = [&show["usage"], &show["agents"][0]["usage"]].map(|usage| &usage["usd_at_most"]);
    assert_eq!(figures, [&Value::Null; 2]);
    for verb in ["ps", "show"] {
        let page = home.posse(&[verb]).exits(0).stdout;
        assert!(page.contains("unknown") && !page.contains("$0.00"), "{page}");
    }
    going.kill();
    let interrupted = home.posse(&["ps", "--json"]).exits(0).json();
    assert_eq!(interrupted["usage"]["usd_at_most"], Value::Null);
    assert_eq!(interrupted["usage"]["cut_off_calls"], 1);
    for verb in ["ps", "show"] {
        let page = home.posse(&[verb]).exits(0).stdout;
        assert!(page.contains("unknown") && !page.contains("$0.00"), "{page}");
    }
    home.not_replayed("it is left interrupted");
}

#[test]
fn a_wait_of_an_interrupted_run_is_over_and_its_question_is_not() {
    let home = home("- error: {status: 429, message: slow down, retry_after_ms: 3600000, limited: true}\n");
    let mut going = started(&home, &[]);
    let run = run_of(&going.until_event("", "agent.provider_wait_started"));
    for args in [&["ps"][..], &["show", &run], &["trace", &run]] {
        let shown = home.posse(args).exits(0);
        assert!(
            format!("{}{}", shown.stdout, shown.stderr).contains("slow down, retry 1 of 29 at "),
            "{shown:?}"
        );
    }
    going.kill();
    for args in [&["ps"][..], &["show", &run], &["trace", &run]] {
        let shown = home.posse(args).exits(0);
        let heading = shown.stdout.split("\n\n").next().unwrap_or_default();
        assert!(!format!("{heading}{}", shown.stderr).contains("retry 1 of 29"), "{shown:?}");
    }
    assert_eq!(home.posse(&["show", "--json", &run]).exits(0).json()["agents"][0].get("blocked"), None);
    home.not_replayed("it is left interrupted");
}

#[test]
fn known_costs_add_up_beside_unknown_prices() {
    let home = Home::new();
    let script = |price: &str| {
        format!(
            "{{{price}rules: [{{reply: {{text: done, usage: {{input_tokens: 1000, output_tokens: 100}}}}}}]}}"
        )
    };
    home.write("priced.yaml", &script("facts: {price: {input: 3, output: 15}}, "));
    home.write("unpriced.yaml", &script("facts: {price: unknown}, "));
    for model in ["scripted/priced.yaml", "scripted/unpriced.yaml", "scripted/priced.yaml"] {
        home.posse(&["run", "--model", model, "do it"]).exits(0);
    }
    let total = home.posse(&["stats", "--json"]).exits(0).json()["total"]["usage"].clone();
    assert_eq!((&total["usd_known"], &total["usd_at_most"]), (&json!(0.009), &Value::Null));
    assert_eq!(total["unpriced_tokens"], 1100);
    let page = home.posse(&["stats"]).exits(0).stdout;
    assert!(
        page.contains("$0.009+?") && page.ends_with("\n$0.009 + 1100 tokens of unknown price\n"),
        "{page}"
    );
}

#[test]
fn the_end_of_a_run_has_time_and_cost_before_everything_else() {
    let home = home(
        "{facts: {price: {input: 3, output: 15}}, rules: [{reply: {text: done, usage: {input_tokens: 1000, output_tokens: 100}}}]}",
    );
    let done = ran(&home, &[]).exits(0);
    let run = run_in(&done);
    let end = home.redact(&done.stderr, &run);
    assert!(
        end.contains("run RUN----- completed: [TIME], $0.0045, 1 agent, 1 turn, 1000 tokens in, 100 out"),
        "{end}"
    );
}

#[test]
fn the_error_of_a_budget_names_its_limit_and_what_the_next_call_could_cost() {
    let home = home("{facts: {price: {input: 3, output: 15}}, rules: [{reply: {text: done}}]}");
    let end = ran(&home, &["--max-usd", "0.0001"]).exits(2).stderr;
    assert!(
        end.contains("--max-usd: $0.0001 is too little: the first call and a report may cost up to $0.0"),
        "{end}"
    );
}

/// A child that asks for what the run does not let it ask for, and a root that writes where nothing may be written.
const REFUSED: &str = r"
- when: {definition: coder, turn: 1}
  reply:
    tool_calls: [{name: task, input: {subagent_type: general, description: push, prompt: push}}]
- when: {definition: coder, turn: 2}
  reply: {tool_calls: [{name: write, input: {path: .git/hooks/post-commit, content: x}}]}
- when: {definition: general, turn: 1}
  reply: {tool_calls: [{name: bash, input: {command: git push origin main}}]}
- when: {definition: general}
  reply: {text: Everything is pushed.}
- reply: {text: Everything is pushed.}
";

#[test]
fn operations_that_were_refused_are_listed_with_agent_and_source() {
    let home = home(REFUSED);
    let done = ran(&home, &["--ask", "bash:git push*"]).exits(0);
    let run = run_in(&done);
    for part in [
        format!("2 operations were refused; posse logs {run} --refused lists them:"),
        format!(
            "  {run}.1: bash:git push origin main (it needs approval, and the run does not let sub-agents ask; "
        ),
        format!("  {run}: write:.git/hooks/post-commit ("),
        "  1 sub-agent changed no files: 1".to_owned(),
    ] {
        assert!(done.stderr.contains(&part), "{part}: {}", done.stderr);
    }
    let result = home.posse(&["wait", "--json", &run]).exits(0).result();
    assert_eq!((&result["refused_count"], &result["unchanged"]), (&json!(2), &json!([format!("{run}.1")])));
    let refused = &result["refused"][0];
    assert_eq!((&refused["agent"], &refused["by"]), (&json!(format!("{run}.1")), &json!("no_approver")));
    assert_eq!(
        (&refused["operation"], &refused["code"]),
        (&json!("bash:git push origin main"), &json!("PERMISSION_DENIED"))
    );
    assert_eq!(result["refused"][1]["by"], "policy");

    let show = home.posse(&["show", &run]).exits(0).stdout;
    assert!(
        show.contains("2 operations were refused") && show.contains("bash:git push origin main"),
        "{show}"
    );
    assert!(show.lines().any(|line| line.contains("└─ 1") && line.ends_with("push [no changes]")), "{show}");
    let detail = home.posse(&["show", "--json", &run]).exits(0).json();
    assert_eq!((&detail["refused_count"], &detail["refused"]), (&json!(2), &result["refused"]));
    assert_eq!(
        (&detail["agents"][1]["files_changed"], &detail["agents"][1]["refused"]),
        (&json!(0), &json!(1))
    );
    let report = home.posse(&["report", &run]).exits(0);
    assert!(report.stderr.contains("2 operations were refused"), "{}", report.stderr);

    let logs = home.posse(&["logs", &run, "--refused"]).exits(0).stdout;
    assert_eq!(logs.lines().count(), 2, "{logs}");
    assert!(
        logs.contains("bash:git push origin main  it needs approval")
            && logs.contains(" (PERMISSION_DENIED)\n"),
        "{logs}"
    );
    let of_child = home.posse(&["logs", &run, "--refused", "--agent", "1"]).exits(0).stdout;
    assert_eq!(of_child.lines().count(), 1, "{of_child}");
    let events = home.posse(&["logs", &run, "--refused", "--json"]).exits(0).json_lines();
    assert!(
        events.len() == 2 && events.iter().all(|event| event["kind"] == "agent.tool_finished"),
        "{events:?}"
    );
    home.posse(&["verify", &run]).exits(0);
}

#[test]
fn a_run_without_refusals_says_nothing_about_them() {
    let home = home(
        "- when: {turn: 1}\n  reply: {tool_calls: [{name: write, input: {path: a.txt, content: x}}]}\n- reply: {text: done}\n",
    );
    let done = ran(&home, &[]).exits(0);
    assert!(!done.stderr.contains("refused"), "{}", done.stderr);
    let run = run_in(&done);
    let detail = home.posse(&["show", "--json", &run]).exits(0).json();
    assert_eq!((&detail["refused_count"], &detail["agents"][0]["files_changed"]), (&json!(0), &json!(1)));
    assert!(home.posse(&["show", &run]).exits(0).stdout.contains("[1 file]"));
}

/// A run that writes a file and then fails.
const FAILS: &str = r"
- when: {turn: 1}
  reply: {tool_calls: [{name: write, input: {path: half.txt, content: half}}]}
- error: {status: 400, message: broken}
";

#[test]
fn advice_at_the_end_of_a_failed_run_is_what_the_verbs_accept() {
    let home = home(FAILS);
    let done = ran(&home, &[]).exits(1);
    let run = run_in(&done);
    let advice = format!("posse diff {run}, then posse apply --unfinished {run}");
    assert!(done.stderr.contains(&advice), "{}", done.stderr);
    assert!(home.posse(&["show", &run]).exits(0).stdout.contains(&advice));
    home.posse(&["diff", &run]).exits(0);
    home.posse(&["apply", "--unfinished", &run]).exits(0);
}

#[test]
fn a_replay_has_a_verdict_is_marked_and_cannot_be_applied() {
    let home = home(
        "- when: {turn: 1}\n  reply: {tool_calls: [{name: write, input: {path: a.txt, content: x}}]}\n- reply: {text: done}\n",
    );
    let run = run_in(&ran(&home, &[]).exits(0));
    let replayed = home.posse(&["run", "--model", &format!("replay/{run}")]).exits(0);
    let replay = run_in(&replayed);
    assert!(
        replayed.stderr.contains("\nreplay: 2 of 2 requests were the recorded ones\n"),
        "{}",
        replayed.stderr
    );
    assert!(!replayed.stderr.contains("posse apply"), "{}", replayed.stderr);
    let result = home.posse(&["wait", "--json", &replay]).exits(0).result();
    assert_eq!(result["replay_verdict"], json!({"same": 2, "recorded": 2, "differs": false}));
    let ps = home.posse(&["ps"]).exits(0).stdout;
    assert!(
        ps.lines().any(|line| line.starts_with(&replay) && line.contains(&format!("[replay of {run}]"))),
        "{ps}"
    );
    let listed = home.posse(&["ps", "--json"]).exits(0).json_lines();
    assert_eq!(listed.iter().filter(|run| run["replay"] == true).count(), 1, "{listed:?}");
    let show = home.posse(&["show", &replay]).exits(0).stdout;
    assert!(show.contains(&format!("\na replay of {run}\n")), "{show}");
    for flags in [&["apply"][..], &["apply", "--unfinished"]] {
        let refused = home.posse(&[flags, &[&replay]].concat()).exits(1).stderr;
        assert!(
            refused.contains("is a replay of") && refused.contains(&format!("`posse apply {run}`")),
            "{refused}"
        );
    }
}

#[test]
fn a_run_in_progress_shows_what_its_agents_do_and_for_how_long() {
    let script = cut_off_script();
    let home = home(&script);
    let mut going = started(&home, &[]);
    let run = run_of(&going.until_event(".1", "agent.model_called"));
    let show = home.posse(&["show", &run]).exits(0).stdout;
    assert!(
        show.lines()
            .nth(1)
            .is_some_and(|line| line.starts_with("running for ") && line.contains(", run by process ")),
        "{show}"
    );
    assert!(show.lines().any(|line| line.starts_with(&run) && line.ends_with("[task: general]")), "{show}");
    assert!(show.lines().any(|line| line.contains("└─ 1") && line.ends_with("[waits for the reply of its model, turn 1]")), "{show}");
    let detail = home.posse(&["show", "--json", &run]).exits(0).json();
    assert_eq!(detail["status"], "running");
    let root = &detail["agents"][0];
    assert_eq!(
        (&root["tool_calls"], &root["open_calls"], &root["activity"]),
        (&json!(0), &json!(1), &json!("task: general"))
    );
    going.kill();
    let show = home.posse(&["show", &run]).exits(0).stdout;
    assert_eq!(show.matches("interrupted").count(), 3, "the run and both agents: {show}");
    home.not_replayed("it is left interrupted");
}
