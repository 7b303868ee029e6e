//! Applies events to the state of a run, one at a time, live and on load alike. No other code changes the state.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use thiserror::Error;

use super::close::wall_since;
use super::definitions::PreparedDefinitions;
use super::{
    Cancel, ClosedAgent, FailKind, Failure, Files, Node, OpenAgent, OpenState, Outcome, PreparedDefinition,
    ProviderWait, Run, step_number,
};
use crate::budget::{self, Deadline, Figures, Ledger};
use crate::contract::Contract;
use crate::event::{
    Event, EventBody, FailedChild, FinalStatus, ModelCalled, ModelReplied, ProviderWaitStarted, Purpose,
    RunStarted, SubagentAttempt, SubagentClosed, SubagentCreated, ToolFinished, ToolInterrupted,
};
use crate::id::{AgentId, RunId};
use crate::permission::{Authority, Grant, RunLayers};
use crate::text::Text;

/// An event that is impossible in the current state.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{agent}: `{kind}` cannot happen now: {problem}")]
pub struct IllegalEvent {
    pub agent: AgentId,
    pub kind: &'static str,
    pub problem: String,
}

impl Run {
    /// Creates a run's state from its first event.
    pub fn begin(event: &Event) -> Result<Run, IllegalEvent> {
        let EventBody::RunStarted(started) = &event.body else {
            return Err(illegal(event, "a run begins with run.started"));
        };
        let run = event.agent.run();
        if started.contract.hash() != started.contract_hash {
            return Err(illegal(event, "the contract does not match its hash"));
        }
        if !event.agent.is_root() || started.contract.context.depth != 0 {
            return Err(illegal(event, "a run begins with its root"));
        }
        let here = |text: &Text| match text {
            Text::Here(text) => Ok(text.clone()),
            Text::Stored(_) => Err(illegal(event, "its long texts were not fetched")),
        };
        let request = &started.request;
        let catalogue = request.discovered();
        let catalogue = catalogue.map_err(|problem| illegal(event, format!("its catalogue: {problem}")))?;
        let agents_md = request.agents_md.as_ref().map(here).transpose()?;
        let continued = request.continues.as_ref().and_then(|continued| continued.conversation.as_ref());
        let continued = continued.map(here).transpose()?;
        let PreparedDefinitions { definitions, skills } =
            PreparedDefinitions::new(&request.definitions, &catalogue)
                .map_err(|problem| illegal(event, problem))?;
        let name = &started.contract.execution.definition;
        let prepared = definitions
            .get(name)
            .cloned()
            .ok_or_else(|| illegal(event, format!("no definition `{name}`")))?;
        let layers = RunLayers {
            operator: request.terms.operator_rules.clone(),
            project: request.terms.project_rules.clone(),
            run: request.terms.run_rules.clone(),
        };
        let authority =
            Authority::root(&run, layers, prepared.layer().clone(), started.contract.permissions.clone());
        let mut ledger = Ledger::open_root(&event.agent, &started.contract.budget)
            .map_err(|error| illegal(event, error.to_string()))?;
        if request.terms.skill.is_some() {
            // The root of a skill's run calls no model: its report is that of its one child.
            ledger.report_over(&event.agent);
        }
        let agent = open_agent(Arc::new(started.contract.clone()), authority, prepared, event.at_ms);
        let base = started.base.as_ref().map(|base| base.commit);
        let files = Files { base, ..Files::default() };
        let agent = OpenAgent { state: OpenState::Running { attempt: 1 }, files, ..agent };
        let out_of_reach = catalogue.out_of_reach.clone();
        Ok(Run {
            skills,
            agents_md,
            continued,
            out_of_reach,
            ..started_run(&run, started, event.at_ms, definitions, ledger, agent)
        })
    }

