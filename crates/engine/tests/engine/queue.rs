//! Slots: how many calls run at once, in which order, and that no tree can deadlock on them.

use std::sync::{Arc, Mutex};

use posse_domain::event::{EffectClass, EventBody, QueuedFor};
use posse_models::scripted::ScriptedAnswer;
use serde_json::json;

use crate::tools::{Latch, slow_to_act};
use crate::world::{World, background, child};

fn text(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_slot_and_three_levels_never_deadlock() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (0..=2, 1) => text("")
            .call("task", child("lead", "a"))
            .call("probe", json!({}))
            .call("task", background("lead", "b"))
            .call("task_status", json!({"wait_ms": 1})),
        (0..=2, 2) => text("").call("probe", json!({})).call("task", child("builder", "c")),
        _ => text("done"),
    });
    let mut spec = world.spec();
    spec.terms.parallel = 1;
    spec.max_depth = 3;
    for definition in &mut spec.definitions {
        definition.parallel = Some(1);
    }
    let ended = world.run(spec).await;
    assert_eq!(ended.status(), "completed");
    assert_eq!(ended.run.failed, []);
    assert_eq!(
        ended.run.agent_count(),
        1 + 3 + 2 * 3 + 4 * 3,
        "every lead of three levels has three children"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_than_the_limit_run_at_once() {
    const LIMIT: usize = 3;
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => (0..10).fold(text(""), |answer, n| answer.call("task", child("scout", &n.to_string()))),
        _ => text("done"),
    })
    .holding(move |request| (request.depth == 1).then(|| held.clone()));
    let process = world.process();
    let mut spec = world.spec();
    spec.terms.parallel = u32::try_from(LIMIT).expect("small");
    let handle = process.runtime.start(spec).await.expect("started");
    latch.reached(LIMIT).await;
    let queued: Vec<QueuedFor> = world
        .store_events(handle.id())
        .await
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::SubagentQueued(e) => Some(e.waits_for),
            _ => None,
        })
        .collect();
    assert_eq!(queued, [QueuedFor::Slot; 10 - LIMIT], "those that wait say so");
    assert_eq!(world.asked_by_depth(1), LIMIT);
    latch.open();
    let ended = world.ended(&handle).await;
    assert_eq!(ended.run.agent_count(), 11);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definitions_limit_queues_its_own_and_nobody_else() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("")
            .call("task", child("scout", "1"))
            .call("task", child("scout", "2"))
            .call("task", child("scout", "3"))
            .call("task", child("lead", "4")),
        _ => text("done"),
    })
    .holding(move |request| (&*request.definition == "scout").then(|| held.clone()));
    let process = world.process();
    let mut spec = world.spec();
    spec.definitions.iter_mut().find(|definition| definition.name == "scout").expect("scout").parallel =
        Some(1);
    let handle = process.runtime.start(spec).await.expect("started");
    let lead = handle.id().root().child(4);
    world
        .until(handle.id(), |event| event.agent == lead && event.body.kind() == "agent.subagent_closed")
        .await;
    latch.reached(1).await;
    assert_eq!(world.asked_by_depth(1), 2, "one scout and the lead");
    latch.open();
    let ended = world.ended(&handle).await;
    let started: Vec<&str> = ended
        .events
        .iter()
        .filter(|event| matches!(event.body, EventBody::SubagentStarted(_)) && event.agent != lead)
        .map(|event| event.agent.relative())
        .collect();
    assert_eq!(started, ["1", "2", "3"], "first come, first served");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_is_first_come_first_served() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = order.clone();
    let world = World::new(move |request| match (request.depth, request.turn) {
        (0, 1) => (0..20).fold(text(""), |answer, n| answer.call("task", child("scout", &n.to_string()))),
        (1, 1) => {
            seen.lock().expect("no panic while it is held").push(request.agent.number().expect("a child"));
            text("").call("probe", json!({}))
        }
        _ => text("done"),
    });
    let mut spec = world.spec();
    spec.terms.parallel = 1;
    world.run(spec).await;
    let order = order.lock().expect("no panic while it is held").clone();
    assert_eq!(order, (1..=20).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_one_reply_that_change_things_run_in_their_order() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|request| match request.turn {
        1 => text("")
            .call("probe", json!({"n": 1}))
            .call("probe", json!({"n": 2}))
            .call("hold", json!({}))
            .call("probe", json!({"n": 3}))
            .call("strike", json!({})),
        _ => text("done"),
    })
    .with_tool(move |outside| slow_to_act("hold", EffectClass::Exec, outside, &held));
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("started");
    latch.reached(1).await;
    let before: Vec<String> = world.outside.all().into_iter().map(|(tool, ..)| tool).collect();
    assert_eq!(
        before,
        ["probe", "probe", "hold"],
        "a change waits for every look before it, and all wait for it"
    );
    latch.open();
    world.ended(&handle).await;
    let after: Vec<String> = world.outside.all().into_iter().map(|(tool, ..)| tool).collect();
    assert_eq!(after, ["probe", "probe", "hold", "probe", "strike"]);
}
