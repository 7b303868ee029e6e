//! What the checks are made of.

use posse_domain::event::{EncodedEvent, StoredEvent};
use posse_domain::hash::Hash;
use posse_domain::id::{AgentId, RunId};
use posse_domain::text::Blob;
use posse_engine::ports::{
    AgentRow, AgentTerms, Basis, Claim, Commit, CommitReceipt, Epoch, RunKey, RunRow, Store, StoreError,
    TenantId,
};

/// The run with this number, of the default tenant.
pub(super) fn key(number: u64) -> RunKey {
    RunKey { tenant: TenantId::local(), run: RunId::from_random(number) }
}

/// An event of the run's root with this payload.
pub(super) fn event(key: &RunKey, payload: &str) -> EncodedEvent {
    EncodedEvent {
        agent: key.run.root(),
        kind: "agent.model_called",
        at_ms: 1_700_000_000_000,
        version: 1,
        payload: payload.to_owned(),
    }
}

/// A running run.
pub(super) fn run_row() -> RunRow {
    RunRow {
        status: "running".to_owned(),
        title: "port auth".to_owned(),
        definition: "coder".to_owned(),
        model: "scripted/a.yaml".to_owned(),
        dir: "/project".to_owned(),
        session_id: Some("s1".to_owned()),
        created_at_ms: 1_700_000_000_000,
        ended_at_ms: None,
    }
}

/// The terms of a new agent.
pub(super) fn terms(id: &AgentId) -> AgentTerms {
    AgentTerms {
        parent: id.parent(),
        parent_message_id: id.parent().map(|_| "m7".to_owned()),
        depth: id.depth(),
        definition: "explore".to_owned(),
        contract_json: r#"{"step":{"description":"find it"}}"#.to_owned(),
        permissions_json: r#"{"layers":[]}"#.to_owned(),
        created_at_ms: 1_700_000_000_000,
    }
}

/// An agent in `state`; new if `terms` are given.
pub(super) fn agent(id: &AgentId, state: &str, terms: Option<AgentTerms>) -> AgentRow {
    AgentRow {
        id: id.clone(),
        terms,
        state: state.to_owned(),
        final_status: None,
        close_reason: None,
        result: None,
        error: None,
        usage_json: "{}".to_owned(),
        subtree_usage_json: "{}".to_owned(),
        completed_at_ms: None,
    }
}

/// A blob with this content.
pub(super) fn blob(bytes: Vec<u8>) -> Blob {
    Blob { hash: Hash::of(&bytes), bytes: bytes.into() }
}

/// A commit without anything.
pub(super) fn empty(key: &RunKey, basis: Basis) -> Commit {
    let (events, blobs, agents) = (Vec::new(), Vec::new(), Vec::new());
    Commit { key: key.clone(), basis, events, blobs, agents, run: None, mail_taken: None }
}

/// The first commit of a run, with one event.
pub(super) fn first(key: &RunKey) -> Commit {
    Commit { events: vec![event(key, "first")], run: Some(run_row()), ..empty(key, Basis::New) }
}

/// A commit of `count` events after `head`.
pub(super) fn next(key: &RunKey, head: u64, epoch: Epoch, count: u64) -> Commit {
    let events = (0..count).map(|place| event(key, &format!("event {}", head + place + 1))).collect();
    Commit { events, ..empty(key, Basis::Owned { head, epoch }) }
}

/// Creates a run with one event.
pub(super) async fn create(store: &dyn Store, key: &RunKey) -> CommitReceipt {
    store.commit(first(key)).await.expect("a new run")
}

/// Appends `count` events that must be accepted.
pub(super) async fn append(
    store: &dyn Store,
    key: &RunKey,
    head: u64,
    epoch: Epoch,
    count: u64,
) -> CommitReceipt {
    store.commit(next(key, head, epoch, count)).await.expect("an append by the owner at the head")
}

/// All events of a run.
pub(super) async fn all(store: &dyn Store, key: &RunKey) -> Vec<StoredEvent> {
    store.read(key, 0, u32::MAX).await.expect("a run that exists")
}

/// Claims a run until it is granted.
pub(super) async fn claim_granted(store: &dyn Store, key: &RunKey) -> Epoch {
    loop {
        match store.claim(key).await.expect("a run that exists") {
            Claim::Granted(epoch) => return epoch,
            Claim::Held(_) => tokio::task::yield_now().await,
        }
    }
}

/// Whether an error says that somebody else owns the run.
pub(super) fn is_fenced<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Fenced { .. }))
}

/// Numbers that look random and are the same every time.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    /// A number below `sides`.
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}
