//! Converts rows of the store to agents: the only code that parses the JSON in a row.

use posse_domain::contract::Contract;
use posse_domain::id::AgentId;
use posse_domain::permission::{Authority, ToolSet};
use posse_domain::printable;
use posse_engine::ports::{AgentRow, AgentTerms, StoreError};
use serde::Deserialize;

use super::agent::can_write;
use super::{AgentView, Agents};
use crate::Error;

/// An agent with its long texts, which are not part of a view.
#[derive(Debug, Clone)]
pub struct AgentRecord {
    /// The agent as a view has it.
    pub agent: AgentView,
    /// The terms that it was created with.
    pub contract: Contract,
    /// The report of the agent, even if it failed.
    pub report: Option<String>,
    row: AgentRow,
}

/// The part of a contract that a view shows. The rest is not decoded for a list of agents.
#[derive(Deserialize)]
struct ContractSummary {
    step: StepSummary,
    execution: ExecutionSummary,
    #[serde(default)]
    permissions: PermissionSummary,
}

#[derive(Default, Deserialize)]
struct PermissionSummary {
    #[serde(default)]
    allowed_tools: ToolSet,
}

#[derive(Deserialize)]
struct StepSummary {
    title: String,
}

#[derive(Deserialize)]
struct ExecutionSummary {
    model: String,
    skill: Option<String>,
    max_turns: Option<u32>,
}

fn damaged(id: &AgentId, what: &str) -> Error {
    let problem = format!("the {what} of agent {id} cannot be read");
    StoreError::Damaged { run: id.run(), problem }.into()
}

impl Agents {
    /// The agents of these rows, which are in the order of their creation.
    pub(crate) fn from_rows(rows: &[AgentRow]) -> Result<Self, Error> {
        let mut agents = Self::default();
        for row in rows {
            agents.add(AgentView::from_row(row)?);
        }
        Ok(agents)
    }
}

impl AgentView {
    fn from_row(row: &AgentRow) -> Result<Self, Error> {
        let bad = |what| damaged(&row.id, what);
        let terms = terms(row)?;
        let figures = |json: &str| serde_json::from_str(json).map_err(|_| bad("figures"));
        let contract: ContractSummary =
            serde_json::from_str(&terms.contract_json).map_err(|_| bad("contract"))?;
        let ContractSummary { step, execution, permissions } = contract;
        let created_at_ms = terms.created_at_ms;
        let mut agent =
            Self::new(row.id.clone(), &terms.definition, &step.title, &execution.model, created_at_ms);
        agent.skill = execution.skill.as_deref().map(printable::line);
        agent.turn_limit = execution.max_turns;
        agent.can_write = can_write(&permissions.allowed_tools);
        agent.state = row.state;
        agent.final_status = row.final_status;
        agent.close_reason = row.close_reason;
        agent.failure.clone_from(&row.error);
        agent.own = figures(&row.usage_json)?;
        agent.subtree = figures(&row.subtree_usage_json)?;
        agent.completed_at_ms = row.completed_at_ms;
        Ok(agent)
    }
}

impl AgentRecord {
    /// The agent of this row, given its view in the whole run.
    pub(crate) fn from_row(mut row: AgentRow, agent: &AgentView) -> Result<Self, Error> {
        let contract = Contract::from_json(&terms(&row)?.contract_json);
        let contract = contract.map_err(|_| damaged(&row.id, "contract"))?;
        Ok(Self { agent: agent.clone(), contract, report: row.result.take(), row })
    }

    /// Everything that decides what the agent may do.
    pub(crate) fn authority(&self) -> Result<Authority, Error> {
        authority(&self.row)
    }
}

/// Everything that decides what the agent of a row may do.
pub(crate) fn authority(row: &AgentRow) -> Result<Authority, Error> {
    let read = serde_json::from_str(&terms(row)?.permissions_json);
    read.map_err(|_| damaged(&row.id, "permissions"))
}

fn terms(row: &AgentRow) -> Result<&AgentTerms, Error> {
    let terms = row.terms.as_ref().ok_or_else(|| damaged(&row.id, "terms"))?;
    // The depth in the row is not used but must agree: tables are grouped by the depth of the id.
    if terms.depth != row.id.depth() {
        return Err(damaged(&row.id, "depth"));
    }
    Ok(terms)
}
