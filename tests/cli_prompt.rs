//! `posse` alone on a terminal: a prompt whose requests are runs.

use std::os::unix::fs::PermissionsExt;

use crate::support::Home;
use crate::tmux::Tmux;

const STUCK_MS: u32 = 3_600_000;

fn script(latency_ms: u32) -> String {
    format!(
        "
- when: {{contains: again}}
  reply: {{text: I did it again.}}
- when: {{contains: slowly}}
  reply: {{text: I was slow.}}
  latency_ms: {latency_ms}
- when: {{contains: write, turn: 1}}
  reply: {{tool_calls: [{{name: write, input: {{path: made.txt, content: x}}}}]}}
- reply: {{text: I did it.}}
"
    )
}

fn home() -> Home {
    let home = Home::new();
    home.write("script.yaml", &script(STUCK_MS));
    home.write("src/main.rs", "");
    home.write(".gitignore", "*.log\n");
    home.write("src/own.log", "");
    home.write(".posse/skills/tidy/SKILL.md", "---\nname: tidy\ndescription: Tidies up.\n---\nTidy.\n");
    home.set("POSSE_MODEL", "scripted/script.yaml");
    home
}

fn open(home: &Home) -> Tmux<'_> {
    let tmux = Tmux::open(home, 80, 24);
    tmux.enters("clear; posse");
    until_empty(&tmux);
    tmux
}

/// Waits until the prompt waits for a line.
#[track_caller]
fn until_empty(tmux: &Tmux<'_>) -> String {
    tmux.until_it("an empty prompt", |screen| screen.lines().last().is_some_and(|line| line == ">"))
}

/// Types a line, and presses Enter once the prompt shows it.
#[track_caller]
fn line(tmux: &Tmux<'_>, text: &str) {
    tmux.types(&["-l", text]);
    tmux.until(&format!("> {text}"));
    tmux.types(&["Enter"]);
}

fn runs(home: &Home) -> Vec<serde_json::Value> {
    home.posse(&["ps", "--json"]).json_lines()
}

#[test]
fn requests_are_runs_and_the_next_one_continues_the_last() {
    let home = home();
    let tmux = open(&home);
    line(&tmux, "do it");
    tmux.until("I did it.");
    until_empty(&tmux);
    line(&tmux, "do it again");
    tmux.until("I did it again.");
    until_empty(&tmux);
    line(&tmux, "/new");
    tmux.until("starts a new run");
    line(&tmux, "write it");
    tmux.until_it("a third end", |screen| screen.matches("I did it.").count() == 2);
    until_empty(&tmux);
    let runs = runs(&home);
    let ids: Vec<&str> = runs.iter().map(|run| run["run"].as_str().expect("an id")).collect();
    let continues = |run: &str| {
        let events = home.posse(&["logs", "--json", run]).json_lines();
        events[0]["detail"]["continues"]["agent"].as_str().map(str::to_owned)
    };
    assert_eq!(ids.len(), 3);
    assert_eq!(continues(ids[1]).as_deref(), Some(ids[2]), "the second continues the first");
    assert_eq!(continues(ids[0]), None, "the third began afresh");
    line(&tmux, "/diff --stat");
    tmux.until("made.txt |");
    until_empty(&tmux);
    line(&tmux, "/apply");
    tmux.until("applied");
    until_empty(&tmux);
    assert!(home.project().join("made.txt").exists());
    tmux.types(&["C-d"]);
    tmux.until_prompt();
    tmux.enters("echo code=$?");
    tmux.until("code=0");
}

#[test]
fn commands_skills_and_files_are_completed_and_history_is_recalled() {
    let home = home();
    let tmux = open(&home);
    tmux.types(&["-l", "/ti"]);
    tmux.until("Tidies up.");
    tmux.types(&["Tab"]);
    tmux.until("> /tidy");
    tmux.types(&["C-u"]);
    until_empty(&tmux);
    tmux.types(&["-l", "look at @sr"]);
    tmux.types(&["Tab"]);
    let screen = tmux.until("> look at @src/");
    assert!(!screen.contains("own.log"), "ignored files are not suggested: {screen}");
    tmux.until("@src/main.rs");
    tmux.types(&["Tab", "Enter"]);
    tmux.until("I did it.");
    until_empty(&tmux);
    tmux.types(&["Up"]);
    tmux.until_it("the last line", |screen| screen.matches("> look at @src/main.rs").count() == 2);
    tmux.types(&["C-c"]);
    until_empty(&tmux);
    line(&tmux, "/nothing");
    tmux.until("there is no command or skill `/nothing`");
    until_empty(&tmux);
    tmux.types(&["C-d"]);
    tmux.until_prompt();
    let history = home.state_dir().join("prompt_history");
    let mode = std::fs::metadata(&history).expect("a history").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    tmux.enters("clear; posse");
    until_empty(&tmux);
    tmux.types(&["C-r"]);
    tmux.until("search:");
    tmux.types(&["-l", "look"]);
    tmux.until("> look at @src/main.rs");
    tmux.types(&["C-c"]);
    until_empty(&tmux);
    tmux.types(&["C-d"]);
    tmux.until_prompt();
}

