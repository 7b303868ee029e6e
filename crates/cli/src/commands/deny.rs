//! `posse deny`.

use posse::Answer;

use super::answer::{CallSelector, answer};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::AgentArg;

/// Say no to a call that waits for a person
///
/// Without an id the only call that waits is meant; if there are several, they are listed. The agent goes on without
/// it, and is told why if a reason is given.
#[derive(Debug, clap::Args)]
pub(crate) struct DenyArgs {
    /// The run, or an agent of it
    agent: Option<AgentArg>,
    /// Which of its calls, by id, if several wait
    call: Option<String>,
    /// Why, for the agent to read
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Says no.
pub(crate) fn deny(args: &DenyArgs, context: &Context) -> Result<Exit, CliError> {
    let which = CallSelector { agent: args.agent.as_ref(), call: args.call.as_deref() };
    answer(&which, &Answer::Deny { reason: args.reason.clone() }, args.json, context)
}
