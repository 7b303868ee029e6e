//! The server: accepts connections of this machine, checks every request, executes operations, and drains.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, get, on};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use posse::RunId;
use posse_setup::execution::is_interrupted;
use posse_setup::server::{AccessFile, AuditLog, ServerAccess};
use posse_setup::settings::Settings;
use posse_setup::{Notes, Setup};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::access::{RequestOrigin, check_origin, check_own_page, check_size};
use super::assets::{self, now_ms};
use super::callers::Tokens;
use super::connection::GuardedConnection;
use super::executing::respond;
use super::hosting::{ResumeOutcome, why};
use super::limits::{
    CONNECTIONS_MAX, DRAIN_PATIENCE, HEADERS_TIMEOUT, READ_HEADERS_MAX, READ_HEADERS_MAX_BYTES,
    RUNS_SEARCHED_MAX, TLS_TIMEOUT, WRITE_STALL,
};
use super::openapi::openapi;
use super::operations::{Effect, OPERATIONS};
use super::options::{ServeError, ServeOptions};
use super::problem::{Problem, ProblemCode};
use super::reply::{JSON, harden};
use super::state::{ServerState, Tenant};
use super::tls;
use super::token::Token;
use super::webhooks::WebhookSender;

/// The path of the OpenAPI document.
const OPENAPI: &str = "/api/openapi.json";
/// What needs a token. Everything else is the page, whose files tell nothing.
const API: &str = "/api/";
/// How long the server waits before it accepts again after the operating system refused it.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The interrupted runs that a server was to take over.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ResumedRuns {
    /// Those that it executes.
    pub resumed: Vec<RunId>,
    /// Those that it could not take over, each with the reason.
    pub failed: Vec<(RunId, String)>,
    /// What the user should know about the present settings and definitions of these runs.
    pub notes: Notes,
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    options: ServeOptions,
    tls: Option<TlsAcceptor>,
    state: Arc<ServerState>,
    webhook: Option<WebhookSender>,
}

