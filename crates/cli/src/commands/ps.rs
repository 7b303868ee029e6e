//! `posse ps`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use posse::view::{BlockedAgents, ListStatus};
use posse::{ListedRun, Posse, RunSummary, api};
use posse_setup::execution::is_interrupted;
use posse_setup::project_runs::Project;
use serde_json::Value;

use super::show::{in_tree_order, stage};
use crate::blocked;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, note, output_width};
use crate::runtime;
use crate::table::{Cell, Column, TableForm, plain, table};
use crate::term;
use crate::text::{UNKNOWN_COST, ago, at_least_cell, cost_cell, duration, now_ms};
use crate::view::clip;
use crate::view::rows::Tint;

/// How many runs are listed by default.
const SHOWN: u32 = 20;
/// Longest directory in the table; of a longer one the end is shown.
const DIR_MAX_CHARS: usize = 24;

/// List the runs, newest first
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct PsArgs {
    /// How many to list
    #[arg(short = 'n', long, value_name = "N", default_value_t = SHOWN, conflicts_with = "all",
        allow_negative_numbers = true, value_parser = at_least_one)]
    number: u32,
    /// List all of them
    #[arg(long, short)]
    all: bool,
    /// Only runs with this status; can be repeated
    #[arg(long, value_name = "STATUS", value_parser = status_parser())]
    status: Vec<String>,
    /// Only runs of the project in this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Show the agents of each run
    #[arg(long, conflicts_with_all = ["quiet", "format", "json"])]
    tree: bool,
    /// Print only the ids
    #[arg(long, short, conflicts_with_all = ["format", "json"])]
    quiet: bool,
    /// Print a line for each run with these fields of its JSON object, such as '{run} {status} {dir}'
    #[arg(long, value_name = "TEMPLATE", conflicts_with = "json")]
    format: Option<String>,
    /// Print one JSON object for each run
    #[arg(long)]
    json: bool,
}

fn at_least_one(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "expected a whole number of at least 1; use --all to list all runs".to_owned())
}

pub(super) fn status_parser() -> clap::builder::PossibleValuesParser {
    ListStatus::ALL.map(ListStatus::as_str).into()
}

impl PsArgs {
    /// Finds the runs to list.
    async fn find(&self, posse: &Posse, context: &Context) -> Result<Vec<ListedRun>, CliError> {
        let number = if self.all { u32::MAX } else { self.number };
        let is_filtered = !self.status.is_empty() || self.dir.is_some();
        let project = self.dir.as_ref().map(|dir| Project::of(dir, &context.environment));
        let of_project = |run: &RunSummary| project.as_ref().is_none_or(|project| project.has(run));
        let mut runs = posse.listed_runs(if is_filtered { u32::MAX } else { number }, of_project).await?;
        runs.retain(|run| {
            self.status.is_empty()
                || self
                    .status
                    .iter()
                    .filter_map(|status| ListStatus::parse(status))
                    .any(|status| run.has_status(status))
        });
        runs.truncate(usize::try_from(number).unwrap_or(usize::MAX));
        // A directory that was removed may still have runs.
        if let Some(dir) = self.dir.as_ref().filter(|_| runs.is_empty()) {
            let dir = context.environment.cwd.join(dir);
            if !dir.is_dir() {
                let is_what = if dir.exists() { "is not a directory" } else { "does not exist" };
                return Err(CliError::usage(format!("--dir: {} {is_what}", dir.display()))
                    .hint("`posse ps --all` lists the runs of all directories"));
            }
        }
        Ok(runs)
    }
}

