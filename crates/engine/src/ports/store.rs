//! The port to the journal: the engine commits events through it, and front ends read runs from it.
//!
//! | operation | guarantee |
//! |---|---|
//! | [`Store::commit`] | all or nothing; conflict on a stale head, fenced on a stale epoch; gapless sequence per run; durable before it returns |
//! | [`Store::read`] | ordered; never an uncommitted event or a gap |
//! | [`Store::watch`] | a wake-up is a hint, the journal is authoritative |
//! | [`Store::claim`] / [`Store::heartbeat`] / [`Store::release`] | at most one live lease; strictly growing epoch; the store's clock |
//! | [`Store::claimable`] | every open run without a live lease, oldest first; a hint, only a claim decides |
//! | [`Store::post`] / [`Store::mail`] | a durable mailbox; each command taken once, in order, by the commit that acts on it |
//! | [`Store::remove`] | a whole run that has ended, or nothing; its id and the end of its journal stay known |
//! | [`Store::get_blob`] | by content hash; a commit's blobs can be read once it returned |
//!
//! Optional features of a store are in its [`Capabilities`].

use std::collections::BTreeMap;
use std::fmt;

use futures::future::BoxFuture;
use posse_domain::budget::Figures;
use posse_domain::event::{EncodedEvent, FinalStatus, StoredEvent};
use posse_domain::hash::Hash;
use posse_domain::id::{AgentId, RunId};
use posse_domain::lifecycle::{AgentState, CloseReason, FailureReason, RunStatus};
use posse_domain::permission::Answer;
use posse_domain::text::Blob;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Limit of events per read.
pub const READ_MAX_EVENTS: u32 = 4_096;
/// Limit of waiting commands in the mailbox of one run.
pub const MAILBOX_MAX: u32 = 1_024;

/// A namespace of runs: `local` unless an embedder or the API sets another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TenantId(std::sync::Arc<str>);

impl TenantId {
    /// The tenant of a single user.
    pub fn local() -> Self {
        Self("local".into())
    }

    /// The tenant of this name. A tenant need not be created.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The name, as stored in every row.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A run of a tenant: the key of almost every operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RunKey {
    /// The namespace of the run.
    pub tenant: TenantId,
    /// Unique within its tenant.
    pub run: RunId,
}

/// The end of a run's journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The last event's number. 0 before the first.
    pub seq: u64,
    /// The last event's hash. [`Hash::ZERO`] before the first.
    pub hash: Hash,
}

/// The number of a lease. It grows with every granted claim, and a write with an older epoch is refused.
pub type Epoch = u64;

/// The precondition of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The run does not exist: create it, with a lease of epoch 1 for this process.
    New,
    /// This process holds the lease of the run and knows its journal up to `head`.
    Held {
        /// The number of the last event that the caller knows or has already handed to an earlier commit.
        head: u64,
        /// The epoch of that lease.
        epoch: Epoch,
    },
}

/// Events that belong together, with the rows that must change in the same transaction.
#[derive(Debug, Clone)]
pub struct Commit {
    /// The run to write to.
    pub key: RunKey,
    /// The precondition. If it does not hold, the commit is refused.
    pub basis: Basis,
    /// The new events, in order.
    pub events: Vec<EncodedEvent>,
    /// Long texts that the events refer to.
    pub blobs: Vec<Blob>,
    /// Current state of the agents that the events changed. Also inserts new agents.
    pub agents: Vec<AgentRow>,
    /// Current state of the run, if the events changed it. Always set with [`Basis::New`].
    pub run: Option<RunRow>,
    /// Mailbox commands up to this number are taken by this commit.
    pub mail_taken: Option<u64>,
}

/// The confirmation of a durable commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitReceipt {
    /// The journal's new end.
    pub head: Head,
    /// The epoch of this process's lease.
    pub epoch: Epoch,
}

/// The row of a run in the table of current state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    /// Whether the run has ended, and how.
    pub status: RunStatus,
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
    /// When the run started, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// When the run ended, in milliseconds since 1970.
    pub ended_at_ms: Option<i64>,
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEntry {
    /// The id within the tenant of the query.
    pub run: RunId,
    /// The current state.
    pub row: RunRow,
    /// The number of agents of the run.
    pub agents: u64,
    /// The end of the run's journal.
    pub head: Head,
    /// The process that executes the run, while its lease is live.
    pub holder: Option<Holder>,
    /// When the last lease holder renewed its lease, in milliseconds since 1970, if the lease is neither live nor released.
    /// None if that is unknown, as after a restart of the machine. For display only.
    pub alive_at_ms: Option<i64>,
    /// Why the row or the head is not reliable: the stored status is unknown (`row` then has `failed`), or the head is
    /// missing or not at the end of the journal. One damaged run must not prevent the list of the others.
    pub damage: Option<String>,
}

