//! The server: accepts connections of this machine, checks every request, executes operations, and drains.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, get, on};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use posse::RunId;
use posse::api::TokenRight;
use posse_setup::execution::is_interrupted;
use posse_setup::server::{AccessFile, AuditLog, ServerAccess};
use posse_setup::settings::Settings;
use posse_setup::{Notes, OpenError, Setup, SetupError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::access::{Reached, check_origin, check_own_page, is_host};
use super::assets::{self, now_ms};
use super::auditing::Audited;
use super::callers::{Caller, Tokens};
use super::connection::GuardedConnection;
use super::hosting::{ResumeOutcome, why};
use super::idempotency::{KeptReply, RequestKey};
use super::limits::{
    BODY_MAX_BYTES, BODY_TIMEOUT, CONNECTIONS_MAX, DRAIN_PATIENCE, HEADERS_MAX, HEADERS_MAX_BYTES,
    HEADERS_TIMEOUT, RUNS_SEARCHED_MAX, TLS_TIMEOUT,
};
use super::openapi::openapi;
use super::operations::{Call, Effect, OPERATIONS, Operation};
use super::problem::{Problem, ProblemCode};
use super::query::Query;
use super::reply::{JSON, Reply, harden};
use super::state::{ServerState, Tenant};
use super::tls::{self, TlsError, TlsFiles};
use super::token::{Token, TokenError};
use super::webhooks::WebhookSender;

/// The path of the OpenAPI document.
const OPENAPI: &str = "/api/openapi.json";
/// What needs a token. Everything else is the page, whose files tell nothing.
const API: &str = "/api/";
/// How long the server waits before it accepts again after the operating system refused it.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeOptions {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Whether clients on other machines may reach it. Then they reach it through TLS.
    pub allow_remote: bool,
    /// The certificate, if it speaks TLS itself.
    pub tls: Option<TlsFiles>,
    /// Whether a proxy in front of it speaks TLS.
    pub behind_proxy: bool,
    /// The names and addresses by which clients on other machines reach it, without ports.
    pub hosts: Vec<String>,
}

impl ServeOptions {
    /// A server for clients of this machine.
    pub fn local(listen: SocketAddr) -> Self {
        Self { listen, allow_remote: false, tls: None, behind_proxy: false, hosts: Vec::new() }
    }

    /// Refuses what would put a token on a network in plain text, or accept requests for any name.
    fn check(&self) -> Result<(), ServeError> {
        if let Some(wrong) = self.hosts.iter().find(|host| !is_host(host)) {
            return Err(ServeError::NoHost(wrong.clone()));
        }
        let is_loopback = self.listen.ip().is_loopback();
        if is_loopback && self.hosts.is_empty() && !self.behind_proxy {
            return Ok(());
        }
        if !self.allow_remote {
            return Err(ServeError::NotAllowed(self.listen));
        }
        if self.tls.is_none() && !self.behind_proxy {
            return Err(ServeError::NotEncrypted(self.listen));
        }
        if self.hosts.is_empty() && (self.behind_proxy || self.listen.ip().is_unspecified()) {
            return Err(ServeError::HostsMissing);
        }
        Ok(())
    }

    /// How clients reach a server that listens like this.
    fn reached(&self) -> Reached {
        let mut hosts = self.hosts.clone();
        if !self.listen.ip().is_unspecified() {
            hosts.push(self.listen.ip().to_string());
        }
        Reached { hosts, is_encrypted: self.tls.is_some() || self.behind_proxy }
    }
}

/// Why a server did not start. Nothing listens.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Other machines could reach it, and that was not allowed.
    #[error("{0} can be reached from other machines, and that is not allowed")]
    NotAllowed(SocketAddr),
    /// Other machines could reach it without encryption.
    #[error("{0} can be reached from other machines, and nothing encrypts what they send")]
    NotEncrypted(SocketAddr),
    /// Nothing says by which name others reach it.
    #[error("the name by which clients reach the server is missing")]
    HostsMissing,
    /// A name that no client can write.
    #[error("`{0}` is not the name or the address of a host")]
    NoHost(String),
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address cannot be listened on.
    #[error("{address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// The state directory cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is no token.
    #[error(transparent)]
    Token(#[from] TokenError),
}

