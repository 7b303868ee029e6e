//! Operations that send commands to runs, and answer their questions.

use axum::http::StatusCode;
use posse::api::CancelState;
use posse::{AgentId, AgentState, QuestionScope, StoredApproval, api};
use posse_setup::Notes;

use super::super::hosting::{ResumeOutcome, held};
use super::super::problem::{Problem, ProblemCode};
use super::super::reply::Reply;
use super::super::requests::{self, AnswerQuestion, EndRun, QuestionDecision, SendMessage};
use super::starting::started;
use super::{Call, agent_of};

/// The reason of a client that gives none.
const REASON: &str = "cancelled by the user";

/// Takes over an interrupted run.
pub(super) async fn resume(call: Call) -> Result<Reply, Problem> {
    let run = call.run().await?;
    if !run.status.is_running() {
        return Err(posse::Error::Ended { run: run.run, status: run.status }.into());
    }
    let slot = call.tenant.host.slot()?;
    let mut notes = Notes::none();
    let tenant = &call.tenant;
    let resumed = tenant.host.resume(slot, &run, &tenant.posse, &tenant.setup, &mut notes).await;
    match resumed? {
        ResumeOutcome::Executed => Reply::with_status(StatusCode::ACCEPTED, &started(&run.run, &notes)),
        ResumeOutcome::Held(holder) => Err(held(&run.run, &holder)),
        ResumeOutcome::Ended => {
            let status = tenant.posse.summary(&run.run).await?.status;
            Err(posse::Error::Ended { run: run.run, status }.into())
        }
    }
}

/// Cancels a run or an agent.
pub(super) async fn cancel(call: Call) -> Result<Reply, Problem> {
    end(call, false).await
}

/// Cancels a run or an agent, and stops its tool calls at once.
pub(super) async fn kill(call: Call) -> Result<Reply, Problem> {
    end(call, true).await
}

async fn end(call: Call, at_once: bool) -> Result<Reply, Problem> {
    let request: EndRun = requests::read(&call.body)?;
    let run = call.run().await?.run;
    let agent = match &request.agent {
        Some(agent) => agent_of(&run, agent)?,
        None => run.root(),
    };
    let posse = &call.tenant.posse;
    let reason = request.reason.as_deref().unwrap_or(REASON);
    if at_once {
        posse.kill(&agent, reason).await?;
    } else {
        posse.cancel(&agent, reason).await?;
    }
    // No process may execute the run. Then this one takes it over to end it.
    let is_interrupted = agent.is_root() && posse.summary(&run).await?.holder.is_none();
    // Without a free slot, the next process that resumes the run ends it.
    if is_interrupted && let Ok(slot) = call.tenant.host.slot() {
        call.tenant.host.resume_with(slot, posse.clone(), &run).await?;
    }
    let state =
        if is_executed(&call, &agent).await? { CancelState::Requested } else { CancelState::AtResume };
    Reply::with_status(StatusCode::ACCEPTED, &api::CancelResult::new(&agent, state, None))
}

/// Sends a message to an agent.
pub(super) async fn send(call: Call) -> Result<Reply, Problem> {
    let request: SendMessage = requests::read(&call.body)?;
    if request.text.trim().is_empty() {
        let problem =
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, ProblemCode::Refused, "the message is empty");
        return Err(problem.field("text"));
    }
    let run = call.run().await?.run;
    let agent = call.agent(&run)?;
    let posse = &call.tenant.posse;
    let state = posse.current_state(&run).await?;
    let is_closed = state.agents().get(&agent).is_some_and(|known| known.state == AgentState::Closed);
    if is_closed && state.status().is_running() {
        let detail = format!("agent {agent} has finished; it cannot receive messages");
        return Err(Problem::conflict(ProblemCode::AgentEnded, detail));
    }
    posse.send(&agent, &request.text).await?;
    let sent = api::SentMessage::new(&agent, is_executed(&call, &agent).await?);
    Reply::with_status(StatusCode::ACCEPTED, &sent)
}

/// Whether a process executes the run of an agent.
async fn is_executed(call: &Call, agent: &AgentId) -> Result<bool, Problem> {
    Ok(call.tenant.posse.summary(&agent.run()).await?.holder.is_some())
}

/// Answers a question.
pub(super) async fn answer(call: Call) -> Result<Reply, Problem> {
    let request: AnswerQuestion = requests::read(&call.body)?;
    let answer = request.answer()?;
    let run = call.run().await?.run;
    let scope = match &request.agent {
        Some(agent) => QuestionScope::Agent(agent_of(&run, agent)?),
        None => QuestionScope::Run(run),
    };
    let posse = &call.tenant.posse;
    let mut found = posse.find_questions(&scope, request.call_id.as_deref()).await?.unanswered;
    found.retain(|(_, question)| question.approval.to_string() == request.approval);
    let not_asked = |detail: &str| Problem::conflict(ProblemCode::NotAsked, detail);
    let (info, question) = match (found.pop(), found.is_empty()) {
        (Some(one), true) => one,
        (Some(_), false) => {
            return Err(not_asked("several calls ask the same; nothing was answered")
                .remedy("name the `agent` and the `call_id` of one question"));
        }
        (None, _) => {
            return Err(not_asked("no call waits for this answer, or no longer").field("approval"));
        }
    };
    if request.decision == QuestionDecision::Always && question.always.is_none() {
        let detail = format!("`always` has no effect: {} asks every time", question.why());
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, ProblemCode::Refused, detail)
            .field("decision")
            .remedy("allow it once; nothing was answered"));
    }
    if let StoredApproval::Failed(error) = posse.answer(&question, answer.clone()).await? {
        tracing::warn!(%error, "an approval was given, and is not stored for later runs");
    }
    Reply::object(&api::Answer::new(&question, &answer, info.holder.is_some()))
}
