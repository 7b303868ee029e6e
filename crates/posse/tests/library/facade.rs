//! The facade over both stores, with a scripted model and real tools.

use std::sync::Arc;

use posse::scripted::ScriptedModel;
use posse::{NewRun, Posse, PosseBuilder, TaskEvent, TaskState};
use posse_testkit::latch::{Latch, LatchedModel};

const SCRIPT: &str = r#"
- when: {definition: coder, turn: 1}
  reply:
    text: "I will ask."
    tool_calls:
      - {name: task, input: {subagent_type: explore, description: "find it", prompt: "Where is main?", run_in_background: true}}
- when: {definition: explore, turn: 1}
  reply:
    text: "Looking."
    tool_calls:
      - {name: read, input: {path: "hello.txt"}}
- when: {definition: explore}
  reply: {text: "In src/main.rs."}
- when: {definition: coder, contains: "has completed"}
  reply: {text: "It is in src/main.rs."}
- when: {definition: coder}
  reply: {text: "I wait."}
"#;

struct TestHome {
    dir: tempfile::TempDir,
    posse: Posse,
    /// Holds the child's calls, so that a test can subscribe before the child says anything.
    latch: Arc<Latch<ScriptedModel>>,
}

fn open(builder: impl FnOnce(PosseBuilder, &std::path::Path) -> PosseBuilder) -> TestHome {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("hello.txt"), "hello\n").unwrap();
    let script = ScriptedModel::from_yaml(SCRIPT, "demo.yaml").unwrap();
    let latch = Latch::new(script, |request| &*request.definition == "explore");
    let model = LatchedModel(Arc::clone(&latch));
    let posse = builder(Posse::builder(), dir.path()).model("scripted/demo", model).open().unwrap();
    TestHome { dir, posse, latch }
}

impl TestHome {
    fn run(&self) -> NewRun {
        NewRun::new("Where is main?").model("scripted/demo").dir(self.dir.path()).session("s-1")
    }
}

async fn one_child(place: TestHome) {
    let posse = &place.posse;
    let run = posse.start(place.run()).await.unwrap();
    let mut deltas = run.deltas();
    place.latch.open();
    let finished = posse.wait(run.id()).await.unwrap();
    assert_eq!((finished.status, finished.agents), (posse::RunStatus::Completed, 2));
    assert_eq!(finished.text, "It is in src/main.rs.");

    let child = run.id().root().child(1);
    let children = posse.children(&run.id().root()).await.unwrap();
    assert_eq!(children.len(), 1);
    assert_eq!((&children[0].id, children[0].state.as_str(), children[0].depth()), (&child, "closed", 1));
    assert_eq!(posse.runs("", 10).await.unwrap()[0].session_id.as_deref(), Some("s-1"));

    run.ended().await.unwrap();
    let mut heard = Vec::new();
    while let Ok(batch) = deltas.try_recv() {
        heard.extend(batch.iter().filter(|delta| delta.agent_id == child).map(|delta| delta.content.clone()));
    }
    assert!(
        heard.concat().contains("Looking."),
        "a background child's progress reaches a subscriber: {heard:?}"
    );

    let mut tasks = posse.task_events(&child);
    let mut seen = Vec::new();
    while let Some(event) = tasks.next().await.unwrap() {
        seen.push(event);
    }
    assert!(matches!(seen.first(), Some(TaskEvent::Status { state: TaskState::Running, .. })), "{seen:?}");
    assert_eq!(seen.last(), Some(&TaskEvent::Done { final_state: TaskState::Completed }));
    posse.verify(run.id()).await.unwrap();
    assert_eq!(posse.check().await.unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_background_child_over_memory() {
    one_child(open(|builder, _| builder.in_memory())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_background_child_over_sqlite() {
    one_child(open(|builder, dir| builder.state_dir(dir.join("state")))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_does_not_see_another_s_run() {
    let place = open(|builder, dir| builder.state_dir(dir.join("state")));
    place.latch.open();
    let run = place.posse.start(place.run()).await.unwrap();
    run.ended().await.unwrap();
    let script = ScriptedModel::from_yaml(SCRIPT, "demo.yaml").unwrap();
    let other = Posse::builder()
        .state_dir(place.dir.path().join("state"))
        .tenant(posse::ports::TenantId::new("other"))
        .model("scripted/demo", script)
        .open()
        .unwrap();
    assert_eq!(other.runs("", 10).await.unwrap(), []);
    assert!(matches!(other.view(run.id()).await, Err(posse::Error::NoRun(_))));
    assert!(other.verify(run.id()).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_named_before_anything_is_written() {
    let place = open(|builder, _| builder.in_memory());
    let table = [
        (place.run().definition("explor"), "explore"),
        (place.run().model("scripted/none"), "none"),
        (NewRun::new(" ").model("scripted/demo").dir("."), "request"),
        (place.run().parallel(0), "parallel"),
        (place.run().base_turns(Some(0)), "base_turns"),
        (NewRun::new("x").dir("."), "model"),
        (NewRun::new("x").model("scripted/demo"), "dir"),
    ];
    for (run, named) in table {
        let error = place.posse.start(run).await.err().unwrap().to_string();
        assert!(error.contains(named), "{error} names {named}");
    }
    assert_eq!(place.posse.runs("", 10).await.unwrap(), []);
}
