//! Operations about the server and who uses it.

use axum::http::StatusCode;
use posse::api;
use posse_setup::project_runs::Project;
use posse_setup::server::ServerAccess;

use super::super::hosting::blocking;
use super::super::limits::AUDIT_PAGE;
use super::super::problem::{Problem, ProblemCode};
use super::super::reply::Reply;
use super::super::requests::{self, AddProject};
use super::Call;

/// Says whose token the request has, and what the server knows.
pub(super) fn session(call: &Call) -> Result<Reply, Problem> {
    let caller = &call.caller;
    Reply::object(&api::ServerSession {
        token: caller.name.clone(),
        tenant: caller.tenant.as_str().to_owned(),
        rights: caller.rights.clone(),
        expires_at: caller.expires_at_ms.map(api::timestamp),
        server_version: env!("CARGO_PKG_VERSION").to_owned(),
        projects: call.state.projects(caller),
    })
}

/// Lists the projects in which the caller may start runs.
pub(super) fn projects(call: &Call) -> Result<Reply, Problem> {
    Reply::object(&api::ServerProjectList { projects: call.state.projects(&call.caller) })
}

/// Lets the clients of a tenant start runs in a project.
pub(super) async fn add_project(call: Call) -> Result<Reply, Problem> {
    let request: AddProject = requests::read(&call.body)?;
    if !call.caller.is_operator() {
        let detail = "only the operator of the server, an admin of the tenant `local`, adds projects";
        return Err(Problem::new(StatusCode::FORBIDDEN, ProblemCode::RightMissing, detail));
    }
    let tenant = request.tenant.unwrap_or_else(|| call.caller.tenant.as_str().to_owned());
    let setup = call.tenant.setup.clone();
    blocking(move || {
        let environment = &setup.environment;
        let dir = posse_setup::working_dir::working_dir(Some(request.dir), &environment.cwd)?;
        let project = Project::of(dir.as_ref(), environment);
        ServerAccess::add_project(setup.state_dir()?, &tenant, project.top())
    })
    .await??;
    let projects = call.state.projects(&call.caller);
    Reply::with_status(StatusCode::CREATED, &api::ServerProjectList { projects })
}

/// Shows the newest entries of the audit log: those of the caller's tenant, or all of them to the operator.
pub(super) async fn audit(call: Call) -> Result<Reply, Problem> {
    let limit = usize::try_from(call.query.number("limit").unwrap_or(AUDIT_PAGE)).unwrap_or(usize::MAX);
    let tenant = (!call.caller.is_operator()).then(|| call.caller.tenant.as_str().to_owned());
    let entries = blocking(move || call.state.audit.newest(tenant.as_deref(), limit)).await??;
    let entries = entries.into_iter().map(|entry| api::AuditEntry {
        id: entry.id,
        at: api::timestamp(entry.at_ms),
        token: entry.token,
        tenant: entry.tenant,
        operation: entry.operation,
        run: entry.run,
        detail: entry.detail,
        outcome: entry.outcome,
    });
    Reply::object(&api::AuditPage { entries: entries.collect() })
}
