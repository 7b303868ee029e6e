//! `posse show`.

use std::fmt::Write;

use jiff::tz::TimeZone;
use posse::view::{AgentView, RunFigures, ShownStatus, Stage};
use posse::{AgentId, CloseReason, FailKind, Figures, RunResult, RunView, api};

use crate::blocked;
use crate::conflicts;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::WorkArg;
use crate::output::Output;
use crate::runtime;
use crate::term;
use crate::text::{bytes, cost_cell, cost_of_run, count, duration, local_time, now_ms, plural, tokens};
use crate::view::rows::files_fact;
use crate::view::{Work, refused_lines};

/// Show a run's agents and their cost
///
/// With an agent, only its subtree is shown.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    work: WorkArg,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Shows a run.
pub(crate) fn show(args: &ShowArgs, context: &Context) -> Result<Exit, CliError> {
    let posse = context.open_read_only()?;
    let (agent, view, result, conflicts, disk_bytes) = runtime::looking(async {
        let agent = args.work.find(&posse, context).await?;
        let run = agent.run();
        let view = posse.view(&run).await?;
        let result = posse.finished(&run).await?.and_then(|finished| finished.result);
        // For information only: an unreadable directory must not hide the rest of the run.
        let disk_bytes = posse.disk_bytes(&run).await.ok().flatten();
        let conflicts = if view.agents().iter().any(is_unmerged) {
            posse.merge_conflicts(&agent).await.unwrap_or_default()
        } else {
            Vec::new()
        };
        Ok((agent, view, result, conflicts, disk_bytes))
    })?;
    let mut output = Output::new();
    if args.json {
        let zone = TimeZone::system();
        let files = api::FilesOfRun { result: result.as_ref(), conflicts: &conflicts, disk_bytes };
        let detail = api::RunDetail::new(&view, now_ms(), &zone, files);
        output.json(&if agent.is_root() { detail } else { detail.of_subtree(&agent) })?;
    } else {
        output.text(&page(&view, &agent, &files(&view, result.as_ref(), disk_bytes)))?;
        for conflict in &conflicts {
            output.text(&format!("\n{}", conflicts::of_merge(conflict)))?;
        }
    }
    output.flush()?;
    Ok(Exit::DONE)
}

/// Whether the changes of an agent were not merged.
fn is_unmerged(agent: &AgentView) -> bool {
    agent.close_reason == Some(CloseReason::Failed(FailKind::Integration))
}

/// The run's changes to files, and its disk usage.
fn files(view: &RunView, result: Option<&RunResult>, disk_bytes: Option<u64>) -> String {
    match (result, view.run(), disk_bytes) {
        (Some(result), Some(run), _) => {
            let work = Work { status: view.status(), is_replay: view.is_replay(), disk_bytes };
            format!("{}\n", work.lines(run.as_str(), result))
        }
        (_, _, Some(taken)) => format!("{} on disk\n", bytes(taken)),
        (_, _, None) => String::new(),
    }
}

/// The run, with this agent and its subtree.
fn page(view: &RunView, top: &AgentId, files: &str) -> String {
    let figures = view.figures(now_ms());
    let mut page = heading(view);
    page.push_str(files);
    let refused = view.refused().within(top);
    for line in view.run().iter().flat_map(|run| refused_lines(run.as_str(), &refused)) {
        let _ = writeln!(page, "{line}");
    }
    page.push('\n');
    let named = in_tree_order(view, top).into_iter().map(|(lead, agent)| {
        let name = if agent.id.is_root() { agent.id.as_str() } else { agent.id.relative() };
        (format!("{lead}{name}"), agent)
    });
    let named: Vec<(String, &AgentView)> = named.collect();
    // A deep tree has long branches before its names; the columns after them stay aligned.
    let widest = named.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let width = widest.max(NAME_MIN_CHARS);
    page.push_str(&figures_row(width, ["AGENT", "DEFINITION", "STATE"], &FIGURES_HEAD, "TITLE"));
    for (name, agent) in &named {
        page.push_str(&agent_row(width, name, agent, &figures, view));
    }
    let by_depth = figures.by_depth();
    if by_depth.len() > 1 && top.is_root() {
        page.push('\n');
        page.push_str(&figures_row(width, ["DEPTH", "", "AGENTS"], &FIGURES_HEAD, ""));
        for (depth, total) in &by_depth {
            let row = [&depth.to_string(), "", &total.agents.to_string()];
            page.push_str(&figures_row(width, row, &cells(&total.figures), ""));
        }
    }
    page
}

fn agent_row(
    width: usize,
    name: &str,
    agent: &AgentView,
    figures: &RunFigures<'_>,
    view: &RunView,
) -> String {
    let names = [name, agent.definition.as_str(), stage(agent, view)];
    let own = figures.own(agent);
    // The calls in progress count too: an agent at work is not idle.
    let own = Figures { tool_calls: own.tool_calls + agent.open_calls, ..own };
    figures_row(width, names, &cells(&own), &title(agent, view))
}

