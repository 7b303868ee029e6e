//! Checks that hold when a run has ended, however often it was killed.
//!
//! The journal is compared with everything that is known from outside: the lines that a follower received before a
//! kill, the ledger of effects, the files in the workspace, the process table. Each check is a function over the whole
//! journal and reports all its findings, so that one report shows the whole failure.

mod calls;
mod effects;
mod models;
mod spending;
mod tree;
mod workspaces;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use posse::ports::Holder;
use posse::{AgentView, JournalEvent, Posse, RunId, RunStatus};
use serde_json::Value;

pub use effects::Files;
pub use workspaces::{Repositories, result};

/// The harm of a breach for users of Posse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Harm {
    /// Something that was acknowledged or done is gone.
    Lost,
    /// An effect or a report happened twice.
    Doubled,
    /// Something is left without an owner: a process, an open child, a file.
    Orphan,
    /// Any other violation.
    Broken,
}

impl Harm {
    /// The name in a summary.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Doubled => "doubled",
            Self::Orphan => "orphan",
            Self::Broken => "broken",
        }
    }
}

/// One violated check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    pub harm: Harm,
    /// The finding and its position.
    pub text: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.harm.as_str(), self.text)
    }
}

#[derive(Debug, Default)]
pub struct Findings(Vec<Breach>);

impl Findings {
    pub fn add(&mut self, harm: Harm, text: impl Into<String>) {
        self.0.push(Breach { harm, text: text.into() });
    }

    /// Adds a breach unless `holds`.
    pub fn expect(&mut self, holds: bool, harm: Harm, text: impl FnOnce() -> String) {
        if !holds {
            self.add(harm, text());
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn append(&mut self, other: Findings) {
        self.0.extend(other.0);
    }

    pub fn into_breaches(self) -> Vec<Breach> {
        self.0
    }
}

/// Event lines that a reader outside received, by number.
#[derive(Debug, Clone, Default)]
pub struct AcknowledgedEvents(BTreeMap<u64, Value>);

impl AcknowledgedEvents {
    /// Takes a line of `--json` output. Lines that are not events are skipped. Returns the problem of a bad line.
    pub fn take(&mut self, line: &str) -> Result<(), String> {
        let event: Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
        let Some(seq) = event["seq"].as_u64() else { return Ok(()) };
        match self.0.insert(seq, event.clone()) {
            Some(before) if before != event => Err(format!("event {seq} was {before}, and then {event}")),
            _ => Ok(()),
        }
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The run of these events, if there are any.
    pub fn run(&self) -> Option<RunId> {
        let first = self.0.values().next()?;
        let agent: posse::AgentId = first["agent_id"].as_str()?.parse().ok()?;
        Some(agent.run())
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, &Value)> {
        self.0.iter().map(|(seq, event)| (*seq, event))
    }

    /// Checks that every acknowledged event is in `logs` with equal fields.
    pub fn check(&self, logs: &AcknowledgedEvents, findings: &mut Findings) {
        for (seq, event) in &self.0 {
            match logs.0.get(seq) {
                Some(kept) if kept == event => {}
                Some(kept) => {
                    findings.add(Harm::Lost, format!("event {seq} was printed as {event} and is {kept}"));
                }
                None => findings.add(Harm::Lost, format!("event {seq} was printed and is gone: {event}")),
            }
        }
    }
}

/// A run's journal and tables.
#[derive(Debug, Clone)]
pub struct Journal {
    pub run: RunId,
    /// The status in the tables.
    pub status: RunStatus,
    /// The process that executes the run, if one does.
    pub holder: Option<Holder>,
    /// The agents in the tables, in the order of their creation.
    pub agents: Vec<AgentView>,
    pub events: Vec<JournalEvent>,
}

impl Journal {
    /// Reads and verifies a run like `posse verify`, without writing anything.
    pub fn read(state: &Path, run: &RunId) -> Result<Self, String> {
        let words = |error: posse::Error| error.to_string();
        blocking(async {
            let posse = Posse::builder().open_read_only(state).open().map_err(words)?;
            posse.verify(run).await.map_err(|error| format!("the journal does not verify: {error}"))?;
            let problems = posse.check().await.map_err(words)?;
            if !problems.is_empty() {
                return Err(format!("the store is damaged: {}", problems.join("; ")));
            }
            let state = posse.current_state(run).await.map_err(words)?;
            let mut reader = posse.events(run, 0);
            let mut events = Vec::new();
            while let Some(event) = reader.try_next().await.map_err(words)? {
                events.push(event);
            }
            Ok(Self {
                run: run.clone(),
                status: state.status(),
                holder: state.holder().cloned(),
                agents: state.agents().iter().cloned().collect(),
                events,
            })
        })
    }
}

pub fn newest_run(state: &Path) -> Result<Option<RunId>, String> {
    blocking(async {
        let posse = Posse::builder().open_read_only(state).open().map_err(|error| error.to_string())?;
        let runs = posse.runs("", 1).await.map_err(|error| error.to_string())?;
        Ok(runs.into_iter().next().map(|entry| entry.run))
    })
}

fn blocking<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(work)
}

/// Checks everything that must hold for any ended run.
pub fn ended_run(journal: &Journal, ledger: &Path, files: &Files) -> Findings {
    let mut findings = Findings::default();
    tree::check(journal, &mut findings);
    calls::check(journal, &mut findings);
    models::check(journal, &mut findings);
    spending::check(journal, &mut findings);
    effects::check_ledger(journal, ledger, &mut findings);
    effects::check_files(journal, files, &mut findings);
    effects::check_commands(journal, files, &mut findings);
    findings
}
