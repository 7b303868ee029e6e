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
/// For a failed agent, prints the reason and its last text.
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
        let record = posse.agent(&agent).await?;
        Ok((agent, report, record.agent.is_turn_limited()))
    })?;
    let Some(report) = report else {
        return Err(CliError::failed(format!("{agent} has not reported yet"))
            .hint(format!("`posse trace {agent}` shows how far it is")));
    };
    let mut output = Output::new();
    if std::io::stdout().is_terminal() {
        output.paragraph(&report)?;
    } else {
        // A file or a pager gets it unwrapped, but without terminal escapes.
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
