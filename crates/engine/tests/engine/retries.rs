//! Attempts: which failures are retried, what a new attempt knows, and the time limits that end an attempt.

use std::time::Duration;

use posse_domain::event::{EffectClass, EventBody};
use posse_domain::lifecycle::FailKind;
use posse_models::scripted::ScriptedAnswer;
use serde_json::json;

use crate::tools::{Latch, slow_to_act};
use crate::world::{EndedRun, World, background, child, newest};

fn text(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text)
}

fn attempts(ended: &EndedRun, agent: &str) -> Vec<(u32, FailKind, String)> {
    ended
        .of(agent)
        .filter_map(|event| match &event.body {
            EventBody::SubagentAttempt(e) => Some((e.n, e.kind, e.reason.clone())),
            _ => None,
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_fails_is_tried_once_more_with_a_fresh_conversation() {
    let world = World::new(|request| match (request.depth, request.attempt, request.turn) {
        (0, _, 1) => text("").call("task", child("scout", "Look.")),
        (0, ..) => text("done"),
        (_, 1, 1) => text("first").call("probe", json!({})),
        (_, 1, _) => ScriptedAnswer::error(Some(529), "overloaded"),
        _ => text("found"),
    });
    let ended = world.run(world.spec()).await;
    assert_eq!(attempts(&ended, "1"), [(2, FailKind::Execution, "overloaded".to_owned())]);
    assert!(ended.result("0").0);
    let asked = world.asked_by("1");
    let last = asked.last().expect("asked");
    assert_eq!((last.attempt, last.turn), (2, 1));
    let said = newest(last);
    assert_eq!(last.messages.len(), 2, "a fresh conversation with one paragraph");
    assert!(said.starts_with("Look.\n") && said.contains("ended: overloaded."), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_no_third_attempt_by_default_and_none_of_the_root() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", child("scout", "Look.")),
        _ => ScriptedAnswer::error(None, "broken"),
    });
    let ended = world.run(world.spec()).await;
    assert_eq!(attempts(&ended, "1").len(), 1);
    assert_eq!(world.asked_by("1").len(), 2);
    assert_eq!(ended.status(), "failed");
    assert_eq!(world.asked_by("0").len(), 2, "the root has one attempt");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_takes_too_long_is_a_timeout() {
    let world = World::new(|request| match (request.depth, request.attempt, request.turn) {
        (0, _, 1) => {
            let mut input = child("scout", "Look.");
            input["timeout_ms"] = json!(1_000);
            text("").call("task", input)
        }
        (0, ..) => text("done"),
        (_, 1, turn) => text("").call("probe", json!({"turn": turn})).latency(Duration::from_millis(300)),
        _ => text("found").latency(Duration::from_millis(300)),
    })
    .in_virtual_time();
    let ended = world.run(world.spec()).await;
    let attempts = attempts(&ended, "1");
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0].1, FailKind::Timeout, "{attempts:?}");
    assert!(ended.result("0").0, "the second attempt has its own time");
    let turns = world.asked_by("1").iter().filter(|request| request.attempt == 1).count();
    assert_eq!(turns, 4, "three turns of 300 ms, and the one that was cut");
}

#[tokio::test(start_paused = true)]
async fn a_silent_model_is_a_timeout() {
    let world = World::new(|request| match (request.depth, request.attempt, request.turn) {
        (0, _, 1) => text("").call("task", child("scout", "Look.")),
        (0, ..) => text("done"),
        (_, 1, _) => text("too late").latency(Duration::from_millis(120_001)),
        _ => text("found").latency(Duration::from_secs(119)),
    })
    .in_virtual_time();
    let ended = world.run(world.spec()).await;
    let attempts = attempts(&ended, "1");
    assert_eq!(attempts[0].1, FailKind::Timeout);
    assert!(attempts[0].2.contains("silent for 120000 ms"), "{attempts:?}");
    assert!(ended.result("0").0);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_child_does_not_count_as_working_time() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => {
            let mut input = child("lead", "Split it.");
            input["timeout_ms"] = json!(1_000);
            text("").call("task", input)
        }
        (1, 1) => text("").call("task", child("scout", "Look.")).latency(Duration::from_millis(100)),
        (2, _) => text("found").latency(Duration::from_mins(1)),
        _ => text("done"),
    })
    .in_virtual_time();
    let ended = world.run(world.spec()).await;
    assert_eq!(attempts(&ended, "1"), []);
    assert_eq!(ended.status(), "completed");
}

