//! The planner: a definition that changes nothing and ends with a plan.
//!
//! [`super::planning::PlanningSession`] manages its runs: one with [`Planner::request`], and one more with
//! [`Planner::second_request`] if [`Planner::problems`] finds any in the answer.
//!
//! Why a plan that no user has read is less than one from a file: `docs/decisions/plan-auto-author.md`.

use std::path::{Path, PathBuf};

use crate::plan::{PlanProblem, document, first_request, second_request};
use posse::{Decision, ModelRegistry, Rule};
use posse_domain::plan::{Author, Plan};
use posse_domain::printable;

use crate::Setup;
use crate::draft::{RunDraft, RunPermissions};
use crate::error::{Remedy, SetupError};
use crate::plan::file::{Judge, report};

/// The definition that writes plans.
pub const PLANNER: &str = "planner";
/// Limit of commands that the head of a plan lists; more would hide the plan.
const COMMANDS_LISTED_MAX: usize = 50;

/// The planner with one goal.
pub struct Planner {
    judge: Judge,
    request: String,
    /// The directory that paths in a plan are relative to.
    base: PathBuf,
}

impl Planner {
    /// The planner for a goal. `judge` has the definitions that steps may use.
    pub fn new(goal: &str, judge: Judge, base: &Path) -> Self {
        let request = first_request(goal, &judge.definitions, &judge.root);
        Self { judge, request, base: base.to_owned() }
    }

    /// The first prompt of the planner: the goal, the definitions, the format.
    pub fn request(&self) -> &str {
        &self.request
    }

    /// The second prompt, after an answer with problems.
    pub fn second_request(&self, answer: &str, problems: &[PlanProblem]) -> String {
        second_request(&self.request, answer, problems)
    }

    /// The problems in an answer.
    pub fn problems(&self, answer: &str, models: &ModelRegistry) -> Vec<PlanProblem> {
        self.judge.judge(answer, &self.base, models).err().unwrap_or_default()
    }

    /// The plan in an answer, for a run that executes it before a user has read it: it may only name models that the
    /// user named.
    pub fn unread_plan(&self, answer: &str, models: &ModelRegistry) -> Result<Plan, SetupError> {
        let plan = self.judge.judge(answer, &self.base, models);
        let mut plan = plan.map_err(|problems| SetupError::failed(report(None, &problems)))?;
        plan.author = Author::Model;
        match plan.steps.iter().find(|step| step.model.is_some()) {
            Some(step) => {
                let problem =
                    format!("the planner's step `{}` names a model, which only the user may do", step.title);
                Err(SetupError::failed(problem).remedy(Remedy::ReadPlanFirst))
            }
            None => Ok(plan),
        }
    }

    /// The text of a plan file with this answer. It begins with a warning and the commands, because the user who passes
    /// the file to a run is responsible for it.
    pub fn file_text(&self, answer: &str) -> String {
        format!("{}{answer}", head(&self.judge.commands(answer)))
    }
}

/// Extracts the plan from a report of the planner, without terminal escapes.
pub fn answer_in(report: &str) -> String {
    document(&printable::clean(report)).to_owned()
}

/// The draft of a planner's run. `draft` has its directory, limits and given definitions. The run changes nothing. Its text is the goal, because lists of runs show that and not the prompt with the format of
/// plans.
pub fn planner_draft(goal: &str, draft: RunDraft, setup: &Setup) -> Result<RunDraft, SetupError> {
    Ok(RunDraft {
        text: Some(format!("plan: {goal}")),
        agent: Some(PLANNER.to_owned()),
        permissions: RunPermissions { rules: read_only_rules(setup)?, ..RunPermissions::default() },
        ..draft
    })
}

/// Rules that keep even a user's own planner from changing anything.
fn read_only_rules(setup: &Setup) -> Result<Vec<Rule>, SetupError> {
    let changing = setup.tool_classes().filter(|(_, class)| class.changes_workspace());
    changing
        .map(|(name, _)| {
            let pattern = name.parse().map_err(|error| SetupError::failed(format!("{name}: {error}")))?;
            Ok(Rule { pattern, decision: Decision::Deny })
        })
        .collect()
}

fn head(commands: &[String]) -> String {
    let mut head = vec!["# Written by the planner, a model. Read it before you run it.".to_owned()];
    if !commands.is_empty() {
        head.push("# Commands that a run of this plan executes without asking:".to_owned());
    }
    // A line break in a command would end the comment. It is shown escaped, so that no command looks like another.
    let listed = commands.iter().take(COMMANDS_LISTED_MAX);
    head.extend(listed.map(|command| format!("#   {}", printable::visible_line(command))));
    if commands.len() > COMMANDS_LISTED_MAX {
        head.push(format!("#   and {} more", commands.len() - COMMANDS_LISTED_MAX));
    }
    head.join("\n") + "\n"
}
