//! A server that is killed at random moments, with clients that connect again.

use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Instant;

use posse_testkit::dice::Dice;
use posse_testkit::process::{ProcessOutput, RunningProcess};
use serde_json::{Value, json};

use crate::home::{Home, PATIENCE};
use crate::http_client::Client;

/// Children of several turns, some of them at once.
const SCRIPT: &str = "
- when: {definition: coder, turn: 1}
  reply:
    tool_calls:
      - {name: task, input: {subagent_type: explore, description: one, prompt: one}}
      - {name: task, input: {subagent_type: explore, description: two, prompt: two}}
      - {name: task, input: {subagent_type: explore, description: three, prompt: three}}
  latency_ms: 5
- when: {definition: coder, turn: 2}
  reply:
    tool_calls:
      - {name: task, input: {subagent_type: explore, description: four, prompt: four}}
      - {name: task, input: {subagent_type: explore, description: five, prompt: five}}
  latency_ms: 5
- when: {definition: explore, turn: 1}
  reply: {tool_calls: [{name: list, input: {path: .}}]}
  latency_ms: 5
- when: {definition: explore, turn: 2}
  reply: {tool_calls: [{name: list, input: {path: .}}]}
  latency_ms: 5
- reply: {text: done}
  latency_ms: 5
";
/// How many runs have their server killed, and how many clients follow each.
const RUNS: u64 = 5;
const CLIENTS: usize = 3;
/// The most events between two kills.
const EVENTS_MAX: u64 = 25;
/// Kills of one run. Afterwards it may end.
const KILLS_MAX: u64 = 12;

/// The URL of the present server, with how many there were.
#[derive(Default)]
struct Present(Mutex<(u64, String)>, Condvar);

impl Present {
    fn publish(&self, url: &str) {
        let mut present = self.0.lock().unwrap();
        present.0 += 1;
        url.clone_into(&mut present.1);
        self.1.notify_all();
    }

    /// Waits for a server after the one with this number.
    fn after(&self, number: u64) -> (u64, String) {
        let present = self.1.wait_while(self.0.lock().unwrap(), |present| present.0 <= number).unwrap();
        present.clone()
    }
}

fn serve(home: &Home) -> (RunningProcess, String) {
    let server = home.start(&["serve", "--listen", "127.0.0.1:0", "--resume"]);
    let ProcessOutput::Line(url) = server.read_line(Instant::now() + PATIENCE) else { panic!("no URL") };
    (server, url)
}

fn is_end(event: &Value) -> bool {
    event["kind"]
        .as_str()
        .is_some_and(|kind| matches!(kind, "run.completed" | "run.failed" | "run.cancelled"))
}

/// Follows a run from server to server until it ends.
fn follow(present: &Present, run: &str) -> Vec<Value> {
    let mut seen: Vec<Value> = Vec::new();
    let mut number = 0;
    loop {
        let (next, url) = present.after(number);
        number = next;
        let last = seen.last().and_then(|event| event["seq"].as_u64());
        let path = format!("/api/v1/runs/{run}/events/stream");
        let Some(mut stream) = Client::of(&url).try_follow(&path, last) else { continue };
        while let Some(message) = stream.next() {
            seen.extend((message.name.is_empty()).then_some(message.data));
            if seen.last().is_some_and(is_end) {
                return seen;
            }
        }
    }
}

#[test]
fn clients_of_a_killed_server_end_with_exactly_the_events_of_the_journal() {
    let mut kills = 0;
    for number in 0..RUNS {
        let mut dice = Dice::of_part(17, number);
        let home = Home::with_script(SCRIPT);
        let (mut server, mut url) = serve(&home);
        let request = json!({ "request": "look", "settings": { "model": "scripted/script.yaml" } });
        let key = [("Idempotency-Key", "the only run")];
        let started = Client::of(&url).post_with("/api/v1/runs", &key, &request).has(201).json();
        let run = started["run"].as_str().unwrap().to_owned();
        let present = Arc::new(Present::default());
        present.publish(&url);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let (present, run) = (Arc::clone(&present), run.clone());
                thread::spawn(move || follow(&present, &run))
            })
            .collect();
        let mut last = None;
        'run: for _ in 0..KILLS_MAX {
            let path = format!("/api/v1/runs/{run}/events/stream");
            let mut stream = Client::of(&url).follow(&path, last);
            for _ in 0..dice.roll(EVENTS_MAX) {
                let event =
                    stream.next().unwrap_or_else(|| panic!("the stream of {run} ended after {last:?}"));
                last = event.id;
                if is_end(&event.data) {
                    break 'run;
                }
            }
            drop(server.kill().unwrap());
            kills += 1;
            (server, url) = serve(&home);
            // A client that never got its answer asks again.
            let again = Client::of(&url).post_with("/api/v1/runs", &key, &request).has(201).json();
            assert_eq!(again["run"], run);
            present.publish(&url);
        }
        let seen: Vec<Vec<Value>> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        drop(server.kill().unwrap());
        let journal = home.logs(&run);
        for seen in seen {
            assert_eq!(seen, journal);
        }
        assert_eq!(journal.last().unwrap()["kind"], "run.completed", "{journal:#?}");
        assert!(home.posse(&["verify", &run]).status.success());
    }
    assert!(kills > RUNS, "only {kills} kills");
}
