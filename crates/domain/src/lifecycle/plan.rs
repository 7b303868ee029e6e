//! The execution of a plan, for the driver: which steps may start, and how each ended.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use super::apply::illegal;
use super::{
    AgentState, CommandRefused, FailKind, IllegalEvent, NewEvent, OpenState, Refusal, Run, SpawnFrom,
    SpawnRequest, with_code,
};
use crate::code::Code;
use crate::contract::Contract;
use crate::event::{EffectClass, Event, SubagentFailed, SubagentRefused};
use crate::id::AgentId;
use crate::plan::{IntegrationOrder, OnFailure, Plan};
use crate::text::Text;

/// The progress of a plan.
#[derive(Debug, Clone)]
pub struct PlanProgress {
    pub plan: Arc<Plan>,
    /// The child of each step, once it is created.
    pub children: Vec<Option<AgentId>>,
    /// The first line of each integrated step's report, if its text was loaded.
    pub reports: BTreeMap<usize, String>,
    /// Steps for which no child was created, with the reason.
    pub refused: BTreeMap<usize, FailedStep>,
    needs: Vec<Vec<usize>>,
    ranks: Vec<u32>,
}

/// Why no child was created for a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedStep {
    pub code: Code,
    /// The reason for users.
    pub reason: String,
}

/// Prefix of the call id of a step's child, which no tool call requested.
const STEP_CALL: &str = "step-";

/// Maximum length of a step's report line in the report on the plan.
const REPORT_LINE_MAX_CHARS: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepState {
    /// No agent works on it yet.
    Due,
    /// Its child is open.
    Open,
    /// It is integrated or repaired.
    Done,
    Failed,
}

fn step_call(step: usize) -> String {
    format!("{STEP_CALL}{}", step + 1)
}

/// The number in the id of a step's call, counted from one.
pub fn step_number(call_id: &str) -> Option<usize> {
    call_id.strip_prefix(STEP_CALL)?.parse().ok()
}

impl PlanProgress {
    fn new(plan: &Plan) -> Self {
        let mut ranks = vec![0; plan.steps.len()];
        for (rank, step) in plan.order().into_iter().enumerate() {
            ranks[step] = u32::try_from(rank).unwrap_or(u32::MAX);
        }
        let needs = plan.dependencies();
        Self {
            children: vec![None; plan.steps.len()],
            plan: Arc::new(plan.clone()),
            reports: BTreeMap::new(),
            refused: BTreeMap::new(),
            needs,
            ranks,
        }
    }
}

impl Run {
    pub(super) fn run_planned(&mut self, event: &Event, plan: &Plan) -> Result<(), IllegalEvent> {
        if !event.agent.is_root() || self.planned.is_some() || self.agents.len() > 1 {
            return Err(illegal(event, "a run is planned once, before it has children"));
        }
        self.planned = Some(PlanProgress::new(plan));
        Ok(())
    }

    /// The plan step that a new child executes, if any.
    pub(super) fn planned_step(
        &self,
        event: &Event,
        contract: &Contract,
    ) -> Result<Option<usize>, IllegalEvent> {
        if contract.parent.message_id.is_some() || self.begins_run_skill(&event.agent, contract) {
            return Ok(None);
        }
        let step = contract.parent.step_idx as usize;
        let free =
            self.planned.as_ref().and_then(|planned| planned.children.get(step)).is_some_and(Option::is_none);
        if free && contract.context.depth == 1 {
            Ok(Some(step))
        } else {
            Err(illegal(event, "no reply, no step of the plan and no skill of the run requested this child"))
        }
    }

    /// Whether a child executes a step of the plan.
    pub fn is_step(&self, child: &AgentId) -> bool {
        let children = self.planned.iter().flat_map(|planned| &planned.children);
        children.flatten().any(|step| step == child)
    }

    /// The position of a step in the merge order. None if the plan does not fix the order.
    pub fn step_rank(&self, step_idx: u32) -> Option<u32> {
        let planned = self.planned.as_ref()?;
        let ordered = planned.plan.integration == IntegrationOrder::Ordered;
        planned.ranks.get(step_idx as usize).copied().filter(|_| ordered)
    }

    fn standing(&self, planned: &PlanProgress, step: usize) -> StepState {
        let Some(child) = &planned.children[step] else {
            return if planned.refused.contains_key(&step) { StepState::Failed } else { StepState::Due };
        };
        // An integrated step is done, even if its contract leaves the close to its parent.
        let integrated =
            self.open(child).is_some_and(|agent| matches!(agent.state, OpenState::Completed { .. }));
        let failed = self.open(child).is_some_and(|agent| matches!(agent.state, OpenState::Failed(_)));
        match self.closed(child) {
            None if integrated || failed && self.repaired.contains(child) => StepState::Done,
            None if failed => StepState::Failed,
            None => StepState::Open,
            Some(closed) if closed.failure.is_none() || self.repaired.contains(child) => StepState::Done,
            Some(_) => StepState::Failed,
        }
    }