/// The spending of the agents of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSpending {
    /// The run of these agents.
    pub run: RunId,
    /// The root's model.
    pub model: String,
    /// When the run was created, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// The agents' spending by model, sorted by name.
    pub by_model: BTreeMap<String, ModelSpending>,
}

/// The spending of the agents of one model.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ModelSpending {
    /// The number of agents that use the model.
    pub agents: u64,
    /// The spending of these agents, without their children.
    pub figures: Figures,
}

/// A run that was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedRun {
    /// The former id, which is not used again.
    pub run: RunId,
    /// The end of its journal, for comparison with a copy that is kept elsewhere.
    pub head: Head,
}

/// The columns of an agent that never change.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentTerms {
    /// The parent. `None` for the root.
    pub parent: Option<AgentId>,
    /// The parent's reply that requested the agent.
    pub parent_message_id: Option<String>,
    /// 0 for the root.
    pub depth: u32,
    /// The name of the definition.
    pub definition: String,
    /// The contract's JSON (`context_json`).
    pub contract_json: String,
    /// The permission layers of the agent (`effective_permissions_json`).
    pub permissions_json: String,
    /// When the agent was created, in milliseconds since 1970.
    pub created_at_ms: i64,
}

/// The row of an agent in the table of current state. It can be rebuilt from the events.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentRow {
    /// The primary key of the row.
    pub id: AgentId,
    /// Set for a new row. `None` keeps the stored terms.
    pub terms: Option<AgentTerms>,
    /// Lifecycle state.
    pub state: AgentState,
    /// Whether the agent completed or failed. Set when that is known.
    pub final_status: Option<FinalStatus>,
    /// Why the agent closed. Set when it has.
    pub close_reason: Option<CloseReason>,
    /// The report, if the agent wrote one.
    pub result: Option<String>,
    /// Why the agent failed, if it did.
    pub error: Option<FailureReason>,
    /// The agent's own figures as JSON.
    pub usage_json: String,
    /// The figures of its subtree as JSON.
    pub subtree_usage_json: String,
    /// When the agent closed, in milliseconds since 1970.
    pub completed_at_ms: Option<i64>,
    /// The numbers of the events that describe what the agent waits for outside of the run, and for the root also the run's
    /// plan (`Run::events_in_force`), in ascending order. A reader of current state folds them instead of the journal. None in
    /// a row that an older version wrote.
    pub events_in_force: Option<Vec<u64>>,
}

/// The process that executes a run: the lease holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Unique among all processes that ever held a lease of this store, on any machine. Opaque.
    pub id: String,
    /// A name by which a user recognises the process, such as `build-7:4711`. The embedder sets it. No decision depends
    /// on it.
    pub label: String,
    /// The process id, if the process runs on this machine.
    pub pid: Option<u32>,
    /// The epoch of its lease.
    pub epoch: Epoch,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}"),
            None => write!(f, "process {}", self.label),
        }
    }
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// This process holds the lease of the run from now on, with this epoch.
    Granted(Epoch),
    /// The lease of another process, or an earlier lease of this process, is live.
    Held(Holder),
}

/// Optional features of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether the death of a lease holder frees its runs at once. Otherwise they are free when its lease has expired.
    pub notices_death: bool,
}

/// A command for the lease holder of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "command", deny_unknown_fields)]
pub enum MailCommand {
    /// End an agent and its subtree.
    Cancel {
        /// The agent to end. Ending the root ends the run.
        agent: AgentId,
        /// The reason that the user gave.
        reason: String,
        /// Whether to end it at once, without grace.
        kill: bool,
    },
    /// A user's answer to a question about one call.
    Answer {
        /// The agent whose call waits.
        agent: AgentId,
        /// The id of the call within its agent.
        call_id: String,
        /// The hash of the question. An answer to another question is not used.
        approval: Hash,
        /// What the user decided.
        answer: Answer,
    },
    /// A message for an agent.
    Send {
        /// The recipient.
        agent: AgentId,
        /// The text, which the agent's model receives without changes.
        text: String,
    },
}

impl MailCommand {
    /// The agent that the command is for.
    pub fn agent(&self) -> &AgentId {
        match self {
            Self::Cancel { agent, .. } | Self::Answer { agent, .. } | Self::Send { agent, .. } => agent,
        }
    }
}

