//! Conformance checks of removals: an ended run is removed as a whole.

use posse_domain::lifecycle::{AgentState, RunStatus};
use posse_engine::ports::{Commit, MailCommand, RemovedRun, RunKey, RunRow, Store, StoreError, TenantId};

use super::World;
use super::fixture::{agent, all, append, create, end, key, next, run_row, terms};

/// Ends a run of one event, with rows in every table.
async fn end_with_agent(store: &dyn Store, key: &RunKey) {
    let root = key.run.root();
    let agents = vec![agent(&root, AgentState::Closed, Some(terms(&root)))];
    store.commit(Commit { agents, ..next(key, 1, 1, 2) }).await.unwrap();
    end(store, key, 3, 1).await;
}

/// No data of a removed run can be read, except its id and the end of its journal.
pub async fn a_removed_run_is_gone_but_for_its_id_and_its_end(world: &dyn World) {
    let (store, other, key) = (world.open(), world.open(), key(1));
    create(&*store, &key).await;
    end_with_agent(&*store, &key).await;
    store.post(&key, MailCommand::Send { agent: key.run.root(), text: "late".to_owned() }).await.unwrap();
    let head = store.head(&key).await.unwrap();
    assert_eq!(store.remove(&key).await, Ok(head));
    let unknown = || StoreError::UnknownRun(key.run.clone());
    for store in [&store, &other] {
        assert_eq!(store.read(&key, 0, 9).await, Err(unknown()));
        assert_eq!(store.head(&key).await, Err(unknown()));
        assert_eq!(store.agents(&key).await, Err(unknown()));
        assert_eq!(store.mail(&key).await, Err(unknown()));
        assert_eq!(store.claim(&key).await, Err(unknown()));
        assert_eq!(store.remove(&key).await, Err(unknown()));
        assert!(store.runs(&key.tenant, "", 9).await.unwrap().is_empty());
        let removed = RemovedRun { run: key.run.clone(), head };
        assert_eq!(store.removed(&key.tenant, &key.run.as_str()[..3], 9).await.unwrap(), [removed]);
        for (tenant, prefix, limit) in [("local", "_", 9), ("local", "", 0), ("other", "", 9)] {
            assert!(store.removed(&TenantId::new(tenant), prefix, limit).await.unwrap().is_empty());
        }
        assert_eq!(store.check().await.unwrap().problems, Vec::<String>::new());
    }
}

/// A run is not removed if it has not ended, or if its lease holder may still write.
pub async fn a_run_that_is_open_is_not_removed(world: &dyn World) {
    let (store, other, key) = (world.open(), world.open(), key(1));
    create(&*store, &key).await;
    let open = || Err(StoreError::Open(key.run.clone()));
    assert_eq!(other.remove(&key).await, open());
    store.release(&key, 1).await.unwrap();
    assert_eq!(other.remove(&key).await, open(), "its lease is over, but it has not ended");
    let ended = RunRow { status: RunStatus::Failed, ended_at_ms: Some(5), ..run_row() };
    let claimed = store.claim(&key).await.unwrap();
    assert_eq!(claimed, posse_engine::ports::Claim::Granted(2));
    store.commit(Commit { run: Some(ended), ..next(&key, 1, 2, 1) }).await.unwrap();
    assert_eq!(other.remove(&key).await, open(), "it has ended, but its lease is live");
    assert_eq!(all(&*other, &key).await.len(), 2);
    assert!(other.removed(&key.tenant, "", 9).await.unwrap().is_empty());
    store.release(&key, 2).await.unwrap();
    other.remove(&key).await.expect("it has ended and is free");
}

/// Runs before and after a removed run in the same tables are unchanged and can be written.
pub async fn a_removed_run_takes_nothing_of_others_along(world: &dyn World) {
    let store = world.open();
    let keys = [1, 2, 3].map(key);
    let elsewhere = RunKey { tenant: TenantId::new("other"), run: keys[1].run.clone() };
    for key in keys.iter().chain([&elsewhere]) {
        create(&*store, key).await;
    }
    let [first, gone, last] = &keys;
    end_with_agent(&*store, gone).await;
    store.remove(gone).await.unwrap();
    for key in [first, last, &elsewhere] {
        append(&*store, key, 1, 1, 2).await;
        assert_eq!(all(&*store, key).await.len(), 3);
    }
    let left: Vec<_> = store.runs(&first.tenant, "", 9).await.unwrap();
    let left: Vec<_> = left.iter().map(|entry| entry.run.clone()).collect();
    assert_eq!(left, [last.run.clone(), first.run.clone()]);
    assert_eq!(store.check().await.unwrap().problems, Vec::<String>::new());
}
