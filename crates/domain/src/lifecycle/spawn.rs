//! Decides on a new child: depth, tree budget, meet of grants, ownership. Pure, so it can be decided in the commit of
//! the reply that requested the child, and again after a crash with the same result.
//!
//! Why it is like this: `docs/decisions/delegation-models.md`.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::skills::{ChildRequest, SkillRights};
use super::{AgentState, NewEvent, OpenAgent, OpenState, PreparedDefinition, Run};
use crate::budget::{Budget, turn_limit};
use crate::code::Code;
use crate::contract::{
    CONTRACT_VERSION, CommandCriterion, Contract, Criterion, DEFAULT_ATTEMPT_TIMEOUT_MS, DEFAULT_MAX_RETRIES,
    DEFAULT_MAX_RETRIES_PER_TOOL, DEFAULT_REPORT_PATH_PATTERN, ExecutionTerms, MODEL_COMMAND_TIMEOUT_MAX_MS,
    OutputTerms, ParentTerms, ReportFormat, StepTerms,
};
use crate::definition::Mode;
use crate::event::{EffectClass, SubagentCreated, SubagentRefused};
use crate::id::AgentId;
use crate::nearest::{hint, nearest, some_of};
use crate::ownership;
use crate::permission::{Grant, ToolSet};
use crate::plan::TITLE_MAX_CHARS;
use crate::text::{QUOTE_MAX_CHARS, clip};

/// Maximum length of the run's request in a child's contract. The child's prompt has what it needs.
pub const TASK_PROMPT_MAX_BYTES: usize = 4 * 1024;

/// Why a child is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: Code,
    /// The reason for the model and for users.
    pub reason: String,
}

impl Refusal {
    fn new(code: Code, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into() }
    }
}

/// A child as a model requested it. It can only narrow: it is met with the parent's contract.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpawnRequest {
    pub definition: String,
    /// The skill that the child is forked with. Its definition replaces `definition`.
    pub skill: Option<String>,
    pub prompt: String,
    /// Three to five words, for display.
    pub title: String,
    /// Whether the caller continues without waiting. None means the definition's default.
    pub background: Option<bool>,
    /// Can only lower the limit.
    pub max_turns: Option<u32>,
    /// A shorter timeout of the attempt.
    pub timeout_ms: Option<u64>,
    /// Can only lower the budget.
    pub budget: Option<Budget>,
    /// The paths that the child may change.
    pub owns: Vec<String>,
    pub success_criteria: Vec<Criterion>,
    /// Whether the child's failure fails the run.
    pub required: bool,
    /// The failed child that this child repairs.
    pub repairs: Option<String>,
    /// Further text for the prompt.
    pub extra_context: Option<String>,
    /// Whether the child starts with the caller's conversation.
    pub share_history: bool,
    /// The closed child whose conversation this child continues.
    pub continues: Option<String>,
    /// Another model than the definition's.
    pub model: Option<String>,
    /// JSON Schema of the final answer.
    pub result_schema: Option<serde_json::Value>,
    /// A subset of the definition's tools. A plan step may set it.
    pub tools: Option<Vec<String>>,
    /// The number of further attempts after a failure. A plan step may set it.
    pub max_retries: Option<u32>,
}

/// The origin of a request for a child.
#[derive(Debug, Clone, Copy)]
pub struct SpawnFrom<'a> {
    pub parent: &'a AgentId,
    /// The parent's tool call.
    pub call_id: &'a str,
    /// The parent's reply. None for a plan step, which the host requests.
    pub message_id: Option<&'a str>,
    /// The step's position in the plan.
    pub step: Option<u32>,
}

