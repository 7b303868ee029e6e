//! The facade over both stores, with a scripted model and real tools.

use posse::{NewRun, Posse};

const SCRIPT: &str = r#"
- when: {definition: coder, turn: 1}
  reply:
    text: "I will ask."
    tool_calls:
      - {name: task, input: {subagent_type: explore, description: "find it", prompt: "Where is main?"}}
- when: {definition: explore, turn: 1}
  reply:
    text: "Looking."
    tool_calls:
      - {name: read, input: {path: "hello.txt"}}
- when: {definition: explore}
  reply: {text: "In src/main.rs."}
- when: {definition: coder}
  reply: {text: "It is in src/main.rs."}
"#;

async fn one_child(builder: posse::PosseBuilder) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("hello.txt"), "hello\n").unwrap();
    let script = posse::scripted::Scripted::from_yaml(SCRIPT, "demo.yaml").unwrap();
    let posse = builder.model("scripted/demo", script).open().unwrap();
    let run =
        posse.start(NewRun::new("Where is main?").model("scripted/demo").dir(dir.path())).await.unwrap();
    run.ended().await.unwrap();
    let finished = posse.wait(run.id()).await.unwrap();
    let mut events = posse.events(run.id(), 0);
    while let Some(event) = events.try_next().await.unwrap() {
        println!("{:3} {:12} {:32} {}", event.seq, event.agent_id.relative(), event.kind, event.summary);
    }
    assert_eq!(finished.status, "completed");
    assert_eq!(finished.text, "It is in src/main.rs.");
    assert_eq!(posse.children(&run.id().root()).await.unwrap().len(), 1);
    posse.verify(run.id()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_over_memory() {
    one_child(Posse::builder().in_memory()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_over_sqlite() {
    let home = tempfile::tempdir().unwrap();
    one_child(Posse::builder().state_dir(home.path())).await;
}
