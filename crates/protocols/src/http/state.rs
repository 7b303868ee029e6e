//! What all requests of a server share.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;
use posse::api::ServerProject;
use posse::ports::TenantId;
use posse::{Posse, RunId};
use posse_setup::project_runs::Project;
use posse_setup::server::AuditLog;
use posse_setup::settings::Settings;
use posse_setup::{OpenError, Setup, models};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::access::ServerAddress;
use super::callers::{Caller, Tokens};
use super::feeds::RunFeeds;
use super::hosting::RunHost;
use super::idempotency::Keys;
use super::limits::{EXPORTS_MAX, KEYS_MAX, STREAMS_MAX, TENANTS_MAX};
use super::problem::{Problem, ProblemCode};
use super::token_limits::AllTokenLimits;

/// The right to a stream, until it is dropped.
pub(super) struct StreamSlot {
    _of_token: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// What all requests of a server share.
pub(super) struct ServerState {
    /// The user of the server.
    setup: Arc<Setup>,
    pub(super) tokens: Tokens,
    pub(super) audit: AuditLog,
    /// How clients reach it.
    pub(super) reached: ServerAddress,
    tenants: Mutex<HashMap<TenantId, Arc<Tenant>>>,
    pub(super) keys: Keys,
    pub(super) token_limits: AllTokenLimits,
    pub(super) feeds: RunFeeds,
    streams: Arc<Semaphore>,
    exports: Arc<Semaphore>,
    draining: watch::Sender<bool>,
}

/// What the requests of one tenant share. Nothing in it reaches the runs of another one.
pub(super) struct Tenant {
    /// The user of the server, in the name of the tenant.
    pub(super) setup: Arc<Setup>,
    /// Reads the tenant's runs of every process of the state directory, and sends them commands.
    pub(super) posse: Posse,
    /// The tenant's runs that this process executes.
    pub(super) host: RunHost,
}

impl Tenant {
    /// Opens the state directory of a user, and makes it if it does not exist.
    pub(super) fn local(setup: &Setup) -> Result<Self, OpenError> {
        Self::open(setup, TenantId::local(), RunHost::slots())
    }

    fn open(setup: &Setup, tenant: TenantId, slots: Arc<Semaphore>) -> Result<Self, OpenError> {
        let setup = setup.clone().with_tenant(tenant);
        let registry = models::usual(&setup)?;
        let posse = setup.open(registry, &Settings::own(&setup.environment)?)?;
        Ok(Self { setup: Arc::new(setup), posse, host: RunHost::new(slots) })
    }

    /// The facade that reads a run: the one that executes it here learns of an event first.
    pub(super) fn reader(&self, run: &RunId) -> Posse {
        self.host.executed(run).map_or_else(|| self.posse.clone(), |executed| executed.posse.clone())
    }
}

impl ServerState {
    /// A server with the local tenant.
    pub(super) fn new(local: Tenant, tokens: Tokens, audit: AuditLog, reached: ServerAddress) -> Self {
        Self {
            setup: Arc::clone(&local.setup),
            tokens,
            audit,
            reached,
            tenants: Mutex::new(HashMap::from([(TenantId::local(), Arc::new(local))])),
            keys: Keys::new(KEYS_MAX),
            token_limits: AllTokenLimits::default(),
            feeds: RunFeeds::default(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            exports: Arc::new(Semaphore::new(EXPORTS_MAX)),
            draining: watch::Sender::new(false),
        }
    }

    /// A tenant, which is opened with its first request.
    pub(super) fn tenant(&self, name: &TenantId) -> Result<Arc<Tenant>, Problem> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = tenants.get(name) {
            return Ok(Arc::clone(known));
        }
        if tenants.len() >= TENANTS_MAX {
            let detail = format!("this server has opened {TENANTS_MAX} tenants, which is the most");
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, ProblemCode::Busy, detail));
        }
        let slots = tenants.values().next().map_or_else(RunHost::slots, |any| any.host.shared_slots());
        let opened = Arc::new(Tenant::open(&self.setup, name.clone(), slots)?);
        tenants.insert(name.clone(), Arc::clone(&opened));
        Ok(opened)
    }

    /// All tenants that were opened.
    pub(super) fn opened_tenants(&self) -> Vec<Arc<Tenant>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The projects in which a caller may start runs: those that were added, and for the local tenant the server's own.
    pub(super) fn projects(&self, caller: &Caller) -> Vec<ServerProject> {
        let mut projects = Vec::new();
        if caller.tenant == TenantId::local() {
            projects.push(named(Project::current(&self.setup.environment).top()));
        }
        let stored = self.tokens.stored();
        let added = stored.projects.iter().filter(|project| project.tenant == caller.tenant.as_str());
        for project in added {
            let project = named(&project.dir);
            if projects.iter().all(|known: &ServerProject| known.dir != project.dir) {
                projects.push(project);
            }
        }
        if let Some(first) = projects.first_mut() {
            first.is_default = true;
        }
        projects
    }

    /// The right of a caller to one more stream.
    pub(super) fn stream_slot(&self, caller: &Caller) -> Result<StreamSlot, Problem> {
        let of_token = self.token_limits.of(&caller.name).stream()?;
        let of_all = slot(&self.streams, || format!("{STREAMS_MAX} streams are open, which is the most"))?;
        Ok(StreamSlot { _of_token: of_token, _of_all: of_all })
    }

    /// The right to one more export.
    pub(super) fn export_slot(&self) -> Result<OwnedSemaphorePermit, Problem> {
        slot(&self.exports, || format!("{EXPORTS_MAX} runs are being exported, which is the most"))
    }

    /// From now on, no request begins, and streams end.
    pub(super) fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// Becomes true when the server drains.
    pub(super) fn draining(&self) -> watch::Receiver<bool> {
        self.draining.subscribe()
    }

    pub(super) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }
}

fn slot(slots: &Arc<Semaphore>, full: impl Fn() -> String) -> Result<OwnedSemaphorePermit, Problem> {
    Arc::clone(slots)
        .try_acquire_owned()
        .map_err(|_| Problem::new(StatusCode::SERVICE_UNAVAILABLE, ProblemCode::Busy, full()))
}

fn named(dir: &Path) -> ServerProject {
    let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    ServerProject { dir: dir.display().to_string(), name, is_default: false }
}
