//! The rights of a replay: a bundle brings no rights with it.

use std::fs;
use std::net::TcpListener;

use crate::support::{Done, Home, run_of};

const REPLAY: [&str; 3] = ["run", "--model", "replay/bug.posse"];

/// A server on loopback that counts its connections.
struct Door(TcpListener);

impl Door {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        listener.set_nonblocking(true).expect("set");
        Self(listener)
    }

    fn port(&self) -> u16 {
        self.0.local_addr().expect("an address").port()
    }

    /// A script that connects with a command, and ends.
    fn script(&self) -> String {
        let port = self.port();
        script(&format!(
            "{{name: bash, input: {{command: '(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo reached || echo shut'}}}}"
        ))
    }

    /// The connections since the last call. The kernel accepts every connection, so none is missed.
    fn visits(&self) -> usize {
        std::iter::from_fn(|| self.0.accept().ok()).count()
    }
}

fn script(call: &str) -> String {
    format!("- when: {{turn: 1}}\n  reply: {{tool_calls: [{call}]}}\n- reply: {{text: done}}\n")
}

#[track_caller]
fn recorded(home: &Home, script: &str, flags: &[&str]) -> String {
    home.write("script.yaml", script);
    let args = [&["run", "--json", "--model", "scripted/script.yaml"], flags, &["do it"]].concat();
    run_of(&home.posse(&args).exits(0).result())
}

/// Another user, who was given the run as `bug.posse`.
#[track_caller]
fn receiver(home: &Home, run: &str) -> Home {
    let receiver = Home::new();
    let path = receiver.project().join("bug.posse");
    home.posse(&["export", run, "-o", path.to_str().expect("UTF-8")]).exits(0);
    receiver
}

#[track_caller]
fn says(done: &Done, texts: &[&str]) {
    for text in texts {
        assert!(done.stderr.contains(text), "no {text:?} in {}", done.stderr);
    }
}

#[test]
fn a_bundle_does_not_open_the_network_unless_its_reader_does() {
    let door = Door::new();
    let home = Home::new();
    let run = recorded(&home, &door.script(), &["--allow", "network"]);
    assert_eq!(door.visits(), 1, "when it was recorded");
    let receiver = receiver(&home, &run);
    let opened = [REPLAY.as_slice(), &["--allow", "network"]].concat();

    let shut = receiver.posse(&REPLAY).exits(6);
    assert_eq!(door.visits(), 0, "{}", shut.stderr);
    says(
        &shut,
        &["note: this bundle may be another user's", "under your own rules", "not allowed now: `network`"],
    );
    says(&shut, &["the replay is not the recorded run", "the result of `bash`", "- reached", "+ shut"]);

    receiver.write_settings("rules: [{pattern: network, decision: deny}]\n");
    let denied = receiver.posse(&opened).exits(6);
    assert_eq!(door.visits(), 0, "{}", denied.stderr);
    assert!(!denied.stderr.contains("not allowed now"), "{}", denied.stderr);

    receiver.write_settings("");
    receiver.posse(&opened).exits(0);
    assert_eq!(door.visits(), 1, "opened by its reader");
    let background = receiver.posse(&[opened.as_slice(), &["-d"]].concat()).exits(0);
    receiver.posse(&["wait", background.stdout.trim()]).exits(0);
    assert_eq!(door.visits(), 1, "opened in the background too");
}

#[test]
fn a_definition_in_a_bundle_does_not_open_the_network() {
    let door = Door::new();
    let home = Home::new();
    let agents = r#"{"opener": {"description": "Opens.", "prompt": "Open.", "tools": ["bash"],
        "rules": [{"pattern": "bash", "decision": "allow"}, {"pattern": "network", "decision": "allow"}]}}"#;
    let run = recorded(&home, &door.script(), &["--agents", agents, "--agent", "opener"]);
    assert_eq!(door.visits(), 1, "when it was recorded");
    let receiver = receiver(&home, &run);
    says(&receiver.posse(&REPLAY).exits(6), &["not allowed now: `network`", "+ shut"]);
    assert_eq!(door.visits(), 0);
    receiver.posse(&[REPLAY.as_slice(), &["--allow", "network"]].concat()).exits(0);
    assert_eq!(door.visits(), 1, "opened by its reader");
}

