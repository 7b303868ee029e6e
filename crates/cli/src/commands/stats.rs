//! `posse stats`.

use std::fmt::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use posse::{AgentInfo, DepthInfo, Figures, Posse, RunInfo, SpendingTotal, TotalsByName, api};
use posse_domain::budget::Usd;

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::RunArg;
use crate::output::{Output, note};
use crate::runtime;
use crate::term;
use crate::text::{count, duration, plural};

/// Runs that are added up without a run; of more only the newest.
const RUNS_MAX: u32 = 10_000;
/// Characters of a name that a table shows.
const NAME_MAX_CHARS: usize = 40;

/// Show what was spent: of one run by agent, depth and model, or of all runs by model and day
///
/// Money is counted with the prices of the time of each call; with one unknown price in it, a sum is unknown. Replays
/// spend nothing and are left out of the sums over all runs.
#[derive(Debug, clap::Args)]
pub(crate) struct StatsArgs {
    /// The run [default: all runs]
    run: Option<RunArg>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Shows what was spent.
pub(crate) fn stats(args: &StatsArgs, context: &Context) -> Result<Exit, CliError> {
    let posse = context.open_read_only()?;
    let mut output = Output::new();
    if let Some(run) = &args.run {
        let info = runtime::looking(async { Ok(posse.get(&run.find(&posse).await?).await?) })?;
        if args.json {
            output.json(&api::RunStats::new(&info))?;
        } else {
            output.own(&run_page(&info))?;
        }
    } else {
        let all = runtime::looking(AllRuns::of(&posse))?;
        if args.json {
            output.json(&all.to_api())?;
        } else if all.runs + all.replays == 0 {
            note("no runs yet; `posse demo` shows one");
        } else {
            output.own(&all.page())?;
        }
    }
    output.flush()?;
    Ok(Exit::DONE)
}

/// All runs together.
#[derive(Debug, Default)]
struct AllRuns {
    runs: u64,
    /// Recorded runs that were run again: they spent nothing, so they are in no sum.
    replays: u64,
    total: SpendingTotal,
    by_model: TotalsByName,
    by_day: TotalsByName,
}

impl AllRuns {
    async fn of(posse: &Posse) -> Result<Self, CliError> {
        let mut all = Self::default();
        for run in posse.spending(RUNS_MAX).await? {
            if posse::replayed(&run.model).is_some() {
                all.replays += 1;
                continue;
            }
            let day = all.by_day.entry(day(run.created_at_ms)).or_default();
            all.runs += 1;
            for (model, spent) in run.by_model {
                let sum = SpendingTotal { agents: spent.agents, figures: spent.figures };
                for sums in [&mut *day, &mut all.total, all.by_model.entry(model).or_default()] {
                    *sums += sum;
                }
            }
        }
        Ok(all)
    }

    fn page(&self) -> String {
        let agents = plural(self.total.agents, "agent");
        let mut page = format!("{} with {agents}", plural(self.runs, "run"));
        if self.replays > 0 {
            let _ = write!(page, "; left out: {}, which spent nothing", plural(self.replays, "replay"));
        }
        page.push_str("\n\n");
        page.push_str(&table("MODEL", self.by_model.iter().map(|(name, sum)| (name.clone(), *sum))));
        page.push('\n');
        page.push_str(&table("DAY", self.by_day.iter().rev().map(|(day, sum)| (day.clone(), *sum))));
        page.push('\n');
        page.push_str(&row("total", &cells(&self.total)));
        page
    }

    fn to_api(&self) -> api::AllStats {
        api::AllStats::new(self.runs, self.replays, &self.total, &self.by_model, &self.by_day)
    }
}

/// One run for people: subtrees first, because that is where money goes.
fn run_page(info: &RunInfo) -> String {
    let mut page = format!(
        "run {} {}: {}\n\n",
        info.run,
        api::status_word(info.status, info.holder.as_ref()),
        term::line(&info.title)
    );
    if info.is_replay {
        page.push_str("a replay: nothing was spent, and what follows was spent when it was recorded\n\n");
    }
    let below = |agent: &AgentInfo| {
        let inside = info.agents.iter().filter(|other| is_within(other, agent)).count() as u64;
        let name = if agent.depth == 0 { agent.id.as_str() } else { agent.id.relative() };
        (format!("{name} {}", agent.definition), SpendingTotal { agents: inside, figures: agent.subtree })
    };
    page.push_str(&table("SUBTREE", info.agents.iter().map(below)));
    page.push('\n');
    let depth =
        |at: &DepthInfo| (at.depth.to_string(), SpendingTotal { agents: at.agents, figures: at.figures });
    page.push_str(&table("DEPTH", info.by_depth.iter().map(depth)));
    page.push('\n');
    page.push_str(&table("MODEL", info.by_model().into_iter()));
    page
}

/// Whether an agent is another or below it.
fn is_within(agent: &AgentInfo, above: &AgentInfo) -> bool {
    let mut at = Some(agent.id.clone());
    while let Some(id) = at {
        if id == above.id {
            return true;
        }
        at = id.parent();
    }
    false
}

/// Agents, turns, calls, tokens in, of them cached, tokens out, dollars, wall time.
type Cells = [String; 8];

const HEAD: [&str; 8] = ["AGENTS", "TURNS", "CALLS", "IN", "CACHED", "OUT", "USD", "WALL"];

fn cells(sum: &SpendingTotal) -> Cells {
    let Figures { turns, tool_calls, wall_ms, usage, .. } = &sum.figures;
    [
        sum.agents.to_string(),
        turns.to_string(),
        tool_calls.to_string(),
        count(usage.input_tokens),
        count(usage.cached_tokens),
        count(usage.output_tokens),
        usage.micro_usd.map_or_else(|| "unknown".to_owned(), |micros| Usd::from_micros(micros).to_string()),
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

/// The day of a time, where the person is.
fn day(at_ms: i64) -> String {
    let at = Timestamp::from_millisecond(at_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d").to_string()
}
