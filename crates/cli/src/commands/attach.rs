//! `posse attach`.

use crate::context::Context;
use crate::drive::watch;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::RunArg;
use crate::questions::{self, QuestionPrompter};
use crate::runtime;
use crate::signals::Signals;
use crate::view::View;

/// Watch a run that another process executes, until it ends
///
/// Shows the live tree of any run, from any terminal. The keys are those of `posse run` (`?` lists them): they send
/// messages, answer questions and cancel agents; `d` leaves the run, which continues. Leaving never affects the run. The
/// exit code is that of the run.
#[derive(Debug, clap::Args)]
pub(crate) struct AttachArgs {
    /// The run [default: the newest run of this project]
    run: Option<RunArg>,
    /// Print events and the result as JSON lines
    #[arg(long)]
    json: bool,
}

/// Watches a run.
pub(crate) fn attach(args: &AttachArgs, context: &Context) -> Result<Exit, CliError> {
    let posse = context.open_for_commands()?;
    runtime::looking(async {
        let run = args.run.clone().unwrap_or_else(RunArg::newest).find(&posse, context).await?;
        let known = posse.view(&run).await?.last_seq();
        let mut signals = Signals::listen()?;
        let asking = QuestionPrompter::new(questions::attended(args.json));
        watch(&posse, &run, known, &mut signals, View::new(args.json, context), asking).await
    })
}
