//! A server on this machine, and a web tool that is called as the engine calls it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use posse_egress::{Egress, Resolve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// Resolves every name to this address.
pub(super) struct FixedResolver(pub(super) &'static str);

impl Resolve for FixedResolver {
    fn resolve(&self, _: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(std::future::ready(Ok(vec![self.0.parse().unwrap()])))
    }
}

/// A client that resolves every name to this machine.
pub(super) fn here() -> Egress {
    Egress::resolving(FixedResolver("127.0.0.1"))
}

/// A server that computes each response with a function.
pub(super) struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(super) fn new(bench: &Bench, says: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::on(bench, "127.0.0.1", says)
    }

    pub(super) fn on(
        bench: &Bench,
        address: &str,
        says: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let listener = bench.runtime.block_on(TcpListener::bind((address, 0))).unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            requests: Arc::default(),
        };
        let (connections, requests) = (server.connections.clone(), server.requests.clone());
        bench.runtime.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                let mut request = Vec::new();
                while !is_whole(&request) {
                    let mut piece = [0; 4096];
                    match stream.read(&mut piece).await {
                        Ok(0) | Err(_) => break,
                        Ok(count) => request.extend_from_slice(&piece[..count]),
                    }
                }
                let request = String::from_utf8_lossy(&request).into_owned();
                requests.lock().unwrap().push(request.clone());
                let _ = stream.write_all(&says(&request)).await;
                let _ = stream.shutdown().await;
            }
        });
        server
    }

    pub(super) fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.address.port())
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Whether a request has its whole header and body.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.to_ascii_lowercase();
    let length = length.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    body.len() >= length.unwrap_or(0)
}

/// A response with this status, content type and body.
pub(super) fn answer(status: u16, kind: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let mut answer = format!("HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n\r\n").into_bytes();
    answer.extend_from_slice(body.as_ref());
    answer
}

pub(super) fn redirect(to: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n").into_bytes()
}

/// Calls a tool that is not a built-in one.
pub(super) fn call(bench: &Bench, tool: &Tool, input: Value) -> Result<String, ToolFailure> {
    let Handler::Effect(effect) = &tool.handler else { panic!("{} asks the engine", tool.name) };
    let prepared = bench.runtime.block_on(effect.prepare(bench.call.clone(), input))?;
    bench.run(prepared).map(|output| output.text)
}

/// Approves these patterns, as `--allow` does.
pub(super) fn approve(bench: &mut Bench, patterns: &[&str]) {
    bench.call.approvals = patterns.iter().map(|pattern| pattern.parse().unwrap()).collect();
}
