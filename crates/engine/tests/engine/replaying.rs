//! Replays of recorded runs without their model.

use std::sync::Arc;
use std::time::Duration;

use posse_domain::code::Code;
use posse_domain::event::{EffectClass, Event, EventBody, Sender};
use posse_domain::lifecycle::Outcome;
use posse_domain::permission::{Answer, OnAsk};
use posse_engine::ports::{MailCommand, Retry};
use posse_engine::{Recording, Replay, RunRequest};
use posse_models::scripted::ScriptedAnswer;
use serde_json::json;

use crate::repeatable::{per_agent, requests};
use crate::tools::{Latch, trace};
use crate::world::{EndedRun, World, background, child};

fn text(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text)
}

fn replay_of(ended: &EndedRun) -> Replay {
    let recording = Arc::new(Recording::new(ended.events.clone()).expect("a recording"));
    Replay {
        model: Arc::new(posse_models::replay::Replay::new(recording.clone())),
        recording,
        is_own: true,
        attended: false,
    }
}

/// Replays a recorded run in this world, without its model.
pub(crate) async fn again(world: &World, spec: RunRequest, recorded: &EndedRun) -> EndedRun {
    let asked = world.asked.lock().expect("no panic while it is held").len();
    let replay = replay_of(recorded);
    let attended = replay.recording.is_attended();
    let process = world.process();
    let handle = process.runtime.start_replay(spec, attended, replay).await.expect("started");
    let ended = world.ended(&handle).await;
    let asked_now = world.asked.lock().expect("no panic while it is held").len();
    assert_eq!(asked_now, asked, "no model is asked");
    ended
}

/// Asserts equal events for each agent, and equal requests.
pub(crate) fn assert_same(first: &EndedRun, second: &EndedRun) {
    let (expected, found) = (per_agent(first), per_agent(second));
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (agent, events) in &expected {
        assert_eq!(&found[agent], events, "{agent}");
    }
    assert_eq!(requests(first), requests(second));
}

