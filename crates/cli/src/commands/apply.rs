//! `posse apply`, and `--apply` at the end of a run.

use posse::{AppliedAtEnd, AppliedRun, ApplyError, ApplySummary, ApplyWhich, Posse, RunId, RunOutcome, api};

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::RunArg;
use crate::output::Output;
use crate::runtime;
use crate::text::plural;

/// Apply a run's changes to your working tree
///
/// Applies all changes, or nothing if you changed the same lines since. Neither the index nor a branch is touched.
/// Applying twice changes nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct ApplyArgs {
    /// The run; `@` is the newest run of this project
    run: RunArg,
    /// Also apply a failed or cancelled run, whose changes may be incomplete
    #[arg(long)]
    unfinished: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Applies a run.
pub(crate) fn apply(args: &ApplyArgs, context: &Context) -> Result<Exit, CliError> {
    let posse = context.open_read_only()?;
    let which = if args.unfinished { ApplyWhich::Ended } else { ApplyWhich::Completed };
    let (run, applied) = runtime::looking(async {
        let run = args.run.find(&posse, context).await?;
        let applied = posse.apply(&run, which).await;
        Ok((run, applied))
    })?;
    let applied = match applied {
        // No agent of it could change files.
        Err(posse::Error::NoFiles(_)) => None,
        applied => Some(applied?),
    };
    let mut output = Output::new();
    if args.json {
        output.json(&api::ApplyResult::new(&run, applied.as_ref()))?;
    } else {
        output.text(&format!("{}\n", summary(&run, applied.as_ref())))?;
    }
    output.flush()?;
    Ok(Exit::DONE)
}

/// Describes the result of applying.
fn summary(run: &RunId, applied: Option<&AppliedRun>) -> String {
    let Some(AppliedRun { dir, applied: Some(applied) }) = applied else {
        return format!("run {run} changed no files: there is nothing to apply");
    };
    let dir = dir.display();
    let ApplySummary { files, merged, already } = *applied;
    let count = |number: usize| plural(number as u64, "file");
    match (files, merged, already) {
        (0, _, already) => {
            format!("run {run} was already applied: {} in {dir} up to date", count(already))
        }
        (files, merged, already) => {
            let some = |number: usize, what: &str| match number {
                0 => String::new(),
                number => format!(", {number} {what}"),
            };
            let merged = some(merged, "of them merged with your changes");
            let already = some(already, "already up to date");
            format!("applied run {run}: {} changed in {dir}{merged}{already}", count(files))
        }
    }
}

/// Applies a run that has just ended, if it completed. Returns a description of the result, or the error. `None` for a
/// run that did not complete.
pub(crate) async fn apply_at_end(posse: &Posse, finished: &RunOutcome) -> Option<Result<String, CliError>> {
    match posse.apply_at_end(finished).await {
        Ok(AppliedAtEnd::NotCompleted) => None,
        Ok(AppliedAtEnd::NoFiles) => Some(Ok(summary(&finished.run, None))),
        Ok(AppliedAtEnd::Applied(applied)) => Some(Ok(summary(&finished.run, Some(&applied)))),
        Err(error) => Some(Err(error.into())),
    }
}

/// The error for a run that was not applied.
pub(crate) fn not_applied(run: &RunId, message: String, problem: &ApplyError) -> CliError {
    let again = format!("`posse apply {run}`");
    CliError::failed(message).hint(match problem {
        ApplyError::Conflict { .. } => {
            // Committing alone does not help: the result is compared with the run's base.
            format!(
                "commit your change and merge by hand (`git merge posse/{run}` or `git cherry-pick`), or undo your change of those files, then {again}; without a branch, copy what you need from `posse diff {run}`"
            )
        }
        ApplyError::Moved { .. } => format!("{again} continues"),
        ApplyError::Workspace(_) => format!("fix that, then {again}; the run's work is kept"),
    })
}