/// A command in a mailbox.
#[derive(Debug, Clone, PartialEq)]
pub struct Mail {
    /// The number of the command. It grows with each command of the run.
    pub id: u64,
    /// The operation for the lease holder.
    pub command: MailCommand,
}

/// A hint that a run changed. Both numbers only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pulse {
    /// The number of the last event that is known to be durable.
    pub head: u64,
    /// The number of commands that were ever put into the mailbox.
    pub messages: u64,
}

/// The result of a check for damage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// The damage that was found. Empty if there is none.
    pub problems: Vec<String>,
}

/// A part of a store, in terms that every store has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StorePart {
    /// The store as a whole, or its location.
    Store,
    /// The journal and the tables of current state.
    Journal,
    /// The long texts and files that events name by their hash.
    Blobs,
    /// The locks that order writers and show which lease holders live.
    Locks,
}

impl fmt::Display for StorePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Store => "the store",
            Self::Journal => "the journal",
            Self::Blobs => "the storage of blobs",
            Self::Locks => "the lock of the store",
        })
    }
}

/// Why an operation of the store failed. An error names no file and no address, because front ends show it on other
/// machines too. A store logs them, and a front end on the same machine may add them.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The journal does not end where the caller expected.
    #[error("the journal of run {run} ends at {actual}, not at {expected}")]
    Conflict {
        /// The run of the commit.
        run: RunId,
        /// The number of the last event that the caller knew.
        expected: u64,
        /// The number of the last event in the journal.
        actual: u64,
    },
    /// The caller lost its lease: another claim was granted meanwhile, or the lease was released.
    #[error(
        "this process does not hold the lease of run {run}: its epoch is {held}, the epoch in force is {actual}"
    )]
    Fenced {
        /// The run that the caller wanted to write to.
        run: RunId,
        /// The epoch of the caller's lease.
        held: Epoch,
        /// The current epoch.
        actual: Epoch,
    },
    /// The tenant has no run with this id.
    #[error("there is no run {0}")]
    UnknownRun(RunId),
    /// The run has not ended, or its lease is live.
    #[error("run {0} is open")]
    Open(RunId),
    /// The id of a new run is already in use.
    #[error("run {0} exists already")]
    Exists(RunId),
    /// The mailbox is full. The command was not added.
    #[error("the mailbox of run {0} is full ({MAILBOX_MAX} commands wait)")]
    MailboxFull(RunId),
    /// The tenant has no blob with this hash.
    #[error("blob {0} is missing")]
    UnknownBlob(Hash),
    /// No space is left. Nothing was written.
    #[error("no space left for {part}")]
    Full {
        /// The part without space.
        part: StorePart,
    },
    /// The store, or its underlying storage, does not accept writes.
    #[error("{part} cannot be written")]
    ReadOnly {
        /// The part that cannot be written.
        part: StorePart,
    },
    /// The store as a whole is damaged, or a part of it that belongs to no single run.
    #[error("{part} is damaged: {problem}")]
    Corrupt {
        /// The damaged part.
        part: StorePart,
        /// A description of the damage.
        problem: String,
    },
    /// A row or an event of one run differs from what was written.
    #[error("run {run} is damaged: {problem}")]
    Damaged {
        /// The damaged run. Other runs are reliable.
        run: RunId,
        /// A description of the damage.
        problem: String,
    },
    /// The data has a format that only a newer version of Posse can read.
    #[error("{part} was written by a newer Posse (format {found}, this one knows {known})")]
    Newer {
        /// The part with the newer format.
        part: StorePart,
        /// The format of the data.
        found: u32,
        /// The newest format that this version can read.
        known: u32,
    },
    /// The location cannot satisfy the store's guarantees, such as a network file system.
    #[error("{part} cannot be in its location: {problem}")]
    Unsuitable {
        /// The part with the unsuitable location.
        part: StorePart,
        /// Why the location is unsuitable.
        problem: String,
    },
    /// Any other failure of the storage beneath a part.
    #[error("{part} cannot be used: {problem}")]
    Unusable {
        /// The part that cannot be used.
        part: StorePart,
        /// What the storage reported.
        problem: String,
    },
    /// Any other failure.
    #[error("{0}")]
    Failed(String),
}

