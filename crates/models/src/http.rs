//! The HTTP of all models: one client per process, whose connections are kept and shared.
//!
//! There are two halves, each made when it is first needed. The one for `http://` knows no certificates, so that a
//! local server is asked without reading any; the one for `https://` reads the machine's certificates once. Redirects
//! are not followed: they would carry a key to whoever they name.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Client, NoProxy, Url};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::OnceCell;

use crate::wire::{Problem, ProblemKind, short};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// How long an unused connection is kept.
const IDLE_CONNECTION: Duration = Duration::from_secs(90);
/// How many unused connections to one server are kept.
const MAX_IDLE_CONNECTIONS: usize = 1024;
/// Requests that go over one client at a time. Servers take about a hundred over one connection of HTTP/2, and what is
/// beyond waits without a sign of life; each client has connections of its own.
const STREAMS_PER_CLIENT: usize = 64;
/// How many clients there are at most.
const MAX_CLIENTS: usize = 64;
/// How often a quiet connection is probed, so that one whose other end is gone is noticed.
const PROBE_INTERVAL: Duration = Duration::from_secs(20);
/// Headers that an answer may have.
const MAX_HEADERS: usize = 128;
/// Bytes of headers that an answer over HTTP/2 may have.
const MAX_HEAD_BYTES: u32 = 64 * 1024;
/// Bytes of an answer that is no success.
const MAX_ERROR_BYTES: usize = 64 * 1024;
/// How long is waited for the rest of an answer that is no success: its head has said most.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of one answer, unpacked. The longest that models give are a few megabytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;
/// Bytes that may follow an answer that has said its end.
const MAX_TAIL_BYTES: usize = 4 * 1024;
/// How long is waited for them, beside everything else.
const TAIL_TIMEOUT: Duration = Duration::from_secs(2);
/// Why nothing can be asked at all.
const NO_CLIENT: &str = "connections cannot be made here";
/// Who asks.
const USER_AGENT: &str = concat!("posse/", env!("CARGO_PKG_VERSION"));

/// A proxy that model traffic goes through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// Where it is.
    pub url: String,
    /// Hosts that are asked directly, separated by commas, as `NO_PROXY` has them.
    pub except: Option<String>,
}

/// The HTTP of all models; cloning shares it.
#[derive(Clone, Default)]
pub struct Http {
    shared: Arc<ClientState>,
}

#[derive(Default)]
struct ClientState {
    proxy: Option<reqwest::Proxy>,
    plain: ConnectionPool,
    secure: ConnectionPool,
}

/// The connections of one kind. They share what is known of certificates.
#[derive(Default)]
struct ConnectionPool {
    tls: OnceCell<ClientConfig>,
    clients: Mutex<Vec<(Client, Arc<AtomicUsize>)>>,
}

