//! Reads what the screen shows, and does what the user asked for.

use posse::view::BlockedAgents;
use posse::{
    AgentId, DiffForm, DiffOptions, FoundQuestions, PendingQuestion, Posse, QuestionScope, RunId,
    StoredApproval,
};

use super::page::Page;
use super::state::{Request, Tab};
use super::update::{Effect, Input};
use crate::commands::trace;
use crate::error::CliError;
use crate::questions::not_stored;

/// How many of the newest runs are listed.
const RUNS_MAX: u32 = 1_000;
/// How many of the last events a journal shows at first.
const JOURNAL_MAX_EVENTS: u64 = 5_000;

/// Performs an effect. A problem becomes a note.
pub(super) async fn perform(posse: Posse, effect: Effect) -> Option<Input> {
    let done = match effect {
        Effect::Quit => return None,
        Effect::LoadRuns => runs(&posse).await.map(Some),
        Effect::Open(run) => open(&posse, &run).await.map(Some),
        Effect::LoadPage(tab, agent) => {
            page(&posse, tab, agent).await.map(|page| Some(Input::Page(Box::new(page))))
        }
        Effect::Send(agent, text) => send(&posse, &agent, &text).await.map(Some),
        Effect::Perform(request) => request_done(&posse, request).await.map(|note| note.map(Input::Note)),
    };
    done.unwrap_or_else(|error| Some(Input::Note(error.text())))
}

async fn runs(posse: &Posse) -> Result<Input, CliError> {
    let runs = posse.listed_runs(RUNS_MAX, |_| true).await?;
    let is_waiting = runs.iter().any(|run| run.blocked.questions().unanswered().next().is_some());
    let mut questions: Vec<PendingQuestion> = Vec::new();
    if is_waiting {
        let FoundQuestions { unanswered, .. } = posse.find_questions(&QuestionScope::AllRuns, None).await?;
        questions = unanswered.into_iter().map(|(_, question)| question).collect();
    }
    Ok(Input::Runs(runs, questions))
}

async fn open(posse: &Posse, run: &RunId) -> Result<Input, CliError> {
    let view = posse.view(run).await?;
    let tracks = posse.tracks(run).await?;
    Ok(Input::Run(Box::new(view), tracks))
}

async fn page(posse: &Posse, tab: Tab, agent: AgentId) -> Result<Page, CliError> {
    let run = agent.run();
    match tab {
        Tab::Diff => {
            let options = DiffOptions { form: DiffForm::Patch, colour: false };
            let diff = posse.diff(&agent, options).await?;
            let mut page = Page::new(tab, agent, u64::MAX);
            page.push_diff(&diff);
            Ok(page)
        }
        Tab::Contract => {
            let record = posse.agent(&agent).await?;
            let mut page = Page::new(tab, agent, u64::MAX);
            page.push_contract(&record);
            Ok(page)
        }
        Tab::Conversation => {
            let record = posse.agent(&agent).await?;
            let is_open = record.agent.final_status.is_none();
            let blocked = if is_open { posse.blocked(&run).await? } else { BlockedAgents::default() };
            let mut page = Page::new(tab, agent, 0);
            page.push_text(&trace::heading(&record, &blocked, posse.summary(&run).await?.shown_status()));
            fill(posse, page, 0).await
        }
        _ => {
            let head = posse.summary(&run).await?.events;
            let after = head.saturating_sub(JOURNAL_MAX_EVENTS);
            fill(posse, Page::new(tab, agent, after), after).await
        }
    }
}

/// Adds the events after this number that are written so far.
async fn fill(posse: &Posse, mut page: Page, after: u64) -> Result<Page, CliError> {
    let mut events = posse.events(&page.agent.run(), after);
    while let Some(event) = events.try_next().await? {
        page.apply(&event);
    }
    Ok(page)
}

async fn send(posse: &Posse, agent: &AgentId, text: &str) -> Result<Input, CliError> {
    posse.send(agent, text).await?;
    Ok(Input::Note(format!("sent to {agent}")))
}

async fn request_done(posse: &Posse, request: Request) -> Result<Option<String>, CliError> {
    match request {
        Request::Cancel(agent) => {
            posse.cancel(&agent, "cancelled by the user").await?;
            Ok(Some(format!("{agent} will be cancelled")))
        }
        Request::Answer(question, answer) => match posse.answer(&question, answer).await {
            Err(posse::Error::NotAsked { .. }) => Ok(Some("answered elsewhere".to_owned())),
            Ok(StoredApproval::Failed(error)) => Ok(Some(not_stored(error).text())),
            Ok(StoredApproval::None | StoredApproval::Stored { .. }) => {
                Ok(Some(format!("answered {}", question.agent)))
            }
            Err(error) => Err(error.into()),
        },
    }
}
