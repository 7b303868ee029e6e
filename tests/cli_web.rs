//! Web access of agents: what a user allows is reached, nothing else is, and a key appears nowhere.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::{Done, Home};

/// A server on this machine that gives one answer, and its requests.
struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new(kind: &str, body: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let server = Self { address: listener.local_addr().expect("an address"), requests: Arc::default() };
        let requests = server.requests.clone();
        let length = body.len();
        let answer =
            format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}");
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (mut request, mut piece) = (Vec::new(), [0; 4096]);
                while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                    match stream.read(&mut piece) {
                        Ok(0) | Err(_) => break,
                        Ok(count) => request.extend_from_slice(&piece[..count]),
                    }
                }
                requests.lock().expect("requests").push(String::from_utf8_lossy(&request).into_owned());
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        server
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("requests").clone()
    }
}

/// A coder that delegates this call to a researcher, which makes it and ends.
fn home(tool: &str, input: &Value) -> Home {
    let task = json!({"subagent_type": "researcher", "description": "look it up", "prompt": "Look it up."});
    let rules = json!([
        {"when": {"definition": "coder", "turn": 1}, "reply": {"tool_calls": [{"name": "task", "input": task}]}},
        {"when": {"definition": "researcher", "turn": 1}, "reply": {"tool_calls": [{"name": tool, "input": input}]}},
        {"when": {}, "reply": {"text": "done"}},
    ]);
    let home = Home::new();
    // JSON is YAML.
    home.write("../script.yaml", &rules.to_string());
    home
}

const RUN: [&str; 5] = ["run", "--json", "--model", "scripted/../script.yaml", "do it"];

/// The result of the researcher's one call.
fn outcome(done: &Done) -> (bool, String) {
    let is_call = |event: &&Value| {
        event["kind"] == "agent.tool_finished"
            && ["webfetch", "websearch"].iter().any(|tool| event["detail"]["tool"] == *tool)
    };
    let events = done.json_lines();
    let event = events.iter().find(is_call).unwrap_or_else(|| panic!("no call: {done:#?}"));
    (event["detail"]["ok"] == true, event["detail"]["output"].as_str().expect("an output").to_owned())
}

#[test]
fn what_a_person_opens_is_reached_by_children_and_nothing_else_is() {
    let server = Server::new("text/html", "<title>Here</title><p>A page of this machine.</p>");
    let home = home("webfetch", &json!({"url": server.url("/page")}));
    for allow in [None, Some("webfetch:localhost"), Some("webfetch"), Some("webfetch:127.0.0.1:1"), Some("*")]
    {
        let arguments: Vec<&str> =
            RUN.into_iter().chain(allow.into_iter().flat_map(|allow| ["--allow", allow])).collect();
        let (ok, text) = outcome(&home.posse(&arguments).exits(0));
        assert!(!ok && text.contains("`127.0.0.1` is a loopback address"), "{allow:?}: {text}");
        assert!(text.contains("an approval of `webfetch:127.0.0.1`"), "{text}");
    }
    assert!(server.requests().is_empty());
    let allowed: Vec<&str> = RUN.into_iter().chain(["--allow", "webfetch:127.0.0.1"]).collect();
    let (ok, text) = outcome(&home.posse(&allowed).exits(0));
    assert!(ok && text.contains("Title: Here") && text.contains("A page of this machine."), "{text}");
    assert_eq!(server.requests().len(), 1);
    // An approval lifts no deny.
    home.write_settings("rules:\n  - {pattern: 'webfetch:127.0.0.1', decision: deny}\n");
    let done = home.posse(&allowed).exits(0);
    assert!(done.stdout.contains("PERMISSION_DENIED"), "{done:#?}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_search_asks_the_provider_of_the_settings() {
    let found =
        json!({"results": [{"title": "Found", "url": "https://example.org/", "content": "It is here."}]});
    let server = Server::new("application/json", &found.to_string());
    let home = home("websearch", &json!({"query": "where is it"}));
    let (ok, text) = outcome(&home.posse(&RUN).exits(0));
    assert!(!ok && text.contains("no search provider is set up"), "{text}");
    home.write_settings(&format!("search: {{provider: searxng, url: '{}'}}\n", server.url("")));
    let (ok, text) = outcome(&home.posse(&RUN).exits(0));
    assert!(ok && text.starts_with("1. Found\n   https://example.org/\n   It is here."), "{text}");
    assert!(server.requests()[0].starts_with("GET /search?q=where+is+it&format=json HTTP/1.1"));
}

#[test]
fn a_key_is_told_to_its_provider_and_to_nobody_else() {
    const KEY: &str = "canary-5f3a9c";
    let server = Server::new("application/json", "{\"type\": \"search\"}");
    let home = home("websearch", &json!({"query": "x"}));
    let url = server.url("");
    for (settings, variable) in [
        (format!("search: {{provider: brave, url: '{url}'}}\n"), "BRAVE_API_KEY"),
        (format!("search: {{provider: tavily, url: '{url}', key: {KEY}}}\n"), "UNUSED"),
        (format!("search: {{provider: tavily, url: '{url}', key_env: MY_KEY}}\n"), "MY_KEY"),
    ] {
        home.write_settings(&settings);
        home.set(variable, KEY);
        let mut command = home.command(&RUN);
        let output = command.env("POSSE_LOG", "trace").output().expect("it runs");
        assert!(output.status.success(), "{output:?}");
        for text in [output.stdout, output.stderr] {
            assert!(!String::from_utf8_lossy(&text).contains(KEY), "{settings}");
        }
    }
    assert_eq!(server.requests().iter().filter(|request| request.contains(KEY)).count(), 3);
    assert_eq!(files_with(&home.state_dir(), KEY), 0);
}

/// How many files beneath a folder contain a text.
fn files_with(folder: &Path, text: &str) -> usize {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let contains = |path: &Path| {
        let bytes = fs::read(path).expect("a file");
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    entries
        .map(|path| if path.is_dir() { files_with(&path, text) } else { usize::from(contains(&path)) })
        .sum()
}
