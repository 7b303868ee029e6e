//! What was spent.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Usage, status_word};
use crate::{AgentInfo, DepthInfo, Figures, RunInfo, SpendingTotal, TotalsByName};

/// Turns, calls, time and usage.
#[derive(Serialize, JsonSchema)]
pub struct FigureValues {
    turns: u64,
    tool_calls: u64,
    wall_ms: u64,
    usage: Usage,
}

impl From<&Figures> for FigureValues {
    fn from(figures: &Figures) -> Self {
        let Figures { turns, tool_calls, wall_ms, usage, .. } = figures;
        Self { turns: *turns, tool_calls: *tool_calls, wall_ms: *wall_ms, usage: usage.into() }
    }
}

/// What some agents spent together.
#[derive(Serialize, JsonSchema)]
pub struct Total {
    /// The model that they have in common, in a list by model.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// The day on which their runs started, in a list by day.
    #[serde(skip_serializing_if = "Option::is_none")]
    day: Option<String>,
    agents: u64,
    #[serde(flatten)]
    figures: FigureValues,
}

impl Total {
    fn new(total: &SpendingTotal) -> Self {
        Self { model: None, day: None, agents: total.agents, figures: (&total.figures).into() }
    }

    fn by_model(totals: &TotalsByName) -> Vec<Self> {
        let named = |(model, total): (&String, _)| Self { model: Some(model.clone()), ..Self::new(total) };
        totals.iter().map(named).collect()
    }

    fn by_day(totals: &TotalsByName) -> Vec<Self> {
        let named = |(day, total): (&String, _)| Self { day: Some(day.clone()), ..Self::new(total) };
        totals.iter().map(named).collect()
    }
}

/// What all runs spent together.
#[derive(Serialize, JsonSchema)]
pub struct AllStats {
    runs: u64,
    /// Recorded runs that were run again: they spent nothing, so they are in no sum.
    replays_left_out: u64,
    total: Total,
    by_model: Vec<Total>,
    by_day: Vec<Total>,
}

impl AllStats {
    /// The sums over `runs` runs, without `replays`.
    pub fn new(
        runs: u64,
        replays: u64,
        total: &SpendingTotal,
        by_model: &TotalsByName,
        by_day: &TotalsByName,
    ) -> Self {
        Self {
            runs,
            replays_left_out: replays,
            total: Total::new(total),
            by_model: Total::by_model(by_model),
            by_day: Total::by_day(by_day),
        }
    }
}

/// What the agents of one depth spent together.
#[derive(Serialize, JsonSchema)]
pub struct DepthStats {
    depth: u32,
    agents: u64,
    #[serde(flatten)]
    figures: FigureValues,
}

/// What one agent spent.
#[derive(Serialize, JsonSchema)]
pub struct AgentStats<'a> {
    id: &'a str,
    model: &'a str,
    depth: u32,
    /// What it spent itself.
    own: FigureValues,
    /// What it and all below it spent.
    subtree: FigureValues,
}

/// What one run spent.
#[derive(Serialize, JsonSchema)]
pub struct RunStats<'a> {
    run: &'a str,
    /// `running`, `interrupted` (it has not ended, and no process executes it), `completed`, `failed` or `cancelled`.
    status: &'a str,
    /// Whether it is a recorded run, run again: nothing was spent, and the sums are those of the recording.
    replay: bool,
    total: Total,
    by_model: Vec<Total>,
    by_depth: Vec<DepthStats>,
    agents: Vec<AgentStats<'a>>,
}

impl<'a> RunStats<'a> {
    /// The sums of one run.
    pub fn new(info: &'a RunInfo) -> Self {
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
            status: status_word(info.status, info.holder.as_ref()),
            replay: info.is_replay,
            total: Total::new(&info.total()),
            by_model: Total::by_model(&info.by_model()),
            by_depth: info.by_depth.iter().map(depth).collect(),
            agents: info.agents.iter().map(agent).collect(),
        }
    }
}
