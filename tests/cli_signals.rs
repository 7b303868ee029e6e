//! Ctrl-C and its kin: the first cancels, the second stops; SIGTERM and SIGHUP stop.

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Going, Home, run_of};

fn script(latency_ms: u32) -> String {
    format!(
        "- when: {{definition: coder, turn: 1}}\n  reply: {{tool_calls: [{{name: task, input: {{subagent_type: \
         explore, description: look, prompt: look}}}}]}}\n- reply: {{text: done}}\n  latency_ms: {latency_ms}\n"
    )
}

/// A run whose child waits for ever.
fn stuck(home: &Home) -> (Going, String) {
    home.write("script.yaml", &script(3_600_000));
    let mut going = home.start(&["run", "--json", "--model", "scripted/script.yaml", "look"]);
    let event = going.until_event(".1", "agent.model_called");
    (going, run_of(&event))
}

#[test]
fn the_first_ctrl_c_cancels_and_says_so() {
    let home = Home::new();
    let (going, run) = stuck(&home);
    going.signal(Signal::INT);
    let done = going.finish().exits(3);
    assert!(done.stderr.starts_with("cancelling; press Ctrl-C again to stop at once"), "{}", done.stderr);
    let result = done.result();
    assert_eq!((&result["status"], &result["exit"]), (&json!("cancelled"), &json!(3)));
    home.posse(&["resume", &run]).exits(3);
    let show = home.posse(&["show", "--json", &run]).json();
    for agent in show["agents"].as_array().expect("agents") {
        assert_eq!((&agent["state"], &agent["close_reason"]), (&json!("closed"), &json!("cancelled")));
    }
}

#[test]
fn a_second_ctrl_c_stops_and_a_resume_finishes_the_cancel() {
    let home = Home::new();
    // A tool that ignores the cancel for a moment does not exist here, so both signals are sent at once: either
    // both are seen as two, or the first has ended the run already.
    let (going, run) = stuck(&home);
    going.signal(Signal::INT);
    going.signal(Signal::TERM);
    let done = going.finish();
    assert!(matches!(done.code, Some(143 | 3)), "{done:?}");
    home.write("script.yaml", &script(0));
    if done.code == Some(143) {
        assert!(done.stderr.contains(&format!("`posse resume {run}` goes on")), "{}", done.stderr);
    }
    let resumed = home.posse(&["resume", "--json", &run]);
    assert!(matches!(resumed.code, Some(0 | 3)), "{resumed:?}");
}

#[test]
fn sigterm_and_sighup_stop_at_once_and_leave_the_run_resumable() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let home = Home::new();
        let (going, run) = stuck(&home);
        going.signal(signal);
        let done = going.finish().exits(code);
        assert_eq!(done.stderr, format!("stopped; `posse resume {run}` goes on with the run\n"));
        let ps = home.posse(&["ps", "--json"]).json();
        assert_eq!(ps["status"], "interrupted");
        home.write("script.yaml", &script(0));
        assert_eq!(home.posse(&["resume", "--json", &run]).exits(0).result()["text"], "done");
        home.posse(&["verify", &run]).exits(0);
    }
}
