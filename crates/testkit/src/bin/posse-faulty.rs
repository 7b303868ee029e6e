//! `posse` with armed faults: the real command, otherwise unchanged. The [variables](posse_testkit::variables) of its
//! environment state which faults are armed.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use posse_cli::Extras;
use posse_testkit::faults::{self, CrashPoint};
use posse_testkit::{ledger, variables};

fn main() -> ExitCode {
    match extras() {
        Ok(extras) => posse_cli::run(std::env::args_os(), extras),
        Err(problem) => {
            eprintln!("posse-faulty: {problem}");
            ExitCode::from(2)
        }
    }
}

fn extras() -> Result<Extras, String> {
    let death: Option<CrashPoint> = match variable(variables::FAULT) {
        Some(text) => Some(text.parse().map_err(|invalid: faults::InvalidDeath| invalid.to_string())?),
        None => None,
    };
    let log = variable(variables::POINTS).map(PathBuf::from);
    let faults = faults::armed(death, log.as_deref()).map_err(|error| error.to_string())?;
    let ledger = variable(variables::LEDGER).map(|file| ledger::tool(file.into(), faults.clone()));
    let lease = variable(variables::LEASE_MS)
        .map(|text| text.parse().map(Duration::from_millis).map_err(|error| format!("{text}: {error}")))
        .transpose()?;
    Ok(Extras { tools: ledger.into_iter().collect(), faults, lease })
}

#[expect(clippy::disallowed_methods, reason = "the composition root of the test command")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
