//! `verify` at any moment of a run, after a resume, and against every kind of tampering.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use posse_domain::event::{EventKind, StoredEvent};
use posse_domain::hash::Hash;
use posse_domain::id::RunId;
use posse_domain::lifecycle::{AgentState, RunStatus};
use posse_engine::ports::{
    AgentRow, Capabilities, Claim, Commit, CommitReceipt, Epoch, Head, Health, Mail, MailCommand, Pulse,
    RemovedRun, RunEntry, RunKey, RunSpending, Store, StoreError, TenantId,
};
use posse_engine::{RuntimeError, VerifyError, verify};
use posse_models::scripted::ScriptedAnswer;
use posse_store::MemoryStore;
use serde_json::json;
use tokio::sync::watch;

use crate::checks;
use crate::tools::Latch;
use crate::world::{World, background, child, newest};

fn text(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_verifies_while_it_works() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", child("lead", "x")).call("task", background("scout", "y")),
        (1 | 2, 1) => text("").call("probe", json!({})).call("task", child("scout", "z")),
        _ => text("done"),
    })
    .holding(move |request| (request.turn == 2).then(|| held.clone()));
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("started");
    let key = world.key(handle.id());
    // Two agents, the scouts, wait at the latch. Both have spent tokens, and so have the subtrees above them.
    latch.reached(2).await;
    let verified = verify(world.store(), &key).await.expect("it holds together");
    assert!(verified.events > 10);
    latch.open();
    world.ended(&handle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_verifies_at_every_commit() {
    let world = Arc::new(World::new(|request| match (request.depth, request.turn) {
        (0 | 1, 1 | 2) => text("").call("task", child("lead", "x")).call("task", background("scout", "y")),
        _ => text("done"),
    }));
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("started");
    let key = world.key(handle.id());
    let looking = world.clone();
    let watcher = tokio::spawn(async move {
        let mut pulse = looking.store().watch(&key);
        let mut looks = 0;
        loop {
            verify(looking.store(), &key).await.expect("it holds together at any moment");
            if !grows(&looking, &key, &mut pulse).await {
                return looks;
            }
            looks += 1;
        }
    });
    world.ended(&handle).await;
    watcher.await.expect("no panic");
}

/// Waits for the next commit of the run. Returns whether the run is still open.
async fn grows(world: &World, key: &RunKey, pulse: &mut watch::Receiver<Pulse>) -> bool {
    let events = checks::read(world.store(), key).await;
    let ended = events.iter().any(|event| EventKind::from(&event.body).ends_run());
    if !ended {
        pulse.changed().await.expect("the store lives");
    }
    !ended
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_request_keeps_its_title_over_a_resume() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|_| text("done")).holding(move |_| Some(held.clone()));
    let mut spec = world.spec();
    spec.text = format!("The first line.\n{}", "and more\n".repeat(1_000)).into();
    let dying = world.mortal(None);
    let run = dying.runtime.start(spec).await.expect("started").id().clone();
    latch.reached(1).await;
    dying.power.as_ref().expect("mortal").cut();
    latch.open();
    let heir = world.process();
    let handle = world.resume(&heir, &run).await.expect("it goes on");
    world.ended(&handle).await;
    let row = world.store().runs(&TenantId::local(), run.as_str(), 1).await.expect("runs").remove(0).row;
    assert_eq!((row.title.as_str(), row.status), ("The first line.", RunStatus::Completed));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_left_open_keeps_its_report_over_a_resume_until_its_parent_closes_it() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", child("scout", "x")).call("task", child("scout", "y")),
        (0, 2) => text("").call("task_status", json!({})).call("task_close", json!({"task_id": "1"})),
        (0, _) => text(&newest(request)),
        _ => text("found"),
    })
    .holding(move |request| (request.depth == 0 && request.turn == 2).then(|| held.clone()));
    let mut spec = world.spec();
    spec.terms.close_on_completion = false;
    let dying = world.mortal(None);
    let run = dying.runtime.start(spec).await.expect("started").id().clone();
    latch.reached(1).await;
    dying.power.as_ref().expect("mortal").cut();
    latch.open();
    let heir = world.process();
    let handle = world.resume(&heir, &run).await.expect("it goes on");
    let ended = world.ended(&handle).await;
    assert!(
        ended.text().contains("completed") && ended.text().contains("Task 1 is closed now."),
        "{}",
        ended.text()
    );
    let rows = world.store().agents(&world.key(&run)).await.expect("agents");
    for row in rows.iter().filter(|row| !row.id.is_root()) {
        assert_eq!((row.state, row.result.as_deref()), (AgentState::Closed, Some("found")), "{}", row.id);
    }
    let closes = |agent: &str| {
        ended.position(|e| e.agent.relative() == agent && e.body.kind() == "agent.subagent_closed")
    };
    assert!(closes("1") < closes("2"), "the other one is closed at the parent's end");
}