impl Run {
    /// Decides on a child. `class_of` returns a tool's effect class.
    pub fn spawn(
        &self,
        from: SpawnFrom<'_>,
        request: &SpawnRequest,
        class_of: &dyn Fn(&str) -> Option<EffectClass>,
    ) -> Result<NewEvent, Refusal> {
        let parent = self.open(from.parent).ok_or_else(|| {
            Refusal::new(Code::UnknownTask, format!("{} is not open", from.parent.relative()))
        })?;
        self.check_parent_state(from.parent, parent)?;
        may_spawn(parent)?;
        let continues = self.continued(from.parent, request)?;
        let requested = match self.requested_skill_of(from.parent, request) {
            Some(skill) => self.requested_skill(from, parent, skill)?,
            None => ChildRequest { prepared: self.spawnable(parent, &request.definition)?, skill: None },
        };
        let repairs = self.repaired_child(from.parent, request)?;
        check_terms(parent, request)?;
        self.check_criteria(request)?;
        // A user's plan may name any model.
        if self.is_asked_by_model(from) {
            self.check_model(request)?;
        }
        let id = from.parent.child(parent.children + 1);
        self.ledger
            .check_spawn(&id, &request.budget.unwrap_or_default())
            .map_err(|exhausted| Refusal::new(Code::BudgetExhausted, exhausted.to_string()))?;
        let contract = self.child_contract(from, parent, requested, request, (continues, repairs))?;
        let writer = contract
            .permissions
            .allowed_tools
            .iter()
            .any(|tool| class_of(tool.as_str()).is_some_and(EffectClass::changes_workspace));
        let created = SubagentCreated {
            to: AgentState::Created,
            definition: contract.execution.definition.clone(),
            skill: contract.execution.skill.clone(),
            depth: contract.context.depth,
            parent_id: from.parent.clone(),
            root_id: self.id.root(),
            turn_limit: contract.execution.max_turns,
            call_id: from.call_id.to_owned(),
            background: request.background.unwrap_or(requested.prepared.definition.background),
            writer,
            contract_hash: contract.hash(),
            contract,
        };
        Ok((id, Box::new(created).into()))
    }

    /// The skill that a child would be forked with. A child that continues the child of a skill keeps that skill,
    /// because its conversation refers to instructions that it does not contain.
    pub fn requested_skill_of<'a>(&'a self, parent: &AgentId, request: &'a SpawnRequest) -> Option<&'a str> {
        let continued = || self.skill_continued(parent, request.continues.as_deref()?);
        request.skill.as_deref().or_else(continued)
    }

    /// The skill of the closed child that a model names.
    pub fn skill_continued(&self, parent: &AgentId, task_id: &str) -> Option<&str> {
        let id = self.own_child(parent, task_id).ok()?;
        self.closed(&id)?.skill.as_deref()
    }

    /// The event that records a refusal. It belongs to the parent and uses no child number.
    pub fn refuse(&self, from: SpawnFrom<'_>, definition: &str, refusal: &Refusal) -> NewEvent {
        let refused = SubagentRefused {
            call_id: from.call_id.to_owned(),
            definition: definition.to_owned(),
            code: refusal.code,
            reason: refusal.reason.clone(),
        };
        (from.parent.clone(), refused.into())
    }

    /// Checks that the parent is at work. Of several causes, the cancel and the end of the run are named first.
    fn check_parent_state(&self, id: &AgentId, parent: &OpenAgent) -> Result<(), Refusal> {
        let is_ending = self.is_cancelled(id) || self.outcome.is_some();
        let reason = match &parent.state {
            _ if is_ending => "this agent is ending and starts nothing any more",
            OpenState::Running { .. } => return Ok(()),
            OpenState::Created { .. } => "this agent has not started and starts nothing yet",
            OpenState::WaitingForMerge { .. } | OpenState::Completed { .. } => {
                "this agent has finished its work and starts nothing any more"
            }
            OpenState::Failed(_) => "this agent has failed and starts nothing any more",
        };
        Err(Refusal::new(Code::Cancelled, reason))
    }

    /// Checks command criteria. The host runs them on the merged tree, so the run must have workspaces.
    fn check_criteria(&self, request: &SpawnRequest) -> Result<(), Refusal> {
        let commands = request.success_criteria.iter().filter_map(|criterion| match criterion {
            Criterion::Command(command) => Some(command),
            Criterion::Words(_) => None,
        });
        for command in commands {
            if command.command.trim().is_empty() || command.timeout_ms == Some(0) {
                let reason = "`success_criteria`: a command must not be empty, and needs some time";
                return Err(Refusal::new(Code::InvalidInput, reason));
            }
            if self.base.is_none() {
                let reason = "success criteria that are commands need workspaces, and this run works in place; say \
                              them in words";
                return Err(Refusal::new(Code::Unsupported, reason));
            }
        }
        Ok(())
    }

    /// A model may only name models that a user named for this run, for the root or in a definition. With some
    /// providers a model's name decides what is opened or paid.
    fn check_model(&self, request: &SpawnRequest) -> Result<(), Refusal> {
        let Some(name) = &request.model else { return Ok(()) };
        let root = || self.open(&self.id.root()).map(|root| root.contract.execution.model.as_str());
        let root = self.terms.recorded_model.as_deref().or_else(root);
        let of_skills = self.all_skills().filter_map(|skill| skill.model.as_deref());
        let of_definitions =
            self.definitions.values().filter_map(|prepared| prepared.definition.model.as_deref());
        let named: BTreeSet<&str> = of_definitions.chain(of_skills).chain(root).collect();
        if named.contains(name.as_str()) {
            return Ok(());
        }
        let named = some_of(named);
        Err(Refusal::new(Code::InvalidInput, format!("`model` must be one of this run's: {named}")))
    }

