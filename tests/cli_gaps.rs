//! Small things that once were wrong, missing or accepted in silence.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::cli_terminal::{on_a_real_terminal, on_terminal};
use crate::support::{Home, run_of};

const MODEL: [&str; 2] = ["--model", "scripted/../script.yaml"];

fn home(script: &str) -> Home {
    let home = Home::new();
    fs::write(home.project().with_file_name("script.yaml"), script).expect("a script");
    home
}

fn run(home: &Home, more: &[&str]) -> String {
    let args = [&["run", "--json", MODEL[0], MODEL[1]], more, &["go"]].concat();
    run_of(&home.posse(&args).exits(0).result())
}

const IDLE: &str = "- reply: {text: Done.}\n";

#[test]
fn flags_that_exclude_each_other_are_refused_and_one_that_acts_later_is_explained() {
    let home = home(IDLE);
    let refused =
        home.posse(&["run", MODEL[0], MODEL[1], "--deny", "bash", "--allow", "bash", "go"]).exits(2);
    assert!(refused.stderr.contains("--allow: `bash` is also denied"), "{}", refused.stderr);
    let refused =
        home.posse(&["run", MODEL[0], MODEL[1], "--base-url", "http://127.0.0.1:9/v1", "go"]).exits(2);
    assert!(refused.stderr.contains("is a script, which has no address"), "{}", refused.stderr);
    let started = home.posse(&["run", "-d", "--apply", MODEL[0], MODEL[1], "go"]).exits(0);
    assert!(started.stderr.contains("is applied to the checkout when the run has completed"));
    home.posse(&["wait", started.stdout.trim()]).exits(0);
}

#[test]
fn a_notice_is_not_promised_where_there_is_no_terminal_for_it() {
    let home = home(IDLE);
    let refused = home.posse(&["run", "-d", "--notify", MODEL[0], MODEL[1], "go"]).exits(2).stderr;
    assert!(refused.contains("--notify: a run in the background has no terminal"), "{refused}");
    assert!(refused.contains("`posse wait --notify`") && !home.state_dir().exists(), "{refused}");
    let run = run(&home, &[]);
    for (flags, notices) in [(&["wait", "--notify"][..], 1), (&["wait"], 0)] {
        let command = on_a_real_terminal(&home, &[flags, &[&run]].concat());
        let (written, _) = on_terminal(command, 80, 24);
        assert_eq!(written.matches(&format!("Posse: run {run} completed")).count(), notices, "{written:?}");
    }
}

#[test]
fn the_refused_operations_are_cut_like_other_events() {
    let call = |path: &str| format!("{{name: write, input: {{path: {path}, content: x}}}}");
    let home = home(&format!(
        "- when: {{turn: 1}}\n  reply: {{tool_calls: [{}, {}]}}\n- reply: {{text: Done.}}\n",
        call("one.txt"),
        call("two.txt")
    ));
    let run = run(&home, &["--deny", "write"]);
    let refused = |flags: &[&str]| home.posse(&[&["logs", "--refused", &run], flags].concat());
    assert_eq!(refused(&[]).exits(0).stdout.lines().count(), 2);
    let last = refused(&["--tail", "1"]).exits(0).stdout;
    assert!(last.lines().count() == 1 && last.contains("two.txt"), "{last}");
    refused(&["--kind", "tool_finished"]).exits(2);
}

#[test]
fn a_plan_for_an_agent_that_cannot_start_others_is_told_why() {
    let home = home(IDLE);
    home.write("plan.yaml", "goal: look\nsteps:\n  - {title: one, description: Look., agent: explore}\n");
    let refused =
        home.posse(&["run", MODEL[0], MODEL[1], "--agent", "explore", "--plan", "plan.yaml"]).exits(2);
    assert!(refused.stderr.contains("the run's agent cannot start sub-agents"), "{}", refused.stderr);
}

#[test]
fn a_directory_that_does_not_exist_is_named() {
    let home = home(IDLE);
    run(&home, &[]);
    for flags in [&["--json"][..], &["-q"], &[]] {
        let refused = home.posse(&[&["ps", "--dir", "nowhere"], flags].concat()).exits(2).stderr;
        assert!(refused.contains("nowhere does not exist"), "{refused}");
    }
    home.write("sub/file", "");
    assert!(home.posse(&["ps", "--dir", "sub/file"]).exits(2).stderr.contains("is not a directory"));
    // Runs of a directory that was removed are listed nevertheless.
    let dir = home.project().with_file_name("gone");
    fs::create_dir(&dir).expect("made");
    let of_dir = run(&home, &["--dir", dir.to_str().expect("UTF-8")]);
    fs::remove_dir_all(&dir).expect("removed");
    let listed = home.posse(&["ps", "-q", "--dir", dir.to_str().expect("UTF-8")]).exits(0).stdout;
    assert_eq!(listed, format!("{of_dir}\n"));
}

