//! Manages the planner's runs for one goal: one, and one more if its answer has problems.
//!
//! A front end executes [`PlanningSession::request`], passes the report of that run to [`PlanningSession::answered`],
//! and follows the returned step.

use posse::{Posse, RunRequest};
use posse_domain::plan::Plan;

use super::PlanProblem;
use super::planner::{Planner, answer_in, planner_draft};
use crate::Setup;
use crate::draft::{LocalOptions, RunDirectory, RunDraft};
use crate::error::{OpenError, SetupError, Subject};
use crate::notes::{Notes, WithNotes};
use crate::settings::Settings;

/// Asks the planner for a plan, twice at most.
pub struct PlanningSession {
    planner: Planner,
    /// The directory as the planner's own runs find it.
    directory: RunDirectory,
    run: RunRequest,
    is_second: bool,
}

/// The next step after an answer of the planner.
#[derive(Debug)]
pub enum PlanningStep {
    /// The answer is a plan without problems.
    Planned(String),
    /// The answer has problems: execute this run of the planner.
    AskAgain {
        /// The problems of the first answer.
        problems: Vec<PlanProblem>,
        /// The second run.
        request: Box<RunRequest>,
    },
    /// The second answer has problems too.
    Failed {
        /// The second answer.
        answer: String,
        /// The problems of the second answer.
        problems: Vec<PlanProblem>,
    },
}

impl PlanningSession {
    /// Plans for a user. `draft` has the directory and the limits of the planner's runs, and the agent of the run that
    /// will execute the plan. The notes are for the user even if there is an error.
    pub async fn prepare(goal: &str, draft: RunDraft, setup: &Setup) -> WithNotes<Result<Self, SetupError>> {
        let mut notes = Notes::none();
        let directory = match notes.take(RunDirectory::load(&draft, setup)) {
            Ok(directory) => directory,
            Err(error) => return WithNotes::new(Err(error), notes),
        };
        let planner = match draft.judge(&directory, setup) {
            Ok(judge) => Planner::new(goal, judge, &setup.environment.cwd),
            Err(error) => return WithNotes::new(Err(error), notes),
        };
        let value = Self::begin(goal, planner, draft, directory, setup, &mut notes).await;
        WithNotes::new(value, notes)
    }

    /// Plans for a run that executes the plan at once: `draft` is that run, and its text is the goal. The planner gets
    /// the directory, the given definitions and the model of that run, but not its limits. Notes about the directory
    /// were returned with `directory` and are not repeated.
    pub async fn for_run(
        draft: &RunDraft,
        directory: &RunDirectory,
        setup: &Setup,
    ) -> WithNotes<Result<Self, SetupError>> {
        let mut notes = Notes::none();
        let value = Self::begin_for_run(draft, directory, setup, &mut notes).await;
        WithNotes::new(value, notes)
    }

    async fn begin_for_run(
        draft: &RunDraft,
        directory: &RunDirectory,
        setup: &Setup,
        notes: &mut Notes,
    ) -> Result<Self, SetupError> {
        let Some(goal) = &draft.text else {
            return Err(SetupError::about(Subject::Text, "the goal of the plan is missing"));
        };
        let planner = Planner::new(goal, draft.judge(directory, setup)?, &setup.environment.cwd);
        let settings = Settings {
            model: draft.settings.model.clone(),
            base_url: draft.settings.base_url.clone(),
            ..Settings::default()
        };
        let planners = RunDraft {
            dir: draft.dir.clone(),
            agents: draft.agents.clone(),
            settings,
            ..RunDraft::default()
        };
        let planners_directory = RunDirectory::load(&planners, setup).value?;
        Self::begin(goal, planner, planners, planners_directory, setup, notes).await
    }

    async fn begin(
        goal: &str,
        planner: Planner,
        draft: RunDraft,
        directory: RunDirectory,
        setup: &Setup,
        notes: &mut Notes,
    ) -> Result<Self, SetupError> {
        let draft = planner_draft(goal, draft, setup)?;
        let prepared = notes.take(Box::pin(draft.prepare(&directory, setup)).await)?;
        // Also a user's own planner starts no sub-agents.
        let run = RunRequest { max_depth: 0, ..prepared.request };
        Ok(Self { planner, directory, run, is_second: false })
    }

    /// Opens the state directory to execute the planner's runs.
    pub fn open(&self, setup: &Setup) -> Result<Posse, OpenError> {
        self.directory.open(&LocalOptions::default(), setup)
    }

    /// The first run of the planner.
    pub fn request(&self) -> RunRequest {
        self.asking(self.planner.request().to_owned())
    }

    fn asking(&self, prompt: String) -> RunRequest {
        RunRequest { prompt: Some(prompt.into()), ..self.run.clone() }
    }

    /// Checks the report of a completed planner's run.
    pub fn answered(&mut self, report: &str) -> PlanningStep {
        let answer = answer_in(report);
        let problems = self.planner.problems(&answer, &self.directory.models);
        if problems.is_empty() {
            return PlanningStep::Planned(answer);
        }
        if std::mem::replace(&mut self.is_second, true) {
            return PlanningStep::Failed { answer, problems };
        }
        let request = Box::new(self.asking(self.planner.second_request(&answer, &problems)));
        PlanningStep::AskAgain { problems, request }
    }

    /// The text of a plan file with an answer of the planner ([`Planner::file_text`]).
    pub fn file_text(&self, answer: &str) -> String {
        self.planner.file_text(answer)
    }

    /// The plan in an answer, for the run in `directory` that executes it before a user has read it
    /// ([`Planner::unread_plan`]).
    pub fn unread_plan(&self, answer: &str, directory: &RunDirectory) -> Result<Plan, SetupError> {
        self.planner.unread_plan(answer, &directory.models)
    }
}
