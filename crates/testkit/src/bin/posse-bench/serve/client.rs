//! A client of the HTTP API that costs little time of its own.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::object;

/// A server with its token.
#[derive(Debug, Clone)]
pub(super) struct Client {
    address: String,
    token: String,
}

/// A connection for one request after the other.
pub(super) struct Connection {
    stream: BufReader<TcpStream>,
    /// The headers of every request.
    headers: String,
}

/// What a client of a stream has seen since it began to count.
#[derive(Debug, Default)]
pub(super) struct SeenEvents {
    looks: bool,
    counts: AtomicBool,
    events: AtomicU64,
    latest_ms: Mutex<f64>,
}

impl SeenEvents {
    /// A client that looks at the time of each event, or only counts them.
    pub(super) fn new(looks: bool) -> Self {
        Self { looks, ..Self::default() }
    }

    pub(super) fn begin(&self) {
        self.counts.store(true, Ordering::Relaxed);
    }

    /// How many events arrived.
    pub(super) fn events(&self) -> f64 {
        f64::from(u32::try_from(self.events.load(Ordering::Relaxed)).expect("a small number"))
    }

    /// The longest time between an event and its arrival.
    pub(super) fn latest_ms(&self) -> f64 {
        *self.latest_ms.lock().expect("whole")
    }

    /// Looks at a piece of a stream, which has whole messages.
    fn add(&self, piece: &str) {
        if !self.counts.load(Ordering::Relaxed) {
            return;
        }
        let mut count = 0;
        let mut latest: f64 = 0.0;
        let now_ms = now_ms();
        for data in piece.lines().filter_map(|line| line.strip_prefix("data: ")) {
            count += 1;
            if self.looks {
                latest = latest.max(now_ms - happened_ms(data));
            }
        }
        self.events.fetch_add(count, Ordering::Relaxed);
        let mut known = self.latest_ms.lock().expect("whole");
        *known = known.max(latest);
    }
}

/// When an event happened: the time comes before its long fields.
fn happened_ms(data: &str) -> f64 {
    let (_, rest) = data.split_once("\"at\":\"").expect("a time");
    let (time, _) = rest.split_once('"').expect("its end");
    let time: jiff::Timestamp = time.parse().expect("a time");
    time.duration_since(jiff::Timestamp::UNIX_EPOCH).as_secs_f64() * 1e3
}

fn now_ms() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64() * 1e3
}

impl Client {
    /// The client for the URL that a server printed.
    pub(super) fn of(url: &str) -> Self {
        let rest = url.strip_prefix("http://").expect("a URL");
        let (address, token) = rest.split_once("/?token=").expect("a token");
        Self { address: address.to_owned(), token: token.to_owned() }
    }

    pub(super) async fn connect(&self) -> Connection {
        let stream = TcpStream::connect(&self.address).await.expect("a connection");
        stream.set_nodelay(true).expect("set");
        let headers = format!("Host: {}\r\nAuthorization: Bearer {}\r\n", self.address, self.token);
        Connection { stream: BufReader::with_capacity(64 * 1024, stream), headers }
    }

    /// Opens the stream of a run, and reads nothing of it.
    pub(super) async fn stopped(&self, run: &str) -> Connection {
        let mut connection = self.connect().await;
        connection.send("GET", &format!("/api/v1/runs/{run}/events/stream"), None).await;
        connection
    }

    /// Follows a run to its end.
    pub(super) async fn follow(&self, run: &str, seen: impl AsRef<SeenEvents>) {
        let mut connection = self.stopped(run).await;
        connection.head().await;
        let (mut line, mut piece) = (String::new(), Vec::new());
        loop {
            line.clear();
            connection.stream.read_line(&mut line).await.expect("a piece");
            let length = usize::from_str_radix(line.trim(), 16).expect("a length");
            piece.resize(length + 2, 0);
            connection.stream.read_exact(&mut piece).await.expect("a piece");
            if length == 0 {
                return;
            }
            seen.as_ref().add(std::str::from_utf8(&piece).expect("UTF-8"));
        }
    }
}

impl Connection {
    async fn send(&mut self, method: &str, path: &str, body: Option<&str>) {
        let mut request = format!("{method} {path} HTTP/1.1\r\n{}", self.headers);
        if let Some(body) = body {
            let length = body.len().to_string();
            request.extend(["Content-Type: application/json\r\nContent-Length: ", &length, "\r\n"]);
        }
        request.push_str("\r\n");
        request.push_str(body.unwrap_or_default());
        self.stream.write_all(request.as_bytes()).await.expect("sent");
    }

    /// Reads the head of a response, which must be a success; returns the length of its body.
    async fn head(&mut self) -> usize {
        let (mut line, mut length) = (String::new(), 0);
        self.stream.read_line(&mut line).await.expect("a response");
        let is_success = line.split(' ').nth(1).is_some_and(|status| status.starts_with('2'));
        assert!(is_success, "{line}");
        loop {
            line.clear();
            self.stream.read_line(&mut line).await.expect("a header");
            match line.trim_end().split_once(':') {
                None => return length,
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().expect("a length");
                }
                Some(_) => {}
            }
        }
    }

    async fn body(&mut self) -> Vec<u8> {
        let mut body = vec![0; self.head().await];
        self.stream.read_exact(&mut body).await.expect("a body");
        body
    }

    /// Reads an object to its end.
    pub(super) async fn get(&mut self, path: &str) -> Vec<u8> {
        self.send("GET", path, None).await;
        self.body().await
    }

    pub(super) async fn post(&mut self, path: &str, body: &Value) -> Value {
        self.send("POST", path, Some(&body.to_string())).await;
        object(&self.body().await)
    }
}