impl From<SetupError> for ServeError {
    fn from(error: SetupError) -> Self {
        Self::Open(error.into())
    }
}

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
        // A mistake in the file is told when the server starts, not with the first request.
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
                Err(problem) => tracing::error!(tenant = name.as_str(), why = why(&problem), "no run is resumed"),
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
    let Some(tls) = tls else { return serve_connection(connection, service, state).await };
    match tokio::time::timeout(TLS_TIMEOUT, tls.accept(connection)).await {
        Ok(Ok(connection)) => serve_connection(connection, service, state).await,
        Ok(Err(error)) => tracing::debug!(%error, "a client did not agree on TLS"),
        Err(_) => tracing::debug!("a client did not agree on TLS in time"),
    }
}

async fn serve_connection(
    connection: impl AsyncRead + AsyncWrite + Send + Unpin,
    service: TowerToHyperService<Router>,
    state: Arc<ServerState>,
) {
    let connection = TokioIo::new(GuardedConnection::new(connection));
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_TIMEOUT)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEADERS_MAX_BYTES)
        .serve_connection(connection, service);
    tokio::pin!(serving);
    let mut draining = state.draining();
    let drained = async move {
        // The sender lives as long as the server.
        let _ = draining.wait_for(|is_draining| *is_draining).await;
    };
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = drained => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
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
    let mut response = match checked(&state, &mut request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    harden(&mut response);
    response
}

fn checked(state: &ServerState, request: &mut Request) -> Result<(), Problem> {
    check_origin(request.headers(), &state.reached)?;
    if is_api(request.uri().path()) {
        let caller = state.tokens.caller(request.headers(), now_ms())?;
        if caller.is_browser {
            let acts = !matches!(*request.method(), Method::GET | Method::HEAD);
            check_own_page(request.headers(), acts)?;
        }
        state.quotas.of(&caller.name).count_request()?;
        request.extensions_mut().insert(caller);
    }
    if state.is_draining() {
        let detail = "the server is about to end, and accepts no requests";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, ProblemCode::Draining, detail));
    }
    Ok(())
}

async fn respond(state: Arc<ServerState>, operation: &'static Operation, request: Request) -> Response {
    let headers = request.headers().clone();
    let is_read = operation.effect == Effect::Reads;
    match answer(state, operation, request).await {
        Ok(reply) => reply.into_response(is_read, &headers),
        Err(problem) => problem.into_response(),
    }
}

/// Executes an operation.
async fn answer(
    state: Arc<ServerState>,
    operation: &'static Operation,
    request: Request,
) -> Result<Reply, Problem> {
    let (mut parts, body) = request.into_parts();
    let caller = parts.extensions.remove::<Caller>();
    let caller = caller.ok_or_else(|| Problem::failed("the request has no caller"))?;
    check_right(&caller, operation)?;
    let query = Query::read(parts.uri.query().unwrap_or_default(), operation.query)?;
    let params = RawPathParams::from_request_parts(&mut parts, &()).await;
    let params = params.map_err(|_| {
        Problem::new(StatusCode::NOT_FOUND, ProblemCode::NotFound, "there is nothing at this path")
    })?;
    let path = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let headers = parts.headers;
    let tenant = state.tenant(&caller.tenant)?;
    let call = Call { state, caller, tenant, path, query, headers, body: Bytes::new(), key: None };
    if operation.effect == Effect::Reads {
        return (operation.handler)(call).await;
    }
    act(operation, call, body, parts.uri.path()).await
}

/// Refuses an operation that the token has no right to.
fn check_right(caller: &Caller, operation: &Operation) -> Result<(), Problem> {
    if caller.may(operation.right) {
        return Ok(());
    }
    let right = operation.right.as_str();
    let detail = format!("the token `{}` does not have the right `{right}`", caller.name);
    let problem = Problem::new(StatusCode::FORBIDDEN, ProblemCode::RightMissing, detail);
    Err(problem.remedy(format!("use a token with it; `posse token new --right {right}` makes one")))
}

