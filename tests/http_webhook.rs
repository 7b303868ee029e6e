//! The webhook of a server: what happens in runs is sent, signed, until its receiver has it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, sync_channel};

use ring::hmac;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::http_client::Client;
use crate::support::{Home, RunningCommand};

const ASKING: &str = "
- when: {turn: 1}
  reply: {tool_calls: [{name: bash, input: {command: git push origin main}}]}
- reply: {text: all done}
";

/// Messages that wait to be looked at.
const MESSAGES_MAX: usize = 64;

/// A message that a receiver got.
#[derive(Debug)]
struct Message {
    headers: BTreeMap<String, String>,
    body: String,
}

impl Message {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

/// A receiver that answers with these statuses, then with success.
fn receiver(statuses: Vec<u16>) -> (String, Receiver<Message>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
    let (sender, messages) = sync_channel(MESSAGES_MAX);
    std::thread::spawn(move || {
        let mut statuses = statuses.into_iter();
        for connection in listener.incoming().flatten() {
            let mut reader = BufReader::new(connection);
            let mut headers = BTreeMap::new();
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                if let Some((name, value)) = line.split_once(':') {
                    headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
                }
                line.clear();
            }
            let length = headers.get("content-length").map_or(0, |length| length.parse().expect("a length"));
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            let status = statuses.next().unwrap_or(204);
            // Before the answer: the story may kill the sender as soon as it has the message.
            let body = String::from_utf8(body).expect("text");
            let _ = sender.send(Message { headers, body });
            let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _ = reader.into_inner().write_all(answer.as_bytes());
        }
    });
    (url, messages)
}

fn home(url: &str) -> Home {
    let home = Home::new();
    let script = home.write("script.yaml", ASKING);
    let webhook = format!("webhook: {{url: '{url}', key: secret}}\n");
    home.write_settings(&format!("model: 'scripted/{}'\n{webhook}", script.display()));
    home
}

fn serve(home: &Home, more: &[&str]) -> (RunningCommand, Client) {
    let mut server = home.start(&[&["serve", "--listen", "127.0.0.1:0"], more].concat());
    let url = server.line().unwrap_or_else(|| panic!("the server ended"));
    (server, Client::of(&url))
}

/// Asserts that a message is signed, and returns its content.
#[track_caller]
fn signed(message: &Message) -> Value {
    let of = |name: &str| message.headers[&format!("posse-webhook-{name}")].clone();
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"secret");
    let tag = hmac::sign(&key, format!("{}.{}", of("timestamp"), message.body).as_bytes());
    let mut expected = "v1=".to_owned();
    for byte in tag.as_ref() {
        let _ = write!(expected, "{byte:02x}");
    }
    assert_eq!(of("signature"), expected);
    let content = message.json();
    assert_eq!(content["id"], of("id"));
    content
}

#[test]
fn questions_and_ends_of_runs_are_sent_until_the_receiver_accepts_them() {
    // The first try of each fails.
    let (url, messages) = receiver(vec![500, 204, 302]);
    let home = home(&url);
    let (server, client) = serve(&home, &[]);
    let run = client.post("/api/v1/runs", &json!({ "request": "look" })).has(201).json()["run"].clone();
    let failed = signed(&messages.recv().expect("a message"));
    let asked = signed(&messages.recv().expect("a message"));
    assert_eq!(failed, asked, "it is sent again, with the same id");
    assert_eq!((&asked["type"], &asked["run"]), (&json!("question.asked"), &run));
    assert_eq!(asked["event"]["detail"]["operation"], "bash:git push origin main");
    let answer = json!({ "approval": asked["event"]["detail"]["approval"], "decision": "deny" });
    client.post(&format!("/api/v1/runs/{}/answers", run.as_str().expect("a run")), &answer).has(200);
    let failed = signed(&messages.recv().expect("a message"));
    let ended = signed(&messages.recv().expect("a message"));
    assert_eq!((&failed["id"], &ended["type"]), (&ended["id"], &json!("run.ended")));
    assert_eq!(ended["event"]["kind"], "run.completed");
    assert_ne!(ended["id"], asked["id"]);
    server.signal(Signal::TERM);
    let log = server.finish().exits(0).stderr;
    assert!(log.contains("WARN") && log.contains("the webhook was not reached; it is tried again"), "{log}");
}

#[test]
fn what_a_killed_server_did_not_deliver_is_delivered_by_the_next_one() {
    let (url, messages) = receiver(vec![503]);
    let home = home(&url);
    let (server, client) = serve(&home, &[]);
    let run = client.post("/api/v1/runs", &json!({ "request": "look" })).has(201).json()["run"].clone();
    let first = signed(&messages.recv().expect("a message"));
    server.kill();
    // The run ends while no server is there to see it.
    let run = run.as_str().expect("a run");
    home.posse(&["cancel", run]).exits(0);
    let (_server, _client) = serve(&home, &[]);
    let again = signed(&messages.recv().expect("a message"));
    assert_eq!((&again["id"], &again["type"]), (&first["id"], &json!("question.asked")));
    let ended = signed(&messages.recv().expect("a message"));
    assert_eq!((&ended["type"], &ended["event"]["kind"]), (&json!("run.ended"), &json!("run.cancelled")));
}

#[test]
fn a_webhook_without_a_key_keeps_the_server_from_starting() {
    let home = home("http://127.0.0.1:1");
    home.write_settings("webhook: {url: 'http://127.0.0.1:1'}\n");
    let refused = home.posse(&["serve", "--listen", "127.0.0.1:0"]).exits(2).stderr;
    assert!(refused.contains("the webhook has no key") && refused.contains("webhook.key_env"), "{refused}");
}