/// A request under way over one of the clients.
pub(crate) struct UnderWay(Arc<AtomicUsize>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Http {
    /// Without a proxy, whatever the environment says.
    pub fn new() -> Self {
        Self::default()
    }

    /// Through a proxy, or why it cannot be.
    pub fn through(proxy: &Proxy) -> Result<Self, String> {
        let made = reqwest::Proxy::all(&proxy.url)
            .map_err(|error| format!("the proxy `{}` cannot be used: {}", proxy.url, reasons(&error)))?;
        let made = made.no_proxy(proxy.except.as_deref().and_then(NoProxy::from_string));
        Ok(Self { shared: Arc::new(ClientState { proxy: Some(made), ..ClientState::default() }) })
    }

    /// Sends one request and gives the head of the answer.
    pub(crate) async fn post(
        &self,
        url: Url,
        mut headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<ResponseHead, Problem> {
        let place = origin(&url);
        let (client, under_way) = self.client(&url).await?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // Packing would hold events back until there is enough to pack. What is packed all the same is unpacked.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let sent = client.post(url).headers(headers).body(body).send().await;
        match sent {
            Ok(response) => ResponseHead::new(response, under_way),
            Err(error) => Err(unanswered(&place, &error.without_url())),
        }
    }

    /// Asks for a small document, without a key and within this time; none if there is no good answer.
    pub(crate) async fn get(&self, url: Url, within: Duration) -> Option<Vec<u8>> {
        let asked = async {
            let (client, under_way) = self.client(&url).await.ok()?;
            let mut answered =
                ResponseHead::new(client.get(url.clone()).send().await.ok()?, under_way).ok()?;
            if !answered.is_success() {
                return None;
            }
            Some(answered.error_body().await)
        };
        tokio::time::timeout(within, asked).await.ok().flatten()
    }

    /// The client for one request to a place, which counts for as long as the second part is held.
    pub(crate) async fn client(&self, url: &Url) -> Result<(Client, UnderWay), Problem> {
        let secure = url.scheme() == "https";
        let half = if secure { &self.shared.secure } else { &self.shared.plain };
        let tls = half.tls.get_or_try_init(async || {
            tls_config(if secure { roots_of_this_machine().await? } else { RootCertStore::empty() })
        });
        let client = tls.await.and_then(|tls| self.shared.client_of(half, tls));
        client.map_err(|why| Problem::free(ProblemKind::Unreachable, why))
    }

    #[cfg(test)]
    pub(crate) fn trusting(roots: RootCertStore) -> Self {
        let http = Self::new();
        http.shared.secure.tls.set(tls_config(roots).expect("a configuration")).expect("not set before");
        http
    }
}

fn tls_config(roots: RootCertStore) -> Result<ClientConfig, String> {
    let mut tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("{NO_CLIENT}: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(tls)
}

impl ClientState {
    /// The first client that has room, so that few requests share few connections; a new one if none has.
    fn client_of(&self, half: &ConnectionPool, tls: &ClientConfig) -> Result<(Client, UnderWay), String> {
        let mut clients = half.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let room = clients.iter().position(|(_, count)| count.load(Ordering::Relaxed) < STREAMS_PER_CLIENT);
        let at = match room {
            Some(at) => at,
            None if clients.len() < MAX_CLIENTS => {
                clients.push((self.build(tls.clone())?, Arc::default()));
                clients.len() - 1
            }
            None => {
                let loads = clients.iter().enumerate();
                loads.min_by_key(|(_, (_, count))| count.load(Ordering::Relaxed)).map_or(0, |(at, _)| at)
            }
        };
        let (client, count) = &clients[at];
        count.fetch_add(1, Ordering::Relaxed);
        Ok((client.clone(), UnderWay(count.clone())))
    }

    fn build(&self, tls: ClientConfig) -> Result<Client, String> {
        let builder = Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(USER_AGENT)
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_CONNECTION)
            .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
            .tcp_nodelay(true)
            .tcp_keepalive(PROBE_INTERVAL)
            .http1_max_headers(MAX_HEADERS)
            .http2_max_header_list_size(MAX_HEAD_BYTES)
            .http2_adaptive_window(true)
            .http2_keep_alive_interval(PROBE_INTERVAL)
            .http2_keep_alive_timeout(PROBE_INTERVAL)
            // The environment's proxies are for whoever reads the environment to pass on.
            .no_proxy();
        let builder = match &self.proxy {
            Some(proxy) => builder.proxy(proxy.clone()),
            None => builder,
        };
        builder.build().map_err(|error| format!("{NO_CLIENT}: {}", reasons(&error)))
    }
}

async fn roots_of_this_machine() -> Result<RootCertStore, String> {
    let read = tokio::task::spawn_blocking(|| {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        let (taken, _) = roots.add_parsable_certificates(found.certs);
        let why = found.errors.first().map_or_else(|| "none were found".to_owned(), ToString::to_string);
        if taken == 0 { Err(why) } else { Ok(roots) }
    });
    let roots = read.await.map_err(|error| error.to_string()).and_then(|roots| roots);
    roots.map_err(|why| {
        format!("the machine's certificates cannot be read ({why}); install its `ca-certificates` package")
    })
}

/// An answer whose head has come.
pub(crate) struct ResponseHead {
    response: reqwest::Response,
    bytes: usize,
    _under_way: UnderWay,
}

impl ResponseHead {
    fn new(response: reqwest::Response, under_way: UnderWay) -> Result<Self, Problem> {
        let status = response.status();
        if !status.is_redirection() {
            return Ok(Self { response, bytes: 0, _under_way: under_way });
        }
        let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("nowhere");
        let message = format!(
            "it answered {} and points to {}; redirects are not followed, so that no key goes astray: if that is the right place, make it the base URL",
            status.as_u16(),
            short(to),
        );
        Err(Problem { status: Some(status.as_u16()), ..Problem::free(ProblemKind::Foreign, message) })
    }

    /// The status.
    pub(crate) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// Whether the status is a success.
    pub(crate) fn is_success(&self) -> bool {
        self.response.status().is_success()
    }

    /// The headers.
    pub(crate) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The next piece of the body; none at its end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<impl AsRef<[u8]> + use<>>, Problem> {
        let chunk = self.response.chunk().await.map_err(|error| {
            Problem::cut(format!("the connection broke during the answer: {}", reasons(&error.without_url())))
        })?;
        self.bytes += chunk.as_ref().map_or(0, |chunk| chunk.as_ref().len());
        if self.bytes > MAX_ANSWER_BYTES {
            return Err(Problem::cut(format!("the answer is longer than {MAX_ANSWER_BYTES} bytes")));
        }
        Ok(chunk)
    }

    /// Reads the little that follows an answer that has said its end: a connection whose answer was not read to the end
    /// cannot be used again.
    pub(crate) async fn drained(mut self) {
        let before = self.bytes;
        let read = async {
            while let Ok(Some(_)) = self.chunk().await {
                if self.bytes - before > MAX_TAIL_BYTES {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(TAIL_TIMEOUT, read).await;
    }

    /// The body of an answer that is no success, as far as it came in time and within the limit.
    pub(crate) async fn error_body(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        let read = async {
            while let Ok(Some(chunk)) = self.chunk().await {
                let room = MAX_ERROR_BYTES - body.len();
                let chunk = chunk.as_ref();
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if body.len() == MAX_ERROR_BYTES {
                    break;
                }
            }
        };
        // What came until then is told; the rest is not worth more waiting.
        let _ = tokio::time::timeout(ERROR_BODY_TIMEOUT, read).await;
        body
    }
}

/// A request that got no answer.
fn unanswered(place: &str, error: &reqwest::Error) -> Problem {
    let why = reasons(error);
    let message = if error.is_builder() {
        return Problem::free(ProblemKind::Request, format!("the request cannot be sent to {place}: {why}"));
    } else if error.is_timeout() {
        format!("{place} could not be reached in time: {why}")
    } else if error.is_connect() {
        format!("{place} cannot be reached: {why}")
    } else {
        // It was sent, and may have been worked on: nobody knows what that cost.
        let message = format!("{place} closed the connection without an answer: {why}");
        return Problem { usage: None, ..Problem::free(ProblemKind::Unreachable, message) };
    };
    Problem::free(ProblemKind::Unreachable, message)
}

/// Host and port, for people.
fn origin(url: &Url) -> String {
    let host = url.host_str().unwrap_or("it");
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// An error with what caused it; the last is the one that helps.
fn reasons(error: &dyn Error) -> String {
    let mut said = vec![error.to_string()];
    let mut next = error.source();
    while let Some(source) = next {
        let text = source.to_string();
        if said.last().is_none_or(|last| !last.contains(&text)) {
            said.push(text);
        }
        next = source.source();
    }
    // The outermost ones only say that something was sent.
    short(&said.split_off(said.len().saturating_sub(2)).join(": "))
}
