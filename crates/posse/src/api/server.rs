//! API types about a server and its clients.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a token of a server may do.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
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
