//! Operations that read runs and their agents.

use std::collections::HashSet;
use std::path::Path;

use posse::{CloseReason, FailKind, QuestionScope, RunId, RunSummary, TimeZone, api};
use posse_setup::hooks_before;
use posse_setup::project_runs::Project;

use super::super::assets::now_ms;
use super::super::hosting::blocking;
use super::super::limits::{RUNS_MEANWHILE_MAX, RUNS_PAGE, RUNS_SEARCHED_MAX};
use super::super::problem::{Problem, ProblemCode};
use super::super::reply::Reply;
use super::Call;

/// The words of every status of a run in a list.
pub(super) const STATUSES: &[&str] =
    &["running", "waiting", "interrupted", "completed", "turn-limit", "failed", "cancelled", "damaged"];

/// Lists runs.
pub(super) async fn list(call: Call) -> Result<Reply, Problem> {
    let limit = usize::try_from(call.query.number("limit").unwrap_or(RUNS_PAGE).max(1)).unwrap_or(usize::MAX);
    let cursor = call.query.one("cursor").map(Cursor::read).transpose()?;
    let environment = &call.tenant.setup.environment;
    let project = call.query.one("dir").map(|dir| Project::of(Path::new(dir), environment));
    let statuses: Vec<&str> = call.query.all("status").collect();
    let posse = &call.tenant.posse;
    let prefix = call.query.one("prefix").unwrap_or_default();
    let all = posse.runs(prefix, RUNS_SEARCHED_MAX).await?;
    let mut wanted = cursor.map_or(&all[..], |cursor| cursor.rest(&all)).to_vec();
    wanted.retain(|run| project.as_ref().is_none_or(|project| project.has(run)));
    if statuses.is_empty() {
        // One more shows whether there is another page.
        wanted.truncate(limit.saturating_add(1));
    }
    let ids: HashSet<RunId> = wanted.into_iter().map(|run| run.run).collect();
    let last = all.iter().rposition(|run| ids.contains(&run.run)).map_or(0, |at| at + 1);
    // The place among all runs is known only if all were looked at.
    let last = if prefix.is_empty() { last } else { usize::MAX };
    let among = u32::try_from(last).unwrap_or(u32::MAX).saturating_add(RUNS_MEANWHILE_MAX);
    let mut listed = posse.listed_runs(among, |run| ids.contains(&run.run)).await?;
    listed.retain(|run| statuses.is_empty() || statuses.contains(&run.status().as_str()));
    let has_more = listed.len() > limit;
    listed.truncate(limit);
    let next = listed.last().filter(|_| has_more).map(|last| Cursor::of(&last.run).text());
    let mut runs = Vec::with_capacity(listed.len());
    for run in &listed {
        // A damaged run is listed nevertheless: it must not hide the others.
        let continues = match run.run.damage {
            None => posse.continues(&run.run.run).await?,
            Some(_) => None,
        };
        runs.push(api::RunSummary::new(run, continues.as_ref(), now_ms()));
    }
    Reply::object(&api::RunPage { runs, next })
}

/// A place in the list of runs: after this one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cursor {
    created_at_ms: i64,
    run: RunId,
}

impl Cursor {
    fn of(run: &RunSummary) -> Self {
        Self { created_at_ms: run.created_at_ms, run: run.run.clone() }
    }

    fn text(&self) -> String {
        format!("{}-{}", self.created_at_ms, self.run)
    }

    fn read(text: &str) -> Result<Self, Problem> {
        let read = text.rsplit_once('-').and_then(|(created, run)| {
            Some(Self { created_at_ms: created.parse().ok()?, run: run.parse().ok()? })
        });
        read.ok_or_else(|| Problem {
            code: ProblemCode::InvalidCursor,
            ..Problem::parameter("cursor", "this is not the `next` of a page of runs")
        })
    }

    /// The runs after this place; those that are older, if the run was removed since.
    fn rest<'a>(&self, all: &'a [RunSummary]) -> &'a [RunSummary] {
        let place = all.iter().position(|run| run.run == self.run).map(|at| at + 1);
        let older = || all.iter().position(|run| run.created_at_ms < self.created_at_ms);
        place.or_else(older).and_then(|at| all.get(at..)).unwrap_or_default()
    }
}

/// Shows a run.
pub(super) async fn detail(call: Call) -> Result<Reply, Problem> {
    let run = call.run().await?.run;
    if let Some(event) = call.query.number("at") {
        let view = call.tenant.posse.view_at(&run, event).await?;
        let files = api::FilesOfRun::default();
        return Reply::object(&api::RunDetail::new(&view, view.last_at_ms(), &TimeZone::system(), files));
    }
    shown(&call, &run).await.and_then(|detail| Reply::object(&detail))
}

/// Shows an agent with its subtree.
pub(super) async fn agent(call: Call) -> Result<Reply, Problem> {
    let run = call.run().await?.run;
    let agent = call.agent(&run)?;
    let detail = shown(&call, &run).await?;
    if detail.agents.iter().all(|known| known.id != agent.as_str()) {
        return Err(posse::Error::NoAgent(agent).into());
    }
    Reply::object(&detail.of_subtree(&agent))
}

