//! API type of the report of an agent.

use posse_domain::event::CheckRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CloseReason;
use crate::view::AgentRecord;

/// The report of a run, or of one of its agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportResult {
    /// The run's id.
    pub run: String,
    /// The agent; the root, whose id is that of the run, stands for the run.
    pub agent: String,
    /// The state of its lifecycle.
    pub state: crate::AgentState,
    /// How it ended.
    pub final_status: Option<crate::FinalStatus>,
    /// `integrated`, or the kind of its failure.
    pub close_reason: Option<CloseReason>,
    /// Whether its turn limit cut off its work.
    pub turns_exhausted: bool,
    /// The report, as Markdown; if the agent failed, the reason and its last text.
    pub report: String,
    /// The checks of its work, in the order of execution.
    pub checks: Vec<CheckResult>,
    /// The folder with the reports of sub-agents, its own and those beneath it; null if there are none.
    pub dir: Option<String>,
}

/// A check of an agent's work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckResult {
    /// The command.
    pub command: String,
    /// Whether it passed.
    pub ok: bool,
    /// How the command ended: an exit code, a signal, its timeout, or why it did not run.
    pub ended: String,
    /// How long it took.
    pub elapsed_ms: u64,
}

impl ReportResult {
    /// Converts an agent with its report and its checks.
    pub fn new(record: &AgentRecord, report: String, checks: &[CheckRecord], dir: Option<String>) -> Self {
        let agent = &record.agent;
        let check = |check: &CheckRecord| CheckResult {
            command: check.command.clone(),
            ok: check.ok,
            ended: check.ended.clone(),
            elapsed_ms: check.elapsed_ms,
        };
        Self {
            run: agent.id.run().to_string(),
            agent: agent.id.to_string(),
            state: agent.state,
            final_status: agent.final_status,
            close_reason: agent.close_reason.map(Into::into),
            turns_exhausted: agent.is_turn_limited(),
            report,
            checks: checks.iter().map(check).collect(),
            dir,
        }
    }
}
