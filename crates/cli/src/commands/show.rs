//! `posse show`.

use std::fmt::Write;

use jiff::tz::TimeZone;
use posse::view::{AgentView, RunFigures, ShownStatus, SpendingTotal, Stage};
use posse::{AgentId, CloseReason, FailKind, Figures, FinalStatus, RunResult, RunView, api, shown_model};

use crate::blocked;
use crate::conflicts;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::WorkArg;
use crate::output::{Output, output_width};
use crate::runtime;
use crate::table::{Cell, Column, TableForm, plain, table};
use crate::term;
use crate::text::{
    UNKNOWN_COST, at_least, at_least_cell, bytes, cost_cell, cost_of_view, count, duration, local_time,
    now_ms, plural, tokens,
};
use crate::view::rows::{Tint, files_fact};
use crate::view::width::wrapped;
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
        let form = TableForm { width: output_width(), is_coloured: context.display.is_output_coloured };
        output.prose(&about(&view, &agent, &files(&view, result.as_ref(), disk_bytes)))?;
        output.own(&tables(&view, &agent, form))?;
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

/// What the run is about, what it spent, what it changed and what it was refused.
fn about(view: &RunView, top: &AgentId, files: &str) -> String {
    let mut page = heading(view);
    page.push_str(files);
    let refused = view.refused().within(top);
    for line in view.run().iter().flat_map(|run| refused_lines(run.as_str(), &refused)) {
        let _ = writeln!(page, "{line}");
    }
    page.push('\n');
    page
}

/// The figures of this agent and its subtree, and of each depth.
fn tables(view: &RunView, top: &AgentId, form: TableForm) -> String {
    let figures = view.figures(now_ms());
    let named = in_tree_order(view, top).into_iter().map(|(lead, agent)| {
        let name = if agent.id.is_root() { agent.id.as_str() } else { agent.id.relative() };
        (format!("{lead}{name}"), agent)
    });
    let named: Vec<(String, &AgentView)> = named.collect();
    // A deep tree has long branches before its names; the columns after them stay aligned.
    let widest = named.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let width = widest.max(NAME_MIN_CHARS);
    let facts: Vec<Option<String>> = named.iter().map(|(_, agent)| fact(agent, view)).collect();
    let rows = |with_facts: bool| -> Vec<[Cell; 10]> {
        let rows = named.iter().zip(&facts);
        rows.map(|((name, agent), fact)| {
            agent_row(name, agent, &figures, view, fact.as_deref().filter(|_| with_facts))
        })
        .collect()
    };
    let head = columns(width, ["AGENT", "DEFINITION", "STATE"], "TITLE");
    let mut page = table(head, &rows(true), form).concat();
    let is_cut = page.lines().any(|line| line.ends_with('…'));
    if let Some(most) = form.width.filter(|_| is_cut) {
        // Where a fact has no room in its row, it is whole beneath.
        let mut lines = table(head, &rows(false), form).into_iter();
        page = lines.next().unwrap_or_default();
        for (line, fact) in lines.zip(&facts) {
            page.push_str(&line);
            let fact = fact.as_ref().map(|fact| wrapped(&format!("    {fact}\n"), most));
            page.push_str(&fact.unwrap_or_default());
        }
    }
    let by_depth = figures.by_depth();
    if by_depth.len() > 1 && top.is_root() {
        page.push('\n');
        let row = |(depth, total): (&u32, &SpendingTotal)| {
            let first = [plain(depth.to_string()), plain(""), plain(total.agents.to_string())];
            row(first, &cells(&total.figures), String::new())
        };
        let rows: Vec<[Cell; 10]> = by_depth.iter().map(row).collect();
        page.extend(table(columns(width, ["DEPTH", "", "AGENTS"], ""), &rows, form));
    }
    page
}

fn agent_row(
    name: &str,
    agent: &AgentView,
    figures: &RunFigures<'_>,
    view: &RunView,
    fact: Option<&str>,
) -> [Cell; 10] {
    let state = (stage_tint(agent, view), stage(agent, view).to_owned());
    let names = [plain(name), plain(agent.definition.as_str()), state];
    let own = figures.own(agent);
    // The calls in progress count too: an agent at work is not idle.
    let own = Figures { tool_calls: own.tool_calls + agent.open_calls, ..own };
    let mut cells = cells(&own);
    if agent.is_cost_unknown() {
        UNKNOWN_COST.clone_into(&mut cells[USD]);
    }
    if view.is_interrupted() && agent.completed_at_ms.is_none() {
        cells[WALL] = at_least_cell(own.wall_ms);
    }
    let fact = fact.map(|fact| format!(" {fact}")).unwrap_or_default();
    row(names, &cells, format!("{}{fact}", title(agent)))
}

