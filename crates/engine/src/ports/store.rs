//! The journal's port.
//!
//! | operation | guarantee |
//! |---|---|
//! | [`Store::commit`] | all or nothing; conflict on a stale head, fenced on a stale epoch; gapless sequence per run; durable before it returns |
//! | [`Store::read`] | ordered; never an uncommitted event or a gap |
//! | [`Store::watch`] | a wake-up is a hint, the log is the truth |
//! | [`Store::claim`] / [`Store::heartbeat`] / [`Store::release`] | at most one live lease; strictly growing epoch; the store's clock |
//! | [`Store::post`] / [`Store::mail`] | a durable mailbox; each command taken once, in order, by the commit that acts on it |
//! | [`Store::remove`] | a whole run that has ended, or nothing; its id and the end of its journal stay known |
//! | [`Store::get_blob`] | by content hash; what a commit brought is there once it returned |

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use posse_domain::budget::Figures;
use posse_domain::event::{EncodedEvent, StoredEvent};
use posse_domain::hash::Hash;
use posse_domain::id::{AgentId, RunId};
use posse_domain::permission::Answer;
use posse_domain::text::Blob;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Most events one read gives.
pub const READ_MAX_EVENTS: u32 = 4_096;
/// Most commands that may wait in the mailbox of one run.
pub const MAILBOX_MAX: u32 = 1_024;

/// Whose data it is. `local` unless an embedder or the API says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TenantId(std::sync::Arc<str>);

impl TenantId {
    /// The tenant of a single user.
    pub fn local() -> Self {
        Self("local".into())
    }

    /// A tenant with this name.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A run of a tenant: the key of almost every operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RunKey {
    /// Whose it is.
    pub tenant: TenantId,
    /// Which run.
    pub run: RunId,
}

/// Where a run's journal ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The last event's number; 0 before the first.
    pub seq: u64,
    /// The last event's hash; [`Hash::ZERO`] before the first.
    pub hash: Hash,
}

/// The right to write to a run. Grows with every new owner.
pub type Epoch = u64;

/// What one commit relies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The run does not exist: create it, owned by this process with epoch 1.
    New,
    /// This process owns the run and knows its journal up to `head`.
    Owned {
        /// The number of the last event that the caller knows, or has already handed to an earlier commit.
        head: u64,
        /// The caller's epoch.
        epoch: Epoch,
    },
}

/// Events that belong together, with everything that must be true at the same moment.
#[derive(Debug, Clone)]
pub struct Commit {
    /// The run.
    pub key: RunKey,
    /// What it relies on.
    pub basis: Basis,
    /// The events, in order.
    pub events: Vec<EncodedEvent>,
    /// Long texts that the events name.
    pub blobs: Vec<Blob>,
    /// Current state of the agents that the events changed; also inserts new ones.
    pub agents: Vec<AgentRow>,
    /// Current state of the run, if the events changed it. Always there with [`Basis::New`].
    pub run: Option<RunRow>,
    /// Mailbox commands up to this number are taken by this commit.
    pub mail_taken: Option<u64>,
}

/// What a commit came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitReceipt {
    /// The journal's new end.
    pub head: Head,
    /// The owner's epoch.
    pub epoch: Epoch,
}

/// The row of a run in the table of current state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    /// `running`, `completed`, `failed` or `cancelled`.
    pub status: String,
    /// The request's first line.
    pub title: String,
    /// The root's definition.
    pub definition: String,
    /// The root's model.
    pub model: String,
    /// The working directory.
    pub dir: String,
    /// The embedder's session, opaque.
    pub session_id: Option<String>,
    /// When it started, milliseconds since 1970.
    pub created_at_ms: i64,
    /// When it ended.
    pub ended_at_ms: Option<i64>,
}

/// A run as a list shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEntry {
    /// The run.
    pub run: RunId,
    /// Its row.
    pub row: RunRow,
    /// How many agents it has.
    pub agents: u64,
    /// Its journal's end.
    pub head: Head,
    /// Who owns it, if somebody alive does.
    pub holder: Option<Holder>,
    /// Why its head cannot be relied on: it is missing, or not where its journal ends.
    pub damage: Option<String>,
}

/// What the agents of one run spent.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSpending {
    /// The run.
    pub run: RunId,
    /// The root's model.
    pub model: String,
    /// When it was created.
    pub created_at_ms: i64,
    /// What its agents spent, by their model, in the order of the names.
    pub by_model: BTreeMap<String, ModelSpending>,
}