    /// Applies the next event.
    pub fn apply(&mut self, event: &Event) -> Result<(), IllegalEvent> {
        let id = &event.agent;
        if self.outcome.is_some() {
            return Err(illegal(event, "the run has ended"));
        }
        match &event.body {
            EventBody::RunStarted(_) => return Err(illegal(event, "the run has started")),
            EventBody::RunPlanned(e) => self.run_planned(event, &e.plan)?,
            EventBody::RunResumed(e) => {
                for node in self.agents.values_mut() {
                    if let Node::Open(agent) = node {
                        agent.deadline.pause(e.unowned_ms);
                    }
                }
            }
            EventBody::SubagentCreated(created) => self.created(event, created)?,
            EventBody::SubagentQueued(_) => match &mut self.child(event)?.state {
                OpenState::Created { queued } if !*queued => *queued = true,
                _ => return Err(illegal(event, "it does not wait to start")),
            },
            EventBody::SubagentStarted(e) => self.child_started(event, e.base)?,
            EventBody::SubagentAttempt(e) => self.attempt(event, e)?,
            EventBody::SubagentWaitingForMerge(e) => self.work_ended(event, e)?,
            EventBody::IntegrationPassed(e) => self.integration_passed(event, e)?,
            EventBody::ChecksPassed(_) | EventBody::ChecksFailed(_) | EventBody::WorktreeConflicted(_) => {
                self.waiting(event)?;
            }
            EventBody::WorktreeMerged(e) => self.worktree_merged(event, e)?,
            EventBody::WorkspaceMade(e) => self.workspace_made(event, e)?,
            EventBody::WorkspaceSalvaged(e) => self.workspace_salvaged(event, e)?,
            EventBody::WorkspaceRemoved(_) => {
                if self.closed(id).is_none() {
                    return Err(illegal(event, "it is not closed"));
                }
            }
            EventBody::IntegrationFailed(e) => {
                let agent = self.waiting(event)?;
                if agent.files.merging.is_some() {
                    return Err(illegal(event, "it is merged"));
                }
                let state = &mut agent.state;
                let OpenState::WaitingForMerge { report } = state else {
                    return Err(illegal(event, "it does not wait for a merge"));
                };
                if !matches!(e.kind, FailKind::Integration | FailKind::Cancelled) {
                    return Err(illegal(event, "an integration ends with `integration` or `cancelled`"));
                }
                let report = Some(report.clone());
                *state = OpenState::Failed(Failure {
                    kind: e.kind,
                    code: e.code,
                    reason: e.reason.clone(),
                    report,
                });
            }
            EventBody::SubagentFailed(e) => match &mut self.resting(event)?.state {
                state @ (OpenState::Created { .. } | OpenState::Running { .. }) => {
                    *state = OpenState::Failed(Failure {
                        kind: e.kind,
                        code: e.code,
                        reason: e.reason.clone(),
                        report: e.report.clone(),
                    });
                    self.ledger.report_over(id);
                }
                _ => return Err(illegal(event, "the agent has ended its work")),
            },
            EventBody::SubagentClosed(e) => self.close_agent(event, e)?,
            EventBody::ModelCalled(e) => self.model_called(event, e)?,
            EventBody::ModelReplied(e) => self.model_replied(event, e)?,
            EventBody::ContextCompacted(_) => self.context_compacted(event)?,
            EventBody::ProviderWaitStarted(e) => self.provider_wait_started(event, e)?,
            EventBody::ProviderWaitEnded(_) => {
                if self.live(event)?.provider_wait.take().is_none() {
                    return Err(illegal(event, "it does not wait for a provider"));
                }
            }
            EventBody::InputRequested(e) => self.input_requested(event, e)?,
            EventBody::InputAnswered(e) => self.input_answered(event, e)?,
            EventBody::ToolFinished(ToolFinished { call_id, .. })
            | EventBody::ToolInterrupted(ToolInterrupted { call_id, .. }) => {
                self.call_ended(event, call_id)?;
                self.count(event, Figures::of_call(&event.body))?;
            }
            EventBody::CancelRequested(e) => self.live(event)?.cancel = Some(Cancel::of(e)),
            EventBody::RunCompleted(e) => {
                self.end_run(event, Outcome::Completed { text: e.text.clone() })?;
                self.count_turn_limit(event, e.turns_exhausted)?;
                self.count_files(event, Some(e.result.as_ref().map_or(0, |result| result.files)))?;
            }
            EventBody::RunFailed(e) => {
                let outcome = Outcome::Failed {
                    kind: e.kind,
                    code: e.code,
                    reason: e.reason.clone(),
                    text: e.text.clone(),
                };
                self.end_run(event, outcome)?;
                self.count_files(event, e.result.as_ref().map(|result| result.files))?;
            }
            EventBody::RunCancelled(e) => {
                self.end_run(event, Outcome::Cancelled { reason: e.reason.clone() })?;
                self.count_files(event, e.result.as_ref().map(|result| result.files))?;
            }
            EventBody::ToolIntended(e) => {
                let agent = self.live(event)?;
                if e.class.changes_workspace() {
                    agent.changed = true;
                    agent.files.salvaged = false;
                }
            }
            EventBody::SubagentRefused(e) => {
                self.live(event)?;
                if id.is_root() {
                    self.step_refused(e);
                }
                self.commands_decided(id, &e.call_id, event.at_ms);
            }
            EventBody::PermissionDecided(_)
            | EventBody::MessageReceived(_)
            | EventBody::ContextTrimmed(_)
            | EventBody::TodoChanged(_) => {
                self.live(event)?;
            }
        }
        self.seq += 1;
        if self.is_about_plan(event) {
            self.plan_events.push(self.seq);
        }
        Ok(())
    }

