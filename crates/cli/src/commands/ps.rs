//! `posse ps`.

use std::fmt::Write;

use posse::view::{BlockedAgents, ShownStatus};
use posse::{ListedRun, RunSummary, api};

use crate::blocked;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, note};
use crate::runtime;
use crate::term;
use crate::text::{ago, now_ms};

/// How many runs are listed by default.
const SHOWN: u32 = 20;

/// List the runs, newest first
#[derive(Debug, clap::Args)]
pub(crate) struct PsArgs {
    /// How many to list
    #[arg(short = 'n', long, value_name = "N", default_value_t = SHOWN, conflicts_with = "all",
        value_parser = clap::value_parser!(u32).range(1..))]
    number: u32,
    /// List all of them
    #[arg(long, short)]
    all: bool,
    /// Print one JSON object for each run
    #[arg(long)]
    json: bool,
}

/// Lists the runs.
pub(crate) fn ps(args: &PsArgs, context: &Context) -> Result<Exit, CliError> {
    let posse = context.open_read_only()?;
    let limit = if args.all { u32::MAX } else { args.number };
    let runs = runtime::looking(async { Ok(posse.listed_runs(limit).await?) })?;
    let mut output = Output::new();
    if args.json {
        for run in &runs {
            output.json(&api::RunSummary::from(run))?;
        }
    } else if runs.is_empty() {
        note("no runs yet; `posse demo` shows one");
    } else {
        output.own(&table(&runs, now_ms()))?;
        let is_interrupted =
            |run: &&RunSummary| run.damage.is_none() && run.shown_status() == ShownStatus::Interrupted;
        output.flush()?;
        if let Some(run) = runs.iter().map(|listed| &listed.run).find(is_interrupted) {
            note(&format!("no process is running {0}: `posse resume {0}` continues it", run.run));
        }
        let mut all: Vec<&BlockedAgents> = runs.iter().map(|listed| &listed.blocked).collect();
        all.sort_by_key(|blocked| blocked.agents().first().copied().cloned());
        for blocked in &all {
            for agent in blocked.agents() {
                let words = blocked::words(blocked, agent).unwrap_or_default();
                note(&format!("{agent} is blocked: {words}"));
            }
        }
        if all.iter().any(|blocked| !blocked.questions().is_empty()) {
            note("answer questions with `posse approve` or `posse deny`");
        }
    }
    output.flush()?;
    // After the list: one damaged run must not hide the others.
    match runs.iter().map(|listed| &listed.run).find(|run| run.damage.is_some()) {
        Some(run) => runtime::looking(async { Ok(posse.check_head(&run.run).await?) }).map(|()| Exit::DONE),
        None => Ok(Exit::DONE),
    }
}

/// The request. A replay is marked, because it spent nothing and cannot be applied.
fn title(run: &RunSummary) -> String {
    match posse::replayed(&run.model) {
        Some(recorded) => format!("[replay of {recorded}] {}", run.title),
        None => run.title.clone(),
    }
}

fn table(runs: &[ListedRun], now_ms: i64) -> String {
    let mut table =
        format!("{:8}  {:11}  {:>7}  {:>6}  {:>12}  REQUEST\n", "RUN", "STATUS", "PID", "AGENTS", "STARTED");
    for ListedRun { run, is_turn_limited, .. } in runs {
        let pid = run.holder.as_ref().and_then(|holder| holder.pid);
        let pid = pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        let _ = writeln!(
            table,
            "{:8}  {:11}  {pid:>7}  {:>6}  {:>12}  {}",
            run.run,
            // It completed, but its work may be unfinished.
            match (&run.damage, is_turn_limited) {
                (Some(_), _) => "damaged",
                (None, true) => "turn limit",
                (None, false) => run.shown_status().as_str(),
            },
            run.agents,
            ago(run.created_at_ms, now_ms),
            term::line(&title(run)),
        );
    }
    table
}
