//! `posse rm`.

use posse::{GcSummary, api};

use crate::confirm::confirm;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::RunArg;
use crate::output::{Output, note};
use crate::runtime;
use crate::term;
use crate::text::{ago, bytes, now_ms, plural};

/// Remove runs that have ended, with their journals, workspaces and salvaged work
///
/// The branch `posse/RUN` in your repository stays. A run that has not ended is never removed: cancel it first.
#[derive(Debug, clap::Args)]
pub(crate) struct RmArgs {
    /// The runs; `@` is the newest run of this project
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<RunArg>,
    /// Do not ask, for scripts
    #[arg(long, short)]
    yes: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Removes runs.
pub(crate) fn rm(args: &RmArgs, context: &Context) -> Result<Exit, CliError> {
    let reader = context.open_read_only()?;
    let going = runtime::looking(async {
        let mut going = Vec::new();
        // All of them are found before one is removed: `@2` must not change its meaning.
        for name in &args.runs {
            let run = reader.summary(&name.find(&reader, context).await?).await?;
            if run.status.is_running() {
                return Err(posse::Error::StillRunning(run.run).into());
            }
            if !going.contains(&run) {
                going.push(run);
            }
        }
        Ok(going)
    })?;
    drop(reader);
    for run in &going {
        let status = run.shown_status().as_str();
        let started = ago(run.created_at_ms, now_ms());
        note(&format!("{}  {status}, started {started}  {}", run.run, term::line(&run.title)));
    }
    let count = plural(going.len() as u64, "run");
    if !args.yes && !confirm(&format!("remove {count} for good?"), "nothing was removed")? {
        note("nothing was removed");
        return Ok(Exit::FAILED);
    }
    let posse = context.open_for_commands()?;
    let removed = runtime::looking(async {
        let mut removed = GcSummary::default();
        for run in &going {
            removed.add(posse.remove(&run.run).await?);
        }
        Ok(removed)
    })?;
    if args.json {
        Output::new().json(&api::GcResult::new(&removed, false))?;
    }
    for kept in &removed.kept {
        note(&format!("kept {}: {}", kept.what, kept.why));
    }
    if !removed.kept.is_empty() {
        return Ok(Exit::FAILED);
    }
    note(&format!("removed {count}, freed {}", bytes(removed.freed_bytes)));
    Ok(Exit::DONE)
}
