//! What a run is told when it starts: checked before anything is written, and the first event made of it.

use std::sync::Arc;

use posse_domain::budget::{Budget, turn_limit};
use posse_domain::contract::{
    CONTRACT_VERSION, Contract, DEFAULT_IDLE_TIMEOUT_MS, DEFAULT_MAX_RETRIES_PER_TOOL,
    DEFAULT_REPORT_PATH_PATTERN, ExecutionContext, ExecutionTerms, OutputTerms, ParentTerms, ReportFormat,
    StepTerms,
};
use posse_domain::definition::Definition;
use posse_domain::event::{BaseSnapshot, CatalogueText, GivenBaseUrl, RunStarted, RunTerms, UnownedWriters};
use posse_domain::id::RunId;
use posse_domain::lifecycle::{SKILL_TOOL, SkillRights, TASK_PROMPT_MAX_BYTES};
use posse_domain::nearest::{hint, nearest};
use posse_domain::permission::{Approvals, Decision, Grant, OnAsk, Operation, ProjectRules, Rules, ToolSet};
use posse_domain::plan::{Author, Plan};
use posse_domain::skill::DiscoveredDefinitions;
use posse_domain::text::first_line;

use super::{Runtime, RuntimeError};

/// Largest request of a user.
pub const REQUEST_MAX_BYTES: usize = 4 * 1024 * 1024;
/// Characters of the request that stand for the goal.
const GOAL_MAX_CHARS: usize = 200;

/// A run to start.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct RunSpec {
    /// What the user asks for.
    pub request: String,
    /// The root's definition.
    pub definition: String,
    /// The root's model, `provider/model`.
    pub model: String,
    /// The working directory.
    pub dir: String,
    /// The embedder's session, opaque.
    pub session_id: Option<String>,
    /// What the root is told to do, where that is not the request as it was typed.
    pub prompt: Option<String>,
    /// The forked skill that is all the root does: no model is asked there. One of the catalogue.
    pub skill: Option<String>,
    /// The skill that a person had the root take in: `prompt` is its text. One of the catalogue.
    pub called_skill: Option<String>,
    /// The definitions the run can use: built in, or given to this run.
    pub definitions: Vec<Definition>,
    /// The definitions and skills that were found on the machine. None has the name of one of `definitions`.
    pub catalogue: Arc<DiscoveredDefinitions>,
    /// The project's instructions for agents (`AGENTS.md`), part of every system prompt.
    pub agents_md: Option<String>,
    /// Whether the root may give its conversation to children.
    pub may_share_history: bool,
    /// Whether who follows a task hears the events of sub-agents below it too.
    pub include_sub_agent_events: bool,
    /// Base of the turn limit by depth.
    pub base_turns: Option<u32>,
    /// Deepest depth an agent may have.
    pub max_depth: u32,
    /// What the whole tree may spend.
    pub budget: Budget,
    /// How long a model or a tool may be silent; none for the usual time.
    pub idle_timeout_ms: Option<u64>,
    /// How many calls may run at once.
    pub parallel: u32,
    /// Whether children close by themselves once integrated; otherwise their parent closes them.
    pub close_on_completion: bool,
    /// Rules of the user's settings.
    pub operator_rules: Rules,
    /// Rules of the project's settings.
    pub project_rules: ProjectRules,
    /// Rules of this run.
    pub run_rules: Rules,
    /// Where a person said that a provider is, for this run.
    pub base_url: Option<GivenBaseUrl>,
    /// What a person allowed in advance.
    pub approvals: Approvals,
    /// The plan that the host carries out; none lets the root decide.
    pub plan: Option<Plan>,
    /// What becomes of writers that own nothing of their own.
    pub unowned_writers: UnownedWriters,
    /// What becomes of an `ask` that nobody attends to.
    pub on_ask: OnAsk,
    /// Whether somebody who can be asked attends to this process. Not part of the run: a resume says it anew.
    pub attended: bool,
}