#[test]
fn the_help_has_no_colour_that_was_not_asked_for() {
    let home = home(IDLE);
    for args in [
        &["--color=never", "help"][..],
        &["--color", "never", "help", "run"],
        &["run", "--help", "--color=never"],
    ] {
        let (written, _) = on_terminal(on_a_real_terminal(&home, args), 80, 24);
        assert!(written.contains("Usage:") && !written.contains('\u{1b}'), "{args:?}: {written:?}");
    }
    let (written, _) = on_terminal(on_a_real_terminal(&home, &["help"]), 80, 24);
    assert!(written.contains('\u{1b}'), "{written:?}");
    assert!(home.posse(&["--color=always", "help"]).exits(0).stdout.contains('\u{1b}'));
}

#[test]
fn a_failed_call_is_told_in_words_before_its_code() {
    let home = home(
        "- when: {turn: 1}\n  reply: {tool_calls: [{name: read, input: {path: none.txt}}]}\n- reply: {text: Done.}\n",
    );
    let run = run(&home, &[]);
    let logs = home.posse(&["logs", &run]).exits(0).stdout;
    let line = logs.lines().find(|line| line.contains("read failed: ")).expect("a failed call");
    let said = line.split_once("read failed: ").expect("words").1;
    assert!(said.starts_with('`') && said.ends_with(')') && said.contains(" ("), "{line}");
    let trace = home.posse(&["trace", &run]).exits(0).stdout;
    let mut lines = trace.lines().skip_while(|line| !line.contains("read failed ("));
    let (first, second) = (lines.next().expect("a call"), lines.next().expect("its result"));
    assert!(first.contains(", call call_") && second.trim_start().starts_with('`'), "{first}\n{second}");
}

#[test]
fn a_misspelled_variable_is_reported_by_verbs_that_only_read() {
    let home = home(IDLE);
    let run = run(&home, &[]);
    home.set("POSSE_MODLE", "x");
    for args in [&["ps"] as &[&str], &["show", &run], &["logs", &run], &["verify", &run]] {
        let done = home.posse(args).exits(0);
        let warning = "warning: POSSE_MODLE: unknown setting (did you mean `POSSE_MODEL`?)";
        assert!(done.stderr.contains(warning), "{args:?}: {}", done.stderr);
    }
    home.not_replayed("every later command is refused because of the variable");
}

#[test]
fn a_verified_journal_is_named() {
    let home = home(IDLE);
    let run = run(&home, &[]);
    assert_eq!(home.posse(&["verify", "--json", &run]).exits(0).json()["run"], json!(run));
}

/// The root renames a file and writes another; the first child is refused a command.
const REFUSED: &str = r#"
- when: {definition: coder, turn: 1}
  reply:
    tool_calls:
      - {name: task, input: {subagent_type: general, description: one, prompt: "first"}}
- when: {definition: coder, turn: 2}
  reply:
    tool_calls:
      - {name: task, input: {subagent_type: general, description: two, prompt: "second"}}
- when: {definition: coder, turn: 3}
  reply: {tool_calls: [{name: bash, input: {command: "mv a.txt c.txt; echo b > b.txt; mkdir -p .github/workflows; echo x > .github/workflows/x.yml"}}]}
- when: {definition: general, turn: 1, contains: first}
  reply: {tool_calls: [{name: write, input: {path: .envrc, content: "x"}}]}
- reply: {text: Done.}
"#;

#[test]
fn the_refused_operations_of_one_agent_are_its_own() {
    let home = home(REFUSED);
    home.write("a.txt", "one\ntwo\nthree\n");
    let run = run(&home, &[]);
    let first = home.posse(&["report", &format!("{run}.1")]).exits(0).stderr;
    assert!(first.contains("1 operation was refused") && first.contains("write:.envrc"), "{first}");
    let second = home.posse(&["report", &format!("{run}.2")]).exits(0).stderr;
    assert!(!second.contains("refused"), "{second}");
    let shown = home.posse(&["show", &format!("{run}.2")]).exits(0).stdout;
    assert!(!shown.contains("refused"), "{shown}");
}

