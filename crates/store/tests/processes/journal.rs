//! The commits that child processes of the test write, and the check that all of them are stored.

use posse_domain::event::EncodedEvent;
use posse_domain::hash::Hash;
use posse_domain::id::RunId;
use posse_domain::lifecycle::RunStatus;
use posse_domain::text::Blob;
use posse_engine::ports::{Basis, Commit, Epoch, RunKey, RunRow, Store, TenantId};
use posse_store::SqliteStore;

pub(crate) fn key(run: u64) -> RunKey {
    RunKey { tenant: TenantId::local(), run: RunId::from_random(run) }
}

fn commit(key: &RunKey, basis: Basis, number: u64) -> Commit {
    let event = EncodedEvent {
        agent: key.run.root(),
        kind: "agent.model_called",
        at_ms: 1,
        version: 1,
        payload: format!("{{\"number\":{number},\"text\":\"{}\"}}", "x".repeat(300)),
    };
    let (blobs, agents) = (Vec::new(), Vec::new());
    Commit { key: key.clone(), basis, events: vec![event], blobs, agents, run: None, mail_taken: None }
}

pub(crate) fn first(key: &RunKey) -> Commit {
    let row = RunRow {
        status: RunStatus::Running,
        title: "append".to_owned(),
        definition: "coder".to_owned(),
        model: "scripted/none".to_owned(),
        dir: "/".to_owned(),
        session_id: None,
        created_at_ms: 0,
        ended_at_ms: None,
    };
    Commit { run: Some(row), ..commit(key, Basis::New, 1) }
}

pub(crate) fn next(key: &RunKey, head: u64, epoch: Epoch) -> Commit {
    commit(key, Basis::Held { head, epoch }, head + 1)
}

/// A text too long for the database.
pub(crate) fn blob() -> Blob {
    let bytes = vec![b'x'; 300_000];
    Blob { hash: Hash::of(&bytes), bytes: bytes.into() }
}

/// Reads a journal, checks numbers, contents and hashes, and returns its length.
pub(crate) async fn verify(store: &SqliteStore, key: &RunKey) -> u64 {
    let mut previous = Hash::ZERO;
    let mut seen = 0;
    loop {
        let events = store.read(key, seen, 1_000).await.unwrap();
        if events.is_empty() {
            break;
        }
        for event in events {
            assert_eq!(event.seq, seen + 1, "a gap");
            assert_eq!(event.hash, event.expected_hash(&previous, "local", &key.run), "event {}", event.seq);
            assert!(event.payload.starts_with(&format!("{{\"number\":{},", event.seq)), "a foreign event");
            (previous, seen) = (event.hash, event.seq);
        }
    }
    assert_eq!(store.head(key).await.unwrap().hash, previous);
    seen
}

pub(crate) async fn assert_healthy(store: &SqliteStore) {
    assert_eq!(store.check().await.unwrap().problems, Vec::<String>::new());
}
