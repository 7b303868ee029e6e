//! `posse salvage`.

use std::fmt::Write;
use std::path::PathBuf;

use posse::api;
use posse::{AgentId, SalvagedWork};

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::WorkArg;
use crate::output::{Output, output_width};
use crate::runtime;
use crate::server;
use crate::table::{Cell, Column, TableForm, plain, table};
use crate::term;
use crate::text::{local_time, plural};
use crate::view::width::wrapped;

/// How many omitted files are named for each workspace.
const LEFT_OUT_SHOWN: usize = 5;

/// List the salvaged work of closed workspaces, or restore it
///
/// Everything in a workspace is kept except what git ignores, also for agents that failed or were refused. A workspace
/// with work that cannot be kept is never removed.
#[derive(Debug, clap::Args)]
pub(crate) struct SalvageArgs {
    #[command(flatten)]
    agent: WorkArg,
    /// Write the agent's salvaged work into this directory, which must be new or empty
    #[arg(long, value_name = "DIR")]
    restore: Option<PathBuf>,
    /// The attempt to restore [default: the last]
    #[arg(long, value_name = "N", requires = "restore", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,
    /// Print JSON, one object for each attempt
    #[arg(long, conflicts_with = "restore")]
    json: bool,
}

/// Lists or restores salvaged work.
pub(crate) fn salvage(args: &SalvageArgs, context: &Context) -> Result<Exit, CliError> {
    server::refuse(context, &[(args.restore.is_some(), "--restore")])?;
    let posse = context.open_read_only()?;
    let mut output = Output::new();
    if let Some(dir) = &args.restore {
        let target = context.environment.cwd.join(dir);
        let (agent, restored) = runtime::looking(async {
            let agent = args.agent.find(&posse, context).await?;
            let kept = posse.salvages(&agent.run()).await?;
            if !kept.iter().any(|work| work.agent == agent && work.commit.is_some()) {
                return Err(nothing_kept(&agent, &kept));
            }
            let restored = posse.restore(&agent, args.attempt, &target).await?;
            Ok((agent, restored))
        })?;
        let files = plural(restored.files, "file");
        let attempt = restored.attempt;
        output.paragraph(&format!(
            "restored {files} of {agent} (attempt {attempt}) into {}",
            target.display()
        ))?;
        output.flush()?;
        return Ok(Exit::DONE);
    }
    let (agent, mut found) = runtime::looking(async {
        let agent = args.agent.find(&posse, context).await?;
        let found = posse.salvages(&agent.run()).await?;
        Ok((agent, found))
    })?;
    found.retain(|work| args.agent.is_run() || work.agent == agent);
    if args.json {
        for work in &found {
            output.json(&api::Salvage::new(work))?;
        }
    } else {
        output.text(&page(&agent, &found, output_width()))?;
    }
    output.flush()?;
    Ok(Exit::DONE)
}

/// The error for an agent without salvaged work, which names the agents of its run that have some.
fn nothing_kept(agent: &AgentId, kept: &[SalvagedWork]) -> CliError {
    let mut others: Vec<&str> =
        kept.iter().filter(|work| work.commit.is_some()).map(|work| work.agent.as_str()).collect();
    others.dedup();
    others.truncate(LEFT_OUT_SHOWN);
    let error = CliError::failed(format!("no work of {agent} was salvaged, or it was removed since"));
    match others.first() {
        None => error.hint(format!("`posse diff {agent}` shows its changes")),
        Some(first) => error.hint(format!(
            "there is salvaged work of {}: `posse salvage {first} --restore DIR`",
            others.join(", ")
        )),
    }
}

fn page(agent: &AgentId, found: &[SalvagedWork], width: Option<usize>) -> String {
    if found.is_empty() {
        let text = format!(
            "nothing was salvaged of {agent}: it has had no workspace of its own, or still works in it\n"
        );
        return width.map_or(text.clone(), |width| wrapped(&text, width));
    }
    let form = TableForm { width, is_coloured: false };
    let rows: Vec<[Cell; 5]> = found.iter().map(row).collect();
    let mut lines = table(COLUMNS, &rows, form).into_iter();
    let mut page = lines.next().unwrap_or_default();
    for (line, work) in lines.zip(found) {
        page.push_str(&line);
        // Writing to a string does not fail.
        if let Some(problem) = &work.problem {
            let _ = writeln!(page, "  kept as it is: {}", term::line(problem));
        }
        if let Some(git) = work.git {
            let _ = writeln!(page, "  its .git (commits, branches, stashes) as plain files: {git}");
        }
        if work.left_out_count > 0 {
            let _ = writeln!(page, "  omitted (ignored unless noted otherwise): {}", left_out(work));
        }
    }
    let _ = writeln!(
        page,
        "\nFILES differ from what the agent began with; `posse salvage AGENT --restore DIR` gets them back."
    );
    width.map_or(page.clone(), |width| wrapped(&page, width))
}

const COLUMNS: [Column<'static>; 5] = [
    Column::left("AGENT", 14),
    Column::right("ATTEMPT", 7),
    Column::right("FILES", 9),
    Column::left("KEPT AT", 19),
    Column::left("COMMIT", 6).cut_to(7),
];

fn row(work: &SalvagedWork) -> [Cell; 5] {
    let files = match (work.commit, work.files) {
        (Some(_), Some(files)) => files.to_string(),
        (Some(_), None) => "cleaned".to_owned(),
        (None, _) => "unknown".to_owned(),
    };
    let commit = work.commit.map_or_else(|| "-".to_owned(), |commit| commit.to_string());
    [
        plain(work.agent.as_str()),
        plain(work.attempt.to_string()),
        plain(files),
        plain(local_time(work.at_ms)),
        plain(commit),
    ]
}

/// What is not in the salvaged commit, shortened.
fn left_out(work: &SalvagedWork) -> String {
    let named: Vec<String> =
        work.left_out.iter().take(LEFT_OUT_SHOWN).map(|path| term::visible_line(path)).collect();
    let more = work.left_out_count.saturating_sub(named.len() as u64);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}