    /// Whether an event is the run's plan, or creates or refuses the child of a step.
    fn is_about_plan(&self, event: &Event) -> bool {
        let call_id = match &event.body {
            EventBody::RunPlanned(_) => return true,
            EventBody::SubagentCreated(e) if e.parent_id.is_root() => &e.call_id,
            EventBody::SubagentRefused(e) if event.agent.is_root() => &e.call_id,
            _ => return false,
        };
        self.planned.is_some() && step_number(call_id).is_some()
    }

    pub(super) fn live(&mut self, event: &Event) -> Result<&mut OpenAgent, IllegalEvent> {
        match self.agents.get_mut(&event.agent) {
            Some(Node::Open(agent)) => Ok(agent),
            Some(Node::Closed(_)) => Err(illegal(event, "the agent is closed")),
            None => Err(illegal(event, "there is no such agent")),
        }
    }

    /// The event's agent, which must be a child: the root has no events of a sub-agent.
    pub(super) fn child(&mut self, event: &Event) -> Result<&mut OpenAgent, IllegalEvent> {
        if event.agent.is_root() {
            return Err(illegal(event, "the root is not a sub-agent"));
        }
        self.live(event)
    }

    /// The event's agent, which must be a child with nothing under way: children end before their parents, and calls
    /// end before their attempt.
    pub(super) fn resting(&mut self, event: &Event) -> Result<&mut OpenAgent, IllegalEvent> {
        let agent = self.child(event)?;
        if !agent.open_children.is_empty() {
            return Err(illegal(event, "it has open children"));
        }
        if agent.calling.is_some() {
            return Err(illegal(event, "a model call is under way"));
        }
        if !agent.questions.is_empty() {
            return Err(illegal(event, "a call with a question has no result"));
        }
        Ok(agent)
    }

    fn attempt(&mut self, event: &Event, again: &SubagentAttempt) -> Result<(), IllegalEvent> {
        let agent = self.resting(event)?;
        let retries = agent.contract.execution.max_retries;
        if agent.files.made && !agent.files.salvaged {
            return Err(illegal(event, "its workspace is not salvaged"));
        }
        // The next attempt gets a fresh workspace from the same snapshot. Merges into the old workspace stay there.
        agent.files = Files { base: agent.files.base, ..Files::default() };
        match &mut agent.state {
            OpenState::Running { attempt } if *attempt + 1 == again.n => {
                if *attempt > retries || !again.kind.is_retried() {
                    return Err(illegal(event, "there is no further attempt"));
                }
                *attempt = again.n;
                let had_children = agent.children > 0;
                self.ledger.report_again(&event.agent);
                if had_children {
                    self.forget_required(&event.agent);
                }
                Ok(())
            }
            _ => Err(illegal(event, format!("attempt {} is not the next", again.n))),
        }
    }

