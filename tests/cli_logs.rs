//! Following a run's events from other processes.

use serde_json::{Value, json};

use crate::support::{Home, RunningCommand, run_of};

fn script(latency_ms: u32) -> String {
    format!(
        r"
- when: {{definition: coder, turn: 1}}
  reply:
    tool_calls:
      - {{name: task, input: {{subagent_type: explore, description: one, prompt: one}}}}
      - {{name: task, input: {{subagent_type: explore, description: two, prompt: two}}}}
- when: {{definition: explore, turn: 1}}
  reply: {{tool_calls: [{{name: list, input: {{}}}}]}}
- when: {{definition: explore, turn: 2}}
  reply: {{text: found}}
  latency_ms: {latency_ms}
- reply: {{text: done}}
"
    )
}

fn stuck(home: &Home) -> (RunningCommand, String) {
    home.write("script.yaml", &script(3_600_000));
    let mut going = home.start(&["run", "--json", "--model", "scripted/script.yaml", "look"]);
    going.until_event(".2", "agent.tool_finished");
    let event = going.until_event(".2", "agent.model_called");
    (going, run_of(&event))
}

fn seqs(events: &[Value]) -> Vec<u64> {
    events.iter().map(|event| event["seq"].as_u64().expect("a number")).collect()
}

#[test]
fn a_follower_sees_every_event_once_across_the_death_of_the_owner_and_its_own() {
    let home = Home::new();
    let (going, run) = stuck(&home);
    let mut follower = home.start(&["logs", "-f", "--json", &run]);
    follower.until_event(".1", "agent.subagent_started");
    // It loses its connection in the middle, and reconnects for what it has not seen.
    let mut seen: Vec<Value> =
        follower.kill().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let after = seen.len().to_string();
    let follower = home.start(&["logs", "-f", "--json", "--after", &after, &run]);
    going.kill();
    // Without a process that executes the run nothing follows: the follower reports that and ends, like `wait`.
    let ended = follower.finish().exits(130);
    assert!(ended.stderr.contains(&format!("run {run} was interrupted")), "{}", ended.stderr);
    assert!(ended.stderr.contains(&format!("`posse resume {run}`")), "{}", ended.stderr);
    seen.extend(ended.json_lines());
    home.write("script.yaml", &script(0));
    home.posse(&["resume", &run]).exits(0);
    let after = seen.len().to_string();
    seen.extend(home.posse(&["logs", "-f", "--json", "--after", &after, &run]).exits(0).json_lines());
    let journal = home.posse(&["logs", "--json", &run]).exits(0).json_lines();
    assert_eq!(seen, journal);
    assert_eq!(seqs(&seen), (1..=seen.len() as u64).collect::<Vec<_>>());
    assert_eq!(seen.last().expect("an end")["kind"], "run.completed");
}

#[test]
fn events_can_be_cut_by_number_and_by_agent() {
    let home = Home::new();
    home.write("script.yaml", &script(0));
    let result = home.posse(&["run", "--json", "--model", "scripted/script.yaml", "look"]).exits(0).result();
    let run = run_of(&result);
    let all = home.posse(&["logs", "--json", &run]).json_lines();
    let some = home.posse(&["logs", "--json", "--after", "5", &run]).json_lines();
    assert_eq!(some, all[5..]);
    for beyond in ["100000", &all.len().to_string()] {
        let none = home.posse(&["logs", "-f", "--json", "--after", beyond, &run]).exits(0);
        assert_eq!(none.stdout, "");
        assert!(none.stderr.contains(" ends with event "), "{}", none.stderr);
    }
    let one = format!("{run}.1");
    let of_one = home.posse(&["logs", "--json", "--agent", &one, &run]).json_lines();
    let expected: Vec<Value> = all.into_iter().filter(|event| event["agent_id"] == json!(one)).collect();
    assert_eq!(of_one, expected);
    // However the agent is named.
    for args in [&["logs", "--json", "--agent", "1", &run][..], &["logs", "--json", &one]] {
        assert_eq!(home.posse(args).exits(0).json_lines(), expected, "{args:?}");
    }
    for args in
        [&["logs", "--agent", "7", &run][..], &["logs", &format!("{run}.7")], &["logs", "--agent", "1", &one]]
    {
        assert!(home.posse(args).stderr.starts_with("error: "), "{args:?}");
    }
    let whole = home.posse(&["trace", &one]).exits(0).stdout;
    assert_eq!(home.posse(&["trace", &run, "1"]).exits(0).stdout, whole);
}

#[test]
fn a_follower_whose_reader_leaves_ends_quietly() {
    let home = Home::new();
    let (_going, run) = stuck(&home);
    let mut command = home.command(&["logs", "-f", "--json", &run]);
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    // Nothing more will be written: only the reader's disconnect can end it.
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn the_timeline_is_one_line_for_each_event() {
    let home = Home::new();
    home.write("script.yaml", "- reply: {text: done}\n");
    let result = home.posse(&["run", "--json", "--model", "scripted/script.yaml", "look"]).exits(0).result();
    let run = run_of(&result);
    insta::assert_snapshot!(home.posse(&["logs", &run]).exits(0).screen(&home, &run));
}
