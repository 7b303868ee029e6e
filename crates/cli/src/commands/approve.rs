//! `posse approve`.

use posse::Answer;

use super::answer::{CallSelector, answer};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::AgentArg;

/// Approve a call that waits for an answer
///
/// Without an id, the only waiting call is approved; if there are several, they are listed. The answer is durable: it
/// takes effect at once if the run is running, and after a resume if it was interrupted. It is bound to exactly this
/// call.
#[derive(Debug, clap::Args)]
pub(crate) struct ApproveArgs {
    /// The run, or an agent of it
    agent: Option<AgentArg>,
    /// The id of the call, if several wait
    call: Option<String>,
    /// Also allow exactly this operation in the rest of the run and in later runs in its directory
    #[arg(long)]
    always: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Approves a call.
pub(crate) fn approve(args: &ApproveArgs, context: &Context) -> Result<Exit, CliError> {
    let which = CallSelector { agent: args.agent.as_ref(), call: args.call.as_deref() };
    let given = if args.always { Answer::Always } else { Answer::Once };
    answer(&which, &given, args.json, context)
}
