//! Checks a run request for the runtime before anything is written, and creates the first event of the run.

use std::sync::Arc;

use posse_domain::budget::turn_limit;
use posse_domain::contract::{
    CONTRACT_VERSION, Contract, DEFAULT_MAX_RETRIES_PER_TOOL, DEFAULT_REPORT_PATH_PATTERN, ExecutionContext,
    ExecutionTerms, OutputTerms, ParentTerms, ReportFormat, StepTerms,
};
use posse_domain::definition::Definition;
use posse_domain::event::{BaseSnapshot, RunStarted};
use posse_domain::id::RunId;
use posse_domain::lifecycle::{SKILL_TOOL, SkillRights, TASK_PROMPT_MAX_BYTES};
use posse_domain::nearest::{hint, nearest};
use posse_domain::permission::{Decision, Grant, Operation, Rules, ToolSet};
use posse_domain::plan::Author;
use posse_domain::request::{RunRequest, RunTerms};
use posse_domain::skill::DiscoveredDefinitions;
use posse_domain::text::first_line;

use super::{RequestField, Runtime, RuntimeError};
use crate::history::continued_conversation;

/// Size limit of a user's request.
pub const REQUEST_MAX_BYTES: usize = 4 * 1024 * 1024;
/// Size limit of the conversation that a run continues: images make it long, and the journal stores it once more.
const CONTINUED_MAX_BYTES: u64 = 256 * 1024 * 1024;
/// Limit of characters of the request's first line that become the goal in the root's contract.
const GOAL_MAX_CHARS: usize = 200;

/// A valid run request, with the values that its checks looked up.
pub(super) struct CheckedRequest {
    pub(super) request: RunRequest,
    pub(super) tools: ToolSet,
    text: Arc<str>,
    root: Definition,
    discovered: Arc<DiscoveredDefinitions>,
}

impl Runtime {
    /// Checks a run request before anything is written.
    pub(super) fn check(&self, request: RunRequest, is_replay: bool) -> Result<CheckedRequest, RuntimeError> {
        let text = check_texts(&request)?;
        let discovered = match request.discovered() {
            Ok(discovered) => discovered,
            Err(problem) => return invalid(RequestField::Catalogue, problem),
        };
        let known = || request.definitions.iter().chain(&discovered.definitions);
        let Some(root) = known().find(|d| d.name.eq_ignore_ascii_case(&request.definition)) else {
            let known: Vec<&str> = known().map(|d| d.name.as_str()).collect();
            return invalid(
                RequestField::Agent,
                format!("unknown agent `{}`; available: {}", request.definition, known.join(", ")),
            );
        };
        let root = root.clone();
        if !self.0.parts.system.has_dir(&request.dir) {
            return invalid(RequestField::Dir, format!("{} is not a directory", request.dir));
        }
        check_numbers(&request)?;
        if !is_replay {
            self.check_model(&request)?;
        }
        let kind_tools = posse_domain::lifecycle::tools_of(&root);
        let Ok(tools) = ToolSet::parse(kind_tools.iter().map(String::as_str)) else {
            return invalid(
                RequestField::Agent,
                format!("`{}` lists a tool with an invalid name", root.name),
            );
        };
        let tools = SkillRights::new(&root, None).tools(&tools, &discovered.skills.iter());
        check_skill(&request, &root, &discovered)?;
        Ok(CheckedRequest { request, tools, text, root, discovered })
    }

    fn check_model(&self, request: &RunRequest) -> Result<(), RuntimeError> {
        let model = match self.0.parts.models.resolve(&request.model) {
            Ok(model) => model,
            Err(problem) => return invalid(RequestField::Model, problem.to_string()),
        };
        if request.budget.usd.is_some() && model.facts().price.is_none() {
            return invalid(RequestField::BudgetUsd, format!("the price of `{}` is unknown", request.model));
        }
        Ok(())
    }
}

fn invalid<T>(field: RequestField, problem: String) -> Result<T, RuntimeError> {
    Err(RuntimeError::Invalid { field, problem })
}

/// Checks the long texts and returns the text of the request. Texts are missing only in a request that was read from a
/// journal without its blobs.
fn check_texts(request: &RunRequest) -> Result<Arc<str>, RuntimeError> {
    let named = [
        Some((RequestField::Request, &request.text)),
        request.prompt.as_ref().map(|prompt| (RequestField::Prompt, prompt)),
    ];
    let prior = request.continues.as_ref().and_then(|continued| continued.conversation.as_ref());
    if let Some(prior) = prior {
        if prior.missing().is_some() {
            return invalid(RequestField::Continues, "its conversation was not fetched".to_owned());
        }
        if prior.len_bytes() > CONTINUED_MAX_BYTES {
            let problem = format!("its conversation has more than {CONTINUED_MAX_BYTES} bytes");
            return invalid(RequestField::Continues, problem);
        }
        if let Err(problem) = continued_conversation(&prior.to_shared()) {
            return invalid(RequestField::Continues, problem.to_string());
        }
    }
    for (field, text) in named.into_iter().flatten() {
        if text.missing().is_some() {
            return invalid(field, "its text was not fetched".to_owned());
        }
        if text.len_bytes() > REQUEST_MAX_BYTES as u64 {
            return invalid(field, format!("has more than {REQUEST_MAX_BYTES} bytes"));
        }
    }
    let text = request.text.to_shared();
    if text.trim().is_empty() {
        return invalid(RequestField::Request, "is empty".to_owned());
    }
    Ok(text)
}

