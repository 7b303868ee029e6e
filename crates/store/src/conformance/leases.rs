//! Conformance checks of leases: at most one lease holder, and an epoch that grows with every lease.

use std::time::Duration;

use futures::future::join_all;
use posse_engine::ports::{Claim, StoreError};

use super::fixture::{all, append, claim_granted, create, is_fenced, key, next};
use super::{LABEL, LEASE, World};

/// Most of a lease. Twice this time is longer than one lease.
const MOST: Duration = LEASE.saturating_sub(Duration::from_secs(1));

/// If many processes claim a free run at once, exactly one gets it, and the others learn which.
pub async fn only_one_of_many_claims_is_granted(world: &dyn World) {
    let (store, key) = (world.open(), key(1));
    create(&*store, &key).await;
    store.release(&key, 1).await.unwrap();
    let processes: Vec<_> = (0..8).map(|_| world.open()).collect();
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
    assert!(holders.windows(2).all(|pair| pair[0] == pair[1]), "two lease holders at once: {holders:?}");
    assert_eq!((holders[0].epoch, holders[0].label.as_str()), (2, LABEL));
    assert_eq!(store.runs(&key.tenant, "", 1).await.unwrap()[0].holder.as_ref(), Some(&holders[0]));
}

/// Every new lease has a higher epoch than all earlier leases, also those of the same process, and lease holders have
/// different ids.
pub async fn epochs_grow_with_every_lease(world: &dyn World) {
    let (store, other, key) = (world.open(), world.open(), key(1));
    let mut last = create(&*store, &key).await.epoch;
    store.release(&key, last).await.unwrap();
    let mut ids = Vec::new();
    for process in [&store, &other, &other, &store] {
        let epoch = claim_granted(&**process, &key).await;
        assert!(epoch > last);
        let Claim::Held(holder) = other.claim(&key).await.unwrap() else { panic!("its lease is live") };
        assert_eq!(holder.epoch, epoch);
        ids.push(holder.id);
        process.release(&key, epoch).await.unwrap();
        last = epoch;
    }
    assert!(ids[0] == ids[3] && ids[1] == ids[2] && ids[0] != ids[1], "{ids:?}");
}

/// An earlier lease holder cannot change the run, not even with commits in flight.
pub async fn a_process_that_lost_its_lease_is_fenced(world: &dyn World) {
    let (store, other, key) = (world.open(), world.open(), key(1));
    create(&*store, &key).await;
    world.advance(2 * LEASE);
    let epoch = claim_granted(&*other, &key).await;
    append(&*other, &key, 1, epoch, 1).await;
    let flight = (1..5).map(|head| store.commit(next(&key, head, 1, 1)));
    for refused in join_all(flight).await {
        assert_eq!(refused, Err(StoreError::Fenced { run: key.run.clone(), held: 1, actual: epoch }));
    }
    assert!(is_fenced(&store.heartbeat(&key, 1).await));
    store.release(&key, 1).await.expect("the release of a lost lease does nothing");
    assert!(matches!(store.claim(&key).await.unwrap(), Claim::Held(holder) if holder.epoch == epoch));
    assert_eq!(all(&*store, &key).await.len(), 2);
    append(&*other, &key, 2, epoch, 1).await;
}

/// If the store notices death, the death of a lease holder frees its runs before its lease has expired. Otherwise they
/// stay held until then.
pub async fn a_dead_lease_holder_is_replaced_at_once_where_the_store_notices_death(world: &dyn World) {
    let (store, other, key) = (world.open(), world.open(), key(1));
    create(&*store, &key).await;
    assert!(matches!(other.claim(&key).await, Ok(Claim::Held(_))));
    drop(store);
    let notices_death = other.capabilities().notices_death;
    let listed = other.runs(&key.tenant, "", 1).await.unwrap().remove(0).holder;
    assert_eq!(listed.is_none(), notices_death, "{listed:?}");
    match other.claim(&key).await.unwrap() {
        Claim::Granted(epoch) => assert!(notices_death && epoch == 2, "epoch {epoch}"),
        Claim::Held(holder) => assert!(!notices_death && Some(holder) == listed),
    }
}

/// In every store the runs of a dead process are free when its lease has expired.
pub async fn a_dead_lease_holder_is_replaced_after_its_lease(world: &dyn World) {
    let (store, other, key) = (world.open(), world.open(), key(1));
    create(&*store, &key).await;
    drop(store);
    world.advance(2 * LEASE);
    assert_eq!(other.runs(&key.tenant, "", 1).await.unwrap()[0].holder, None);
    assert_eq!(other.claim(&key).await, Ok(Claim::Granted(2)));
    append(&*other, &key, 1, 2, 1).await;
}

