//! No work of an agent is lost: the content of its workspace is listed and restored.

use std::fs;

use crate::support::{Home, run_of};

/// A child writes a file, and an ignored file; then its model fails.
const SCRIPT: &str = r#"
- when: {definition: coder, turn: 1}
  reply:
    tool_calls:
      - {name: task, input: {subagent_type: general, description: write, prompt: "write"}}
- when: {definition: general, turn: 1}
  reply:
    tool_calls:
      - {name: write, input: {path: b.txt, content: "bee\n"}}
      - {name: write, input: {path: elsewhere.txt, content: "work\n"}}
      - {name: write, input: {path: note.log, content: "noise\n"}}
- when: {definition: general}
  error: {status: 400, message: no more}
- when: {definition: coder}
  reply: {text: done}
"#;

fn home() -> (Home, String) {
    let home = Home::new();
    fs::write(home.project().with_file_name("script.yaml"), SCRIPT).expect("a script");
    home.write(".gitignore", "*.log\n");
    home.write("a.txt", "one\n");
    let done = home.posse(&["run", "--json", "--model", "scripted/../script.yaml", "go"]).exits(0);
    let run = run_of(&done.result());
    (home, run)
}

#[test]
fn the_work_of_a_child_that_failed_is_listed_with_what_was_left_out() {
    let (home, run) = home();
    assert_eq!(home.posse(&["diff", &run]).exits(0).stdout, "", "nothing of it was merged");
    let lines = home.posse(&["salvage", "--json", &format!("{run}.1")]).exits(0).json_lines();
    assert_eq!(lines.len(), 2, "it was tried twice: {lines:?}");
    for (attempt, line) in (1..).zip(lines) {
        assert_eq!((&line["attempt"], &line["files"]), (&attempt.into(), &2.into()), "{line}");
        assert_eq!(
            (&line["left_out"][0], &line["left_out_count"]),
            (&"note.log".into(), &1.into()),
            "{line}"
        );
        assert!(line["git"].is_null(), "it did nothing with git: {line}");
        assert!(line["commit"].as_str().is_some_and(|commit| commit.len() == 40), "{line}");
    }
    let page = home.posse(&["salvage", &run]).exits(0).stdout;
    assert!(
        page.contains(&format!("\n{run}.1 "))
            && page.contains("omitted (ignored unless noted otherwise): note.log"),
        "{page}"
    );
    // The times are those of the user's zone: half an hour beside every whole hour.
    home.set("TZ", "XYZ-00:30");
    let shifted = home.posse(&["salvage", &run]).exits(0).stdout;
    assert_ne!(shifted, page, "{shifted}");
    home.set("TZ", "UTC");
    let names = home.posse(&["diff", "--name-status", &run, "1"]).exits(0).stdout;
    assert_eq!(names, "A\tb.txt\nA\telsewhere.txt\n");
}

/// A child commits, resets the commit, and creates a file that no tree can contain.
const GIT_SCRIPT: &str = r#"
- when: {definition: coder, turn: 1}
  reply:
    tool_calls:
      - {name: task, input: {subagent_type: general, description: write, prompt: "write"}}
- when: {definition: general, turn: 1}
  reply:
    tool_calls:
      - name: bash
        input:
          command: "echo x > p && git add p && git commit -qm p && git reset -q --hard HEAD~1 && mkdir -p x/git~1 && echo k > x/git~1/c"
          description: work with git
- when: {definition: general}
  reply: {text: done}
- when: {definition: coder}
  reply: {text: done}
"#;

#[test]
fn what_a_child_did_with_git_is_listed_and_what_cannot_be_kept_is_told() {
    let home = Home::new();
    fs::write(home.project().with_file_name("script.yaml"), GIT_SCRIPT).expect("a script");
    home.write("a.txt", "one\n");
    let done = home.posse(&["run", "--json", "--model", "scripted/../script.yaml", "go"]).exits(0);
    let run = run_of(&done.result());
    let line = home.posse(&["salvage", "--json", &format!("{run}.1")]).exits(0).json_lines().remove(0);
    let git = line["git"].as_str().expect("a commit");
    let told = "x/git~1/c: a name that could become .git";
    assert_eq!(line["left_out"], serde_json::json!([told]), "{line}");
    let page = home.posse(&["salvage", &run]).exits(0).stdout;
    assert!(page.contains(told) && page.contains(&format!("as plain files: {git}")), "{page}");
}

#[test]
fn it_is_given_back_into_a_directory_that_is_new_or_empty() {
    let (home, run) = home();
    let agent = format!("{run}.1");
    let done = home.posse(&["salvage", &agent, "--restore", "back"]).exits(0).stdout;
    assert!(done.starts_with(&format!("restored 4 files of {agent} (attempt 2) into ")), "{done}");
    let read = |name: &str| fs::read_to_string(home.project().join("back").join(name));
    assert_eq!(read("elsewhere.txt").expect("a file"), "work\n");
    assert_eq!(read("a.txt").expect("a file"), "one\n");
    assert!(read("note.log").is_err(), "ignored files are not kept");
    let refused = home.posse(&["salvage", &agent, "--restore", "back"]).exits(1).stderr;
    assert!(refused.contains("is not empty"), "{refused}");
    let refused = home.posse(&["salvage", &agent, "--restore", "other", "--attempt", "3"]).exits(1).stderr;
    assert!(refused.contains("nothing was kept"), "{refused}");
    home.posse(&["salvage", &agent, "--restore", "other", "--attempt", "0"]).exits(2);
    home.posse(&["salvage", &agent, "--restore", "first", "--attempt", "1"]).exits(0);
    home.posse(&["salvage", &agent, "--attempt", "1"]).exits(2);
    let refused = home.posse(&["salvage", &format!("{run}.7")]).exits(2).stderr;
    assert!(refused.contains(&format!("run {run} has 1; `posse show {run}` lists its agents")), "{refused}");
}