    fn spawnable(&self, parent: &OpenAgent, name: &str) -> Result<&Arc<PreparedDefinition>, Refusal> {
        let prepared = self.prepared_definition(name).ok_or_else(|| {
            if let Some(known) = self.out_of_reach.iter().find(|known| known.eq_ignore_ascii_case(name)) {
                let asker = &parent.prepared.definition.name;
                let reason = format!(
                    "`{asker}` may not spawn `{known}`: that agent exists, but no agent of this run lists it. A user can add \
                     it to `spawns` of `{asker}`, or start a run with `{known}` as its first agent"
                );
                return Refusal::new(Code::SpawnNotAllowed, reason);
            }
            let spawns = || parent.prepared.definition.spawns.iter().flatten().map(String::as_str);
            let (meant, known) = (hint(nearest(name, spawns())), some_of(spawns()));
            Refusal::new(
                Code::UnknownAgent,
                format!("unknown agent `{}`{meant}; available: {known}", clip(name, QUOTE_MAX_CHARS)),
            )
        })?;
        let listed = parent
            .prepared
            .definition
            .spawns
            .iter()
            .flatten()
            .any(|listed| listed.eq_ignore_ascii_case(&prepared.definition.name));
        if !listed || prepared.definition.mode == Mode::Primary {
            let reason = format!("{} may not spawn `{}`", named(parent), prepared.definition.name);
            return Err(Refusal::new(Code::SpawnNotAllowed, reason));
        }
        Ok(prepared)
    }

    /// The caller's child that a model named. Any other id is unknown.
    pub fn own_child(&self, caller: &AgentId, task_id: &str) -> Result<AgentId, Refusal> {
        let unknown = || {
            let named = format!("`{}` is not one of your tasks", clip(task_id, QUOTE_MAX_CHARS));
            Refusal::new(Code::UnknownTask, format!("{named}{}", self.tasks_like(caller, task_id)))
        };
        let id = AgentId::from_relative(&self.id, task_id).map_err(|_| unknown())?;
        if id.parent().as_ref() == Some(caller) && self.agents.contains_key(&id) {
            Ok(id)
        } else {
            Err(unknown())
        }
    }

    /// What a model that named no task of its own may have meant: the title of a step, or one of its other tasks.
    fn tasks_like(&self, caller: &AgentId, text: &str) -> String {
        let planned = self.planned.as_ref().filter(|_| caller.is_root());
        let by_title = planned.and_then(|planned| {
            let at =
                planned.plan.steps.iter().position(|step| step.title.eq_ignore_ascii_case(text.trim()))?;
            planned.children.get(at)?.as_ref()
        });
        if let Some(id) = by_title {
            return format!("; the task of that step is `{}`", id.relative());
        }
        let mut own: Vec<&AgentId> =
            self.agents.keys().filter(|id| id.parent().as_ref() == Some(caller)).collect();
        own.sort_unstable_by_key(|id| id.number());
        match &own[..] {
            [] => "; you have started none".to_owned(),
            [only] => format!("; yours is `{}`", only.relative()),
            [first, .., last] => format!("; yours are `{}` to `{}`", first.relative(), last.relative()),
        }
    }

    fn continued(&self, caller: &AgentId, request: &SpawnRequest) -> Result<Option<AgentId>, Refusal> {
        let Some(text) = &request.continues else { return Ok(None) };
        if request.share_history {
            let reason = "`share_history` and `task_id` exclude each other: a task that is continued begins with its own \
                          conversation; leave one of them out";
            return Err(Refusal::new(Code::InvalidInput, reason));
        }
        let id = self.own_child(caller, text)?;
        if self.closed(&id).is_none() {
            let reason =
                format!("task `{}` is not closed; send it a message instead of continuing it", id.relative());
            return Err(Refusal::new(Code::InvalidInput, reason));
        }
        Ok(Some(id))
    }

    fn repaired_child(&self, caller: &AgentId, request: &SpawnRequest) -> Result<Option<AgentId>, Refusal> {
        let Some(text) = &request.repairs else { return Ok(None) };
        let id = self.own_child(caller, text)?;
        // A failed child may still be open, if its contract leaves the close to its parent.
        let is_left = self.open(&id).is_some_and(|agent| matches!(agent.state, OpenState::Failed(_)));
        if !is_left && self.closed(&id).is_none_or(|closed| closed.failure.is_none()) {
            let reason = format!("task `{}` has not failed; there is nothing to repair", id.relative());
            return Err(Refusal::new(Code::InvalidInput, reason));
        }
        Ok(Some(id))
    }

