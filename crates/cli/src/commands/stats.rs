//! `posse stats`.

use std::fmt::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use posse::view::{AgentView, SpendingOfRuns, SpendingTotal, TotalsByName};
use posse::{Figures, RunView, api, shown_model};

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::RunArg;
use crate::output::{Output, note, output_width};
use crate::runtime;
use crate::server;
use crate::since::Since;
use crate::table::{Cell, Column, TableForm, plain, table};
use crate::term;
use crate::text::{cost, cost_cell, cost_of_view, count, duration, now_ms, plural};
use crate::view::width::wrapped;

/// How many of the newest runs are in the sums over all runs.
const RUNS_MAX: u32 = 10_000;
/// Columns that a name has before others go.
const NAME_MIN_COLUMNS: usize = 18;
/// Longest name in a table.
const NAME_MAX_CHARS: usize = 40;

/// Show cost and tokens: of one run by agent, depth and model, or of all runs by model and day
///
/// Money is counted with the prices of the time of each call. In a table, ≤ is the maximum of a sum with calls that were
/// cut off, and +? is a sum with calls of unknown price; a sum can have both. Replays spend nothing and are not in the sums over all runs.
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
    server::refuse(context, &[(args.since.is_some(), "--since")])?;
    let posse = context.open_read_only()?;
    let mut output = Output::new();
    let form = TableForm { width: output_width(), is_coloured: false };
    if let Some(run) = &args.run {
        let view = runtime::looking(async { Ok(posse.view(&run.find(&posse, context).await?).await?) })?;
        if args.json {
            output.json(&api::RunStats::new(&view, now_ms()))?;
        } else {
            output.own(&run_page(&view, form))?;
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
            output.own(&page(&all, form))?;
        }
    }
    output.flush()?;
    Ok(Exit::DONE)
}

/// All runs together.
fn page(all: &SpendingOfRuns, form: TableForm) -> String {
    let agents = plural(all.total.agents, "agent");
    let mut page = format!("{} with {agents}", plural(all.runs, "run"));
    if all.replays > 0 {
        let _ = write!(page, "; not counted: {}, which spent nothing", plural(all.replays, "replay"));
    }
    page.push_str("\n\n");
    page.push_str(&sums("MODEL", by_model(&all.by_model), form));
    page.push('\n');
    let days = all.by_day.iter().rev().map(|(day, sum)| (day.clone(), *sum));
    let days = sums("DAY", days.chain([("total".to_owned(), all.total)]), form);
    // The sum is apart from the days.
    let (days, total) = days.trim_end().rsplit_once('\n').unwrap_or((&days, ""));
    let _ = write!(page, "{days}\n\n{total}\n");
    let _ = writeln!(page, "\n{}", cost(&all.total.figures.usage));
    form.width.map_or(page.clone(), |width| wrapped(&page, width))
}

/// One run: subtrees first, because they show where the money goes.
fn run_page(view: &RunView, form: TableForm) -> String {
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
    page.push_str(&sums("SUBTREE", view.agents().iter().map(below), form));
    page.push('\n');
    let by_depth = figures.by_depth().into_iter().map(|(depth, total)| (depth.to_string(), total));
    page.push_str(&sums("DEPTH", by_depth, form));
    page.push('\n');
    page.push_str(&sums("MODEL", by_model(&figures.by_model()), form));
    let _ = writeln!(page, "\n{}", cost_of_view(view));
    form.width.map_or(page.clone(), |width| wrapped(&page, width))
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

/// A table of sums by the name of their group.
fn sums(head: &'static str, rows: impl Iterator<Item = (String, SpendingTotal)>, form: TableForm) -> String {
    let [agents, turns, calls, input, cached, output, usd, wall] = HEAD;
    let columns = [
        Column::left(head, NAME_MAX_CHARS).cut_to(NAME_MIN_COLUMNS),
        Column::right(agents, 6).goes(4),
        Column::right(turns, 6).goes(3),
        Column::right(calls, 6).goes(2),
        Column::right(input, 7).goes(5),
        Column::right(cached, 7).goes(1),
        Column::right(output, 7).goes(6),
        Column::right(usd, 11),
        Column::right(wall, 12).goes(7),
    ];
    let row = |(name, sum): (String, SpendingTotal)| {
        let name: String = term::line(&name).chars().take(NAME_MAX_CHARS).collect();
        let [agents, turns, calls, input, cached, output, usd, wall] = cells(&sum).map(plain);
        [plain(name), agents, turns, calls, input, cached, output, usd, wall]
    };
    let rows: Vec<[Cell; 9]> = rows.map(row).collect();
    table(columns, &rows, form).concat()
}

/// Sums by the names of models as users read them.
fn by_model(totals: &TotalsByName) -> impl Iterator<Item = (String, SpendingTotal)> + '_ {
    totals.iter().map(|(name, sum)| (shown_model(name).into_owned(), *sum))
}

/// The day of a time in the user's time zone.
fn day(at_ms: i64) -> String {
    let at = Timestamp::from_millisecond(at_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d").to_string()
}
