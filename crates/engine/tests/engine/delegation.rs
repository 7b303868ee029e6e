//! Children in the foreground and in the background: their results, their state, messages to them.

use posse_domain::event::{EffectClass, EventBody, Sender};
use posse_domain::permission::Decision;
use posse_engine::ports::ModelRequest;
use posse_engine::{DeltaPart, TaskEvent, TaskState, TaskView};
use posse_models::scripted::{ScriptedAnswer, ScriptedCall};
use serde_json::json;

use crate::tools::{Latch, slow_to_act};
use crate::world::{World, background, child, newest};

fn text(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text)
}

/// The root makes these calls on its first turn and repeats their results on its second. Children report "found".
fn split(calls: impl Fn() -> Vec<ScriptedCall> + Send + Sync + 'static) -> World {
    World::new(move |request| match (request.depth, request.turn) {
        (0, 1) => text("I split it.").calls(calls()),
        (0, _) => text(&format!("Heard: {}", newest(request))),
        _ => text("found"),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_call_runs_a_child_and_gets_its_report() {
    let world = split(|| vec![ScriptedCall::new("task", child("scout", "Find it."))]);
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.status(), "completed");
    assert_eq!(
        ended.kinds("1"),
        [
            "subagent_created",
            "subagent_started",
            "model_called",
            "model_replied",
            "subagent_waiting_for_merge",
            "integration_passed",
            "subagent_closed"
        ]
    );
    assert_eq!(ended.result("0"), (true, "## Subagent Result (scout)\n\nfound\n\n(task_id: 1)".to_owned()));
    assert!(ended.text().contains("found"));
    let asked = world.asked_by("1");
    assert_eq!(asked.len(), 1);
    assert_eq!((asked[0].depth, &*asked[0].definition), (1, "scout"));
    assert_eq!(newest(&asked[0]), "Find it.");
}

#[tokio::test(flavor = "multi_thread")]
async fn children_of_one_reply_run_at_the_same_time() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = split(|| (0..5).map(|_| ScriptedCall::new("task", child("scout", "Look."))).collect())
        .holding(move |request| (request.depth == 1).then(|| held.clone()));
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("started");
    // The latch opens only if all five models are called at the same time.
    latch.reached(5).await;
    latch.open();
    let ended = world.ended(&handle).await;
    assert_eq!(ended.results("0").len(), 5);
    assert_eq!(ended.run.agent_count(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_background_child_returns_at_once_and_its_completion_wakes_the_idle_parent() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("I start it.").call("task", background("scout", "Look.")),
        (0, 2) => text("I wait."),
        (0, _) => text(&format!("Heard: {}", newest(request))),
        _ => text("found"),
    })
    .holding(move |request| (request.depth == 1).then(|| held.clone()));
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("started");
    let root = handle.id().root();
    // The root has answered its second turn without calls. It is idle, not finished.
    world
        .until(handle.id(), |event| {
            event.agent == root && matches!(&event.body, EventBody::ModelReplied(e) if e.turn == 2)
        })
        .await;
    latch.reached(1).await;
    latch.open();
    let ended = world.ended(&handle).await;
    let (ok, started) = ended.result("0");
    assert!(ok && started.contains("task_id: 1") && started.contains("task_status"), "{started}");
    assert_eq!(ended.text(), "Heard: Task 1 (scout) has completed.\n\nfound");
    let messages: Vec<_> = ended
        .of("0")
        .filter(|event| matches!(&event.body, EventBody::MessageReceived(e) if matches!(e.from, Sender::Child(_))))
        .collect();
    assert_eq!(messages.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_completion_wakes_an_idle_parent_for_one_turn() {
    let latches = [Latch::closed(), Latch::closed()];
    let held = latches.clone();
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", background("scout", "one")).call("task", background("scout", "two")),
        (0, _) => text(&format!("turn {}", request.turn)),
        _ => text("found"),
    })
    .holding(move |request| match request.agent.relative() {
        "1" => Some(held[0].clone()),
        "2" => Some(held[1].clone()),
        _ => None,
    });
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("started");
    let root = handle.id().root();
    for (turn, latch) in [(2, &latches[0]), (3, &latches[1])] {
        let root = root.clone();
        world
            .until(handle.id(), move |event| {
                event.agent == root && matches!(&event.body, EventBody::ModelReplied(e) if e.turn == turn)
            })
            .await;
        latch.open();
    }
    let ended = world.ended(&handle).await;
    assert_eq!(ended.text(), "turn 4");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_background_childs_progress_reaches_a_subscriber() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", background("scout", "Look.")),
        (0, _) => text("done"),
        _ => text("I have found it."),
    })
    .holding(move |request| (request.depth == 1).then(|| held.clone()));
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("started");
    let mut deltas = handle.deltas();
    latch.reached(1).await;
    latch.open();
    let child = handle.id().root().child(1);
    let mut heard = String::new();
    while heard != "I have found it." {
        for delta in deltas.recv().await.expect("the child's progress comes").iter() {
            if delta.agent_id == child && delta.part == DeltaPart::Text {
                assert_eq!(delta.parent_id, child.parent());
                heard.push_str(&delta.content);
            }
        }
    }
    world.ended(&handle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_sees_messages_and_cancels_only_its_own_children() {
    let world = World::new(|request| match (request.agent.relative(), request.turn) {
        ("0", 1) => text("").call("task", child("lead", "outer")).call("task", background("scout", "other")),
        ("0", _) => text("done"),
        ("1", 1) => text("")
            .call("task_status", json!({"task_id": "2"}))
            .call("task_send", json!({"task_id": "0", "message": "hello"}))
            .call("task_cancel", json!({"task_id": "1", "reason": "no"}))
            .call("task_close", json!({"task_id": "1.7"}))
            .call("task_status", json!({"task_id": "nonsense"})),
        _ => text("found"),
    });
    let ended = world.run(world.spec()).await;
    let results = ended.results("1");
    assert_eq!(results.len(), 5);
    for (tool, ok, text) in results {
        assert!(!ok && text.starts_with("UNKNOWN_TASK: "), "{tool}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_of_a_child_that_is_ending_is_not_reported_as_its_end() {
    let [work, second_turn] = [Latch::closed(), Latch::closed()];
    let (held, held_turn) = (work.clone(), second_turn.clone());
    let cancel = || ScriptedCall::new("task_cancel", json!({"task_id": "1", "reason": "enough"}));
    let world = World::new(move |request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", background("builder", "Build.")),
        (0, 2) => text("").calls(vec![cancel(), cancel()]),
        (0, 3) => text("I wait for its end."),
        (0, 4) => text("").calls(vec![cancel()]),
        (0, _) => text("done"),
        _ => text("").call("hold", json!({})),
    })
    .with_tool(move |outside| slow_to_act("hold", EffectClass::Exec, outside, &held))
    .holding(move |request| (request.depth == 0 && request.turn == 2).then(|| held_turn.clone()));
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("started");
    work.reached(1).await;
    second_turn.open();
    world
        .until(handle.id(), |event| {
            event.agent.is_root() && matches!(&event.body, EventBody::ModelReplied(e) if e.turn == 3)
        })
        .await;
    // Only now the command ends, and with it the child.
    work.open();
    let ended = world.ended(&handle).await;
    let results = ended.results("0");
    let texts: Vec<&str> = results[1..].iter().map(|(_, _, text)| text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "Task 1 and all below it are cancelled.",
            "Task 1 was cancelled already. It ends when its last operation has ended.",
            "Task 1 had ended already.",
        ]
    );
    assert!(results.iter().all(|(_, ok, _)| *ok), "{results:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_of_a_child_that_has_not_ended_says_why_it_is_refused() {
    let [inner, second_turn] = [Latch::closed(), Latch::closed()];
    let (held, held_turn) = (inner.clone(), second_turn.clone());
    let close = |id: &str| ScriptedCall::new("task_close", json!({"task_id": id}));
    let world = World::new(move |request| match (request.agent.relative(), request.turn) {
        ("0", 1) => text("").call("task", background("lead", "a")).call("task", background("scout", "b")),
        ("0", 2) => text("").calls(vec![close("1"), close("2")]),
        ("1", 1) => text("").call("task", child("scout", "deeper")),
        _ => text("done"),
    })
    .holding(move |request| match (request.agent.relative(), request.turn) {
        ("0", 2) => Some(held_turn.clone()),
        ("1.1" | "2", _) => Some(held.clone()),
        _ => None,
    });
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("started");
    inner.reached(2).await;
    second_turn.open();
    world
        .until(handle.id(), |event| {
            event.agent.is_root() && matches!(&event.body, EventBody::ModelReplied(e) if e.turn == 3)
        })
        .await;
    inner.open();
    let ended = world.ended(&handle).await;
    let results = ended.results("0");
    let refused: Vec<(bool, &str)> = results[2..].iter().map(|(_, ok, text)| (*ok, text.as_str())).collect();
    assert_eq!(
        refused,
        [
            (false, "TOOL_ERROR: task 1 has tasks of its own that are still open; cancel it first"),
            (false, "TOOL_ERROR: task 2 is still working; cancel it first"),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn task_status_tells_the_state_and_waits_for_a_change() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task_status", json!({})).call("task", background("scout", "Look.")),
        (0, 2) => text("").call("task_status", json!({"task_id": "1"})),
        (0, turn) if !newest(request).contains("closed") && turn < 9 => {
            text("").call("task_status", json!({"task_id": "1", "wait_ms": 600_000}))
        }
        (0, _) => text("done"),
        _ => text("found"),
    })
    .holding(move |request| (request.depth == 1).then(|| held.clone()));
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("started");
    latch.reached(1).await;
    world.until(handle.id(), |event| matches!(&event.body, EventBody::ModelReplied(e) if e.turn == 3)).await;
    latch.open();
    let ended = world.ended(&handle).await;
    let results = ended.results("0");
    assert_eq!(results[0].2, "You have no tasks.");
    assert!(results[2].2.starts_with("1 (scout): running"), "{}", results[2].2);
    let last = &results.last().expect("results").2;
    assert!(last.starts_with("1 (scout): completed, closed; 1 turns"), "{last}");
}

#[tokio::test(start_paused = true)]
async fn a_status_wait_ends_when_its_time_is_up() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", background("scout", "Look.")),
        (0, 2) => text("").call("task_status", json!({"task_id": "1", "wait_ms": 50})),
        (0, 3) => text("").call("task_cancel", json!({"task_id": "1", "reason": "too slow"})),
        (0, _) => text("done"),
        _ => text("found").latency(std::time::Duration::from_secs(100)),
    })
    .in_virtual_time();
    let ended = world.run(world.spec()).await;
    let results = ended.results("0");
    assert!(results[1].1 && results[1].2.starts_with("1 (scout): running"), "{results:?}");
    assert_eq!(ended.run.failed[0].reason, "too slow");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_reaches_a_running_child_between_turns() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", background("scout", "Look.")),
        (0, 2) => text("").call("task_send", json!({"task_id": "1", "message": "Look left."})),
        (0, _) => text("done"),
        (_, 1) => text("").call("probe", json!({})),
        _ => text(&newest(request)),
    })
    .holding(move |request| (request.depth == 1 && request.turn == 1).then(|| held.clone()));
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("started");
    let child = handle.id().root().child(1);
    world
        .until(handle.id(), move |event| {
            event.agent == child && matches!(event.body, EventBody::MessageReceived(_))
        })
        .await;
    latch.open();
    let ended = world.ended(&handle).await;
    assert!(ended.results("0")[1].1);
    let said = ended
        .of("1")
        .find_map(|event| match &event.body {
            EventBody::SubagentWaitingForMerge(e) => Some(e.report.to_shared()),
            _ => None,
        })
        .expect("it reported");
    assert!(said.contains("probe {}") && said.ends_with("Look left."), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_to_a_closed_child_is_refused_and_it_can_be_continued() {
    let world = World::new(|request| match (request.agent.relative(), request.turn) {
        ("0", 1) => text("").call("task", child("scout", "Find the door.")),
        ("0", 2) => {
            let mut again = child("scout", "Which colour has it?");
            again["task_id"] = json!("1");
            text("").call("task_send", json!({"task_id": "1", "message": "and?"})).call("task", again)
        }
        ("0", _) => text("done"),
        ("1", _) => text("The door is left."),
        _ => text("Green."),
    });
    let ended = world.run(world.spec()).await;
    let results = ended.results("0");
    assert!(!results[1].1 && results[1].2.contains("has ended"), "{results:?}");
    assert!(results[2].1 && results[2].2.contains("Green."), "{results:?}");
    let asked = world.asked_by("2");
    let texts: Vec<String> = asked[0].messages.iter().map(|message| format!("{message:?}")).collect();
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(texts[0].contains("Find the door.") && texts[1].contains("The door is left."));
    assert!(texts[2].contains("Which colour has it?"));
    let continues = ended.events.iter().find_map(|event| match &event.body {
        EventBody::SubagentCreated(e) => e.contract.parent.continues.clone(),
        _ => None,
    });
    assert_eq!(continues.map(|id| id.relative().to_owned()).as_deref(), Some("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_closed_child_of_the_caller_can_be_continued() {
    let latch = Latch::closed();
    let held = latch.clone();
    let again = |id: &str| {
        let mut input = child("scout", "Go on.");
        input["task_id"] = json!(id);
        input
    };
    let world = World::new(move |request| match (request.agent.relative(), request.turn) {
        ("0", 1) => text("").call("task", background("scout", "Look.")),
        ("0", 2) => text("").call("task", again("1")).call("task", again("9")).call("task", again("0")),
        ("0", _) => text("done"),
        _ => text("found"),
    })
    .holding(move |request| (request.depth == 1).then(|| held.clone()));
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("started");
    world
        .until(handle.id(), |event| {
            event.agent.is_root() && matches!(&event.body, EventBody::ModelReplied(e) if e.turn == 3)
        })
        .await;
    latch.open();
    let ended = world.ended(&handle).await;
    let results = ended.results("0");
    assert!(
        results[1].2.starts_with("INVALID_INPUT: ") && results[1].2.contains("not closed"),
        "{results:?}"
    );
    assert!(results[2].2.starts_with("UNKNOWN_TASK: ") && results[3].2.starts_with("UNKNOWN_TASK: "));
    assert_eq!(ended.run.agent_count(), 2, "refused children use no number");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_childs_result_says_why_and_the_run_goes_on() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", child("scout", "Look.")),
        (0, _) => text("done without it"),
        _ => ScriptedAnswer::error(Some(529), "overloaded"),
    });
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.status(), "completed");
    let (ok, said) = ended.result("0");
    assert!(!ok && said.starts_with("MODEL_ERROR: ") && said.contains("overloaded"), "{said}");
    assert_eq!(ended.run.failed.len(), 1);
    let EventBody::RunCompleted(completed) = &ended.events.last().expect("events").body else {
        panic!("completed")
    };
    assert_eq!(completed.failed, ended.run.failed, "the result lists every failed child");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_required_child_fails_the_run_unless_it_is_repaired() {
    for (repair, status) in [(false, "failed"), (true, "completed")] {
        let world = World::new(move |request| match (request.agent.relative(), request.turn) {
            ("0", 1) => {
                let mut input = child("scout", "Look.");
                input["required"] = json!(true);
                text("").call("task", input)
            }
            ("0", 2) if repair => {
                let mut input = child("scout", "Mend it.");
                input["repairs"] = json!("1");
                text("").call("task", input)
            }
            ("0", _) => text("done"),
            ("1", _) => ScriptedAnswer::error(None, "broken"),
            _ => text("mended"),
        });
        let ended = world.run(world.spec()).await;
        assert_eq!(ended.status(), status);
        assert_eq!(ended.run.failed.len(), 1);
        if !repair {
            assert!(ended.text().contains("required sub-agent 1 failed: broken"), "{}", ended.text());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_name_their_code_and_use_no_number() {
    let world = World::new(|request| match (request.agent.relative(), request.turn) {
        ("0", 1) => {
            let mut checked = child("scout", "x");
            checked["success_criteria"] = json!([{"command": "true"}]);
            let mut shared = child("scout", "x");
            shared["share_history"] = json!(true);
            let mut unknown_model = child("scout", "x");
            unknown_model["model"] = json!("nobody/nothing");
            text("")
                .call("task", child("nobody", "x"))
                .call("task", child("secret", "x"))
                .call("task", checked)
                .call("task", shared)
                .call("task", unknown_model)
                .call("task", json!({"subagent_type": "scout"}))
                .call("task", child("lead", "deeper"))
        }
        ("1", 1) => text("").call("task", child("scout", "x")),
        _ => text("done"),
    });
    let mut spec = world.spec();
    spec.max_depth = 1;
    spec.definitions.push(crate::world::definition("secret", &["probe"], &[]));
    let ended = world.run(spec).await;
    let results = ended.results("0");
    let codes: Vec<&str> = results.iter().map(|(_, _, text)| text.split(':').next().unwrap_or("")).collect();
    assert_eq!(
        codes[..6],
        [
            "UNKNOWN_AGENT",
            "SPAWN_NOT_ALLOWED",
            "UNSUPPORTED",
            "PERMISSION_DENIED",
            "INVALID_INPUT",
            "INVALID_INPUT"
        ]
    );
    assert!(results[6].1, "{:?}", results[6]);
    let (ok, said) = ended.result("1");
    assert!(!ok && said.starts_with("MAX_DEPTH_EXCEEDED: "), "{said}");
    assert!(said.contains("maximum depth 1") && said.contains("depth 1 cannot spawn"), "{said}");
    assert_eq!(ended.run.agent_count(), 2);
    let refused =
        ended.events.iter().filter(|event| matches!(event.body, EventBody::SubagentRefused(_))).count();
    assert_eq!(refused, 6, "all but the call that was no valid input");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_may_not_spawn_is_refused_whether_or_not_it_was_offered_the_tool() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (0 | 1, 1) => text("").call("task", child("scout", "x")),
        _ => text("done"),
    });
    let ended = world.run(world.spec()).await;
    let (ok, said) = ended.result("1");
    assert!(!ok && said.starts_with("SPAWN_NOT_ALLOWED: "), "{said}");
    let offered: Vec<String> = world.asked_by("1")[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert!(!offered.iter().any(|name| name.starts_with("task")), "{offered:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_run_one_at_a_time_and_readers_beside_them() {
    let latches = [Latch::closed(), Latch::closed()];
    let held = latches.clone();
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("")
            .call("task", child("builder", "one"))
            .call("task", child("builder", "two"))
            .call("task", child("scout", "look")),
        _ => text("done"),
    })
    .holding(move |request| match request.agent.relative() {
        "1" => Some(held[0].clone()),
        "2" => Some(held[1].clone()),
        _ => None,
    });
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("started");
    let reader = handle.id().root().child(3);
    latches[0].reached(1).await;
    world
        .until(handle.id(), |event| event.agent == reader && event.body.kind() == "agent.subagent_closed")
        .await;
    latches[0].open();
    latches[1].reached(1).await;
    latches[1].open();
    let ended = world.ended(&handle).await;
    assert_eq!(ended.kinds("2")[1], "subagent_queued");
    let first_closed =
        ended.position(|e| e.agent.relative() == "1" && matches!(e.body, EventBody::SubagentClosed(_)));
    let second_started =
        ended.position(|e| e.agent.relative() == "2" && matches!(e.body, EventBody::SubagentStarted(_)));
    assert!(first_closed < second_started);
}

#[tokio::test(flavor = "multi_thread")]
async fn undelivered_results_are_appended_when_no_turn_is_left() {
    let latch = Latch::closed();
    let held = latch.clone();
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", background("scout", "Look.")),
        (0, _) => text("My report."),
        _ => text("found late"),
    })
    .holding(move |request| (request.depth == 1).then(|| held.clone()));
    let process = world.process();
    let mut spec = world.spec();
    spec.terms.base_turns = Some(2);
    let handle = process.runtime.start(spec).await.expect("started");
    world
        .until(handle.id(), |event| {
            event.agent.is_root() && matches!(&event.body, EventBody::ModelReplied(e) if e.turn == 2)
        })
        .await;
    latch.open();
    let ended = world.ended(&handle).await;
    assert!(
        ended.text().starts_with("My report.") && ended.text().contains("found late"),
        "{}",
        ended.text()
    );
    let EventBody::RunCompleted(completed) = &ended.events.last().expect("events").body else {
        panic!("completed")
    };
    assert!(completed.turns_exhausted);
    assert_eq!(world.asked_by("0").len(), 2, "no further turn");
    assert!(world.asked_by("0")[1].callable().is_empty(), "no tools on the report turn");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_task_view_shows_status_message_error_and_done() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("I split.").call("task", child("scout", "a")).call("task", child("nobody", "b")),
        (0, _) => text("done"),
        _ => ScriptedAnswer::error(None, "broken"),
    });
    let ended = world.run(world.spec()).await;
    let view = |agent: &posse_domain::id::AgentId| {
        let mut view = TaskView::new(agent.clone());
        ended.events.iter().flat_map(|event| view.push(&event.agent, &event.body)).collect::<Vec<_>>()
    };
    let root = view(&ended.run.id.root());
    assert!(matches!(&root[0], TaskEvent::Status { state: TaskState::Running, .. }));
    assert!(root.contains(&TaskEvent::Message { parts: vec!["I split.".to_owned()] }));
    assert!(root.iter().any(
        |event| matches!(event, TaskEvent::Error { error_code, .. } if error_code.as_str() == "UNKNOWN_AGENT")
    ));
    assert_eq!(root.last(), Some(&TaskEvent::Done { final_state: TaskState::Completed }));
    let failed = view(&ended.run.id.root().child(1));
    let end = &failed[failed.len() - 2..];
    assert!(
        matches!(&end[0], TaskEvent::Error { error_message, .. } if error_message == "broken"),
        "{end:?}"
    );
    assert_eq!(end[1], TaskEvent::Done { final_state: TaskState::Failed });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_childs_contract_takes_depth_parent_and_grant_from_its_caller() {
    let world = World::new(|request: &ModelRequest| match (request.depth, request.turn) {
        (0 | 1, 1) => text("").call("task", child("lead", "deeper")),
        _ => text("done"),
    });
    let mut spec = world.spec();
    spec.terms.run_rules = vec![posse_domain::permission::Rule {
        pattern: "strike".parse().expect("pattern"),
        decision: Decision::Deny,
    }]
    .into();
    let ended = world.run(spec).await;
    let contracts: Vec<_> = ended
        .events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::SubagentCreated(e) => Some((event.agent.clone(), e.contract.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(contracts.len(), 2);
    for (at, (id, contract)) in contracts.iter().enumerate() {
        let depth = u32::try_from(at + 1).expect("small");
        assert_eq!((contract.context.depth, contract.context.parent_task_id.clone()), (depth, id.parent()));
        assert_eq!(contract.context.root_task_id, Some(ended.run.id.root()));
        assert_eq!(contract.permissions.max_delegation_depth, 2 - depth);
        assert_eq!(contract.execution.max_turns, Some(40 >> depth));
    }
}
