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
use crate::output::{Output, note};
use crate::runtime;
use crate::term;
use crate::text::{ago, cost_cell, duration, now_ms};

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
            self.status.is_empty() || self.status.iter().any(|status| status == run.status().as_str())
        });
        runs.truncate(usize::try_from(number).unwrap_or(usize::MAX));
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
            output.json(&api::RunSummary::new(run, now_ms()))?;
        }
    } else if let Some(template) = &args.format {
        for run in &runs {
            output.text(&format!("{}\n", formatted(template, run)?))?;
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

/// A run in the user's own form: each `{field}` is replaced by that field of the JSON object.
fn formatted(template: &str, run: &ListedRun) -> Result<String, CliError> {
    let object = serde_json::to_value(api::RunSummary::new(run, now_ms())).unwrap_or_default();
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
    output.own(&heading())?;
    for listed in runs {
        output.own(&row(listed, now_ms(), context.environment.home.as_deref()))?;
        if args.tree && listed.run.damage.is_none() {
            output.own(&runtime::looking(tree(&listed.run, posse))?)?;
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

fn heading() -> String {
    format!(
        "{:8}  {:11}  {:>6}  {:>12}  {:>10}  {:>10}  {:DIR_MAX_CHARS$}  REQUEST\n",
        "RUN", "STATUS", "AGENTS", "TIME", "COST", "STARTED", "DIR"
    )
}

fn row(listed: &ListedRun, now_ms: i64, home: Option<&Path>) -> String {
    let run = &listed.run;
    let spent = if listed.is_replay() { "replay".to_owned() } else { cost_cell(&listed.usage) };
    format!(
        "{:8}  {:11}  {:>6}  {:>12}  {spent:>10}  {:>10}  {:DIR_MAX_CHARS$}  {}\n",
        run.run,
        listed.status().as_str(),
        run.agents,
        duration(listed.wall_ms(now_ms)),
        ago(run.created_at_ms, now_ms),
        shown_dir(&run.dir, home),
        term::line(&title(run)),
    )
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
async fn tree(run: &RunSummary, posse: &Posse) -> Result<String, CliError> {
    let view = posse.current_state(&run.run).await?;
    let mut text = String::new();
    for (lead, agent) in in_tree_order(&view, &run.run.root()).into_iter().skip(1) {
        let (name, definition) = (agent.id.relative(), &agent.definition);
        let _ = writeln!(text, "  {lead}{name} {definition}: {}  {}", stage(agent, &view), agent.title);
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
