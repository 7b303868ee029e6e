//! The server: runs in its own thread, so that it can be used from anywhere and its time can be measured separately.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::mpsc;

use super::answer::Answer;
use super::delivery::{self, Ready};
use super::http::{Connection, Head};
use super::log::{Log, LogEntry, Outcome};
use super::request::{MockRequest, WireFormat};
use super::{ReplySource, shapes};

/// Connections that may wait to be accepted: a thousand clients can arrive within one tick.
const BACKLOG: u32 = 4_096;
/// Limit of concurrent connections. Further ones are closed unused.
const CONNECTIONS_MAX: usize = 16_384;
/// Limit of queued requests for the thread's processor time.
const QUESTIONS_MAX: usize = 16;
/// Timeout of an answer from the server's own thread.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub struct Options {
    /// The port on loopback. 0 for any.
    pub port: u16,
    /// Whether headers and bodies are kept in the log.
    pub keep_bodies: bool,
    /// The key that requests must have, if one is required.
    pub key: Option<String>,
    /// The models that it lists.
    pub models: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            port: 0,
            keep_bodies: true,
            key: None,
            models: vec!["mock-large".to_owned(), "mock-small".to_owned()],
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    pub requests: u64,
    /// The number of connections that were ever made.
    pub connections: u64,
    pub open: usize,
    /// Processor time of the server's thread.
    pub cpu: Duration,
}

struct ServerState {
    source: Box<dyn ReplySource>,
    options: Options,
    log: Log,
    requests: AtomicU64,
    connections: AtomicU64,
    open: AtomicUsize,
}

/// A model server on loopback. It ends when it is dropped.
pub struct Mock {
    address: SocketAddr,
    shared: Arc<ServerState>,
    questions: Option<mpsc::Sender<SyncSender<Duration>>>,
    thread: Option<JoinHandle<()>>,
}

impl Mock {
    pub fn start(source: impl ReplySource) -> io::Result<Self> {
        Self::with(source, Options::default())
    }

