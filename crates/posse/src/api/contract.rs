//! API type of the terms of an agent.

use posse_domain::contract::{Contract, Criterion};
use posse_domain::permission::ToolName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::AgentRecord;

/// The terms of an agent: in words, and in full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContractDetail {
    /// The run's id.
    pub run: String,
    /// The agent's id.
    pub agent: String,
    /// The terms in words, one line each.
    pub words: Vec<String>,
    /// The contract, as the journal has it.
    pub contract: Contract,
}

impl ContractDetail {
    /// Converts the terms of an agent.
    pub fn new(record: &AgentRecord) -> Self {
        Self {
            run: record.agent.id.run().to_string(),
            agent: record.agent.id.to_string(),
            words: words(record),
            contract: record.contract.clone(),
        }
    }
}

/// The terms in words.
fn words(record: &AgentRecord) -> Vec<String> {
    let Contract { context, parent, step, permissions, execution, .. } = &record.contract;
    let agent = &record.agent.id;
    let place = if agent.is_root() {
        format!("is `{}`, the root of the run", execution.definition)
    } else {
        format!("is `{}` at depth {}, for agent {}", execution.definition, context.depth, parent.agent_id)
    };
    let mut words = vec![place];
    words.push(format!("uses the model {}", execution.model));
    let tools: Vec<&str> = permissions.allowed_tools.iter().map(ToolName::as_str).collect();
    words.push(if tools.is_empty() {
        "has no tools".to_owned()
    } else {
        format!("has the tools {}", tools.join(", "))
    });
    if !step.owns.is_empty() {
        words.push(format!("may change only {}", step.owns.join(", ")));
    }
    if permissions.can_spawn_children && context.can_spawn_sub_agent() {
        words.push(format!("may start sub-agents, to depth {}", context.max_depth));
    }
    if let Some(turns) = execution.max_turns {
        words
            .push(format!("has {turns} turns for each attempt, and {} more attempts", execution.max_retries));
    }
    for criterion in &step.success_criteria {
        words.push(match criterion {
            Criterion::Words(text) => format!("is done when: {text}"),
            Criterion::Command(check) => format!("is done when `{}` succeeds", check.command),
        });
    }
    if !step.required {
        words.push("may fail without failing the run".to_owned());
    }
    words
}