/// What the root's contract takes from its definition.
pub(super) struct RootTerms {
    pub(super) definition: Definition,
    pub(super) tools: ToolSet,
}

impl Runtime {
    /// Finds what is wrong with a run before anything is written.
    pub(super) fn check(&self, spec: &RunSpec, is_replay: bool) -> Result<RootTerms, RuntimeError> {
        let invalid = |field, problem: String| Err(RuntimeError::Invalid { field, problem });
        if spec.request.trim().is_empty() {
            return invalid("request", "is empty".to_owned());
        }
        if spec.request.len() > REQUEST_MAX_BYTES {
            return invalid("request", format!("has more than {REQUEST_MAX_BYTES} bytes"));
        }
        if spec.prompt.as_ref().is_some_and(|prompt| prompt.len() > REQUEST_MAX_BYTES) {
            return invalid("prompt", format!("has more than {REQUEST_MAX_BYTES} bytes"));
        }
        let known = || spec.definitions.iter().chain(&spec.catalogue.definitions);
        let Some(definition) = known().find(|d| d.name.eq_ignore_ascii_case(&spec.definition)) else {
            let known: Vec<&str> = known().map(|d| d.name.as_str()).collect();
            return invalid(
                "agent",
                format!("there is no agent `{}`; known are {}", spec.definition, known.join(", ")),
            );
        };
        if !self.0.parts.system.has_dir(&spec.dir) {
            return invalid("dir", format!("{} is not a directory", spec.dir));
        }
        if spec.base_turns == Some(0) {
            return invalid("max-turns", "must be at least 1: the last turn is the report".to_owned());
        }
        if spec.parallel == 0 {
            return invalid("parallel", "must be at least 1".to_owned());
        }
        if spec.budget.agents == Some(0) {
            return invalid("max-agents", "must be at least 1: the root is one".to_owned());
        }
        if !is_replay {
            let model = match self.0.parts.models.resolve(&spec.model) {
                Ok(model) => model,
                Err(problem) => return invalid("model", problem),
            };
            if spec.budget.usd.is_some() && model.facts().price.is_none() {
                return invalid("max-usd", format!("the price of `{}` is unknown", spec.model));
            }
        }
        let kind_tools = posse_domain::lifecycle::tools_of(definition);
        let Ok(tools) = ToolSet::parse(kind_tools.iter().map(String::as_str)) else {
            return invalid("agent", format!("`{}` lists a tool whose name is none", definition.name));
        };
        let tools = SkillRights::new(definition, None).tools(&tools, &spec.catalogue.skills.iter());
        check_skill(spec, definition)?;
        Ok(RootTerms { definition: definition.clone(), tools })
    }
}

/// A run of a skill needs one that is there and that no rule denies, and is nothing else.
fn check_skill(spec: &RunSpec, root: &Definition) -> Result<(), RuntimeError> {
    let Some(name) = spec.skill.as_ref().or(spec.called_skill.as_ref()) else { return Ok(()) };
    let invalid = |problem| Err(RuntimeError::Invalid { field: "skill", problem });
    if spec.plan.is_some() {
        return invalid("a run carries out a plan or a skill, not both".to_owned());
    }
    let names = || spec.catalogue.skills.iter().map(|skill| skill.name.as_str());
    let Some(name) = names().find(|known| known.eq_ignore_ascii_case(name)) else {
        return invalid(format!("there is no skill `{name}`{}", hint(nearest(name, names()))));
    };
    let own: Rules = root.rules.clone().into();
    let operation = Operation::new(SKILL_TOOL, Some(name));
    let layers = [&spec.operator_rules, &spec.run_rules, &own].into_iter().chain(spec.project_rules.iter());
    let mut said = layers.filter_map(|rules| rules.last_match(&operation));
    match said.find(|rule| rule.decision == Decision::Deny) {
        Some(rule) => invalid(format!("`{name}` is denied by the rule `{}`", rule.pattern)),
        None => Ok(()),
    }
}

