//! Sends an answer: at once in one write, or with exactly the requested faults.

use std::io::Write as _;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use super::answer::{Answer, Content, DeliveryStyle, FaultMoment, FaultType, RetryAfter};
use super::http::{ClientGone, Connection, chunk, reason};
use super::log::Outcome;
use super::request::{MockRequest, WireFormat};
use super::server::ConnectionFate;
use super::shapes;

/// Limit of an endless answer, in case its reader is endless too.
const ENDLESS_MAX_BYTES: usize = 1 << 30;
/// Size of one write of an endless answer.
const ENDLESS_PIECE_BYTES: usize = 64 * 1024;

/// An answer as bytes.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) status: u16,
    content_type: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// The end position of each event of the body.
    ends: Vec<usize>,
    /// Whether the body is sent with chunked encoding.
    chunked: bool,
    wire_format: WireFormat,
    manner: DeliveryStyle,
}

impl Ready {
    /// A body of a known length, sent without faults.
    pub(super) fn plain(status: u16, content_type: &str, body: Vec<u8>) -> Self {
        let ends = vec![body.len()];
        let content_type = content_type.to_owned();
        Self {
            status,
            content_type,
            headers: Vec::new(),
            body,
            ends,
            chunked: false,
            wire_format: WireFormat::Chat,
            manner: DeliveryStyle::default(),
        }
    }

    /// JSON, sent without faults.
    pub(super) fn json(status: u16, value: &Value) -> Self {
        Self::plain(status, "application/json", value.to_string().into_bytes())
    }