/// What the agents of one model spent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ModelSpending {
    /// How many there are.
    pub agents: u64,
    /// What they spent themselves.
    pub figures: Figures,
}

/// A run that was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedRun {
    /// The run.
    pub run: RunId,
    /// Where its journal ended: a copy kept elsewhere can be compared with it.
    pub head: Head,
}

/// What never changes about an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentTerms {
    /// The parent; none for the root.
    pub parent: Option<AgentId>,
    /// The parent's reply that asked for it.
    pub parent_message_id: Option<String>,
    /// Its depth.
    pub depth: u32,
    /// Its definition.
    pub definition: String,
    /// The contract's JSON (`context_json`).
    pub contract_json: String,
    /// The layers that decide what it may do (`effective_permissions_json`).
    pub permissions_json: String,
    /// When it was created.
    pub created_at_ms: i64,
}

/// The row of an agent in the table of current state. Everything in it can be rebuilt from the events.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentRow {
    /// The agent.
    pub id: AgentId,
    /// Given when the row is new; none leaves what is there.
    pub terms: Option<AgentTerms>,
    /// Lifecycle state.
    pub state: String,
    /// `completed` or `failed` once it is known.
    pub final_status: Option<String>,
    /// Why it closed.
    pub close_reason: Option<String>,
    /// The report.
    pub result: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
    /// Own figures as JSON.
    pub usage_json: String,
    /// Figures of its subtree as JSON.
    pub subtree_usage_json: String,
    /// When it closed.
    pub completed_at_ms: Option<i64>,
}

/// Who owns a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Random name of the owning process.
    pub owner: String,
    /// Its process id, for people.
    pub pid: u32,
    /// Its epoch.
    pub epoch: Epoch,
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// This process owns the run from now on, with this epoch.
    Granted(Epoch),
    /// Somebody alive owns it.
    Held(Holder),
}

/// A command for a run that another process may own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "command", deny_unknown_fields)]
pub enum MailCommand {
    /// End an agent and all below it.
    Cancel {
        /// Which; the root ends the run.
        agent: AgentId,
        /// Why.
        reason: String,
        /// At once, without grace.
        kill: bool,
    },
    /// A person's answer to a question about one call.
    Answer {
        /// Whose call.
        agent: AgentId,
        /// Which.
        call_id: String,
        /// What it would do: the hash of the question.
        approval: Hash,
        /// The answer.
        answer: Answer,
    },
    /// A message for an agent.
    Send {
        /// Whom.
        agent: AgentId,
        /// What.
        text: String,
    },
}

impl MailCommand {
    /// Whom it is for.
    pub fn agent(&self) -> &AgentId {
        match self {
            Self::Cancel { agent, .. } | Self::Answer { agent, .. } | Self::Send { agent, .. } => agent,
        }
    }
}

/// A command in a mailbox.
#[derive(Debug, Clone, PartialEq)]
pub struct Mail {
    /// Its number; grows.
    pub id: u64,
    /// The command.
    pub command: MailCommand,
}

/// A hint that a run changed. Both numbers only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pulse {
    /// The last event known to be durable.
    pub head: u64,
    /// Counts commands posted (or suspected, when another process changed something).
    pub posts: u64,
}

/// What a look at the whole store found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// What is wrong; empty if nothing was found.
    pub problems: Vec<String>,
}

/// Why the store did not do it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The caller did not know the journal's end.
    #[error("the journal of run {run} ends at {actual}, not at {expected}")]
    Conflict {
        /// The run.
        run: RunId,
        /// Where the caller thought it ends.
        expected: u64,
        /// Where it ends.
        actual: u64,
    },
    /// Somebody else owns the run by now.
    #[error("run {run} is owned by somebody else since epoch {actual}; this process had {held}")]
    Fenced {
        /// The run.
        run: RunId,
        /// The caller's epoch.
        held: Epoch,
        /// The epoch in force.
        actual: Epoch,
    },
    /// No such run.
    #[error("there is no run {0}")]
    UnknownRun(RunId),
    /// The run has not ended, or somebody alive owns it.
    #[error("run {0} is open")]
    Open(RunId),
    /// The run exists already.
    #[error("run {0} exists already")]
    Exists(RunId),
    /// The mailbox is full.
    #[error("the mailbox of run {0} is full ({MAILBOX_MAX} commands wait)")]
    MailboxFull(RunId),
    /// No such blob.
    #[error("blob {0} is missing")]
    UnknownBlob(Hash),
    /// No room on the disk; nothing was written.
    #[error("no space left on the disk that holds {0}")]
    Full(String),
    /// Not writable.
    #[error("{0} cannot be written")]
    ReadOnly(String),
    /// Damaged.
    #[error("{path} is damaged: {problem}")]
    Corrupt {
        /// The file.
        path: String,
        /// What was found.
        problem: String,
    },
    /// A row of one run, or an event of it, is not what was written.
    #[error("run {run} is damaged: {problem}")]
    Damaged {
        /// The run.
        run: RunId,
        /// What was found.
        problem: String,
    },
    /// Written by a newer Posse.
    #[error("{path} was written by a newer Posse (format {found}, this one knows {known})")]
    Newer {
        /// The file.
        path: String,
        /// The format found.
        found: u32,
        /// The newest this Posse knows.
        known: u32,
    },
    /// On a filesystem whose locks cannot be trusted.
    #[error("{path} is on a network filesystem ({kind}); set POSSE_HOME to a local directory")]
    NetworkFilesystem {
        /// The directory.
        path: String,
        /// The filesystem's name.
        kind: String,
    },
    /// Anything else; the text says what.
    #[error("{0}")]
    Failed(String),
}

