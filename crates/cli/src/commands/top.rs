//! `posse top`.

use std::io::IsTerminal;
use std::path::PathBuf;

use posse::view::ListStatus;
use posse_setup::project_runs::Project;

use super::ps::status_parser;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::RunArg;
use crate::runtime;
use crate::top::{self, TopOptions};

/// Watch all runs on a full screen
///
/// Shows the list of runs and, of the selected one, its tree, a timeline with a row for each agent, the conversation,
/// the contract and the changes of each agent, and the journal; and the calls of all runs that wait for an answer, which
/// can be answered there. `?` lists the keys; a mouse works, too. The runs continue when you leave.
#[derive(Debug, clap::Args)]
pub(crate) struct TopArgs {
    /// Open this run at once
    run: Option<RunArg>,
    /// Only runs with this status
    #[arg(long, value_name = "STATUS", value_parser = status_parser())]
    status: Option<String>,
    /// Only runs of the project in this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Shows all runs.
pub(crate) fn top(args: &TopArgs, context: &Context) -> Result<Exit, CliError> {
    if !context.display.is_live || !std::io::stdin().is_terminal() {
        return Err(CliError::usage("`posse top` needs a terminal that can draw a full screen")
            .hint("`posse ps` lists the runs, and `posse logs -f` follows one"));
    }
    let posse = context.open_for_commands()?;
    runtime::looking(async {
        let run = match &args.run {
            Some(run) => Some(run.find(&posse, context).await?),
            None => None,
        };
        let status = args.status.as_deref();
        let dir = args.dir.as_deref().unwrap_or(&context.environment.cwd);
        let options = TopOptions {
            run,
            status: ListStatus::ALL.into_iter().find(|known| Some(known.as_str()) == status),
            project: Some(Project::of(dir, &context.environment)),
            is_only_project: args.dir.is_some(),
            home: context.environment.home.clone(),
            is_coloured: context.display.is_coloured,
        };
        top::show(posse, options).await
    })
}
