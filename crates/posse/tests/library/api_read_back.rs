//! A client with the same types can read back what a front end prints about a run.

use posse::api::{self, Object, VersionedObject};
use posse::scripted::ScriptedModel;
use posse::view::ListStatus;
use posse::{Answer, Decision, EventKind, NewRun, Posse, Rule, TimeZone};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The JSON of an object. Asserts that it stays the same after it was read back.
fn read_back<T: Object + DeserializeOwned>(object: &T) -> Value {
    let printed = serde_json::to_value(VersionedObject::new(object)).expect("JSON");
    let read: T = serde_json::from_value(printed.clone()).expect("the type that printed it");
    assert_eq!(serde_json::to_value(VersionedObject::new(&read)).expect("JSON"), printed);
    printed
}

#[tokio::test]
async fn a_client_reads_what_is_printed_about_a_run() {
    let script = "
- when: {turn: 1}
  reply: {tool_calls: [{name: list, input: {path: .}}], usage: {input_tokens: 9, output_tokens: 4}}
- reply: {text: done}
";
    let script = ScriptedModel::from_yaml(script, "script.yaml").expect("a script");
    let posse = Posse::builder().model("scripted/test", script).in_memory().open().expect("open");
    let ask = Rule { pattern: "list".parse().expect("pattern"), decision: Decision::Ask };
    let run = NewRun::new("List it.").model("scripted/test").dir(".").run_rules(vec![ask].into());
    let handle = posse.start(run.attended(true)).await.expect("started");
    let run = handle.id();

    let mut events = posse.events(run, 0);
    loop {
        let event = events.next().await.expect("an event");
        let printed = read_back(&api::Event::new(&event).into_owned());
        assert_eq!(printed["kind"], event.kind.as_str());
        if event.kind == EventKind::InputRequested {
            break;
        }
    }
    let view = posse.view(run).await.expect("a view");
    let detail =
        read_back(&api::RunDetail::new(&view, view.last_at_ms(), &TimeZone::UTC, api::FilesOfRun::default()));
    assert_eq!(detail["status"], "running");
    let blocked = &detail["agents"][0]["blocked_on"];
    assert_eq!((&blocked["kind"], &blocked["operation"]), (&json!("approver"), &json!("list:.")));
    assert_eq!(detail["agents"][0]["blocked"], "needs your approval: list:.");
    let listed = posse.listed_runs(1, |_| true).await.expect("a list").remove(0);
    assert_eq!(listed.status(), ListStatus::Waiting);
    let label = &listed.run.holder.as_ref().expect("a process executes it").label;
    assert_eq!(read_back(&api::RunSummary::new(&listed, None, 0))["holder"], json!(label));

    let requests = posse.pending_questions_of(&view).await.expect("requests");
    assert_eq!(requests, posse.pending_questions(run).await.expect("requests"));
    read_back(&api::Question::new(&requests[0]));
    posse.answer(&requests[0], Answer::Once).await.expect("answered");
    assert_eq!(read_back(&api::Answer::new(&requests[0], &Answer::Once, true))["decision"], "allow");
    let twice = posse.answer(&requests[0], Answer::Once).await;
    assert!(matches!(twice, Err(posse::Error::NotAsked { .. })), "a question has one answer");

    let outcome = posse.wait(run).await.expect("it ends");
    let printed = read_back(&api::Outcome::new(&outcome, None));
    assert_eq!((&printed["type"], &printed["status"]), (&json!("result"), &json!("completed")));
    assert_eq!(printed["exit"], 0);
    let view = posse.view(run).await.expect("a view");
    let detail =
        read_back(&api::RunDetail::new(&view, view.last_at_ms(), &TimeZone::UTC, api::FilesOfRun::default()));
    assert_eq!(detail["agents"][0]["close_reason"], "integrated");
    assert_eq!(read_back(&api::RunStats::new(&view, view.last_at_ms()))["status"], "completed");
}
