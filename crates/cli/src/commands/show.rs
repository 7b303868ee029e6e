//! `posse show`.

use std::fmt::Write;

use posse::{AgentInfo, Figures, RunInfo, RunResult};

use crate::blocked::BlockedAgents;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::RunArg;
use crate::json::ShowLine;
use crate::output::Output;
use crate::runtime;
use crate::term;
use crate::text::{bytes, count, duration, plural, status, timestamp};
use crate::view::work;

/// Show a run with its agents, and what each of them spent
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The run
    run: RunArg,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Shows a run.
pub(crate) fn show(args: &ShowArgs, context: &Context) -> Result<Exit, CliError> {
    let posse = context.open_read_only()?;
    let (info, blocked, result, disk_bytes) = runtime::looking(async {
        let run = args.run.find(&posse).await?;
        let info = posse.get(&run).await?;
        let running = info.status == "running";
        let blocked = if running { BlockedAgents::of(&posse, &run).await? } else { BlockedAgents::default() };
        let result = posse.finished(&run).await?.and_then(|finished| finished.result);
        // Only told: files that cannot be looked at keep nobody from seeing the rest.
        let disk_bytes = posse.disk_bytes(&run).await.ok().flatten();
        Ok((info, blocked, result, disk_bytes))
    })?;
    let mut output = Output::new();
    if args.json {
        output.json(&ShowLine::new(&info, &blocked, result.as_ref(), disk_bytes))?;
    } else {
        output.text(&page(&info, &blocked, &files(&info, result.as_ref(), disk_bytes)))?;
    }
    output.flush()?;
    Ok(Exit::DONE)
}

/// What it made of the files, and what it takes on disk.
fn files(info: &RunInfo, result: Option<&RunResult>, disk_bytes: Option<u64>) -> String {
    match (result, disk_bytes) {
        (Some(result), _) => format!("{}\n", work(info.run.as_str(), result, disk_bytes)),
        (None, Some(taken)) => format!("{} on disk\n", bytes(taken)),
        (None, None) => String::new(),
    }
}

fn page(info: &RunInfo, waits: &BlockedAgents, files: &str) -> String {
    let mut page = heading(info);
    page.push_str(files);
    page.push('\n');
    let named = in_tree_order(&info.agents).into_iter().map(|(lead, agent)| {
        (format!("{lead}{}", if agent.depth == 0 { agent.id.as_str() } else { agent.id.relative() }), agent)
    });
    let named: Vec<(String, &AgentInfo)> = named.collect();
    // A deep tree has long branches before its names; the columns after them stay columns.
    let widest = named.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let width = widest.max(NAME_MIN_CHARS);
    page.push_str(&figures_row(width, ["AGENT", "DEFINITION", "STATE"], &FIGURES_HEAD, "TITLE"));
    for (name, agent) in &named {
        page.push_str(&figures_row(
            width,
            [name, &agent.definition, stage(agent)],
            &cells(&agent.own),
            &title(agent, waits),
        ));
    }
    if info.by_depth.len() > 1 {
        page.push('\n');
        page.push_str(&figures_row(width, ["DEPTH", "", "AGENTS"], &FIGURES_HEAD, ""));
        for depth in &info.by_depth {
            let agents = depth.agents.to_string();
            let row = [&depth.depth.to_string(), "", &agents];
            page.push_str(&figures_row(width, row, &cells(&depth.figures), ""));
        }
    }
    page
}

fn heading(info: &RunInfo) -> String {
    let run = &info.run;
    let word = status(&info.status, info.holder.as_ref());
    let carried = match (&info.holder, word) {
        (Some(holder), _) => format!("{word}, run by process {}", holder.pid),
        (None, "interrupted") => format!("{word}, no process is running it: `posse resume {run}`"),
        (None, _) if is_turn_limited(info) => format!("{word} at its turn limit"),
        (None, _) => word.to_owned(),
    };
    let mut text = format!("run {run}: {}\n{carried}", term::line(&info.title));
    if let Some(ended) = info.ended_at_ms {
        let took = ended.saturating_sub(info.created_at_ms).max(0).cast_unsigned();
        let _ = write!(text, " after {}", duration(took));
    }
    let _ = writeln!(text, ", {}", plural(info.agents.len() as u64, "agent"));
    let _ = writeln!(text, "started {} in {}", timestamp(info.created_at_ms), term::line(&info.dir));
    text
}

/// Least characters of the column of names.
const NAME_MIN_CHARS: usize = 14;

/// Whether the root ran out of turns.
fn is_turn_limited(info: &RunInfo) -> bool {
    info.agents.iter().any(|agent| agent.depth == 0 && agent.own.turn_limited > 0)
}

/// Turns, calls, tokens in, tokens out, dollars, wall time.
type Cells = [String; 6];

const FIGURES_HEAD: [&str; 6] = ["TURNS", "CALLS", "IN", "OUT", "USD", "WALL"];

fn cells(figures: &Figures) -> Cells {
    let usage = &figures.usage;
    let usd = usage.micro_usd.map(posse_domain::budget::Usd::from_micros);
    [
        figures.turns.to_string(),
        figures.tool_calls.to_string(),
        count(usage.input_tokens),
        count(usage.output_tokens),
        usd.map_or_else(|| "unknown".to_owned(), |usd| usd.to_string()),
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

fn stage(agent: &AgentInfo) -> &str {
    match (agent.close_reason.as_deref(), agent.final_status.as_deref()) {
        (Some("cancelled"), _) => "cancelled",
        (_, Some(_)) if agent.own.turn_limited > 0 => "turn limit",
        (_, Some(status)) => status,
        (_, None) => &agent.state,
    }
}

fn title(agent: &AgentInfo, waits: &BlockedAgents) -> String {
    let skill = agent.skill.as_ref().map(|skill| format!("[skill {skill}] ")).unwrap_or_default();
    let title = term::line(&format!("{skill}{}", agent.title));
    match (&agent.error, waits.on(&agent.id)) {
        (Some(error), _) => format!("{title} {}", term::line(&format!("[{error}]"))),
        (None, Some(blocked)) => format!("{title} [blocked: {blocked}]"),
        (None, None) => title,
    }
}

/// Parents before their children, siblings by number, each with the branch that leads to it.
fn in_tree_order(agents: &[AgentInfo]) -> Vec<(String, &AgentInfo)> {
    let groups = posse::by_parent(agents);
    let mut ordered = Vec::with_capacity(agents.len());
    // A stack instead of calls: nobody promises that a tree is shallow.
    let mut stack: Vec<(String, String, &AgentInfo)> = Vec::new();
    stack.extend(groups.get(&None).into_iter().flatten().map(|root| (String::new(), String::new(), *root)));
    while let Some((lead, below, agent)) = stack.pop() {
        ordered.push((lead, agent));
        let mut children: Vec<&AgentInfo> = groups.get(&Some(&agent.id)).cloned().unwrap_or_default();
        children.sort_by_key(|child| std::cmp::Reverse(child.id.number()));
        for (at, child) in children.into_iter().enumerate() {
            let (branch, space) = if at == 0 { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            stack.push((format!("{below}{branch}"), format!("{below}{space}"), child));
        }
    }
    ordered
}
