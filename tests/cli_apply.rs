//! Applying one agent's work, taking an apply back, and the lines that are in conflict.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::support::{Home, run_of};

const TEXT: &str = "one\ntwo\nthree\nfour\nfive\n";

/// A sub-agent in the background and its parent change the same line; the parent is first.
const CONFLICT: &str = r#"
- when: {definition: coder, turn: 1}
  reply:
    tool_calls:
      - {name: task, input: {subagent_type: general, description: child, prompt: "write it", run_in_background: true}}
- when: {definition: coder, turn: 2}
  reply: {tool_calls: [{name: bash, input: {command: "sed -i s/two/PARENT/ a.txt; echo 1 > parent.txt"}}]}
- when: {definition: general, depth: 0, turn: 1}
  reply: {tool_calls: [{name: bash, input: {command: "sed -i s/PARENT/BOTH/ a.txt"}}]}
- when: {definition: general, depth: 0}
  reply: {text: Done.}
- when: {definition: general, turn: 1}
  reply: {tool_calls: [{name: bash, input: {command: "sed -i s/two/CHILD/ a.txt; echo 2 > child.txt"}}]}
- when: {definition: general}
  latency_ms: 1000
  reply: {text: I wrote it.}
- reply: {text: Done.}
"#;

const MODEL: [&str; 2] = ["--model", "scripted/../script.yaml"];

fn home(script: &str) -> Home {
    let home = Home::new();
    fs::write(home.project().with_file_name("script.yaml"), script).expect("a script");
    home.write("a.txt", TEXT);
    git(&home, &["init", "--quiet"]);
    git(&home, &["add", "--all"]);
    git(&home, &["commit", "--quiet", "--message", "base"]);
    home
}

