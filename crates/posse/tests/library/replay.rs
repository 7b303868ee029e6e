//! Recorded runs, replayed through the library.

use std::sync::Arc;

use posse::scripted::ScriptedModel;
use posse::{NewRun, Posse};

const SCRIPT: &str = r"
- when: {definition: coder, turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: explore, description: look, prompt: look}}]}
- when: {definition: explore, turn: 1}
  reply: {tool_calls: [{name: grep, input: {pattern: main}}]}
- reply: {text: done}
";

fn script() -> ScriptedModel {
    ScriptedModel::from_yaml(SCRIPT, "script").expect("a script")
}

/// Another version of Posse, with another description of `grep`.
fn altered() -> posse::ports::Tool {
    let mut grep = posse::builtin_tools().into_iter().find(|tool| tool.name == "grep").expect("grep");
    let describe = grep.describe.clone();
    grep.describe = Arc::new(move |spawnable| {
        let mut spec = describe(spawnable);
        spec.description = format!("Finds lines, and more.\n{}", spec.description);
        spec
    });
    grep
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_tool_text_is_caught_and_shown() {
    let home = tempfile::tempdir().expect("a directory");
    let state = home.path().join("state");
    let dir = home.path().join("project");
    std::fs::create_dir(&dir).expect("a project");
    let posse = Posse::builder().state_dir(&state).model("scripted/own", script()).open().expect("open");
    let run = posse.start(NewRun::new("look").model("scripted/own").dir(&dir)).await.expect("started");
    assert_eq!(posse.wait(run.id()).await.expect("ended").status, posse::RunStatus::Completed);
    let model = format!("replay/{}", run.id());

    let same = posse.start(NewRun::new("").model(&model)).await.expect("started");
    assert_eq!(posse.wait(same.id()).await.expect("ended").status, posse::RunStatus::Completed);
    drop(posse);

    let other = Posse::builder().state_dir(&state).tool(altered()).open().expect("open");
    let differs = other.start(NewRun::new("look").model(&model)).await.expect("started");
    let finished = other.wait(differs.id()).await.expect("ended");
    assert_eq!(finished.status, posse::RunStatus::Failed);
    let reason = finished.why().expect("why");
    let head = format!(
        "the replay is not the recorded run {}: turn 1 of agent 0 (coder) asks for something else (REPLAY_DIFFERS)\n\
         the text of tool `grep` differs (- recorded, + now):\n+ Finds lines, and more.",
        run.id()
    );
    assert_eq!(reason, head);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_that_was_stopped_goes_on() {
    let home = tempfile::tempdir().expect("a directory");
    let state = home.path().join("state");
    let posse = Posse::builder().state_dir(&state).model("scripted/own", script()).open().expect("open");
    let run = posse.start(NewRun::new("look").model("scripted/own").dir(home.path())).await.expect("started");
    posse.wait(run.id()).await.expect("ended");
    let again = posse.start(NewRun::new("").model(format!("replay/{}", run.id()))).await.expect("started");
    posse.stop();
    // Whatever its progress.
    drop(again.ended().await);
    drop(posse);
    let later = Posse::builder().state_dir(&state).open().expect("open");
    if let posse::Resume::Going(handle) = later.resume(again.id()).await.expect("resumed") {
        handle.ended().await.expect("ended");
    }
    let finished = later.wait(again.id()).await.expect("ended");
    assert_eq!((finished.status, &*finished.text), (posse::RunStatus::Completed, "done"));
}