#[test]
fn a_renamed_file_is_one_file_and_what_the_result_omits_is_not_in_the_diff() {
    let home = home(REFUSED);
    home.write("a.txt", "one\ntwo\nthree\n");
    let run = run(&home, &[]);
    let names = home.posse(&["diff", "--name-status", &run]).exits(0).stdout;
    assert_eq!(names, "A\tb.txt\nR100\ta.txt\tc.txt\n");
    let show = home.posse(&["show", "--json", &run]).json();
    assert_eq!(show["result"]["files"], 2, "{show}");
    assert!(show["result"]["left_out"].to_string().contains(".github/workflows"), "{show}");
}

#[test]
fn a_trace_has_the_system_prompt_and_a_cancelled_agent_is_no_failed_one() {
    let home = home(
        "- when: {definition: general}\n  latency_ms: 3600000\n  reply: {text: Late.}\n- when: {definition: coder, turn: 1}\n  reply: {tool_calls: [{name: task, input: {subagent_type: general, description: one, prompt: first}}]}\n- reply: {text: Done.}\n",
    );
    home.not_replayed("one of its agents is cancelled while its model has not replied");
    home.write("AGENTS.md", "Always say please.\n");
    let mut going = home.start(&["run", "--json", MODEL[0], MODEL[1], "go"]);
    let run = run_of(&going.until_event(".1", "agent.model_called"));
    let child = format!("{run}.1");
    home.posse(&["cancel", &child]).exits(0);
    going.finish();
    let trace = home.posse(&["trace", &child]).exits(0).stdout;
    assert!(trace.lines().next().is_some_and(|line| line.ends_with("cancelled")), "{trace}");
    assert!(trace.contains("    system prompt:\n      ") && trace.contains("Always say please."), "{trace}");
}

#[test]
fn a_cancel_says_that_the_process_of_the_run_is_stopped() {
    let home = home("- latency_ms: 3600000\n  reply: {text: Late.}\n");
    home.not_replayed("it is cancelled while its model has not replied");
    let mut going = home.start(&["run", "--json", MODEL[0], MODEL[1], "go"]);
    let run = run_of(&going.until_event("", "agent.model_called"));
    let holder = home.posse(&["show", &run]).exits(0).stdout;
    let pid = holder.split("process ").nth(1).and_then(|rest| rest.split([',', '\n', ' ']).next());
    let pid: i32 = pid.and_then(|pid| pid.parse().ok()).unwrap_or_else(|| panic!("no process: {holder}"));
    let pid = Pid::from_raw(pid).expect("a process");
    kill_process(pid, Signal::STOP).expect("stopped");
    let warned = home.posse(&["cancel", "--no-wait", &run]).exits(0).stderr;
    kill_process(pid, Signal::CONT).expect("continued");
    assert!(warned.contains("is stopped") && warned.contains("kill -CONT"), "{warned}");
    going.finish();
}

#[test]
fn work_that_was_not_salvaged_is_an_error_that_names_what_was() {
    let home = home(
        r#"
- when: {definition: coder, turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: general, description: one, prompt: "first"}}]}
- when: {definition: general, turn: 1}
  reply: {tool_calls: [{name: write, input: {path: a.txt, content: "x"}}]}
- reply: {text: Done.}
"#,
    );
    let run = run(&home, &["--agent", "coder"]);
    let refused = home.posse(&["salvage", &run, "--restore", "back"]).exits(1).stderr;
    assert!(refused.contains(&format!("no work of {run} was salvaged")), "{refused}");
    assert!(refused.contains(&format!("`posse salvage {run}.1 --restore DIR`")), "{refused}");
}

#[test]
fn the_help_of_a_continued_run_names_its_own_defaults() {
    let home = home(IDLE);
    for (verb, flags) in
        [("continue", &["--model"] as &[&str]), ("retry", &["--model", "--max-usd", "--max-time"])]
    {
        let help = home.posse(&[verb, "--help"]).exits(0).stdout;
        for flag in flags {
            let about = help.split(&format!("{flag} <")).nth(1).expect(flag);
            let about = about.split("\n\n").next().unwrap_or_default().split_whitespace().collect::<Vec<_>>();
            assert!(
                about.join(" ").contains("[default: that of the earlier run]"),
                "{verb} {flag}: {about:?}"
            );
        }
    }
}

