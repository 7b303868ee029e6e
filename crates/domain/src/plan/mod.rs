//! Plans: steps that the host spawns as children of a run's root, in an order that follows from the plan alone.
//!
//! The crate `setup` parses a plan's text. Here it is a value that can be checked and ordered.

mod check;
mod graph;
mod limits;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use check::{PlanContext, Problem, StepDefinition, StepName, UnreadFields, check, check_read};
pub use limits::{
    COMMAND_TIMEOUT_MAX_MS, CRITERIA_MAX, CRITERION_MAX_BYTES, DESCRIPTION_MAX_BYTES, GOAL_MAX_BYTES,
    NAME_MAX_BYTES, OWNED_MAX_BYTES, OWNS_MAX, PROBLEMS_MAX, RETRIES_MAX, STEPS_MAX, TIMEOUT_MAX_MS,
    TITLE_MAX_CHARS, TOOLS_MAX,
};

use crate::budget::Budget;
use crate::contract::Criterion;
use graph::Graph;

/// The definition of a step that names none.
pub const DEFAULT_STEP_AGENT: &str = "general";

/// A plan: a goal, and the steps that reach it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The goal. The prompt of every step contains it.
    #[schemars(length(min = 1))]
    pub goal: String,
    /// How the other steps continue when one fails.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// The order in which finished steps are integrated.
    #[serde(default)]
    pub integration: IntegrationOrder,
    /// Whether steps that write and have no `owns` may run at once.
    #[serde(default)]
    pub unowned_writers: UnownedWriters,
    /// The steps. Those that do not depend on each other run in parallel.
    #[schemars(length(min = 1, max = STEPS_MAX))]
    pub steps: Vec<Step>,
    /// The author. Not a key of a plan file: the caller that submits the plan sets it.
    #[serde(default, skip_serializing_if = "Author::is_person")]
    #[schemars(skip)]
    pub author: Author,
}

/// The author of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Author {
    /// A user wrote it, or read and submitted it, so its commands count as the user's.
    #[default]
    Person,
    /// A model wrote it, and no user read it. It may request no more than a `task` call of the root could, and its
    /// commands are `bash` operations of the root.
    Model,
}

impl Author {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_person(&self) -> bool {
        *self == Author::Person
    }
}

/// How the other steps continue when one fails. Steps that depend on the failed one wait for its repair in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// They continue.
    #[default]
    Continue,
    /// No further step starts.
    Stop,
}

/// The order in which finished steps are integrated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IntegrationOrder {
    /// By dependencies, then by position: the same every time.
    #[default]
    Ordered,
    /// As they finish: sooner, but in an order that can differ.
    AsFinished,
}

/// How writers without `owns` are scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnownedWriters {
    /// Each owns everything and runs alone among writers. In a plan such steps must be ordered.
    #[default]
    Queue,
    /// They run at once. Conflicts are found when they are merged.
    Parallel,
}

/// One step: the terms of a child that a plan can set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// A few words on one line, unique in the plan: `depends_on` names steps by their titles.
    #[schemars(length(min = 1, max = TITLE_MAX_CHARS))]
    pub title: String,
    /// The assignment of the child. The child knows the plan's goal and this text, nothing else of the plan.
    #[schemars(length(min = 1))]
    pub description: String,
    /// The definition of the child.
    #[serde(default = "default_agent")]
    pub agent: String,
    /// Paths the child may change: literal, or `dir/**`. Empty: everything.
    #[serde(default)]
    #[schemars(length(max = OWNS_MAX))]
    pub owns: Vec<String>,
    /// Titles of the steps that have to be integrated before this one starts.
    #[serde(default)]
    #[schemars(length(max = STEPS_MAX))]
    pub depends_on: Vec<String>,
    /// What counts as done: words that the child answers with evidence, or commands that the host runs.
    #[serde(default)]
    #[schemars(length(max = CRITERIA_MAX))]
    pub success_criteria: Vec<Criterion>,
    /// Whether its failure fails the run.
    #[serde(default = "default_required")]
    pub required: bool,
    /// What the child and its own children may spend.
    #[serde(default)]
    pub budget: Budget,
    /// A subset of the definition's tools.
    #[serde(default)]
    #[schemars(length(max = TOOLS_MAX))]
    pub tools: Option<Vec<String>>,
    /// Another model, as provider/name.
    #[serde(default)]
    pub model: Option<String>,
    /// Maximum number of turns of an attempt.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub max_turns: Option<u32>,
    /// Maximum working time of an attempt.
    #[serde(default)]
    #[schemars(range(min = 1, max = TIMEOUT_MAX_MS))]
    pub timeout_ms: Option<u64>,
    /// Further attempts after a failed one.
    #[serde(default)]
    #[schemars(range(max = RETRIES_MAX))]
    pub max_retries: Option<u32>,
    /// JSON Schema that the child's final answer must satisfy.
    #[serde(default)]
    pub result_schema: Option<BTreeMap<String, serde_json::Value>>,
}

fn default_agent() -> String {
    DEFAULT_STEP_AGENT.to_owned()
}

fn default_required() -> bool {
    true
}

impl Default for Step {
    fn default() -> Self {
        Self {
            title: String::new(),
            description: String::new(),
            agent: default_agent(),
            owns: Vec::new(),
            depends_on: Vec::new(),
            success_criteria: Vec::new(),
            required: default_required(),
            budget: Budget::NONE,
            tools: None,
            model: None,
            max_turns: None,
            timeout_ms: None,
            max_retries: None,
            result_schema: None,
        }
    }
}

impl Plan {
    /// For each step the positions of its dependencies, sorted and unique. Unknown names are ignored here, and
    /// [`check`] reports them.
    pub fn dependencies(&self) -> Vec<Vec<usize>> {
        Graph::of(self).into_needs()
    }

    /// The positions of all steps, each after its dependencies, and earlier steps first where there is a choice. Steps
    /// in a cycle come last, and [`check`] reports them.
    pub fn order(&self) -> Vec<usize> {
        Graph::of(self).order()
    }

    /// The steps by how early they can start: the steps of a wave depend only on earlier waves.
    pub fn waves(&self) -> Vec<Vec<usize>> {
        Graph::of(self).waves()
    }

    /// The JSON Schema of the format, for editors and other programs.
    pub fn json_schema() -> serde_json::Value {
        let mut schema = schemars::schema_for!(Plan).to_value();
        schema.sort_all_objects();
        schema
    }
}
