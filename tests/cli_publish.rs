//! From the changes of a run to the user's checkout: branch, diff, report, apply.

use std::fs;
use std::process::Command;

use crate::support::{Home, run_of};

/// The root edits `a.txt`, a child writes `b.txt`.
const SCRIPT: &str = r##"
- when: {definition: coder, turn: 1}
  reply:
    tool_calls:
      - {name: task, input: {subagent_type: general, description: write b, prompt: "write b", owns: ["b.txt"]}}
- when: {definition: general, turn: 1}
  reply: {tool_calls: [{name: write, input: {path: b.txt, content: "bee\n"}}]}
- when: {definition: general}
  reply: {text: "# Done\n\nb.txt is there.\n"}
- when: {definition: coder, turn: 2}
  reply: {tool_calls: [{name: read, input: {path: a.txt}}]}
- when: {definition: coder, turn: 3}
  reply: {tool_calls: [{name: edit, input: {path: a.txt, old_text: "two", new_text: "2"}}]}
- when: {definition: coder}
  reply: {text: All is done.}
"##;

/// A script that changes nothing.
const IDLE: &str = "- reply: {text: nothing to do}\n";

/// Git in the project, without any user's settings.
fn git(home: &Home, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Ann", "-c", "user.email=ann@example.com"])
        .args(args)
        .current_dir(home.project())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .expect("git runs");
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A folder with a script beside it.
fn folder(script: &str) -> Home {
    let home = Home::new();
    fs::write(home.project().with_file_name("script.yaml"), script).expect("a script");
    home.write("a.txt", "one\ntwo\nthree\nfour\nfive\n");
    home
}

/// The same as a repository with one commit.
fn repository(script: &str) -> Home {
    let home = folder(script);
    git(&home, &["init", "--quiet"]);
    git(&home, &["add", "--all"]);
    git(&home, &["commit", "--quiet", "--message", "base"]);
    home
}

const RUN: [&str; 4] = ["run", "--model", "scripted/../script.yaml", "go"];

/// Runs the script, and returns the run's id.
fn run(home: &Home) -> String {
    let done = home.posse(&["run", "--json", "--model", "scripted/../script.yaml", "go"]).exits(0);
    run_of(&done.result())
}

fn a_txt(home: &Home) -> String {
    fs::read_to_string(home.project().join("a.txt")).expect("a.txt")
}

/// Two levels of delegation: the agent in between touches no file itself.
#[test]
fn what_a_grandchild_made_arrives_though_its_parent_only_delegated() {
    let home = folder(
        r#"
- when: {definition: coder, turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: lead, description: lead it, prompt: "have b written"}}]}
- when: {definition: lead, turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: general, description: write b, prompt: "write b"}}]}
- when: {definition: general, turn: 1}
  reply: {tool_calls: [{name: write, input: {path: b.txt, content: "bee\n"}}]}
- reply: {text: Done.}
"#,
    );
    let lead = r#"{"lead": {"prompt": "You lead.", "tools": ["read", "write", "edit", "bash"], "spawns": ["general"]}}"#;
    let args = ["run", "--apply", "--agents", lead, "--model", "scripted/../script.yaml", "do it"];
    home.posse(&args).exits(0);
    assert_eq!(fs::read_to_string(home.project().join("b.txt")).expect("b.txt"), "bee\n");
}

