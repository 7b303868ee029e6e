//! Opens one connection to one checked address, for one request and one response.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::body::Body;
use super::error::EgressError;
use super::target::Target;
use super::tls::Tls;

/// Maximum size of a response's status line and headers.
pub(super) const HEADERS_MAX_BYTES: usize = 64 * 1024;
/// Maximum number of headers of a response.
const HEADERS_MAX: usize = 128;
/// How many addresses of a host are tried.
const ADDRESSES_TRIED_MAX: usize = 4;

pub(super) struct RawResponse {
    pub(super) head: hyper::http::response::Parts,
    pub(super) body: Vec<u8>,
}

/// Connects to the first address that responds. They were checked before, and no name is resolved here.
pub(super) async fn open(
    target: &Target,
    addresses: &[SocketAddr],
    patience: Duration,
) -> Result<TcpStream, EgressError> {
    let mut why = "there is no address to try".to_owned();
    for address in addresses.iter().take(ADDRESSES_TRIED_MAX) {
        match tokio::time::timeout(patience, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => why = error.to_string(),
            Err(_) => why = format!("no answer within {} seconds", patience.as_secs_f64()),
        }
    }
    Err(EgressError::Connect { host: target.host().to_owned(), port: target.port(), why })
}

/// Sends the request over a new connection, with TLS if the target is `https`.
pub(super) async fn ask(
    target: &Target,
    stream: TcpStream,
    tls: &Tls,
    request: Request<Full<Bytes>>,
    max_bytes: usize,
) -> Result<RawResponse, EgressError> {
    if target.is_https() {
        let stream = tls.connect(target, stream).await?;
        exchange(target, stream, request, max_bytes).await
    } else {
        exchange(target, stream, request, max_bytes).await
    }
}

async fn exchange(
    target: &Target,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    request: Request<Full<Bytes>>,
    max_bytes: usize,
) -> Result<RawResponse, EgressError> {
    let failed = |error: hyper::Error| failure(target, &error);
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(HEADERS_MAX_BYTES)
        .max_headers(HEADERS_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(failed)?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(failed)?;
        read(target, response, max_bytes).await
    };
    // Both run in this future, so that dropping it closes the connection too.
    tokio::select! {
        answer = answer => answer,
        Err(error) = connection => Err(failed(error)),
    }
}

async fn read(
    target: &Target,
    response: Response<Incoming>,
    max_bytes: usize,
) -> Result<RawResponse, EgressError> {
    let (head, mut incoming) = response.into_parts();
    let encodings: Vec<&str> = head
        .headers
        .get_all(hyper::header::CONTENT_ENCODING)
        .iter()
        .map(|value| value.to_str().unwrap_or("not text"))
        .collect();
    let mut body = Body::new(&encodings.join(", "), max_bytes)?;
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(|error| failure(target, &error))?;
        if let Ok(piece) = frame.into_data() {
            body.push(&piece)?;
        }
    }
    Ok(RawResponse { head, body: body.finish()? })
}

fn failure(target: &Target, error: &hyper::Error) -> EgressError {
    let host = target.host().to_owned();
    // hyper has a method for this error only for servers.
    if error.is_parse() && error.to_string() == "message head is too large" {
        return EgressError::Headers { host };
    }
    EgressError::Protocol { host, why: error.to_string() }
}