/// Executes an operation that starts or decides something.
async fn act(operation: &'static Operation, call: Call, body: Body, path: &str) -> Result<Reply, Problem> {
    let state = Arc::clone(&call.state);
    let quota = state.quotas.of(&call.caller.name);
    let sending = quota.body()?;
    let body = read_body(&call.headers, body).await?;
    drop(sending);
    if operation.body.is_some() && !body.is_empty() {
        check_content(&call.headers)?;
    }
    if operation.body.is_none() && !body.is_empty() && &body[..] != b"{}" {
        let detail = "this operation has no body";
        return Err(Problem::new(StatusCode::BAD_REQUEST, ProblemCode::InvalidRequest, detail));
    }
    let key = RequestKey::of(&call.headers, &call.caller.name, path, &body)?;
    let call = Call { body, key: key.clone(), ..call };
    // A client that goes away must not leave an operation half done.
    let acting = tokio::spawn(async move {
        let Some(key) = key else { return decide(operation, call).await };
        let slot = state.keys.slot(&key)?;
        let kept = slot.get_or_try_init(|| async {
            match decide(operation, call).await? {
                Reply::Whole(status, content, body) => Ok(KeptReply { status, content, body }),
                Reply::Stream(_) | Reply::Bundle(..) | Reply::Over => {
                    Err(Problem::failed("a stream has no key"))
                }
            }
        });
        let KeptReply { status, content, body } = kept.await?.clone();
        Ok(Reply::Whole(status, content, body))
    });
    acting.await.map_err(|error| Problem::failed(error.to_string()))?
}

/// Executes an operation between its two entries in the audit log. One that anyone with the right `read` may execute
/// decides nothing.
async fn decide(operation: &'static Operation, call: Call) -> Result<Reply, Problem> {
    if operation.right == TokenRight::Read {
        return (operation.handler)(call).await;
    }
    let state = Arc::clone(&call.state);
    let audited = Audited::begin(&state, &call.caller, operation, &call.path, &call.body).await?;
    let result = (operation.handler)(call).await;
    let outcome = audited.outcome(&result);
    outcome.add(&state).await;
    result
}

/// Reads the whole body of a request, within its limits.
async fn read_body(headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    let too_large = || {
        let detail = format!("the body has more than the {BODY_MAX_BYTES} bytes accepted");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, ProblemCode::TooLarge, detail)
    };
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: usize| length > BODY_MAX_BYTES) {
        return Err(too_large());
    }
    match tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, BODY_MAX_BYTES).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => {
            Err(Problem::new(StatusCode::BAD_REQUEST, ProblemCode::InvalidRequest, error.to_string()))
        }
        Err(_) => {
            let detail = format!("the body did not arrive within {} s", BODY_TIMEOUT.as_secs());
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, ProblemCode::TooSlow, detail))
        }
    }
}

/// Refuses a body that a form of a page could send.
fn check_content(headers: &HeaderMap) -> Result<(), Problem> {
    let content = headers.get(header::CONTENT_TYPE).and_then(|content| content.to_str().ok());
    let media = content.map(|content| content.split(';').next().unwrap_or_default().trim());
    if media.is_some_and(|media| media.eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    let detail = "the body must be JSON, with the content type application/json";
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, ProblemCode::InvalidRequest, detail)
        .field(header::CONTENT_TYPE.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(listen: &str) -> ServeOptions {
        ServeOptions::local(listen.parse().expect("an address"))
    }

    #[test]
    fn what_others_can_reach_is_allowed_encrypted_and_named() {
        let tls = Some(TlsFiles { cert: "cert.pem".into(), key: "key.pem".into() });
        let hosts = vec!["posse.example".to_owned()];
        let open = ServeOptions { allow_remote: true, ..options("0.0.0.0:1") };
        let named = ServeOptions { hosts: hosts.clone(), ..open.clone() };
        for (options, is_accepted) in [
            (options("127.0.0.1:1"), true),
            (options("[::1]:1"), true),
            (ServeOptions { tls: tls.clone(), ..options("127.0.0.1:1") }, true),
            (options("0.0.0.0:1"), false),
            (ServeOptions { hosts: hosts.clone(), ..options("127.0.0.1:1") }, false),
            (ServeOptions { behind_proxy: true, ..options("127.0.0.1:1") }, false),
            (ServeOptions { tls: tls.clone(), ..options("192.0.2.1:1") }, false),
            (named.clone(), false),
            (ServeOptions { tls: tls.clone(), ..open.clone() }, false),
            (ServeOptions { behind_proxy: true, ..open }, false),
            (ServeOptions { tls: tls.clone(), ..named.clone() }, true),
            (ServeOptions { tls: tls.clone(), allow_remote: true, ..options("192.0.2.1:1") }, true),
            (ServeOptions { behind_proxy: true, ..named.clone() }, true),
            (ServeOptions { tls, hosts: vec!["posse.example:1".to_owned()], ..named }, false),
        ] {
            assert_eq!(options.check().is_ok(), is_accepted, "{options:?}");
        }
    }
}
