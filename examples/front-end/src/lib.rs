//! The smallest front end: what a server does between a request in JSON and a run, with `posse` and `posse-setup`
//! alone. It reads no variable of its process and prints nothing, because a server serves other users than the one
//! who started it.

#![warn(missing_docs)]

use std::path::PathBuf;

use posse::{Answer, EventBody, Events, PendingQuestion, Posse, RunHandle, StoredApproval};
use posse_setup::draft::PlanInput;
use posse_setup::settings::{Settings, WithOrigin};
use posse_setup::{
    Environment, Notes, OpenError, PreparedRun, RunDirectory, RunDraft, Setup, SetupError, WithNotes,
};
use serde::Deserialize;

/// The request type of this front end. A field that it does not know is refused: a misspelled limit would limit nothing.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartRequest {
    /// The task.
    pub text: String,
    /// The name of the root's definition.
    pub agent: Option<String>,
    /// The working directory.
    pub dir: PathBuf,
    /// The most levels of sub-agents.
    pub max_depth: Option<u32>,
    /// The plan that the host executes, as YAML or JSON.
    pub plan: Option<String>,
}

impl From<StartRequest> for RunDraft {
    fn from(request: StartRequest) -> Self {
        // Errors and notes name a setting as this front end does.
        let max_depth = WithOrigin::request(request.max_depth, "max_depth");
        RunDraft {
            text: Some(request.text),
            agent: request.agent,
            dir: Some(request.dir),
            plan: request.plan.map(PlanInput::Text),
            settings: Settings { max_depth, ..Settings::default() },
            ..RunDraft::default()
        }
    }
}

/// Why a request did not become a run. Nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The request is not in the form of [`StartRequest`].
    #[error("the request cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// The request, or what the user set up, is invalid.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The run could not be started.
    #[error(transparent)]
    Posse(#[from] posse::Error),
}

impl From<OpenError> for Refusal {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Setup(error) => error.into(),
            OpenError::Posse(error) => error.into(),
        }
    }
}

/// A run that can be started, with the directory that it works in.
pub struct ReadyRun {
    /// The settings, models and definitions of its directory.
    pub directory: RunDirectory,
    /// The run itself.
    pub run: PreparedRun,
}

/// A front end for one user.
pub struct FrontEnd {
    /// The user's environment, and what the front end adds to it.
    pub setup: Setup,
}

impl FrontEnd {
    /// A front end for the user of this environment.
    pub fn new(environment: Environment) -> Self {
        Self { setup: Setup::new(environment) }
    }

    /// Converts a request into a run. The notes are for the user even if there is an error.
    pub async fn prepare(&self, json: &str) -> WithNotes<Result<ReadyRun, Refusal>> {
        let mut notes = Notes::none();
        let value = self.convert(json, &mut notes).await;
        WithNotes::new(value, notes)
    }

    async fn convert(&self, json: &str, notes: &mut Notes) -> Result<ReadyRun, Refusal> {
        let draft = RunDraft::from(serde_json::from_str::<StartRequest>(json)?);
        let directory = notes.take(RunDirectory::load(&draft, &self.setup))?;
        let run = notes.take(draft.prepare(&directory, &self.setup).await)?;
        Ok(ReadyRun { directory, run })
    }

    /// Starts a run in this process, with an approver who answers its questions.
    pub async fn start(&self, ready: ReadyRun) -> Result<StartedRun, Refusal> {
        let ReadyRun { directory, run } = ready;
        let posse = directory.open(&run.local, &self.setup)?;
        let handle = posse.start_request(run.request, true).await?;
        let events = posse.events(handle.id(), 0);
        Ok(StartedRun { posse, handle, events })
    }
}

/// A run that this process executes.
pub struct StartedRun {
    /// The facade, opened with the settings of the run's directory.
    pub posse: Posse,
    /// The run itself.
    pub handle: RunHandle,
    events: Events,
}

impl StartedRun {
    /// Waits for the next question of the run; `None` if it ends before that.
    pub async fn next_question(&mut self) -> Result<Option<PendingQuestion>, posse::Error> {
        loop {
            let event = self.events.next().await?;
            match event.body {
                EventBody::InputRequested(_) => {
                    let open = self.posse.pending_questions(self.handle.id()).await?;
                    let asked =
                        |question: &PendingQuestion| question.seq == event.seq && !question.is_answered;
                    if let Some(question) = open.into_iter().find(asked) {
                        return Ok(Some(question));
                    }
                }
                EventBody::RunCompleted(_) | EventBody::RunFailed(_) | EventBody::RunCancelled(_) => {
                    return Ok(None);
                }
                _ => {}
            }
        }
    }

    /// Allows what a question asks about, also in later runs of the same directory.
    pub async fn allow_always(&self, question: &PendingQuestion) -> Result<StoredApproval, posse::Error> {
        self.posse.answer(question, Answer::Always).await
    }
}
