//! Plans: steps that the host spawns as children of a run's root, in an order that follows from the plan alone.
//!
//! Reading a plan's text is the agent crate's work; here it is a value that can be checked and put in order.

mod check;
mod graph;
mod limits;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use check::{PlanContext, Problem, StepDefinition, StepName, Unread, check, check_read};
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

/// A plan: what is to be true in the end, and the steps that lead there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What is to be true in the end. Every step is told.
    #[schemars(length(min = 1))]
    pub goal: String,
    /// What becomes of the other steps when one fails.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// The order in which finished steps are integrated.
    #[serde(default)]
    pub integration: IntegrationOrder,
    /// Whether steps that write and say nothing about `owns` may run at once.
    #[serde(default)]
    pub unowned_writers: UnownedWriters,
    /// The steps. Those that do not depend on each other run in parallel.
    #[schemars(length(min = 1, max = STEPS_MAX))]
    pub steps: Vec<Step>,
    /// Who wrote it. No key of a plan file: whoever hands the plan over knows.
    #[serde(default, skip_serializing_if = "Author::is_person")]
    #[schemars(skip)]
    pub author: Author,
}

/// Who wrote a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Author {
    /// A person, or a person who read it and handed it over: what it says is their word.
    #[default]
    Person,
    /// A model, and no person read it: it asks for no more than a `task` call of the root could, and its commands are
    /// `bash` operations of the root.
    Model,
}

impl Author {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_person(&self) -> bool {
        *self == Author::Person
    }
}

/// What becomes of the other steps when one fails. What depends on the failed one waits for its repair either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// They go on.
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
    /// As they finish: sooner, and not the same every time.
    AsFinished,
}

/// What holds for writers without `owns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnownedWriters {
    /// Each owns everything and runs alone among writers; in a plan such steps have to be ordered.
    #[default]
    Queue,
    /// They run at once; a conflict is found when they are merged.
    Parallel,
}

/// One step: the contract of a child, as far as a plan says it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// A few words, on one line. No other step has the same: `depends_on` names steps by it.
    #[schemars(length(min = 1, max = TITLE_MAX_CHARS))]
    pub title: String,
    /// What the child is asked to do. It knows the plan's goal and this text, nothing else of the plan.
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
    /// Fewer tools than the definition has.
    #[serde(default)]
    #[schemars(length(max = TOOLS_MAX))]
    pub tools: Option<Vec<String>>,
    /// Another model, as provider/name.
    #[serde(default)]
    pub model: Option<String>,
    /// Turns of an attempt at most.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub max_turns: Option<u32>,
    /// Working time of an attempt at most.
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
    /// For each step the positions of the steps it depends on, in order and once each. Names that no step has are
    /// passed over; [`check`] finds them.
    pub fn dependencies(&self) -> Vec<Vec<usize>> {
        Graph::of(self).into_needs()
    }

    /// The positions of all steps, each after those it depends on; where that leaves a choice, the earlier step
    /// first. Steps that depend on themselves have no such place and come last; [`check`] finds them.
    pub fn order(&self) -> Vec<usize> {
        Graph::of(self).order()
    }

    /// The steps by how early they can start: those of a wave depend only on earlier waves.
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