/// The first event of a run.
pub(super) fn started(
    id: &RunId,
    spec: &RunSpec,
    terms: &RootTerms,
    base: Option<BaseSnapshot>,
    catalogue: Option<CatalogueText>,
) -> RunStarted {
    let definition = &terms.definition;
    let rights = SkillRights::new(definition, None);
    let spawns = spec.skill.is_some() || rights.can_spawn(&terms.tools, spec.catalogue.skills.iter());
    let clipped = &spec.request[..spec.request.floor_char_boundary(TASK_PROMPT_MAX_BYTES)];
    let contract = Contract {
        version: CONTRACT_VERSION,
        context: ExecutionContext::root(spec.max_depth),
        parent: ParentTerms {
            run_id: id.clone(),
            agent_id: id.root(),
            message_id: None,
            step_idx: 0,
            task_prompt: clipped.into(),
            goal_summary: match &spec.plan {
                Some(plan) => plan.goal[..plan.goal.floor_char_boundary(TASK_PROMPT_MAX_BYTES)].into(),
                None => first_line(&spec.request, GOAL_MAX_CHARS).into(),
            },
            continues: None,
            repairs: None,
        },
        step: StepTerms {
            title: first_line(&spec.request, GOAL_MAX_CHARS),
            description: spec.prompt.as_ref().unwrap_or(&spec.request).clone(),
            success_criteria: Vec::new(),
            owns: Vec::new(),
            required: true,
        },
        permissions: Grant {
            allowed_tools: terms.tools.clone(),
            rules: Rules::default(),
            can_spawn_children: spawns,
            max_delegation_depth: spec.max_depth,
            may_share_history: spec.may_share_history,
            on_ask: spec.on_ask,
        },
        execution: ExecutionTerms {
            definition: definition.name.clone(),
            skill: None,
            model: spec.model.clone(),
            temperature: definition.temperature,
            top_p: definition.top_p,
            max_turns: turn_limit(0, spec.base_turns, definition.max_turns, None),
            turn_timeout_ms: None,
            // The root has one attempt, and no attempt timeout unless one is set.
            attempt_timeout_ms: None,
            idle_timeout_ms: spec.idle_timeout_ms.unwrap_or(DEFAULT_IDLE_TIMEOUT_MS),
            max_retries: 0,
            max_retries_per_tool: DEFAULT_MAX_RETRIES_PER_TOOL,
            close_on_completion: true,
            share_history: false,
            extra_context: None,
        },
        budget: spec.budget,
        outputs: OutputTerms {
            report_format: ReportFormat::Markdown,
            report_path_pattern: DEFAULT_REPORT_PATH_PATTERN.to_owned(),
            result_schema: None,
        },
    };
    RunStarted {
        request: spec.request.as_str().into(),
        contract_hash: contract.hash(),
        contract,
        dir: spec.dir.clone(),
        session_id: spec.session_id.clone(),
        terms: RunTerms {
            base_turns: spec.base_turns,
            parallel: spec.parallel,
            close_on_completion: spec.close_on_completion,
            operator_rules: spec.operator_rules.clone(),
            run_rules: spec.run_rules.clone(),
            approvals: spec.approvals.clone(),
            // Whether writers run beside each other is for a person to say.
            unowned_writers: match &spec.plan {
                Some(plan) if plan.author == Author::Person => plan.unowned_writers,
                _ => spec.unowned_writers,
            },
            base_url: spec.base_url.clone(),
            project_rules: spec.project_rules.clone(),
            skill: spec.skill.clone(),
            called_skill: spec.called_skill.clone(),
            include_sub_agent_events: spec.include_sub_agent_events,
        },
        definitions: spec.definitions.clone(),
        catalogue,
        agents_md: spec.agents_md.as_deref().map(Into::into),
        base,
    }
}
