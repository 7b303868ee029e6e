//! API types about a server and its clients.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Event;

/// What a token of a server may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenRight {
    /// Read runs, definitions, settings and the machine.
    Read,
    /// Start runs, send messages to agents, cancel and resume, apply and export results.
    Run,
    /// Answer the questions of agents.
    Answer,
    /// Add projects, trust files, and read the audit log.
    Admin,
}

impl TokenRight {
    /// All rights.
    pub const ALL: [Self; 4] = [Self::Read, Self::Run, Self::Answer, Self::Admin];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Run => "run",
            Self::Answer => "answer",
            Self::Admin => "admin",
        }
    }
}

/// A directory in which clients of a server start runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerProject {
    /// Its whole path on the server's machine.
    pub dir: String,
    /// The last part of the path.
    pub name: String,
    /// Whether a run without a directory starts there.
    pub is_default: bool,
}

/// Whose token a client sends, and what the server knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerSession {
    /// The name of the token.
    pub token: String,
    /// The tenant whose runs the client sees.
    pub tenant: String,
    /// What the client may do.
    pub rights: Vec<TokenRight>,
    /// When the token expires; null if it does not.
    pub expires_at: Option<String>,
    /// The version of the server.
    pub server_version: String,
    /// The projects in which the client may start runs.
    pub projects: Vec<ServerProject>,
}

/// The projects in which a client may start runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerProjectList {
    /// The projects.
    pub projects: Vec<ServerProject>,
}

/// An entry of the log of what the clients of a server decided. Each decision has one before it takes effect, and one with
/// its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntry {
    /// The number of the decision, which both of its entries have.
    pub id: String,
    /// When.
    pub at: String,
    /// The name of the token.
    pub token: String,
    /// The tenant of the token.
    pub tenant: String,
    /// The operation, such as `answerQuestion`.
    pub operation: String,
    /// The run that it is about; null if it is about none.
    pub run: Option<String>,
    /// What was decided, such as `decision=deny`.
    pub detail: String,
    /// What became of it: the status of the response, and the code of a problem; null before it took effect.
    pub outcome: Option<String>,
}

/// The newest entries of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditPage {
    /// The entries, newest first.
    pub entries: Vec<AuditEntry>,
}

/// A token of a server, of which only the hash is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenEntry {
    /// Its name.
    pub name: String,
    /// The tenant whose runs its clients see.
    pub tenant: String,
    /// What its clients may do.
    pub rights: Vec<TokenRight>,
    /// When it was made.
    pub created_at: String,
    /// When it expires; null if it does not.
    pub expires_at: Option<String>,
}

/// The tokens of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenList {
    /// The tokens, oldest first.
    pub tokens: Vec<TokenEntry>,
}

/// A message to a webhook.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct WebhookMessage {
    /// The id of the message. One that is sent again has the same.
    pub id: String,
    /// `run.ended` or `question.asked`.
    pub r#type: String,
    /// The run's id.
    pub run: String,
    /// The event of the journal.
    pub event: Event<'static>,
}
