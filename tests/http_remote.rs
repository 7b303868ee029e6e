//! The verbs of the command with the runs of a server: what they print, and how they exit, is as on the server's machine.

use std::path::Path;

use serde_json::json;

use crate::http_client::Client;
use crate::support::{Done, Home, RunningCommand};

const SCRIPT: &str = "
- when: {definition: coder, turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: general, description: write, prompt: write}}]}
- when: {definition: general, turn: 1}
  reply: {tool_calls: [{name: write, input: {path: made.txt, content: \"one\\n\"}}]}
- reply: {text: all done}
";
const ASKING: &str = "
- when: {turn: 1}
  reply: {tool_calls: [{name: bash, input: {command: git push origin main}}]}
- reply: {text: all done}
";
const STUCK: &str = "- reply: {text: never}\n  latency_ms: 3600000\n";

fn home(script: &str) -> Home {
    let home = Home::new();
    home.write("script.yaml", script);
    home
}

/// Starts a server, and returns the URL that it prints.
fn serve(home: &Home) -> (RunningCommand, String) {
    let mut server = home.start(&["serve", "--listen", "127.0.0.1:0"]);
    let url = server.line().unwrap_or_else(|| panic!("the server ended"));
    (server, url.trim().to_owned())
}

/// Another machine: it has nothing of the server's, and knows the server.
fn elsewhere() -> Home {
    let home = Home::new();
    home.not_replayed("its runs are those of a server");
    home
}

#[test]
fn verbs_that_read_print_the_same_as_on_the_machine_of_the_server() {
    let home = home(SCRIPT);
    let (_server, url) = serve(&home);
    let other = elsewhere();
    let remote = |args: &[&str]| other.posse(&[args, &["--server", &url]].concat());
    let started = remote(&["run", "--model", "scripted/script.yaml", "look"]).exits(0);
    assert_eq!(started.stdout, "all done\n");
    let run = remote(&["ps", "-q"]).exits(0).stdout.trim().to_owned();
    let failing =
        remote(&["run", "-d", "--model", "scripted/script.yaml", "--max-turns", "1", "look"]).exits(0);
    let failed = failing.stdout.trim().to_owned();
    let waited = remote(&["wait", &failed]);
    same(&waited, &home.posse(&["wait", &failed]), &["wait"]);
    assert_ne!(waited.code, Some(0), "{waited:?}");

    let child = format!("{run}.1");
    for args in [
        &["show", &run][..],
        &["show", &child],
        &["show", &run, "--json"],
        &["logs", &run],
        &["logs", "-f", &run],
        &["logs", &child, "--json"],
        &["logs", &run, "--kind", "tool_finished"],
        &["trace", &run],
        &["trace", &child],
        &["report", &run],
        &["report", &child],
        &["diff", &run],
        &["diff", &run, "--stat"],
        &["diff", &child, "--json"],
        &["wait", &run],
        &["wait", &run, "--json"],
        &["wait", &child],
        &["attach", &run],
        &["ps", "-q"],
        &["ps", "--json"],
        &["ps", "--status", "completed", "--format", "{run} {status} {request} {agents}"],
        &["show", &run[..3]],
        &["show", &format!("{run}.7")],
        &["cancel", &run],
        &["send", &run, "hello"],
        &["approve", "--yes", &run],
        &["stats", &run],
        &["stats", &run, "--json"],
        &["stats", "--json"],
        &["salvage", &run],
        &["salvage", &child, "--json"],
        &["explain", &run, "bash:git push"],
        &["explain", &child, "write:src/main.rs", "--json"],
        &["apply", "--check", &run],
        &["apply", "--check", &run, "--json"],
        &["apply", &failed],
        &["apply", "--undo", &run],
        &["resume", &run],
        &["resume", "--last"],
        &["approvals"],
        &["models", "--all"],
        &["settings"],
    ] {
        same(&remote(args), &home.posse(args), args);
    }
    // The newest runs of the directory are those of each machine.
    let unknown = remote(&["show", "aaaaaaaa"]).exits(2);
    assert!(unknown.stderr.starts_with("error: there is no run `aaaaaaaa`\n"), "{unknown:?}");
}

/// Asserts that two commands printed and did the same.
#[track_caller]
fn same(remote: &Done, local: &Done, args: &[&str]) {
    assert_eq!(remote.code, local.code, "{args:?}: {remote:?} {local:?}");
    assert_eq!(remote.stdout, local.stdout, "{args:?}");
    // Where the reports of sub-agents are in files is of no use elsewhere.
    let said = |done: &Done| -> Vec<String> {
        let lines = done.stderr.lines().filter(|line| !line.contains("the reports of its sub-agents are in"));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(said(remote), said(local), "{args:?}");
}

#[test]
fn runs_of_a_server_are_answered_told_and_ended_from_elsewhere() {
    let home = home(ASKING);
    let (_server, url) = serve(&home);
    let other = elsewhere();
    let remote = |args: &[&str]| other.posse(&[args, &["--server", &url]].concat());
    let client = Client::of(&url);
    let start = || {
        let started =
            remote(&["run", "-d", "--json", "--model", "scripted/script.yaml", "look"]).exits(0).json();
        started["run"].as_str().expect("a run").to_owned()
    };
    let stream = |run: &str| client.follow(&format!("/api/v1/runs/{run}/events/stream"), None);
    let run = start();
    stream(&run).until("agent.input_requested");
    let denied = remote(&["deny", "--yes", "--reason", "not now", &run]).exits(0);
    assert!(
        denied.stderr.contains("git push origin main") && denied.stderr.ends_with("denied\n"),
        "{denied:?}"
    );
    let answered = stream(&run).until("agent.input_answered");
    assert_eq!(answered["detail"]["reason"], "not now");
    assert_eq!(remote(&["wait", &run]).exits(0).stdout, "all done\n");

    let run = start();
    stream(&run).until("agent.input_requested");
    let approved = remote(&["approve", "--yes", &run]).exits(0);
    assert!(approved.stderr.ends_with("approved\n"), "{approved:?}");
    remote(&["wait", &run]).exits(0);

    home.write("script.yaml", STUCK);
    let run = start();
    stream(&run).until("agent.model_called");
    let sent = remote(&["send", &run, "hurry"]).exits(0);
    assert_eq!(sent.stderr, format!("sent to {run}\n"));
    stream(&run).until("agent.message_received");
    let cancelled = remote(&["cancel", &run, "--reason", "enough"]).exits(0);
    assert!(cancelled.stderr.contains("enough"), "{cancelled:?}");
    remote(&["wait", &run]).exits(3);
    let run = start();
    stream(&run).until("agent.model_called");
    remote(&["kill", &run]).exits(0);
    remote(&["wait", &run]).exits(3);
}

#[test]
fn runs_of_a_server_are_continued_retried_resumed_and_applied_from_elsewhere() {
    let home = home(SCRIPT);
    let (server, url) = serve(&home);
    let other = elsewhere();
    let remote = |args: &[&str]| other.posse(&[args, &["--server", &url]].concat());
    remote(&["run", "--model", "scripted/script.yaml", "look"]).exits(0);
    let run = remote(&["ps", "-q"]).exits(0).stdout.trim().to_owned();
    let continued = remote(&["continue", "--json", &run, "is it complete?"]).exits(0).json_lines();
    let of = continued[0]["detail"]["continues"].clone();
    assert_eq!(of["agent"], run, "{of}");
    let refused = remote(&["retry", &run]).exits(2).stderr;
    assert!(refused.contains("completed"), "{refused}");
    let failing = remote(&["run", "--max-turns", "1", "--model", "scripted/script.yaml", "look"]);
    assert_ne!(failing.code, Some(0), "{failing:?}");
    let failed = remote(&["ps", "-q"]).exits(0).stdout.lines().next().expect("a run").to_owned();
    let retried = remote(&["retry", "--max-turns", "20", &failed]).exits(0);
    assert_eq!(retried.stdout, "all done\n");
    let refused = remote(&["continue", "--apply", &run, "more"]).exits(2).stderr;
    assert!(refused.contains("--apply: a server does not accept this"), "{refused}");

    let bundle = remote(&["export", &run]).exits(0).stdout;
    assert_eq!(bundle.trim(), other.project().join(format!("{run}.posse")).to_str().expect("UTF-8"));
    let again = remote(&["export", &run]).exits(1).stderr;
    assert!(again.contains("the file exists already"), "{again}");
    let replayed = other.posse(&["run", "--model", &format!("replay/{run}.posse")]).exits(0);
    assert_eq!(replayed.stdout, "all done\n");
    let made = home.project().join("made.txt");
    let applied = remote(&["apply", &run]).exits(0).stdout;
    assert!(applied.starts_with(&format!("applied run {run}: 1 file changed in ")), "{applied}");
    assert!(made.exists());
    let undone = remote(&["apply", "--undo", &run]).exits(0).stdout;
    assert!(undone.starts_with(&format!("undid the apply of run {run}: ")), "{undone}");
    assert!(!made.exists());

    home.write("script.yaml", STUCK);
    let started = remote(&["run", "-d", "--model", "scripted/script.yaml", "look"]).exits(0);
    let run = started.stdout.trim().to_owned();
    Client::of(&url).follow(&format!("/api/v1/runs/{run}/events/stream"), None).until("agent.model_called");
    let refused = remote(&["resume", &run]).exits(1).stderr;
    assert!(refused.contains(&format!("run {run} is already running")), "{refused}");
    server.kill();
    home.write("script.yaml", "- reply: {text: all done}\n");
    let (_server, url) = serve(&home);
    let resumed = other.posse(&["resume", &run, "--server", &url]).exits(0);
    assert_eq!(resumed.stdout, "all done\n");
}

#[test]
fn a_server_that_cannot_be_used_is_an_error_that_says_what_to_do() {
    let home = home(SCRIPT);
    let (server, url) = serve(&home);
    let other = elsewhere();
    let token = other.write("token", url.split_once("token=").expect("a token").1);
    let address = url.split_once("/?").expect("an address").0.to_owned();
    let missing = other.posse(&["ps", "--server", &address]).exits(2).stderr;
    assert!(
        missing.contains("the token of the server is missing") && missing.contains("POSSE_SERVER_TOKEN"),
        "{missing}"
    );
    other.set("POSSE_SERVER", &address);
    other.set("POSSE_SERVER_TOKEN_FILE", Path::new(&token).to_str().expect("UTF-8"));
    other.posse(&["ps"]).exits(0);
    let refused = other.posse(&["gc"]).exits(2).stderr;
    assert!(
        refused.contains("with the runs of this machine") && refused.contains("POSSE_SERVER"),
        "{refused}"
    );
    let refused = other.posse(&["run", "--model", "scripted/script.yaml", "--apply", "look"]).exits(2).stderr;
    assert!(refused.contains("--apply: a server does not accept this"), "{refused}");
    let refused = other.posse(&["run", "--model", "nothing", "look"]).exits(2).stderr;
    assert!(refused.contains("unknown model `nothing`"), "{refused}");
    other.set("POSSE_SERVER_TOKEN", "wrong");
    let refused = other.posse(&["ps"]).exits(1).stderr;
    assert!(refused.contains("the token is wrong, revoked or has expired"), "{refused}");
    drop(server);
    let gone = other.posse(&["ps"]).exits(1).stderr;
    assert!(gone.contains("cannot be used"), "{gone}");
    assert_eq!(json!(other.state_dir().join("posse.db").exists()), json!(false), "nothing is stored here");
}
