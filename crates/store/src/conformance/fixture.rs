//! Shared fixtures of the conformance checks: keys, rows, commits and claims.

use posse_domain::event::{EncodedEvent, StoredEvent};
use posse_domain::hash::Hash;
use posse_domain::id::{AgentId, RunId};
use posse_domain::lifecycle::{AgentState, RunStatus};
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

pub(super) fn run_row() -> RunRow {
    RunRow {
        status: RunStatus::Running,
        title: "port auth".to_owned(),
        definition: "coder".to_owned(),
        model: "scripted/a.yaml".to_owned(),
        dir: "/project".to_owned(),
        session_id: Some("s1".to_owned()),
        created_at_ms: 1_700_000_000_000,
        ended_at_ms: None,
    }
}

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

/// An agent in `state`. It is a new agent if `terms` are set.
pub(super) fn agent(id: &AgentId, state: AgentState, terms: Option<AgentTerms>) -> AgentRow {
    AgentRow {
        id: id.clone(),
        terms,
        state,
        final_status: None,
        close_reason: None,
        result: None,
        error: None,
        usage_json: "{}".to_owned(),
        subtree_usage_json: "{}".to_owned(),
        completed_at_ms: None,
        events_in_force: Some(Vec::new()),
    }
}

pub(super) fn blob(bytes: Vec<u8>) -> Blob {
    Blob { hash: Hash::of(&bytes), bytes: bytes.into() }
}

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
    Commit { events, ..empty(key, Basis::Held { head, epoch }) }
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
    store.commit(next(key, head, epoch, count)).await.expect("an append by the lease holder at the head")
}

pub(super) async fn all(store: &dyn Store, key: &RunKey) -> Vec<StoredEvent> {
    store.read(key, 0, u32::MAX).await.expect("a run that exists")
}

/// Claims a run that must be free.
pub(super) async fn claim_granted(store: &dyn Store, key: &RunKey) -> Epoch {
    match store.claim(key).await.expect("a run that exists") {
        Claim::Granted(epoch) => epoch,
        Claim::Held(holder) => panic!("the run is free, and {holder} holds its lease"),
    }
}

/// Ends a run whose lease this process holds and whose journal is at `head`, and releases the lease.
pub(super) async fn end(store: &dyn Store, key: &RunKey, head: u64, epoch: Epoch) {
    let ended = RunRow { status: RunStatus::Completed, ended_at_ms: Some(5), ..run_row() };
    store.commit(Commit { run: Some(ended), ..next(key, head, epoch, 1) }).await.expect("an end");
    store.release(key, epoch).await.expect("a release");
}

/// Whether a write was refused because its process does not hold the lease.
pub(super) fn is_fenced<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Fenced { .. }))
}

/// Pseudo-random numbers that are the same in every execution.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}
