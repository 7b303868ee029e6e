//! Cancels: they are journalled first, they end the whole subtree, and nothing starts after them. The check of every
//! run asserts that nothing begins after a cancel. These tests vary the moment of the cancel.

use posse_domain::event::{EffectClass, EventBody};
use posse_models::scripted::ScriptedAnswer;
use serde_json::json;

use crate::tools::{Latch, slow_to_act, slow_to_prepare};
use crate::world::{World, background, child};

fn text(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text)
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_the_root_ends_the_whole_tree_children_first() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|request| match (request.depth, request.turn) {
        (0 | 1, 1) => {
            text("").call("task", child("lead", "deeper")).call("task", background("lead", "deeper"))
        }
        _ => text("never"),
    })
    .holding(move |request| (request.depth == 2).then(|| held.clone()));
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("started");
    latch.reached(4).await;
    world.cancel(&handle.id().root()).await;
    let ended = world.ended(&handle).await;
    assert_eq!((ended.status(), ended.text()), ("cancelled", "enough".to_owned()));
    assert_eq!(ended.run.agent_count(), 7);
    for event in &ended.events {
        if let EventBody::SubagentClosed(closed) = &event.body {
            assert_eq!(closed.close_reason.as_str(), "cancelled");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_child_leaves_the_rest_alone() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|request| match (request.agent.relative(), request.turn) {
        ("0", 1) => text("").call("task", child("scout", "one")).call("task", child("scout", "two")),
        _ => text("done"),
    })
    .holding(move |request| (request.agent.relative() == "1").then(|| held.clone()));
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("started");
    latch.reached(1).await;
    world.cancel(&handle.id().root().child(1)).await;
    let ended = world.ended(&handle).await;
    assert_eq!(ended.status(), "completed");
    let results = ended.results("0");
    assert!(results.iter().any(|(_, ok, said)| !ok && said.starts_with("CANCELLED: ")), "{results:?}");
    assert!(results.iter().any(|(_, ok, _)| *ok));
}

