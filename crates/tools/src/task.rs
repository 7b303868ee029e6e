//! `task`: delegates work to a sub-agent.

use std::sync::Arc;

use posse_agent::prompts::{ListEntry, list};
use posse_agent::tool_spec::ToolSpec;
use posse_domain::budget::{Budget, Usd};
use posse_domain::contract::{CommandCriterion, Criterion};
use posse_domain::event::EffectClass;
use posse_domain::lifecycle::TASK_TOOL;
use posse_domain::ownership;
use posse_domain::plan::CRITERIA_MAX;
use posse_engine::ports::{EngineRequest, Handler, RequestTool, SpawnRequest, Spawnable, Tool, ToolFailure};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input::{Check, parse};
use crate::spec::spec;

pub(crate) const NAME: &str = TASK_TOOL;
const TEXT: &str = include_str!("task.md");

/// Maximum length of the prompt and of the extra context.
const PROMPT_MAX_BYTES: usize = 256 * 1024;
const TITLE_MAX_BYTES: usize = 200;
/// Maximum length of the name of a definition or a model.
const NAME_MAX_BYTES: usize = 200;
/// Maximum number of ownership patterns of a child.
const OWNS_MAX: usize = 100;
/// Maximum number of definitions in the schema, because each request contains it. The text lists more, within its own
/// limit.
const NAMES_MAX: usize = 100;
const OWNED_MAX_BYTES: usize = 4_096;
/// Maximum length of a criterion.
const CRITERION_MAX_BYTES: usize = 8 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Which kind of agent does it.
    subagent_type: String,
    /// The whole assignment. The agent sees nothing else of your conversation, so say what to do, where, what
    /// you already know, what not to touch, and what its report must contain.
    prompt: String,
    /// Three to five words that name the work, for people.
    description: String,
    /// Return at once and go on; the result reaches you as a message when it is there. Default false: wait
    /// for the result.
    run_in_background: Option<bool>,
    /// Fewer turns than it would have by default.
    max_turns: Option<u32>,
    /// Less time for an attempt than it would have by default, in milliseconds.
    timeout_ms: Option<u64>,
    /// The most that it and its own sub-agents may spend. What is left out is limited by your own budget
    /// only.
    budget: Option<BudgetInput>,
    /// The files it may change: paths such as `src/auth.rs`, or whole directories such as `src/auth/**`.
    /// Agents that own different files can write at the same time; one without this waits until no other
    /// writes.
    owns: Option<Vec<String>>,
    /// What counts as done: sentences, or commands that must succeed on the merged result.
    success_criteria: Option<Vec<CriterionInput>>,
    /// Whether the whole run fails if this fails. Default false.
    required: Option<bool>,
    /// The id of a failed task that this one makes good.
    repairs: Option<String>,
    /// Further material for the agent, kept apart from the assignment.
    context: Option<String>,
    /// Whether the agent starts with your conversation so far; works only if you are allowed to share it.
    /// Default false.
    share_history: Option<bool>,
    /// The id of a closed task to continue: the new agent starts with its conversation.
    task_id: Option<String>,
    /// Another model, as `provider/model`. Default: the one its definition says, or yours.
    model: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BudgetInput {
    /// Tokens, input and output together.
    tokens: Option<u64>,
    /// US dollars.
    usd: Option<f64>,
    /// Agents, itself included.
    agents: Option<u64>,
    /// Time from its start, in milliseconds.
    wall_ms: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a sentence, or an object with `command` and maybe `timeout_ms`")]
enum CriterionInput {
    /// Said to the agent.
    Words(String),
    /// Run once its work is merged.
    Command(CommandInput),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CommandInput {
    /// A shell command that exits with 0 if all is well.
    command: String,
    /// How long it may take, in milliseconds.
    timeout_ms: Option<u64>,
}

pub(crate) fn tool() -> Tool {
    let plain = spec::<Input>(NAME, TEXT.trim_end());
    Tool {
        name: NAME,
        class: EffectClass::Delegate,
        describe: Arc::new(move |spawnable| describe(&plain, spawnable)),
        specifier: |input| Some(input.get("subagent_type")?.as_str()?.to_owned()),
        handler: Handler::Request(Arc::new(Task)),
    }
}

/// Adds the definitions that this agent may spawn.
fn describe(plain: &ToolSpec, spawnable: &[Spawnable]) -> ToolSpec {
    let mut spec = plain.clone();
    if spawnable.is_empty() {
        spec.description.push_str("\n\nThere is no kind of agent that you may start.");
        return spec;
    }
    spec.description.push_str("\n\nKinds of agents that you may start:\n");
    spec.description.push_str(&list(spawnable.iter().map(|kind| ListEntry {
        name: &kind.name,
        description: &kind.description,
        note: match (kind.may_spawn, kind.asks) {
            (true, false) => " It may delegate in turn.",
            (false, false) => "",
            (_, true) => " (not trusted: each of its calls asks a person)",
        },
        asks: kind.asks,
    })));
    let names: Vec<&str> = spawnable.iter().map(|kind| kind.name.as_str()).collect();
    let field = spec.input_schema.pointer_mut("/properties/subagent_type");
    if let Some(field) = field.filter(|_| names.len() <= NAMES_MAX) {
        field["enum"] = json!(names);
    }
    spec
}

struct Task;

impl RequestTool for Task {
    fn request(&self, input: Value) -> Result<EngineRequest, ToolFailure> {
        let check = Check::of(NAME);
        let input: Input = parse(NAME, input)?;
        Ok(EngineRequest::Spawn(Box::new(SpawnRequest {
            definition: check.text("subagent_type", input.subagent_type, NAME_MAX_BYTES)?,
            prompt: check.text("prompt", input.prompt, PROMPT_MAX_BYTES)?,
            title: title(check, input.description)?,
            background: input.run_in_background,
            max_turns: check.at_least_one("max_turns", input.max_turns)?,
            timeout_ms: check.at_least_one("timeout_ms", input.timeout_ms)?,
            budget: input.budget.map(|budget| budget.read(check)).transpose()?,
            owns: owns(check, input.owns.unwrap_or_default())?,
            success_criteria: criteria(check, input.success_criteria.unwrap_or_default())?,
            required: input.required.unwrap_or(false),
            repairs: task_id(check, "repairs", input.repairs)?,
            extra_context: check.optional("context", input.context, PROMPT_MAX_BYTES)?,
            share_history: input.share_history.unwrap_or(false),
            continues: task_id(check, "task_id", input.task_id)?,
            model: check.optional("model", input.model, NAME_MAX_BYTES)?,
            ..SpawnRequest::default()
        })))
    }
}

/// A title is one line.
fn title(check: Check, text: String) -> Result<String, ToolFailure> {
    let text = check.text("description", text, TITLE_MAX_BYTES)?;
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn task_id(check: Check, field: &str, id: Option<String>) -> Result<Option<String>, ToolFailure> {
    let id = id.filter(|id| !id.trim().is_empty());
    id.map(|id| check.task_id(field, id)).transpose()
}

fn owns(check: Check, owns: Vec<String>) -> Result<Vec<String>, ToolFailure> {
    check.count("owns", &owns, OWNS_MAX)?;
    for (index, owned) in owns.iter().enumerate() {
        let field = format!("owns[{index}]");
        check.size(&field, owned, OWNED_MAX_BYTES)?;
        ownership::check(owned).map_err(|problem| check.field(&field, problem))?;
    }
    Ok(owns)
}

fn criteria(check: Check, criteria: Vec<CriterionInput>) -> Result<Vec<Criterion>, ToolFailure> {
    check.count("success_criteria", &criteria, CRITERIA_MAX)?;
    let read = |(index, criterion)| {
        let field = format!("success_criteria[{index}]");
        let text = |text| check.text(&field, text, CRITERION_MAX_BYTES);
        Ok(match criterion {
            CriterionInput::Words(words) => Criterion::Words(text(words)?),
            CriterionInput::Command(CommandInput { command, timeout_ms }) => {
                let timeout_ms = check.at_least_one(&format!("{field}.timeout_ms"), timeout_ms)?;
                Criterion::Command(CommandCriterion { command: text(command)?, timeout_ms })
            }
        })
    };
    criteria.into_iter().enumerate().map(read).collect()
}

impl BudgetInput {
    fn read(self, check: Check) -> Result<Budget, ToolFailure> {
        let money =
            |error: &dyn ToString| check.field("budget.usd", format!("is wrong: {}", error.to_string()));
        let usd = self.usd.map(Usd::try_from).transpose().map_err(|error| money(&error))?;
        Ok(Budget { tokens: self.tokens, usd, agents: self.agents, wall_ms: self.wall_ms })
    }
}