    /// The steps that may start now, in plan order: all their dependencies are integrated or repaired.
    pub fn next_steps(&self) -> Vec<usize> {
        let Some(planned) = self.planned.as_ref().filter(|_| self.outcome.is_none()) else {
            return Vec::new();
        };
        let standings: Vec<StepState> =
            (0..planned.children.len()).map(|step| self.standing(planned, step)).collect();
        if planned.plan.on_failure == OnFailure::Stop && standings.contains(&StepState::Failed) {
            return Vec::new();
        }
        let ready = |step: &usize| {
            standings[*step] == StepState::Due
                && planned.needs[*step].iter().all(|need| standings[*need] == StepState::Done)
        };
        (0..standings.len()).filter(ready).collect()
    }

    /// The rank of the first step of an ordered plan whose child is still to be created: it already has its queue
    /// position. A step that depends on a failed one has no rank, because the others would wait for it for ever.
    pub fn first_due_rank(&self) -> Option<u32> {
        let planned =
            self.planned.as_ref().filter(|planned| planned.plan.integration == IntegrationOrder::Ordered)?;
        let standings: Vec<StepState> =
            (0..planned.children.len()).map(|step| self.standing(planned, step)).collect();
        let failed = standings.contains(&StepState::Failed);
        if failed && planned.plan.on_failure == OnFailure::Stop {
            return None;
        }
        let mut blocked = vec![false; standings.len()];
        // In plan order, so that a step's dependencies come before it.
        for step in planned.plan.order() {
            let lost = |need: &usize| blocked[*need] || standings[*need] == StepState::Failed;
            blocked[step] = planned.needs[step].iter().any(lost);
        }
        let due = (0..standings.len()).filter(|step| standings[*step] == StepState::Due && !blocked[*step]);
        due.map(|step| planned.ranks[step]).min()
    }

    /// The steps that no agent has worked on.
    pub fn due_steps(&self) -> Vec<usize> {
        let Some(planned) = &self.planned else { return Vec::new() };
        (0..planned.children.len()).filter(|step| self.standing(planned, *step) == StepState::Due).collect()
    }

    /// The call id and the spawn request of a step's child.
    pub fn step_request(&self, step: usize) -> Option<(String, SpawnRequest)> {
        let wanted = self.planned.as_ref()?.plan.steps.get(step)?;
        let request = SpawnRequest {
            definition: wanted.agent.clone(),
            prompt: wanted.description.clone(),
            title: wanted.title.clone(),
            background: Some(true),
            max_turns: wanted.max_turns,
            timeout_ms: wanted.timeout_ms,
            budget: Some(wanted.budget),
            owns: wanted.owns.clone(),
            success_criteria: wanted.success_criteria.clone(),
            required: wanted.required,
            model: wanted.model.clone(),
            result_schema: wanted.result_schema.as_ref().map(|schema| serde_json::json!(schema)),
            tools: wanted.tools.clone(),
            max_retries: wanted.max_retries,
            ..SpawnRequest::default()
        };
        Some((step_call(step), request))
    }

    /// The origin of the request for a step's child.
    pub fn step_from<'a>(&self, root: &'a AgentId, call_id: &'a str, step: usize) -> SpawnFrom<'a> {
        let position = Some(u32::try_from(step).unwrap_or(u32::MAX));
        SpawnFrom { parent: root, call_id, message_id: None, step: position }
    }

    /// Decides on the child of a step.
    pub fn spawn_step(
        &self,
        step: usize,
        class_of: &dyn Fn(&str) -> Option<EffectClass>,
    ) -> Result<NewEvent, Refusal> {
        let root = self.id.root();
        let Some((call_id, request)) = self.step_request(step) else {
            let reason = "there is no such step".to_owned();
            return Err(Refusal { code: Code::InvalidInput, reason });
        };
        self.spawn(self.step_from(&root, &call_id, step), &request, class_of)
    }

    /// The event that records why a step has no child.
    pub fn refuse_step(&self, step: usize, refusal: &Refusal) -> NewEvent {
        let root = self.id.root();
        let planned = self.planned.as_ref().and_then(|planned| planned.plan.steps.get(step));
        let definition = planned.map(|step| step.agent.as_str()).unwrap_or_default();
        self.refuse(self.step_from(&root, &step_call(step), step), definition, refusal)
    }

