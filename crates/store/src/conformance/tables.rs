//! Conformance checks of the tables of current state.

use posse_domain::code::Code;
use posse_domain::event::FinalStatus;
use posse_domain::id::RunId;
use posse_domain::lifecycle::{AgentState, CloseReason, FailKind, FailureReason, RunStatus};
use posse_engine::ports::{AgentRow, Commit, RunKey, RunRow, StoreError, TenantId};

use super::World;
use super::fixture::{agent, append, create, first, key, next, run_row, terms};

/// The list of runs is newest first, filtered by the prefix of the id, and shows the current state.
pub async fn runs_are_listed_newest_first_by_prefix(world: &dyn World) {
    let store = world.open();
    let ids = ["aaaa0001", "aaab0002", "aaaa0003", "zzzz0004"];
    for (place, id) in ids.iter().enumerate() {
        let key = RunKey { tenant: TenantId::local(), run: id.parse().unwrap() };
        // The order follows the creation, not the wall clock.
        let run =
            RunRow { created_at_ms: -i64::try_from(place).unwrap(), title: (*id).to_owned(), ..run_row() };
        store.commit(Commit { run: Some(run), ..first(&key) }).await.unwrap();
    }
    let list = async |prefix: &str, limit| -> Vec<String> {
        let runs = store.runs(&TenantId::local(), prefix, limit).await.unwrap();
        runs.into_iter().map(|entry| entry.run.as_str().to_owned()).collect()
    };
    assert_eq!(list("", 10).await, ["zzzz0004", "aaaa0003", "aaab0002", "aaaa0001"]);
    assert_eq!(list("", 2).await, ["zzzz0004", "aaaa0003"]);
    assert_eq!(list("aaaa", 10).await, ["aaaa0003", "aaaa0001"]);
    assert_eq!(list("zzzz0004", 10).await, ["zzzz0004"]);
    for nothing in ["b", "aaaa00011", "%", "_", "'", "~", "AAAA"] {
        assert!(list(nothing, 10).await.is_empty(), "{nothing}");
    }
    assert!(list("", 0).await.is_empty());

    let key = RunKey { tenant: TenantId::local(), run: "aaab0002".parse().unwrap() };
    let ended = RunRow { status: RunStatus::Completed, ended_at_ms: Some(5), ..run_row() };
    let root = key.run.root();
    let agents = vec![agent(&root, AgentState::Closed, Some(terms(&root)))];
    let committed =
        store.commit(Commit { run: Some(ended.clone()), agents, ..next(&key, 1, 1, 2) }).await.unwrap();
    let entry = store.runs(&key.tenant, "aaab", 1).await.unwrap().remove(0);
    assert_eq!((entry.row, entry.agents, entry.head), (ended, 1, committed.head));
    assert_eq!(entry.holder.map(|holder| holder.epoch), Some(1));
}

/// Rows change, terms do not, and the list is in the order of creation.
pub async fn agents_keep_their_terms_and_their_order(world: &dyn World) {
    let (store, key) = (world.open(), key(1));
    create(&*store, &key).await;
    let root = key.run.root();
    // More than nine children: sorted as text, 10 would precede 2.
    let ids: Vec<_> =
        std::iter::once(root.clone()).chain((1..=12).map(|number| root.child(number))).collect();
    for (head, id) in (1..).zip(&ids) {
        let agents = vec![agent(id, AgentState::Created, Some(terms(id)))];
        store.commit(Commit { agents, ..next(&key, head, 1, 1) }).await.unwrap();
    }
    let closed = AgentRow {
        final_status: Some(FinalStatus::Failed),
        close_reason: Some(CloseReason::Failed(FailKind::Timeout)),
        result: Some("half a report".to_owned()),
        error: Some(FailureReason { code: Code::Timeout, reason: "too slow: by far".to_owned() }),
        usage_json: r#"{"turns":2}"#.to_owned(),
        subtree_usage_json: r#"{"turns":3}"#.to_owned(),
        completed_at_ms: Some(99),
        ..agent(&ids[3], AgentState::Closed, None)
    };
    let asking = vec![Some(vec![3, 7]), None, Some(Vec::new())];
    for (head, events_in_force) in (14..).zip(asking) {
        let row = AgentRow {
            events_in_force: events_in_force.clone(),
            ..agent(&ids[3], AgentState::Created, None)
        };
        store.commit(Commit { agents: vec![row], ..next(&key, head, 1, 1) }).await.unwrap();
        assert_eq!(store.agents(&key).await.unwrap()[3].events_in_force, events_in_force);
    }
    let running = agent(&ids[3], AgentState::Running, None);
    for (head, row) in [(17, running), (18, closed.clone())] {
        store.commit(Commit { agents: vec![row], ..next(&key, head, 1, 1) }).await.unwrap();
    }
    let rows = store.agents(&key).await.unwrap();
    assert_eq!(rows.iter().map(|row| &row.id).collect::<Vec<_>>(), ids.iter().collect::<Vec<_>>());
    assert!(rows.iter().all(|row| row.terms == Some(terms(&row.id))));
    assert_eq!(rows[3], AgentRow { terms: Some(terms(&ids[3])), ..closed });
    assert_eq!(rows[4].state, AgentState::Created);
}

