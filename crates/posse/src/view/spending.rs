//! Sums of what agents spent, as of a moment.

use std::collections::{BTreeMap, HashMap};

use posse_domain::budget::Figures;
use posse_domain::id::AgentId;
use posse_engine::ports::RunSpending;

use super::{AgentView, Agents, RunView};

/// What a group of agents spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpendingTotal {
    /// The number of agents in the group.
    pub agents: u64,
    /// What the group spent.
    pub figures: Figures,
}

impl std::ops::AddAssign for SpendingTotal {
    fn add_assign(&mut self, other: Self) {
        self.agents += other.agents;
        self.figures += other.figures;
    }
}

/// Sums by a name that the agents of each group share.
pub type TotalsByName = BTreeMap<String, SpendingTotal>;

/// What several runs spent together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpendingOfRuns {
    /// The number of runs in the sums.
    pub runs: u64,
    /// The number of replays. They spent nothing, so they are in no sum.
    pub replays: u64,
    /// The sum over all runs.
    pub total: SpendingTotal,
    /// The sums by model.
    pub by_model: TotalsByName,
    /// The sums by the day on which the runs started.
    pub by_day: TotalsByName,
}

impl SpendingOfRuns {
    pub(super) fn new(runs: Vec<RunSpending>, day_of: impl Fn(i64) -> String) -> Self {
        let mut all = Self::default();
        for run in runs {
            if crate::replayed(&run.model).is_some() {
                all.replays += 1;
                continue;
            }
            let day = all.by_day.entry(day_of(run.created_at_ms)).or_default();
            all.runs += 1;
            for (model, spent) in run.by_model {
                let sum = SpendingTotal { agents: spent.agents, figures: spent.figures };
                for sums in [&mut *day, &mut all.total, all.by_model.entry(model).or_default()] {
                    *sums += sum;
                }
            }
        }
        all
    }
}

/// The figures of a run's agents as of a moment. The wall time of an open agent grows without an event, so neither rows
/// nor a view have it.
#[derive(Debug)]
pub struct RunFigures<'a> {
    agents: &'a Agents,
    /// Wall time of the open agents of each subtree that has one.
    open_ms: HashMap<AgentId, u64>,
    until_ms: i64,
}

impl RunView {
    /// The figures of its agents. Open agents count until `now_ms` if a process executes the run, else until its last
    /// lease holder is known to have lived.
    pub fn figures(&self, now_ms: i64) -> RunFigures<'_> {
        RunFigures::new(self.agents(), self.until_ms(now_ms))
    }
}

impl<'a> RunFigures<'a> {
    fn new(agents: &'a Agents, until_ms: i64) -> Self {
        let mut open_ms: HashMap<AgentId, u64> = HashMap::new();
        for agent in agents.iter() {
            let wall_ms = open_wall_ms(agent, until_ms);
            let mut at = Some(agent.id.clone()).filter(|_| wall_ms > 0);
            while let Some(id) = at {
                at = id.parent();
                *open_ms.entry(id).or_default() += wall_ms;
            }
        }
        Self { agents, open_ms, until_ms }
    }
}

/// How long an open agent has existed; 0 if it has closed, or if the clock has jumped back.
fn open_wall_ms(agent: &AgentView, until_ms: i64) -> u64 {
    let since = agent.completed_at_ms.is_none().then_some(agent.created_at_ms);
    since.and_then(|since| u64::try_from(until_ms - since).ok()).unwrap_or(0)
}

