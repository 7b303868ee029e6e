//! A server with scripted responses.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// The response to a request.
pub(super) enum ServerReply {
    /// These bytes, then the connection closes.
    Bytes(Vec<u8>),
    /// These bytes, then nothing, but the connection stays open.
    Stall(Vec<u8>),
    /// The first bytes once, then the second ones repeatedly.
    Endless(Vec<u8>, Vec<u8>),
}

impl ServerReply {
    pub(super) fn ok(headers: &str, body: impl AsRef<[u8]>) -> Self {
        let mut bytes = format!("HTTP/1.1 200 OK\r\n{headers}\r\n").into_bytes();
        bytes.extend_from_slice(body.as_ref());
        Self::Bytes(bytes)
    }

    pub(super) fn redirect(to: &str) -> Self {
        Self::Bytes(format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n").into_bytes())
    }
}

type ReplyFn = Arc<dyn Fn(&str) -> ServerReply + Send + Sync>;

/// A server on its own port.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    heads: Arc<Mutex<Vec<String>>>,
    /// Notified when a client disconnects.
    pub(super) left: Arc<Notify>,
}

impl Server {
    /// Responds to each request with the function's result for its first line.
    pub(super) async fn new(says: impl Fn(&str) -> ServerReply + Send + Sync + 'static) -> Self {
        Self::on("127.0.0.1", says).await
    }

    pub(super) async fn on(
        address: &str,
        says: impl Fn(&str) -> ServerReply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            heads: Arc::default(),
            left: Arc::default(),
        };
        let (connections, heads, left) =
            (server.connections.clone(), server.heads.clone(), server.left.clone());
        let says: ReplyFn = Arc::new(says);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, says.clone(), heads.clone(), left.clone()));
            }
        });
        server
    }

    pub(super) fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.address.port())
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The first parts of the received requests.
    pub(super) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

pub(super) async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    says: ReplyFn,
    heads: Arc<Mutex<Vec<String>>>,
    left: Arc<Notify>,
) {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut piece = [0; 4096];
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => return left.notify_one(),
            Ok(count) => head.extend_from_slice(&piece[..count]),
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    heads.lock().unwrap().push(head.clone());
    match says(head.lines().next().unwrap_or_default()) {
        ServerReply::Bytes(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
        ServerReply::Stall(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.read(&mut [0; 16]).await;
        }
        ServerReply::Endless(bytes, more) => {
            let mut written = stream.write_all(&bytes).await;
            while written.is_ok() {
                written = stream.write_all(&more).await;
            }
        }
    }
    left.notify_one();
}