#[tokio::test(start_paused = true)]
async fn commands_cut_at_the_limit_use_up_the_attempts_time() {
    let latch = Latch::closed();
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => {
            let mut input = child("builder", "Build.");
            input["timeout_ms"] = json!(1_000);
            text("").call("task", input)
        }
        (0, _) => text("done"),
        (_, turn) => text("").call("hold", json!({"turn": turn})),
    })
    .in_virtual_time()
    .with_tool(|outside| slow_to_act("hold", EffectClass::Exec, outside, &latch));
    let ended = world.run(world.spec()).await;
    let failed = &ended.run.failed[0];
    assert_eq!(failed.code.as_str(), "TIMEOUT", "{failed:?}");
    assert_eq!(attempts(&ended, "1").len(), 1);
    assert_eq!(world.outside.count("hold"), 2, "one that hangs in each attempt is all its time");
}

#[tokio::test(flavor = "multi_thread")]
async fn open_children_of_an_ended_attempt_are_cancelled_before_the_next() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|request| match (request.depth, request.attempt, request.turn) {
        (0, _, 1) => text("").call("task", child("lead", "Split it.")),
        (0, ..) => text("done"),
        (1, 1, 1) => text("").call("task", background("scout", "Look.")),
        (1, 1, _) => ScriptedAnswer::error(None, "broken"),
        _ => text("found"),
    })
    .holding(move |request| (request.depth == 2).then(|| held.clone()));
    let ended = world.run(world.spec()).await;
    let closed =
        ended.position(|e| e.agent.relative() == "1.1" && matches!(e.body, EventBody::SubagentClosed(_)));
    let again =
        ended.position(|e| e.agent.relative() == "1" && matches!(e.body, EventBody::SubagentAttempt(_)));
    assert!(closed < again);
    assert_eq!(ended.kinds("1.1").last(), Some(&"subagent_closed"));
    assert!(ended.result("0").0);
    drop(latch);
}

#[tokio::test(flavor = "multi_thread")]
async fn call_ids_of_an_ended_attempt_may_come_again() {
    let world = World::new(|request| {
        let call = |tool: &str| posse_models::scripted::ScriptedCall {
            id: Some("call_1".to_owned()),
            ..posse_models::scripted::ScriptedCall::new(tool, json!({"attempt": request.attempt}))
        };
        match (request.depth, request.attempt, request.turn) {
            (0, _, 1) => text("").call("task", child("builder", "x")),
            (0, ..) => text("done"),
            (_, _, 1) => text("").calls([call("strike")]),
            (_, 1, _) => ScriptedAnswer::error(None, "broken"),
            _ => text("built"),
        }
    });
    let ended = world.run(world.spec()).await;
    assert_eq!(world.outside.count("strike"), 2);
    assert_eq!(ended.results("1").len(), 2);
}

/// A child with `close_on_completion` off stays open, completed or failed, until its parent closes it or ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_child_is_left_open_like_a_completed_one() {
    for closes in [true, false] {
        let world = World::new(move |request| match (request.depth, request.turn) {
            (0, 1) => text("").call("task", child("scout", "fail")),
            (0, 2) if closes => text("").call("task_close", json!({"task_id": "1"})),
            (0, 2) => text("").call("task_status", json!({"task_id": "1"})),
            (0, 3) => text("").call("task", repairing("1")),
            (1, _) if request.agent.relative() == "1" => ScriptedAnswer::error(None, "broken"),
            _ => text("done"),
        });
        let mut spec = world.spec();
        spec.terms.close_on_completion = false;
        let ended = world.run(spec).await;
        let results = ended.results("0");
        let (_, ok, said) = &results[1];
        assert!(*ok, "{said}");
        assert_eq!(said.contains("failed;"), !closes, "{said}");
        assert!(results[2].1, "one that is open and failed can be repaired: {results:?}");
        let position = |kind: &str, agent: &str| {
            ended.position(|event| event.agent.relative() == agent && event.body.kind() == kind)
        };
        let closed = position("agent.subagent_closed", "1");
        let repair = position("agent.subagent_created", "2");
        assert_eq!(closed < repair, closes, "closed when its parent says so, or when it ends");
        assert_eq!(ended.status(), "completed");
    }
}

fn repairing(id: &str) -> serde_json::Value {
    let mut input = child("scout", "mend it");
    input["repairs"] = json!(id);
    input
}
