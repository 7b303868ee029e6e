//! `posse stats`.

use std::collections::BTreeMap;
use std::fmt::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use posse::{AgentInfo, DepthInfo, Figures, Posse, RunInfo};
use posse_domain::budget::Usd;
use serde::Serialize;

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::RunArg;
use crate::json::Spending;
use crate::output::{Output, note};
use crate::runtime;
use crate::term;
use crate::text::{count, duration, plural, status};

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
            output.json(&RunStats::new(&info))?;
        } else {
            output.own(&run_page(&info))?;
        }
    } else {
        let all = runtime::looking(AllRuns::of(&posse))?;
        if args.json {
            output.json(&all.json())?;
        } else if all.runs + all.replays == 0 {
            note("no runs yet; `posse demo` shows one");
        } else {
            output.own(&all.page())?;
        }
    }
    output.flush()?;
    Ok(Exit::DONE)
}

/// What some agents spent together.
#[derive(Debug, Clone, Copy, Default)]
struct SpendingTotal {
    agents: u64,
    figures: Figures,
}

impl SpendingTotal {
    fn add(&mut self, agent: &AgentInfo) {
        self.agents += 1;
        self.figures += agent.own;
    }
}

impl std::ops::AddAssign for SpendingTotal {
    fn add_assign(&mut self, other: Self) {
        self.agents += other.agents;
        self.figures += other.figures;
    }
}

/// Sums by a name.
type TotalsByName = BTreeMap<String, SpendingTotal>;

fn by_model(agents: &[AgentInfo]) -> TotalsByName {
    let mut sums = TotalsByName::new();
    for agent in agents {
        sums.entry(agent.model.clone()).or_default().add(agent);
    }
    sums
}

fn total(agents: &[AgentInfo]) -> SpendingTotal {
    let mut sum = SpendingTotal::default();
    for agent in agents {
        sum.add(agent);
    }
    sum
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

    fn json(&self) -> impl Serialize {
        #[derive(Serialize)]
        struct StatsLine {
            runs: u64,
            replays_left_out: u64,
            total: SumLine,
            by_model: Vec<SumLine>,
            by_day: Vec<SumLine>,
        }
        StatsLine {
            runs: self.runs,
            replays_left_out: self.replays,
            total: SumLine::new(None, None, &self.total),
            by_model: self.by_model.iter().map(|(name, sum)| SumLine::new(Some(name), None, sum)).collect(),
            by_day: self.by_day.iter().map(|(day, sum)| SumLine::new(None, Some(day), sum)).collect(),
        }
    }
}

/// A sum in JSON.
#[derive(Serialize)]
struct SumLine {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    day: Option<String>,
    agents: u64,
    #[serde(flatten)]
    figures: FiguresLine,
}

impl SumLine {
    fn new(model: Option<&String>, day: Option<&String>, sum: &SpendingTotal) -> Self {
        Self { model: model.cloned(), day: day.cloned(), agents: sum.agents, figures: (&sum.figures).into() }
    }
}

#[derive(Serialize)]
struct FiguresLine {
    turns: u64,
    tool_calls: u64,
    wall_ms: u64,
    usage: Spending,
}

impl From<&Figures> for FiguresLine {
    fn from(figures: &Figures) -> Self {
        let Figures { turns, tool_calls, wall_ms, usage, .. } = figures;
        Self { turns: *turns, tool_calls: *tool_calls, wall_ms: *wall_ms, usage: usage.into() }
    }
}

/// One run in JSON.
#[derive(Serialize)]
struct RunStats<'a> {
    run: &'a str,
    status: &'a str,
    /// Whether it is a recorded run, run again: nothing was spent, and the sums are those of the recording.
    replay: bool,
    total: SumLine,
    by_model: Vec<SumLine>,
    by_depth: Vec<DepthStats>,
    agents: Vec<AgentStats<'a>>,
}

#[derive(Serialize)]
struct DepthStats {
    depth: u32,
    agents: u64,
    #[serde(flatten)]
    figures: FiguresLine,
}

#[derive(Serialize)]
struct AgentStats<'a> {
    id: &'a str,
    model: &'a str,
    depth: u32,
    /// What it spent itself.
    own: FiguresLine,
    /// What it and all below it spent.
    subtree: FiguresLine,
}

impl<'a> RunStats<'a> {
    fn new(info: &'a RunInfo) -> Self {
        let depth =
            |at: &DepthInfo| DepthStats { depth: at.depth, agents: at.agents, figures: (&at.figures).into() };
        let agent = |agent: &'a AgentInfo| AgentStats {
            id: agent.id.as_str(),
            model: &agent.model,
            depth: agent.depth,
            own: (&agent.own).into(),
            subtree: (&agent.subtree).into(),
        };
        Self {
            run: info.run.as_str(),
            status: status(&info.status, info.holder.as_ref()),
            replay: info.is_replay,
            total: SumLine::new(None, None, &total(&info.agents)),
            by_model: by_model(&info.agents)
                .iter()
                .map(|(name, sum)| SumLine::new(Some(name), None, sum))
                .collect(),
            by_depth: info.by_depth.iter().map(depth).collect(),
            agents: info.agents.iter().map(agent).collect(),
        }
    }
}

/// One run for people: subtrees first, because that is where money goes.
fn run_page(info: &RunInfo) -> String {
    let mut page = format!(
        "run {} {}: {}\n\n",
        info.run,
        status(&info.status, info.holder.as_ref()),
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
    page.push_str(&table("MODEL", by_model(&info.agents).into_iter()));
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