    fn head(&self, close: bool) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        let mut line = |name: &str, value: &str| {
            for part in [name, ": ", value, "\r\n"] {
                head.push_str(part);
            }
        };
        line("content-type", &self.content_type);
        for (name, value) in &self.headers {
            line(name, value);
        }
        if self.manner.gzip {
            line("content-encoding", "gzip");
        }
        if close {
            line("connection", "close");
        }
        if self.chunked {
            line("transfer-encoding", "chunked");
        } else {
            line("content-length", &self.body.len().to_string());
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    /// Head and body, for a single write.
    pub(super) fn whole(&self, close: bool) -> Vec<u8> {
        let mut out = self.head(close);
        if self.chunked {
            chunk(&mut out, &self.body);
            out.extend_from_slice(b"0\r\n\r\n");
        } else {
            out.extend_from_slice(&self.body);
        }
        out
    }

    /// The position in the body.
    fn position(&self, when: FaultMoment) -> usize {
        match when {
            FaultMoment::AtOnce | FaultMoment::Event(0) => 0,
            FaultMoment::Event(count) => self.ends.get(count - 1).copied().unwrap_or(self.body.len()),
            FaultMoment::Byte(at) => at.min(self.body.len()),
        }
    }
}

/// Converts an answer to bytes, in the format of the request.
pub(super) fn ready(answer: &Answer, wire_format: WireFormat, asked: Option<&MockRequest>) -> Ready {
    let manner = answer.manner.clone();
    let mut ready = match &answer.content {
        Content::Say(say) => match asked {
            Some(asked) if asked.stream && !manner.unstreamed => {
                let frames = shapes::stream(wire_format, asked, say);
                let ready = Ready::plain(200, "text/event-stream; charset=utf-8", frames.bytes);
                Ready { ends: frames.ends, chunked: true, ..ready }
            }
            _ => Ready::json(200, &shapes::whole(wire_format, asked, say)),
        },
        Content::Refuse(refusal) => {
            let mut ready = Ready::json(refusal.status, &shapes::refusal(wire_format, refusal));
            ready.headers.extend(refusal.retry_after.map(retry_header));
            ready
        }
        Content::Raw { status, content_type, headers, body } => {
            let mut ready = Ready::plain(*status, content_type, body.clone());
            ready.headers.clone_from(headers);
            ready.chunked = content_type.starts_with("text/event-stream");
            if ready.chunked {
                ready.ends = event_ends(body);
            }
            ready
        }
    };
    ready.headers.extend(manner.headers.iter().cloned());
    if let Some(content_type) = &manner.content_type {
        ready.content_type.clone_from(content_type);
    }
    ready.status = manner.status.unwrap_or(ready.status);
    ready.wire_format = wire_format;
    ready.manner = manner;
    match &ready.manner.fault {
        Some((when, FaultType::End)) => {
            let place = ready.position(*when);
            ready.body.truncate(place);
            ready.manner.fault = None;
        }
        Some((when, FaultType::Insert(bytes))) => {
            let place = ready.position(*when);
            ready.body.splice(place..place, bytes.iter().copied());
            ready.manner.fault = None;
        }
        // An endless body has no length.
        Some((_, FaultType::EndlessEvent | FaultType::EndlessStream)) => ready.chunked = true,
        _ => {}
    }
    if ready.manner.gzip {
        compress(&mut ready);
    }
    ready
}

/// `retry-after` in its three forms.
fn retry_header(after: RetryAfter) -> (String, String) {
    match after {
        RetryAfter::Seconds(seconds) => ("retry-after".to_owned(), seconds.to_string()),
        RetryAfter::Millis(millis) => ("retry-after-ms".to_owned(), millis.to_string()),
        RetryAfter::Date(seconds) => {
            let when =
                jiff::Timestamp::now().saturating_add(Duration::from_secs(seconds)).unwrap_or_default();
            let printer = jiff::fmt::rfc2822::DateTimePrinter::new();
            ("retry-after".to_owned(), printer.timestamp_to_rfc9110_string(&when).unwrap_or_default())
        }
    }
}

/// The end positions of the events of a recorded stream.
fn event_ends(body: &[u8]) -> Vec<usize> {
    let empty_line = |at: &usize| body[..*at].ends_with(b"\n\n") || body[..*at].ends_with(b"\r\n\r\n");
    (1..=body.len()).filter(empty_line).collect()
}

/// Compresses a body event by event, so that each can be read when it arrives.
fn compress(ready: &mut Ready) {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let mut ends = Vec::with_capacity(ready.ends.len());
    let mut begin = 0;
    for end in ready.ends.iter().map(|end| (*end).min(ready.body.len())).chain([ready.body.len()]) {
        // Writing to a vector cannot fail.
        drop(encoder.write_all(&ready.body[begin..end]).and_then(|()| encoder.flush()));
        ends.push(encoder.get_ref().len());
        begin = end;
    }
    ready.body = encoder.finish().unwrap_or_default();
    ready.ends = ends;
}

pub(super) async fn send(mut connection: Connection, ready: Ready, close: bool) -> ConnectionFate {
    let Ok(()) = connection.pause(Some(ready.manner.latency)).await else { return (Outcome::Left, None) };
    let manner = &ready.manner;
    let well = manner.head_drip.is_none() && manner.drip.is_none() && manner.gap.is_zero();
    if well && manner.fault.is_none() && manner.holds.is_empty() {
        return match connection.send(&ready.whole(close)).await {
            Ok(()) => (Outcome::Sent, Some(connection)),
            Err(ClientGone) => (Outcome::Left, None),
        };
    }
    let fault = manner.fault.clone();
    let end = match &fault {
        Some((FaultMoment::AtOnce, then)) => return fail(connection, &ready, then, true).await,
        Some((when, _)) => ready.position(*when),
        None => ready.body.len(),
    };
    if slowly(&mut connection, &ready, end, close).await.is_err() {
        return (Outcome::Left, None);
    }
    match fault {
        Some((_, then)) => fail(connection, &ready, &then, false).await,
        None => match connection.send(if ready.chunked { b"0\r\n\r\n" } else { b"" }).await {
            Ok(()) => (Outcome::Sent, Some(connection)),
            Err(ClientGone) => (Outcome::Left, None),
        },
    }
}

/// Sends the head and the body up to a position, as slowly as requested.
async fn slowly(
    connection: &mut Connection,
    ready: &Ready,
    end: usize,
    close: bool,
) -> Result<(), ClientGone> {
    let head = ready.head(close);
    match ready.manner.head_drip {
        Some(interval) => drip(connection, &head, interval).await?,
        None => connection.send(&head).await?,
    }
    let mut begin = 0;
    for stop in ready.ends.iter().map(|stop| (*stop).min(end)).chain([end]) {
        if stop > begin {
            if begin > 0 {
                connection.pause(Some(ready.manner.gap)).await?;
            }
            piece(connection, ready, begin, stop).await?;
            begin = stop;
        }
    }
    Ok(())
}

/// Sends a piece of the body, and waits wherever it is held back.
async fn piece(
    connection: &mut Connection,
    ready: &Ready,
    begin: usize,
    stop: usize,
) -> Result<(), ClientGone> {
    let mut begin = begin;
    for (when, hold) in &ready.manner.holds {
        let place = ready.position(*when);
        if (begin..stop).contains(&place) {
            bytes(connection, ready, &ready.body[begin..place]).await?;
            connection.until(hold.released()).await?;
            begin = place;
        }
    }
    bytes(connection, ready, &ready.body[begin..stop]).await
}

async fn bytes(connection: &mut Connection, ready: &Ready, bytes: &[u8]) -> Result<(), ClientGone> {
    match ready.manner.drip {
        Some(interval) if ready.chunked => {
            for byte in bytes.chunks(1) {
                connection.send(&in_chunks(byte)).await?;
                connection.pause(Some(interval)).await?;
            }
            Ok(())
        }
        Some(interval) => drip(connection, bytes, interval).await,
        None if ready.chunked => connection.send(&in_chunks(bytes)).await,
        None => connection.send(bytes).await,
    }
}

async fn drip(connection: &mut Connection, bytes: &[u8], interval: Duration) -> Result<(), ClientGone> {
    for byte in bytes.chunks(1) {
        connection.send(byte).await?;
        connection.pause(Some(interval)).await?;
    }
    Ok(())
}

fn in_chunks(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 16);
    chunk(&mut out, bytes);
    out
}

