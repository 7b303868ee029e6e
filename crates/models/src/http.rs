//! The HTTP client of all models of a process, whose connections are kept and shared.
//!
//! It has two parts, each created when it is first needed. The part for `http://` reads no certificates, so a local
//! server needs none. The part for `https://` reads the machine's certificates once. Redirects are not followed: they
//! would send a key to a host that the user did not name.

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

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
const IDLE_CONNECTION: Duration = Duration::from_secs(90);
/// Limit of unused connections that are kept per server.
const MAX_IDLE_CONNECTIONS: usize = 1024;
/// Limit of concurrent requests per client over TLS. Servers accept about a hundred streams over one HTTP/2 connection,
/// and further requests wait without activity. Each client has its own connections. Without TLS, a connection has one
/// request at a time, and one client keeps them all.
const STREAMS_PER_CLIENT: usize = 64;
const MAX_CLIENTS: usize = 64;
/// Interval at which a quiet connection is probed, to notice that the other end is gone.
const PROBE_INTERVAL: Duration = Duration::from_secs(20);
/// Limit of headers in an answer.
const MAX_HEADERS: usize = 128;
/// Limit of header bytes in an answer over HTTP/2.
const MAX_HEAD_BYTES: u32 = 64 * 1024;
/// Limit of body bytes in an error answer.
const MAX_ERROR_BYTES: usize = 64 * 1024;
/// How long to wait for the rest of an error answer. Its head has the essentials.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// Limit of bytes of one answer, decompressed. The longest answers of models have a few megabytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;
/// Limit of bytes after the logical end of an answer.
const MAX_TAIL_BYTES: usize = 4 * 1024;
/// How long to wait for these bytes, in the background.
const TAIL_TIMEOUT: Duration = Duration::from_secs(2);
/// The error if no client can be created.
const NO_CLIENT: &str = "network connections are not available here";
const USER_AGENT: &str = concat!("posse/", env!("CARGO_PKG_VERSION"));

/// A proxy for model traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    pub url: String,
    /// Hosts that are reached directly, separated by commas, as in `NO_PROXY`.
    pub except: Option<String>,
}

/// The HTTP client of all models. Clones share it.
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

/// The connections of one kind. They share the TLS configuration.
#[derive(Default)]
struct ConnectionPool {
    tls: OnceCell<ClientConfig>,
    clients: Mutex<Vec<(Client, Arc<AtomicUsize>)>>,
}

