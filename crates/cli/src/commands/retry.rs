//! `posse retry`.

use crate::commands::continue_run::{ContinueOptions, EARLIER, earlier_default, ended};
use crate::commands::run;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::AgentArg;

/// Try a run again that failed, was cancelled or reached a limit
///
/// Starts a new run that begins with the last integrated files of the earlier one: with its conversation, or with the steps
/// of its plan that are not integrated yet. Limits and model are those of the earlier run unless you name others. With an
/// agent of the run, its task starts anew on the run's result. The earlier run stays as it is.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("model", earlier_default),
    mut_arg("max-turns", earlier_default),
    mut_arg("max-agents", earlier_default),
    mut_arg("max-tokens", earlier_default),
    mut_arg("max-usd", earlier_default),
    mut_arg("max-time", earlier_default)
)]
pub(crate) struct RetryArgs {
    /// The run, or one of its agents
    run: AgentArg,
    #[command(flatten)]
    pub(crate) further: ContinueOptions,
}

/// Retries a run.
pub(crate) fn retry(args: RetryArgs, context: &Context) -> Result<Exit, CliError> {
    let (detach, json) = (args.further.detach, args.further.json);
    let earlier = ended(&args.run, context)?;
    let id = earlier.continuation.agent.clone();
    let draft = args.further.draft(None).retry(earlier, EARLIER).map_err(|error| {
        CliError::from(error).hint(format!("`posse continue {id} MESSAGE` asks it for more"))
    })?;
    run::start(draft, detach, json, context)
}
