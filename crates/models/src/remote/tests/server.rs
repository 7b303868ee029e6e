//! A server with scripted answers, for tests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What the server does after an answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum AfterReply {
    /// Waits for the next request.
    Stay,
    /// Closes the connection.
    Close,
    /// Waits until the other end closes the connection.
    Wait,
}

type RequestHandler = Box<dyn Fn(&str) -> (Vec<u8>, AfterReply) + Send + Sync>;

pub(super) struct Server {
    pub(super) base_url: String,
    shared: Arc<ServerState>,
}

struct ServerState {
    says: RequestHandler,
    heads: Mutex<Vec<String>>,
    connections: AtomicUsize,
    /// Connections that wait for a request.
    waiting: watch::Sender<usize>,
    written: watch::Sender<bool>,
    closed: watch::Sender<bool>,
}

impl Server {
    pub(super) async fn start(says: impl Fn(&str) -> (Vec<u8>, AfterReply) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(ServerState {
            says: Box::new(says),
            heads: Mutex::default(),
            connections: AtomicUsize::new(0),
            waiting: watch::Sender::new(0),
            written: watch::Sender::new(false),
            closed: watch::Sender::new(false),
        });
        let server = Self { base_url, shared: shared.clone() };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(shared.clone().serve(stream));
            }
        });
        server
    }

    pub(super) async fn free_port() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    }

    pub(super) fn heads(&self) -> Vec<String> {
        self.shared.heads.lock().unwrap().clone()
    }

    pub(super) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Waits until all connections wait for a request and all other tasks have run.
    pub(super) async fn quiet(&self) {
        let all = self.connections();
        self.shared.waiting.subscribe().wait_for(|waiting| *waiting == all).await.unwrap();
        for _ in 0..64 {
            tokio::task::yield_now().await;
        }
    }

    /// Waits until an answer was written.
    pub(super) async fn written(&self) {
        self.shared.written.subscribe().wait_for(|written| *written).await.unwrap();
    }

    /// Waits until the other end has closed a connection.
    pub(super) async fn closed(&self) {
        self.shared.closed.subscribe().wait_for(|closed| *closed).await.unwrap();
    }
}

impl ServerState {
    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        loop {
            self.waiting.send_modify(|waiting| *waiting += 1);
            let request = read_request(&mut stream).await;
            self.waiting.send_modify(|waiting| *waiting -= 1);
            let Some(head) = request else { break };
            let (bytes, then) = (self.says)(&head);
            self.heads.lock().unwrap().push(head);
            if stream.write_all(&bytes).await.is_err() {
                break;
            }
            self.written.send_replace(true);
            match then {
                AfterReply::Stay => {}
                AfterReply::Close => return,
                AfterReply::Wait => {
                    let mut rest = [0; 64];
                    while stream.read(&mut rest).await.is_ok_and(|count| count > 0) {}
                    break;
                }
            }
        }
        self.closed.send_replace(true);
    }
}

/// The head of the next request, whose body is read too. `None` at the end.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let head = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = head {
            let head = String::from_utf8(bytes[..end + 2].to_vec()).ok()?;
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
            if bytes.len() >= end + 4 + length.parse::<usize>().ok()? {
                return Some(head);
            }
        }
        match stream.read(&mut buffer).await {
            Ok(count) if count > 0 => bytes.extend_from_slice(&buffer[..count]),
            _ => return None,
        }
    }
}

/// A successful answer with a body.
pub(super) fn answer(content_type: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// A successful answer with a body that is sent in pieces of this size.
pub(super) fn chunked(content_type: &str, body: &[u8], size: usize) -> Vec<u8> {
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n");
    let mut bytes = head.into_bytes();
    for piece in body.chunks(size) {
        bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        bytes.extend_from_slice(piece);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}