    fn child_contract(
        &self,
        from: SpawnFrom<'_>,
        parent: &OpenAgent,
        requested: ChildRequest<'_>,
        request: &SpawnRequest,
        (continues, repairs): (Option<AgentId>, Option<AgentId>),
    ) -> Result<Contract, Refusal> {
        let context = parent.contract.context.create_child_context(from.parent);
        let (definition, skill) = (&requested.prepared.definition, requested.skill);
        let by_model = self.is_asked_by_model(from);
        let max_turns =
            turn_limit(context.depth, self.terms.base_turns, definition.max_turns, request.max_turns);
        let result_schema = match &request.result_schema {
            None => None,
            Some(serde_json::Value::Object(map)) => {
                Some(map.iter().map(|(k, v)| (k.clone(), v.clone())).collect())
            }
            Some(_) => {
                return Err(Refusal::new(Code::InvalidInput, "`result_schema` must be a JSON Schema object"));
            }
        };
        let contract = Contract {
            version: CONTRACT_VERSION,
            parent: ParentTerms {
                run_id: self.id.clone(),
                agent_id: from.parent.clone(),
                message_id: from.message_id.map(ToOwned::to_owned),
                step_idx: from.step.unwrap_or_else(|| self.child_idx(from.parent, parent)),
                task_prompt: parent.contract.parent.task_prompt.clone(),
                goal_summary: parent.contract.parent.goal_summary.clone(),
                continues: continues.clone(),
                repairs,
            },
            step: StepTerms {
                title: clip(&request.title, TITLE_MAX_CHARS),
                description: request.prompt.clone(),
                success_criteria: Self::criteria_of(request, by_model),
                owns: if request.owns.is_empty() {
                    parent.contract.step.owns.clone()
                } else {
                    request.owns.clone()
                },
                required: request.required,
            },
            permissions: self.child_grant(parent, requested, continues.as_ref(), request.tools.as_deref()),
            execution: ExecutionTerms {
                definition: definition.name.clone(),
                skill: skill.map(|skill| skill.name.clone()),
                model: request
                    .model
                    .clone()
                    .or_else(|| definition.model.clone())
                    .unwrap_or_else(|| parent.contract.execution.model.clone()),
                temperature: definition.temperature,
                top_p: definition.top_p,
                max_turns,
                turn_timeout_ms: skill.and_then(|skill| skill.turn_timeout_ms),
                // A model may only shorten the timeout.
                attempt_timeout_ms: Some(match request.timeout_ms {
                    None => DEFAULT_ATTEMPT_TIMEOUT_MS,
                    Some(asked) if by_model => asked.min(DEFAULT_ATTEMPT_TIMEOUT_MS),
                    Some(asked) => asked,
                }),
                // Taken from the run: how long a model may be silent depends on where it runs.
                idle_timeout_ms: parent.contract.execution.idle_timeout_ms,
                // A model may only lower the number of retries.
                max_retries: match request.max_retries {
                    None => DEFAULT_MAX_RETRIES,
                    Some(asked) if by_model => asked.min(DEFAULT_MAX_RETRIES),
                    Some(asked) => asked,
                },
                max_retries_per_tool: skill
                    .and_then(|skill| skill.max_retries_per_tool)
                    .unwrap_or(DEFAULT_MAX_RETRIES_PER_TOOL),
                close_on_completion: self.terms.close_on_completion,
                share_history: request.share_history,
                extra_context: request.extra_context.clone(),
            },
            budget: request.budget.unwrap_or_default(),
            outputs: OutputTerms {
                report_format: ReportFormat::Markdown,
                report_path_pattern: DEFAULT_REPORT_PATH_PATTERN.to_owned(),
                result_schema,
            },
            context,
        };
        contract.check().map_err(|error| Refusal::new(Code::InvalidInput, error.to_string()))?;
        Ok(contract)
    }

    /// The criteria of a child. A command that a model wrote gets no longer timeout than a `bash` call of that model.
    fn criteria_of(request: &SpawnRequest, by_model: bool) -> Vec<Criterion> {
        let mut criteria = request.success_criteria.clone();
        for criterion in criteria.iter_mut().filter(|_| by_model) {
            if let Criterion::Command(CommandCriterion { timeout_ms: Some(timeout_ms), .. }) = criterion {
                *timeout_ms = (*timeout_ms).min(MODEL_COMMAND_TIMEOUT_MAX_MS);
            }
        }
        criteria
    }