impl Server {
    /// Listens, opens the state directory of the user, and reads or makes the token.
    pub async fn bind(setup: &Setup, options: ServeOptions) -> Result<Self, ServeError> {
        options.check()?;
        let tls = options.tls.as_ref().map(tls::acceptor).transpose()?;
        let address = options.listen;
        let failed = |error| ServeError::Listen { address, error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let local = Tenant::local(setup)?;
        let reader = local.posse.clone();
        let state_dir = setup.state_dir()?;
        let token = Token::load(state_dir)?;
        // A mistake in the file is reported when the server starts, not with the first request.
        ServerAccess::load(state_dir)?;
        let tokens = Tokens::new(token, AccessFile::new(state_dir));
        let state = ServerState::new(local, tokens, AuditLog::new(state_dir), options.reached());
        let state = Arc::new(state);
        let settings = Settings::own(&setup.environment)?;
        let webhook = match settings.webhook.webhook(&setup.environment.variables)? {
            Some(webhook) => Some(WebhookSender::open(webhook, reader, state_dir).await?),
            None => None,
        };
        Ok(Self { listener, address, options, tls, state, webhook })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of the page, with the token that a client needs.
    pub fn url(&self) -> String {
        let token = self.state.tokens.startup();
        let scheme = if self.options.tls.is_some() || self.options.behind_proxy { "https" } else { "http" };
        let host = match self.options.hosts.first() {
            // The proxy has the usual port.
            Some(host) if self.options.behind_proxy => bracketed(host),
            Some(host) => format!("{}:{}", bracketed(host), self.address.port()),
            None => self.address.to_string(),
        };
        format!("{scheme}://{host}/?token={token}")
    }

    /// Takes over all interrupted runs of the state directory, those of every tenant that has a token.
    pub async fn resume_interrupted(&self) -> Result<ResumedRuns, posse::Error> {
        let mut all = ResumedRuns::default();
        for name in self.state.tokens.stored().tenants() {
            match self.state.tenant(&name) {
                Ok(tenant) => resume_runs(&tenant, &mut all).await?,
                Err(problem) => {
                    tracing::error!(tenant = name.as_str(), why = why(&problem), "no run is resumed");
                }
            }
        }
        Ok(all)
    }

    /// Serves until `stop`, then drains: no request begins, requests that have begun end, streams tell their clients to
    /// come back, and the runs stop as they are. Returns the runs that can be resumed.
    pub async fn serve(self, stop: impl Future<Output = ()>) -> Vec<RunId> {
        let Self { listener, state, tls, webhook, .. } = self;
        // What it has not sent when the server ends is sent by the next one.
        let mut telling = JoinSet::new();
        webhook.map(|webhook| telling.spawn(webhook.run()));
        let service = TowerToHyperService::new(router(&state));
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        tokio::pin!(stop);
        loop {
            let accepted = tokio::select! {
                () = &mut stop => break,
                Some(_) = connections.join_next() => continue,
                accepted = accept(&listener, &slots) => accepted,
            };
            match accepted {
                Some((connection, slot)) => {
                    let serving = serve_client(connection, tls.clone(), service.clone(), Arc::clone(&state));
                    connections.spawn(async move {
                        serving.await;
                        drop(slot);
                    });
                }
                None => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
        drop(listener);
        state.drain();
        let ended = async { while connections.join_next().await.is_some() {} };
        // A client that does not read keeps nothing alive.
        let _ = tokio::time::timeout(DRAIN_PATIENCE, ended).await;
        let mut open = Vec::new();
        for tenant in state.opened_tenants() {
            open.extend(tenant.host.stop().await);
        }
        connections.shutdown().await;
        open
    }
}

async fn resume_runs(tenant: &Tenant, all: &mut ResumedRuns) -> Result<(), posse::Error> {
    let runs = tenant.posse.runs("", RUNS_SEARCHED_MAX).await?;
    for run in runs.into_iter().filter(is_interrupted) {
        let notes = &mut all.notes;
        let resumed = async {
            let slot = tenant.host.slot()?;
            tenant.host.resume(slot, &run, &tenant.posse, &tenant.setup, notes).await
        };
        match resumed.await {
            Ok(ResumeOutcome::Executed) => all.resumed.push(run.run),
            // Another process was first, or it has ended: nothing is left to do.
            Ok(ResumeOutcome::Held(_) | ResumeOutcome::Ended) => {}
            Err(problem) => all.failed.push((run.run, why(&problem))),
        }
    }
    Ok(())
}

/// The next connection, once there may be one more; `None` if the operating system refused it.
async fn accept(listener: &TcpListener, slots: &Arc<Semaphore>) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let slot = Arc::clone(slots).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((connection, _)) => Some((connection, slot)),
        Err(error) => {
            tracing::warn!(%error, "a connection was not accepted");
            None
        }
    }
}

/// A host as a URL has it.
fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

/// Agrees on TLS, if the server speaks it, and serves a connection.
async fn serve_client(
    connection: TcpStream,
    tls: Option<TlsAcceptor>,
    service: TowerToHyperService<Router>,
    state: Arc<ServerState>,
) {
    // Events are small, and each is sent at once.
    let _ = connection.set_nodelay(true);
    let draining = state.draining();
    let Some(tls) = tls else { return log_end(serve_connection(connection, service, draining).await) };
    match tokio::time::timeout(TLS_TIMEOUT, tls.accept(connection)).await {
        Ok(Ok(connection)) => log_end(serve_connection(connection, service, draining).await),
        Ok(Err(error)) => tracing::debug!(%error, "a client did not agree on TLS"),
        Err(_) => tracing::debug!("a client did not agree on TLS in time"),
    }
}

async fn serve_connection(
    connection: impl AsyncRead + AsyncWrite + Send + Unpin,
    service: TowerToHyperService<Router>,
    mut draining: watch::Receiver<bool>,
) -> Result<(), hyper::Error> {
    let connection = TokioIo::new(GuardedConnection::new(connection));
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_TIMEOUT)
        .max_headers(READ_HEADERS_MAX)
        .max_buf_size(READ_HEADERS_MAX_BYTES)
        .serve_connection(connection, service);
    tokio::pin!(serving);
    let drained = async move {
        // The sender lives as long as the server.
        let _ = draining.wait_for(|is_draining| *is_draining).await;
    };
    tokio::select! {
        ended = serving.as_mut() => ended,
        () = drained => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    }
}

/// Says why a connection ended, if its client did not end it.
fn log_end(ended: Result<(), hyper::Error>) {
    match ended {
        Ok(()) => {}
        Err(error) if is_stalled(&error) => {
            let seconds = WRITE_STALL.as_secs();
            tracing::warn!("a client was dropped: it has read nothing for {seconds} s; it can connect again");
        }
        Err(error) => tracing::debug!(%error, "a connection ended"),
    }
}

/// Whether a connection was closed because its client reads nothing.
fn is_stalled(error: &hyper::Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<std::io::Error>());
    source.is_some_and(|source| source.kind() == std::io::ErrorKind::TimedOut)
}