async fn shown(call: &Call, run: &RunId) -> Result<api::RunDetail, Problem> {
    let posse = call.tenant.reader(run);
    let view = posse.view(run).await?;
    let result = posse.finished(run).await?.and_then(|finished| finished.result);
    let is_unmerged =
        |reason: Option<CloseReason>| reason == Some(CloseReason::Failed(FailKind::Integration));
    // For information only: an unreadable directory must not hide the rest of the run.
    let disk_bytes = posse.disk_bytes(run).await.ok().flatten();
    let conflicts = if view.agents().iter().any(|agent| is_unmerged(agent.close_reason)) {
        posse.merge_conflicts(&run.root()).await.unwrap_or_default()
    } else {
        Vec::new()
    };
    let files = api::FilesOfRun { result: result.as_ref(), conflicts: &conflicts, disk_bytes };
    Ok(api::RunDetail::new(&view, now_ms(), &TimeZone::system(), files))
}

/// Shows how a run ended.
pub(super) async fn outcome(call: Call) -> Result<Reply, Problem> {
    let run = call.run().await?.run;
    match call.tenant.posse.finished(&run).await? {
        Some(finished) => Reply::object(&api::Outcome::new(&finished, None)),
        None => Err(posse::Error::StillRunning(run).into()),
    }
}

/// Shows what a run spent.
pub(super) async fn stats(call: Call) -> Result<Reply, Problem> {
    let run = call.run().await?.run;
    let view = call.tenant.posse.current_state(&run).await?;
    Reply::object(&api::RunStats::new(&view, now_ms()))
}

/// Shows the report of an agent.
pub(super) async fn report(call: Call) -> Result<Reply, Problem> {
    let run = call.run().await?.run;
    let agent = call.agent(&run)?;
    let posse = &call.tenant.posse;
    let record = posse.agent(&agent).await?;
    let report = posse.report(&agent).await?;
    let report = report
        .ok_or_else(|| Problem::conflict(ProblemCode::NotThere, format!("{agent} has not reported yet")))?;
    // For information only: reports that cannot be written to files must not hide this one.
    let files = posse.write_reports(&agent).await.ok().flatten();
    let dir = files.map(|files| files.dir.display().to_string());
    let checks = posse.checks(&agent).await?;
    Reply::object(&api::ReportResult::new(&record, report, &checks, dir))
}

/// Explains why an agent may or may not execute an operation.
pub(super) async fn explain(call: Call) -> Result<Reply, Problem> {
    let found = call.run().await?;
    let agent = call.agent(&found.run)?;
    let operation = call.query.one("operation").unwrap_or_default();
    let explained = call.tenant.posse.explain(&agent, operation).await?;
    let sandbox = if explained.command.is_some() { call.tenant.setup.sandbox_level().await } else { None };
    let tool = operation.split([':', '@']).next().unwrap_or_default().trim().to_owned();
    let setup = call.tenant.setup.clone();
    let hooks = blocking(move || hooks_before(&tool, Path::new(&found.dir), &setup)).await??;
    Reply::object(&api::Explanation::new(&explained).with_sandbox(sandbox).with_hooks(hooks))
}

/// Lists the questions of all runs, or of the run in the path.
pub(super) async fn questions(call: Call) -> Result<Reply, Problem> {
    let scope = if call.part("run").is_empty() {
        QuestionScope::AllRuns
    } else {
        let found = call.run().await?;
        if !found.status.is_running() {
            return Reply::object(&api::QuestionList { questions: Vec::new() });
        }
        QuestionScope::Run(found.run)
    };
    let found = match call.tenant.posse.find_questions(&scope, None).await {
        // It ended since it was found.
        Err(posse::Error::Ended { .. }) => Vec::new(),
        found => found?.unanswered,
    };
    let questions = found.iter().map(|(_, question)| api::Question::new(question)).collect();
    Reply::object(&api::QuestionList { questions })
}

#[cfg(test)]
mod tests {
    use posse::view::ListStatus;

    use super::*;

    #[test]
    fn every_status_of_a_list_can_be_asked_for() {
        assert_eq!(ListStatus::ALL.map(ListStatus::as_str), STATUSES);
    }

    #[test]
    fn a_cursor_reads_as_it_is_written() {
        let cursor = Cursor { created_at_ms: -5, run: "k3f9ab2c".parse().expect("a run") };
        assert_eq!(Cursor::read(&cursor.text()), Ok(cursor));
        for wrong in ["", "-", "5", "5-", "x-k3f9ab2c", "5-k3f", "5 -k3f9ab2c"] {
            assert_eq!(
                Cursor::read(wrong).expect_err("no cursor").code,
                ProblemCode::InvalidCursor,
                "{wrong}"
            );
        }
    }
}
