//! Following a run: a reader gets every event once and in order, however often it disconnects, and then the end.

use futures::FutureExt;
use posse::scripted::{FnModel, ScriptedAnswer, ScriptedCall};
use posse::{NewRun, OrderChecker, Posse, TaskEvent, TaskState};
use serde_json::json;

/// A root that splits its work over many children, one of which fails and one of which is refused.
fn posse(dir: &std::path::Path, in_memory: bool) -> Posse {
    let model = FnModel::new(|request| match (request.depth, request.turn) {
        (0, 1) => {
            let input = |kind: &str, n: usize| json!({"subagent_type": kind, "description": "a part", "prompt": format!("part {n}"), "run_in_background": n.is_multiple_of(2)});
            let calls = (0..30).map(|n| ScriptedCall::new("task", input("explore", n)));
            ScriptedAnswer::text("I split it.")
                .calls(calls.chain([ScriptedCall::new("task", input("nobody", 1))]))
        }
        (1, 1) if request.agent.number() == Some(7) => ScriptedAnswer::error(Some(500), "broken"),
        (1, 1) => ScriptedAnswer::text("").call("list", json!({})),
        _ => ScriptedAnswer::text("x".repeat(5_000)),
    });
    let builder = Posse::builder().model("test/model", model);
    let builder = if in_memory { builder.in_memory() } else { builder.state_dir(dir.join("state")) };
    builder.open().unwrap()
}

async fn every_event_once(in_memory: bool) {
    let dir = tempfile::tempdir().unwrap();
    let posse = posse(dir.path(), in_memory);
    let run = posse.start(NewRun::new("Do it.").model("test/model").dir(dir.path())).await.unwrap();
    let readers = (0..4_u64).map(|reader| {
        let (posse, run) = (posse.clone(), run.id().clone());
        tokio::spawn(async move {
            let mut chance = reader;
            let mut seen = Vec::new();
            let mut order = OrderChecker::default();
            let mut events = posse.events(&run, 0);
            loop {
                chance =
                    chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let event = match (chance >> 40) % 8 {
                    // Disconnected, and reconnected at the same position.
                    0 => {
                        events = posse.events(&run, seen.last().copied().unwrap_or(0));
                        continue;
                    }
                    // Polled once, without waiting.
                    1 => match events.next().now_or_never() {
                        Some(event) => event.unwrap(),
                        None => continue,
                    },
                    _ => events.next().await.unwrap(),
                };
                order.push(&event.agent_id, event.kind.as_str()).unwrap();
                seen.push(event.seq);
                if event.kind.as_str().starts_with("run.") && event.seq > 1 {
                    return seen;
                }
            }
        })
    });
    let readers: Vec<_> = readers.collect();
    posse.wait(run.id()).await.unwrap();
    let count = posse.verify(run.id()).await.unwrap().events;
    for reader in readers {
        assert_eq!(reader.await.unwrap(), (1..=count).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_comes_and_goes_sees_every_event_once_over_memory() {
    every_event_once(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_comes_and_goes_sees_every_event_once_over_sqlite() {
    every_event_once(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_who_follows_a_task_comes_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let posse = posse(dir.path(), true);
    let run = posse.start(NewRun::new("Do it.").model("test/model").dir(dir.path())).await.unwrap();
    posse.wait(run.id()).await.unwrap();
    let root = run.id().root();
    let table = [
        (root.clone(), Some(TaskState::Completed)),
        (root.child(1), Some(TaskState::Completed)),
        (root.child(7), Some(TaskState::Failed)),
        // It never existed, and never will.
        (root.child(99), None),
    ];
    for (agent, expected) in table {
        let mut tasks = posse.task_events(&agent);
        let mut seen = Vec::new();
        while let Some(event) = tasks.next().await.unwrap() {
            seen.push(event);
        }
        let done: Vec<_> = seen
            .iter()
            .filter_map(|event| match event {
                TaskEvent::Done { final_state } => Some(*final_state),
                _ => None,
            })
            .collect();
        assert_eq!(done, expected.into_iter().collect::<Vec<_>>(), "{agent}");
        if expected == Some(TaskState::Failed) {
            let before = &seen[seen.len() - 2];
            assert!(
                matches!(before, TaskEvent::Error { error_message, .. } if error_message == "broken"),
                "{seen:?}"
            );
        }
    }
    let children = posse.children(&root).await.unwrap();
    assert_eq!(children.len(), 30);
    assert_eq!(posse.children(&root.child(1)).await.unwrap().len(), 0);
}
