//! `posse report`.

use std::io::IsTerminal;

use posse::{ReportFiles, api};

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::WorkArg;
use crate::output::{Output, note};
use crate::runtime;
use crate::term;
use crate::view::refused_lines;

/// Print the report of a run, or of one of its agents
///
/// For a failed agent, prints the reason and its last text. The reports of sub-agents, this one's and those beneath it,
/// are also written to files beneath the state directory.
#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    work: WorkArg,
    /// Print one JSON object: the agent, its state, its report, and the checks of its work
    #[arg(long)]
    json: bool,
}

/// Prints a report.
pub(crate) fn report(args: &ReportArgs, context: &Context) -> Result<Exit, CliError> {
    let posse = context.open_read_only()?;
    let (record, report, checks, refused, files) = runtime::looking(async {
        let agent = args.work.find(&posse, context).await?;
        let report = posse.report(&agent).await?;
        let record = posse.agent(&agent).await?;
        let files = match report {
            Some(_) => posse.write_reports(&agent).await,
            None => Ok(None),
        };
        let has_refused = report.is_some() && record.agent.subtree.refused > 0;
        let refused =
            if has_refused { Some(posse.refused(&agent.run()).await?.within(&agent)) } else { None };
        let checks = if args.json { posse.checks(&agent).await? } else { Vec::new() };
        Ok((record, report, checks, refused, files))
    })?;
    let agent = &record.agent.id;
    let Some(report) = report else {
        return Err(CliError::failed(format!("{agent} has not reported yet"))
            .hint(format!("`posse trace {agent}` shows how far it is")));
    };
    let mut output = Output::new();
    if args.json {
        let dir = files.as_ref().ok().and_then(Option::as_ref).map(|files| files.dir.display().to_string());
        output.json(&api::ReportResult::new(&record, report, &checks, dir))?;
        return Ok(Exit::DONE);
    }
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
    if record.agent.is_turn_limited() {
        note(&format!("{agent} was cut off by its turn limit: its work may be unfinished"));
    }
    if let Some(refused) = &refused {
        let run = agent.run();
        for line in refused_lines(run.as_str(), refused) {
            note(&line);
        }
    }
    match files {
        Ok(Some(ReportFiles { dir, .. })) if agent.is_root() => {
            note(&format!("the reports of its sub-agents are in {}", dir.display()));
        }
        Ok(_) => {}
        // The report is printed all the same: only its copy in a file is missing.
        Err(error) => note(&format!("the reports are not in files: {error}")),
    }
    Ok(Exit::DONE)
}
