//! How runs end under difficulties: a cancel that no process received, a missing model, many writers at once.

use std::path::Path;
use std::time::Duration;

use posse::scripted::{FnModel, ScriptedAnswer, ScriptedCall};
use posse::{Budget, EventBody, JournalEvent, NewRun, Posse, Resume, RunId};

/// Longer than any test waits: a call with this latency is in flight until it is dropped.
const FOR_EVER: Duration = Duration::from_hours(1);

/// A root that asks for `width` children of this definition, which never get an answer.
fn crowd(
    width: usize,
    kind: &'static str,
) -> FnModel<impl Fn(&posse::ports::ModelRequest) -> ScriptedAnswer> {
    FnModel::new(move |request| {
        if request.depth > 0 {
            return ScriptedAnswer::text("never").latency(FOR_EVER);
        }
        let input = |n: usize| serde_json::json!({"subagent_type": kind, "description": "wait", "prompt": format!("{n}")});
        ScriptedAnswer::text("Go.").calls((0..width).map(|n| ScriptedCall::new("task", input(n))))
    })
}

fn new_run(dir: &Path) -> NewRun {
    NewRun::new("Wait.").model("mock/crowd").dir(dir).budget(Budget::NONE)
}

async fn until(posse: &Posse, run: &RunId, mut holds: impl FnMut(&JournalEvent) -> bool) {
    let mut events = posse.events(run, 0);
    while !holds(&events.next().await.unwrap()) {}
}

async fn events_after(posse: &Posse, run: &RunId, after: u64) -> Vec<JournalEvent> {
    let mut events = posse.events(run, after);
    let mut all = Vec::new();
    while let Some(event) = events.try_next().await.unwrap() {
        all.push(event);
    }
    all
}

/// A run with two running children, whose process stopped.
async fn interrupted(state: &Path, dir: &Path) -> RunId {
    let posse = Posse::builder().state_dir(state).model("mock/crowd", crowd(2, "explore")).open().unwrap();
    let run = posse.start(new_run(dir)).await.unwrap();
    let mut asked = 0;
    until(&posse, run.id(), |event| {
        asked += usize::from(event.agent_id.depth() == 1 && matches!(event.body, EventBody::ModelCalled(_)));
        asked == 2
    })
    .await;
    posse.stop();
    assert!(run.ended().await.is_err());
    run.id().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_is_durable_is_honoured_before_anything_starts_again() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let run = interrupted(&state, dir.path()).await;
    let posse = Posse::builder().state_dir(&state).model("mock/crowd", crowd(2, "explore")).open().unwrap();
    let before = posse.runs(run.as_str(), 1).await.unwrap()[0].events;
    posse.cancel(&run.root(), "enough").await.unwrap();
    assert!(matches!(posse.resume(&run).await.unwrap(), Resume::Going(_)));
    assert_eq!(posse.wait(&run).await.unwrap().status, posse::RunStatus::Cancelled);
    let started: Vec<_> = events_after(&posse, &run, before)
        .await
        .into_iter()
        .filter(|event| matches!(event.body, EventBody::ModelCalled(_) | EventBody::ToolIntended(_)))
        .collect();
    assert_eq!(started, [], "nothing was started for a run that was to end");
    posse.verify(&run).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_model_is_gone_waits_for_it_or_is_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let run = interrupted(&state, dir.path()).await;
    let posse = Posse::builder().state_dir(&state).open().unwrap();
    let before = posse.runs(run.as_str(), 1).await.unwrap()[0].events;
    let Resume::Going(handle) = posse.resume(&run).await.unwrap() else { panic!("nobody else owns it") };
    let error = handle.ended().await.err().unwrap().to_string();
    assert!(error.contains("cannot continue") && error.contains("unknown provider `mock`"), "{error}");
    assert_eq!(posse.runs(run.as_str(), 1).await.unwrap()[0].events, before, "nothing was written");

    posse.cancel(&run.root(), "it is gone").await.unwrap();
    assert!(matches!(posse.resume(&run).await.unwrap(), Resume::Going(_)));
    assert_eq!(posse.wait(&run).await.unwrap().status, posse::RunStatus::Cancelled);
    posse.verify(&run).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_directory_is_gone_does_not_go_on_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let (state, work) = (dir.path().join("state"), dir.path().join("work"));
    std::fs::create_dir(&work).unwrap();
    let run = interrupted(&state, &work).await;
    std::fs::remove_dir(&work).unwrap();
    let posse = Posse::builder().state_dir(&state).model("mock/crowd", crowd(2, "explore")).open().unwrap();
    let Resume::Going(handle) = posse.resume(&run).await.unwrap() else { panic!("nobody else owns it") };
    let error = handle.ended().await.err().unwrap().to_string();
    assert!(error.contains("directory") && error.contains("work"), "{error}");
    let error = posse.start(new_run(&work)).await.err().unwrap().to_string();
    assert!(error.contains("dir"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_writers_that_wait_for_each_other_is_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let posse = Posse::builder().in_memory().model("mock/crowd", crowd(2_000, "general")).open().unwrap();
    let run = posse.start(new_run(dir.path())).await.unwrap();
    until(&posse, run.id(), |event| event.agent_id == run.id().root().child(2_000)).await;
    posse.cancel(&run.id().root(), "enough").await.unwrap();
    let finished = posse.wait(run.id()).await.unwrap();
    assert_eq!((finished.status, finished.failed.len()), (posse::RunStatus::Cancelled, 2_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_cannot_name_a_model_that_nobody_named_for_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret.yaml");
    std::fs::write(&secret, "top-secret-text").unwrap();
    let name = format!("scripted/{}", secret.display());
    let model = FnModel::new(move |request| {
        if request.turn > 1 {
            return ScriptedAnswer::text("Well.");
        }
        let input = serde_json::json!({"subagent_type": "explore", "description": "look", "prompt": "x", "model": name});
        ScriptedAnswer::text("Go.").call("task", input)
    });
    let posse = Posse::builder().in_memory().model("mock/crowd", model).open().unwrap();
    let run = posse.start(new_run(dir.path())).await.unwrap();
    assert_eq!(posse.wait(run.id()).await.unwrap().agents, 1);
    let refused = events_after(&posse, run.id(), 0).await;
    assert!(refused.iter().any(|event| matches!(event.body, EventBody::SubagentRefused(_))));
    assert!(!format!("{refused:?}").contains("top-secret-text"), "the file was not even opened");
}
