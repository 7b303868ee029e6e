//! The runs of a server, as if they were in a state directory of this machine.
//!
//! A store over the HTTP API stands behind the facade (`store`): front ends read and command these runs with the same
//! functions, so that what they show is the same. The rows of current state are made from the events here.
//!
//! What the API does not offer is an error: nothing is executed, removed or verified over it.

mod store;
mod work;

use std::fmt;
use std::sync::Arc;

use posse_egress::{Egress, Limits, Openings, Redirects, Reply, Request, Target};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{AgentId, DiffForm, DiffOptions, Error, Posse, RunId};
use store::RemoteStore;

/// The largest response that is read.
const RESPONSE_MAX_BYTES: usize = 256 * 1024 * 1024;

/// A server with the token of this client.
#[derive(Clone)]
pub struct ServerClient {
    base: Target,
    token: String,
    client: Egress,
}

impl fmt::Debug for ServerClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerClient").field("base", &self.base).finish_non_exhaustive()
    }
}

/// Why a server did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// The server was not reached, or did not answer as a server of Posse does.
    #[error("the server {server} cannot be used: {why}")]
    Unreachable {
        /// Its address.
        server: String,
        /// Why not.
        why: String,
    },
    /// The server refused the request.
    #[error("{detail}")]
    Refused {
        /// The status of its answer.
        status: u16,
        /// The stable code, such as `UNKNOWN_RUN`.
        code: String,
        /// The problem in words.
        detail: String,
        /// What can be done about it.
        remedy: Option<String>,
    },
}

impl ServerClient {
    /// A client for the address of a server; an error says what is wrong with the address.
    pub fn new(url: &str, token: &str) -> Result<Self, String> {
        let base = Target::parse(url).map_err(|problem| problem.to_string())?;
        Ok(Self { base, token: token.to_owned(), client: Egress::default() })
    }

    /// Reads an object.
    pub async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<T, ServerError> {
        let body = self.send(path, query, None).await?;
        self.read(&body)
    }

    /// Reads a text.
    pub async fn text(&self, path: &str, query: &[(&str, &str)]) -> Result<Vec<u8>, ServerError> {
        self.send(path, query, None).await
    }

    /// Sends a request that starts or decides something.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, ServerError> {
        let body = self.send(path, &[], Some(body.to_string())).await?;
        self.read(&body)
    }

    fn read<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, ServerError> {
        serde_json::from_slice(body)
            .map_err(|error| self.unreachable(format!("its answer is not of the API: {error}")))
    }

    fn unreachable(&self, why: String) -> ServerError {
        ServerError::Unreachable { server: self.base.with("", &[]).to_string(), why }
    }

    async fn send(
        &self,
        path: &str,
        query: &[(&str, &str)],
        post: Option<String>,
    ) -> Result<Vec<u8>, ServerError> {
        let request = Request {
            target: self.base.with(path, query),
            post,
            headers: vec![("authorization", format!("Bearer {}", self.token))],
            accept: "*/*",
            limits: Limits { body_max_bytes: RESPONSE_MAX_BYTES, ..Limits::default() },
            redirects: Redirects::HandBack,
        };
        // The user named exactly this server, which may be on their own machine.
        let named = self.base.clone();
        let openings =
            Openings::by(move |target| target.host() == named.host() && target.port() == named.port());
        match self.client.send(request, &openings).await {
            Ok(Reply::Answer(answer)) if (200..300).contains(&answer.status) => Ok(answer.body),
            Ok(Reply::Answer(answer)) => Err(self.refusal(answer.status, &answer.body)),
            Ok(Reply::Elsewhere { .. }) => {
                Err(self.unreachable("it redirects, which is not followed".to_owned()))
            }
            Err(error) => Err(self.unreachable(error.to_string())),
        }
    }

    /// The problem document of a response.
    fn refusal(&self, status: u16, body: &[u8]) -> ServerError {
        let Ok(Value::Object(problem)) = serde_json::from_slice(body) else {
            return self.unreachable(format!("it answered with status {status}"));
        };
        let text = |name: &str| problem.get(name).and_then(Value::as_str).map(str::to_owned);
        let field = text("field").map(|field| format!("{field}: ")).unwrap_or_default();
        ServerError::Refused {
            status,
            code: text("code").unwrap_or_default(),
            detail: format!("{field}{}", text("detail").unwrap_or_else(|| format!("status {status}"))),
            remedy: text("remedy"),
        }
    }
}

impl Posse {
    /// The runs of a server. They can be read and commanded; what the API does not offer is an error.
    pub fn on_server(client: ServerClient) -> Result<Self, Error> {
        let client = Arc::new(client);
        let store = Arc::new(RemoteStore::new(Arc::clone(&client)));
        let posse = Self::builder().store(store).open()?;
        Ok(Self { files: None, replays: None, server: Some(client), ..posse })
    }

    /// The changes of an agent on a server.
    pub(crate) async fn remote_diff(
        client: &ServerClient,
        agent: &AgentId,
        at: Option<u64>,
        options: DiffOptions,
    ) -> Result<Vec<u8>, Error> {
        let form = match options.form {
            DiffForm::Patch => "patch",
            DiffForm::Stat => "stat",
            DiffForm::NameStatus => "name_status",
        };
        let at = at.map(|at| at.to_string());
        let mut query = vec![("form", form)];
        query.extend(at.as_ref().map(|at| ("at", at.as_str())));
        Ok(client.text(&format!("/api/v1/runs/{}/agents/{agent}/diff", agent.run()), &query).await?)
    }

    /// The disk usage of a run on a server.
    pub(crate) async fn remote_disk_bytes(client: &ServerClient, run: &RunId) -> Result<Option<u64>, Error> {
        let shown: Value = client.get(&format!("/api/v1/runs/{run}"), &[]).await?;
        Ok(shown["disk_bytes"].as_u64())
    }
}
