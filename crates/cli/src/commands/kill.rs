//! `posse kill`.

use super::cancel::{EndRequest, end};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::NamedWorkArg;

/// Stop a run, or one of its agents with its subtree, at once
///
/// Like `posse cancel`, but the running tool calls are stopped at once instead of being given time to end by themselves.
/// Work that a stopped command had not finished is kept as far as it is on disk.
#[derive(Debug, clap::Args)]
pub(crate) struct KillArgs {
    #[command(flatten)]
    agent: NamedWorkArg,
    /// The reason
    #[arg(long, value_name = "TEXT", default_value = "killed by the user")]
    reason: String,
    /// Return as soon as the request is recorded
    #[arg(long)]
    no_wait: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Stops a run or an agent at once.
pub(crate) fn kill(args: &KillArgs, context: &Context) -> Result<Exit, CliError> {
    let ending = EndRequest { reason: &args.reason, at_once: true, no_wait: args.no_wait, json: args.json };
    end(&args.agent, &ending, context)
}