#[test]
fn a_run_of_ones_own_keeps_what_was_allowed_under_the_rules_of_now() {
    let door = Door::new();
    let home = Home::new();
    let run = recorded(&home, &door.script(), &["--allow", "network"]);
    let model = format!("replay/{run}");
    home.posse(&["run", "--model", &model]).exits(0);
    assert_eq!(door.visits(), 2, "recorded and replayed");
    home.posse(&["run", "--model", &model, "--deny", "network"]).exits(6);
    home.write_settings("rules: [{pattern: network, decision: deny}]\n");
    says(&home.posse(&["run", "--model", &model]).exits(6), &["- reached", "+ shut"]);
    assert_eq!(door.visits(), 0);
}

#[test]
fn what_a_bundle_was_allowed_to_write_and_fetch_is_closed_again() {
    let home = Home::new();
    let write = "{name: write, input: {path: .github/workflows/x.yml, content: evil}}";
    let run = recorded(&home, &script(write), &["--allow", "write:.github/**"]);
    let writes = receiver(&home, &run);
    let shut = writes.posse(&REPLAY).exits(6);
    says(&shut, &["not allowed now: `write:.github/**`", "the result of `write`", "is a protected name"]);
    writes.posse(&[REPLAY.as_slice(), &["--allow", "write:.github/**"]].concat()).exits(0);

    // No listener is there: what counts is whether it was tried.
    let port = Door::new().port();
    let fetch = format!("{{name: webfetch, input: {{url: 'http://127.0.0.1:{port}/'}}}}");
    let run = recorded(&home, &script(&fetch), &["--allow", "webfetch:127.0.0.1"]);
    let fetches = receiver(&home, &run);
    let shut = fetches.posse(&REPLAY).exits(6);
    says(
        &shut,
        &[
            "not allowed now: `webfetch:127.0.0.1`",
            "the result of `webfetch`",
            "only public addresses are fetched",
        ],
    );
}

const LIST: &str = "{name: list, input: {path: '.'}}";

#[test]
fn a_yes_in_a_bundle_is_not_its_readers() {
    let home = Home::new();
    home.write("script.yaml", &script(LIST));
    let asking = ["run", "--json", "--on-ask", "escalate", "--ask", "list"];
    let mut going = home.start(&[&asking[..], &["--model", "scripted/script.yaml", "do it"]].concat());
    let run = run_of(&going.until_event("", "agent.input_requested"));
    home.posse(&["approve", "--yes", &run]).exits(0);
    going.finish().exits(0);
    let receiver = receiver(&home, &run);
    let differs = receiver.posse(&REPLAY).exits(6);
    says(&differs, &["the result of `list`", "the recorded approval was given by another user"]);
}

#[test]
fn a_question_that_was_not_recorded_does_not_wait_for_nobody() {
    let home = Home::new();
    let run = recorded(&home, &script(LIST), &["--on-ask", "escalate"]);
    home.write_settings("rules: [{pattern: list, decision: ask}]\n");
    let differs = home.posse(&["run", "--model", &format!("replay/{run}")]).exits(6);
    says(&differs, &["the result of `list`", "the recorded run did not ask about it"]);
}

#[test]
fn a_bundle_without_files_reads_where_its_reader_is() {
    let home = Home::new();
    home.write("kept.txt", "as it was\n");
    let run = recorded(&home, &script("{name: read, input: {path: kept.txt}}"), &["--agent", "explore"]);
    let receiver = receiver(&home, &run);
    // The replay does not read the folder of that name, though it exists.
    fs::remove_file(home.project().join("kept.txt")).expect("removed");
    receiver.write("kept.txt", "as it was\n");
    let done = receiver.posse(&REPLAY).exits(0);
    says(&done, &["has no files of its own: ", "is read as it is now"]);
    assert!(!done.stderr.contains("not allowed now"), "{}", done.stderr);
}

#[test]
fn the_models_that_a_bundle_names_are_not_looked_for() {
    let home = Home::new();
    home.write("child.yaml", "- reply: {text: found}\n");
    let agents = r#"{"scout": {"description": "Looks.", "prompt": "Look.", "tools": ["read"],
        "model": "scripted/child.yaml"}}"#;
    let task = "{name: task, input: {subagent_type: scout, description: look, prompt: look}}";
    let run = recorded(&home, &script(task), &["--agents", agents]);
    let receiver = receiver(&home, &run);
    for name in ["child.yaml", "script.yaml"] {
        fs::remove_file(home.project().join(name)).expect("removed");
    }
    receiver.posse(&REPLAY).exits(0);
}