fn heading(view: &RunView) -> String {
    let run = view.run().map(|run| run.to_string()).unwrap_or_default();
    let word = view.shown_status().as_str();
    let took = duration(view.elapsed_ms(now_ms()));
    let status = match (view.holder(), view.shown_status()) {
        (Some(holder), _) if view.status().is_running() => format!("{word} for {took}, run by {holder}"),
        (None, ShownStatus::Interrupted) => {
            format!("{word} after {took}, no process is running it: `posse resume {run}`")
        }
        _ if view.is_turn_limited() => format!("{word} at its turn limit after {took}"),
        _ => format!("{word} after {took}"),
    };
    let agents = plural(view.agents().counts().all(), "agent");
    let mut text = format!("run {run}: {}\n{status}, {agents}\n", term::line(view.title()));
    let usage = view.usage();
    let _ = writeln!(text, "{}, {}", cost_of_run(&usage, view.is_replay()), tokens(&usage));
    if let Some(recorded) = view.replay_of() {
        let _ = writeln!(text, "a replay of {}", term::line(recorded));
    }
    let _ = writeln!(text, "started {} in {}", local_time(view.started_at_ms()), term::line(view.dir()));
    text
}

/// Minimum width of the column of names.
const NAME_MIN_CHARS: usize = 14;

/// Turns, calls, tokens in, tokens out, dollars, wall time.
type Cells = [String; 6];

const FIGURES_HEAD: [&str; 6] = ["TURNS", "CALLS", "IN", "OUT", "USD", "WALL"];

fn cells(figures: &Figures) -> Cells {
    let usage = &figures.usage;
    [
        figures.turns.to_string(),
        figures.tool_calls.to_string(),
        count(usage.answered_input_tokens()),
        count(usage.answered_output_tokens()),
        cost_cell(usage),
        duration(figures.wall_ms),
    ]
}

/// A row: the name in a column of this width, the definition, the state, figures, the title.
fn figures_row(width: usize, names: [&str; 3], figures: &[impl AsRef<str>; 6], title: &str) -> String {
    let [name, definition, state] = names;
    let [turns, calls, input, output, usd, wall] = figures.each_ref().map(AsRef::as_ref);
    let row = format!(
        "{name:width$}  {definition:12}  {state:17}  {turns:>5}  {calls:>5}  {input:>7}  {output:>7}  {usd:>9}  {wall:>12}  {title}"
    );
    format!("{}\n", row.trim_end())
}

pub(super) fn stage(agent: &AgentView, view: &RunView) -> &'static str {
    match (agent.close_reason, agent.final_status) {
        // No process executes the run, so no agent of it runs.
        (None, None)
            if agent.stage() == Stage::Running && view.shown_status() == ShownStatus::Interrupted =>
        {
            "interrupted"
        }
        (Some(CloseReason::Failed(FailKind::Cancelled)), _) => "cancelled",
        (_, Some(_)) if agent.is_turn_limited() => "turn limit",
        (_, Some(status)) => status.as_str(),
        (_, None) => agent.state.as_str(),
    }
}

fn title(agent: &AgentView, view: &RunView) -> String {
    let skill = agent.skill.as_ref().map(|skill| format!("[skill {skill}] ")).unwrap_or_default();
    let title = term::line(&format!("{skill}{}", agent.title));
    let is_executed = view.holder().is_some() && agent.stage() == Stage::Running;
    match (&agent.failure, blocked::words(view.blocked(), &agent.id)) {
        (Some(failure), _) if agent.stage() == Stage::Cancelled => {
            format!("{title} {}", term::line(&format!("[{}]", failure.reason)))
        }
        (Some(failure), _) => format!("{title} {}", term::line(&format!("[{failure}]"))),
        (None, Some(blocked)) => format!("{title} [blocked: {blocked}]"),
        (None, None) => {
            let now = agent.current_activity().filter(|_| is_executed);
            match now.or_else(|| files_fact(agent)) {
                Some(fact) => format!("{title} [{}]", term::line(&fact)),
                None => title,
            }
        }
    }
}

/// An agent and its subtree: parents before their children, siblings by number, each with the branch that leads to it.
pub(crate) fn in_tree_order<'a>(view: &'a RunView, top: &AgentId) -> Vec<(String, &'a AgentView)> {
    let mut ordered = Vec::new();
    // A stack instead of recursion, because the depth of a tree is not bounded here.
    let mut stack: Vec<(String, String, &AgentView)> =
        view.agents().get(top).into_iter().map(|root| (String::new(), String::new(), root)).collect();
    while let Some((lead, below, agent)) = stack.pop() {
        ordered.push((lead, agent));
        let mut children: Vec<&AgentView> = view.agents().children(agent).collect();
        children.sort_by_key(|child| std::cmp::Reverse(child.id.number()));
        for (at, child) in children.into_iter().enumerate() {
            let (branch, space) = if at == 0 { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            stack.push((format!("{below}{branch}"), format!("{below}{space}"), child));
        }
    }
    ordered
}
