//! At most one owner, and an epoch that says which.

use std::time::{Duration, Instant};

use futures::future::join_all;
use posse_engine::ports::{Claim, StoreError};

use super::fixture::{all, append, claim_granted, create, is_fenced, key, next};
use super::{LONG, World};

/// Long enough to be renewed in time on a busy machine, short enough to wait for.
const SHORT: Duration = Duration::from_secs(1);

/// Of many processes that claim a free run at once exactly one gets it; the others hear who did.
pub async fn only_one_of_many_claims_is_granted(world: &dyn World) {
    let (store, key) = (world.open(LONG), key(1));
    create(&*store, &key).await;
    store.release(&key, 1).await.unwrap();
    let processes: Vec<_> = (0..8).map(|_| world.open(LONG)).collect();
    let claims =
        join_all(processes.iter().flat_map(|process| [process.claim(&key), process.claim(&key)])).await;
    let mut holders = Vec::new();
    let mut granted = 0;
    for claim in claims {
        match claim.unwrap() {
            Claim::Granted(epoch) => {
                granted += 1;
                assert_eq!(epoch, 2);
            }
            Claim::Held(holder) => holders.push(holder),
        }
    }
    assert_eq!((granted, holders.len()), (1, 15));
    assert!(holders.windows(2).all(|pair| pair[0] == pair[1]), "two owners at once: {holders:?}");
    assert_eq!((holders[0].epoch, holders[0].pid), (2, std::process::id()));
    assert_eq!(store.runs(&key.tenant, "", 1).await.unwrap()[0].holder.as_ref(), Some(&holders[0]));
}

/// Every new owner has a higher epoch than all before it, its own earlier ones too.
pub async fn epochs_grow_with_every_owner(world: &dyn World) {
    let (store, other, key) = (world.open(LONG), world.open(LONG), key(1));
    let mut last = create(&*store, &key).await.epoch;
    store.release(&key, last).await.unwrap();
    for process in [&store, &other, &other, &store] {
        let Claim::Granted(epoch) = process.claim(&key).await.unwrap() else { panic!("a free run") };
        assert!(epoch > last);
        process.release(&key, epoch).await.unwrap();
        last = epoch;
    }
}

/// Nothing that an earlier owner does changes the run, also with commits in flight.
pub async fn who_lost_a_run_is_fenced(world: &dyn World) {
    let (store, other, key) = (world.open(Duration::ZERO), world.open(LONG), key(1));
    create(&*store, &key).await;
    let epoch = claim_granted(&*other, &key).await;
    append(&*other, &key, 1, epoch, 1).await;
    let flight = (1..5).map(|head| store.commit(next(&key, head, 1, 1)));
    for refused in join_all(flight).await {
        assert_eq!(refused, Err(StoreError::Fenced { run: key.run.clone(), held: 1, actual: epoch }));
    }
    assert!(is_fenced(&store.heartbeat(&key, 1).await));
    store.release(&key, 1).await.expect("giving up what is lost does nothing");
    assert!(matches!(store.claim(&key).await.unwrap(), Claim::Held(holder) if holder.epoch == epoch));
    assert_eq!(all(&*store, &key).await.len(), 2);
    append(&*other, &key, 2, epoch, 1).await;
}

/// The death of an owner frees its runs though its lease has not run out.
pub async fn a_dead_owner_is_replaced_at_once(world: &dyn World) {
    let (store, other, key) = (world.open(LONG), world.open(LONG), key(1));
    create(&*store, &key).await;
    assert!(matches!(other.claim(&key).await, Ok(Claim::Held(_))));
    drop(store);
    assert_eq!(other.runs(&key.tenant, "", 1).await.unwrap()[0].holder, None);
    assert_eq!(other.claim(&key).await, Ok(Claim::Granted(2)));
}

/// An owner that lives but says nothing loses its runs when the lease is over.
pub async fn a_silent_owner_is_replaced_after_its_lease(world: &dyn World) {
    let (store, other, key) = (world.open(SHORT), world.open(LONG), key(1));
    let started = Instant::now();
    create(&*store, &key).await;
    let epoch = claim_granted(&*other, &key).await;
    assert!(started.elapsed() >= SHORT, "taken over before the lease was over");
    assert!(is_fenced(&store.commit(next(&key, 1, 1, 1)).await));
    append(&*other, &key, 1, epoch, 1).await;
}

/// Who says in time that it lives keeps its runs.
pub async fn heartbeats_keep_a_lease(world: &dyn World) {
    let (store, other, key) = (world.open(SHORT), world.open(LONG), key(1));
    create(&*store, &key).await;
    let started = Instant::now();
    while started.elapsed() < 2 * SHORT {
        store.heartbeat(&key, 1).await.expect("a lease that was renewed in time");
        assert!(matches!(other.claim(&key).await, Ok(Claim::Held(_))));
    }
}

/// Who writes lives: a commit is as good as a heartbeat.
pub async fn commits_keep_a_lease(world: &dyn World) {
    let (store, other, key) = (world.open(SHORT), world.open(LONG), key(1));
    let mut head = create(&*store, &key).await.head.seq;
    let started = Instant::now();
    while started.elapsed() < 2 * SHORT {
        head = append(&*store, &key, head, 1, 1).await.head.seq;
        assert!(matches!(other.claim(&key).await, Ok(Claim::Held(_))));
    }
}

/// Who gave a run up writes to it no more, and the next owner need not wait.
pub async fn a_released_run_is_free_and_closed_to_its_owner(world: &dyn World) {
    let (store, other, key) = (world.open(LONG), world.open(LONG), key(1));
    create(&*store, &key).await;
    store.release(&key, 1).await.unwrap();
    assert_eq!(store.runs(&key.tenant, "", 1).await.unwrap()[0].holder, None);
    assert!(is_fenced(&store.commit(next(&key, 1, 1, 1)).await));
    assert!(is_fenced(&store.heartbeat(&key, 1).await));
    assert_eq!(other.claim(&key).await, Ok(Claim::Granted(2)));
    // What was said twice changes nothing.
    store.release(&key, 1).await.unwrap();
    append(&*other, &key, 1, 2, 1).await;
}

/// Another process cannot write with the owner's epoch, and a run that one holds cannot be claimed twice.
pub async fn knowing_the_epoch_is_not_owning_the_run(world: &dyn World) {
    let (store, other, key) = (world.open(LONG), world.open(LONG), key(1));
    create(&*store, &key).await;
    assert!(is_fenced(&other.commit(next(&key, 1, 1, 1)).await));
    assert!(is_fenced(&other.heartbeat(&key, 1).await));
    other.release(&key, 1).await.unwrap();
    assert!(matches!(store.claim(&key).await, Ok(Claim::Held(_))));
    append(&*store, &key, 1, 1, 1).await;
}