/// The journal and the tables of current state beside it.
///
/// A store serves one process; several processes may share the data beneath it.
pub trait Store: Send + Sync + 'static {
    /// Writes `commit` durably. Several commits of one run may be under way at once: they are carried out in the
    /// order of the calls, and if one fails those after it fail too (their head is stale).
    fn commit(&self, commit: Commit) -> BoxFuture<'static, Result<CommitReceipt, StoreError>>;

    /// Events after `after`, at most `limit` (and never more than [`READ_MAX_EVENTS`]).
    fn read(
        &self,
        key: &RunKey,
        after: u64,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<StoredEvent>, StoreError>>;

    /// The journal's end.
    fn head(&self, key: &RunKey) -> BoxFuture<'static, Result<Head, StoreError>>;

    /// Hints about one run, from this process at once and from others within 100 ms.
    fn watch(&self, key: &RunKey) -> tokio::sync::watch::Receiver<Pulse>;

    /// Takes ownership of a run: at once if nobody alive owns it, after its lease if the owner is silent.
    fn claim(&self, key: &RunKey) -> BoxFuture<'static, Result<Claim, StoreError>>;

    /// Renews a lease; [`StoreError::Fenced`] if it was lost.
    fn heartbeat(&self, key: &RunKey, epoch: Epoch) -> BoxFuture<'static, Result<(), StoreError>>;

    /// Gives a run up. Does nothing if it was lost already.
    fn release(&self, key: &RunKey, epoch: Epoch) -> BoxFuture<'static, Result<(), StoreError>>;

    /// Puts a command in a run's mailbox and gives its number.
    fn post(&self, key: &RunKey, command: MailCommand) -> BoxFuture<'static, Result<u64, StoreError>>;

    /// The commands that no commit has taken yet, in order.
    fn mail(&self, key: &RunKey) -> BoxFuture<'static, Result<Vec<Mail>, StoreError>>;

    /// A blob's content.
    fn get_blob(&self, tenant: &TenantId, hash: &Hash) -> BoxFuture<'static, Result<Vec<u8>, StoreError>>;

    /// The newest runs whose id starts with `prefix`, newest first.
    fn runs(
        &self,
        tenant: &TenantId,
        prefix: &str,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<RunEntry>, StoreError>>;

    /// The agents of a run in the order of their creation. `terms` is always there.
    fn agents(&self, key: &RunKey) -> BoxFuture<'static, Result<Vec<AgentRow>, StoreError>>;

    /// What the agents of the newest runs spent, newest first: at most `limit` runs, and one question for all of them.
    fn spending(
        &self,
        tenant: &TenantId,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<RunSpending>, StoreError>>;

    /// Removes a run that has ended and that nobody alive owns: its events, its rows, its mail. Its id and where its
    /// journal ended stay known. Blobs stay too: other runs may name the same content.
    fn remove(&self, key: &RunKey) -> BoxFuture<'static, Result<Head, StoreError>>;

    /// Runs that were removed and whose id starts with `prefix`, the last removed first.
    fn removed(
        &self,
        tenant: &TenantId,
        prefix: &str,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<RemovedRun>, StoreError>>;

    /// Looks for damage in the rows of one run that its events say nothing about: its lease, its mail, and whose they are.
    fn check_run(&self, key: &RunKey) -> BoxFuture<'static, Result<Health, StoreError>>;

    /// Looks for damage that no single read would show.
    fn check(&self) -> BoxFuture<'static, Result<Health, StoreError>>;
}
