//! `posse deny`.

use posse::Answer;

use super::answer::{CallSelector, answer};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

/// Deny a call that needs your approval
///
/// Shows the call and asks before it acts; `--yes` answers in a script. If several calls wait, they are listed and
/// nothing is done. The agent continues without the call, and receives the reason if one is given.
#[derive(Debug, clap::Args)]
pub(crate) struct DenyArgs {
    #[command(flatten)]
    which: CallSelector,
    /// The reason, which the agent reads
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Denies a call.
pub(crate) fn deny(args: &DenyArgs, context: &Context) -> Result<Exit, CliError> {
    answer(&args.which, &Answer::Deny { reason: args.reason.clone() }, context)
}