    /// Children that a finished attempt required no longer decide the outcome of the run.
    fn forget_required(&mut self, parent: &AgentId) {
        for (id, node) in &mut self.agents {
            if let (Node::Closed(closed), true) = (node, id != parent && parent.contains(id)) {
                closed.required = false;
            }
        }
    }

    /// Counts an agent that its turn limit cut off.
    pub(super) fn count_turn_limit(&mut self, event: &Event, is_cut: bool) -> Result<(), IllegalEvent> {
        self.count(event, Figures { turn_limited: u64::from(is_cut), ..Figures::default() })
    }

    /// Counts the files that the accepted work of the event's agent changed.
    pub(super) fn count_files(&mut self, event: &Event, files: Option<u64>) -> Result<(), IllegalEvent> {
        self.count(event, Figures { files_changed: files, ..Figures::default() })
    }

    fn count(&mut self, event: &Event, figures: Figures) -> Result<(), IllegalEvent> {
        self.ledger.record(&event.agent, figures).map_err(|error| illegal(event, error.to_string()))
    }

    fn created(&mut self, event: &Event, created: &SubagentCreated) -> Result<(), IllegalEvent> {
        let id = &event.agent;
        let contract = &created.contract;
        if contract.hash() != created.contract_hash {
            return Err(illegal(event, "the contract does not match its hash"));
        }
        let parent_id = id.parent().ok_or_else(|| illegal(event, "the root is not created by a parent"))?;
        let number = id.number().unwrap_or(0);
        let prepared = self.definition_of(contract).cloned();
        let prepared =
            prepared.ok_or_else(|| illegal(event, format!("no definition `{}`", created.definition)))?;
        let Some(Node::Open(parent)) = self.agents.get_mut(&parent_id) else {
            return Err(illegal(event, "its parent is not open"));
        };
        if !matches!(parent.state, OpenState::Running { .. }) {
            return Err(illegal(event, "its parent is not running"));
        }
        // Depth and lineage come from the parent. Any other contract was not created here.
        if contract.context != parent.contract.context.create_child_context(&parent_id)
            || contract.execution.definition != prepared.definition.name
            || (&created.definition, &created.skill) != (&prepared.definition.name, &contract.execution.skill)
        {
            return Err(illegal(event, "its contract is not one of a child of its parent"));
        }
        if number != parent.children + 1 {
            return Err(illegal(event, format!("the parent's next child is {}", parent.children + 1)));
        }
        let authority = parent.authority.child(number, prepared.layer().clone(), &contract.permissions);
        // The meet created the contract. A contract with more than its parent's grant was tampered with.
        if !narrower(authority.grant(), &contract.permissions) {
            return Err(illegal(event, "its grant is wider than its parent's"));
        }
        self.ledger
            .open_child(id, &contract.budget)
            .map_err(|exhausted| illegal(event, exhausted.to_string()))?;
        let step = self.planned_step(event, contract)?;
        let Some(Node::Open(parent)) = self.agents.get_mut(&parent_id) else {
            return Err(illegal(event, "its parent is not open"));
        };
        parent.children = number;
        parent.open_children.insert(number);
        self.commands_decided(&parent_id, &created.call_id, event.at_ms);
        if let (Some(step), Some(planned)) = (step, &mut self.planned) {
            planned.children[step] = Some(id.clone());
        }
        let agent = open_agent(Arc::new(contract.clone()), authority, prepared, event.at_ms);
        let agent = OpenAgent {
            call_id: created.call_id.as_str().into(),
            background: created.background,
            writer: created.writer,
            ..agent
        };
        self.agents.insert(id.clone(), Node::Open(Box::new(agent)));
        self.open_count += 1;
        Ok(())
    }

