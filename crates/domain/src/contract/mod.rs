//! The persisted terms of one agent. Parsing is strict: an unknown or ill-typed field is an error that names it.
//!
//! Why it is like this: `docs/decisions/delegation-request-excerpt.md`.

mod context;

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use context::ExecutionContext;

use crate::budget::Budget;
use crate::hash::Hash;
use crate::id::{AgentId, RunId};
use crate::permission::Grant;

/// The version that this code writes. Older versions are upgraded on read.
pub const CONTRACT_VERSION: u32 = 1;
/// Maximum size of a contract, in bytes of JSON.
pub const CONTRACT_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Default time limit of one attempt.
pub const DEFAULT_ATTEMPT_TIMEOUT_MS: u64 = 600_000;
/// Default time that a call may produce no output.
pub const DEFAULT_IDLE_TIMEOUT_MS: u64 = 120_000;
/// Default number of retries after a failed attempt.
pub const DEFAULT_MAX_RETRIES: u32 = 1;
/// Maximum timeout of a command that a model wrote: in a `bash` call, or as a criterion of a sub-agent.
pub const MODEL_COMMAND_TIMEOUT_MAX_MS: u64 = 600_000;
/// Default number of times in a row that the same call may fail.
pub const DEFAULT_MAX_RETRIES_PER_TOOL: u32 = 3;
/// The path of a child's report beneath the run's state directory, which the host writes.
pub const DEFAULT_REPORT_PATH_PATTERN: &str = ".posse/step-<idx>-result.md";

/// Why a contract cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ContractError {
    /// Not JSON of the right shape. The text names the field, line and column.
    #[error("contract: {0}")]
    Malformed(String),
    /// A newer version of Posse wrote it.
    #[error("contract: version {found} is newer than this Posse understands ({CONTRACT_VERSION})")]
    Newer {
        /// The version in the text.
        found: u32,
    },
    #[error("contract: {bytes} bytes, more than the {CONTRACT_MAX_BYTES} accepted")]
    TooLarge {
        /// The size of the text.
        bytes: usize,
    },
    /// A value contradicts another.
    #[error("contract: `{field}` {problem}")]
    Invalid {
        /// The field's path.
        field: &'static str,
        problem: String,
    },
}

/// The terms of one agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// Format version.
    pub version: u32,
    /// Depth and lineage.
    pub context: ExecutionContext,
    /// The terms that the parent set. The child cannot change them.
    pub parent: ParentTerms,
    /// The work of the agent.
    pub step: StepTerms,
    /// What the agent may do.
    pub permissions: Grant,
    /// How the agent is executed.
    pub execution: ExecutionTerms,
    /// The budget of the agent and its subtree.
    pub budget: Budget,
    /// The results that the agent returns.
    pub outputs: OutputTerms,
}

/// The parent's side of a contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParentTerms {
    /// The id of the run.
    pub run_id: RunId,
    /// The id of the parent. The root names itself.
    pub agent_id: AgentId,
    /// The parent's reply that requested this child.
    pub message_id: Option<String>,
    /// The child's number minus one; in a plan the step's position.
    pub step_idx: u32,
    /// The run's request.
    pub task_prompt: Arc<str>,
    /// The plan's goal, or the request's first line.
    pub goal_summary: Arc<str>,
    /// The closed child whose conversation this one continues.
    pub continues: Option<AgentId>,
    /// The failed child that this one repairs.
    pub repairs: Option<AgentId>,
}

/// The work of a contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepTerms {
    /// Three to five words, for display.
    pub title: String,
    /// The child's prompt.
    pub description: String,
    /// The success criteria.
    pub success_criteria: Vec<Criterion>,
    /// Paths the agent may change: literal, or `dir/**`. Empty: all that its parent owns.
    pub owns: Vec<String>,
    /// Whether its failure fails the run.
    pub required: bool,
}

/// One success criterion: words for the child, or a command that the host runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Criterion {
    /// Words in the child's prompt, which its report must answer.
    Words(String),
    /// A command that the host runs on the merged tree.
    Command(CommandCriterion),
}

/// A criterion that is a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandCriterion {
    /// The shell command; it passes by exiting 0.
    pub command: String,
    /// The timeout of the command.
    pub timeout_ms: Option<u64>,
}

