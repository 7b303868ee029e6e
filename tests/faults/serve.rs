//! A server that is killed at random moments, with clients that connect again, and with a receiver of its webhook.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, sync_channel};
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
- when: {definition: coder, turn: 3}
  reply: {tool_calls: [{name: bash, input: {command: git push origin main}}]}
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
const RUNS: u64 = if option_env!("POSSE_CAMPAIGNS").is_some() { 50 } else { 5 };
const CLIENTS: usize = 3;
/// The most events between two kills.
const EVENTS_MAX: u64 = 25;
/// Kills of one run. Afterwards it may end.
const KILLS_MAX: u64 = 12;
/// Messages to the webhook that wait to be looked at.
const MESSAGES_MAX: usize = 1_024;

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

/// A receiver of a webhook, which accepts every message.
fn receiver() -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (sender, messages) = sync_channel(MESSAGES_MAX);
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let mut reader = BufReader::new(connection);
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                let lower = line.to_ascii_lowercase();
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            // The sender may be killed while it sends.
            if length == 0 || reader.read_exact(&mut body).is_err() {
                continue;
            }
            if sender.send(serde_json::from_slice(&body).unwrap()).is_err() {
                return;
            }
            let _ = reader.into_inner().write_all(b"HTTP/1.1 204 X\r\nConnection: close\r\n\r\n");
        }
    });
    (url, messages)
}

/// Collects the messages to the webhook until one reports the end of the run. The same id is the same message.
fn collect(messages: &Receiver<Value>) -> BTreeMap<String, Value> {
    let mut all: BTreeMap<String, Value> = BTreeMap::new();
    loop {
        let message = messages.recv_timeout(PATIENCE).expect("the end of the run is reported");
        let is_last = message["type"] == "run.ended";
        let id = message["id"].as_str().unwrap().to_owned();
        if let Some(before) = all.get(&id) {
            assert_eq!(*before, message, "a repeated message is the same");
        }
        all.insert(id, message);
        if is_last {
            return all;
        }
    }
}

/// Asserts that each question and the end of a run was reported, and nothing else.
fn assert_reported(journal: &[Value], run: &str, reported: &BTreeMap<String, Value>) {
    let wanted = |event: &&Value| event["kind"] == "agent.input_requested" || is_end(event);
    let expected: BTreeMap<String, &Value> =
        journal.iter().filter(wanted).map(|event| (format!("{run}-{}", event["seq"]), event)).collect();
    let found: BTreeMap<String, &Value> =
        reported.iter().map(|(id, message)| (id.clone(), &message["event"])).collect();
    let ids = |of: &BTreeMap<String, &Value>| of.keys().cloned().collect::<Vec<_>>();
    assert_eq!(ids(&found), ids(&expected));
    assert!(found.iter().all(|(id, event)| event["detail"] == expected[id]["detail"]), "{found:#?}");
}

#[test]
fn clients_of_a_killed_server_end_with_exactly_the_events_of_the_journal() {
    let mut kills = 0;
    for number in 0..RUNS {
        let mut dice = Dice::of_part(17, number);
        let home = Home::with_script(SCRIPT);
        let (webhook, messages) = receiver();
        let settings = home.path("home/.config/posse");
        fs::create_dir_all(&settings).unwrap();
        let webhook = format!("webhook: {{url: '{webhook}', key: secret}}\n");
        fs::write(settings.join("settings.yaml"), webhook).unwrap();
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
        'run: for kill in 0..=KILLS_MAX {
            let path = format!("/api/v1/runs/{run}/events/stream");
            let mut stream = Client::of(&url).follow(&path, last);
            let events = if kill == KILLS_MAX { u64::MAX } else { dice.roll(EVENTS_MAX) };
            for _ in 0..events {
                let event =
                    stream.next().unwrap_or_else(|| panic!("the stream of {run} ended after {last:?}"));
                last = event.id;
                if is_end(&event.data) {
                    break 'run;
                }
                if event.data["kind"] == "agent.input_requested" {
                    // The answer waits in the store if the server is killed before it has read it.
                    let said = home.posse(&["deny", "--yes", &run]);
                    assert!(said.status.success(), "{said:?}");
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
        let reported = collect(&messages);
        drop(server.kill().unwrap());
        let journal = home.logs(&run);
        for seen in seen {
            assert_eq!(seen, journal);
        }
        assert_eq!(journal.last().unwrap()["kind"], "run.completed", "{journal:#?}");
        assert_reported(&journal, &run, &reported);
        assert!(home.posse(&["verify", &run]).status.success());
    }
    assert!(kills > RUNS, "only {kills} kills");
}