impl RunFigures<'_> {
    /// What the agent itself spent.
    pub fn own(&self, agent: &AgentView) -> Figures {
        let open_ms = open_wall_ms(agent, self.until_ms);
        Figures { wall_ms: agent.own.wall_ms + open_ms, ..agent.own }
    }

    /// What the agent and its subtree spent.
    pub fn subtree(&self, agent: &AgentView) -> Figures {
        let open_ms = self.open_ms.get(&agent.id).copied().unwrap_or(0);
        Figures { wall_ms: agent.subtree.wall_ms + open_ms, ..agent.subtree }
    }

    /// What all agents spent together.
    pub fn total(&self) -> SpendingTotal {
        let mut total = SpendingTotal::default();
        self.agents.iter().for_each(|agent| total += self.of_one(agent));
        total
    }

    /// What the agents of each depth spent together.
    pub fn by_depth(&self) -> BTreeMap<u32, SpendingTotal> {
        let mut totals: BTreeMap<u32, SpendingTotal> = BTreeMap::new();
        for agent in self.agents.iter() {
            *totals.entry(agent.depth()).or_default() += self.of_one(agent);
        }
        totals
    }

    /// What the agents of each model spent together.
    pub fn by_model(&self) -> TotalsByName {
        let mut totals = TotalsByName::new();
        for agent in self.agents.iter() {
            *totals.entry(agent.model.clone()).or_default() += self.of_one(agent);
        }
        totals
    }

    /// The number of agents in the subtree of each agent, including the agent itself.
    pub fn subtree_sizes(&self) -> HashMap<&AgentId, u64> {
        let mut sizes: HashMap<&AgentId, u64> = HashMap::new();
        for agent in self.agents.iter() {
            let mut at = Some(agent);
            while let Some(above) = at {
                *sizes.entry(&above.id).or_default() += 1;
                at = above.parent().and_then(|parent| self.agents.get(&parent));
            }
        }
        sizes
    }

    fn of_one(&self, agent: &AgentView) -> SpendingTotal {
        SpendingTotal { agents: 1, figures: self.own(agent) }
    }
}

#[cfg(test)]
mod tests {
    use posse_engine::ports::{AgentRow, AgentTerms};

    use super::*;

    fn agent(id: &str, created_at_ms: i64, completed_at_ms: Option<i64>, wall_ms: u64) -> AgentRow {
        let id: AgentId = id.parse().expect("an id");
        let figures = serde_json::to_string(&Figures::default().with_wall_ms(wall_ms)).expect("JSON");
        let contract = r#"{"step": {"title": "look"}, "execution": {"model": "a/b"}}"#;
        let terms = AgentTerms {
            parent: id.parent(),
            parent_message_id: None,
            depth: id.depth(),
            definition: "coder".to_owned(),
            contract_json: contract.to_owned(),
            permissions_json: "{}".to_owned(),
            created_at_ms,
        };
        AgentRow {
            id,
            terms: Some(terms),
            state: posse_domain::lifecycle::AgentState::Running,
            final_status: None,
            close_reason: None,
            result: None,
            error: None,
            usage_json: figures.clone(),
            subtree_usage_json: figures,
            completed_at_ms,
            events_in_force: Some(Vec::new()),
        }
    }

    #[test]
    fn the_wall_time_of_an_open_agent_is_the_time_since_it_was_created() {
        let rows = [
            agent("k3f9ab2c", 1_000, None, 0),
            agent("k3f9ab2c.1", 2_000, Some(2_500), 500),
            agent("k3f9ab2c.2", 3_000, None, 0),
            // A clock that jumped back gives zero.
            agent("k3f9ab2c.2.1", 9_000, None, 0),
        ];
        let agents = Agents::from_rows(&rows).expect("agents");
        let figures = RunFigures::new(&agents, 4_000);
        let own: Vec<u64> = agents.iter().map(|agent| figures.own(agent).wall_ms).collect();
        assert_eq!(own, [3_000, 500, 1_000, 0]);
        let subtrees: Vec<u64> = agents.iter().map(|agent| figures.subtree(agent).wall_ms).collect();
        assert_eq!(subtrees, [4_000, 500, 1_000, 0]);
        let depths: Vec<u64> = figures.by_depth().values().map(|total| total.figures.wall_ms).collect();
        assert_eq!(depths, [3_000, 1_500, 0]);
        assert_eq!(figures.subtree_sizes()[&"k3f9ab2c.2".parse::<AgentId>().expect("an id")], 2);
        assert_eq!(figures.total().agents, 4);
        // No process executes it: open agents count until its last event, whatever the time is.
        let view = RunView { agents, last_at_ms: 4_000, ..RunView::default() };
        let root = view.agents().root().expect("a root");
        assert_eq!(view.figures(60_000).own(root).wall_ms, 3_000);
        // The process lived for longer than that, or is not known to have.
        for (alive_at_ms, wall_ms) in [(9_000, 8_000), (2_000, 3_000)] {
            let view = RunView { alive_at_ms: Some(alive_at_ms), ..RunView::default() };
            let view =
                RunView { agents: Agents::from_rows(&rows).expect("agents"), last_at_ms: 4_000, ..view };
            let root = view.agents().root().expect("a root");
            assert_eq!((view.figures(60_000).own(root).wall_ms, view.elapsed_ms(60_000)), (wall_ms, wall_ms));
        }
    }
}
