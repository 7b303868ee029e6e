//! A key is sent to its provider and appears nowhere else: not in events, logs, errors, files, or what programs can
//! see.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use posse_testkit::mock::{
    Answer, Call, FaultMoment, FaultType, Mock, MockReply, MockRequest, Options, WireFormat,
};
use serde_json::json;

use crate::models_world::{KEY, MODELS, PATIENCE};
use crate::support::{Done, Home, run_of};

const REQUEST: &str = "Look around.";
/// Prints what a program can see of others and of itself, without names of processes, so that a replay sees the same.
const LOOK: &str = "env; tr '\\0' '\\n' < /proc/self/environ; seen=$(for of in /proc/[0-9]*; do for what in cmdline environ; \
    do while read -rd '' said; do echo \"$said\"; done < $of/$what; done; done 2>/dev/null); sort -u <<< \"$seen\"";

/// A root that inspects its environment with a program, starts a child, and gets its key echoed by a failing provider.
fn curious(asked: &MockRequest, echo: &AtomicBool) -> Answer {
    let task = json!({"subagent_type": "general", "description": "look", "prompt": "Look too."});
    match (asked.first_text().contains(REQUEST), asked.turn()) {
        (true, 1) if echo.swap(false, Ordering::Relaxed) => {
            Answer::refuse(500, format!("the request with the key {KEY} could not be served"))
        }
        (_, 1) => MockReply::text("I look.").call("bash", &json!({"command": LOOK})).into(),
        (true, 2) => MockReply::text("You too.").call("task", &task).into(),
        _ => Answer::text("Nothing to see."),
    }
}

fn variable(wire_format: WireFormat) -> &'static str {
    if wire_format == WireFormat::Messages { "ANTHROPIC_API_KEY" } else { "OPENAI_API_KEY" }
}

/// The command of a user who has the key in their environment and enables the whole log.
fn command(home: &Home, wire_format: WireFormat, args: &[&str]) -> Command {
    let mut command = home.command(args);
    command.env(variable(wire_format), KEY).env("POSSE_LOG", "trace");
    command
}

fn server(source: impl posse_testkit::mock::ReplySource) -> Mock {
    Mock::with(source, Options { key: Some(KEY.to_owned()), ..Options::default() }).expect("a server")
}

/// The files beneath a folder that contain the key.
fn leaks(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let kind = entry.file_type().expect("a kind");
        if kind.is_dir() {
            found.extend(leaks(&path));
        } else if kind.is_file() && contains_key(&fs::read(&path).unwrap_or_default()) {
            found.push(path.display().to_string());
        }
    }
    found
}

fn contains_key(bytes: &[u8]) -> bool {
    bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes())
}

#[test]
fn a_key_of_the_environment_is_in_no_event_log_error_file_or_program() {
    for (wire_format, model) in MODELS.into_iter().filter(|(wire_format, _)| *wire_format != WireFormat::Chat)
    {
        let echo = AtomicBool::new(true);
        let mock = server(move |asked: &MockRequest| curious(asked, &echo));
        let home = Home::new();
        let url = mock.url();
        let args = ["run", "--json", "--model", model, "--base-url", &url, REQUEST];
        let done = Done::of(command(&home, wire_format, &args)).exits(0);
        assert!(!done.stderr.is_empty(), "{wire_format:?}: the log is there to be searched");
        let seen = done.stdout.matches("PATH=").count();
        assert!(seen >= 2, "{wire_format:?}: the programs saw their environment: {}", done.stdout);
        assert!(!contains_key(done.stdout.as_bytes()), "{wire_format:?}: in an event");
        assert!(!contains_key(done.stderr.as_bytes()), "{wire_format:?}: in the log");
        assert!(done.stdout.contains("[key]"), "{wire_format:?}: where it was echoed it was taken out");
        assert_eq!(leaks(home.state_dir().parent().expect("a home")), [""; 0], "{wire_format:?}");
        let bundle = home.project().join("run.posse");
        let run = run_of(&done.result());
        let args = ["export", &run, "--output", bundle.to_str().expect("UTF-8")];
        Done::of(command(&home, wire_format, &args)).exits(0);
        let unpacked = Command::new("gzip").args(["-dc"]).arg(&bundle).output().expect("gzip runs").stdout;
        assert!(unpacked.len() > 1_000 && !contains_key(&unpacked), "{wire_format:?}: in what was exported");
        // Every request had it in its header, and no body contained it.
        let log = mock.requests();
        assert!(log.len() >= 6 && log.iter().all(|logged| !contains_key(&logged.body)), "{wire_format:?}");
    }
}