/// Terms are set once, with the first row, and never again.
pub async fn agents_must_be_new_or_known(world: &dyn World) {
    let (store, key) = (world.open(), key(1));
    create(&*store, &key).await;
    let root = key.run.root();
    let new = || agent(&root, AgentState::Running, Some(terms(&root)));
    let commit = |agents| Commit { agents, ..next(&key, 1, 1, 0) };
    let refused = [vec![agent(&root, AgentState::Running, None)], vec![new(), new()]];
    for agents in refused {
        assert!(matches!(store.commit(commit(agents)).await, Err(StoreError::Failed(_))));
    }
    store.commit(commit(vec![new(), agent(&root, AgentState::Failed, None)])).await.expect("new, then known");
    assert!(matches!(store.commit(commit(vec![new()])).await, Err(StoreError::Failed(_))));
    assert_eq!(store.agents(&key).await.unwrap()[0].state, AgentState::Failed);
}

/// The same run id in two tenants is two runs, and neither tenant sees data of the other.
pub async fn tenants_do_not_see_each_other(world: &dyn World) {
    let store = world.open();
    let keys =
        ["one", "two"].map(|tenant| RunKey { tenant: TenantId::new(tenant), run: RunId::from_random(1) });
    create(&*store, &keys[0]).await;
    append(&*store, &keys[0], 1, 1, 4).await;
    let unknown = || StoreError::UnknownRun(keys[1].run.clone());
    assert_eq!(store.read(&keys[1], 0, 9).await, Err(unknown()));
    assert_eq!(store.claim(&keys[1]).await, Err(unknown()));
    assert_eq!(store.agents(&keys[1]).await, Err(unknown()));
    assert!(store.runs(&keys[1].tenant, "", 9).await.unwrap().is_empty());
    create(&*store, &keys[1]).await;
    assert_eq!(store.head(&keys[1]).await.unwrap().seq, 1);
    assert_eq!(store.head(&keys[0]).await.unwrap().seq, 5);
    assert_eq!(store.runs(&keys[1].tenant, "", 9).await.unwrap().len(), 1);
    let heads = [store.head(&keys[0]).await.unwrap(), store.head(&keys[1]).await.unwrap()];
    assert_ne!(heads[0].hash, heads[1].hash);
}

/// A check of a store in use finds no problem.
pub async fn a_healthy_store_has_no_problems(world: &dyn World) {
    let (store, other) = (world.open(), world.open());
    for number in 0..5 {
        create(&*store, &key(number)).await;
        append(&*store, &key(number), 1, 1, number).await;
    }
    let large = super::fixture::blob(vec![1; 400_000]);
    store.commit(Commit { blobs: vec![large], ..next(&key(0), 1, 1, 1) }).await.unwrap();
    for store in [store, other] {
        assert_eq!(store.check().await.unwrap().problems, Vec::<String>::new());
    }
}
