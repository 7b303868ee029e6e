//! A minimal program that embeds Posse. Its agent runs one command, in a sandbox that this binary creates itself. With
//! `--forgetful` it does not call `posse::init()` first.

use std::process::ExitCode;

use posse::scripted::ScriptedModel;
use posse::{EventBody, NewRun, Posse};

/// One command, then the report.
const SCRIPT: &str = r#"
- when: {turn: 1}
  reply: {text: go, tool_calls: [{name: bash, input: {command: "echo embedded > made; id -u; ls ~"}}]}
- reply: {text: done}
"#;

fn main() -> ExitCode {
    if !std::env::args().any(|argument| argument == "--forgetful") {
        posse::init();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.map_err(|error| error.to_string()).and_then(|runtime| runtime.block_on(embed())) {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// Executes a run in the directory `project`, and returns the output of its command.
async fn embed() -> Result<String, String> {
    let text = |error: posse::Error| error.to_string();
    let script = ScriptedModel::from_yaml(SCRIPT, "script").map_err(|error| error.to_string())?;
    let posse = Posse::builder().model("scripted/own", script).state_dir("state").open().map_err(text)?;
    let dir = std::fs::canonicalize("project").map_err(|error| error.to_string())?;
    let run = NewRun::new("do it").model("scripted/own").dir(dir.display().to_string());
    let run = posse.start(run).await.map_err(text)?;
    posse.wait(run.id()).await.map_err(text)?;
    let mut events = posse.events(run.id(), 0);
    // The run has ended, so its journal has a result of the only call.
    loop {
        let event = events.next().await.map_err(text)?;
        if let EventBody::ToolFinished(finished) = &event.body {
            return Ok(finished.output.to_shared().to_string());
        }
    }
}
