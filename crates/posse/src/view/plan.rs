//! The progress of a run's plan, for display.

use posse_domain::code::Code;
use posse_domain::event::{EventBody, EventKind};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::step_number;
use posse_domain::plan::Step;

use super::{ViewEvent, ViewPart};

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepView {
    /// The title from the plan.
    pub title: String,
    /// The titles of the steps that come before it.
    pub depends_on: Vec<String>,
    /// Whether its failure fails the run.
    pub required: bool,
    /// The sub-agent that executes it, once it was created.
    pub agent: Option<AgentId>,
    /// The newest sub-agent that repairs it.
    pub repair: Option<AgentId>,
    /// Why the engine refused to create a sub-agent for it.
    pub refused: Option<Code>,
}

/// The plan that a run executes. A plan has a limited number of steps.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct PlanView {
    steps: Vec<StepView>,
}

impl PlanView {
    /// The steps in the order of the plan; empty if the run has no plan.
    pub fn steps(&self) -> &[StepView] {
        &self.steps
    }

    /// The step of a sub-agent that failed. A repair that failed may itself be repaired.
    fn repaired(&mut self, failed: Option<&AgentId>) -> Option<&mut StepView> {
        let failed = failed?;
        let is_of = |step: &&mut StepView| [&step.agent, &step.repair].contains(&&Some(failed.clone()));
        self.steps.iter_mut().find(is_of)
    }

    /// The step that a call of the root belongs to.
    fn step_of(&mut self, call_id: &str) -> Option<&mut StepView> {
        let at = step_number(call_id)?.checked_sub(1)?;
        self.steps.get_mut(at)
    }
}

impl ViewPart for PlanView {
    fn needs(&self, kind: EventKind) -> bool {
        let is_about_step = matches!(kind, EventKind::SubagentCreated | EventKind::SubagentRefused);
        kind == EventKind::RunPlanned || (is_about_step && !self.steps.is_empty())
    }

    fn apply(&mut self, event: &ViewEvent<'_>) {
        match event.body {
            EventBody::RunPlanned(e) => {
                let step = |planned: &Step| StepView {
                    title: planned.title.clone(),
                    depends_on: planned.depends_on.clone(),
                    required: planned.required,
                    agent: None,
                    repair: None,
                    refused: None,
                };
                self.steps = e.plan.steps.iter().map(step).collect();
            }
            EventBody::SubagentCreated(e) if e.parent_id.is_root() => {
                if let Some(step) = self.step_of(&e.call_id) {
                    step.agent = Some(event.agent.clone());
                } else if let Some(step) = self.repaired(e.contract.parent.repairs.as_ref()) {
                    step.repair = Some(event.agent.clone());
                }
            }
            EventBody::SubagentRefused(e) if event.agent.is_root() => {
                if let Some(step) = self.step_of(&e.call_id) {
                    step.refused = Some(e.code);
                }
            }
            _ => {}
        }
    }
}