/// The routes, from the table of operations.
fn router(state: &Arc<ServerState>) -> Router {
    let mut router = Router::new();
    for operation in OPERATIONS {
        let method = match operation.effect {
            Effect::Reads => MethodFilter::GET,
            Effect::Acts => MethodFilter::POST,
        };
        let state = Arc::clone(state);
        let answer = move |request: Request| respond(Arc::clone(&state), operation, request);
        router = router.route(operation.path, on(method, answer));
    }
    let document = Bytes::from(openapi().to_string());
    let description = move || async move { ([(header::CONTENT_TYPE, JSON)], document) };
    router
        .route(OPENAPI, get(description))
        .fallback(fallback)
        .method_not_allowed_fallback(async |request: Request| {
            let detail = format!("this path has no {}", request.method());
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, ProblemCode::MethodNotAllowed, detail)
        })
        .layer(middleware::from_fn_with_state(Arc::clone(state), check))
        .with_state(Arc::clone(state))
}

/// Answers what no operation does: with the page, or that there is nothing.
async fn fallback(State(state): State<Arc<ServerState>>, request: Request) -> Response {
    if is_api(request.uri().path()) {
        let detail = "there is nothing at this path";
        return Problem::new(StatusCode::NOT_FOUND, ProblemCode::NotFound, detail).into_response();
    }
    assets::respond(&state, request.method(), request.uri(), request.headers())
}

/// Whether a path is one of the API.
fn is_api(path: &str) -> bool {
    path.starts_with(API)
}

/// Checks where a request comes from, and its token, before anything else of it is read.
async fn check(State(state): State<Arc<ServerState>>, mut request: Request, next: Next) -> Response {
    let (origin, mut response) = match where_from(&state, &request) {
        Ok(origin) => {
            let response = match origin.preflight(request.method(), request.headers()) {
                Some(response) => response,
                None => match checked(&state, &origin, &mut request) {
                    // The right to the request ends with its answer; a stream has one of its own.
                    Ok(_right) => next.run(request).await,
                    Err(problem) => problem.into_response(),
                },
            };
            (origin, response)
        }
        Err(problem) => (RequestOrigin::Own, problem.into_response()),
    };
    harden(&mut response);
    origin.open(&mut response);
    response
}

fn where_from(state: &ServerState, request: &Request) -> Result<RequestOrigin, Problem> {
    let uri_bytes = request.uri().path_and_query().map_or(0, |given| given.as_str().len());
    check_size(uri_bytes, request.headers())?;
    check_origin(request.headers(), &state.reached)
}

/// Checks the token of a request to the API, which may send it until it is answered.
fn checked(
    state: &ServerState,
    origin: &RequestOrigin,
    request: &mut Request,
) -> Result<Option<OwnedSemaphorePermit>, Problem> {
    let mut right = None;
    if is_api(request.uri().path()) {
        let caller = state.tokens.caller(request.headers(), now_ms())?;
        if caller.is_browser {
            let acts = !matches!(*request.method(), Method::GET | Method::HEAD);
            check_own_page(request.headers(), origin, acts)?;
        }
        right = Some(state.token_limits.of(&caller.name).request()?);
        request.extensions_mut().insert(caller);
    }
    if state.is_draining() {
        let detail = "the server is about to end, and accepts no requests";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, ProblemCode::Draining, detail));
    }
    Ok(right)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Body;
    use futures::stream;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    const PIECE: &[u8] = &[b'x'; 1024];

    /// The client's side of a connection to a server whose page never ends, and the server's.
    fn connected() -> (DuplexStream, impl Future<Output = Result<(), hyper::Error>>) {
        let (near, far) = tokio::io::duplex(4 * PIECE.len());
        let endless = || async {
            Body::from_stream(stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from_static(PIECE))))
        };
        let service = TowerToHyperService::new(Router::new().route("/", get(endless)));
        let (sender, draining) = watch::channel(false);
        let serving = async move {
            let ended = serve_connection(near, service, draining).await;
            drop(sender);
            ended
        };
        (far, serving)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_ends_its_headers_is_dropped() {
        let (mut client, serving) = connected();
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ").await.expect("written");
        let ended = serving.await;
        assert!(ended.is_err_and(|error| error.is_timeout()));
        assert!(client.write_all(b"x").await.is_err(), "the connection is closed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_nothing_is_dropped() {
        let (_client, serving) = connected();
        assert!(serving.await.is_err_and(|error| error.is_timeout()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_is_not_read_is_ended_and_one_that_is_read_slowly_is_not() {
        let (mut client, serving) = connected();
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("written");
        let reading = async {
            let mut piece = vec![0; PIECE.len()];
            for _ in 0..100 {
                tokio::time::advance(WRITE_STALL / 2).await;
                client.read_exact(&mut piece).await.expect("a slow client is served");
            }
            client
        };
        // The client stays, and reads nothing more.
        let (ended, _client) = tokio::join!(serving, reading);
        assert!(is_stalled(&ended.expect_err("it does not read")), "the log names the reason");
    }
}
