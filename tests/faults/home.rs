//! A temporary directory with a script and the command, shared by these stories.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use posse_testkit::process::{Launch, ProcessResult, RunningProcess};
use serde_json::Value;
use tempfile::TempDir;

/// The command with armed fault points.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_posse-faulty");
/// The timeout for an event that must happen; it comes much sooner.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A directory with a project, a script and a state directory.
pub(crate) struct Home {
    dir: TempDir,
    /// The command, with its state in the home.
    pub(crate) launch: Launch,
}

impl Home {
    /// A home whose model follows this script.
    pub(crate) fn with_script(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let launch = Launch::new(Path::new(PROGRAM), dir.path(), &dir.path().join("state"));
        let home = Self { dir, launch };
        home.write_script(script);
        home
    }

    /// Replaces the script; processes that were started before keep theirs.
    pub(crate) fn write_script(&self, script: &str) {
        fs::write(self.path("script.yaml"), script).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path("state/posse.db")
    }

    /// Runs the command to its end.
    pub(crate) fn posse(&self, args: &[&str]) -> ProcessResult {
        self.launch.output(args).unwrap()
    }

    /// Starts the command.
    pub(crate) fn start(&self, args: &[&str]) -> RunningProcess {
        self.launch.start(args).unwrap()
    }

    /// Starts a run of the script.
    pub(crate) fn start_run(&self) -> RunningProcess {
        self.start(&["run", "--json", "--model", "scripted/script.yaml", "do it"])
    }

    /// Executes a run of the script to its end; returns its id and the output.
    pub(crate) fn run(&self, more: &[&str]) -> (String, ProcessResult) {
        let mut args = vec!["run", "--json", "--model", "scripted/script.yaml"];
        args.extend(more);
        args.push("do it");
        let said = self.posse(&args);
        (run_of(said.out.lines().next().unwrap()), said)
    }

    /// The events of a run, from `logs`.
    pub(crate) fn logs(&self, run: &str) -> Vec<Value> {
        let said = self.posse(&["logs", "--json", run]);
        assert!(said.status.success(), "{said:?}");
        events(said.out.lines())
    }
}

/// Waits for an event of this kind, by an agent whose id ends with `agent`; returns all lines up to it.
#[track_caller]
pub(crate) fn hear_event(running: &RunningProcess, agent: &str, kind: &str) -> Vec<String> {
    let wanted = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap_or_default();
        event["kind"] == kind && event["agent_id"].as_str().is_some_and(|id| id.ends_with(agent))
    };
    running.read_until(PATIENCE, wanted).unwrap_or_else(|heard| panic!("no {kind} of {agent} in {heard:#?}"))
}

/// The run of an event line or of a result.
#[track_caller]
pub(crate) fn run_of(line: &str) -> String {
    let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let id = value["agent_id"].as_str().or(value["run"].as_str());
    id.unwrap_or_else(|| panic!("no run in {line}")).split('.').next().unwrap().to_owned()
}

/// The events among JSON lines.
pub(crate) fn events<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Value> {
    let values =
        lines.map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{e}: {line}")));
    values.filter(|value| value["seq"].is_u64()).collect()
}

/// How many events have this kind.
pub(crate) fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|event| event["kind"] == kind).count()
}
