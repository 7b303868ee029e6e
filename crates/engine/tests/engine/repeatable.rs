//! The same script gives the same events for every agent, except numbers, hashes, times and ids.

use std::collections::BTreeMap;

use posse_domain::event::{Event, EventBody};
use posse_domain::hash::Hash;
use posse_models::scripted::ScriptedAnswer;
use serde_json::{Value, json};

use crate::world::{EndedRun, World, child};

fn text(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text)
}

pub(crate) fn tree() -> World {
    World::new(|request| match (request.agent.relative(), request.attempt, request.turn) {
        ("0", _, 1) => text("")
            .call("task", child("lead", "a"))
            .call("task", child("scout", "b"))
            .call("task", child("scout", "c"))
            .call("task", child("nobody", "d")),
        ("0", _, 2) => text("").call("strike", json!({})).call("probe", json!({})),
        ("1", _, 1) => text("").call("task", child("scout", "e")).call("task", child("scout", "f")),
        ("2", 1, _) => ScriptedAnswer::error(Some(529), "overloaded"),
        ("3", _, 1) => text("").call("boom", json!({})),
        _ => text("done"),
    })
}

/// The parts of an event that must be equal, and the order key within an agent. Results of concurrent calls may come in
/// any order.
fn essence(event: &Event, run: &str) -> (String, Value) {
    let mut detail =
        serde_json::from_str::<Value>(&event.body.detail().to_string().replace(run, "RUN")).expect("json");
    forget(&mut detail);
    let key = match &event.body {
        EventBody::ToolFinished(e) => format!("tool_finished {}", e.call_id),
        _ => String::new(),
    };
    (format!("{}{key}", event.body.kind()), detail)
}

/// Removes the parts that may differ: times, and hashes of texts that contain ids.
fn forget(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for gone in ["elapsed_ms", "wall_ms", "contract_hash"] {
                map.remove(gone);
            }
            map.values_mut().for_each(forget);
        }
        Value::Array(items) => items.iter_mut().for_each(forget),
        _ => {}
    }
}

pub(crate) fn per_agent(ended: &EndedRun) -> BTreeMap<String, Vec<(String, Value)>> {
    let run = ended.run.id.as_str();
    let mut agents: BTreeMap<String, Vec<(String, Value)>> = BTreeMap::new();
    for event in &ended.events {
        agents.entry(event.agent.relative().to_owned()).or_default().push(essence(event, run));
    }
    for events in agents.values_mut() {
        // Sorts adjacent results by their calls.
        for group in
            events.chunk_by_mut(|a, b| a.0.contains("tool_finished ") && b.0.contains("tool_finished "))
        {
            group.sort_by(|a, b| a.0.cmp(&b.0));
        }
    }
    agents
}

pub(crate) fn requests(ended: &EndedRun) -> BTreeMap<(String, u32, u32), Hash> {
    ended
        .events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::ModelCalled(e) => {
                Some(((event.agent.relative().to_owned(), e.attempt, e.turn), e.request_hash))
            }
            _ => None,
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_script_gives_the_same_events_for_every_agent() {
    let world = tree();
    let first = world.run(world.spec()).await;
    let expected = per_agent(&first);
    for _ in 0..20 {
        let again = world.run(world.spec()).await;
        assert_ne!(again.run.id, first.run.id);
        let found = per_agent(&again);
        for (agent, events) in &expected {
            assert_eq!(found.get(agent), Some(events), "{agent}");
        }
        assert_eq!(found.len(), expected.len());
        assert_eq!(requests(&again), requests(&first), "requests can be compared between runs");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_differs_has_another_hash() {
    let hashes = |said: &'static str| async move {
        let world = World::new(move |request| match (request.depth, request.turn) {
            (0, 1) => text("").call("task", child("scout", said)),
            _ => text("done"),
        });
        requests(&world.run(world.spec()).await)
    };
    let (one, other) = (hashes("left").await, hashes("right").await);
    let at = |agent: &str, turn: u32| (agent.to_owned(), 1, turn);
    assert_eq!(one[&at("0", 1)], other[&at("0", 1)]);
    assert_ne!(one[&at("1", 1)], other[&at("1", 1)]);
    assert_ne!(one[&at("0", 2)], other[&at("0", 2)]);
}

/// A user's message between two turns is part of the next request, and so of its hash.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_changes_the_hash_of_the_request_that_carries_it() {
    let hash = |said: &'static str| async move {
        let latch = crate::tools::Latch::closed();
        let held = latch.clone();
        let world = World::new(|request| match request.turn {
            1 => text("").call("probe", json!({})),
            _ => text("done"),
        })
        .holding(move |request| (request.turn == 1).then(|| held.clone()));
        let process = world.process();
        let handle = process.runtime.start(world.spec()).await.expect("started");
        latch.reached(1).await;
        let agent = handle.id().root();
        world
            .post(handle.id(), posse_engine::ports::MailCommand::Send { agent, text: said.to_owned() })
            .await;
        world.until(handle.id(), |event| matches!(event.body, EventBody::MessageReceived(_))).await;
        latch.open();
        let ended = world.ended(&handle).await;
        requests(&ended)[&("0".to_owned(), 1, 2)]
    };
    assert_ne!(hash("left").await, hash("right").await);
}