#[test]
fn the_end_of_a_run_says_where_the_work_is_and_what_to_type_next() {
    let home = repository(SCRIPT);
    let done = home.posse(&RUN).exits(0);
    let run = run_of(&home.posse(&["ps", "--all", "--json"]).json());
    let last = done.stderr.lines().last().expect("a line");
    assert!(last.starts_with(&format!("2 files changed on branch posse/{run} (")), "{last}");
    assert!(last.ends_with(&format!("on disk); posse diff {run}, posse apply {run}")), "{last}");
    let show = home.posse(&["show", &run]).exits(0).stdout;
    assert!(show.contains(&format!("2 files changed on branch posse/{run} (")), "{show}");
    let json = home.posse(&["show", "--json", &run]).json();
    assert_eq!(json["result"]["files"], 2);
    assert_eq!(json["result"]["branch"], format!("posse/{run}"));
    assert!(json["disk_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{json}");
    assert_eq!(a_txt(&home), "one\ntwo\nthree\nfour\nfive\n", "the checkout is as it was");
    assert_eq!(git(&home, &["show", &format!("posse/{run}:b.txt")]), "bee\n");
}

#[test]
fn a_run_that_changed_nothing_says_nothing_of_files() {
    let home = repository(IDLE);
    let done = home.posse(&RUN).exits(0);
    assert!(!done.stderr.contains("changed"), "{}", done.stderr);
    let run = run_of(&home.posse(&["ps", "--all", "--json"]).json());
    assert_eq!(home.posse(&["diff", &run]).exits(0).stdout, "");
    let applied = home.posse(&["apply", &run]).exits(0).stdout;
    assert_eq!(applied, format!("run {run} changed no files: there is nothing to apply\n"));
    assert!(home.posse(&["show", "--json", &run]).json().get("result").is_none());
}

#[test]
fn a_folder_without_a_repository_has_no_branch_and_is_applied_all_the_same() {
    let home = folder(SCRIPT);
    let done = home.posse(&RUN).exits(0);
    assert!(done.stderr.contains("2 files changed (") && !done.stderr.contains("branch"), "{}", done.stderr);
    let run = run_of(&home.posse(&["ps", "--all", "--json"]).json());
    home.posse(&["apply", &run]).exits(0);
    assert_eq!(a_txt(&home), "one\n2\nthree\nfour\nfive\n");
}

#[test]
fn a_diff_is_of_the_run_or_of_one_agent() {
    let home = repository(SCRIPT);
    let run = run(&home);
    let child = format!("{run}.1");
    let names = |args: &[&str]| home.posse(&[&["diff", "--name-status"], args].concat()).exits(0).stdout;
    assert_eq!(names(&[&run]), "M\ta.txt\nA\tb.txt\n");
    for args in [&[&*child] as &[&str], &[&run, "1"], &[&run, &child]] {
        assert_eq!(names(args), "A\tb.txt\n", "{args:?}");
    }
    let patch = home.posse(&["diff", &run[..4]]).exits(0).stdout;
    assert!(patch.contains("\n-two\n+2\n") && !patch.contains('\u{1b}'), "{patch}");
    let stat = home.posse(&["diff", "--stat", &run]).exits(0).stdout;
    assert!(stat.contains("2 files changed, 2 insertions(+), 1 deletion(-)"), "{stat}");
}

#[test]
fn bytes_of_files_come_through_a_pipe_as_they_are() {
    let escape = r#"- {when: {turn: 1}, reply: {tool_calls: [{name: write, input: {path: e.txt, content: "\x1b]0;x\x07\r\n"}}]}}"#;
    let home = repository(&format!("{escape}\n- reply: {{text: done}}\n"));
    let run = run(&home);
    let patch = home.posse(&["diff", &run]).exits(0).stdout;
    assert!(patch.contains("+\u{1b}]0;x\u{7}\r\n"), "{patch:?}");
}

#[test]
fn reports_are_printed_and_lie_beneath_the_state() {
    let home = repository(SCRIPT);
    let run = run(&home);
    assert_eq!(home.posse(&["report", &run]).exits(0).stdout, "All is done.\n");
    let report = home.posse(&["report", &run, "1"]).exits(0).stdout;
    assert_eq!(report, "# Done\n\nb.txt is there.\n");
    let file = home.state_dir().join("runs").join(&run).join("reports").join(&run);
    let written = fs::read_to_string(file.join(".posse/step-0-result.md")).expect("the report's file");
    assert_eq!(written, report);
}

/// A child in the background and its parent create the same file; the parent is first.
const CONFLICT: &str = r#"
- when: {definition: coder, turn: 1}
  reply:
    tool_calls:
      - {name: task, input: {subagent_type: general, description: write, prompt: "write", run_in_background: true}}
- when: {definition: coder, turn: 2}
  reply: {tool_calls: [{name: write, input: {path: c.txt, content: "the parent's\n"}}]}
- when: {definition: general, turn: 1}
  reply: {tool_calls: [{name: write, input: {path: c.txt, content: "the child's\n"}}]}
- when: {definition: general}
  reply: {text: I wrote it.}
  latency_ms: 1000
- when: {definition: coder}
  reply: {text: done}
"#;

#[test]
fn the_report_of_a_child_that_failed_says_why_and_what_it_said() {
    let home = repository(CONFLICT);
    let run = run(&home);
    let report = home.posse(&["report", &run, "1"]).exits(0).stdout;
    assert!(report.starts_with("Failed: ") && report.contains("c.txt"), "{report}");
    assert!(report.ends_with("\n\nIts report:\n\nI wrote it.\n"), "{report}");
    let file = home.state_dir().join("runs").join(&run).join("reports").join(&run);
    let written = fs::read_to_string(file.join(".posse/step-0-result.md")).expect("the report's file");
    assert_eq!(format!("{written}\n"), report);
    home.posse(&["apply", &run]).exits(0);
    let applied = fs::read_to_string(home.project().join("c.txt")).expect("c.txt");
    assert_eq!(applied, "the parent's\n");
}

#[test]
fn applying_changes_the_files_once_and_nothing_else() {
    let home = repository(SCRIPT);
    home.write("staged.txt", "staged\n");
    git(&home, &["add", "staged.txt"]);
    let before = (git(&home, &["ls-files", "--stage"]), git(&home, &["rev-parse", "HEAD"]));
    let run = run(&home);
    let first = home.posse(&["apply", &run]).exits(0).stdout;
    assert!(first.starts_with(&format!("applied run {run}: 2 files changed in ")), "{first}");
    assert_eq!(a_txt(&home), "one\n2\nthree\nfour\nfive\n");
    assert_eq!(fs::read_to_string(home.project().join("b.txt")).expect("b.txt"), "bee\n");
    let second = home.posse(&["apply", &run]).exits(0).stdout;
    assert!(second.starts_with(&format!("run {run} was already applied: 2 files in ")), "{second}");
    let json = home.posse(&["apply", "--json", &run]).exits(0).json();
    assert_eq!((&json["files"], &json["already"]), (&0.into(), &2.into()));
    assert_eq!((git(&home, &["ls-files", "--stage"]), git(&home, &["rev-parse", "HEAD"])), before);
}

#[test]
fn changes_of_ones_own_are_merged_or_keep_everything_from_being_written() {
    let home = repository(SCRIPT);
    let run = run(&home);
    home.write("a.txt", "one\nzwei\nthree\nfour\nfive\n");
    let refused = home.posse(&["apply", &run]).exits(1);
    assert!(refused.stderr.contains("a.txt") && !refused.stderr.contains("b.txt"), "{}", refused.stderr);
    assert!(refused.stderr.contains(&format!("`posse apply {run}`")), "{}", refused.stderr);
    assert!(refused.stderr.contains(&format!("`git merge posse/{run}`")), "{}", refused.stderr);
    assert!(refused.stderr.contains("undo your change"), "{}", refused.stderr);
    assert_eq!(a_txt(&home), "one\nzwei\nthree\nfour\nfive\n");
    assert!(!home.project().join("b.txt").exists());
    home.write("a.txt", "one\ntwo\nthree\nfour\nFIVE\n");
    let merged = home.posse(&["apply", &run]).exits(0).stdout;
    assert!(merged.contains("1 of them merged with your changes"), "{merged}");
    assert_eq!(a_txt(&home), "one\n2\nthree\nfour\nFIVE\n");
}

#[test]
fn only_what_completed_is_applied_unless_one_says_so() {
    let failing = SCRIPT.replace("  reply: {text: All is done.}", "  error: {status: 400, message: no more}");
    let home = repository(&failing);
    let done = home.posse(&["run", "--json", "--apply", "--model", "scripted/../script.yaml", "go"]).exits(1);
    let result = done.result();
    assert_eq!(result["status"], "failed", "{result}");
    assert!(done.stderr.contains("not applied: the run did not complete"), "{}", done.stderr);
    let run = run_of(&result);
    let refused = home.posse(&["apply", &run]).exits(1).stderr;
    assert!(refused.contains("failed") && refused.contains("--unfinished"), "{refused}");
    assert_eq!(a_txt(&home), "one\ntwo\nthree\nfour\nfive\n");
    home.posse(&["apply", "--unfinished", &run]).exits(0);
    assert_eq!(a_txt(&home), "one\n2\nthree\nfour\nfive\n");
}

#[test]
fn a_run_that_goes_on_is_shown_and_not_applied() {
    // The root waits for the reply after its child was merged: what it changes later must not be in the diff.
    let waiting = SCRIPT.replace(
        "  reply: {tool_calls: [{name: read, input: {path: a.txt}}]}",
        "  reply: {tool_calls: [{name: read, input: {path: a.txt}}]}\n  latency_ms: 3600000",
    );
    assert_ne!(waiting, SCRIPT);
    let home = repository(&waiting);
    home.not_replayed("how far a workspace had come when a cancel ended its agent is not in the record");
    let mut going = home.start(&["run", "--json", "--model", "scripted/../script.yaml", "go"]);
    let run = run_of(&going.until_event(".1", "agent.subagent_closed"));
    let names = home.posse(&["diff", "--name-status", &run]).exits(0).stdout;
    assert_eq!(names, "A\tb.txt\n", "what was merged so far");
    let refused = home.posse(&["apply", &run]).exits(1).stderr;
    assert!(refused.contains("has not ended"), "{refused}");
    let nothing = home.posse(&["report", &run]).exits(1).stderr;
    assert!(nothing.contains("has not reported yet"), "{nothing}");
    going.kill();
}

#[test]
fn a_run_can_apply_itself_here_and_in_the_background() {
    let home = repository(SCRIPT);
    let done = home.posse(&[&RUN[..3], &["--apply", "go"]].concat()).exits(0);
    assert!(done.stderr.contains(": 2 files changed in "), "{}", done.stderr);
    assert_eq!(a_txt(&home), "one\n2\nthree\nfour\nfive\n");

    let home = repository(SCRIPT);
    let id =
        home.posse(&["run", "-d", "--apply", "--model", "scripted/../script.yaml", "go"]).exits(0).stdout;
    home.posse(&["wait", id.trim()]).exits(0);
    // The end of the run is reported before it is applied; a second `apply` waits for the first.
    home.posse(&["apply", id.trim()]).exits(0);
    assert_eq!(a_txt(&home), "one\n2\nthree\nfour\nfive\n");
}

#[test]
fn a_run_that_cannot_apply_itself_fails_though_it_completed() {
    let home = repository(
        &SCRIPT.replace("  reply: {text: All is done.}", "  reply: {text: All is done.}\n  latency_ms: 300"),
    );
    let mut going = home.start(&["run", "--json", "--apply", "--model", "scripted/../script.yaml", "go"]);
    going.until_event(".1", "agent.subagent_closed");
    home.write("a.txt", "mine\n");
    let done = going.finish().exits(1);
    let result = done.result();
    assert_eq!(
        (&result["status"], &result["applied"], &result["exit"]),
        (&"completed".into(), &false.into(), &1.into())
    );
    assert!(done.stderr.contains("a.txt"), "{}", done.stderr);
    assert_eq!(a_txt(&home), "mine\n");
}

#[test]
fn a_run_without_writers_has_no_files_of_its_own() {
    let home = repository("- reply: {text: I looked.}\n");
    let run = run_of(
        &home
            .posse(&["run", "--json", "--agent", "explore", "--model", "scripted/../script.yaml", "look"])
            .exits(0)
            .result(),
    );
    let refused = home.posse(&["diff", &run]).exits(1).stderr;
    assert!(refused.contains("has no files of its own"), "{refused}");
    let applied = home.posse(&["apply", &run]).exits(0).stdout;
    assert!(applied.contains("there is nothing to apply"), "{applied}");
    assert_eq!(home.posse(&["report", &run]).exits(0).stdout, "I looked.\n");
}

#[test]
fn what_is_not_there_is_said_with_what_is_near() {
    let home = repository(SCRIPT);
    let run = run(&home);
    let refused = home.posse(&["diff", &run, "2"]).exits(2).stderr;
    assert!(refused.contains(&format!("there is no agent {run}.2")), "{refused}");
    assert!(refused.contains(&format!("run {run} has 1; `posse show {run}` lists its agents")), "{refused}");
    let mut typed = run.clone().into_bytes();
    typed[7] = if typed[7] == b'0' { b'1' } else { b'0' };
    let typed = String::from_utf8(typed).expect("letters");
    for verb in ["diff", "report", "apply", "salvage"] {
        let refused = home.posse(&[verb, &typed]).exits(2).stderr;
        assert!(refused.contains(&format!("did you mean {run}?")), "{verb}: {refused}");
    }
    home.replay_now();
    fs::remove_file(home.state_dir().join("runs").join(&run).join("project.json")).expect("removed");
    let broken = home.posse(&["apply", &run]).exits(1).stderr;
    assert!(broken.contains("project.json") && broken.contains("hint: "), "{broken}");
}

#[test]
fn a_branch_that_cannot_be_made_is_told_and_the_work_can_be_applied_all_the_same() {
    let home = repository(SCRIPT);
    // No branch can be beneath a branch.
    git(&home, &["branch", "posse"]);
    let done = home.posse(&RUN).exits(0);
    assert!(done.stderr.contains("\n2 files changed ("), "{}", done.stderr);
    assert!(done.stderr.contains("\n  there is no branch: "), "{}", done.stderr);
    let run = run_of(&home.posse(&["ps", "--all", "--json"]).json());
    let result = &home.posse(&["show", "--json", &run]).json()["result"];
    assert!(result["problem"].is_string() && result.get("branch").is_none(), "{result}");
    home.posse(&["apply", &run]).exits(0);
    assert_eq!(a_txt(&home), "one\n2\nthree\nfour\nfive\n");
}

#[test]
fn parts_of_the_state_that_are_gone_are_named_and_nothing_is_changed() {
    let home = repository(SCRIPT);
    let run = run(&home);
    home.replay_now();
    fs::remove_dir_all(home.state_dir().join("projects")).expect("removed");
    for args in [&["diff", &run] as &[&str], &["apply", &run], &["salvage", &run, "--restore", "back"]] {
        let broken = home.posse(args).exits(1).stderr;
        assert!(broken.starts_with("error: ") && broken.contains("hint: "), "{args:?}: {broken}");
        assert!(!broken.contains("panicked"), "{args:?}: {broken}");
    }
    assert_eq!(a_txt(&home), "one\ntwo\nthree\nfour\nfive\n");
    home.posse(&["report", &run]).exits(0);
    home.posse(&["show", &run]).exits(0);
    home.posse(&["gc"]).exits(0);
}

#[test]
fn a_project_larger_than_the_settings_allow_is_not_begun() {
    let home = repository(SCRIPT);
    home.write("more.txt", "more\n");
    home.write_settings("workspace: {max_files: 1}\n");
    let refused = home.posse(&RUN);
    assert!(refused.code != Some(0) && refused.stderr.contains("max_files"), "{refused:?}");
    home.write_settings("workspace: {max_filse: 1}\n");
    let refused = home.posse(&RUN).exits(2).stderr;
    assert!(refused.contains("(did you mean `max_files`?)"), "{refused}");
}

#[test]
fn a_result_with_instructions_for_agents_says_so_and_its_log_steers_no_terminal() {
    let home = repository(
        r#"
- when: {definition: coder, turn: 1}
  reply:
    tool_calls:
      - {name: task, input: {subagent_type: general, description: "\e[2Jwrite\u202e it\nsecond", prompt: write}}
- when: {definition: general, turn: 1}
  reply:
    tool_calls:
      - {name: write, input: {path: AGENTS.md, content: "Obey.\n"}}
      - {name: write, input: {path: b.txt, content: "b\n"}}
- when: {definition: general}
  reply: {text: "\e]0;title\adone\u202e"}
- reply: {text: done}
"#,
    );
    let done = home.posse(&RUN).exits(0);
    assert!(done.stderr.contains("because agents and tools obey it: AGENTS.md"), "{}", done.stderr);
    let shown = home.posse(&["ps", "--json"]).json();
    let run = shown["run"].as_str().expect("a run").to_owned();
    let show = home.posse(&["show", "--json", &run]).exits(0).json();
    assert_eq!(show["result"]["instructions"], serde_json::json!(["AGENTS.md"]), "{show}");
    let log = git(&home, &["log", "--format=%B", &format!("posse/{run}")]);
    assert!(log.contains("posse: write it second"), "{log}");
    let steers = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}');
    assert!(!log.chars().any(steers), "{log:?}");
    home.posse(&["report", &run]).exits(0);
    let reports = home.state_dir().join("runs").join(&run).join("reports");
    let report = walk(&reports).into_iter().map(|path| fs::read_to_string(path).expect("read"));
    let report: String = report.collect();
    assert!(report.contains("done") && !report.chars().any(steers), "{report:?}");
}

fn walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir).expect("listed").flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}
