//! Conformance checks of commits: all or nothing, in order, without gaps.

use futures::future::join_all;
use posse_domain::hash::Hash;
use posse_domain::lifecycle::{AgentState, RunStatus};
use posse_engine::ports::{Basis, Commit, StoreError};

use super::World;
use super::fixture::{agent, all, append, create, empty, event, first, key, next, run_row, terms};

/// Events are numbered from 1 without gaps, and each commit returns the new end of the journal.
pub async fn numbers_have_no_gaps(world: &dyn World) {
    let (store, key) = (world.open(), key(1));
    let mut head = create(&*store, &key).await.head;
    for count in [1, 3, 2, 7] {
        let committed = append(&*store, &key, head.seq, 1, count).await;
        assert_eq!(committed.head.seq, head.seq + count);
        head = committed.head;
    }
    let numbers: Vec<u64> = all(&*store, &key).await.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=14).collect::<Vec<_>>());
    assert_eq!(store.head(&key).await, Ok(head));
}

/// A caller that does not know the end of the journal cannot append to it.
pub async fn a_stale_head_is_a_conflict(world: &dyn World) {
    let (store, key) = (world.open(), key(1));
    create(&*store, &key).await;
    append(&*store, &key, 1, 1, 2).await;
    for expected in [0, 1, 2, 4] {
        let refused = store.commit(next(&key, expected, 1, 1)).await;
        assert_eq!(refused, Err(StoreError::Conflict { run: key.run.clone(), expected, actual: 3 }));
    }
    assert_eq!(all(&*store, &key).await.len(), 3);
}

/// Commits that are handed over before earlier ones are durable are executed in call order.
pub async fn commits_in_flight_keep_their_order(world: &dyn World) {
    let (store, key) = (world.open(), key(1));
    let mut flight = vec![store.commit(first(&key))];
    flight.extend((1..200).map(|head| store.commit(next(&key, head, 1, 1))));
    for (place, committed) in join_all(flight).await.into_iter().enumerate() {
        assert_eq!(committed.expect("a commit in order").head.seq, place as u64 + 1);
    }
    assert_eq!(all(&*store, &key).await.len(), 200);
}

/// If a commit fails, later commits of the same run that are in flight fail too.
pub async fn after_a_failed_commit_those_behind_it_fail(world: &dyn World) {
    let (store, key) = (world.open(), key(1));
    create(&*store, &key).await;
    let bad =
        Commit { agents: vec![agent(&key.run.root(), AgentState::Running, None)], ..next(&key, 1, 1, 1) };
    let flight = [bad, next(&key, 2, 1, 1), next(&key, 3, 1, 1)].map(|commit| store.commit(commit));
    for refused in join_all(flight).await {
        refused.expect_err("a commit behind a failed one");
    }
    assert_eq!(all(&*store, &key).await.len(), 1);
    append(&*store, &key, 1, 1, 1).await;
}

/// If one part of a commit is refused, no other part is stored.
pub async fn a_commit_is_whole_or_nothing(world: &dyn World) {
    let (store, key) = (world.open(), key(1));
    create(&*store, &key).await;
    let root = key.run.root();
    let content = super::fixture::blob(b"never".to_vec());
    let bad = Commit {
        agents: vec![
            agent(&root, AgentState::Running, Some(terms(&root))),
            agent(&root.child(1), AgentState::Running, None),
        ],
        blobs: vec![content.clone()],
        run: Some(posse_engine::ports::RunRow { status: RunStatus::Failed, ..run_row() }),
        ..next(&key, 1, 1, 3)
    };
    store.commit(bad).await.expect_err("an agent without terms");
    assert_eq!(all(&*store, &key).await.len(), 1);
    assert_eq!(store.agents(&key).await, Ok(Vec::new()));
    assert_eq!(store.runs(&key.tenant, "", 9).await.unwrap()[0].row.status, RunStatus::Running);
    assert_eq!(store.get_blob(&key.tenant, &content.hash).await, Err(StoreError::UnknownBlob(content.hash)));
}

/// Among many concurrent commits, a bad one fails alone.
pub async fn one_bad_commit_hurts_no_other(world: &dyn World) {
    let store = world.open();
    for number in 0..50 {
        create(&*store, &key(number)).await;
    }
    let commit = |number: u64| {
        let (key, head) = (key(number), if number % 7 == 3 { 5 } else { 1 });
        let mut commit = next(&key, head, if number % 7 == 4 { 9 } else { 1 }, 2);
        if number % 7 == 5 {
            commit.agents.push(agent(&key.run.root(), AgentState::Running, None));
        }
        store.commit(commit)
    };
    let outcomes = join_all((0..50).map(commit)).await;
    for (number, outcome) in outcomes.into_iter().enumerate() {
        let good = !matches!(number % 7, 3..=5);
        assert_eq!(outcome.is_ok(), good, "commit {number}: {outcome:?}");
        assert_eq!(all(&*store, &key(number as u64)).await.len(), if good { 3 } else { 1 });
    }
}