type Alter = fn(&mut Vec<StoredEvent>);

/// A change that another program made to a journal.
#[derive(Clone)]
enum TamperTarget {
    Event(Alter),
    Agents(fn(&mut Vec<AgentRow>)),
    Run(fn(&mut RunEntry)),
}

struct TamperedStore<'a> {
    store: &'a MemoryStore,
    how: TamperTarget,
}

async fn verdict(world: &World, run: &RunId, how: TamperTarget) -> Result<(), VerifyError> {
    let memory = world.store().another_process();
    let tampered = TamperedStore { store: Box::leak(Box::new(memory)), how };
    verify(&tampered, &world.key(run)).await.map(|_| ())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_tampering_shows() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", child("scout", "x")).call("strike", json!({})),
        _ => text("done"),
    });
    let ended = world.run(world.spec()).await;
    let run = &ended.run.id;
    let last = ended.events.len() as u64;
    let events: [(&str, u64, Alter); 9] = [
        ("dropped", 5, |events| drop(events.remove(4))),
        ("doubled", 6, |events| {
            let copy = events[4].clone();
            events.insert(5, copy);
        }),
        ("swapped", 5, |events| events.swap(4, 5)),
        ("swapped and numbered anew", 5, |events| {
            events.swap(4, 5);
            (events[4].seq, events[5].seq) = (5, 6);
        }),
        ("payload", 3, |events| events[2].payload = events[2].payload.replace("turn", "Turn")),
        ("time", 3, |events| events[2].at_ms += 1),
        ("agent", 3, |events| events[2].agent = events[2].agent.child(1)),
        ("kind", 2, |events| events[1].kind = "agent.model_replied".into()),
        ("version", 2, |events| events[1].version += 1),
    ];
    for (name, seq, how) in events {
        match verdict(&world, run, TamperTarget::Event(how)).await {
            Err(VerifyError::Event { seq: found, .. }) => assert_eq!(found, seq, "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
    // A truncated journal differs from the stored head.
    let cut = verdict(&world, run, TamperTarget::Event(|events| drop(events.pop()))).await;
    assert!(matches!(cut, Err(VerifyError::Event { seq, .. }) if seq == last), "{cut:?}");
    let rows: [fn(&mut Vec<AgentRow>); 5] = [
        |rows| drop(rows.pop()),
        |rows| rows[1].state = AgentState::Running,
        |rows| rows[1].result = Some("something better".to_owned()),
        |rows| rows[0].subtree_usage_json = "{}".to_owned(),
        |rows| rows[1].terms.as_mut().expect("terms").permissions_json = "{}".to_owned(),
    ];
    for (at, how) in rows.into_iter().enumerate() {
        let found = verdict(&world, run, TamperTarget::Agents(how)).await;
        assert!(matches!(found, Err(VerifyError::Tables(_))), "{at}: {found:?}");
    }
    let entries: [fn(&mut RunEntry); 3] = [
        |entry| entry.row.status = RunStatus::Failed,
        |entry| entry.row.title = "another".to_owned(),
        |entry| entry.row.ended_at_ms = None,
    ];
    for (at, how) in entries.into_iter().enumerate() {
        let found = verdict(&world, run, TamperTarget::Run(how)).await;
        assert!(matches!(found, Err(VerifyError::Tables(_))), "{at}: {found:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_does_not_exist_is_said_to_be_unknown() {
    let world = World::new(|_| text("done"));
    let run: RunId = "zzzzzzzz".parse().expect("id");
    let process = world.process();
    let unknown = |error: &StoreError| matches!(error, StoreError::UnknownRun(_));
    assert!(
        matches!(verify(world.store(), &world.key(&run)).await, Err(VerifyError::Store(error)) if unknown(&error))
    );
    assert!(matches!(process.runtime.resume(&run).await, Err(RuntimeError::Store(error)) if unknown(&error)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_somebody_owns_is_not_taken_and_one_that_ended_is_not_resumed() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|_| text("done")).holding(move |_| Some(held.clone()));
    let owner = world.process();
    let handle = owner.runtime.start(world.spec()).await.expect("started");
    let other = world.process();
    let held = other.runtime.resume(handle.id()).await;
    assert!(matches!(held, Ok(posse_engine::ResumeOutcome::Held(holder)) if holder.epoch == 1));
    latch.open();
    world.ended(&handle).await;
    let before = world.store().head(&world.key(handle.id())).await.expect("head");
    assert!(matches!(other.runtime.resume(handle.id()).await, Ok(posse_engine::ResumeOutcome::Ended(_))));
    assert_eq!(
        world.store().head(&world.key(handle.id())).await.expect("head"),
        before,
        "nothing was written"
    );
}

impl Store for TamperedStore<'static> {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'static, Result<CommitReceipt, StoreError>> {
        self.store.commit(commit)
    }

    fn read(
        &self,
        key: &RunKey,
        after: u64,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<StoredEvent>, StoreError>> {
        let read = self.store.read(key, after, limit);
        let how = self.how.clone();
        async move {
            let mut events = read.await?;
            match (how, after) {
                (TamperTarget::Event(how), 0) => how(&mut events),
                // The first page contained all events.
                (TamperTarget::Event(_), _) => events.clear(),
                _ => {}
            }
            Ok(events)
        }
        .boxed()
    }

    fn head(&self, key: &RunKey) -> BoxFuture<'static, Result<Head, StoreError>> {
        self.store.head(key)
    }

    fn watch(&self, key: &RunKey) -> watch::Receiver<Pulse> {
        self.store.watch(key)
    }

    fn claim(&self, key: &RunKey) -> BoxFuture<'static, Result<Claim, StoreError>> {
        self.store.claim(key)
    }

    fn heartbeat(&self, key: &RunKey, epoch: Epoch) -> BoxFuture<'static, Result<(), StoreError>> {
        self.store.heartbeat(key, epoch)
    }

    fn release(&self, key: &RunKey, epoch: Epoch) -> BoxFuture<'static, Result<(), StoreError>> {
        self.store.release(key, epoch)
    }

    fn claimable(&self, tenant: &TenantId, limit: u32) -> BoxFuture<'static, Result<Vec<RunId>, StoreError>> {
        self.store.claimable(tenant, limit)
    }

    fn post(&self, key: &RunKey, command: MailCommand) -> BoxFuture<'static, Result<u64, StoreError>> {
        self.store.post(key, command)
    }

    fn mail(&self, key: &RunKey) -> BoxFuture<'static, Result<Vec<Mail>, StoreError>> {
        self.store.mail(key)
    }

    fn get_blob(&self, tenant: &TenantId, hash: &Hash) -> BoxFuture<'static, Result<Vec<u8>, StoreError>> {
        self.store.get_blob(tenant, hash)
    }

    fn runs(
        &self,
        tenant: &TenantId,
        prefix: &str,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<RunEntry>, StoreError>> {
        let runs = self.store.runs(tenant, prefix, limit);
        let how = self.how.clone();
        async move {
            let mut runs = runs.await?;
            if let TamperTarget::Run(how) = how {
                runs.iter_mut().for_each(how);
            }
            Ok(runs)
        }
        .boxed()
    }

    fn agents(&self, key: &RunKey) -> BoxFuture<'static, Result<Vec<AgentRow>, StoreError>> {
        let agents = self.store.agents(key);
        let how = self.how.clone();
        async move {
            let mut agents = agents.await?;
            if let TamperTarget::Agents(how) = how {
                how(&mut agents);
            }
            Ok(agents)
        }
        .boxed()
    }

    fn spending(
        &self,
        tenant: &TenantId,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<RunSpending>, StoreError>> {
        self.store.spending(tenant, limit)
    }

    fn remove(&self, key: &RunKey) -> BoxFuture<'static, Result<Head, StoreError>> {
        self.store.remove(key)
    }

    fn removed(
        &self,
        tenant: &TenantId,
        prefix: &str,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<RemovedRun>, StoreError>> {
        self.store.removed(tenant, prefix, limit)
    }

    fn check_run(&self, key: &RunKey) -> BoxFuture<'static, Result<Health, StoreError>> {
        self.store.check_run(key)
    }

    fn check(&self) -> BoxFuture<'static, Result<Health, StoreError>> {
        self.store.check()
    }
}
