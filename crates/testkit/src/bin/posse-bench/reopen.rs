//! Measures recovery: a new lease holder opens a store with many open children and many events.

use std::time::Instant;

use posse::scripted::{FnModel, ScriptedAnswer, ScriptedCall};
use posse::{Posse, Resume};
use posse_testkit::fanout;
use posse_testkit::latch::{Latch, LatchedModel};

use crate::Plan;
use crate::report::Report;

/// Turns of every child before it waits, with three events each.
const TURNS: u32 = 33;

pub(crate) async fn measure(plan: &Plan, report: &mut Report) {
    let width = if plan.quick { 50 } else { 1_000 };
    let home = tempfile::tempdir_in(&plan.dir).expect("a directory");
    std::fs::write(home.path().join("hello.txt"), "hello\n").expect("a file");
    let state = home.path().join("state");
    let latch = latch(width);
    let posse = Posse::builder()
        .state_dir(&state)
        .model("mock/fanout", LatchedModel(latch.clone()))
        .open()
        .expect("a store");
    let agents = r#"{"digger": {"description": "digs", "prompt": "Dig.", "tools": ["read"]},
                     "lead": {"description": "leads", "prompt": "Lead.", "tools": ["read"], "spawns": ["digger"]}}"#;
    let agents = posse::parse_agents(agents, "bench", &posse.tool_names()).expect("definitions");
    let new = fanout::run(home.path()).definitions(agents).definition("lead").base_turns(None);
    let run = posse.start(new).await.expect("a run");
    latch.until_waiting(width).await;
    posse.stop();
    drop(run.ended().await);
    let id = run.id().clone();
    drop((run, posse));

    let began = Instant::now();
    let latch = self::latch(width);
    let posse = Posse::builder()
        .state_dir(&state)
        .model("mock/fanout", LatchedModel(latch.clone()))
        .open()
        .expect("a store");
    let events = posse.runs(id.as_str(), 1).await.expect("the run").remove(0).events;
    let Ok(Resume::Going(run)) = posse.resume(&id).await else { panic!("the run continues") };
    latch.until_waiting(width).await;
    let took = began.elapsed();
    let name = format!("reopened, {width} open children asked again, {events} events");
    report.at_most(name, took.as_secs_f64(), "s", 1.0);
    latch.open();
    run.ended().await.expect("the run ends");
    posse.verify(&id).await.expect("the journal holds");
}

fn latch(width: usize) -> std::sync::Arc<Latch<impl posse::ports::Model>> {
    let calls: std::sync::Arc<[ScriptedCall]> = (0..width)
        .map(|n| {
            let input = serde_json::json!({
                "subagent_type": "digger", "description": format!("dig {n}"), "prompt": format!("Dig at {n}."),
            });
            ScriptedCall::new("task", input)
        })
        .collect();
    let model = FnModel::new(move |request| match (request.depth, request.turn) {
        (0, 1) => ScriptedAnswer::text("Dig.").calls(calls.iter().cloned()),
        (1, turn) if turn < TURNS => {
            ScriptedAnswer::text("Deeper.").call("read", serde_json::json!({"path": "hello.txt"}))
        }
        _ => ScriptedAnswer::text("Done."),
    });
    Latch::new(model, |request| request.depth == 1 && request.turn == TURNS)
}