/// Lists the runs.
pub(crate) fn ps(args: &PsArgs, context: &Context) -> Result<Exit, CliError> {
    let posse = context.open_read_only()?;
    let runs = runtime::looking(args.find(&posse, context))?;
    let mut output = Output::new();
    if args.json {
        for run in &runs {
            output.json(&object(run, &posse)?)?;
        }
    } else if let Some(template) = &args.format {
        for run in &runs {
            output.text(&format!("{}\n", formatted(template, &object(run, &posse)?)?))?;
        }
    } else if args.quiet {
        for listed in &runs {
            output.own(&format!("{}\n", listed.run.run))?;
        }
    } else if runs.is_empty() {
        note(match (&args.dir, &args.status[..]) {
            (None, []) => "no runs yet; `posse demo` shows one",
            _ => "no such runs; `posse ps --all` lists all",
        });
    } else {
        print_table(args, &runs, &posse, &mut output, context)?;
    }
    output.flush()?;
    // After the list: one damaged run must not hide the others.
    match runs.iter().map(|listed| &listed.run).find(|run| run.damage.is_some()) {
        Some(run) => runtime::looking(async { Ok(posse.check_head(&run.run).await?) }).map(|()| Exit::DONE),
        None => Ok(Exit::DONE),
    }
}

/// The request. A replay is marked, because it spent nothing and cannot be applied.
pub(crate) fn title(run: &RunSummary) -> String {
    match posse::replayed(&run.model) {
        Some(recorded) => format!("[replay of {recorded}] {}", run.title),
        None => run.title.clone(),
    }
}

/// A run for programs.
fn object(run: &ListedRun, posse: &Posse) -> Result<api::RunSummary, CliError> {
    let continues = match run.run.damage {
        None => runtime::looking(async { Ok(posse.continues(&run.run.run).await?) })?,
        Some(_) => None,
    };
    Ok(api::RunSummary::new(run, continues.as_ref(), now_ms()))
}

/// A run in the user's own form: each `{field}` is replaced by that field of the JSON object.
fn formatted(template: &str, run: &api::RunSummary) -> Result<String, CliError> {
    let object = serde_json::to_value(run).unwrap_or_default();
    let mut line = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((field, behind)) = after.split_once('}') else { break };
        line.push_str(before);
        match object.get(field) {
            Some(Value::String(text)) => line.push_str(&term::line(text)),
            Some(Value::Null) => line.push('-'),
            Some(value) => line.push_str(&value.to_string()),
            None => {
                let fields: Vec<&str> =
                    object.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
                let problem = format!("--format: there is no field `{field}`");
                return Err(CliError::usage(problem).hint(format!("the fields are {}", fields.join(", "))));
            }
        }
        rest = behind;
    }
    line.push_str(rest);
    Ok(line)
}

fn print_table(
    args: &PsArgs,
    runs: &[ListedRun],
    posse: &Posse,
    output: &mut Output,
    context: &Context,
) -> Result<(), CliError> {
    let form = TableForm { width: output_width(), is_coloured: context.display.is_output_coloured };
    let home = context.environment.home.as_deref();
    let rows: Vec<[Cell; 8]> = runs.iter().map(|listed| row(listed, now_ms(), home)).collect();
    let mut lines = table(COLUMNS, &rows, form).into_iter();
    output.own(&lines.next().unwrap_or_default())?;
    for (line, listed) in lines.zip(runs) {
        output.own(&line)?;
        if args.tree && listed.run.damage.is_none() {
            output.own(&runtime::looking(tree(&listed.run, posse, form))?)?;
        }
    }
    output.flush()?;
    print_waits(runs);
    Ok(())
}

/// What needs the user, after the list.
fn print_waits(runs: &[ListedRun]) {
    if let Some(run) = runs.iter().map(|listed| &listed.run).find(|run| is_interrupted(run)) {
        note(&format!("run {0} was interrupted; continue it with `posse resume {0}`", run.run));
    }
    let mut all: Vec<&BlockedAgents> = runs.iter().map(|listed| &listed.blocked).collect();
    all.sort_by_key(|blocked| blocked.agents().first().copied().cloned());
    for blocked in &all {
        for agent in blocked.agents() {
            let words = blocked::words(blocked, agent).unwrap_or_default();
            note(&format!("{agent} {words}"));
        }
    }
    if all.iter().any(|blocked| !blocked.questions().is_empty()) {
        note("answer questions with `posse approve` or `posse deny`");
    }
}

