//! The part of HTTP/1.1 that the server needs, written by hand so that tests control every byte.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Limit of a request's head.
const HEAD_MAX_BYTES: usize = 64 * 1024;
/// Limit of a request's body.
const BODY_MAX_BYTES: usize = 64 * 1024 * 1024;
const READ_BYTES: usize = 16 * 1024;
/// A larger buffer is freed after its request.
const BUFFER_KEPT_BYTES: usize = 64 * 1024;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// For example `POST`.
    pub(super) method: String,
    /// The target as it was sent, with its query.
    pub(super) path: String,
    lines: String,
}

impl Head {
    /// Parses a head without the empty line that ends it.
    fn parse(bytes: &[u8]) -> io::Result<Self> {
        let text = std::str::from_utf8(bytes).map_err(|_| bad("a head that is not UTF-8"))?;
        let (first, lines) = text.split_once("\r\n").unwrap_or((text, ""));
        let mut words = first.split(' ');
        let (Some(method), Some(path), Some("HTTP/1.1" | "HTTP/1.0")) =
            (words.next(), words.next(), words.next())
        else {
            return Err(bad("a first line that is not HTTP/1.1"));
        };
        Ok(Self { method: method.to_owned(), path: path.to_owned(), lines: lines.to_owned() })
    }

    /// A header by its name, ignoring case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers().find_map(|(known, value)| known.eq_ignore_ascii_case(name).then_some(value))
    }

    pub(super) fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines
            .split("\r\n")
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name, value.trim()))
    }
}

/// A wait ended early because the client has disconnected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClientGone;

/// One connection, with the bytes that were read beyond the current request.
pub(super) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// The next request. `None` when the client has closed. Requests that arrive together are returned one after the
    /// other.
    pub(super) async fn request(&mut self) -> io::Result<Option<(Head, Vec<u8>)>> {
        let Some(end) = self.head_end().await? else { return Ok(None) };
        let head = Head::parse(&self.buffer[..end])?;
        self.buffer.drain(..end + 4);
        if head.header("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let chunked =
            head.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
        let body = if chunked {
            self.chunks().await?
        } else {
            let length = head.header("content-length").unwrap_or("0").parse();
            self.take(length.map_err(|_| bad("a content-length that is no number"))?).await?
        };
        if self.buffer.is_empty() && self.buffer.capacity() > BUFFER_KEPT_BYTES {
            self.buffer = Vec::new();
        }
        Ok(Some((head, body)))
    }

    /// The end of the head in the buffer. `None` if the client closed before it began a head.
    async fn head_end(&mut self) -> io::Result<Option<usize>> {
        let mut looked = 0;
        loop {
            if let Some(at) = self.buffer[looked..].windows(4).position(|four| four == b"\r\n\r\n") {
                return Ok(Some(looked + at));
            }
            if self.buffer.len() > HEAD_MAX_BYTES {
                return Err(bad("a head that does not end"));
            }
            looked = self.buffer.len().saturating_sub(3);
            if self.read().await? == 0 {
                return if self.buffer.is_empty() { Ok(None) } else { Err(bad("half a head")) };
            }
        }
    }

    async fn read(&mut self) -> io::Result<usize> {
        self.buffer.reserve(READ_BYTES);
        self.stream.read_buf(&mut self.buffer).await
    }

    async fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        if length > BODY_MAX_BYTES {
            return Err(bad("a body that is too long"));
        }
        while self.buffer.len() < length {
            if self.read().await? == 0 {
                return Err(bad("half a body"));
            }
        }
        if self.buffer.len() == length {
            return Ok(std::mem::take(&mut self.buffer));
        }
        let rest = self.buffer.split_off(length);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    /// Reads a chunked body.
    async fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let size = self.line().await?;
            let size = size.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).map_err(|_| bad("a chunk without a size"))?;
            if size == 0 {
                while !self.line().await?.is_empty() {}
                return Ok(body);
            }
            body.extend(self.take(size).await?);
            self.line().await?;
            if body.len() > BODY_MAX_BYTES {
                return Err(bad("a body that is too long"));
            }
        }
    }

    async fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(at) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                let line = self.buffer.drain(..at + 2).take(at).collect();
                return String::from_utf8(line).map_err(|_| bad("a line that is not UTF-8"));
            }
            if self.buffer.len() > HEAD_MAX_BYTES || self.read().await? == 0 {
                return Err(bad("half a line"));
            }
        }
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), ClientGone> {
        self.stream.write_all(bytes).await.map_err(|_| ClientGone)
    }

    /// Waits for a time, or for ever if `None`. Returns early when the client has disconnected.
    pub(super) async fn pause(&mut self, time: Option<Duration>) -> Result<(), ClientGone> {
        match time {
            Some(Duration::ZERO) => Ok(()),
            Some(time) => self.until(tokio::time::sleep(time)).await,
            None => self.until(std::future::pending()).await,
        }
    }

    /// Waits for a future. Returns early when the client has disconnected.
    pub(super) async fn until(&mut self, done: impl Future<Output = ()>) -> Result<(), ClientGone> {
        let left = async {
            // Bytes that arrive meanwhile are the next request, and are kept in the buffer.
            while self.buffer.len() < HEAD_MAX_BYTES {
                if matches!(self.read().await, Ok(0) | Err(_)) {
                    break;
                }
            }
        };
        tokio::select! {
            biased;
            () = left => Err(ClientGone),
            () = done => Ok(()),
        }
    }

    /// Ends the connection with a TCP reset.
    pub(super) fn reset(self) {
        // If this fails, the connection is closed all the same, and the log states which was intended.
        drop(self.stream.set_zero_linger());
    }
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Appends one chunk of a chunked body to `out`.
pub(super) fn chunk(out: &mut Vec<u8>, bytes: &[u8]) {
    use std::io::Write;
    if bytes.is_empty() {
        return;
    }
    // Writing to a vector cannot fail.
    drop(write!(out, "{:x}\r\n", bytes.len()));
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// The reason phrase of a status.
pub(super) fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        307 => "Temporary Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        413 => "Payload Too Large",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        _ => "Status",
    }
}
