//! Ends the process at a fault point, as a crash would.
//!
//! The engine, the store, workspaces and the [ledger](crate::ledger) tool pass the fault points. This module only knows
//! their names. SIGKILL behaves like a crash: no destructor runs, no buffer is flushed, no lock is released.

use std::collections::HashMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use posse::ports::Faults;
use posse_workspace::OVERLAY_POINTS;
use rustix::process::{Signal, getpid, kill_process};

use crate::workspace_kind;

/// Points at which workspaces are applied, removed, imported or found torn, and at which deep layers are folded. No run of
/// a campaign passes them. The workspace crate's own tests use them.
const NOT_IN_A_RUN: [&str; 8] = [
    "workspace.fold.",
    "workspace.torn.",
    "workspace.remove.",
    "workspace.apply.",
    "workspace.gc.",
    "workspace.remove_run.",
    "workspace.import.",
    "workspace.restore.",
];

/// Every fault point that a run can pass: those of the engine, the store, the ledger and workspaces.
pub fn points() -> Vec<&'static str> {
    let not_passed = (!workspace_kind::are_overlays()).then_some(OVERLAY_POINTS);
    let in_a_run = |point: &&&str| {
        !NOT_IN_A_RUN.into_iter().chain(not_passed).any(|beginning| point.starts_with(beginning))
    };
    let all = posse_engine::FAULT_POINTS
        .iter()
        .chain(&posse_store::FAULT_POINTS)
        .chain(crate::ledger::FAULT_POINTS)
        .chain(posse_workspace::FAULT_POINTS.iter().filter(in_a_run));
    all.copied().collect()
}

/// The moment at which a process dies: the `passing`-th passing of `point`, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrashPoint {
    pub point: String,
    pub passing: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidDeath(String);

impl fmt::Display for InvalidDeath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not `point:passing` with a known point", self.0)
    }
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.point, self.passing)
    }
}

impl FromStr for CrashPoint {
    type Err = InvalidDeath;

    fn from_str(text: &str) -> Result<Self, InvalidDeath> {
        let invalid = || InvalidDeath(text.to_owned());
        let (point, passing) = text.split_once(':').ok_or_else(invalid)?;
        let passing = passing.parse().ok().filter(|&passing| passing > 0).ok_or_else(invalid)?;
        // A misspelt point would never be passed, and the test would prove nothing.
        if !points().contains(&point) {
            return Err(invalid());
        }
        Ok(Self { point: point.to_owned(), passing })
    }
}

/// Fault points that end this process at `death`, and write every passing to `log`, one name per line.
pub fn armed(death: Option<CrashPoint>, log: Option<&Path>) -> std::io::Result<Faults> {
    let log = log.map(|path| OpenOptions::new().create(true).append(true).open(path)).transpose()?;
    if death.is_none() && log.is_none() {
        return Ok(Faults::default());
    }
    let passed: Mutex<HashMap<&'static str, u32>> = Mutex::default();
    Ok(Faults::new(move |point| {
        if let Some(log) = &log {
            note(log, point);
        }
        let mut passed = passed.lock().unwrap_or_else(PoisonError::into_inner);
        let count = passed.entry(point).or_default();
        *count += 1;
        if death.as_ref().is_some_and(|death| death.point == point && death.passing == *count) {
            die();
        }
    }))
}

fn note(mut log: &File, point: &str) {
    // One write per line, because other threads append too.
    let _ = log.write_all(format!("{point}\n").as_bytes());
}

/// Ends this process like a crash: at once, without a message.
fn die() {
    let _ = kill_process(getpid(), Signal::KILL);
    // Not reached: the signal ends the process when the call returns.
    std::process::abort();
}

/// How often each point was passed, from a log that [`armed`] wrote.
pub fn passings(log: &Path) -> std::io::Result<HashMap<String, u32>> {
    let text = std::fs::read_to_string(log)?;
    let mut counts = HashMap::new();
    for line in text.lines() {
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_is_read_as_it_is_shown() {
        let death: CrashPoint = "engine.commit.after:3".parse().unwrap();
        assert_eq!(death, CrashPoint { point: "engine.commit.after".to_owned(), passing: 3 });
        assert_eq!(death.to_string(), "engine.commit.after:3");
        for wrong in ["engine.commit.after", "engine.commit.after:0", "engine.commit.aftre:1", "", ":1"] {
            assert!(wrong.parse::<CrashPoint>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn points_have_one_name_each() {
        let mut names = points();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn passings_are_counted_from_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("points");
        let faults = armed(None, Some(&log)).unwrap();
        for point in ["engine.commit.before", "engine.commit.after", "engine.commit.before"] {
            faults.hit(point);
        }
        let counts = passings(&log).unwrap();
        assert_eq!(counts.get("engine.commit.before"), Some(&2));
        assert_eq!(counts.get("engine.commit.after"), Some(&1));
    }
}
