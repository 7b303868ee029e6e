//! Where files are stored: in a temporary directory by default, or by the embedder's own ports.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use posse::sandbox::{LocalRecords, Sandbox, SandboxOptions};
use posse::scripted::ScriptedModel;
use posse::workspace::{LocalFiles, LocalWorkspaces};
use posse::{
    ApplyWhich, ExportOptions, FilePorts, GcRequest, NewRun, Posse, PosseBuilder, RunId, RunStatus,
    WorkspaceOptions, WorkspaceSettings,
};

use crate::{NAMES, WRITES_A_FILE};

/// A folder with one file.
fn project(top: &Path) -> std::path::PathBuf {
    let dir = top.join("project");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("a.txt"), "one\n").unwrap();
    dir
}

async fn run(builder: PosseBuilder, project: &Path) -> (Posse, RunId) {
    let script = ScriptedModel::from_yaml(WRITES_A_FILE, "script").unwrap();
    let posse = builder.model("scripted/own", script).open().unwrap();
    let run = posse.start(NewRun::new("write b").model("scripted/own").dir(project)).await.unwrap();
    assert_eq!(posse.wait(run.id()).await.unwrap().status, RunStatus::Completed);
    let run = run.id().clone();
    (posse, run)
}

async fn names(posse: &Posse, run: &RunId) -> String {
    String::from_utf8(posse.diff(&run.root(), NAMES).await.unwrap()).unwrap().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_in_memory_has_isolated_workspaces_all_the_same() {
    let top = tempfile::tempdir().unwrap();
    let project = project(top.path());
    let (posse, run) = run(Posse::builder().in_memory(), &project).await;
    assert!(!project.join("b.txt").exists(), "the agent wrote in the user's folder");
    assert_eq!(names(&posse, &run).await, "A\tb.txt");
    assert_eq!(posse.salvages(&run).await.unwrap().len(), 1);
    posse.apply(&run, ApplyWhich::Completed).await.unwrap();
    assert_eq!(std::fs::read_to_string(project.join("b.txt")).unwrap(), "two\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedders_own_ports_serve_everything_about_files() {
    let top = tempfile::tempdir().unwrap();
    let project = project(top.path());
    let elsewhere = top.path().join("elsewhere");
    let sandbox = Sandbox::new(SandboxOptions::default());
    let workspaces = LocalWorkspaces::new(&elsewhere, sandbox, WorkspaceSettings::default());
    let ports = FilePorts {
        dirs: Arc::new(workspaces.clone()),
        views: Arc::new(workspaces.clone()),
        workspaces: Arc::new(workspaces),
        files: Arc::new(LocalFiles::new(&elsewhere, WorkspaceOptions::default())),
        records: Arc::new(LocalRecords::new(&elsewhere.join("runs"))),
    };
    let state = top.path().join("state");
    let (posse, run) = run(Posse::builder().state_dir(&state).file_ports(ports), &project).await;
    assert_eq!(names(&posse, &run).await, "A\tb.txt");
    let target = top.path().join("restored");
    assert_eq!(posse.restore(&run.root(), None, &target).await.unwrap().files, 2);
    let bundle = top.path().join("run.posse");
    let exported = posse.export(&run, &bundle, ExportOptions::default()).await.unwrap();
    assert_eq!((exported.files, exported.has_base), (1, true));
    posse.apply(&run, ApplyWhich::Completed).await.unwrap();
    assert_eq!(std::fs::read_to_string(project.join("b.txt")).unwrap(), "two\n");
    let everything = GcRequest { runs_older_than: Some(Duration::ZERO), ..GcRequest::default() };
    let cleaned = posse.clean(everything).await.unwrap();
    assert!(cleaned.removed.contains(&format!("run {run}")), "{cleaned:?}");
    assert!(!elsewhere.join("runs").join(run.as_str()).exists());
    for name in ["projects", "runs"] {
        assert!(!state.join(name).exists(), "{name} is in the state directory");
    }
}