#[test]
fn an_explanation_names_the_hooks_that_may_refuse_the_operation() {
    let home = home(IDLE);
    let run = run(&home, &[]);
    home.replay_now();
    home.write_settings(
        "hooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks: [{type: command, command: \"exit 2\"}]\n",
    );
    let explained = home.posse(&["explain", &run, "bash:ls"]).exits(0).stdout;
    assert!(explained.contains("\nhooks that run first and can block it:\n  "), "{explained}");
    assert!(explained.contains("settings.yaml:3: exit 2\n"), "{explained}");
    let json = home.posse(&["explain", "--json", &run, "bash:ls"]).exits(0).json();
    assert_eq!(json["hooks"].as_array().map(Vec::len), Some(1), "{json}");
    let other = home.posse(&["explain", &run, "read:a.txt"]).exits(0).stdout;
    assert!(!other.contains("hooks"), "{other}");
}

#[test]
fn an_explanation_names_the_hooks_of_a_project_that_is_not_trusted() {
    let home = home(IDLE);
    let run = run(&home, &[]);
    home.replay_now();
    home.write(
        ".posse/settings.yaml",
        "hooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks: [{type: command, command: \"exit 3\"}]\n",
    );
    let line = ".posse/settings.yaml:3 does not run: not trusted: exit 3\n";
    let explained = home.posse(&["explain", &run, "bash:ls"]).exits(0).stdout;
    assert!(explained.contains("\nproject hook ") && explained.contains(line), "{explained}");
    assert!(!explained.contains("hooks that run first"), "{explained}");
    let json = home.posse(&["explain", "--json", &run, "bash:ls"]).exits(0).json();
    let hook = &json["hook_commands"][0];
    assert_eq!((&hook["command"], &hook["runs"]), (&"exit 3".into(), &false.into()), "{json}");
    assert_eq!(json["hooks"].as_array().map(Vec::len), Some(0), "{json}");
    home.posse(&["trust", "--yes"]).exits(0);
    let trusted = home.posse(&["explain", &run, "bash:ls"]).exits(0).stdout;
    assert!(
        trusted.contains(".posse/settings.yaml:3: exit 3\n") && !trusted.contains("not trusted"),
        "{trusted}"
    );
}

#[test]
fn an_explanation_of_a_command_says_what_the_sandbox_lets_it_reach() {
    let home = home(IDLE);
    let run = run(&home, &[]);
    let explained = home.posse(&["explain", &run, "bash:ls"]).exits(0).stdout;
    let limits = "the sandbox limits what the command can do: it can write to its workspace and to temporary directories; \
                  it has no network (--allow network opens it); isolation: ";
    assert!(explained.contains(limits), "{explained}");
    let json = home.posse(&["explain", "--json", &run, "bash:ls"]).exits(0).json();
    let command = &json["command"];
    assert!(command["sandbox"].is_string(), "{json}");
    assert_eq!(
        (&command["network"], &command["can_change_workspace"]),
        (&false.into(), &true.into()),
        "{json}"
    );
    let open = self::run(&home, &["--allow", "network"]);
    let explained = home.posse(&["explain", &open, "bash:ls"]).exits(0).stdout;
    assert!(explained.contains("; it has the network of this machine; "), "{explained}");
    let json = home.posse(&["explain", "--json", &open, "read:a.txt"]).exits(0).json();
    assert_eq!(json["command"], serde_json::Value::Null, "{json}");
}

#[test]
fn an_explanation_says_that_a_secret_file_is_not_in_the_workspace() {
    let home = home(IDLE);
    home.write(".ssh/id_rsa", "key");
    home.write("keys.txt", "no key");
    let run = run(&home, &[]);
    let explained = home.posse(&["explain", &run, "read:.ssh/id_rsa"]).exits(0).stdout;
    assert!(
        explained.contains("the workspace does not have it: Posse keeps well-known secret files out"),
        "{explained}"
    );
    let json = home.posse(&["explain", "--json", &run, "read:.ssh/id_rsa"]).exits(0).json();
    assert_eq!(json["kept_out"], true, "{json}");
    let json = home.posse(&["explain", "--json", &run, "read:keys.txt"]).exits(0).json();
    assert_eq!(json["kept_out"], false, "{json}");
}
