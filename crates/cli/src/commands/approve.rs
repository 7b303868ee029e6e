//! `posse approve`.

use posse::Answer;

use super::answer::{CallSelector, answer};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::AgentArg;

/// Say yes to a call that waits for a person
///
/// Without an id the only call that waits is meant; if there are several, they are listed. The answer is durable: it
/// counts for a run at work at once, and for an interrupted one when it is resumed. It is bound to exactly this call.
#[derive(Debug, clap::Args)]
pub(crate) struct ApproveArgs {
    /// The run, or an agent of it
    agent: Option<AgentArg>,
    /// Which of its calls, by id, if several wait
    call: Option<String>,
    /// From now on too: keep exactly this operation for the run and for later runs in its directory
    #[arg(long)]
    always: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Says yes.
pub(crate) fn approve(args: &ApproveArgs, context: &Context) -> Result<Exit, CliError> {
    let which = CallSelector { agent: args.agent.as_ref(), call: args.call.as_deref() };
    let said = if args.always { Answer::Always } else { Answer::Once };
    answer(&which, &said, args.json, context)
}
