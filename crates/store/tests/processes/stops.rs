//! Writers that are stopped for a while.

use std::time::Duration;

use posse_engine::ports::{Claim, Epoch, Store, StoreError};
use posse_store::{SqliteOptions, SqliteStore};
use serde_json::json;

use super::harness::{ChildProcess, open};
use super::journal::{assert_healthy, first, key, next, verify};

async fn claim_granted(store: &SqliteStore, run: u64) -> Epoch {
    loop {
        match store.claim(&key(run)).await.unwrap() {
            Claim::Granted(epoch) => return epoch,
            Claim::Held(_) => tokio::task::yield_now().await,
        }
    }
}

/// A lease holder that was stopped for longer than its lease finds its run claimed, and writes nothing more to it.
#[tokio::test]
async fn a_paused_owner_that_wakes_too_late_is_fenced() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut process = ChildProcess::start_with(dir.path(), json!({"lease_ms": 300}));
    process.create(1);
    process.create(2);
    assert_eq!(process.ask("append 1 1 1 2"), "acked 2");
    assert_eq!(process.hear_number("longest ") / 1_000, 0);
    process.stop();
    assert!(matches!(store.claim(&key(1)).await.unwrap(), Claim::Held(_) | Claim::Granted(2)));
    let epoch = claim_granted(&store, 1).await;
    assert_eq!(epoch, 2);
    store.commit(next(&key(1), 2, epoch)).await.unwrap();
    process.go_on();
    for head in 2..5 {
        assert!(process.ask(&format!("append 1 1 {head} {}", head + 1)).contains("the epoch in force is 2"));
    }
    assert!(process.ask("heartbeat 1 1").contains("does not hold the lease"));
    assert_eq!(process.ask("claim 1"), format!("held by process {}", std::process::id()));
    // It still holds the run that no other process claimed, although that lease has expired too.
    assert_eq!(process.ask("append 2 1 1 2"), "acked 2");
    assert_eq!(verify(&store, &key(1)).await, 3);
    store.commit(next(&key(1), 3, epoch)).await.unwrap();
    assert_healthy(&store).await;
}

/// Stopped while it writes as fast as it can: its successor and the journal agree, whatever was in flight.
#[tokio::test]
async fn an_owner_stopped_while_writing_is_fenced_or_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let options =
        SqliteOptions { writers_lock_patience: Duration::from_millis(200), ..SqliteOptions::default() };
    let store = SqliteStore::open(dir.path(), options).unwrap();
    for round in 0..10 {
        let mut process = ChildProcess::start_with(dir.path(), json!({"lease_ms": 50}));
        process.create(round);
        process.tell(&format!("append {round} 1 1 1000000"));
        for _ in 0..round {
            process.hear_number("acked ");
        }
        process.stop();
        let claimed = loop {
            match store.claim(&key(round)).await {
                Ok(Claim::Held(_)) => tokio::task::yield_now().await,
                // It was stopped while it held the writers' lock: no process can take over, and the error states that.
                Err(StoreError::Unusable { problem, .. }) if problem.contains("may be stopped") => {
                    break None;
                }
                Ok(Claim::Granted(epoch)) => break Some(epoch),
                Err(error) => panic!("{error}"),
            }
        };
        let Some(epoch) = claimed else {
            drop(process.kill());
            continue;
        };
        let head = verify(&store, &key(round)).await;
        store.commit(next(&key(round), head, epoch)).await.unwrap();
        process.go_on();
        let refused = std::iter::from_fn(|| process.try_hear()).find(|line| !line.starts_with("acked"));
        assert!(refused.unwrap().contains("the epoch in force is 2"));
        assert_eq!(verify(&store, &key(round)).await, head + 1);
    }
    assert_healthy(&store).await;
}

/// While a stopped process holds the writers' lock, the others fail with a reason and do not hang. When it continues,
/// they continue too.
#[tokio::test]
async fn a_process_stopped_with_the_lock_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let options =
        SqliteOptions { writers_lock_patience: Duration::from_millis(100), ..SqliteOptions::default() };
    let store = SqliteStore::open(dir.path(), options.clone()).unwrap();
    store.commit(first(&key(1))).await.unwrap();
    let settings = json!({"point": "store.commit.before_sync", "passes": 2, "stops": true});
    let mut process = ChildProcess::start_with(dir.path(), settings);
    process.create(2);
    process.tell("append 2 1 1 2");
    process.wait_stopped();
    let flight = [store.commit(next(&key(1), 1, 1)), store.commit(next(&key(1), 2, 1))];
    for refused in futures::future::join_all(flight).await {
        let text = refused.unwrap_err().to_string();
        assert!(text.contains(&format!("process {} has held", process.pid())), "{text}");
    }
    assert!(matches!(SqliteStore::open(dir.path(), options), Err(StoreError::Unusable { .. })));
    assert_eq!(store.head(&key(1)).await.unwrap().seq, 1, "readers are not in the way");
    process.go_on();
    assert_eq!(process.hear(), "acked 2");
    store.commit(next(&key(1), 1, 1)).await.unwrap();
    assert_healthy(&store).await;
}

/// A lease holder that renews in time keeps its run for many times its lease.
#[tokio::test]
async fn heartbeats_from_another_process_keep_its_lease() {
    const LEASE: Duration = Duration::from_secs(1);
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut process = ChildProcess::start_with(dir.path(), json!({"lease_ms": LEASE.as_millis()}));
    process.create(1);
    let started = std::time::Instant::now();
    while started.elapsed() < 2 * LEASE {
        assert_eq!(process.ask("heartbeat 1 1"), "ok");
        assert!(matches!(store.claim(&key(1)).await.unwrap(), Claim::Held(_)));
    }
    assert_eq!(claim_granted(&store, 1).await, 2, "silent, it loses it");
    assert!(process.ask("heartbeat 1 1").contains("does not hold the lease"));
}
