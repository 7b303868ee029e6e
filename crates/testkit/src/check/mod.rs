//! What must hold once a run has ended, however often it was killed on the way.
//!
//! The journal is read back and held against everything that is known from outside of it: the lines a follower was
//! given before a kill, the ledger of effects, the files in the workspace, the process table. Each check is a
//! function over the whole journal and says all it finds, so that one report shows the whole of a failure.

mod calls;
mod effects;
mod models;
mod spending;
mod tree;
mod workspaces;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use posse::{JournalEvent, Posse, RunId, RunInfo};
use serde_json::Value;

pub use effects::Files;
pub use workspaces::{Repositories, result};

/// What a breach did to whoever relies on Posse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Harm {
    /// Something that was acknowledged or done is gone.
    Lost,
    /// Something was done or delivered twice.
    Doubled,
    /// Something is left that nobody owns: a process, an open child, a file.
    Orphan,
    /// Anything else that must not be.
    Broken,
}

impl Harm {
    /// As a summary names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Doubled => "doubled",
            Self::Orphan => "orphan",
            Self::Broken => "broken",
        }
    }
}

/// One thing that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    /// What it did.
    pub harm: Harm,
    /// What was found, where.
    pub text: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.harm.as_str(), self.text)
    }
}

/// What was found so far.
#[derive(Debug, Default)]
pub struct Findings(Vec<Breach>);

impl Findings {
    /// Adds a breach.
    pub fn add(&mut self, harm: Harm, text: impl Into<String>) {
        self.0.push(Breach { harm, text: text.into() });
    }

    /// Adds a breach unless `holds`.
    pub fn expect(&mut self, holds: bool, harm: Harm, text: impl FnOnce() -> String) {
        if !holds {
            self.add(harm, text());
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds all of another's.
    pub fn append(&mut self, other: Findings) {
        self.0.extend(other.0);
    }

    /// All of them.
    pub fn into_breaches(self) -> Vec<Breach> {
        self.0
    }
}

/// Event lines that somebody outside was given, by number.
#[derive(Debug, Clone, Default)]
pub struct AcknowledgedEvents(BTreeMap<u64, Value>);

impl AcknowledgedEvents {
    /// Takes a line of `--json` output; lines that are no events are left out. Says what is wrong with it.
    pub fn take(&mut self, line: &str) -> Result<(), String> {
        let event: Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
        let Some(seq) = event["seq"].as_u64() else { return Ok(()) };
        match self.0.insert(seq, event.clone()) {
            Some(before) if before != event => Err(format!("event {seq} was {before}, and then {event}")),
            _ => Ok(()),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was acknowledged.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The run they belong to, if there is one.
    pub fn run(&self) -> Option<RunId> {
        let first = self.0.values().next()?;
        let agent: posse::AgentId = first["agent_id"].as_str()?.parse().ok()?;
        Some(agent.run())
    }

    /// The events by their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Value)> {
        self.0.iter().map(|(seq, event)| (*seq, event))
    }

    /// Every acknowledged event is in `logs`, the same in every part.
    pub fn check(&self, logs: &AcknowledgedEvents, findings: &mut Findings) {
        for (seq, event) in &self.0 {
            match logs.0.get(seq) {
                Some(kept) if kept == event => {}
                Some(kept) => {
                    findings.add(Harm::Lost, format!("event {seq} was told as {event} and is {kept}"));
                }
                None => findings.add(Harm::Lost, format!("event {seq} was told and is gone: {event}")),
            }
        }
    }
}

/// A run's journal and tables, read back.
#[derive(Debug)]
pub struct Journal {
    /// The run with its agents.
    pub info: RunInfo,
    /// Its events.
    pub events: Vec<JournalEvent>,
}

impl Journal {
    /// Reads a run back and verifies it as `posse verify` does, without writing anything.
    pub fn read(state: &Path, run: &RunId) -> Result<Self, String> {
        let words = |error: posse::Error| error.to_string();
        blocking(async {
            let posse = Posse::builder().open_read_only(state).open().map_err(words)?;
            posse.verify(run).await.map_err(|error| format!("the journal does not verify: {error}"))?;
            let problems = posse.check().await.map_err(words)?;
            if !problems.is_empty() {
                return Err(format!("the store is damaged: {}", problems.join("; ")));
            }
            let info = posse.get(run).await.map_err(words)?;
            let mut reader = posse.events(run, 0);
            let mut events = Vec::new();
            while let Some(event) = reader.try_next().await.map_err(words)? {
                events.push(event);
            }
            Ok(Self { info, events })
        })
    }
}

/// The newest run in a state directory, if there is one.
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

/// Checks everything that must hold for any run that has ended.
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
