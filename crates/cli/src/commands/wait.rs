//! `posse wait`.

use posse::{RunId, WaitOutcome, api};

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::RunArg;
use crate::output::Output;
use crate::runtime;
use crate::view;

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
        match posse.wait_while_executed(&run).await? {
            WaitOutcome::Ended(finished) => Ok(finished),
            WaitOutcome::Interrupted => Err(interrupted(&run)),
        }
    })?;
    let mut output = Output::new();
    if args.json {
        output.json(&api::Outcome::new(&finished, None))?;
    } else {
        view::print(&mut output, &finished)?;
    }
    Ok(Exit::of(&finished))
}

/// The error for a run that has not ended and that no process executes.
pub(crate) fn interrupted(run: &RunId) -> CliError {
    CliError::interrupted(format!("run {run} was interrupted and no process is running it"))
        .hint(format!("`posse resume {run}` continues it"))
}
