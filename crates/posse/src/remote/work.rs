//! What a server answers about the work of its runs, as the values that the facade returns for runs of this machine.

use posse_domain::budget::Figures;
use posse_domain::object_id::ObjectId;
use posse_engine::ports::{ApplyPlan, ApplySummary, PlannedFile, PlannedWrite};
use serde_json::json;

use super::store::{milliseconds, usage};
use super::{ServerClient, ServerError};
use crate::api::{self, FigureValues, Total};
use crate::view::{SpendingOfRuns, SpendingTotal, TotalsByName};
use crate::{AgentId, AppliedRun, ApplyWhich, CheckedApply, Error, RunId, SalvagedWork};

impl ServerClient {
    /// Applies the work of an agent to the directory of its run, on the server's machine.
    pub(crate) async fn apply(&self, agent: &AgentId, which: ApplyWhich) -> Result<AppliedRun, Error> {
        let body = json!({ "agent": agent, "unfinished": which == ApplyWhich::Ended });
        self.applied(agent, &body).await
    }

    /// Takes back what the last apply of an agent wrote.
    pub(crate) async fn undo_apply(&self, agent: &AgentId) -> Result<AppliedRun, Error> {
        self.applied(agent, &json!({ "agent": agent, "undo": true })).await
    }

    async fn applied(&self, agent: &AgentId, body: &serde_json::Value) -> Result<AppliedRun, Error> {
        let run = agent.run();
        let result: api::ApplyResult = self.post(&format!("/api/v1/runs/{run}/apply"), body).await?;
        let api::ApplyResult { dir, files, merged, already, .. } = result;
        let dir = dir.ok_or(Error::NoFiles(run))?.into();
        Ok(AppliedRun { dir, applied: Some(ApplySummary { files, merged, already }) })
    }

    /// What an apply would write.
    pub(crate) async fn check_apply(
        &self,
        agent: &AgentId,
        which: ApplyWhich,
    ) -> Result<CheckedApply, Error> {
        let run = agent.run();
        let unfinished = if which == ApplyWhich::Ended { "true" } else { "false" };
        let query = [("agent", agent.as_str()), ("unfinished", unfinished)];
        let check: api::ApplyCheck = self.get(&format!("/api/v1/runs/{run}/apply"), &query).await?;
        let planned = |file: api::PlannedFile| PlannedFile {
            path: file.path,
            write: match file.write {
                api::PlannedWrite::Add => PlannedWrite::Add,
                api::PlannedWrite::Change => PlannedWrite::Change,
                api::PlannedWrite::Merge => PlannedWrite::Merge,
                api::PlannedWrite::Remove => PlannedWrite::Remove,
            },
        };
        let api::ApplyCheck { dir, files, merged, already, .. } = check;
        let plan = ApplyPlan {
            files: check.planned.into_iter().map(planned).collect(),
            summary: ApplySummary { files, merged, already },
        };
        let changes_none = plan == ApplyPlan::default();
        Ok(CheckedApply {
            dir: dir.ok_or(Error::NoFiles(run))?.into(),
            plan: (!changes_none).then_some(plan),
        })
    }

    /// The salvaged work of a run.
    pub(crate) async fn salvages(&self, run: &RunId) -> Result<Vec<SalvagedWork>, Error> {
        let list: api::SalvageList = self.get(&format!("/api/v1/runs/{run}/salvage"), &[]).await?;
        let read = |work: api::Salvage| {
            let commit = |text: Option<String>| text.map(|text| text.parse::<ObjectId>().ok());
            // A commit that is none is the server's mistake, not work that was not kept.
            Some(SalvagedWork {
                agent: work.agent.parse().ok()?,
                attempt: work.attempt,
                at_ms: milliseconds(&work.at)?,
                commit: commit(work.commit).map_or(Some(None), |commit| commit.map(Some))?,
                files: work.files,
                git: commit(work.git).map_or(Some(None), |commit| commit.map(Some))?,
                left_out: work.left_out,
                left_out_count: work.left_out_count,
                problem: work.problem,
            })
        };
        let read: Option<Vec<SalvagedWork>> = list.salvages.into_iter().map(read).collect();
        read.ok_or_else(|| self.unreadable("salvaged work").into())
    }

    /// What all runs spent. The days are those of UTC.
    pub(crate) async fn spending(&self) -> Result<SpendingOfRuns, Error> {
        let all: api::AllStats = self.get("/api/v1/stats", &[]).await?;
        let by = |totals: Vec<Total>, name: fn(&Total) -> Option<&String>| -> Option<TotalsByName> {
            totals.iter().map(|total| Some((name(total)?.clone(), sum(total)))).collect()
        };
        let by_model = by(all.by_model, |total| total.model.as_ref());
        let by_day = by(all.by_day, |total| total.day.as_ref());
        let unreadable = || Error::from(self.unreadable("sums"));
        Ok(SpendingOfRuns {
            runs: all.runs,
            replays: all.replays_left_out,
            total: sum(&all.total),
            by_model: by_model.ok_or_else(unreadable)?,
            by_day: by_day.ok_or_else(unreadable)?,
        })
    }

    fn unreadable(&self, what: &str) -> ServerError {
        self.unreachable(format!("its answer is not of the API: it has {what} without what belongs to it"))
    }
}

fn sum(total: &Total) -> SpendingTotal {
    let FigureValues { turns, tool_calls, wall_ms, usage: spent } = &total.figures;
    let figures = Figures {
        turns: *turns,
        tool_calls: *tool_calls,
        wall_ms: *wall_ms,
        usage: usage(spent),
        ..Figures::default()
    };
    SpendingTotal { agents: total.agents, figures }
}