    pub fn with(source: impl ReplySource, options: Options) -> io::Result<Self> {
        let port = options.port;
        let shared = Arc::new(ServerState {
            source: Box::new(source),
            options,
            log: Log::new(),
            requests: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            open: AtomicUsize::new(0),
        });
        let (questions, asked) = mpsc::channel(QUESTIONS_MAX);
        let (bound, address) = sync_channel(1);
        let serving = shared.clone();
        let thread = std::thread::Builder::new().name("mock".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return drop(bound.send(Err(error))),
            };
            runtime.block_on(async {
                match listen(port) {
                    Ok((listener, address)) => {
                        drop(bound.send(Ok(address)));
                        serve(listener, serving, asked).await;
                    }
                    Err(error) => drop(bound.send(Err(error))),
                }
            });
        })?;
        let address = address.recv_timeout(PATIENCE).map_err(io::Error::other)??;
        Ok(Self { address, shared, questions: Some(questions), thread: Some(thread) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL without a path: `http://127.0.0.1:4711`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request so far, in the order of arrival.
    pub fn requests(&self) -> Vec<LogEntry> {
        self.shared.log.all()
    }

    /// Waits until the log satisfies `enough`. Returns whether it did in time.
    pub fn wait(&self, patience: Duration, enough: impl Fn(&[LogEntry]) -> bool) -> bool {
        self.shared.log.wait(patience, enough)
    }

    pub fn stats(&self) -> Stats {
        self.shared.stats(self.cpu().unwrap_or_default())
    }

    /// The processor time of the server's thread, which only that thread can read.
    fn cpu(&self) -> Option<Duration> {
        let (sender, receiver) = sync_channel(1);
        self.questions.as_ref()?.try_send(sender).ok()?;
        receiver.recv_timeout(PATIENCE).ok()
    }

    /// Serves until the process is ended.
    pub fn run(mut self) {
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        // Closing this channel ends the server, with every connection.
        drop(self.questions.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// A base URL without a listener.
pub fn refused_url() -> io::Result<String> {
    let address = StdListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    Ok(format!("http://{address}"))
}

fn listen(port: u16) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind((Ipv4Addr::LOCALHOST, port).into())?;
    let listener = socket.listen(BACKLOG)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

async fn serve(
    listener: TcpListener,
    shared: Arc<ServerState>,
    mut questions: mpsc::Receiver<SyncSender<Duration>>,
) {
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // A client that has already disconnected is not a reason to stop.
                let Ok((stream, _)) = accepted else { continue };
                shared.connections.fetch_add(1, Ordering::Relaxed);
                if shared.open.fetch_add(1, Ordering::Relaxed) < CONNECTIONS_MAX && stream.set_nodelay(true).is_ok() {
                    tokio::spawn(connection(Connection::new(stream), shared.clone()));
                } else {
                    shared.open.fetch_sub(1, Ordering::Relaxed);
                }
            }
            question = questions.recv() => match question {
                Some(question) => drop(question.send(thread_cpu())),
                None => return,
            },
        }
    }
}

/// The processor time of the calling thread.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Answers one request after the other.
async fn connection(mut connection: Connection, shared: Arc<ServerState>) {
    loop {
        let (head, body) = match connection.request().await {
            Ok(Some(request)) => request,
            Ok(None) => break,
            Err(error) => {
                // A client with another protocol gets an HTTP error, and is disconnected.
                let text = format!("{error}\n");
                let ready = Ready::plain(400, "text/plain", text.into_bytes());
                let _ = connection.send(&ready.whole(true)).await;
                break;
            }
        };
        let close = head.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let number = shared.requests.fetch_add(1, Ordering::Relaxed) + 1;
        shared.note(number, &head, &body);
        let ready = shared.answer(number, head, body);
        shared.log.answered(number, ready.status);
        let outcome = delivery::send(connection, ready, close).await;
        shared.log.ended(number, outcome.0);
        match outcome.1 {
            Some(kept) if !close => connection = kept,
            _ => break,
        }
    }
    shared.open.fetch_sub(1, Ordering::Relaxed);
}

impl ServerState {
    fn stats(&self, cpu: Duration) -> Stats {
        Stats {
            requests: self.requests.load(Ordering::Relaxed),
            connections: self.connections.load(Ordering::Relaxed),
            open: self.open.load(Ordering::Relaxed),
            cpu,
        }
    }

    fn note(&self, number: u64, head: &Head, body: &[u8]) {
        let kept = self.options.keep_bodies;
        let headers =
            |head: &Head| head.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        self.log.arrived(LogEntry {
            number,
            at: self.log.now(),
            wire_format: if head.method == "POST" { WireFormat::of(&head.path) } else { None },
            path: head.path.clone(),
            headers: if kept { headers(head) } else { Vec::new() },
            body: if kept { body.to_vec() } else { Vec::new() },
            status: 0,
            ended: None,
        });
    }

    fn answer(&self, number: u64, head: Head, body: Vec<u8>) -> Ready {
        let Some(wire_format) = WireFormat::of(&head.path) else { return self.side(&head) };
        if head.method != "POST" {
            return Ready::json(405, &shapes::plain_error(wire_format, 405, "only POST is allowed here"));
        }
        if !self.admits(wire_format, &head) {
            return delivery::ready(&wrong_key(wire_format), wire_format, None);
        }
        match MockRequest::new(wire_format, number, head, body) {
            Ok(asked) => delivery::ready(&self.source.answer(&asked), wire_format, Some(&asked)),
            Err((problem, _, _)) => Ready::json(400, &shapes::plain_error(wire_format, 400, &problem)),
        }
    }

    /// Whether the request has the required key, in the header of its format.
    fn admits(&self, wire_format: WireFormat, head: &Head) -> bool {
        let Some(key) = &self.options.key else { return true };
        let bearer = head.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        match wire_format {
            WireFormat::Messages => head.header("x-api-key").or(bearer) == Some(key.as_str()),
            WireFormat::Responses | WireFormat::Chat => bearer == Some(key.as_str()),
        }
    }

    /// Endpoints beside the model calls: lists of models, and the server's own figures.
    fn side(&self, head: &Head) -> Ready {
        let path = head.path.split('?').next().unwrap_or_default();
        let models = &self.options.models;
        match (head.method.as_str(), path) {
            ("GET", "/mock/stats") => {
                let stats = self.stats(thread_cpu());
                let cpu_us = u64::try_from(stats.cpu.as_micros()).unwrap_or(u64::MAX);
                let (requests, connections, open) = (stats.requests, stats.connections, stats.open);
                Ready::json(
                    200,
                    &json!({"requests": requests, "connections": connections, "open": open, "cpu_us": cpu_us}),
                )
            }
            ("GET", "/mock/log") => {
                let lines: Vec<Value> = self.log.all().iter().map(LogEntry::line).collect();
                Ready::json(200, &Value::from(lines))
            }
            ("GET", "/api/version") => Ready::json(200, &json!({"version": "0.12.6"})),
            ("GET", "/api/tags") => Ready::json(200, &shapes::lists::tags(models)),
            ("GET", path) if path.ends_with("/models") => {
                let anthropic = head.header("anthropic-version").is_some();
                let list = if anthropic { shapes::lists::anthropic } else { shapes::lists::openai };
                Ready::json(200, &list(models))
            }
            _ => Ready::json(404, &json!({"error": {"message": format!("there is nothing at {path}")}})),
        }
    }
}

fn wrong_key(wire_format: WireFormat) -> Answer {
    let mut refusal = super::answer::Refusal::new(401, shapes::wrong_key_text(wire_format));
    refusal.code = Some("invalid_api_key".to_owned());
    refusal.into()
}

/// How a connection continues after an answer: it is used again, or not.
pub(super) type ConnectionFate = (Outcome, Option<Connection>);
