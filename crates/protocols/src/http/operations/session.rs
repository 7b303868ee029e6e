//! Operations about the server and who uses it.

use posse::api;

use super::super::problem::Problem;
use super::super::reply::Reply;
use super::Call;

/// Says whose token the request has, and what the server knows.
pub(super) async fn session(call: Call) -> Result<Reply, Problem> {
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
