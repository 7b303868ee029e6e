//! `posse report`.

use std::io::IsTerminal;

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::WorkArg;
use crate::output::{Output, note};
use crate::runtime;
use crate::term;

/// Print the report of a run, or of one of its agents
///
/// Of an agent that failed: why, and what it still said.
#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    work: WorkArg,
}

/// Prints a report.
pub(crate) fn report(args: &ReportArgs, context: &Context) -> Result<Exit, CliError> {
    let posse = context.open_read_only()?;
    let (agent, report, turn_limited) = runtime::looking(async {
        let agent = args.work.find(&posse).await?;
        let report = posse.report(&agent).await?;
        let info = posse.get(&agent.run()).await?;
        let known = info.agents.iter().find(|known| known.id == agent);
        Ok((agent, report, known.is_some_and(|known| known.own.turn_limited > 0)))
    })?;
    let Some(report) = report else {
        return Err(CliError::failed(format!("{agent} has not reported yet"))
            .hint(format!("`posse trace {agent}` shows how far it is")));
    };
    let mut output = Output::new();
    if std::io::stdout().is_terminal() {
        output.paragraph(&report)?;
    } else {
        // A file or a pager gets it unwrapped, but free of what a model could steer a terminal with all the same.
        let report = term::clean(&report);
        output.bytes(report.as_bytes())?;
        if !report.ends_with('\n') {
            output.own("\n")?;
        }
    }
    output.flush()?;
    if turn_limited {
        note(&format!("{agent} was cut off by its turn limit: its work may be unfinished"));
    }
    Ok(Exit::DONE)
}
