//! What a new run takes over from an agent of an earlier run that it continues.
//!
//! Why it is like this: `docs/decisions/runs-continued.md`.

use std::collections::{BTreeSet, HashMap};

use posse_domain::event::{EventBody, EventKind};
use posse_domain::id::{AgentId, RunId};
use posse_domain::lifecycle::step_number;
use posse_domain::plan::Plan;
use posse_domain::request::{Continuation, ContinuedFiles, RunRequest};
use posse_engine::conversation_json;

use crate::view::{AgentCommits, AgentRecord, ViewEvent, ViewPart};
use crate::{Error, Posse, RunOutcome};

/// An agent that has ended, with everything that a run which continues it can take over.
#[derive(Debug, Clone)]
pub struct EndedAgent {
    /// Its conversation and files, for [`NewRun::continues`](crate::NewRun::continues).
    pub continuation: Continuation,
    /// The row of the agent: its definition, its model, its task.
    pub agent: AgentRecord,
    /// The request of its run, without the discovered definitions.
    pub request: RunRequest,
    /// How its run ended; `None` if the run is still open and the agent is one of its closed sub-agents.
    pub outcome: Option<RunOutcome>,
    /// The plan of its run without the steps that are integrated; `None` if there was no plan, or if nothing is left of
    /// it.
    pub plan: Option<Plan>,
}

impl EndedAgent {
    /// Whether its model has replied, so that there is a conversation to continue.
    pub fn has_replied(&self) -> bool {
        self.agent.agent.own.turns > 0
    }
}

impl Posse {
    /// An agent that has ended, for a run that continues it. The root of a run ends with the run.
    pub async fn ended_agent(&self, agent: &AgentId) -> Result<EndedAgent, Error> {
        let run = agent.run();
        let record = self.agent(agent).await?;
        if record.agent.completed_at_ms.is_none() {
            return Err(Error::StillRunning(run));
        }
        let conversation = conversation_json(&*self.store, &self.key(&run), agent).await?;
        let plan = self.fold::<RestOfPlan>(&run).await?.plan();
        let continuation = Continuation {
            agent: agent.clone(),
            conversation: Some(conversation.into()),
            files: self.left_files(agent).await?,
            is_retry: false,
        };
        let request = self.request_of(&run).await?;
        let outcome = self.finished(&run).await?;
        Ok(EndedAgent { continuation, agent: record, request, outcome, plan })
    }

    /// The files that an agent left; `None` if no agent of its run could change files.
    async fn left_files(&self, agent: &AgentId) -> Result<Option<ContinuedFiles>, Error> {
        let run = agent.run();
        let commits: AgentCommits = self.fold(&run).await?;
        let root = commits.of(&run.root());
        Ok(match (root.base, commits.of(agent)) {
            (None, _) => None,
            (Some(_), files) if !agent.is_root() && files.base.is_some() => {
                files.base.map(|base| ContinuedFiles::Left { base, commit: files.last.unwrap_or(base) })
            }
            // A sub-agent without files of its own read those of its run.
            (Some(_), _) => Some(ContinuedFiles::Result),
        })
    }

    /// The request of a run, without the discovered definitions and skills.
    pub(crate) async fn request_of(&self, run: &RunId) -> Result<RunRequest, Error> {
        let first = self.events(run, 0).try_next().await?;
        match first.map(|event| event.body) {
            Some(EventBody::RunStarted(started)) => Ok(RunRequest { catalogue: None, ..started.request }),
            _ => Err(crate::damaged(run, "it has no events")),
        }
    }
}

/// The steps of a plan that are not integrated yet.
#[derive(Default)]
struct RestOfPlan {
    plan: Option<Plan>,
    /// The position of the step that each child executes or repairs.
    steps: HashMap<AgentId, usize>,
    done: BTreeSet<usize>,
}

impl RestOfPlan {
    fn plan(self) -> Option<Plan> {
        let Plan { steps, .. } = self.plan.as_ref()?;
        let is_open = |at: &usize| !self.done.contains(at);
        let open: BTreeSet<String> =
            (0..steps.len()).filter(is_open).map(|at| steps[at].title.clone()).collect();
        let mut plan = self.plan?;
        plan.steps.retain(|step| open.contains(&step.title));
        // Steps that are integrated are part of the files.
        plan.steps.iter_mut().for_each(|step| step.depends_on.retain(|title| open.contains(title)));
        (!plan.steps.is_empty()).then_some(plan)
    }
}

impl ViewPart for RestOfPlan {
    fn needs(&self, kind: EventKind) -> bool {
        matches!(kind, EventKind::RunPlanned | EventKind::SubagentCreated | EventKind::IntegrationPassed)
    }

    fn apply(&mut self, event: &ViewEvent<'_>) {
        match event.body {
            EventBody::RunPlanned(planned) => self.plan = Some(planned.plan.clone()),
            EventBody::SubagentCreated(created) if created.parent_id.is_root() => {
                let own = step_number(&created.call_id).and_then(|number| number.checked_sub(1));
                let repaired = created.contract.parent.repairs.as_ref();
                let step = own.or_else(|| repaired.and_then(|failed| self.steps.get(failed).copied()));
                self.steps.extend(step.map(|step| (event.agent.clone(), step)));
            }
            EventBody::IntegrationPassed(_) => self.done.extend(self.steps.get(event.agent)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posse_domain::plan::Step;

    fn step(title: &str, depends_on: &[&str]) -> Step {
        let json = serde_json::json!({"title": title, "description": "do it", "depends_on": depends_on});
        serde_json::from_value(json).expect("a step")
    }

    #[test]
    fn only_steps_that_are_not_integrated_are_left_of_a_plan() {
        let plan =
            serde_json::from_value::<Plan>(serde_json::json!({"goal": "all", "steps": []})).expect("a plan");
        let steps = vec![step("one", &[]), step("two", &["one"]), step("three", &["one", "two"])];
        let plan = Plan { steps, ..plan };
        let rest = |done: &[usize]| {
            let done = done.iter().copied().collect();
            RestOfPlan { plan: Some(plan.clone()), done, ..RestOfPlan::default() }.plan()
        };
        let titles = |plan: Option<Plan>| {
            let steps = plan.map(|plan| plan.steps).unwrap_or_default();
            steps.into_iter().map(|step| (step.title, step.depends_on.join(","))).collect::<Vec<_>>()
        };
        let named = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>()
        };
        assert_eq!(titles(rest(&[])), named(&[("one", ""), ("two", "one"), ("three", "one,two")]));
        assert_eq!(titles(rest(&[0])), named(&[("two", ""), ("three", "two")]));
        assert_eq!(titles(rest(&[0, 2])), named(&[("two", "")]));
        assert_eq!(rest(&[0, 1, 2]), None);
        assert_eq!(RestOfPlan::default().plan(), None);
    }
}