    /// The step with this call id.
    pub fn step_called(&self, call_id: &str) -> Option<usize> {
        let step = step_number(call_id)?.checked_sub(1)?;
        self.planned.as_ref().filter(|planned| step < planned.plan.steps.len()).map(|_| step)
    }

    /// Marks a step without a child as failed.
    pub(super) fn step_refused(&mut self, refused: &SubagentRefused) {
        let step = self.step_called(&refused.call_id);
        if let (Some(step), Some(planned)) = (step, &mut self.planned) {
            let failed = FailedStep { code: refused.code, reason: refused.reason.clone() };
            planned.refused.insert(step, failed);
        }
    }

    /// A required step for which no child was created.
    pub(super) fn refused_step(&self) -> Option<(&str, &FailedStep)> {
        let planned = self.planned.as_ref()?;
        planned.refused.iter().find_map(|(step, failed)| {
            let step = planned.plan.steps.get(*step)?;
            step.required.then_some((step.title.as_str(), failed))
        })
    }

    /// Fails a step's child that never starts, because a dependency failed.
    pub fn abandon(&self, child: &AgentId) -> Result<NewEvent, CommandRefused> {
        let agent = self.commanded_child(child)?;
        match &agent.state {
            OpenState::Created { .. } => {}
            OpenState::Running { .. }
            | OpenState::WaitingForMerge { .. }
            | OpenState::Completed { .. }
            | OpenState::Failed(_) => return Err(CommandRefused::State(agent.state.name())),
        }
        let kind = FailKind::Cancelled;
        let failed = SubagentFailed {
            from: AgentState::Created,
            to: AgentState::Failed,
            kind,
            code: kind.code(),
            reason: self.why_abandoned(child).to_owned(),
            report: None,
        };
        Ok((child.clone(), failed.into()))
    }

    fn why_abandoned(&self, child: &AgentId) -> &'static str {
        let lost = "a step that it depends on failed";
        let Some(planned) = &self.planned else { return lost };
        let step = planned.children.iter().position(|step| step.as_ref() == Some(child));
        let done = |need: &usize| self.standing(planned, *need) == StepState::Done;
        match step {
            Some(step) if planned.needs[step].iter().all(done) => {
                "another step failed, and the plan says that no further step starts then"
            }
            _ => lost,
        }
    }

    /// Marks a failed child as repaired, and also the child that it was to repair.
    pub(super) fn mark_repaired(&mut self, repaired: AgentId) {
        let mut next = Some(repaired);
        while let Some(id) = next.filter(|id| !self.repaired.contains(id)) {
            next = self.closed(&id).and_then(|closed| closed.repairs.clone());
            self.repaired.insert(id);
        }
    }

    /// Keeps the first line of an integrated step's report, for the report on the plan. A long report that was not
    /// fetched has none.
    pub(super) fn keep_report_line(&mut self, child: &AgentId, report: &Text) {
        let (Some(planned), Text::Here(text)) = (&mut self.planned, report) else { return };
        let step = planned.children.iter().position(|step| step.as_ref() == Some(child));
        let line = text.lines().map(str::trim).find(|line| !line.is_empty());
        if let (Some(step), Some(line)) = (step, line) {
            planned.reports.insert(step, line.chars().take(REPORT_LINE_MAX_CHARS).collect());
        }
    }

    /// The report on the plan, as Markdown.
    pub fn plan_report(&self) -> Option<String> {
        let planned = self.planned.as_ref()?;
        let mut text = format!("## Plan: {}\n\n", planned.plan.goal.lines().next().unwrap_or_default());
        for (at, step) in planned.plan.steps.iter().enumerate() {
            let child = planned.children[at].as_ref();
            let became = match (self.standing(planned, at), child.and_then(|child| self.closed(child))) {
                (StepState::Done, Some(closed)) if closed.failure.is_some() => {
                    "failed, then repaired".to_owned()
                }
                (StepState::Done, _) => match planned.reports.get(&at) {
                    Some(line) => format!("integrated: {line}"),
                    None => "integrated".to_owned(),
                },
                (StepState::Failed, Some(closed)) => {
                    let why = closed.failure.as_ref().map(|failure| {
                        let line = failure.reason.lines().next().unwrap_or_default();
                        format!(": {}", with_code(line.trim_end_matches(':'), failure.code))
                    });
                    format!("failed{}", why.unwrap_or_default())
                }
                (StepState::Failed, None) => match planned.refused.get(&at) {
                    Some(failed) => format!("not started: {}", with_code(&failed.reason, failed.code)),
                    None => "not done".to_owned(),
                },
                _ => "not done".to_owned(),
            };
            let id = child.map(|child| format!(" (task {})", child.relative())).unwrap_or_default();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}. {}{id}: {became}", at + 1, step.title);
        }
        Some(text)
    }
}
