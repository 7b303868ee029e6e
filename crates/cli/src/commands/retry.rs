//! `posse retry`.

use crate::commands::continue_run::{ContinueOptions, EARLIER, earlier_default, ended};
use crate::commands::run;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::AgentArg;
use crate::server;

/// Retry a run that failed, was cancelled or reached a limit
///
/// Starts a new run that begins with the last integrated files of the earlier one: with its conversation, or with the steps
/// of its plan that are not integrated yet. Limits and model are those of the earlier run unless you name others. With an
/// agent of the run, its task starts anew on the run's result. The earlier run stays as it is.
#[derive(Debug, clap::Args)]
#[command(mut_args(with_default))]
pub(crate) struct RetryArgs {
    /// The run, or one of its agents
    run: AgentArg,
    #[command(flatten)]
    pub(crate) further: ContinueOptions,
}

/// The flags whose defaults are the values of the earlier run.
const OF_EARLIER: [&str; 7] =
    ["model", "max-depth", "max-turns", "max-agents", "max-tokens", "max-usd", "max-time"];

fn with_default(flag: clap::Arg) -> clap::Arg {
    if OF_EARLIER.contains(&flag.get_id().as_str()) { earlier_default(flag) } else { flag }
}

/// Retries a run.
pub(crate) fn retry(args: RetryArgs, context: &Context) -> Result<Exit, CliError> {
    let (detach, json) = (args.further.detach, args.further.json);
    let earlier = ended(&args.run, context)?;
    let id = earlier.continuation.agent.clone();
    if let Some(server) = context.server() {
        return server::retry_agent(server, &id, &args.further.draft(None), detach, json, context);
    }
    let draft = args.further.draft(None).retry(earlier, EARLIER).map_err(|error| {
        CliError::from(error).hint(format!("`posse continue {id} MESSAGE` asks it for more"))
    })?;
    run::start(draft, detach, json, context)
}
