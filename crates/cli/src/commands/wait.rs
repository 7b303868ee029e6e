//! `posse wait`.

use std::time::Duration;

use posse::{Posse, RunId, RunOutcome};

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::RunArg;
use crate::json::ResultLine;
use crate::output::Output;
use crate::runtime;
use crate::view;

/// How often a wait checks that a process is still running the run.
const OWNER_CHECK: Duration = Duration::from_millis(500);
/// How many looks in a row must find nobody: one may fall between two owners.
const OWNER_CHECKS: u32 = 3;

/// Wait until a run has ended; the exit code is the run's
#[derive(Debug, clap::Args)]
pub(crate) struct WaitArgs {
    /// The run
    run: RunArg,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// Waits for a run.
pub(crate) fn wait(args: &WaitArgs, context: &Context) -> Result<Exit, CliError> {
    let posse = context.open_read_only()?;
    let finished = runtime::looking(async {
        let run = args.run.find(&posse).await?;
        end_of(&posse, &run).await
    })?;
    let mut output = Output::new();
    if args.json {
        output.json(&ResultLine::new(&finished))?;
    } else {
        view::print(&mut output, &finished, true)?;
    }
    Ok(Exit::of(&finished))
}

/// Waits for the end of a run that another process carries; an error if nobody does.
pub(crate) async fn end_of(posse: &Posse, run: &RunId) -> Result<RunOutcome, CliError> {
    tokio::select! {
        biased;
        finished = posse.wait(run) => Ok(finished?),
        abandoned = abandoned(posse, run) => {
            abandoned?;
            Err(interrupted(run))
        }
    }
}

/// That a run has not ended and no process executes it.
pub(crate) fn interrupted(run: &RunId) -> CliError {
    CliError::interrupted(format!("run {run} was interrupted and no process is running it"))
        .hint(format!("`posse resume {run}` goes on with it"))
}

/// Waits until no process is running the run any more, though it has not ended.
pub(crate) async fn abandoned(posse: &Posse, run: &RunId) -> Result<(), CliError> {
    let mut looks = tokio::time::interval(OWNER_CHECK);
    let mut alone = 0;
    loop {
        looks.tick().await;
        let summary = posse.runs(run.as_str(), 1).await?.into_iter().next();
        let is_alone = summary.is_some_and(|run| run.status == "running" && run.holder.is_none());
        alone = if is_alone { alone + 1 } else { 0 };
        if alone >= OWNER_CHECKS {
            return Ok(());
        }
    }
}
