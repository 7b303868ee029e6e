//! Reports are in the journal, and in files for those who ask.

use std::path::Path;

use posse::scripted::{FnModel, ScriptedAnswer, ScriptedCall};
use posse::{AgentId, NewRun, Posse, ReportFiles};

/// A root with two children, of which the second fails.
fn family() -> FnModel<impl Fn(&posse::ports::ModelRequest) -> ScriptedAnswer> {
    let task = |kind: &str, prompt: &str| {
        let input = serde_json::json!({"subagent_type": kind, "description": "do it", "prompt": prompt});
        ScriptedCall::new("task", input)
    };
    FnModel::new(move |request| match (request.agent.relative(), request.turn) {
        ("0", 1) => ScriptedAnswer::text("Go.").calls([task("general", "first"), task("explore", "second")]),
        ("2", _) => ScriptedAnswer::text(""),
        (_, _) => ScriptedAnswer::text(format!("report of {}", request.agent.relative())),
    })
}

async fn ended(state: &Path, dir: &Path) -> posse::RunId {
    let posse = Posse::builder().state_dir(state).model("mock/family", family()).open().unwrap();
    let run = posse.start(NewRun::new("Go.").model("mock/family").dir(dir)).await.unwrap();
    run.ended().await.unwrap();
    run.id().clone()
}

fn files(dir: &Path) -> Vec<String> {
    let mut found: Vec<String> = walkdir(dir);
    found.sort();
    found
}

fn walkdir(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let below = |path: std::path::PathBuf| if path.is_dir() { walkdir(&path) } else { vec![text(&path)] };
    entries.flat_map(|entry| below(entry.path())).collect()
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_writes_no_report_files_and_whoever_asks_gets_all_of_them() {
    let home = tempfile::tempdir().unwrap();
    let (state, dir) = (home.path().join("state"), home.path().join("project"));
    std::fs::create_dir(&dir).unwrap();
    let run = ended(&state, &dir).await;
    let reports = state.join("runs").join(run.as_str()).join("reports");
    assert!(!reports.exists(), "the run does not wait for files");

    // Another process, which only reads the journal.
    let posse = Posse::builder().open_read_only(&state).open().unwrap();
    let path = |parent: &AgentId, idx: u32| {
        text(&reports.join(parent.to_string()).join(format!(".posse/step-{idx}-result.md")))
    };
    let (root, first) = (run.root(), run.root().child(1));
    let written = posse.write_reports(&first).await.unwrap();
    assert_eq!(written, Some(ReportFiles { dir: reports.clone(), count: 1 }));
    assert_eq!(files(&reports), [path(&root, 0)], "only that of the agent");

    let written = posse.write_reports(&root).await.unwrap();
    assert_eq!(written.map(|written| written.count), Some(2), "the root's own has no file");
    assert_eq!(files(&reports), [path(&root, 0), path(&root, 1)]);
    for (file, agent) in [(path(&root, 0), first.clone()), (path(&root, 1), root.child(2))] {
        let expected = posse.report(&agent).await.unwrap().unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), expected, "{agent}");
    }
    let failed = std::fs::read_to_string(path(&root, 1)).unwrap();
    assert!(failed.starts_with("Failed: "), "the reason of one that failed: {failed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_cannot_be_written_is_an_error_and_the_report_is_there_all_the_same() {
    let home = tempfile::tempdir().unwrap();
    let (state, dir) = (home.path().join("state"), home.path().join("project"));
    std::fs::create_dir(&dir).unwrap();
    let run = ended(&state, &dir).await;
    std::fs::create_dir_all(state.join("runs").join(run.as_str())).unwrap();
    std::fs::write(state.join("runs").join(run.as_str()).join("reports"), "in the way").unwrap();
    let posse = Posse::builder().open_read_only(&state).open().unwrap();
    let error = posse.write_reports(&run.root()).await.unwrap_err().to_string();
    assert!(error.contains("reports"), "{error}");
    assert_eq!(posse.report(&run.root().child(1)).await.unwrap().as_deref(), Some("report of 1"));
}
