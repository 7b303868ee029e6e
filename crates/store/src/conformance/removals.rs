//! Runs leave as a whole, once they have ended.

use posse_engine::ports::{Commit, MailCommand, RemovedRun, RunKey, RunRow, Store, StoreError, TenantId};

use super::fixture::{agent, all, append, create, key, next, run_row, terms};
use super::{LONG, World};

/// Lets a run end that this store owns and that has one event, and gives it up.
async fn end(store: &dyn Store, key: &RunKey) {
    let ended = RunRow { status: "completed".to_owned(), ended_at_ms: Some(5), ..run_row() };
    let root = key.run.root();
    let agents = vec![agent(&root, "closed", Some(terms(&root)))];
    store.commit(Commit { run: Some(ended), agents, ..next(key, 1, 1, 3) }).await.unwrap();
    store.release(key, 1).await.unwrap();
}

/// Nothing of a removed run can be asked for; which it was and how its journal ended can.
pub async fn a_removed_run_is_gone_but_for_its_id_and_its_end(world: &dyn World) {
    let (store, other, key) = (world.open(LONG), world.open(LONG), key(1));
    create(&*store, &key).await;
    end(&*store, &key).await;
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

/// Neither a run that goes on nor one whose owner may still have something to say.
pub async fn a_run_that_is_open_is_not_removed(world: &dyn World) {
    let (store, other, key) = (world.open(LONG), world.open(LONG), key(1));
    create(&*store, &key).await;
    let open = || Err(StoreError::Open(key.run.clone()));
    assert_eq!(other.remove(&key).await, open());
    store.release(&key, 1).await.unwrap();
    assert_eq!(other.remove(&key).await, open(), "nobody owns it, but it has not ended");
    let ended = RunRow { status: "failed".to_owned(), ended_at_ms: Some(5), ..run_row() };
    let claimed = store.claim(&key).await.unwrap();
    assert_eq!(claimed, posse_engine::ports::Claim::Granted(2));
    store.commit(Commit { run: Some(ended), ..next(&key, 1, 2, 1) }).await.unwrap();
    assert_eq!(other.remove(&key).await, open(), "it has ended, but is owned");
    assert_eq!(all(&*other, &key).await.len(), 2);
    assert!(other.removed(&key.tenant, "", 9).await.unwrap().is_empty());
    store.release(&key, 2).await.unwrap();
    other.remove(&key).await.expect("it has ended and is free");
}

/// Runs before and after it in the same tables stay as they are, and go on.
pub async fn a_removed_run_takes_nothing_of_others_along(world: &dyn World) {
    let store = world.open(LONG);
    let keys = [1, 2, 3].map(key);
    let elsewhere = RunKey { tenant: TenantId::new("other"), run: keys[1].run.clone() };
    for key in keys.iter().chain([&elsewhere]) {
        create(&*store, key).await;
    }
    let [first, gone, last] = &keys;
    end(&*store, gone).await;
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