    fn close_agent(&mut self, event: &Event, closed: &SubagentClosed) -> Result<(), IllegalEvent> {
        let id = &event.agent;
        let agent = self.resting(event)?;
        if agent.files.made && !agent.files.salvaged {
            return Err(illegal(event, "its workspace is not salvaged"));
        }
        let failure = match (&agent.state, closed.final_status) {
            (OpenState::Completed { .. }, FinalStatus::Completed) => None,
            (OpenState::Failed(failure), FinalStatus::Failed) => Some(failure.clone()),
            _ => return Err(illegal(event, "it is neither completed nor failed")),
        };
        let failed_child = failure.as_ref().map(|failure| FailedChild {
            id: id.clone(),
            code: failure.code,
            reason: failure.reason.clone(),
        });
        let repairs = agent.contract.parent.repairs.clone();
        let changed = agent.changed;
        let remains = ClosedAgent {
            prepared: agent.prepared.clone(),
            grant: agent.contract.permissions.clone(),
            skill: agent.contract.execution.skill.clone(),
            failure: failed_child.clone(),
            fail_kind: failure.as_ref().map(|failure| failure.kind),
            required: agent.contract.step.required,
            repairs: repairs.clone(),
            turns_exhausted: false,
        };
        let wall = wall_since(agent.created_at_ms, event.at_ms);
        let turns_exhausted =
            failed_child.is_none() && self.ledger.own(id).is_some_and(|own| own.turn_limited > 0);
        let remains = ClosedAgent { turns_exhausted, ..remains };
        let settled = self.ledger.record(id, wall).and_then(|()| self.ledger.close(id));
        settled.map_err(|error| illegal(event, error.to_string()))?;
        self.agents.insert(id.clone(), Node::Closed(Box::new(remains)));
        self.open_count -= 1;
        match (failed_child, repairs) {
            (Some(child), _) => self.failed.push(child),
            (None, Some(repaired)) => self.mark_repaired(repaired),
            (None, None) => {}
        }
        if let (Some(parent), Some(number)) = (id.parent(), id.number())
            && let Some(Node::Open(parent)) = self.agents.get_mut(&parent)
        {
            parent.open_children.remove(&number);
            parent.changed |= changed;
        }
        Ok(())
    }

    fn model_called(&mut self, event: &Event, called: &ModelCalled) -> Result<(), IllegalEvent> {
        let agent = self.live(event)?;
        match agent.state {
            OpenState::Running { attempt } if attempt == called.attempt => {}
            OpenState::Running { attempt } => {
                return Err(illegal(
                    event,
                    format!("attempt {attempt} is under way, not {}", called.attempt),
                ));
            }
            _ => return Err(illegal(event, "it is not running")),
        }
        if agent.calling.is_some() {
            return Err(illegal(event, "a call is under way"));
        }
        if agent.provider_wait.is_some() {
            return Err(illegal(event, "it waits for its provider"));
        }
        if called.scope.is_some() != (called.purpose == Purpose::Summary) {
            return Err(illegal(event, "a summary call, and no other, says what it summarises"));
        }
        agent.calling = Some(called.reserved);
        let purpose = match called.purpose {
            // A summary is a part of the work: the room for the report stays.
            Purpose::Work | Purpose::Summary => budget::Purpose::Work,
            Purpose::Report => budget::Purpose::Report,
        };
        let held = self.ledger.hold(&event.agent, called.reserved, purpose);
        held.map_err(|problem| illegal(event, problem.to_string()))
    }

    fn provider_wait_started(&mut self, event: &Event, e: &ProviderWaitStarted) -> Result<(), IllegalEvent> {
        let seq = self.seq + 1;
        let agent = self.live(event)?;
        if agent.provider_wait.is_some() || agent.calling.is_some() {
            return Err(illegal(event, "it waits already, or a call is under way"));
        }
        agent.provider_wait = Some(ProviderWait {
            provider: e.provider.clone(),
            reason: e.reason.clone(),
            since_ms: event.at_ms,
            until_ms: e.until_ms,
            seq,
        });
        Ok(())
    }