/// Counts a request in progress over one of the clients.
pub(crate) struct UnderWay(Arc<AtomicUsize>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Http {
    /// A client without a proxy, whatever the environment sets.
    pub fn new() -> Self {
        Self::default()
    }

    /// A client that uses a proxy, or the reason why the proxy is unusable.
    pub fn through(proxy: &Proxy) -> Result<Self, String> {
        let made = reqwest::Proxy::all(&proxy.url)
            .map_err(|error| format!("the proxy `{}` cannot be used: {}", proxy.url, reasons(&error)))?;
        let made = made.no_proxy(proxy.except.as_deref().and_then(NoProxy::from_string));
        Ok(Self { shared: Arc::new(ClientState { proxy: Some(made), ..ClientState::default() }) })
    }

    /// Sends one request and returns the head of the answer.
    pub(crate) async fn post(
        &self,
        url: Url,
        mut headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<ResponseHead, Problem> {
        let place = origin(&url);
        let (client, under_way) = self.client(&url).await?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // A compressing server would buffer events until it has enough data. A compressed answer is decompressed all
        // the same.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let sent = client.post(url).headers(headers).body(body).send().await;
        match sent {
            Ok(response) => ResponseHead::new(response, under_way),
            Err(error) => Err(unanswered(&place, &error.without_url())),
        }
    }

    /// Requests a small document, without a key and within this time. `None` if there is no successful answer.
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

    /// Whether a server answers a request to this URL within this time, whatever it answers. Sends no key.
    pub async fn answers(&self, url: &str, within: Duration) -> bool {
        let Ok(url) = Url::parse(url) else { return false };
        let asked = async {
            let (client, _under_way) = self.client(&url).await.ok()?;
            client.get(url.clone()).send().await.ok()
        };
        tokio::time::timeout(within, asked).await.is_ok_and(|answer| answer.is_some())
    }

    /// The client for one request to this URL. The request counts as long as the second value is held.
    pub(crate) async fn client(&self, url: &Url) -> Result<(Client, UnderWay), Problem> {
        let secure = url.scheme() == "https";
        let half = if secure { &self.shared.secure } else { &self.shared.plain };
        let tls = half.tls.get_or_try_init(async || {
            tls_config(if secure { roots_of_this_machine().await? } else { RootCertStore::empty() })
        });
        let streams_max = if secure { STREAMS_PER_CLIENT } else { usize::MAX };
        let client = tls.await.and_then(|tls| self.shared.client_of(half, tls, streams_max));
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
    /// The first client with capacity, so that few requests share few connections. A new client if none has capacity.
    fn client_of(
        &self,
        half: &ConnectionPool,
        tls: &ClientConfig,
        streams_max: usize,
    ) -> Result<(Client, UnderWay), String> {
        let mut clients = half.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let room = clients.iter().position(|(_, count)| count.load(Ordering::Relaxed) < streams_max);
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
            // Only the front end reads proxies from the environment and passes them in.
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

/// An answer whose head has arrived.
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
            "it answered {} and points to {}; redirects are not followed, to protect your key: if that is the right place, make it the base URL",
            status.as_u16(),
            short(to),
        );
        Err(Problem { status: Some(status.as_u16()), ..Problem::free(ProblemKind::Foreign, message) })
    }

    pub(crate) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    pub(crate) fn is_success(&self) -> bool {
        self.response.status().is_success()
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The next piece of the body. `None` at its end.
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

    /// Reads the rest after the logical end of an answer, because a connection whose answer was not read to the end
    /// cannot be reused.
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

    /// The body of an error answer, as far as it arrived within the time and size limits.
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
        // The part that arrived until then is returned. The rest is not worth more waiting.
        let _ = tokio::time::timeout(ERROR_BODY_TIMEOUT, read).await;
        body
    }
}

/// Whether the other side refused the connection.
fn is_refused(error: &reqwest::Error) -> bool {
    let mut source: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = source {
        if error
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused)
        {
            return true;
        }
        source = error.source();
    }
    false
}

/// Whether a host and port are an address of the user's own machine.
fn is_own_machine(place: &str) -> bool {
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The problem of a request that got no answer.
fn unanswered(place: &str, error: &reqwest::Error) -> Problem {
    let why = reasons(error);
    let message = if error.is_builder() {
        return Problem::free(ProblemKind::Request, format!("the request cannot be sent to {place}: {why}"));
    } else if error.is_timeout() {
        format!("{place} could not be reached in time: {why}")
    } else if error.is_connect() && is_refused(error) && is_own_machine(place) {
        let message = format!("{place} cannot be reached: connection refused; is the server running?");
        return Problem::free(ProblemKind::NoServer, message);
    } else if error.is_connect() {
        format!("{place} cannot be reached: {why}")
    } else {
        // The request was sent and may have been processed, so its cost is unknown.
        let message = format!("{place} closed the connection without an answer: {why}");
        return Problem { usage: None, ..Problem::free(ProblemKind::Unreachable, message) };
    };
    Problem::free(ProblemKind::Unreachable, message)
}

/// Host and port, for users.
fn origin(url: &Url) -> String {
    let host = url.host_str().unwrap_or("it");
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// An error with its causes. The last cause is the most helpful.
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
    // The outermost errors only say that something was sent.
    let said = said.split_off(said.len().saturating_sub(2)).join(": ");
    // A number says nothing beside its words.
    let words =
        said.strip_suffix(')').and_then(|said| said.rsplit_once(" (os error ")).map(|(words, _)| words);
    short(words.unwrap_or(&said))
}
