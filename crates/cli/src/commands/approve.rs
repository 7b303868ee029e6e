//! `posse approve`.

use posse::Answer;

use super::answer::{CallSelector, answer};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

/// Approve a call that needs your approval
///
/// Shows the call and asks before it acts; `--yes` answers in a script. If several calls wait, they are listed and
/// nothing is done. The answer is durable: it takes effect at once if the run is running, and after a resume if it was
/// interrupted. It is bound to exactly the call that was shown.
#[derive(Debug, clap::Args)]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    which: CallSelector,
    /// Also allow exactly this operation in the rest of the run and in later runs in its directory
    #[arg(long)]
    always: bool,
}

/// Approves a call.
pub(crate) fn approve(args: &ApproveArgs, context: &Context) -> Result<Exit, CliError> {
    let given = if args.always { Answer::Always } else { Answer::Once };
    answer(&args.which, &given, context)
}
