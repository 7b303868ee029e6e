//! Operations: each has its path, its parameters, its body, its answer, the right that it needs and the function that
//! executes it. `table` lists them; the router, the checks and the OpenAPI document follow from it.

mod commands;
mod events;
mod machine;
mod reading;
mod runs;
mod session;
mod starting;
mod table;
mod work;

use std::path::Path;
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use futures::future::BoxFuture;
use posse::api::TokenRight;
use posse::{AgentId, RunId, RunSummary};
use schemars::{Schema, SchemaGenerator};

use super::callers::Caller;
use super::idempotency::RequestKey;
use super::problem::{Problem, ProblemCode};
use super::query::{Parameter, Query};
use super::reply::Reply;
use super::state::{ServerState, Tenant};
pub(super) use table::OPERATIONS;

/// What an operation does, by the method of its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// It reads: GET.
    Reads,
    /// It starts or decides something: POST.
    Acts,
}

/// What an operation answers if it succeeds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answers {
    /// An object of `posse::api` with this name and this status.
    Object(&'static str, u16),
    /// A text.
    Text,
    /// Server-sent events, each with such an object.
    Stream(&'static str),
    /// The bundle of a run.
    Bundle,
}

/// A request that passed all checks but those of the operation itself.
pub(super) struct Call {
    pub(super) state: Arc<ServerState>,
    pub(super) caller: Caller,
    pub(super) tenant: Arc<Tenant>,
    pub(super) path: Vec<(String, String)>,
    pub(super) query: Query,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) key: Option<RequestKey>,
}

/// Executes an operation.
type Handler = fn(Call) -> BoxFuture<'static, Result<Reply, Problem>>;

/// One operation of the API.
#[derive(Clone, Copy)]
pub(super) struct Operation {
    pub(super) effect: Effect,
    pub(super) path: &'static str,
    /// Its name in the OpenAPI document, which generated clients use.
    pub(super) name: &'static str,
    pub(super) meaning: &'static str,
    /// What its callers must be allowed to do.
    pub(super) right: TokenRight,
    pub(super) query: &'static [Parameter],
    /// The schema of its body, if it has one.
    pub(super) body: Option<fn(&mut SchemaGenerator) -> Schema>,
    pub(super) answers: Answers,
    pub(super) handler: Handler,
}

impl Call {
    /// A part of the path.
    fn part(&self, name: &str) -> &str {
        self.path.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// The run in the path, as an id.
    fn run_id(&self) -> Result<RunId, Problem> {
        let text = self.part("run");
        text.parse().map_err(|_| {
            let detail = format!("there is no run `{}`", posse::printable::visible_line(text));
            Problem::new(StatusCode::NOT_FOUND, ProblemCode::UnknownRun, detail)
        })
    }

    /// The run in the path.
    async fn run(&self) -> Result<RunSummary, Problem> {
        match self.tenant.posse.summary(&self.run_id()?).await {
            // The error of a removed run says so.
            Err(posse::Error::NoRun(run)) => Err(match self.tenant.posse.find(&run).await {
                Err(error) => error.into(),
                Ok(_) => posse::Error::NoRun(run).into(),
            }),
            found => Ok(found?),
        }
    }

    /// The agent in the path, by its id or relative to the run.
    fn agent(&self, run: &RunId) -> Result<AgentId, Problem> {
        agent_of(run, self.part("agent"))
    }

    /// The directory that a request is about.
    fn dir(&self) -> Result<String, Problem> {
        self.dir_of(self.query.one("dir").map(Path::new))
    }

    /// A directory that a request names, or the caller's first project.
    fn dir_of(&self, dir: Option<&Path>) -> Result<String, Problem> {
        let dir = match dir {
            Some(dir) => Some(dir.to_owned()),
            None if self.caller.is_operator() => None,
            None => {
                let first = self.state.projects(&self.caller).into_iter().next();
                Some(first.ok_or_else(|| self.dir_refused())?.dir.into())
            }
        };
        if let Some(dir) = &dir {
            self.check_dir(dir)?;
        }
        Ok(posse_setup::working_dir::working_dir(dir, &self.tenant.setup.environment.cwd)?)
    }

    /// Refuses a directory outside of the projects that the caller may use. Whether it exists makes no difference.
    fn check_dir(&self, dir: &Path) -> Result<(), Problem> {
        if self.caller.is_operator() {
            return Ok(());
        }
        let dir = self.tenant.setup.environment.cwd.join(dir);
        let dir = dir.canonicalize().map_err(|_| self.dir_refused())?;
        let projects = self.state.projects(&self.caller);
        if projects.iter().any(|project| dir.starts_with(&project.dir)) {
            return Ok(());
        }
        Err(self.dir_refused())
    }

    fn dir_refused(&self) -> Problem {
        let names: Vec<String> =
            self.state.projects(&self.caller).into_iter().map(|project| project.dir).collect();
        let detail = "the token may not use this directory, or it does not exist";
        let problem = Problem::new(StatusCode::FORBIDDEN, ProblemCode::DirRefused, detail).field("dir");
        problem.remedy(if names.is_empty() {
            "no project was added for the tenant of the token; its operator adds one".to_owned()
        } else {
            format!("name a directory of {}", names.join(", "))
        })
    }
}

/// An agent of a run, by its id or relative to the run.
fn agent_of(run: &RunId, text: &str) -> Result<AgentId, Problem> {
    AgentId::from_relative(run, text).map_err(|_| {
        let detail = format!("run {run} has no agent `{}`", posse::printable::visible_line(text));
        Problem::new(StatusCode::NOT_FOUND, ProblemCode::UnknownAgent, detail)
    })
}
