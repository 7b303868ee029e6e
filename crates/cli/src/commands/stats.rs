//! `posse stats`.

use std::fmt::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use posse::view::{AgentView, SpendingOfRuns, SpendingTotal};
use posse::{Figures, RunView, api};

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::RunArg;
use crate::output::{Output, note};
use crate::runtime;
use crate::since::Since;
use crate::term;
use crate::text::{cost, cost_cell, count, duration, now_ms, plural};

/// How many of the newest runs are in the sums over all runs.
const RUNS_MAX: u32 = 10_000;
/// Longest name in a table.
const NAME_MAX_CHARS: usize = 40;

/// Show cost and tokens: of one run by agent, depth and model, or of all runs by model and day
///
/// Money is counted with the prices of the time of each call. In a table, ≤ is the maximum of a sum with calls that were
/// cut off, and +? is a sum with calls of unknown price. Replays spend nothing and are not in the sums over all runs.
#[derive(Debug, clap::Args)]
pub(crate) struct StatsArgs {
    /// The run [default: all runs]
    run: Option<RunArg>,
    /// Only runs that started since then: an age such as `7d`, a date, or a time
    #[arg(long, value_name = "TIME", conflicts_with = "run")]
    since: Option<Since>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Shows what was spent.
pub(crate) fn stats(args: &StatsArgs, context: &Context) -> Result<Exit, CliError> {
    let posse = context.open_read_only()?;
    let mut output = Output::new();
    if let Some(run) = &args.run {
        let view =
            runtime::looking(async { Ok(posse.current_state(&run.find(&posse, context).await?).await?) })?;
        if args.json {
            output.json(&api::RunStats::new(&view, now_ms()))?;
        } else {
            output.own(&run_page(&view))?;
        }
    } else {
        let all = runtime::looking(async {
            Ok(posse.spending(RUNS_MAX, args.since.map(|since| since.0), day).await?)
        })?;
        if args.json {
            output.json(&api::AllStats::new(&all))?;
        } else if all.runs + all.replays == 0 {
            note(match args.since {
                None => "no runs yet; `posse demo` shows one",
                Some(_) => "no run has started since then",
            });
        } else {
            output.own(&page(&all))?;
        }
    }
    output.flush()?;
    Ok(Exit::DONE)
}

/// All runs together.
fn page(all: &SpendingOfRuns) -> String {
    let agents = plural(all.total.agents, "agent");
    let mut page = format!("{} with {agents}", plural(all.runs, "run"));
    if all.replays > 0 {
        let _ = write!(page, "; not counted: {}, which spent nothing", plural(all.replays, "replay"));
    }
    page.push_str("\n\n");
    page.push_str(&table("MODEL", all.by_model.iter().map(|(name, sum)| (name.clone(), *sum))));
    page.push('\n');
    page.push_str(&table("DAY", all.by_day.iter().rev().map(|(day, sum)| (day.clone(), *sum))));
    page.push('\n');
    page.push_str(&row("total", &cells(&all.total)));
    let _ = writeln!(page, "\n{}", cost(&all.total.figures.usage));
    page
}

/// One run: subtrees first, because they show where the money goes.
fn run_page(view: &RunView) -> String {
    let figures = view.figures(now_ms());
    let run = view.run().map(|run| run.to_string()).unwrap_or_default();
    let status = view.shown_status().as_str();
    let mut page = format!("run {run} {status}: {}\n\n", term::line(view.title()));
    if view.is_replay() {
        page.push_str("a replay: nothing was spent, and what follows was spent when it was recorded\n\n");
    }
    let sizes = figures.subtree_sizes();
    let below = |agent: &AgentView| {
        let agents = sizes.get(&agent.id).copied().unwrap_or(1);
        let name = if agent.id.is_root() { agent.id.as_str() } else { agent.id.relative() };
        (format!("{name} {}", agent.definition), SpendingTotal { agents, figures: figures.subtree(agent) })
    };
    page.push_str(&table("SUBTREE", view.agents().iter().map(below)));
    page.push('\n');
    page.push_str(&table(
        "DEPTH",
        figures.by_depth().into_iter().map(|(depth, total)| (depth.to_string(), total)),
    ));
    page.push('\n');
    page.push_str(&table("MODEL", figures.by_model().into_iter()));
    let _ = writeln!(page, "\n{}", cost(&view.usage()));
    page
}

/// Agents, turns, calls, tokens in, cached tokens, tokens out, dollars, wall time.
type Cells = [String; 8];

const HEAD: [&str; 8] = ["AGENTS", "TURNS", "CALLS", "IN", "CACHED", "OUT", "USD", "WALL"];

fn cells(sum: &SpendingTotal) -> Cells {
    let Figures { turns, tool_calls, wall_ms, usage, .. } = &sum.figures;
    [
        sum.agents.to_string(),
        turns.to_string(),
        tool_calls.to_string(),
        count(usage.answered_input_tokens()),
        count(usage.cached_tokens),
        count(usage.answered_output_tokens()),
        cost_cell(usage),
        duration(*wall_ms),
    ]
}

fn table(head: &str, rows: impl Iterator<Item = (String, SpendingTotal)>) -> String {
    let mut table = row(head, &HEAD);
    for (name, sum) in rows {
        table.push_str(&row(&name, &cells(&sum)));
    }
    table
}

fn row(name: &str, figures: &[impl AsRef<str>; 8]) -> String {
    let name: String = term::line(name).chars().take(NAME_MAX_CHARS).collect();
    let [agents, turns, calls, input, cached, output, usd, wall] = figures.each_ref().map(AsRef::as_ref);
    let mut row = format!("{name:NAME_MAX_CHARS$}");
    let _ = write!(
        row,
        "  {agents:>6}  {turns:>6}  {calls:>6}  {input:>7}  {cached:>7}  {output:>7}  {usd:>11}  {wall:>12}"
    );
    format!("{}\n", row.trim_end())
}

/// The day of a time in the user's time zone.
fn day(at_ms: i64) -> String {
    let at = Timestamp::from_millisecond(at_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d").to_string()
}