    fn model_replied(&mut self, event: &Event, replied: &ModelReplied) -> Result<(), IllegalEvent> {
        let reserved = self.live(event)?.calling.take();
        let reserved = reserved.ok_or_else(|| illegal(event, "no call is under way"))?;
        let turn = Figures { turns: u64::from(replied.is_turn()), ..Figures::default() };
        let settled = self.ledger.charge(&event.agent, reserved, replied.charged());
        settled
            .and_then(|()| self.ledger.record(&event.agent, turn))
            .map_err(|error| illegal(event, error.to_string()))
    }

    /// A request is sent with the conversation that its `model_called` found, so no call is under way.
    fn context_compacted(&mut self, event: &Event) -> Result<(), IllegalEvent> {
        let agent = self.live(event)?;
        if !matches!(agent.state, OpenState::Running { .. }) {
            return Err(illegal(event, "it is not running"));
        }
        if agent.calling.is_some() {
            return Err(illegal(event, "a call is under way"));
        }
        Ok(())
    }

    fn end_run(&mut self, event: &Event, outcome: Outcome) -> Result<(), IllegalEvent> {
        let root = self.live(event)?;
        if !event.agent.is_root() || !root.open_children.is_empty() {
            return Err(illegal(event, "children are open"));
        }
        if root.calling.is_some() {
            return Err(illegal(event, "a model call is under way"));
        }
        if !root.questions.is_empty() {
            return Err(illegal(event, "a call with a question has no result"));
        }
        let wall = wall_since(root.created_at_ms, event.at_ms);
        self.ledger.record(&event.agent, wall).map_err(|error| illegal(event, error.to_string()))?;
        self.outcome = Some(outcome);
        Ok(())
    }
}

pub(super) fn illegal(event: &Event, problem: impl Into<String>) -> IllegalEvent {
    IllegalEvent { agent: event.agent.clone(), kind: event.body.kind(), problem: problem.into() }
}

fn open_agent(
    contract: Arc<Contract>,
    authority: Authority,
    prepared: Arc<PreparedDefinition>,
    at_ms: i64,
) -> OpenAgent {
    let deadline = Deadline::new(u64::try_from(at_ms).unwrap_or(0), contract.budget.wall_ms);
    OpenAgent {
        contract,
        authority,
        prepared,
        state: OpenState::Created { queued: false },
        call_id: "".into(),
        background: false,
        writer: false,
        changed: false,
        files: Files::default(),
        children: 0,
        open_children: BTreeSet::new(),
        cancel: None,
        calling: None,
        provider_wait: None,
        created_at_ms: at_ms,
        deadline,
        questions: BTreeMap::new(),
        consented_skills: BTreeSet::new(),
    }
}

fn started_run(
    id: &RunId,
    started: &RunStarted,
    at_ms: i64,
    definitions: BTreeMap<String, Arc<PreparedDefinition>>,
    ledger: Ledger,
    root: OpenAgent,
) -> Run {
    Run {
        id: id.clone(),
        request: started.request.text.clone(),
        terms: started.request.terms.clone(),
        dir: started.request.dir.clone(),
        base: started.base.clone(),
        session_id: started.request.session_id.clone(),
        started_at_ms: at_ms,
        definitions,
        skills: BTreeMap::new(),
        agents_md: None,
        continued: None,
        ledger,
        failed: Vec::new(),
        repaired: BTreeSet::new(),
        planned: None,
        out_of_reach: Vec::new(),
        outcome: None,
        agents: HashMap::from([(id.root(), Node::Open(Box::new(root)))]),
        open_count: 1,
        asking: BTreeSet::new(),
        seq: 1,
        always_answers: Vec::new(),
        plan_events: Vec::new(),
    }
}

/// Whether `claimed` requests nothing beyond `met`, the meet of the parent's grant and `claimed` itself.
fn narrower(met: &Grant, claimed: &Grant) -> bool {
    met == claimed
}
