//! API types of what agents spent, for `stats`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RunStatus, Usage};
use crate::view::{SpendingOfRuns, SpendingTotal, TotalsByName};
use crate::{AgentView, Figures, RunView};

/// Turns, calls, time and usage.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FigureValues {
    /// The number of turns.
    pub turns: u64,
    /// The number of tool calls.
    pub tool_calls: u64,
    /// How long agents were open.
    pub wall_ms: u64,
    /// Tokens and money.
    pub usage: Usage,
}

impl From<&Figures> for FigureValues {
    fn from(figures: &Figures) -> Self {
        let Figures { turns, tool_calls, wall_ms, usage, .. } = figures;
        Self { turns: *turns, tool_calls: *tool_calls, wall_ms: *wall_ms, usage: usage.into() }
    }
}

/// What a group of agents spent.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Total {
    /// The model of the group, in a list by model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The day on which the group's runs started, in a list by day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    /// The number of agents in the group.
    pub agents: u64,
    /// What the group spent.
    #[serde(flatten)]
    pub figures: FigureValues,
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
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AllStats {
    /// The number of runs in the sums.
    pub runs: u64,
    /// The number of replays. They spent nothing, so they are in no sum.
    pub replays_left_out: u64,
    /// The sum over all runs.
    pub total: Total,
    /// A sum for each model.
    pub by_model: Vec<Total>,
    /// A sum for each day.
    pub by_day: Vec<Total>,
}

impl AllStats {
    /// Converts the sums over several runs.
    pub fn new(all: &SpendingOfRuns) -> Self {
        Self {
            runs: all.runs,
            replays_left_out: all.replays,
            total: Total::new(&all.total),
            by_model: Total::by_model(&all.by_model),
            by_day: Total::by_day(&all.by_day),
        }
    }
}

/// What all agents of one depth spent.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DepthStats {
    /// The distance of these agents from the root.
    pub depth: u32,
    /// The number of these agents.
    pub agents: u64,
    /// What they spent.
    #[serde(flatten)]
    pub figures: FigureValues,
}

/// What one agent spent.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AgentStats {
    /// The agent's id.
    pub id: String,
    /// The agent's model.
    pub model: String,
    /// Its distance from the root, which has depth 0.
    pub depth: u32,
    /// What the agent itself spent.
    pub own: FigureValues,
    /// What the agent and its subtree spent.
    pub subtree: FigureValues,
}

/// What one run spent.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunStats {
    /// The run's id.
    pub run: String,
    /// The run's current status.
    pub status: RunStatus,
    /// Whether it is a replay: nothing was spent, and the sums are those of the recorded run.
    pub replay: bool,
    /// The sum over all agents.
    pub total: Total,
    /// A sum for each model.
    pub by_model: Vec<Total>,
    /// A sum for each depth.
    pub by_depth: Vec<DepthStats>,
    /// What each agent spent.
    pub agents: Vec<AgentStats>,
}

impl RunStats {
    /// Converts the sums of one run as of `now_ms`.
    pub fn new(run: &RunView, now_ms: i64) -> Self {
        let figures = run.figures(now_ms);
        let depth = |(depth, total): (&u32, &SpendingTotal)| DepthStats {
            depth: *depth,
            agents: total.agents,
            figures: (&total.figures).into(),
        };
        let agent = |agent: &AgentView| AgentStats {
            id: agent.id.to_string(),
            model: agent.model.clone(),
            depth: agent.depth(),
            own: (&figures.own(agent)).into(),
            subtree: (&figures.subtree(agent)).into(),
        };
        Self {
            run: run.run_str().to_owned(),
            status: run.shown_status().into(),
            replay: run.is_replay(),
            total: Total::new(&figures.total()),
            by_model: Total::by_model(&figures.by_model()),
            by_depth: figures.by_depth().iter().map(depth).collect(),
            agents: run.agents().iter().map(agent).collect(),
        }
    }
}