#[test]
fn several_lines_and_pasted_text_start_nothing_before_enter() {
    let home = home();
    let tmux = open(&home);
    tmux.run(&["set-buffer", "first line\nsecond line\n"]);
    tmux.run(&["paste-buffer", "-p"]);
    tmux.until("> first line\n  second line");
    tmux.types(&["-l", "third\\"]);
    tmux.types(&["Enter"]);
    tmux.types(&["-l", "fourth"]);
    tmux.until("  third\n  fourth");
    assert!(!home.state_dir().exists(), "nothing was started");
    tmux.types(&["Enter"]);
    tmux.until("I did it.");
    until_empty(&tmux);
    let run = runs(&home)[0]["run"].as_str().expect("an id").to_owned();
    let started = home.posse(&["logs", "--json", &run]).json_lines().remove(0);
    assert!(started.to_string().contains(r"first line\nsecond line\nthird\nfourth"), "{started}");
    tmux.types(&["C-d"]);
    tmux.until_prompt();
}

#[test]
fn a_detached_run_leaves_the_prompt_and_can_be_attached_again() {
    let home = home();
    let tmux = open(&home);
    line(&tmux, "do it slowly");
    tmux.until("? keys");
    tmux.types(&["d"]);
    tmux.until("continues in the background");
    until_empty(&tmux);
    line(&tmux, "do it again");
    tmux.until("has not ended");
    until_empty(&tmux);
    line(&tmux, "/attach");
    tmux.until("? keys");
    tmux.types(&["C-c"]);
    tmux.until("c cancel the run");
    tmux.types(&["c"]);
    tmux.until("cancelled");
    until_empty(&tmux);
    line(&tmux, "do it again");
    tmux.until("I did it again.");
    until_empty(&tmux);
    assert_eq!(runs(&home).len(), 2);
    tmux.types(&["C-d"]);
    tmux.until_prompt();
}

#[test]
fn the_prompt_survives_ctrl_z_and_gives_the_terminal_back() {
    let home = home();
    let tmux = open(&home);
    tmux.types(&["-l", "half a li"]);
    tmux.until("> half a li");
    tmux.types(&["C-z"]);
    tmux.until("Stopped");
    tmux.until_prompt();
    tmux.enters("echo in between");
    tmux.until("\nin between");
    tmux.enters("fg");
    tmux.until_it("the line again", |screen| screen.matches("> half a li").count() == 2);
    tmux.types(&["C-c"]);
    until_empty(&tmux);
    line(&tmux, "do it slowly");
    tmux.until("? keys");
    tmux.types(&["C-z"]);
    tmux.until_it("the shell", |screen| screen.matches("Stopped").count() == 2);
    tmux.until_prompt();
    tmux.enters("fg");
    tmux.until_it("the tree again", |screen| screen.matches("? keys").count() >= 2);
    tmux.types(&["C", "y"]);
    tmux.until("cancelled");
    until_empty(&tmux);
    tmux.types(&["C-d"]);
    tmux.until_prompt();
    tmux.enters("echo typed-and-seen");
    tmux.until_it("its echo and its output", |screen| screen.matches("typed-and-seen").count() == 2);
}

#[test]
fn a_question_of_a_run_is_answered_at_the_prompt() {
    let home = home();
    home.write_settings("rules:\n  - {pattern: write, decision: ask}\n");
    let tmux = open(&home);
    line(&tmux, "write it");
    tmux.until("[Enter = deny]:");
    tmux.types(&["o", "Enter"]);
    tmux.until("I did it.");
    until_empty(&tmux);
    let run = runs(&home)[0]["run"].as_str().expect("an id").to_owned();
    assert!(home.made(&run, "made.txt"));
    tmux.types(&["C-d"]);
    tmux.until_prompt();
}

#[test]
fn without_a_terminal_and_in_the_home_there_is_no_prompt() {
    let home = home();
    let hint = home.posse(&[]).exits(2).stderr;
    assert!(hint.starts_with("Usage: posse VERB"), "{hint}");
    let tmux = Tmux::open(&home, 80, 24);
    tmux.enters("clear; posse --plain; cd ~; posse");
    let screen = tmux.until_it("two hints", |screen| screen.matches("Usage: posse VERB").count() == 2);
    assert!(!screen.contains("/help"), "{screen}");
}
