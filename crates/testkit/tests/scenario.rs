//! The scenario without any fault, in this process; and the checker, which must find whatever is done to it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;

use posse::{NewRun, Posse, parse_agents};
use posse_testkit::check::{Files, Journal, ended_run};
use posse_testkit::scenario::{self, Scenario};
use posse_testkit::{faults, ledger};

/// Runs the scenario beneath `dir` and reads its journal back.
fn told(dir: &Path, points: &Path) -> (Scenario, Journal) {
    let scenario = Scenario::create(dir).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let run = runtime.block_on(async {
        let faults = faults::armed(None, Some(points)).unwrap();
        let builder = Posse::builder()
            .state_dir(scenario.state())
            .tool(ledger::tool(scenario.ledger(), faults.clone()));
        let posse = builder.faults(faults).script_dir(dir).open().unwrap();
        let text = std::fs::read_to_string(dir.join("agents.json")).unwrap();
        let definitions = parse_agents(&text, "agents.json", &posse.tool_names()).unwrap();
        let run = NewRun::new("Do everything at once.").definition("boss").definitions(definitions);
        let run = posse.start(run.model("scripted/script.yaml").dir(scenario.workspace())).await.unwrap();
        run.ended().await.unwrap();
        run.id().clone()
    });
    drop(runtime);
    let journal = Journal::read(&scenario.state(), &run).unwrap();
    (scenario, journal)
}

#[test]
fn undisturbed_it_does_everything_it_is_for() {
    let dir = tempfile::tempdir().unwrap();
    let (scenario, journal) = told(dir.path(), &dir.path().join("points"));
    let workspace = scenario.workspace();
    let before: BTreeSet<String> = (0..4).map(|n| format!("part{n}.txt")).collect();
    let files = Files { workspace: &workspace, before };
    for event in &journal.events {
        println!("{:4} {:6} {:36} {}", event.seq, event.agent_id.relative(), event.kind, event.summary);
    }
    let breaches = ended_run(&journal, &scenario.ledger(), &files).into_breaches();
    assert_eq!(breaches, []);
    assert_eq!(journal.info.status, "completed");
    assert_eq!(journal.info.agents.len() as u64, scenario::AGENTS);
    for (path, content) in Scenario::expected_files() {
        assert_eq!(std::fs::read_to_string(workspace.join(&path)).unwrap(), content, "{path}");
    }
}