impl StoreError {
    /// The part of the store that the error is about, if it is about one.
    pub fn part(&self) -> Option<StorePart> {
        match self {
            StoreError::Full { part }
            | StoreError::ReadOnly { part }
            | StoreError::Corrupt { part, .. }
            | StoreError::Newer { part, .. }
            | StoreError::Unsuitable { part, .. }
            | StoreError::Unusable { part, .. } => Some(*part),
            StoreError::Conflict { .. }
            | StoreError::Fenced { .. }
            | StoreError::UnknownRun(_)
            | StoreError::Open(_)
            | StoreError::Exists(_)
            | StoreError::MailboxFull(_)
            | StoreError::UnknownBlob(_)
            | StoreError::Damaged { .. }
            | StoreError::Failed(_) => None,
        }
    }
}

/// The journal and the tables of current state. A store serves one process. Several processes may share the data
/// beneath it.
pub trait Store: Send + Sync + 'static {
    /// The optional features of this store.
    fn capabilities(&self) -> Capabilities;

    /// Writes `commit` durably. Several commits of one run may be under way at once. They are executed in call order,
    /// and if one fails, all later ones fail too (their head is stale).
    fn commit(&self, commit: Commit) -> BoxFuture<'static, Result<CommitReceipt, StoreError>>;

    /// Reads the events after number `after`, at most `limit` and never more than [`READ_MAX_EVENTS`].
    fn read(
        &self,
        key: &RunKey,
        after: u64,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<StoredEvent>, StoreError>>;

    /// The end of the journal.
    fn head(&self, key: &RunKey) -> BoxFuture<'static, Result<Head, StoreError>>;

    /// Hints that a run changed: at once for changes by this process, within 100 ms for changes by others.
    fn watch(&self, key: &RunKey) -> tokio::sync::watch::Receiver<Pulse>;

    /// Acquires the lease of a run, unless another lease is live. A lease ends when it is released, when its time is
    /// over on the store's clock, or at once when its holder dies, if the store [notices
    /// that](Capabilities::notices_death).
    fn claim(&self, key: &RunKey) -> BoxFuture<'static, Result<Claim, StoreError>>;

    /// Renews a lease. Returns [`StoreError::Fenced`] if the lease was lost.
    fn heartbeat(&self, key: &RunKey, epoch: Epoch) -> BoxFuture<'static, Result<(), StoreError>>;

    /// Releases a lease. Does nothing if it was lost already.
    fn release(&self, key: &RunKey, epoch: Epoch) -> BoxFuture<'static, Result<(), StoreError>>;

    /// The oldest open runs without a live lease holder, for a process that looks for work. Another process may claim
    /// them first.
    fn claimable(&self, tenant: &TenantId, limit: u32) -> BoxFuture<'static, Result<Vec<RunId>, StoreError>>;

    /// Adds a command to a run's mailbox and returns its number.
    fn post(&self, key: &RunKey, command: MailCommand) -> BoxFuture<'static, Result<u64, StoreError>>;

    /// The commands that no commit has taken yet, in order.
    fn mail(&self, key: &RunKey) -> BoxFuture<'static, Result<Vec<Mail>, StoreError>>;

    /// The content of a blob.
    fn get_blob(&self, tenant: &TenantId, hash: &Hash) -> BoxFuture<'static, Result<Vec<u8>, StoreError>>;

    /// The newest runs whose id starts with `prefix`, newest first.
    fn runs(
        &self,
        tenant: &TenantId,
        prefix: &str,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<RunEntry>, StoreError>>;

    /// The agents of a run in the order of their creation. `terms` is always set.
    fn agents(&self, key: &RunKey) -> BoxFuture<'static, Result<Vec<AgentRow>, StoreError>>;

    /// The spending of the agents of the newest runs, newest first: at most `limit` runs, read with one query.
    fn spending(
        &self,
        tenant: &TenantId,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<RunSpending>, StoreError>>;

    /// Removes an ended run without a live lease: its events, its rows, its mail. Its id and the end of its journal
    /// stay known. Blobs stay too, because other runs may refer to the same content.
    fn remove(&self, key: &RunKey) -> BoxFuture<'static, Result<Head, StoreError>>;

    /// Removed runs whose id starts with `prefix`, the last removed first.
    fn removed(
        &self,
        tenant: &TenantId,
        prefix: &str,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<RemovedRun>, StoreError>>;

    /// Checks the rows of one run that do not follow from its events: its lease, its mailbox, and the tenant of each
    /// row.
    fn check_run(&self, key: &RunKey) -> BoxFuture<'static, Result<Health, StoreError>>;

    /// Checks for damage that no single read would show.
    fn check(&self) -> BoxFuture<'static, Result<Health, StoreError>>;
}
