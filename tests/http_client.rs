//! A client of the HTTP API, as small as one can be: no story depends on what a library would hide.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

/// A client with the token of a server.
pub(crate) struct Client {
    pub(crate) address: String,
    pub(crate) token: String,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// One message of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Message {
    pub(crate) id: Option<u64>,
    /// Empty for a message without a name.
    pub(crate) name: String,
    pub(crate) data: Value,
}

impl Client {
    /// The client for the URL that a server printed.
    pub(crate) fn of(url: &str) -> Self {
        let rest = url.trim().strip_prefix("http://").unwrap_or_else(|| panic!("{url}"));
        let (address, token) = rest.split_once("/?token=").unwrap_or_else(|| panic!("{url}"));
        Self { address: address.to_owned(), token: token.to_owned() }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_with(path, &[], body)
    }

    pub(crate) fn post_with(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        let mut all = vec![("Content-Type", "application/json")];
        all.extend(headers);
        self.send("POST", path, &all, &body.to_string())
    }

    /// A request with the token.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let token = format!("Bearer {}", self.token);
        let mut all = vec![("Host", self.address.as_str()), ("Authorization", &token)];
        all.extend(headers);
        self.send_plain(method, path, &all, body)
    }

    /// A request with only these headers.
    pub(crate) fn send_plain(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let (head, mut rest) = self.open(method, path, headers, body).expect("an answer");
        let mut answer = head;
        if answer.headers.get("transfer-encoding").map(String::as_str) == Some("chunked") {
            while let Some(piece) = chunk(&mut rest) {
                answer.body.extend(piece);
            }
        } else {
            let length =
                answer.headers.get("content-length").map_or(0, |length| length.parse().expect("a length"));
            answer.body.resize(length, 0);
            rest.read_exact(&mut answer.body).expect("the body");
        }
        answer
    }

    /// Opens a stream, after the last message that the client has read.
    pub(crate) fn follow(&self, path: &str, last: Option<u64>) -> Stream {
        self.try_follow(path, last).unwrap_or_else(|| panic!("{path} cannot be followed"))
    }

    /// The same; `None` if the server is gone.
    pub(crate) fn try_follow(&self, path: &str, last: Option<u64>) -> Option<Stream> {
        let token = format!("Bearer {}", self.token);
        let last = last.map(|last| last.to_string());
        let mut headers = vec![("Host", self.address.as_str()), ("Authorization", &token)];
        headers.extend(last.as_ref().map(|last| ("Last-Event-ID", last.as_str())));
        let (head, rest) = self.open("GET", path, &headers, "")?;
        assert_eq!(head.status, 200, "{head:?}");
        assert_eq!(head.headers["content-type"], "text/event-stream");
        Some(Stream { rest, text: String::new() })
    }

    /// Sends a request and reads the head of its answer.
    fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Option<(Answer, BufReader<TcpStream>)> {
        let mut connection = TcpStream::connect(&self.address).ok()?;
        let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        for (name, value) in headers {
            request.extend([name, ": ", value, "\r\n"]);
        }
        if !body.is_empty() {
            request.extend(["Content-Length: ", &body.len().to_string(), "\r\n"]);
        }
        request.push_str("\r\n");
        connection.write_all(request.as_bytes()).ok()?;
        // A server may answer before it has read the whole body.
        let _ = connection.write_all(body.as_bytes());
        let mut rest = BufReader::new(connection);
        let first = line(&mut rest)?;
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let mut headers = BTreeMap::new();
        loop {
            let header = line(&mut rest)?;
            let Some((name, value)) = header.split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let status = status.unwrap_or_else(|| panic!("{first}"));
        Some((Answer { status, headers, body: Vec::new() }, rest))
    }
}

/// A line without its end; `None` if the connection ended.
fn line(rest: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    rest.read_line(&mut line).ok().filter(|read| *read > 0)?;
    Some(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// The next piece of a body; `None` at its end, and if the connection ended.
fn chunk(rest: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let length = usize::from_str_radix(&line(rest)?, 16).expect("a length");
    let mut piece = vec![0; length];
    rest.read_exact(&mut piece).ok()?;
    line(rest);
    (length > 0).then_some(piece)
}

impl Answer {
    /// Asserts the status.
    #[track_caller]
    pub(crate) fn has(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{:?} {}", self.headers, String::from_utf8_lossy(&self.body));
        self
    }

    /// The body as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// Asserts that it is a problem with this status and code; returns the field.
    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, code: &str) -> String {
        let problem = self.json();
        assert_eq!((self.status, problem["code"].as_str()), (status, Some(code)), "{problem}");
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(problem["status"], status);
        assert!(problem["title"].is_string() && problem["detail"].is_string(), "{problem}");
        problem["field"].as_str().unwrap_or_default().to_owned()
    }
}

/// A stream of messages.
pub(crate) struct Stream {
    rest: BufReader<TcpStream>,
    text: String,
}

impl Stream {
    /// The next message; `None` at the end, and if the connection ended.
    pub(crate) fn next(&mut self) -> Option<Message> {
        loop {
            while let Some(end) = self.text.find("\n\n") {
                let message: String = self.text.drain(..end + 2).collect();
                if let Some(message) = parse(&message) {
                    return Some(message);
                }
            }
            let piece = chunk(&mut self.rest)?;
            self.text.push_str(std::str::from_utf8(&piece).expect("UTF-8"));
        }
    }

    /// Reads until an event of this kind, and returns it.
    #[track_caller]
    pub(crate) fn until(&mut self, kind: &str) -> Value {
        let mut read = Vec::new();
        while let Some(message) = self.next() {
            if message.data["kind"] == kind {
                return message.data;
            }
            read.push(message);
        }
        panic!("no {kind} in {read:#?}");
    }

    /// All messages to the end.
    pub(crate) fn all(mut self) -> Vec<Message> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

/// A message; `None` for a comment and for what is only about the connection.
fn parse(text: &str) -> Option<Message> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let data = serde_json::from_str(field("data")?).expect("JSON");
    let id = field("id").map(|id| id.parse().expect("a number"));
    Some(Message { id, name: field("event").unwrap_or_default().to_owned(), data })
}
