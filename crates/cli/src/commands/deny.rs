//! `posse deny`.

use posse::Answer;

use super::answer::{CallSelector, answer};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::AgentArg;

/// Deny a call that waits for an answer
///
/// Without an id, the only waiting call is denied; if there are several, they are listed. The agent continues without
/// it, and receives the reason if one is given.
#[derive(Debug, clap::Args)]
pub(crate) struct DenyArgs {
    /// The run, or an agent of it
    agent: Option<AgentArg>,
    /// The id of the call, if several wait
    call: Option<String>,
    /// The reason, which the agent reads
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Denies a call.
pub(crate) fn deny(args: &DenyArgs, context: &Context) -> Result<Exit, CliError> {
    let which = CallSelector { agent: args.agent.as_ref(), call: args.call.as_deref() };
    answer(&which, &Answer::Deny { reason: args.reason.clone() }, args.json, context)
}