    /// The index of a child that is not a plan step: after the steps of the plan, so that each child has its own.
    fn child_idx(&self, id: &AgentId, parent: &OpenAgent) -> u32 {
        let Some(planned) = self.planned.as_ref().filter(|_| id.is_root()) else { return parent.children };
        let count = |steps: usize| u32::try_from(steps).unwrap_or(u32::MAX);
        let created = count(planned.children.iter().flatten().count());
        count(planned.children.len()).saturating_add(parent.children.saturating_sub(created))
    }

    /// The part of the definition's grant that the parent has. For a continued child also limited to that child's
    /// grant.
    fn child_grant(
        &self,
        parent: &OpenAgent,
        ChildRequest { prepared, skill }: ChildRequest<'_>,
        continues: Option<&AgentId>,
        fewer: Option<&[String]>,
    ) -> Grant {
        let mine = parent.authority.grant();
        let rights = SkillRights::new(&prepared.definition, skill);
        let tools = rights.tools(&prepared.tools.meet(&mine.allowed_tools), &self.all_skills());
        // Below the root a skill's maximum depth can only lower how far the tree may still grow.
        let depth = parent.contract.context.depth.saturating_add(1);
        let levels = skill.and_then(|skill| skill.max_depth).map(|deepest| deepest.saturating_sub(depth));
        let requested = Grant {
            can_spawn_children: rights.can_spawn(&tools, self.all_skills()),
            allowed_tools: tools,
            rules: skill.map(|skill| skill.rules.clone().into()).unwrap_or_default(),
            max_delegation_depth: mine.max_delegation_depth.saturating_sub(1).min(levels.unwrap_or(u32::MAX)),
            may_share_history: prepared.definition.may_share_history,
            on_ask: mine.on_ask,
        };
        let mut grant = Grant::meet(mine, &requested);
        // The check of the plan reported invalid names. Here they only remove tools.
        if let Some(fewer) = fewer {
            let named = ToolSet::parse(fewer.iter().map(String::as_str)).unwrap_or_default();
            grant.allowed_tools = grant.allowed_tools.meet(&named);
        }
        if let Some(old) = continues.and_then(|id| self.closed(id)) {
            grant.allowed_tools = grant.allowed_tools.meet(&old.grant.allowed_tools);
            grant.rules = old.grant.rules.clone();
            grant.can_spawn_children &= old.grant.can_spawn_children;
            grant.max_delegation_depth = grant.max_delegation_depth.min(old.grant.max_delegation_depth);
            grant.may_share_history &= old.grant.may_share_history;
        }
        grant
    }
}

/// The order is part of the interface: the right to spawn is checked before the depth.
fn may_spawn(parent: &OpenAgent) -> Result<(), Refusal> {
    let context = &parent.contract.context;
    let grant = parent.authority.grant();
    if !grant.can_spawn_children {
        let reason = format!("{} may not spawn: its contract does not allow children", named(parent));
        return Err(Refusal::new(Code::SpawnNotAllowed, reason));
    }
    if grant.max_delegation_depth == 0 || !context.can_spawn_sub_agent() {
        let limit = context.max_depth.min(context.depth.saturating_add(grant.max_delegation_depth));
        let reason =
            format!("maximum depth {limit} reached: an agent at depth {} cannot spawn", context.depth);
        return Err(Refusal::new(Code::MaxDepthExceeded, reason));
    }
    Ok(())
}

fn check_terms(parent: &OpenAgent, request: &SpawnRequest) -> Result<(), Refusal> {
    if request.share_history && !parent.authority.grant().may_share_history {
        let reason = "this agent may not share its conversation: for the first agent of a run a user allows it in the \
                      settings (`agent.may_share_history`), for one below it its definition does (`may_share_history`)";
        return Err(Refusal::new(Code::PermissionDenied, reason));
    }
    for path in &request.owns {
        ownership::check(path).map_err(|problem| {
            Refusal::new(Code::InvalidInput, format!("`owns`: `{}` {problem}", clip(path, QUOTE_MAX_CHARS)))
        })?;
    }
    if !request.owns.is_empty() && !ownership::within(&request.owns, &parent.contract.step.owns) {
        let reason =
            format!("`owns` must lie within what this agent owns: {}", parent.contract.step.owns.join(", "));
        return Err(Refusal::new(Code::OwnershipViolation, reason));
    }
    Ok(())
}

/// An agent as its parent names it: by its skill, if it was forked with one.
fn named(agent: &OpenAgent) -> String {
    match &agent.contract.execution.skill {
        Some(skill) => format!("the skill `{skill}`"),
        None => format!("`{}`", agent.prepared.definition.name),
    }
}