/// A provider that echoes the key in every text field of a reply, and in the form of a proxy's URL.
fn echoing(asked: &MockRequest, echo: &AtomicBool) -> Answer {
    let urlencoded = KEY.bytes().map(|byte| format!("%{byte:02x}")).collect::<Vec<_>>().concat();
    match (asked.turn(), echo.swap(false, Ordering::Relaxed)) {
        (1, true) => Answer::refuse(503, format!("upstream ?key={urlencoded} {KEY}")),
        (1, false) => MockReply::text(format!("I was sent {KEY}."))
            .with_call(Call::new(KEY, &json!({})).id(KEY))
            .with_call(
                Call::new("read", &json!({KEY: KEY, "path": format!("/{urlencoded}")})).id(format!("x{KEY}")),
            )
            .thinking(&format!("The key is {KEY}."), KEY)
            .into(),
        _ => Answer::text("Done."),
    }
}

#[test]
fn a_key_that_a_provider_echoes_in_any_field_is_kept_nowhere() {
    for (wire_format, model) in MODELS.into_iter().filter(|(wire_format, _)| *wire_format != WireFormat::Chat)
    {
        let echo = AtomicBool::new(true);
        let mock = server(move |asked: &MockRequest| echoing(asked, &echo));
        let home = Home::new();
        let url = mock.url();
        let args = ["run", "--json", "--model", model, "--base-url", &url, REQUEST];
        let done = Done::of(command(&home, wire_format, &args)).exits(0);
        assert!(done.stdout.contains("[key]"), "{wire_format:?}: {}", done.stdout);
        assert!(!contains_key(done.stdout.as_bytes()), "{wire_format:?}: in an event");
        assert!(!contains_key(done.stderr.as_bytes()), "{wire_format:?}: in the log");
        assert_eq!(leaks(home.state_dir().parent().expect("a home")), [""; 0], "{wire_format:?}");
        assert!(!done.stdout.contains("%73%6b"), "{wire_format:?}: as in a URL");
    }
}

#[test]
fn a_bad_key_is_told_by_the_name_of_its_variable() {
    for (wire_format, model) in MODELS.into_iter().filter(|(wire_format, _)| *wire_format != WireFormat::Chat)
    {
        let mock = server(|_: &MockRequest| Answer::text("never"));
        let home = Home::new();
        let url = mock.url();
        let mut command =
            command(&home, wire_format, &["run", "--model", model, "--base-url", &url, "hello"]);
        let wrong = "sk-wrong-5c0a1e7b93f2";
        command.env(variable(wire_format), wrong);
        let done = Done::of(command).exits(4);
        assert!(done.stderr.contains(variable(wire_format)), "{}", done.stderr);
        assert!(!done.stderr.contains(wrong) && !done.stdout.contains(wrong), "{}", done.stderr);
        assert_eq!(mock.requests().len(), 1, "{wire_format:?}: a bad key is not tried again");
    }
}

#[test]
fn no_process_of_a_run_has_the_key_in_its_title() {
    let (wire_format, model) = MODELS[0];
    let mock = server(|_: &MockRequest| Answer::text("well").fault(FaultMoment::Event(3), FaultType::Stall));
    let home = Home::new();
    let url = mock.url();
    // In the background, where the user's flags have to reach another process.
    let args = ["run", "-d", "--model", model, "--base-url", &url, "hello"];
    let started = Done::of(command(&home, wire_format, &args)).exits(0);
    assert!(mock.wait(PATIENCE, |log| log.iter().any(|logged| logged.status == 200)), "no request came");
    let run = started.stdout.trim().to_owned();
    let ps = home.posse(&["ps", "--json"]).exits(0).json();
    let pid = ps["pid"].as_u64().expect("a process");
    let title = fs::read(format!("/proc/{pid}/cmdline")).expect("a title");
    assert!(!title.is_empty() && !contains_key(&title));
    assert_eq!(leaks(home.state_dir().parent().expect("a home")), [""; 0]);
    home.posse(&["cancel", &run]).exits(0);
}
