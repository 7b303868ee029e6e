//! The reports of agents: their text, and files with it for users.

use std::collections::HashMap;
use std::path::PathBuf;

use posse_domain::code::Code;
use posse_domain::event::{CheckRecord, EventBody, EventKind};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{FailureReason, with_code};
use posse_engine::ports::ReportFile;

use crate::view::{AgentRecord, Agents, ViewEvent, ViewPart};
use crate::work::unusable;
use crate::{Error, Posse};

/// The files with the reports of sub-agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportFiles {
    /// Their folder beneath the state directory of the run. It has one folder for each parent.
    pub dir: PathBuf,
    /// How many there are.
    pub count: usize,
}

impl Posse {
    /// The report of an agent, as Markdown; for a failed agent the reason, and its last text. `None` if it has not
    /// ended.
    pub async fn report(&self, agent: &AgentId) -> Result<Option<String>, Error> {
        Ok(self.agent(agent).await?.into_report())
    }

    /// Writes the reports of an agent and of the agents beneath it to files, as their contracts name them, and returns
    /// where they are. The root's report has no file, nor has that of an agent that has not ended. `None` if there is no
    /// file, or nowhere to write one. A file that exists is not written again.
    pub async fn write_reports(&self, agent: &AgentId) -> Result<Option<ReportFiles>, Error> {
        let run = agent.run();
        self.sound(&run).await?;
        let Some(files) = &self.files else { return Ok(None) };
        let rows = self.store.agents(&self.key(&run)).await?;
        let agents = Agents::from_rows(&rows)?;
        let mut reports = Vec::new();
        for row in rows {
            let Some(parent) = row.id.parent().filter(|_| agent.contains(&row.id)) else { continue };
            let Some(view) = agents.get(&row.id) else { continue };
            let record = AgentRecord::from_row(row, view)?;
            let path = record.contract.report_path();
            reports.extend(record.into_report().map(|text| ReportFile { parent, path, text }));
        }
        if reports.is_empty() {
            return Ok(None);
        }
        let count = reports.len();
        let dir = files.write_reports(&run, reports).await.map_err(unusable(&run))?;
        Ok(Some(ReportFiles { dir, count }))
    }
}

impl Posse {
    /// The newest checks of an agent's work, in the order of execution, without their long output.
    pub async fn checks(&self, agent: &AgentId) -> Result<Vec<CheckRecord>, Error> {
        let mut checks: Checks = self.fold(&agent.run()).await?;
        Ok(checks.agents.remove(agent).unwrap_or_default())
    }
}

/// The newest checks of each agent.
#[derive(Default)]
struct Checks {
    agents: HashMap<AgentId, Vec<CheckRecord>>,
}

impl ViewPart for Checks {
    fn needs(&self, kind: EventKind) -> bool {
        matches!(kind, EventKind::ChecksPassed | EventKind::ChecksFailed)
    }

    fn apply(&mut self, event: &ViewEvent<'_>) {
        let checks = match event.body {
            EventBody::ChecksPassed(e) => &e.checks,
            EventBody::ChecksFailed(e) => &e.checks,
            _ => return,
        };
        self.agents.insert(event.agent.clone(), checks.clone());
    }
}

impl AgentRecord {
    /// The report, or why the agent failed with its last text. `None` if it has not ended.
    fn into_report(self) -> Option<String> {
        let Self { agent, report, .. } = self;
        let Some(FailureReason { code, reason }) = agent.failure else {
            return report.filter(|_| agent.final_status.is_some() || agent.id.is_root());
        };
        let failed = match code {
            Code::Cancelled => format!("Cancelled: {reason}"),
            code => format!("Failed: {}", with_code(&reason, code)),
        };
        Some(match report {
            Some(report) => format!("{failed}\n\nIts report:\n\n{report}"),
            None => failed,
        })
    }
}