/// An existing run cannot be created again, by its lease holder or by another process.
pub async fn a_run_is_created_once(world: &dyn World) {
    let (store, other, key) = (world.open(), world.open(), key(1));
    assert_eq!(create(&*store, &key).await.epoch, 1);
    for store in [&store, &other] {
        assert_eq!(store.commit(first(&key)).await, Err(StoreError::Exists(key.run.clone())));
    }
    assert_eq!(all(&*store, &key).await.len(), 1);
}

/// Every operation on a run that does not exist returns `UnknownRun`.
pub async fn a_run_must_exist(world: &dyn World) {
    let (store, key) = (world.open(), key(1));
    let unknown = StoreError::UnknownRun(key.run.clone());
    assert_eq!(store.commit(next(&key, 0, 1, 1)).await, Err(unknown.clone()));
    assert_eq!(store.read(&key, 0, 1).await, Err(unknown.clone()));
    assert_eq!(store.head(&key).await, Err(unknown.clone()));
    assert_eq!(store.claim(&key).await, Err(unknown.clone()));
    assert_eq!(store.heartbeat(&key, 1).await, Err(unknown.clone()));
    assert_eq!(store.mail(&key).await, Err(unknown.clone()));
    assert_eq!(store.agents(&key).await, Err(unknown));
}

/// Agents of another run, and a new run without its row, are refused.
pub async fn what_makes_no_sense_is_refused(world: &dyn World) {
    let (store, key, other) = (world.open(), key(1), key(2));
    store.commit(Commit { run: None, ..first(&key) }).await.expect_err("no row");
    store.runs(&key.tenant, "", 9).await.map(|runs| assert!(runs.is_empty())).unwrap();
    create(&*store, &key).await;
    let nonsense = [
        Commit { events: vec![event(&other, "")], ..next(&key, 1, 1, 0) },
        Commit { agents: vec![agent(&other.run.root(), AgentState::Running, None)], ..next(&key, 1, 1, 1) },
    ];
    for commit in nonsense {
        assert!(matches!(store.commit(commit).await, Err(StoreError::Failed(_))));
    }
    assert_eq!(all(&*store, &key).await.len(), 1);
}

/// A commit without events changes the tables and does not move the head of the journal.
pub async fn a_commit_may_have_no_events(world: &dyn World) {
    let (store, key) = (world.open(), key(1));
    let created = create(&*store, &key).await;
    let root = key.run.root();
    let agents = vec![agent(&root, AgentState::Running, Some(terms(&root)))];
    let basis = Basis::Held { head: 1, epoch: 1 };
    let committed = store.commit(Commit { agents, ..empty(&key, basis) }).await.unwrap();
    assert_eq!(committed, created);
    assert_eq!(store.agents(&key).await.unwrap().len(), 1);
}

/// A commit stays one transaction, however many events it has.
pub async fn a_large_commit_is_not_split(world: &dyn World) {
    let (store, key) = (world.open(), key(1));
    create(&*store, &key).await;
    let large = store.commit(next(&key, 1, 1, 1_000));
    let behind = store.commit(next(&key, 1_001, 1, 1));
    assert_eq!(large.await.unwrap().head.seq, 1_001);
    assert_eq!(behind.await.unwrap().head.seq, 1_002);
}

/// Every hash is the domain's hash chain over the event and all earlier events, and the head has the last hash.
pub async fn events_are_chained_by_hash(world: &dyn World) {
    let store = world.open();
    for tenant in ["local", "other"] {
        let key =
            posse_engine::ports::RunKey { tenant: posse_engine::ports::TenantId::new(tenant), ..key(1) };
        create(&*store, &key).await;
        append(&*store, &key, 1, 1, 3).await;
        append(&*store, &key, 4, 1, 2).await;
        let mut previous = Hash::ZERO;
        for event in all(&*store, &key).await {
            assert_eq!(event.hash, event.expected_hash(&previous, tenant, &key.run), "event {}", event.seq);
            previous = event.hash;
        }
        assert_eq!(store.head(&key).await.unwrap().hash, previous);
    }
}
