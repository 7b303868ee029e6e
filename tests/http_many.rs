//! Many clients of one run: each gets the whole journal, and one that reads nothing keeps no other waiting.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};

use crate::http_client::Client;
use crate::support::Home;

const CLIENTS: usize = 500;
const CHILDREN: usize = 100;
/// What a client's thread needs.
const STACK_BYTES: usize = 256 * 1024;
/// What a stream has beside messages.
const COMMENTS: [&[u8]; 2] = [b"retry: ", b": "];

/// A root with many children that are active at once.
fn script() -> String {
    let mut script = "- when: {definition: coder, turn: 1}\n  reply:\n    tool_calls:\n".to_owned();
    for child in 0..CHILDREN {
        let _ = writeln!(
            script,
            "      - {{name: task, input: {{subagent_type: explore, description: look {child}, prompt: look {child}}}}}"
        );
    }
    script.push_str(
        "- when: {definition: explore, turn: 1}\n  reply: {tool_calls: [{name: list, input: {path: .}}]}\n  \
         latency_ms: 100\n- reply: {text: done}\n  latency_ms: 100\n",
    );
    script
}

/// Opens a stream with the whole journal, and reads the head of the response.
fn open(client: &Client, run: &str) -> BufReader<TcpStream> {
    let mut connection = TcpStream::connect(&client.address).expect("a connection");
    let request = format!(
        "GET /api/v1/runs/{run}/events/stream HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
         Connection: close\r\n\r\n",
        client.address, client.token
    );
    connection.write_all(request.as_bytes()).expect("sent");
    let mut rest = BufReader::new(connection);
    let mut line = String::new();
    rest.read_line(&mut line).expect("a response");
    assert!(line.starts_with("HTTP/1.1 200 "), "{line}");
    while rest.read_line(&mut line).expect("a header") > 2 {
        line.clear();
    }
    rest
}

/// Reads a stream to its end; returns a hash of its messages and their number.
fn read(mut rest: BufReader<TcpStream>) -> (blake3::Hash, usize) {
    let (mut hasher, mut count) = (blake3::Hasher::new(), 0);
    let (mut text, mut line) = (Vec::new(), String::new());
    loop {
        line.clear();
        rest.read_line(&mut line).expect("a piece");
        let length = usize::from_str_radix(line.trim(), 16).expect("a length");
        let begin = text.len();
        text.resize(begin + length + 2, 0);
        rest.read_exact(&mut text[begin..]).expect("a piece");
        text.truncate(begin + length);
        let mut at = 0;
        while let Some(end) = memchr::memmem::find(&text[at..], b"\n\n") {
            let message = &text[at..at + end];
            if !COMMENTS.iter().any(|start| message.starts_with(start)) {
                hasher.update(message);
                count += 1;
            }
            at += end + 2;
        }
        text.drain(..at);
        if length == 0 {
            return (hasher.finalize(), count);
        }
    }
}

#[test]
fn five_hundred_clients_get_the_journal_of_a_run_and_a_stopped_one_keeps_none_waiting() {
    let home = Home::new();
    home.write("script.yaml", &script());
    let mut server = home.start(&["serve", "--listen", "127.0.0.1:0"]);
    let client = Client::of(&server.line().expect("a URL"));
    let settings = json!({ "model": "scripted/script.yaml", "agent.parallel": CHILDREN, "agent.max_agents": 2 * CHILDREN });
    let started = client.post("/api/v1/runs", &json!({ "request": "look", "settings": settings })).has(201);
    let run = started.json()["run"].as_str().expect("a run").to_owned();
    // It reads the head of its response, and nothing more.
    let stopped = open(&client, &run);
    let following: Vec<JoinHandle<_>> = (0..CLIENTS)
        .map(|_| {
            let stream = open(&client, &run);
            thread::Builder::new().stack_size(STACK_BYTES).spawn(move || read(stream)).expect("a thread")
        })
        .collect();
    let seen: Vec<(blake3::Hash, usize)> =
        following.into_iter().map(|client| client.join().expect("a whole stream")).collect();
    let journal = home.posse(&["logs", "--json", &run]).exits(0).json_lines();
    assert_eq!(journal.last().expect("events")["kind"], "run.completed");
    assert_eq!(seen[0].1, journal.len() + 1, "the events, and the end");
    assert!(seen.iter().all(|other| *other == seen[0]), "all of them have read the same");
    let messages = client.follow(&format!("/api/v1/runs/{run}/events/stream"), None).all();
    let events: Vec<&Value> =
        messages.iter().filter(|message| message.name.is_empty()).map(|message| &message.data).collect();
    assert_eq!(events, journal.iter().collect::<Vec<_>>());
    // The stopped client connects again, and continues after what it has read.
    drop(stopped);
    let rest = client.follow(&format!("/api/v1/runs/{run}/events/stream"), Some(3)).all();
    assert_eq!(rest, messages[3..]);
}
