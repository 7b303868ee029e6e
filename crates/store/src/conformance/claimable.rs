//! Conformance checks of `claimable`: the runs that a process that looks for work finds.

use posse_engine::ports::{RunKey, Store, TenantId};

use super::fixture::{claim_granted, create, end, key};
use super::{LEASE, World};

async fn claimable(store: &dyn Store, limit: u32) -> Vec<u64> {
    let found = store.claimable(&TenantId::local(), limit).await.unwrap();
    let number = |run| (0..9).find(|number| key(*number).run == run).expect("a run of this check");
    found.into_iter().map(number).collect()
}

/// Returns open runs without a lease holder in the order of their creation, not of their release, up to the limit. A
/// claim removes a run from the list, a release adds it again.
pub async fn open_runs_without_a_live_lease_are_claimable_oldest_first(world: &dyn World) {
    let (store, other) = (world.open(), world.open());
    for number in [3, 1, 4, 2] {
        create(&*store, &key(number)).await;
    }
    assert_eq!(claimable(&*other, 9).await, [0_u64; 0], "all have a live lease");
    for number in [2, 1, 3] {
        store.release(&key(number), 1).await.unwrap();
    }
    for store in [&store, &other] {
        assert_eq!(claimable(&**store, 9).await, [3, 1, 2]);
        assert_eq!(claimable(&**store, 2).await, [3, 1]);
        assert_eq!(claimable(&**store, 0).await, [0_u64; 0]);
    }
    let epoch = claim_granted(&*other, &key(3)).await;
    assert_eq!(claimable(&*store, 1).await, [1], "runs that are held do not use up the limit");
    other.release(&key(3), epoch).await.unwrap();
    assert_eq!(claimable(&*store, 1).await, [3]);
}

/// A process that died or hangs blocks its runs no longer than its lease.
pub async fn a_run_is_claimable_when_its_lease_has_expired(world: &dyn World) {
    let (store, other) = (world.open(), world.open());
    create(&*store, &key(1)).await;
    world.advance(LEASE / 2);
    create(&*store, &key(2)).await;
    assert_eq!(claimable(&*other, 9).await, [0_u64; 0]);
    world.advance(LEASE / 2 + LEASE / 10);
    assert_eq!(claimable(&*other, 9).await, [1]);
    store.heartbeat(&key(1), 1).await.expect("no other process claimed it");
    assert_eq!(claimable(&*other, 9).await, [0_u64; 0]);
}

/// An ended run is never claimable, whatever the state of its lease.
pub async fn an_ended_run_is_never_claimable(world: &dyn World) {
    let (store, other) = (world.open(), world.open());
    for number in [1, 2, 3] {
        create(&*store, &key(number)).await;
    }
    end(&*store, &key(1), 1, 1).await;
    store.release(&key(2), 1).await.unwrap();
    assert_eq!(claimable(&*other, 9).await, [2]);
    let epoch = claim_granted(&*other, &key(2)).await;
    end(&*other, &key(2), 1, epoch).await;
    world.advance(2 * LEASE);
    assert_eq!(claimable(&*other, 9).await, [3]);
}

/// Of two runs with the same id, only the run of the requested tenant is returned.
pub async fn tenants_have_claimable_runs_of_their_own(world: &dyn World) {
    let store = world.open();
    let elsewhere = RunKey { tenant: TenantId::new("other"), run: key(1).run };
    for key in [&key(1), &elsewhere] {
        create(&*store, key).await;
    }
    store.release(&elsewhere, 1).await.unwrap();
    assert_eq!(claimable(&*store, 9).await, [0_u64; 0]);
    assert_eq!(store.claimable(&elsewhere.tenant, 9).await.unwrap(), [elsewhere.run]);
}
