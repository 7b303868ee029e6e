//! Approving with a question before it, and taking back what is always allowed.

use std::fmt::Write;
use std::fs;

use serde_json::json;

use crate::cli_asking::Terminal;
use crate::support::{Home, RunningCommand, run_of};

fn home(commands: &[&str]) -> Home {
    let home = Home::new();
    let mut script = String::new();
    for (turn, command) in commands.iter().enumerate() {
        // JSON is YAML too, and escapes control characters.
        let call = json!([{"name": "bash", "input": {"command": command}}]);
        let _ = writeln!(script, "- when: {{turn: {}}}\n  reply: {{tool_calls: {call}}}", turn + 1);
    }
    home.write("script.yaml", &(script + "- reply: {text: all done}\n"));
    home
}

/// A run that waits for an answer about its first command.
fn waiting(home: &Home) -> (RunningCommand, String) {
    let args = ["run", "--json", "--model", "scripted/script.yaml", "--on-ask", "escalate", "do it"];
    let mut going = home.start(&args);
    let asked = going.until_event("", "agent.input_requested");
    (going, run_of(&asked))
}

fn on_terminal(home: &Home, args: &[&str]) -> Terminal {
    let mut command = home.command(args);
    command.env("TERM", "xterm-256color");
    Terminal::open(command)
}

#[test]
fn approve_shows_the_call_and_asks_before_it_acts() {
    let home = home(&["git push origin \u{1b}[2Jmain"]);
    let (going, run) = waiting(&home);
    // Without a terminal nothing is answered unless that is said.
    for verb in ["approve", "deny"] {
        let refused = home.posse(&[verb, "@"]).exits(2).stderr;
        assert!(refused.contains("not a terminal, so the call still waits"), "{refused}");
        assert!(refused.contains("--yes"), "{refused}");
    }
    let mut terminal = on_terminal(&home, &["approve"]);
    let shown = terminal.until("approve exactly this call? [y/N] ");
    assert!(shown.contains(r"bash:git push origin \u{1b}[2Jmain"), "{shown:?}");
    assert!(!shown.contains("\u{1b}[2J") && shown.contains("call "), "{shown:?}");
    assert!(
        shown.contains("note: a workspace has no remote, so this fails; push yourself after `posse apply`")
    );
    terminal.types("\n");
    let (written, code) = terminal.ends();
    assert!(code == Some(1) && written.contains("the call still waits"), "{written}");
    assert_eq!(home.posse(&["ps", "--status", "waiting", "-q"]).exits(0).stdout, format!("{run}\n"));
    let mut terminal = on_terminal(&home, &["deny", &run, "--reason", "not today"]);
    terminal.until("deny this call? [y/N] ");
    terminal.types("y\n");
    let (written, code) = terminal.ends();
    assert!(code == Some(0) && written.contains("denied"), "{written}");
    going.finish().exits(0);
    let nothing = home.posse(&["approve", "--yes"]).exits(1).stderr;
    assert!(nothing.contains("nothing is waiting for approval"), "{nothing}");
}

#[test]
fn an_answer_never_reaches_a_call_that_was_not_shown() {
    let home = home(&["git push origin main", "git push origin tags"]);
    let (mut going, run) = waiting(&home);
    let mut terminal = on_terminal(&home, &["approve", &run]);
    assert!(terminal.until("[y/N] ").contains("bash:git push origin main"));
    // Meanwhile another user denies it, and the next call waits.
    home.posse(&["deny", "--yes", &run]).exits(0);
    going.until_event("", "agent.input_requested");
    terminal.types("y\n");
    let (written, code) = terminal.ends();
    assert!(code == Some(1) && written.contains("git push origin main"), "{written}");
    let left = home.posse(&["approvals", "--json"]).exits(0).json();
    assert_eq!(left["operation"], "bash:git push origin tags", "it still waits");
    home.posse(&["deny", "--yes", "@"]).exits(0);
    going.finish().exits(0);
}

#[test]
fn what_is_always_allowed_is_listed_and_revoked() {
    let home = home(&["git push origin main"]);
    let empty = home.posse(&["approvals"]).exits(0);
    assert!(empty.stdout.is_empty() && empty.stderr.contains("nothing is waiting"), "{empty:?}");
    let (going, run) = waiting(&home);
    let listed = home.posse(&["approvals"]).exits(0);
    assert!(
        listed.stdout.contains(&run) && listed.stdout.contains("bash:git push origin main"),
        "{listed:?}"
    );
    home.posse(&["approve", "--always", "--yes", "@"]).exits(0);
    going.finish().exits(0);
    let project = fs::canonicalize(home.project()).expect("a path");
    let listed = home.posse(&["approvals"]).exits(0).stdout;
    let expected = format!("Always allowed in {}:\n  bash:git push origin main\n", project.display());
    assert_eq!(listed, expected);
    let stored = home.posse(&["approvals", "--json"]).exits(0).json();
    assert_eq!(stored["dir"], project.to_str().expect("UTF-8"));
    // It is not asked again; after it was revoked it is.
    let args = ["run", "--json", "--model", "scripted/script.yaml", "--on-ask", "deny", "do it"];
    let is_denied = || home.posse(&args).exits(0).stdout.contains("PERMISSION_DENIED");
    assert!(!is_denied(), "the stored answer is used");
    let unknown = home.posse(&["approvals", "revoke", "bash:git push origin tags"]).exits(2).stderr;
    assert!(unknown.contains("is not always allowed in"), "{unknown}");
    home.posse(&["approvals", "revoke", "bash:git push origin main"]).exits(2);
    assert_eq!(home.posse(&["approvals"]).exits(0).stdout, expected, "without a yes it stays");
    let mut terminal = on_terminal(&home, &["approvals", "revoke", "--all"]);
    terminal.until("ask again about 1 operation? [y/N] ");
    terminal.types("y\n");
    assert_eq!(terminal.ends().1, Some(0));
    assert_eq!(home.posse(&["approvals"]).exits(0).stdout, "");
    assert!(is_denied(), "it was revoked");
}