fn check_numbers(request: &RunRequest) -> Result<(), RuntimeError> {
    if request.terms.base_turns == Some(0) {
        return invalid(RequestField::Turns, "must be at least 1: the last turn is the report".to_owned());
    }
    if request.terms.parallel == 0 {
        return invalid(RequestField::Parallel, "must be at least 1".to_owned());
    }
    if request.budget.agents == Some(0) {
        return invalid(RequestField::BudgetAgents, "must be at least 1, because the root counts".to_owned());
    }
    Ok(())
}

/// Checks that the skill of a run exists, that no rule denies it, and that the run has no plan beside it.
fn check_skill(
    request: &RunRequest,
    root: &Definition,
    discovered: &DiscoveredDefinitions,
) -> Result<(), RuntimeError> {
    let RunTerms { skill, loaded_skill, operator_rules, run_rules, project_rules, .. } = &request.terms;
    let Some(name) = skill.as_ref().or(loaded_skill.as_ref()) else { return Ok(()) };
    if request.plan.is_some() {
        return invalid(RequestField::Skill, "a run executes a plan or a skill, not both".to_owned());
    }
    let names = || discovered.skills.iter().map(|skill| skill.name.as_str());
    let Some(name) = names().find(|known| known.eq_ignore_ascii_case(name)) else {
        return invalid(
            RequestField::Skill,
            format!("unknown skill `{name}`{}", hint(nearest(name, names()))),
        );
    };
    let own: Rules = root.rules.clone().into();
    let operation = Operation::new(SKILL_TOOL, Some(name));
    let layers = [operator_rules, run_rules, &own].into_iter().chain(project_rules.iter());
    let mut decisive = layers.filter_map(|rules| rules.last_match(&operation));
    match decisive.find(|rule| rule.decision == Decision::Deny) {
        Some(rule) => {
            invalid(RequestField::Skill, format!("`{name}` is denied by the rule `{}`", rule.pattern))
        }
        None => Ok(()),
    }
}

impl CheckedRequest {
    /// The first event of a run.
    pub(super) fn started(&self, id: &RunId, base: Option<BaseSnapshot>) -> RunStarted {
        let contract = self.root_contract(id);
        let mut request = RunRequest { definition: self.root.name.clone(), ..self.request.clone() };
        // Only a user's plan may let writers without owned paths run in parallel. The plan itself has its own event.
        if let Some(plan) = request.plan.take()
            && plan.author == Author::Person
        {
            request.terms.unowned_writers = plan.unowned_writers;
        }
        RunStarted { request, contract_hash: contract.hash(), contract, base }
    }

    fn root_contract(&self, id: &RunId) -> Contract {
        let Self { request, tools, text, root, discovered } = self;
        // Every field is named, so that the compiler asks whether a new one is a term of the root's contract.
        let RunRequest {
            text: request_text,
            prompt,
            model,
            max_depth,
            budget,
            idle_timeout_ms,
            may_share_history,
            on_ask,
            terms,
            plan,
            continues,
            definition: _,
            dir: _,
            session_id: _,
            definitions: _,
            catalogue: _,
            agents_md: _,
        } = request;
        let rights = SkillRights::new(root, None);
        let spawns = terms.skill.is_some() || rights.can_spawn(tools, discovered.skills.iter());
        let clipped = |text: &str| text[..text.floor_char_boundary(TASK_PROMPT_MAX_BYTES)].into();
        Contract {
            version: CONTRACT_VERSION,
            context: ExecutionContext::root(*max_depth),
            parent: ParentTerms {
                run_id: id.clone(),
                agent_id: id.root(),
                message_id: None,
                step_idx: 0,
                task_prompt: clipped(text),
                goal_summary: match plan {
                    Some(plan) => clipped(&plan.goal),
                    None => first_line(text, GOAL_MAX_CHARS).into(),
                },
                continues: continues.as_ref().map(|continued| continued.agent.clone()),
                repairs: None,
            },
            step: StepTerms {
                title: first_line(text, GOAL_MAX_CHARS),
                description: prompt.as_ref().unwrap_or(request_text).to_shared().to_string(),
                success_criteria: Vec::new(),
                owns: Vec::new(),
                required: true,
            },
            permissions: Grant {
                allowed_tools: tools.clone(),
                rules: Rules::default(),
                can_spawn_children: spawns,
                max_delegation_depth: *max_depth,
                may_share_history: *may_share_history,
                on_ask: *on_ask,
            },
            execution: ExecutionTerms {
                definition: root.name.clone(),
                skill: None,
                model: model.clone(),
                temperature: root.temperature,
                top_p: root.top_p,
                max_turns: turn_limit(0, terms.base_turns, root.max_turns, None),
                turn_timeout_ms: None,
                // The root has one attempt, and no attempt timeout unless the request sets one.
                attempt_timeout_ms: None,
                idle_timeout_ms: *idle_timeout_ms,
                max_retries: 0,
                max_retries_per_tool: DEFAULT_MAX_RETRIES_PER_TOOL,
                close_on_completion: true,
                share_history: false,
                extra_context: None,
            },
            budget: *budget,
            outputs: OutputTerms {
                report_format: ReportFormat::Markdown,
                report_path_pattern: DEFAULT_REPORT_PATH_PATTERN.to_owned(),
                result_schema: None,
            },
        }
    }
}
