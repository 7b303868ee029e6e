//! Garbage collection: what has ended and is old is removed, what is open or uncertain stays.

use std::fs;

use crate::support::{Home, run_of};

const SCRIPT: &str = r#"
- when: {turn: 1}
  reply: {tool_calls: [{name: write, input: {path: b.txt, content: "bee\n"}}]}
- reply: {text: done}
"#;

fn home() -> Home {
    let home = Home::new();
    fs::write(home.project().with_file_name("script.yaml"), SCRIPT).expect("a script");
    home.write("a.txt", "one\n");
    home
}

fn run(home: &Home) -> String {
    let done = home.posse(&["run", "--json", "--model", "scripted/../script.yaml", "go"]).exits(0);
    run_of(&done.result())
}

fn workspace(home: &Home, run: &str) -> std::path::PathBuf {
    home.state_dir().join("runs").join(run).join("workspaces").join(run).join("1")
}

#[test]
fn without_any_run_there_is_nothing_to_clean_and_nothing_is_made() {
    let home = Home::new();
    for args in [&["gc"] as &[&str], &["gc", "--yes", "--runs", "0"]] {
        let done = home.posse(args).exits(0).stdout;
        assert_eq!(done, "nothing removed\n");
        assert!(!home.state_dir().exists());
    }
}

#[test]
fn workspaces_go_when_they_are_old_and_their_work_can_still_be_had() {
    let home = home();
    let run = run(&home);
    let young = home.posse(&["gc"]).exits(0).stdout;
    assert!(young.contains(&format!("kept workspace {run}/1: not old enough\n")), "{young}");
    home.write_settings("gc: {workspaces: 0}\n");
    let would = home.posse(&["gc", "--dry-run"]).exits(0).stdout;
    assert!(would.contains(&format!("would remove workspace {run}/1\n")), "{would}");
    assert!(workspace(&home, &run).exists());
    let cleaned = home.posse(&["gc", "--json"]).exits(0).json();
    assert_eq!(cleaned["removed"][0], format!("workspace {run}/1"), "{cleaned}");
    assert!(cleaned["freed_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{cleaned}");
    assert!(!workspace(&home, &run).exists());
    home.posse(&["salvage", &run, "--restore", "back"]).exits(0);
    assert_eq!(fs::read_to_string(home.project().join("back/b.txt")).expect("a file"), "bee\n");
    home.posse(&["apply", &run]).exits(0);
    home.write_settings("gc: {salvage: 0}\n");
    let cleaned = home.posse(&["gc"]).exits(0).stdout;
    assert!(cleaned.contains(&format!("removed salvaged work of {run}/1\n")), "{cleaned}");
    let line = home.posse(&["salvage", "--json", &run]).exits(0).json();
    assert!(line["files"].is_null(), "{line}");
    assert_eq!(
        home.posse(&["diff", "--name-status", &run]).exits(0).stdout,
        "A\tb.txt\n",
        "the result stays"
    );
}

#[test]
fn work_that_is_not_salvaged_is_kept() {
    let home = home();
    let run = run(&home);
    fs::write(home.workspace(&run).join("late.txt"), "late\n").expect("a file");
    home.write_settings("gc: {workspaces: 0, salvage: 0}\n");
    for args in [&["gc"] as &[&str], &["gc", "--runs", "0", "--dry-run"], &["gc", "--yes", "--runs", "0"]] {
        let kept = home.posse(args).exits(0).stdout;
        assert!(kept.contains("its files are not those that were salvaged"), "{args:?}: {kept}");
        assert!(home.workspace(&run).join("late.txt").exists());
    }
    home.posse(&["show", &run]).exits(0);
}

#[test]
fn whole_runs_go_from_disk_and_journal_and_leave_their_id_and_hash() {
    let home = home();
    let (first, second) = (run(&home), run(&home));
    let head = home.posse(&["verify", &first]).exits(0).stdout;
    let would = home.posse(&["gc", "--runs", "0", "--dry-run"]).exits(0).stdout;
    assert!(would.contains(&format!("would remove run {first}\n")) && would.contains("kept 0"), "{would}");
    let none = home.posse(&["gc", "--yes", "--runs", "1d"]).exits(0).stdout;
    assert!(!none.contains(&format!("removed run {first}")), "{none}");
    let gone = home.posse(&["gc", "--yes", "--runs", "0"]).exits(0).stdout;
    for run in [&first, &second] {
        assert!(gone.contains(&format!("removed run {run}\n")), "{gone}");
        assert!(!home.state_dir().join("runs").join(run).exists());
    }
    assert_eq!(home.posse(&["ps", "--all", "--json"]).exits(0).stdout, "");
    let told = home.posse(&["show", &first]).exits(2).stderr;
    let hash = told.split("hash ").nth(1).and_then(|rest| rest.split_whitespace().next()).expect("a hash");
    assert!(hash.len() == 64 && head.contains(hash), "{told}\n{head}");
    home.posse(&["verify", "--all"]).exits(0);
    run(&home);
}

#[test]
fn an_open_run_is_never_touched() {
    let home = home();
    let waiting = SCRIPT.replace("- reply: {text: done}", "- reply: {text: done}\n  latency_ms: 3600000");
    fs::write(home.project().with_file_name("script.yaml"), waiting).expect("a script");
    home.write_settings("gc: {workspaces: 0, salvage: 0}\n");
    let mut going = home.start(&["run", "--json", "--model", "scripted/../script.yaml", "go"]);
    let run = run_of(&going.until_event("", "agent.tool_finished"));
    let keeps = |when: &str| {
        let kept = home.posse(&["gc", "--yes", "--runs", "0"]).exits(0).stdout;
        assert!(kept.contains(&format!("kept run {run}: it is open\n")), "{when}: {kept}");
        assert!(home.workspace(&run).join("b.txt").exists(), "{when}");
    };
    keeps("while it goes on");
    going.kill();
    keeps("when it was interrupted");
    fs::write(home.project().with_file_name("script.yaml"), SCRIPT).expect("a script");
    home.posse(&["resume", "--apply", &run]).exits(0);
    assert_eq!(fs::read_to_string(home.project().join("b.txt")).expect("a file"), "bee\n");
}

#[test]
fn ages_that_cannot_be_right_are_refused() {
    let home = Home::new();
    for age in ["7", "soon", "-1d"] {
        let refused = home.posse(&["gc", &format!("--runs={age}")]).exits(2).stderr;
        assert!(refused.contains("such as `7d`"), "{refused}");
    }
    home.write_settings("gc:\n  workspaces: weekly\n");
    let refused = home.posse(&["gc"]).exits(2).stderr;
    assert!(refused.contains("settings.yaml:2: workspaces: "), "{refused}");
}

/// Git lists the salvaged work of all runs of a project at once, so more runs do not start git more often.
#[test]
fn git_is_started_once_for_each_project_and_not_for_each_run() {
    let home = home();
    let runs = [run(&home), run(&home), run(&home)];
    let (done, trace) = home.traced("execve", &["gc", "--dry-run"]);
    let said = done.exits(0).stdout;
    // What is kept is counted by the reason.
    assert!(said.contains(&format!("kept {}, such as workspace ", runs.len())), "{said}");
    assert!(said.contains("/1: not old enough\n"), "{said}");
    assert!(
        said.contains(": their workspaces still exist\n") && said.ends_with("nothing to remove, kept 6\n"),
        "{said}"
    );
    let started =
        trace.lines().filter(|line| line.contains("execve(") && line.contains("\"for-each-ref\"")).count();
    assert_eq!(started, 1, "{trace}");
}