/// How an agent is executed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionTerms {
    /// The definition's name.
    pub definition: String,
    /// The skill it was forked with.
    pub skill: Option<String>,
    /// `provider/model`.
    pub model: String,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    pub top_p: Option<f64>,
    /// Turns per attempt, the report turn included. None means no limit.
    pub max_turns: Option<u32>,
    /// Limit of one turn.
    pub turn_timeout_ms: Option<u64>,
    /// Limit of one attempt's working time.
    pub attempt_timeout_ms: Option<u64>,
    /// Maximum time that a call may produce no output.
    pub idle_timeout_ms: u64,
    /// Further attempts after a failed one.
    pub max_retries: u32,
    /// How often in a row the same call may fail before the attempt ends.
    pub max_retries_per_tool: u32,
    /// Whether the child closes by itself once integrated.
    pub close_on_completion: bool,
    /// Whether the conversation starts with the parent's.
    pub share_history: bool,
    /// Further text for the child.
    pub extra_context: Option<String>,
}

/// The results that an agent returns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputTerms {
    /// The report's format.
    pub report_format: ReportFormat,
    /// The path of the report's file beneath the run's state directory. `<idx>` is the child's place.
    pub report_path_pattern: String,
    /// JSON Schema that the final answer must satisfy.
    #[serde(serialize_with = "crate::canonical::map")]
    pub result_schema: Option<BTreeMap<String, serde_json::Value>>,
}

/// The format of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReportFormat {
    /// Markdown text.
    Markdown,
}

impl Contract {
    /// Parses a contract strictly.
    pub fn from_json(text: &str) -> Result<Contract, ContractError> {
        #[derive(Deserialize)]
        #[serde(rename = "contract")]
        struct ContractVersion {
            version: u32,
        }
        if text.len() > CONTRACT_MAX_BYTES {
            return Err(ContractError::TooLarge { bytes: text.len() });
        }
        // The version is checked first, because the fields of a newer version may have another meaning.
        let versioned: ContractVersion = read(text)?;
        if versioned.version > CONTRACT_VERSION {
            return Err(ContractError::Newer { found: versioned.version });
        }
        let contract: Contract = read(text)?;
        contract.check()?;
        Ok(contract)
    }

    /// The JSON that is persisted. The types fix the field order and the schema sorts it, so equal contracts have equal
    /// text.
    pub fn to_json(&self) -> String {
        // Cannot fail: every map key is a string, and `check` refused NaN.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The path of the report's file, beneath the folder of the parent's reports.
    pub fn report_path(&self) -> String {
        self.outputs.report_path_pattern.replace("<idx>", &self.parent.step_idx.to_string())
    }

    /// The hash that the created event contains.
    pub fn hash(&self) -> Hash {
        Hash::of(self.to_json().as_bytes())
    }

    /// The JSON Schema of the format, for editors and other programs.
    pub fn json_schema() -> serde_json::Value {
        let mut schema = schemars::schema_for!(Contract).to_value();
        schema.sort_all_objects();
        schema
    }

    /// Finds values that contradict each other.
    pub fn check(&self) -> Result<(), ContractError> {
        let invalid = |field, problem: String| Err(ContractError::Invalid { field, problem });
        if self.context.depth > self.context.max_depth {
            let problem =
                format!("is {}, deeper than max_depth {}", self.context.depth, self.context.max_depth);
            return invalid("context.depth", problem);
        }
        if self.version == 0 {
            return invalid("version", "must be at least 1".into());
        }
        for (field, id) in [
            ("context.parent_task_id", &self.context.parent_task_id),
            ("context.root_task_id", &self.context.root_task_id),
        ] {
            match (id, self.context.depth) {
                (Some(_), 0) => return invalid(field, "must be null: the root agent has no parent".into()),
                (None, 1..) => {
                    return invalid(field, "is null, and only the root agent has no parent".into());
                }
                _ => {}
            }
        }
        if self.parent.agent_id.run() != self.parent.run_id {
            return invalid("parent.agent_id", format!("is not an agent of run {}", self.parent.run_id));
        }
        if let Some(turns) = self.execution.max_turns
            && turns == 0
        {
            return invalid("execution.max_turns", "must be at least 1: the last turn is the report".into());
        }
        for (field, value) in
            [("execution.temperature", self.execution.temperature), ("execution.top_p", self.execution.top_p)]
        {
            if value.is_some_and(|v| !v.is_finite() || v < 0.0) {
                return invalid(field, "must be a number of at least 0".into());
            }
        }
        for owned in &self.step.owns {
            if let Err(problem) = crate::ownership::check(owned) {
                return invalid("step.owns", format!("`{owned}`: {problem}"));
            }
        }
        Ok(())
    }
}

/// Parses JSON. An error names the field, line and column.
fn read<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, ContractError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let problem = error.into_inner();
        // An empty path means the whole text.
        ContractError::Malformed(if path == "." {
            problem.to_string()
        } else {
            format!("`{path}`: {problem}")
        })
    })?;
    reader.end().map_err(|error| ContractError::Malformed(error.to_string()))?;
    Ok(value)
}

#[cfg(test)]
mod tests;
