//! A new child: depth, tree budget, meet of grants, ownership. Pure, so it can be decided in the commit of the
//! reply that asked for it, and again after a crash with the same answer.
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

/// Most of the run's request that a child's contract repeats: the child's prompt carries what it needs.
pub const TASK_PROMPT_MAX_BYTES: usize = 4 * 1024;
/// Most characters of a child's title.
const TITLE_MAX_CHARS: usize = 120;

/// Why a child may not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Why, as a word.
    pub code: Code,
    /// Why, for the model and for people.
    pub reason: String,
}

impl Refusal {
    fn new(code: Code, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into() }
    }
}

/// A child as a model asked for it. It can only narrow: it is met with the parent's contract.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpawnRequest {
    /// The definition's name.
    pub definition: String,
    /// The skill it carries out, whose definition takes the place of `definition`.
    pub skill: Option<String>,
    /// The child's prompt.
    pub prompt: String,
    /// Three to five words, for display.
    pub title: String,
    /// Whether the caller goes on without waiting; none leaves that to the definition.
    pub background: Option<bool>,
    /// Fewer turns.
    pub max_turns: Option<u32>,
    /// A shorter attempt.
    pub timeout_ms: Option<u64>,
    /// A smaller budget.
    pub budget: Option<Budget>,
    /// Paths it may change.
    pub owns: Vec<String>,
    /// What counts as done.
    pub success_criteria: Vec<Criterion>,
    /// Whether its failure fails the run.
    pub required: bool,
    /// The failed child it repairs.
    pub repairs: Option<String>,
    /// Further text.
    pub extra_context: Option<String>,
    /// Whether to start from the caller's conversation.
    pub share_history: bool,
    /// The closed child it continues.
    pub continues: Option<String>,
    /// Another model.
    pub model: Option<String>,
    /// JSON Schema of the final answer.
    pub result_schema: Option<serde_json::Value>,
    /// Fewer tools than its definition has; a plan's step may say so.
    pub tools: Option<Vec<String>>,
    /// Further attempts after a failed one; a plan's step may say so.
    pub max_retries: Option<u32>,
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy)]
pub struct SpawnFrom<'a> {
    /// The parent.
    pub parent: &'a AgentId,
    /// Its tool call.
    pub call_id: &'a str,
    /// Its reply; none for a step of a plan, which the host asks for.
    pub message_id: Option<&'a str>,
    /// The step's position in the plan.
    pub step: Option<u32>,
}