fn failed_with(ended: &EndedRun) -> (Code, String) {
    match ended.run.outcome.as_ref().expect("an outcome") {
        Outcome::Failed { code, reason, .. } => (*code, reason.clone()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_with_retries_refusals_and_failures_is_repeated_event_by_event() {
    let world = crate::repeatable::tree();
    let first = world.run(world.spec()).await;
    for _ in 0..5 {
        assert_same(&first, &again(&world, world.spec(), &first).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_can_be_replayed() {
    let world = crate::repeatable::tree();
    let first = world.run(world.spec()).await;
    let second = again(&world, world.spec(), &first).await;
    assert_same(&first, &again(&world, world.spec(), &second).await);
}

/// In the recorded run the background child ends long after its parent's second turn. Without a model it ends at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_background_child_is_heard_of_at_its_recorded_turn() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|request| match (request.agent.relative(), request.turn) {
        ("0", 1) => text("").call("task", background("scout", "look")),
        ("0", 2) => text("").call("probe", json!({})),
        ("0", 3) => text("I wait"),
        ("1", _) => text("found"),
        _ => text("done"),
    })
    .holding(move |request| (request.agent.relative() == "1").then(|| held.clone()));
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("started");
    let replied = |turn| {
        move |event: &Event| {
            matches!(&event.body, EventBody::ModelReplied(e) if e.turn == turn) && event.agent.is_root()
        }
    };
    world.until(handle.id(), replied(3)).await;
    latch.open();
    let first = world.ended(&handle).await;
    for _ in 0..5 {
        let second = again(&world, world.spec(), &first).await;
        assert_eq!(requests(&first), requests(&second));
        assert!(matches!(second.run.outcome, Some(Outcome::Completed { .. })));
    }
}

/// Two background children end in an order that differs from the order in which they were spawned.
#[tokio::test(flavor = "multi_thread")]
async fn completions_come_in_their_recorded_order() {
    let (one, two) = (Latch::closed(), Latch::closed());
    let (held_one, held_two) = (one.clone(), two.clone());
    let world = World::new(|request| match (request.agent.relative(), request.turn) {
        ("0", 1) => {
            text("").call("task", background("scout", "first")).call("task", background("scout", "second"))
        }
        ("0", _) => text("noted"),
        _ => text("found"),
    })
    .holding(move |request| match request.agent.relative() {
        "1" => Some(held_one.clone()),
        "2" => Some(held_two.clone()),
        _ => None,
    });
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("started");
    let answered = |turn| {
        move |event: &Event| {
            matches!(&event.body, EventBody::ModelReplied(e) if e.turn == turn) && event.agent.is_root()
        }
    };
    world.until(handle.id(), answered(2)).await;
    two.open();
    world.until(handle.id(), answered(3)).await;
    one.open();
    let first = world.ended(&handle).await;
    for _ in 0..5 {
        let second = again(&world, world.spec(), &first).await;
        assert_eq!(requests(&first), requests(&second));
        let heard = |ended: &EndedRun| -> Vec<String> {
            let from = |event: &Event| match &event.body {
                EventBody::MessageReceived(e) => match &e.from {
                    Sender::Child(child) => Some(child.relative().to_owned()),
                    _ => None,
                },
                _ => None,
            };
            ended.events.iter().filter_map(from).collect()
        };
        assert_eq!(heard(&second), ["2", "1"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_person_wrote_is_said_again_before_the_same_turn() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|request| match request.turn {
        1 | 2 => text("").call("probe", json!({"turn": request.turn})),
        _ => text("done"),
    })
    .holding(move |request| (request.turn == 2).then(|| held.clone()));
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("started");
    latch.reached(1).await;
    let agent = handle.id().root();
    world.post(handle.id(), MailCommand::Send { agent, text: "hurry".to_owned() }).await;
    world.until(handle.id(), |event| matches!(event.body, EventBody::MessageReceived(_))).await;
    latch.open();
    let first = world.ended(&handle).await;
    let second = again(&world, world.spec(), &first).await;
    assert_eq!(requests(&first), requests(&second));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_persons_answers_are_given_again() {
    let world = World::new(|request| match request.turn {
        1 => text("").call("strike", json!({"at": 1})).call("strike", json!({"at": 2})),
        _ => text("done"),
    });
    let spec = || RunRequest { on_ask: OnAsk::Deny, ..crate::asking::striking(&world) };
    let process = world.process();
    let handle = process.runtime.start_attended(spec()).await.expect("started");
    for answer in [Answer::Once, Answer::Deny { reason: Some("not there".to_owned()) }] {
        let (agent, asked) = crate::asking::asked(&world, handle.id()).await;
        let command =
            MailCommand::Answer { agent, call_id: asked.call_id.clone(), approval: asked.approval, answer };
        let call_id = asked.call_id.clone();
        world.post(handle.id(), command).await;
        let is_answered =
            move |event: &Event| matches!(&event.body, EventBody::InputAnswered(e) if e.call_id == call_id);
        world.until(handle.id(), is_answered).await;
    }
    let first = world.ended(&handle).await;
    let second = again(&world, spec(), &first).await;
    assert_eq!(requests(&first), requests(&second));
    let answers = |ended: &EndedRun| {
        let answered = |event: &Event| match &event.body {
            EventBody::InputAnswered(e) => Some((e.call_id.clone(), e.decision, e.by, e.reason.clone())),
            _ => None,
        };
        ended.events.iter().filter_map(answered).collect::<Vec<_>>()
    };
    assert_eq!(answers(&first), answers(&second));
    assert_eq!(answers(&second).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_comes_after_the_same_turn() {
    let world = World::new(|request| match (request.agent.relative(), request.turn) {
        ("0", 1) => text("").call("task", child("scout", "look")),
        ("1", 1) => text("").call("probe", json!({})),
        _ => text("never said"),
    });
    let latch = Latch::closed();
    let held = latch.clone();
    let world = world
        .holding(move |request| (request.agent.relative() == "1" && request.turn == 2).then(|| held.clone()));
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("started");
    latch.reached(1).await;
    world.cancel(&handle.id().root()).await;
    let first = world.ended(&handle).await;
    let second = again(&world, world.spec(), &first).await;
    assert_same(&first, &second);
    assert!(matches!(second.run.outcome, Some(Outcome::Cancelled { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_differs_ends_the_run_with_the_difference() {
    let script = |request: &posse_engine::ports::ModelRequest| match (request.agent.relative(), request.turn)
    {
        ("0", 1) => text("").call("task", child("scout", "look")),
        ("1", 1) => text("").call("probe", json!({})),
        _ => text("done"),
    };
    let tool = |said: &'static str| {
        move |outside: &crate::tools::EffectLog| {
            let mut tool = trace("probe", EffectClass::Read, outside, None);
            tool.describe = Arc::new(move |_| posse_agent::tool_spec::ToolSpec {
                name: "probe".to_owned(),
                description: format!("Weighs something.\n{said}\nThe end."),
                input_schema: json!({"type": "object"}),
            });
            tool
        }
    };
    let world = World::new(script).with_tool(tool("In grams."));
    let first = world.run(world.spec()).await;
    let other = World::new(script).with_tool(tool("In ounces."));
    let second = again(&other, other.spec(), &first).await;
    let (code, reason) = failed_with(&second);
    assert_eq!(code, Code::ReplayDiffers);
    let run = first.run.id.as_str();
    let expected = format!(
        "the replay is not the recorded run {run}: turn 1 of agent 0 (boss) asks for something else\n\
         the text of tool `probe` differs (- recorded, + now):\n  Weighs something.\n- In grams.\n+ In ounces."
    );
    assert_eq!(reason, expected);
}

/// A child whose request differs is not retried, and its parent does not continue after it as after an ordinary
/// failure.
#[tokio::test(flavor = "multi_thread")]
async fn a_childs_difference_ends_the_whole_run_and_is_not_retried() {
    let world = World::new(|request| match (request.agent.relative(), request.turn) {
        ("0", 1) => text("").call("task", child("scout", "look")),
        ("1", 1) => text("").call("probe", json!({})),
        _ => text("done"),
    });
    let first = world.run(world.spec()).await;
    let mut events = first.events.clone();
    for event in &mut events {
        if let EventBody::ToolFinished(e) = &mut event.body
            && e.tool == "probe"
        {
            e.output = "what was seen then".into();
        }
        if let EventBody::ModelCalled(e) = &mut event.body
            && event.agent.relative() == "1"
            && e.turn == 2
        {
            e.request_hash = posse_domain::hash::Hash::of(b"another");
        }
    }
    let changed = EndedRun { events, run: first.run };
    let second = again(&world, world.spec(), &changed).await;
    let (code, reason) = failed_with(&second);
    assert_eq!(code, Code::ReplayDiffers);
    assert!(reason.contains("turn 2 of agent 1 (scout)"), "{reason}");
    assert!(
        reason.contains("the result of `probe` (- recorded, + now):\n- what was seen then\n+ "),
        "{reason}"
    );
    let attempts = |event: &&Event| matches!(event.body, EventBody::SubagentAttempt(_));
    assert_eq!(second.events.iter().filter(attempts).count(), 0);
    let calls = |event: &&Event| matches!(event.body, EventBody::ModelCalled(_)) && event.agent.is_root();
    assert_eq!(second.events.iter().filter(calls).count(), 1, "the parent is not asked again");
}

/// The recording has a message that no agent sends in the replay. The wait for it ends.
#[tokio::test(start_paused = true)]
async fn a_message_that_does_not_come_ends_the_run() {
    let world = World::new(|request| match (request.agent.relative(), request.turn) {
        ("0", 1) => text("").call("task", background("scout", "look")),
        _ => text("done"),
    })
    .in_virtual_time();
    let first = world.run(world.spec()).await;
    let mut events = first.events.clone();
    for event in &mut events {
        if let EventBody::MessageReceived(e) = &mut event.body {
            e.from = Sender::Child(first.run.id.root().child(7));
        }
    }
    let changed = EndedRun { events, run: first.run };
    let second = again(&world, world.spec(), &changed).await;
    let (code, reason) = failed_with(&second);
    assert_eq!(code, Code::ReplayDiffers);
    assert!(reason.contains("agent 0 waits for the end of task 7"), "{reason}");
}

/// Calls were retried after a pause that was shown to users. The replay repeats all calls, without the pauses.
#[tokio::test(start_paused = true)]
async fn calls_that_were_made_again_are_repeated_without_their_pauses() {
    let pause = Retry { after: Duration::from_mins(5), limited: true };
    let world = World::new(move |request| match (request.turn, request.call) {
        (1, 1 | 2) => ScriptedAnswer::error(Some(429), "slow down").retry(pause),
        (1, _) => text("").call("probe", json!({})),
        (2, 1) => ScriptedAnswer::error(Some(500), "unwell").retry(Retry { limited: false, ..pause }),
        _ => text("done"),
    })
    .in_virtual_time();
    let first = world.run(world.spec()).await;
    let began = tokio::time::Instant::now();
    let second = again(&world, world.spec(), &first).await;
    assert!(began.elapsed() < Duration::from_mins(5), "nobody waits again");
    let calls = |ended: &EndedRun| {
        let call = |event: &Event| match &event.body {
            EventBody::ModelReplied(e) => Some((e.turn, e.call, e.error.clone(), e.usage)),
            _ => None,
        };
        ended.events.iter().filter_map(call).collect::<Vec<_>>()
    };
    assert_eq!(calls(&first).len(), 5);
    assert_eq!(calls(&first), calls(&second));
    assert_eq!(requests(&first), requests(&second));
    let waits = |event: &&Event| matches!(event.body, EventBody::ProviderWaitStarted(_));
    assert_eq!(first.events.iter().filter(waits).count(), 3);
    assert_eq!(second.events.iter().filter(waits).count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_that_ends_early_says_so() {
    let world = crate::repeatable::tree();
    let first = world.run(world.spec()).await;
    let until = first.events.iter().position(|event| {
        matches!(&event.body, EventBody::ModelReplied(e) if e.turn == 1) && event.agent.is_root()
    });
    let events = first.events[..=until.expect("a reply")].to_vec();
    let cut = EndedRun { events, run: first.run };
    let second = again(&world, world.spec(), &cut).await;
    let (code, reason) = failed_with(&second);
    assert_eq!(code, Code::ReplayDiffers);
    assert!(reason.starts_with("the recording of run "), "{reason}");
    assert!(reason.contains(" ends here, before its end: turn 1 of agent "), "{reason}");
}
