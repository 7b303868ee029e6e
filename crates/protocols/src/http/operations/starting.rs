//! Operations that start runs: new ones, and those that continue, retry or replay an earlier one.

use std::path::{Path, PathBuf};

use axum::http::StatusCode;
use posse::api::TokenRight;
use posse::{AgentId, EndedAgent, RunId, api};
use posse_setup::draft::PlanInput;
use posse_setup::plan;
use posse_setup::{Notes, RunDraft};

use super::super::idempotency::RequestKey;
use super::super::limits::KEYED_RUNS_MAX;
use super::super::problem::{Problem, ProblemCode};
use super::super::refusal::note_line;
use super::super::reply::Reply;
use super::super::requests::{self, ContinueRun, ReplayRun, RetryRun, StartRun};
use super::Call;

/// What an earlier run has set, in errors and notes about a run that continues it.
const EARLIER: &str = "run";
/// The beginnings of names of models that are files of the server's machine, or recorded runs.
const OF_FILES: [&str; 2] = ["scripted/", "replay/"];

/// Starts a run.
pub(super) async fn start(call: Call) -> Result<Reply, Problem> {
    let request: StartRun = requests::read(&call.body)?;
    let draft = request.draft(call.key.as_ref().map(RequestKey::session))?;
    let draft = limited(draft, &call)?;
    let dir = match draft.dir {
        None => call.default_dir()?,
        Some(dir) => {
            call.check_dir(&dir)?;
            Some(dir)
        }
    };
    Box::pin(start_draft(&call, RunDraft { dir, ..draft })).await
}

/// Starts a run that continues the conversation of an agent that has ended.
pub(super) async fn continue_agent(call: Call) -> Result<Reply, Problem> {
    let request: ContinueRun = requests::read(&call.body)?;
    let draft = limited(request.draft(call.key.as_ref().map(RequestKey::session))?, &call)?;
    let earlier = ended(&call).await?;
    Box::pin(start_draft(&call, draft.follow_up(&earlier, EARLIER))).await
}

/// Starts a run that does the work of a run or an agent again.
pub(super) async fn retry(call: Call) -> Result<Reply, Problem> {
    let request: RetryRun = requests::read(&call.body)?;
    let draft = limited(request.draft(call.key.as_ref().map(RequestKey::session))?, &call)?;
    let earlier = ended(&call).await?;
    Box::pin(start_draft(&call, draft.retry(earlier, EARLIER)?)).await
}

/// Starts a replay of a run.
pub(super) async fn replay(call: Call) -> Result<Reply, Problem> {
    let request: ReplayRun = requests::read(&call.body)?;
    let recorded = call.run().await?;
    call.check_dir(Path::new(&recorded.dir))?;
    let draft = request.draft(&recorded.run, call.key.as_ref().map(RequestKey::session))?;
    check_approvals(draft.permissions.allow.is_empty(), &call)?;
    let mut notes = Notes::none();
    let run = if let Some(run) = already_started(&call).await? {
        run
    } else {
        let slot = call.tenant.host.slot()?;
        call.tenant.host.replay(slot, draft, &call.tenant.setup, &mut notes).await?
    };
    Reply::with_status(StatusCode::CREATED, &started(&run, &notes))
}

/// The agent in the path, which must have ended. The caller may start runs where it worked.
async fn ended(call: &Call) -> Result<EndedAgent, Problem> {
    let run = call.run().await?.run;
    let agent: AgentId = call.agent(&run)?;
    let earlier = call.tenant.posse.ended_agent(&agent).await?;
    call.check_dir(Path::new(&earlier.request.dir))?;
    Ok(earlier)
}

async fn start_draft(call: &Call, draft: RunDraft) -> Result<Reply, Problem> {
    let mut notes = Notes::none();
    let run = if let Some(run) = already_started(call).await? {
        run
    } else {
        let slot = call.tenant.host.slot()?;
        call.tenant.host.start(slot, draft, &call.tenant.setup, &mut notes).await?
    };
    Reply::with_status(StatusCode::CREATED, &started(&run, &notes))
}

/// The run that an earlier request with the same key has started, maybe before the server was killed.
async fn already_started(call: &Call) -> Result<Option<RunId>, Problem> {
    let Some(key) = &call.key else { return Ok(None) };
    let runs = call.tenant.posse.runs("", KEYED_RUNS_MAX).await?;
    let found = runs.into_iter().find_map(|run| Some((key.started(run.session_id.as_deref())?, run.run)));
    match found {
        Some((false, _)) => Err(RequestKey::conflict()),
        found => Ok(found.map(|(_, run)| run)),
    }
}

/// A run that was started, with what the user should know.
pub(super) fn started(run: &RunId, notes: &Notes) -> api::StartedRun {
    api::StartedRun { run: run.to_string(), notes: notes.iter().map(note_line).collect() }
}

/// Refuses what only the operator of the server may choose: it would read files of the machine, or send the keys of model
/// providers elsewhere.
fn limited(draft: RunDraft, call: &Call) -> Result<RunDraft, Problem> {
    check_approvals(draft.permissions.allow.is_empty(), call)?;
    if call.caller.is_operator() {
        return Ok(draft);
    }
    if draft.settings.base_url.is_some() {
        return Err(for_operators(
            "base_url",
            "the key of a model provider would be sent to another address",
        ));
    }
    if draft.settings.model.as_ref().is_some_and(|model| is_of_file(&model.value)) {
        return Err(for_operators("settings.model", "the model is a file of the server's machine"));
    }
    if let Some(PlanInput::Text(text)) = &draft.plan {
        check_plan_models(text, call)?;
    }
    Ok(draft)
}

/// Refuses a plan with a step whose model is a file, unless the operator sends it.
pub(super) fn check_plan_models(plan: &str, call: &Call) -> Result<(), Problem> {
    if call.caller.is_operator() || !plan::parse(plan).models().into_iter().any(is_of_file) {
        return Ok(());
    }
    Err(for_operators("plan", "the model of a step is a file of the server's machine"))
}

/// Whether a model is a file of the machine, or a recorded run.
fn is_of_file(model: &str) -> bool {
    OF_FILES.iter().any(|start| model.starts_with(start))
}

/// The problem with what only the operator of the server may choose.
fn for_operators(field: &str, detail: &str) -> Problem {
    let problem = Problem::new(StatusCode::FORBIDDEN, ProblemCode::RightMissing, detail);
    problem.field(field).remedy("only a token of the operator, with the right `admin`, may do that")
}

/// Who may not answer questions may not answer them in advance.
fn check_approvals(is_empty: bool, call: &Call) -> Result<(), Problem> {
    if is_empty || call.caller.may(TokenRight::Answer) {
        return Ok(());
    }
    let detail = "the token does not have the right `answer`, so it cannot approve operations in advance";
    Err(Problem::new(StatusCode::FORBIDDEN, ProblemCode::RightMissing, detail).field("allow"))
}

impl Call {
    /// The directory of a request that names none; `None` for the server's own.
    fn default_dir(&self) -> Result<Option<PathBuf>, Problem> {
        if self.caller.is_operator() {
            return Ok(None);
        }
        let first = self.state.projects(&self.caller).into_iter().next();
        first.map(|project| Some(PathBuf::from(project.dir))).ok_or_else(|| self.dir_refused())
    }
}