impl Run {
    /// Decides on a child. `class_of` gives a tool's effect class.
    pub fn spawn(
        &self,
        from: SpawnFrom<'_>,
        request: &SpawnRequest,
        class_of: &dyn Fn(&str) -> Option<EffectClass>,
    ) -> Result<NewEvent, Refusal> {
        let parent = self.open(from.parent).ok_or_else(|| {
            Refusal::new(Code::UnknownTask, format!("{} is not open", from.parent.relative()))
        })?;
        let running = matches!(parent.state, OpenState::Running { .. });
        if !running || self.is_cancelled(from.parent) || self.outcome.is_some() {
            return Err(Refusal::new(Code::Cancelled, "this agent is ending and starts nothing any more"));
        }
        may_spawn(parent)?;
        let continues = self.continued(from.parent, request)?;
        let wanted = match self.wanted_skill_of(from.parent, request) {
            Some(skill) => self.wanted_skill(from, parent, skill)?,
            None => ChildRequest { kind: self.spawnable(parent, &request.definition)?, skill: None },
        };
        let repairs = self.repaired_child(from.parent, request)?;
        check_terms(parent, request)?;
        self.check_criteria(request)?;
        // A person's plan may name any model.
        if self.is_asked_by_model(from) {
            self.check_model(request)?;
        }
        let id = from.parent.child(parent.children + 1);
        self.ledger
            .check_spawn(&id, &request.budget.unwrap_or_default())
            .map_err(|exhausted| Refusal::new(Code::BudgetExhausted, exhausted.to_string()))?;
        let contract = self.child_contract(from, parent, wanted, request, (continues, repairs))?;
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
            background: request.background.unwrap_or(wanted.kind.definition.background),
            writer,
            contract_hash: contract.hash(),
            contract,
        };
        Ok((id, Box::new(created).into()))
    }

    /// The skill that a child would carry out. One that continues the child of a skill goes on with that: its conversation
    /// speaks of instructions that are not in it.
    pub fn wanted_skill_of<'a>(&'a self, parent: &AgentId, request: &'a SpawnRequest) -> Option<&'a str> {
        let continued = || self.skill_continued(parent, request.continues.as_deref()?);
        request.skill.as_deref().or_else(continued)
    }

    /// The skill of the closed child that a model names.
    pub fn skill_continued(&self, parent: &AgentId, task_id: &str) -> Option<&str> {
        let id = self.own_child(parent, task_id).ok()?;
        self.closed(&id)?.skill.as_deref()
    }

    /// The event that records a refusal; it is the parent's and uses no child number.
    pub fn refuse(&self, from: SpawnFrom<'_>, definition: &str, refusal: &Refusal) -> NewEvent {
        let refused = SubagentRefused {
            call_id: from.call_id.to_owned(),
            definition: definition.to_owned(),
            code: refusal.code,
            reason: refusal.reason.clone(),
        };
        (from.parent.clone(), refused.into())
    }

    /// The host runs commands on the merged tree, so there has to be one.
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

    /// A model may only name models that a person named for this run: for the root, or in a definition. A name is
    /// more than a choice: with some providers it says what is opened or paid.
    fn check_model(&self, request: &SpawnRequest) -> Result<(), Refusal> {
        let Some(name) = &request.model else { return Ok(()) };
        let root = || self.open(&self.id.root()).map(|root| root.contract.execution.model.as_str());
        let root = self.recorded_model.as_deref().or_else(root);
        let of_skills = self.all_skills().filter_map(|skill| skill.model.as_deref());
        let of_kinds = self.kinds.values().filter_map(|kind| kind.definition.model.as_deref());
        let named: BTreeSet<&str> = of_kinds.chain(of_skills).chain(root).collect();
        if named.contains(name.as_str()) {
            return Ok(());
        }
        let named = some_of(named);
        Err(Refusal::new(Code::InvalidInput, format!("`model` must be one of this run's: {named}")))
    }

    fn spawnable(&self, parent: &OpenAgent, name: &str) -> Result<&Arc<PreparedDefinition>, Refusal> {
        let kind = self.prepared_definition(name).ok_or_else(|| {
            if let Some(known) = self.out_of_reach.iter().find(|known| known.eq_ignore_ascii_case(name)) {
                let asker = &parent.kind.definition.name;
                let reason = format!(
                    "`{asker}` may not spawn `{known}`: that agent exists, but no agent of this run lists it. A person adds it \
                     to `spawns` of `{asker}`, or starts a run with `--agent {known}`"
                );
                return Refusal::new(Code::SpawnNotAllowed, reason);
            }
            let spawns = || parent.kind.definition.spawns.iter().flatten().map(String::as_str);
            let (meant, known) = (hint(nearest(name, spawns())), some_of(spawns()));
            Refusal::new(
                Code::UnknownAgent,
                format!("there is no agent `{}`{meant}; this one may spawn: {known}", clip(name)),
            )
        })?;
        let listed = parent
            .kind
            .definition
            .spawns
            .iter()
            .flatten()
            .any(|listed| listed.eq_ignore_ascii_case(&kind.definition.name));
        if !listed || kind.definition.mode == Mode::Primary {
            let reason = format!("{} may not spawn `{}`", named(parent), kind.definition.name);
            return Err(Refusal::new(Code::SpawnNotAllowed, reason));
        }
        Ok(kind)
    }

    /// The caller's child that a model named; any other id is unknown.
    pub fn own_child(&self, caller: &AgentId, task_id: &str) -> Result<AgentId, Refusal> {
        let unknown =
            || Refusal::new(Code::UnknownTask, format!("`{}` is not one of your tasks", clip(task_id)));
        let id = AgentId::from_relative(&self.id, task_id).map_err(|_| unknown())?;
        if id.parent().as_ref() == Some(caller) && self.agents.contains_key(&id) {
            Ok(id)
        } else {
            Err(unknown())
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
        // One that its contract leaves open for its parent to close may have failed too.
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
        wanted: ChildRequest<'_>,
        request: &SpawnRequest,
        (continues, repairs): (Option<AgentId>, Option<AgentId>),
    ) -> Result<Contract, Refusal> {
        let context = parent.contract.context.create_child_context(from.parent);
        let (definition, skill) = (&wanted.kind.definition, wanted.skill);
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
                title: request.title.chars().take(TITLE_MAX_CHARS).collect(),
                description: request.prompt.clone(),
                success_criteria: Self::criteria_of(request, by_model),
                owns: if request.owns.is_empty() {
                    parent.contract.step.owns.clone()
                } else {
                    request.owns.clone()
                },
                required: request.required,
            },
            permissions: self.child_grant(parent, wanted, continues.as_ref(), request.tools.as_deref()),
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
                // A model may only shorten it.
                attempt_timeout_ms: Some(match request.timeout_ms {
                    None => DEFAULT_ATTEMPT_TIMEOUT_MS,
                    Some(asked) if by_model => asked.min(DEFAULT_ATTEMPT_TIMEOUT_MS),
                    Some(asked) => asked,
                }),
                // The run's: how long a model may be silent depends on where it runs.
                idle_timeout_ms: parent.contract.execution.idle_timeout_ms,
                // And no more attempts.
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

    /// What a child's work must meet. A command that a model wrote takes no longer than a `bash` call of that model may.
    fn criteria_of(request: &SpawnRequest, by_model: bool) -> Vec<Criterion> {
        let mut criteria = request.success_criteria.clone();
        for criterion in criteria.iter_mut().filter(|_| by_model) {
            if let Criterion::Command(CommandCriterion { timeout_ms: Some(timeout_ms), .. }) = criterion {
                *timeout_ms = (*timeout_ms).min(MODEL_COMMAND_TIMEOUT_MAX_MS);
            }
        }
        criteria
    }

    /// The place of a child that is no step: after the steps of the plan, if its parent has one, so that each child has
    /// its own.
    fn child_idx(&self, id: &AgentId, parent: &OpenAgent) -> u32 {
        let Some(planned) = self.planned.as_ref().filter(|_| id.is_root()) else { return parent.children };
        let count = |steps: usize| u32::try_from(steps).unwrap_or(u32::MAX);
        let created = count(planned.children.iter().flatten().count());
        count(planned.children.len()).saturating_add(parent.children.saturating_sub(created))
    }

    /// What the definition asks for, as far as the parent has it; for a continued child also as far as that had it.
    fn child_grant(
        &self,
        parent: &OpenAgent,
        ChildRequest { kind, skill }: ChildRequest<'_>,
        continues: Option<&AgentId>,
        fewer: Option<&[String]>,
    ) -> Grant {
        let mine = parent.authority.grant();
        let rights = SkillRights::new(&kind.definition, skill);
        let tools = rights.tools(&kind.tools.meet(&mine.allowed_tools), &self.all_skills());
        // Below the root the depth that a skill names only lowers how far the tree may still grow.
        let depth = parent.contract.context.depth.saturating_add(1);
        let levels = skill.and_then(|skill| skill.max_depth).map(|deepest| deepest.saturating_sub(depth));
        let requested = Grant {
            can_spawn_children: rights.can_spawn(&tools, self.all_skills()),
            allowed_tools: tools,
            rules: skill.map(|skill| skill.rules.clone().into()).unwrap_or_default(),
            max_delegation_depth: mine.max_delegation_depth.saturating_sub(1).min(levels.unwrap_or(u32::MAX)),
            may_share_history: kind.definition.may_share_history,
            on_ask: mine.on_ask,
        };
        let mut grant = Grant::meet(mine, &requested);
        // A name that is none was found when the plan was checked; here it only takes away.
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

/// The order is part of the promise: the right to spawn is looked at before the depth.
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
        let reason = "this agent may not share its conversation: a person lets the first agent of a run with \
                      `--may-share-history` or the setting `agent.may_share_history`, and one below it with \
                      `may_share_history` in its definition";
        return Err(Refusal::new(Code::PermissionDenied, reason));
    }
    for path in &request.owns {
        ownership::check(path).map_err(|problem| {
            Refusal::new(Code::InvalidInput, format!("`owns`: `{}` {problem}", clip(path)))
        })?;
    }
    if !request.owns.is_empty() && !ownership::within(&request.owns, &parent.contract.step.owns) {
        let reason =
            format!("`owns` must lie within what this agent owns: {}", parent.contract.step.owns.join(", "));
        return Err(Refusal::new(Code::OwnershipViolation, reason));
    }
    Ok(())
}

/// An agent as it is known to whoever asked for it: by its skill, if it carries one out.
fn named(agent: &OpenAgent) -> String {
    match &agent.contract.execution.skill {
        Some(skill) => format!("the skill `{skill}`"),
        None => format!("`{}`", agent.kind.definition.name),
    }
}

/// Keeps a hostile text from filling an error.
pub(super) fn clip(text: &str) -> String {
    text.chars().take(64).collect()
}