/// The run has only one slot, so a cancelled agent that kept its slot would block all others for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_cancelled_while_its_tool_looks_gives_its_slot_back() {
    for class in [EffectClass::Exec, EffectClass::Read, EffectClass::Net] {
        let latch = Latch::closed();
        let held = latch.clone();
        let world = World::new(|request| match (request.depth, request.turn) {
            (0, 1) => text("").call("task", child("builder", "x")),
            (1, 1) => text("").call("hold", json!({})),
            _ => text("done"),
        })
        .with_tool(move |outside| slow_to_prepare("hold", class, outside, &held));
        let process = world.process();
        let mut spec = world.spec();
        spec.terms.parallel = 1;
        let handle = process.runtime.start(spec).await.expect("started");
        latch.reached(1).await;
        let victim = handle.id().root().child(1);
        world.cancel(&victim).await;
        world.until(handle.id(), |event| matches!(event.body, EventBody::CancelRequested(_))).await;
        latch.open();
        let ended = world.ended(&handle).await;
        assert_eq!(ended.status(), "completed", "{class:?}");
        assert_eq!(world.outside.count("hold"), 0, "{class:?}: it only looked, so it never acts");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_runs_when_it_is_cancelled_is_waited_for() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", child("builder", "x")),
        (1, 1) => text("").call("hold", json!({})).call("strike", json!({})),
        _ => text("done"),
    })
    .with_tool(move |outside| slow_to_act("hold", EffectClass::Exec, outside, &held));
    let process = world.process();
    let mut spec = world.spec();
    spec.terms.parallel = 1;
    let handle = process.runtime.start(spec).await.expect("started");
    latch.reached(1).await;
    world.cancel(&handle.id().root().child(1)).await;
    world.until(handle.id(), |event| matches!(event.body, EventBody::CancelRequested(_))).await;
    latch.open();
    let ended = world.ended(&handle).await;
    let results = ended.results("1");
    assert_eq!(results.len(), 2);
    assert!(results[0].1, "what ran to its end has its true result: {results:?}");
    assert!(!results[1].1 && results[1].2.starts_with("CANCELLED: "), "{results:?}");
    assert_eq!(world.outside.count("strike"), 0, "nothing starts after the cancel");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_queue_is_left_by_all_who_stood_in_it() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|request| match (request.agent.relative(), request.turn) {
        ("0", 1) => (0..4).fold(text(""), |answer, _| answer.call("task", background("builder", "x"))),
        ("0", 2) => (1..=4).fold(text(""), |answer, n| {
            answer.call("task_cancel", json!({"task_id": n.to_string(), "reason": "changed my mind"}))
        }),
        _ => text("done"),
    })
    .holding(move |request| (request.depth == 1).then(|| held.clone()));
    let mut spec = world.spec();
    spec.terms.parallel = 2;
    let ended = world.run(spec).await;
    assert_eq!(ended.status(), "completed");
    assert_eq!(ended.run.failed.len(), 4);
    drop(latch);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_comes_twice_is_journalled_once() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|_| text("never")).holding(move |_| Some(held.clone()));
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("started");
    latch.reached(1).await;
    world.cancel(&handle.id().root()).await;
    world.cancel(&handle.id().root()).await;
    let ended = world.ended(&handle).await;
    assert_eq!(ended.kinds("0").iter().filter(|kind| **kind == "cancel_requested").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_journalled_before_a_crash_is_honoured_after_it() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", child("builder", "x")),
        (1, 1) => text("").call("hold", json!({})),
        _ => text("done"),
    })
    .with_tool(move |outside| slow_to_act("hold", EffectClass::Exec, outside, &held));
    let dying = world.mortal(None);
    let handle = dying.runtime.start(world.spec()).await.expect("started");
    let run = handle.id().clone();
    latch.reached(1).await;
    world.cancel(&run.root()).await;
    world.until(&run, |event| matches!(event.body, EventBody::CancelRequested(_))).await;
    dying.power.as_ref().expect("mortal").cut();
    let heir = world.process();
    let handle = world.resume(&heir, &run).await.expect("it goes on");
    let ended = world.ended(&handle).await;
    assert_eq!(ended.status(), "cancelled");
    let (ok, said) = ended.result("1");
    assert!(!ok && said.contains("Interrupted, outcome unknown"), "{said}");
    assert_eq!(world.outside.count("hold"), 1, "an exec is never run again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_posted_while_nobody_owns_the_run_is_taken_by_the_next_owner() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|_| text("never")).holding(move |_| Some(held.clone()));
    let dying = world.mortal(None);
    let handle = dying.runtime.start(world.spec()).await.expect("started");
    let run = handle.id().clone();
    latch.reached(1).await;
    dying.power.as_ref().expect("mortal").cut();
    world.cancel(&run.root()).await;
    let heir = world.process();
    let handle = world.resume(&heir, &run).await.expect("it goes on");
    assert_eq!(world.ended(&handle).await.status(), "cancelled");
    let left = posse_engine::ports::Store::mail(world.store(), &world.key(&run)).await.expect("mail");
    assert_eq!(left, [], "each command is taken once");
}

/// A kill does not wait for a command, and can overtake an earlier cancel that waits for it.
#[tokio::test(start_paused = true)]
async fn a_kill_ends_a_command_at_once_and_says_that_nobody_knows_what_it_did() {
    for cancel_first in [false, true] {
        let latch = Latch::closed();
        let held = latch.clone();
        let world = World::new(|request| match (request.depth, request.turn) {
            (0, 1) => text("").call("task", child("builder", "x")),
            (1, 1) => text("").call("hold", json!({})),
            _ => text("done"),
        })
        .with_tool(move |outside| slow_to_act("hold", EffectClass::Exec, outside, &held));
        let process = world.process();
        let mut spec = world.spec();
        spec.terms.parallel = 1;
        let handle = process.runtime.start(spec).await.expect("started");
        latch.reached(1).await;
        let agent = handle.id().root().child(1);
        if cancel_first {
            world.cancel(&agent).await;
            world.until(handle.id(), |event| matches!(event.body, EventBody::CancelRequested(_))).await;
        }
        let reason = "now".to_owned();
        world.post(handle.id(), posse_engine::ports::MailCommand::Cancel { agent, reason, kill: true }).await;
        // The latch stays closed: if the engine waited for the command, it would wait for ever.
        let ended = world.ended(&handle).await;
        assert_eq!(ended.status(), "completed", "the root goes on, with its one slot");
        let (ok, said) = ended.result("1");
        assert!(!ok && said.contains("Interrupted, outcome unknown"), "{said}");
        assert_eq!(world.outside.count("hold"), 1);
    }
}