fn heading(view: &RunView) -> String {
    let run = view.run().map(|run| run.to_string()).unwrap_or_default();
    let word = view.shown_status().as_str();
    let elapsed_ms = view.elapsed_ms(now_ms());
    let took = if view.is_interrupted() { at_least(elapsed_ms) } else { duration(elapsed_ms) };
    let status = match (view.holder(), view.shown_status()) {
        (Some(holder), _) if view.status().is_running() => format!("{word} for {took}, run by {holder}"),
        _ if view.is_turn_limited() => format!("{word} at its turn limit after {took}"),
        _ => format!("{word} after {took}"),
    };
    let agents = plural(view.agents().counts().all(), "agent");
    let next = if view.is_interrupted() {
        format!("; continue it with `posse resume {run}`")
    } else {
        String::new()
    };
    let mut text = format!("run {run}: {}\n{status}, {agents}{next}\n", term::line(view.title()));
    let usage = view.usage();
    let _ = writeln!(text, "{}, {}", cost_of_view(view), tokens(&usage));
    if let Some(continued) = view.continues() {
        let verb = if continued.is_retry { "retries" } else { "continues" };
        let _ = writeln!(text, "{verb} {}", continued.agent);
    }
    if let Some(recorded) = view.replay_of() {
        let _ = writeln!(text, "a replay of {}", term::line(recorded));
    }
    let model = view.agents().root().map(|root| shown_model(&root.model)).unwrap_or_default();
    let model = term::line(&model);
    let (started, dir) = (local_time(view.started_at_ms()), term::line(view.dir()));
    let _ = writeln!(text, "started {started} in {dir}, model {model}");
    text
}

/// Columns that a title has before others go.
const TITLE_MIN_COLUMNS: usize = 14;
/// Minimum width of the column of names.
const NAME_MIN_CHARS: usize = 14;

/// Turns, calls, tokens in, tokens out, dollars, wall time.
type Cells = [String; 6];

/// The cells with the cost and the time.
const USD: usize = 4;
const WALL: usize = 5;

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

/// The columns: the name with this width, the definition, the state, figures, the title.
fn columns(width: usize, names: [&'static str; 3], title: &'static str) -> [Column<'static>; 10] {
    let [name, definition, state] = names;
    let [turns, calls, input, output, usd, wall] = FIGURES_HEAD;
    [
        Column::left(name, width).cut_to(NAME_MIN_CHARS),
        Column::left(definition, 12).goes(4),
        Column::left(state, 17),
        Column::right(turns, 5).goes(5),
        Column::right(calls, 5).goes(1),
        Column::right(input, 7).goes(2),
        Column::right(output, 7).goes(3),
        Column::right(usd, 9),
        Column::right(wall, 12).goes(6),
        Column::left(title, 0).cut_to(TITLE_MIN_COLUMNS),
    ]
}

fn row(names: [Cell; 3], figures: &Cells, title: String) -> [Cell; 10] {
    let [name, definition, state] = names;
    let [turns, calls, input, output, usd, wall] = figures.each_ref().map(|figure| plain(figure.as_str()));
    [name, definition, state, turns, calls, input, output, usd, wall, plain(title)]
}

/// The colour of an agent's state.
fn stage_tint(agent: &AgentView, view: &RunView) -> Tint {
    match agent.stage() {
        Stage::Queued => Tint::Dim,
        Stage::Running | Stage::WaitingForMerge if view.is_interrupted() => Tint::Warning,
        Stage::Running | Stage::WaitingForMerge => Tint::Busy,
        Stage::Completed if agent.is_turn_limited() => Tint::Warning,
        Stage::Completed => Tint::Good,
        Stage::Failed | Stage::Cancelled => Tint::Bad,
    }
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
        (_, Some(FinalStatus::Completed)) if agent.is_turn_limited() => "turn limit",
        (_, Some(status)) => status.as_str(),
        (_, None) => agent.state.as_str(),
    }
}

fn title(agent: &AgentView) -> String {
    let skill = agent.skill.as_ref().map(|skill| format!("[skill {skill}] ")).unwrap_or_default();
    term::line(&format!("{skill}{}", agent.title))
}

/// Why an agent failed, what it waits for, what it does or what it changed, in brackets.
fn fact(agent: &AgentView, view: &RunView) -> Option<String> {
    let is_executed = view.holder().is_some() && agent.stage() == Stage::Running;
    let fact = match (&agent.failure, blocked::words(view.blocked(), &agent.id)) {
        (Some(failure), _) if agent.stage() == Stage::Cancelled => failure.reason.clone(),
        (Some(failure), _) => failure.to_string(),
        (None, Some(blocked)) => format!("blocked: {blocked}"),
        (None, None) => {
            let now = agent.current_activity().filter(|_| is_executed);
            now.or_else(|| files_fact(agent))?
        }
    };
    Some(format!("[{}]", term::line(&fact)))
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