/// A list says when the last holder of an expired lease renewed it, and nothing about a lease that is live or released.
pub async fn a_list_says_when_an_expired_lease_was_renewed(world: &dyn World) {
    let (store, other, key) = (world.open(), world.open(), key(1));
    let alive_at_ms = async || other.runs(&key.tenant, "", 1).await.unwrap()[0].alive_at_ms;
    create(&*store, &key).await;
    world.advance(2 * LEASE);
    let created_at_ms = alive_at_ms().await.expect("it is over");
    let epoch = claim_granted(&*store, &key).await;
    assert_eq!(alive_at_ms().await, None, "the lease is live");
    world.advance(MOST);
    store.heartbeat(&key, epoch).await.unwrap();
    world.advance(2 * LEASE);
    let ms = i64::try_from((2 * LEASE + MOST).as_millis()).unwrap();
    assert_eq!(alive_at_ms().await, Some(created_at_ms + ms), "until its last heartbeat");
    let epoch = claim_granted(&*store, &key).await;
    store.release(&key, epoch).await.unwrap();
    assert_eq!(alive_at_ms().await, None, "a released lease");
}

/// A live process that does not renew its lease loses its runs when the lease is over, and not before.
pub async fn a_silent_lease_holder_is_replaced_after_its_lease(world: &dyn World) {
    let (store, other, key) = (world.open(), world.open(), key(1));
    create(&*store, &key).await;
    world.advance(MOST);
    assert!(matches!(other.claim(&key).await, Ok(Claim::Held(_))), "taken over before the lease was over");
    world.advance(MOST);
    let epoch = claim_granted(&*other, &key).await;
    assert!(is_fenced(&store.commit(next(&key, 1, 1, 1)).await));
    append(&*other, &key, 1, epoch, 1).await;
}

/// The clock only decides when other processes may claim. A process that slept past its lease continues if none did.
pub async fn an_expired_lease_binds_its_holder_to_nothing_until_another_claims(world: &dyn World) {
    let (store, other, key) = (world.open(), world.open(), key(1));
    create(&*store, &key).await;
    world.advance(2 * LEASE);
    append(&*store, &key, 1, 1, 1).await;
    assert!(matches!(other.claim(&key).await, Ok(Claim::Held(_))), "the commit renewed the lease");
}

/// A process that renews its lease in time keeps its runs.
pub async fn heartbeats_keep_a_lease(world: &dyn World) {
    let (store, other, key) = (world.open(), world.open(), key(1));
    create(&*store, &key).await;
    for _ in 0..5 {
        world.advance(MOST);
        store.heartbeat(&key, 1).await.expect("a lease that was renewed in time");
        assert!(matches!(other.claim(&key).await, Ok(Claim::Held(_))));
    }
    world.advance(2 * MOST);
    assert_eq!(other.claim(&key).await, Ok(Claim::Granted(2)), "without another heartbeat it is over");
}

/// A process that writes is alive, so a commit renews the lease like a heartbeat.
pub async fn commits_keep_a_lease(world: &dyn World) {
    let (store, other, key) = (world.open(), world.open(), key(1));
    let mut head = create(&*store, &key).await.head.seq;
    for _ in 0..5 {
        world.advance(MOST);
        head = append(&*store, &key, head, 1, 1).await.head.seq;
        assert!(matches!(other.claim(&key).await, Ok(Claim::Held(_))));
    }
    world.advance(2 * MOST);
    assert_eq!(other.claim(&key).await, Ok(Claim::Granted(2)), "without another commit it is over");
}

/// A process that released its lease cannot write any more, and the next process need not wait.
pub async fn a_released_run_is_free_and_closed_to_its_last_holder(world: &dyn World) {
    let (store, other, key) = (world.open(), world.open(), key(1));
    create(&*store, &key).await;
    store.release(&key, 1).await.unwrap();
    assert_eq!(store.runs(&key.tenant, "", 1).await.unwrap()[0].holder, None);
    assert!(is_fenced(&store.commit(next(&key, 1, 1, 1)).await));
    assert!(is_fenced(&store.heartbeat(&key, 1).await));
    assert_eq!(other.claim(&key).await, Ok(Claim::Granted(2)));
    // A second release changes nothing.
    store.release(&key, 1).await.unwrap();
    append(&*other, &key, 1, 2, 1).await;
}

/// Another process cannot write with the epoch of the lease holder, and a lease holder cannot claim its own live lease
/// again.
pub async fn knowing_the_epoch_is_not_holding_the_lease(world: &dyn World) {
    let (store, other, key) = (world.open(), world.open(), key(1));
    create(&*store, &key).await;
    assert!(is_fenced(&other.commit(next(&key, 1, 1, 1)).await));
    assert!(is_fenced(&other.heartbeat(&key, 1).await));
    other.release(&key, 1).await.unwrap();
    assert!(matches!(store.claim(&key).await, Ok(Claim::Held(_))));
    append(&*store, &key, 1, 1, 1).await;
}
