//! Conformance checks of reads: the journal is authoritative.

use posse_engine::ports::{Commit, READ_MAX_EVENTS};

use super::World;
use super::fixture::{append, create, event, first, key};

/// A read returns the events after the given number, in order, up to the limit.
pub async fn reads_come_in_order_and_within_limits(world: &dyn World) {
    let (store, key) = (world.open(), key(1));
    create(&*store, &key).await;
    // Events of another run must never be returned.
    create(&*store, &super::fixture::key(2)).await;
    append(&*store, &key, 1, 1, u64::from(READ_MAX_EVENTS)).await;
    let numbers = async |after, limit| -> Vec<u64> {
        store.read(&key, after, limit).await.unwrap().iter().map(|event| event.seq).collect()
    };
    assert_eq!(numbers(0, 3).await, [1, 2, 3]);
    assert_eq!(numbers(2, 2).await, [3, 4]);
    assert_eq!(numbers(4_096, 10).await, [4_097]);
    assert!(numbers(4_097, 10).await.is_empty());
    assert!(numbers(u64::MAX, 10).await.is_empty());
    assert!(numbers(0, 0).await.is_empty());
    assert_eq!(numbers(0, u32::MAX).await, (1..=u64::from(READ_MAX_EVENTS)).collect::<Vec<_>>());
}

/// Every field is returned as it was written, whatever characters it contains, and other processes read the same.
pub async fn reads_give_back_what_was_written(world: &dyn World) {
    let (store, other, key) = (world.open(), world.open(), key(1));
    let child = key.run.root().child(2).child(1);
    let payloads = ["", "{\"a\":\"\\u0000\"}", "ünïcödé ✓ 日本", "\u{0}\u{1f}\u{7f}", &"long ".repeat(2_000)];
    let mut commit = first(&key);
    commit.events = payloads.map(|payload| event(&key, payload)).to_vec();
    commit.events[2].agent = child.clone();
    commit.events[3].at_ms = i64::MIN;
    commit.events[3].version = u32::MAX;
    let written = commit.events.clone();
    store.commit(Commit { ..commit }).await.unwrap();
    let read = store.read(&key, 0, 10).await.unwrap();
    assert_eq!(other.read(&key, 0, 10).await.as_ref(), Ok(&read));
    for (event, stored) in written.iter().zip(&read) {
        assert_eq!(
            (&event.agent, event.kind, &event.payload),
            (&stored.agent, &*stored.kind, &stored.payload)
        );
        assert_eq!((event.at_ms, event.version), (stored.at_ms, stored.version));
    }
    assert_eq!(read.len(), written.len());
}
