//! The lease of a run: two processes at once, a process that seemed dead, commands in the mailbox.

use std::time::Duration;

use posse_domain::event::{EventBody, Sender};
use posse_engine::ports::{MailCommand, StoreError};
use posse_engine::{ResumeOutcome, RuntimeError};
use posse_models::scripted::ScriptedAnswer;
use serde_json::json;

use crate::tools::Latch;
use crate::world::{World, child, newest};

fn text(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text)
}

/// A lease holder that is suspended past its lease loses the run, and writes nothing more when it wakes.
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_wakes_after_its_lease_writes_nothing_more() {
    let latches = [Latch::closed(), Latch::closed()];
    let held = latches.clone();
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", child("builder", "x")),
        (1, 1) => text("").call("strike", json!({})),
        _ => text("done"),
    })
    // The child's first call is made twice: by the first lease holder, and by the second.
    .holding(move |request| {
        let first = request.depth == 1 && request.turn == 1;
        first.then(|| held[asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst).min(1)].clone())
    })
    .with_lease(Duration::from_millis(1));
    // It never renews its lease, like a suspended process.
    let sleeper = world.process_that_beats(Duration::from_hours(1));
    let handle = sleeper.runtime.start(world.spec()).await.expect("started");
    latches[0].reached(1).await;
    let other = world.process();
    let heir = loop {
        match other.runtime.resume(handle.id()).await.expect("resumed") {
            ResumeOutcome::Going(heir) => break heir,
            ResumeOutcome::Held(_) => tokio::task::yield_now().await,
            ResumeOutcome::Ended(_) => panic!("it cannot have ended"),
        }
    };
    latches[1].reached(1).await;
    // The suspended process wakes and tries to write its model's reply.
    latches[0].open();
    let fenced = handle.ended().await;
    assert!(
        matches!(fenced, Err(RuntimeError::Store(StoreError::Fenced { held: 1, actual: 2, .. }))),
        "{fenced:?}"
    );
    latches[1].open();
    let ended = world.ended(&heir).await;
    assert_eq!(ended.status(), "completed");
    assert_eq!(world.outside.count("strike"), 1, "the sleeper's reply was never acted on");
    let epochs: Vec<u64> = ended
        .events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::RunResumed(e) => Some(e.epoch),
            _ => None,
        })
        .collect();
    assert_eq!(epochs, [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_resume_at_once_one_gets_the_run() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|_| text("done")).holding(move |_| Some(held.clone()));
    let dying = world.mortal(None);
    let run = dying.runtime.start(world.spec()).await.expect("started").id().clone();
    latch.reached(1).await;
    dying.power.as_ref().expect("mortal").cut();
    let processes: Vec<_> = (0..4).map(|_| world.process()).collect();
    let all = processes.iter().map(|process| {
        let (runtime, run) = (process.runtime.clone(), run.clone());
        tokio::spawn(async move { runtime.resume(&run).await })
    });
    let mut going = Vec::new();
    for resumed in futures::future::join_all(all.collect::<Vec<_>>()).await {
        match resumed.expect("no panic").expect("resumed") {
            ResumeOutcome::Going(handle) => going.push(handle),
            ResumeOutcome::Held(holder) => assert_eq!(holder.epoch, 2),
            ResumeOutcome::Ended(_) => panic!("it cannot have ended"),
        }
    }
    assert_eq!(going.len(), 1);
    latch.open();
    world.ended(&going[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_persons_message_reaches_a_running_agent_once_and_an_ended_one_never() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", child("scout", "x")),
        (0, 2) => text("").call("probe", json!({})),
        (0, _) => text(&newest(request)),
        _ => text("found"),
    })
    .holding(move |request| (request.depth == 0 && request.turn == 2).then(|| held.clone()));
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("started");
    latch.reached(1).await;
    let root = handle.id().root();
    let send =
        |agent: posse_domain::id::AgentId, text: &str| MailCommand::Send { agent, text: text.to_owned() };
    world.post(handle.id(), send(root.child(1), "too late")).await;
    world.post(handle.id(), send(root.child(9), "nobody")).await;
    world.post(handle.id(), send(root.clone(), "Look left.")).await;
    world.until(handle.id(), |event| matches!(event.body, EventBody::MessageReceived(_))).await;
    latch.open();
    let ended = world.ended(&handle).await;
    assert!(ended.text().contains("Message from the user:\nLook left."), "{}", ended.text());
    let messages: Vec<_> = ended
        .events
        .iter()
        .filter(|event| matches!(&event.body, EventBody::MessageReceived(e) if e.from == Sender::Person))
        .collect();
    assert_eq!(messages.len(), 1);
    let left = posse_engine::ports::Store::mail(world.store(), &world.key(handle.id())).await.expect("mail");
    assert_eq!(left, [], "all were taken, also those that led to nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_carries_many_runs_at_once() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", child("scout", "x")),
        _ => text("done"),
    });
    let process = world.process();
    let mut handles = Vec::new();
    for _ in 0..20 {
        handles.push(process.runtime.start(world.spec()).await.expect("started"));
    }
    for handle in &handles {
        assert_eq!(world.ended(handle).await.run.agent_count(), 2);
    }
    let ids: std::collections::HashSet<_> = handles.iter().map(|handle| handle.id().clone()).collect();
    assert_eq!(ids.len(), 20);
}