/// Executes a fault. The answer cannot be complete after it, so the connection is not used again.
async fn fail(mut connection: Connection, ready: &Ready, then: &FaultType, at_once: bool) -> ConnectionFate {
    let result = match then {
        // The last two changed the body before it was sent.
        FaultType::Close | FaultType::End | FaultType::Insert(_) => Ok(()),
        FaultType::Reset => {
            connection.reset();
            return (Outcome::Broken, None);
        }
        FaultType::Stall => connection.pause(None).await,
        FaultType::Ping(interval) => ping(&mut connection, ready, *interval).await,
        FaultType::Error(refusal) => {
            let mut out = in_chunks(&shapes::error_event(ready.wire_format, refusal));
            out.extend_from_slice(b"0\r\n\r\n");
            connection.send(&out).await
        }
        FaultType::EndlessEvent | FaultType::EndlessStream => {
            let head = if at_once { ready.head(true) } else { Vec::new() };
            match connection.send(&head).await {
                Ok(()) => endless(&mut connection, ready, *then == FaultType::EndlessEvent).await,
                Err(ClientGone) => Err(ClientGone),
            }
        }
    };
    (if result.is_ok() { Outcome::Broken } else { Outcome::Left }, None)
}

async fn ping(connection: &mut Connection, ready: &Ready, interval: Duration) -> Result<(), ClientGone> {
    let ping = in_chunks(shapes::ping(ready.wire_format).as_bytes());
    loop {
        connection.send(&ping).await?;
        connection.pause(Some(interval)).await?;
    }
}

async fn endless(connection: &mut Connection, ready: &Ready, one_event: bool) -> Result<(), ClientGone> {
    if one_event {
        connection.send(&in_chunks(b"data: {\"type\":\"")).await?;
    }
    let event = if one_event { b"x".to_vec() } else { shapes::filler(ready.wire_format) };
    let piece = in_chunks(&event.repeat(ENDLESS_PIECE_BYTES / event.len().max(1)));
    let mut sent = 0;
    while sent < ENDLESS_MAX_BYTES {
        connection.send(&piece).await?;
        sent += piece.len();
    }
    Ok(())
}