const COLUMNS: [Column<'static>; 8] = [
    Column::left("RUN", 8),
    Column::left("STATUS", 11),
    Column::right("AGENTS", 6).goes(2),
    Column::right("TIME", 12).goes(4),
    Column::right("COST", 10),
    Column::right("STARTED", 10).goes(3),
    Column::left("DIR", DIR_MAX_CHARS).goes(1),
    Column::left("REQUEST", 7).cut_to(REQUEST_MIN_COLUMNS),
];
/// Columns that a request has before others go.
const REQUEST_MIN_COLUMNS: usize = 14;

fn row(listed: &ListedRun, now_ms: i64, home: Option<&Path>) -> [Cell; 8] {
    let run = &listed.run;
    let status = listed.status();
    [
        plain(run.run.as_str()),
        (tint(status), status.as_str().to_owned()),
        plain(run.agents.to_string()),
        plain(took(listed, now_ms)),
        plain(cost(listed)),
        plain(ago(run.created_at_ms, now_ms)),
        plain(shown_dir(&run.dir, home)),
        plain(term::line(&title(run))),
    ]
}

/// How long a run took, or has taken so far.
pub(crate) fn took(listed: &ListedRun, now_ms: i64) -> String {
    let wall_ms = listed.wall_ms(now_ms);
    if listed.status() == ListStatus::Interrupted { at_least_cell(wall_ms) } else { duration(wall_ms) }
}

/// What a run has cost. A replay costs nothing.
pub(crate) fn cost(listed: &ListedRun) -> String {
    match (listed.is_replay(), listed.is_cost_unknown) {
        (true, _) => "replay".to_owned(),
        (false, true) => UNKNOWN_COST.to_owned(),
        (false, false) => cost_cell(&listed.usage),
    }
}

/// The colour of a status.
pub(crate) fn tint(status: ListStatus) -> Tint {
    match status {
        ListStatus::Running => Tint::Busy,
        ListStatus::Waiting | ListStatus::Interrupted | ListStatus::TurnLimit => Tint::Warning,
        ListStatus::Completed => Tint::Good,
        ListStatus::Failed | ListStatus::Cancelled | ListStatus::Damaged => Tint::Bad,
    }
}

/// A directory, from the user's home on; of a long one the end.
pub(crate) fn shown_dir(dir: &str, home: Option<&Path>) -> String {
    let below = home.and_then(|home| Path::new(dir).strip_prefix(home).ok());
    let shown = match below {
        Some(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Some(below) => format!("~/{}", below.display()),
        None => dir.to_owned(),
    };
    let shown = term::line(&shown);
    let chars = shown.chars().count();
    if chars <= DIR_MAX_CHARS {
        return shown;
    }
    let end: String = shown.chars().skip(chars - (DIR_MAX_CHARS - 1)).collect();
    format!("…{end}")
}

/// The sub-agents of a run, each on a line.
async fn tree(run: &RunSummary, posse: &Posse, form: TableForm) -> Result<String, CliError> {
    let view = posse.current_state(&run.run).await?;
    let mut text = String::new();
    for (lead, agent) in in_tree_order(&view, &run.run.root()).into_iter().skip(1) {
        let (name, definition) = (agent.id.relative(), &agent.definition);
        let line = format!("  {lead}{name} {definition}: {}  {}", stage(agent, &view), agent.title);
        let line = form.width.map_or(line.clone(), |width| clip(&line, width).0);
        let _ = writeln!(text, "{line}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_short_and_keeps_its_end() {
        let home = Some(Path::new("/home/ada"));
        assert_eq!(shown_dir("/home/ada", home), "~");
        assert_eq!(shown_dir("/home/ada/work", home), "~/work");
        assert_eq!(shown_dir("/srv/work", home), "/srv/work");
        let long = shown_dir("/srv/a-rather-long-folder/with/more", None);
        assert_eq!((long.chars().count(), long.as_str()), (DIR_MAX_CHARS, "…r-long-folder/with/more"));
    }
}