/// Git in the project, without any user's settings.
fn git(home: &Home, args: &[&str]) {
    let output = Command::new("git")
        .args(["-c", "user.name=Ann", "-c", "user.email=ann@example.com"])
        .args(args)
        .current_dir(home.project())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .expect("git runs");
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn run(home: &Home) -> String {
    run_of(&home.posse(&["run", "--json", MODEL[0], MODEL[1], "go"]).exits(0).result())
}

fn text(home: &Home, path: &str) -> Option<String> {
    fs::read_to_string(home.project().join(path)).ok()
}

#[test]
fn a_merge_conflict_is_shown_with_the_lines_of_both_sides() {
    let home = home(CONFLICT);
    let run = run(&home);
    let child = format!("{run}.1");
    let conflicts = home.posse(&["show", "--json", &run]).json()["conflicts"].clone();
    assert_eq!((&conflicts[0]["agent"], &conflicts[0]["parent"]), (&json!(child), &json!(run)));
    let hunk = json!({"line": 2, "parent": ["PARENT"], "agent": ["CHILD"], "more_lines": 0});
    let file = json!({"path": "a.txt", "kind": "lines", "hunks": [hunk], "more_hunks": 0});
    assert_eq!(conflicts[0]["files"], json!([file]));
    let lines = [
        &format!("merge conflict of {child} with {run}:"),
        "  a.txt, line 2:",
        &format!("    {run}:"),
        "      PARENT",
        &format!("    {child}:"),
        "      CHILD",
    ]
    .join("\n");
    for name in [&run, &child] {
        let shown = home.posse(&["show", name]).exits(0).stdout;
        assert!(shown.contains(&lines), "{shown}");
        let diff = home.posse(&["diff", name]).exits(0);
        assert!(diff.stderr.contains(&lines) && !diff.stdout.contains("merge conflict"), "{diff:?}");
    }
}

#[test]
fn the_work_of_an_agent_that_was_not_merged_is_applied_by_its_name_and_taken_back() {
    let home = home(CONFLICT);
    let run = run(&home);
    let child = format!("{run}.1");
    for args in [vec![child.as_str()], vec![&run, "1"]] {
        let applied = home.posse(&[&["apply"], &args[..]].concat()).exits(0).stdout;
        assert!(applied.starts_with(&format!("applied agent {child}: 2 files changed in ")), "{applied}");
        assert_eq!(text(&home, "child.txt").as_deref(), Some("2\n"));
        let again = home.posse(&["apply", &child]).exits(0).stdout;
        assert!(again.starts_with(&format!("agent {child} was already applied: 2 files in ")), "{again}");
        let undone = home.posse(&["apply", "--undo", &child]).exits(0).stdout;
        let starts = format!("undid the apply of agent {child}: 2 files changed back in ");
        assert!(undone.starts_with(&starts), "{undone}");
        assert_eq!(git_status(&home), "");
    }
    // The result has the other change of the same line.
    home.posse(&["apply", &run]).exits(0);
    let refused = home.posse(&["apply", &child]).exits(1).stderr;
    let lines =
        ["  a.txt, line 2:", "    your file:", "      PARENT", &format!("    agent {child}:"), "      CHILD"]
            .join("\n");
    assert!(refused.contains(&lines), "{refused}");
    assert!(refused.contains(&format!("`posse diff {child}`")), "{refused}");
}

fn git_status(home: &Home) -> String {
    let output = Command::new("git").args(["status", "--porcelain"]).current_dir(home.project()).output();
    String::from_utf8(output.expect("git").stdout).expect("UTF-8")
}

#[test]
fn an_apply_of_a_run_is_taken_back_and_what_the_user_did_since_is_kept() {
    let home = home(CONFLICT);
    let run = run(&home);
    let nothing = home.posse(&["apply", "--undo", &run]).exits(1).stderr;
    assert!(nothing.contains("is not applied, so there is nothing to undo"), "{nothing}");
    home.posse(&["apply", &run]).exits(0);
    let applied = text(&home, "a.txt").expect("a.txt");
    home.write("a.txt", &applied.replace("five", "mine"));
    let json = home.posse(&["apply", "--undo", "--json"]).exits(0).json();
    assert_eq!((&json["run"], &json["undo"]), (&json!(run), &json!(true)));
    assert_eq!((&json["files"], &json["merged"]), (&json!(2), &json!(1)));
    assert_eq!(text(&home, "a.txt").as_deref(), Some("one\ntwo\nthree\nfour\nmine\n"));
    // It can be applied again, and a change of the same line is named and left as it is.
    home.posse(&["apply", &run]).exits(0);
    home.write("a.txt", "one\nmy own\nthree\nfour\nmine\n");
    let refused = home.posse(&["apply", "--undo", &run]).exits(1).stderr;
    assert!(refused.contains("were changed since they were applied, and nothing was written: a.txt"));
    for line in ["      my own", "    before the apply:", "      two"] {
        assert!(refused.contains(line), "{refused}");
    }
    assert_eq!(text(&home, "a.txt").as_deref(), Some("one\nmy own\nthree\nfour\nmine\n"));
    let unnamed = home.posse(&["apply"]).exits(2).stderr;
    assert!(unnamed.contains("RUN"), "{unnamed}");
    home.posse(&["apply", "--undo", "--unfinished", &run]).exits(2);
}

#[test]
fn an_undo_without_a_name_takes_the_last_apply_back_be_it_of_an_agent() {
    let home = home(CONFLICT);
    let nothing = home.posse(&["apply", "--undo"]).exits(1).stderr;
    assert!(nothing.contains("no run of this project is applied, so there is nothing to undo"), "{nothing}");
    let run = run(&home);
    let child = format!("{run}.1");
    home.posse(&["apply", &child]).exits(0);
    let not_applied = home.posse(&["apply", "--undo", &run]).exits(1).stderr;
    assert!(not_applied.contains(&format!("run {run} is not applied")), "{not_applied}");
    let hint =
        format!("applied in this project: {child}; `posse apply --undo {child}` takes the newest apply back");
    assert!(not_applied.contains(&hint), "{not_applied}");
    let undone = home.posse(&["apply", "--undo"]).exits(0).stdout;
    assert!(undone.starts_with(&format!("undid the apply of agent {child}: 2 files")), "{undone}");
    assert_eq!(git_status(&home), "");
    // The newest apply is the one that is taken back, not that of the newest run.
    let later = self::run(&home);
    home.posse(&["apply", &later]).exits(0);
    home.posse(&["apply", "--undo", &later]).exits(0);
    home.posse(&["apply", &run]).exits(0);
    let json = home.posse(&["apply", "--undo", "--json"]).exits(0).json();
    assert_eq!(json["run"], json!(run));
    assert_eq!(git_status(&home), "");
}

#[test]
fn advice_after_a_conflict_names_only_what_works() {
    let failing = "- when: {turn: 1}\n  reply: {tool_calls: [{name: bash, input: {command: sed -i s/two/PARENT/ a.txt}}]}\n\
                   - error: {status: 400, message: no more}\n";
    let home = home(failing);
    let run = run_of(&home.posse(&["run", "--json", MODEL[0], MODEL[1], "go"]).exits(1).result());
    home.write("a.txt", &TEXT.replace("two", "zwei"));
    let refused = home.posse(&["apply", "--unfinished", &run]).exits(1).stderr;
    assert!(refused.contains("      zwei"), "{refused}");
    assert!(refused.contains(&format!("then `posse apply --unfinished {run}`")), "{refused}");
    assert!(refused.contains(&format!("`git merge posse/{run}`")), "{refused}");
    git(&home, &["branch", "--quiet", "-D", &format!("posse/{run}")]);
    let refused = home.posse(&["apply", "--unfinished", &run]).exits(1).stderr;
    assert!(!refused.contains("git merge"), "{refused}");
    assert!(refused.contains(&format!("`posse diff {run}`")), "{refused}");
}

#[test]
fn one_step_is_retried_on_top_of_the_result() {
    let home = home(CONFLICT);
    let run = run(&home);
    let again = run_of(&home.posse(&["retry", "--json", &format!("{run}.1")]).exits(0).result());
    let both = TEXT.replace("two", "BOTH");
    assert_eq!(home.result_file(&again, "a.txt"), Some(both.clone()), "it began with the result of the run");
    assert_eq!(home.result_file(&again, "parent.txt").as_deref(), Some("1\n"));
    home.posse(&["apply", &again]).exits(0);
    assert_eq!(text(&home, "a.txt"), Some(both));
}

#[test]
fn an_agent_that_did_not_complete_is_applied_only_if_the_user_says_so() {
    let failing =
        CONFLICT.replace("  reply: {text: I wrote it.}", "  error: {status: 400, message: no more}");
    let home = home(&failing);
    let run = run(&home);
    let child = format!("{run}.1");
    let refused = home.posse(&["apply", &child]).exits(1).stderr;
    assert!(refused.contains("its changes may be incomplete"), "{refused}");
    assert!(refused.contains(&format!("`posse apply --unfinished {child}`")), "{refused}");
    home.posse(&["apply", "--unfinished", &child]).exits(0);
    assert_eq!(text(&home, "child.txt").as_deref(), Some("2\n"));
}
