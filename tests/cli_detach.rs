//! Stories of runs in the background (`--detach`).

use serde_json::json;

use crate::cli_terminal::{on_a_real_terminal, on_terminal};
use crate::support::Home;

const SCRIPT: &str = "- reply: {text: done}\n  latency_ms: 20\n";

#[test]
fn a_detached_run_is_carried_by_a_process_of_its_own() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    let started = home.posse(&["run", "-d", "--model", "scripted/script.yaml", "x"]).exits(0);
    assert_eq!(started.stderr, "");
    let run = started.stdout.trim_end();
    assert_eq!(run.len(), 8, "{started:?}");
    let result = home.posse(&["wait", "--json", run]).exits(0).result();
    assert_eq!((&result["run"], &result["text"]), (&json!(run), &json!("done")));
    let log =
        std::fs::read_to_string(home.state_dir().join("logs").join(format!("{run}.log"))).expect("a log");
    assert!(log.starts_with(&format!("{run} run started: x\n")), "{log}");
}

#[test]
fn on_a_terminal_a_detached_run_is_named_with_the_verbs_that_follow_it() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    let command = on_a_real_terminal(&home, &["run", "-d", "--model", "scripted/script.yaml", "x"]);
    let (written, code) = on_terminal(command, 80, 24);
    let run = &written[..8];
    home.posse(&["wait", run]).exits(0);
    let lines = format!(
        "{run}\r\nit runs in the background; `posse attach {run}` shows it\r\n`posse wait {run}` waits for its end\r\n"
    );
    assert_eq!((written.as_str(), code), (lines.as_str(), Some(0)));
}

#[test]
fn a_detached_run_owns_its_lease_before_its_id_is_told() {
    let home = Home::new();
    home.write("script.yaml", "- reply: {text: done}\n  latency_ms: 3600000\n");
    let started = home.posse(&["run", "--detach", "--json", "--model", "scripted/script.yaml", "x"]).exits(0);
    let run = started.json()["run"].as_str().expect("an id").to_owned();
    let ps = home.posse(&["ps", "--json"]).json();
    assert_eq!((&ps["run"], &ps["status"]), (&json!(run), &json!("running")));
    assert!(ps["pid"].is_u64(), "{ps}");
    home.posse(&["cancel", &run]).exits(0);
    home.posse(&["wait", &run]).exits(3);
}

#[test]
fn a_request_from_standard_input_reaches_the_background() {
    let home = Home::new();
    home.write("script.yaml", "- when: {contains: from a file}\n  reply: {text: heard}\n");
    let request = home.write("request.txt", "a request from a file\n");
    let mut command = home.command(&["run", "-d", "--model", "scripted/script.yaml", "-"]);
    let output = command.stdin(std::fs::File::open(request).expect("a file")).output().expect("it runs");
    let run = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(home.posse(&["wait", "--json", run.trim_end()]).exits(0).result()["text"], "heard");
}

#[test]
fn a_state_directory_that_cannot_be_written_is_said_and_nothing_runs() {
    let home = Home::new();
    home.write("script.yaml", SCRIPT);
    std::fs::write(home.state_dir(), "a file in the way").expect("a file");
    for more in [&[] as &[&str], &["-d"]] {
        let done = home.posse(&[&["run", "--model", "scripted/script.yaml"], more, &["x"]].concat()).exits(1);
        assert!(done.stderr.starts_with("error: ") && done.stderr.contains("/state"), "{}", done.stderr);
    }
}
