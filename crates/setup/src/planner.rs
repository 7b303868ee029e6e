//! The planner: a definition whose runs change nothing and end with a plan.
//!
//! A front end runs it once with [`Planner::request`]. If [`Planner::problems`] finds any in the answer, the front end runs
//! it once more with [`Planner::second_request`]; an answer without problems is the plan.
//!
//! Why a plan that no person has read is less than one from a file: `docs/decisions/plan-auto-author.md`.

use std::path::{Path, PathBuf};

use posse::{Decision, ModelRegistry, Rule};
use posse_agent::plan::{PlanProblem, document, first_request, second_request};
use posse_domain::plan::{Author, Plan};
use posse_domain::printable;

use crate::Setup;
use crate::error::{Remedy, SetupError};
use crate::plan_file::{Judge, report};

/// The definition that writes plans.
pub const PLANNER: &str = "planner";
/// Most commands that the head of a plan lists; more would hide the plan.
const COMMANDS_LISTED_MAX: usize = 50;

/// The planner with one goal.
pub struct Planner<'a> {
    judge: &'a Judge,
    request: String,
    /// Where files that a plan names are looked for.
    base: PathBuf,
}

impl<'a> Planner<'a> {
    /// The planner for a goal; `judge` knows the definitions that steps can be given to.
    pub fn new(goal: &str, judge: &'a Judge, base: &Path) -> Self {
        let request = first_request(goal, &judge.definitions, &judge.root);
        Self { judge, request, base: base.to_owned() }
    }

    /// What the planner is told first: the goal, the definitions, the format.
    pub fn request(&self) -> &str {
        &self.request
    }

    /// What the planner is told once more, after an answer with problems.
    pub fn second_request(&self, answer: &str, problems: &[PlanProblem]) -> String {
        second_request(&self.request, answer, problems)
    }

    /// What is wrong with an answer.
    pub fn problems(&self, answer: &str, models: &ModelRegistry) -> Vec<PlanProblem> {
        self.judge.judge(answer, &self.base, models).err().unwrap_or_default()
    }

    /// The plan in an answer, for a run that carries it out before a person has read it: it names no model that a person
    /// did not.
    pub fn unread_plan(&self, answer: &str, models: &ModelRegistry) -> Result<Plan, SetupError> {
        let plan = self.judge.judge(answer, &self.base, models);
        let mut plan = plan.map_err(|problems| SetupError::failed(report(None, &problems)))?;
        plan.author = Author::Model;
        match plan.steps.iter().find(|step| step.model.is_some()) {
            Some(step) => {
                let problem =
                    format!("the planner's step `{}` names a model, which only a person may do", step.title);
                Err(SetupError::failed(problem).remedy(Remedy::ReadPlanFirst))
            }
            None => Ok(plan),
        }
    }

    /// The text of a plan file with this answer: it begins with a warning and the commands, because the user who passes
    /// the file to a run answers for it.
    pub fn file_text(&self, answer: &str) -> String {
        format!("{}{answer}", head(&self.judge.commands(answer)))
    }
}

/// The plan in a report of the planner, without anything that would steer a terminal.
pub fn answer_in(report: &str) -> String {
    document(&printable::clean(report)).to_owned()
}

/// Rules that keep also a user's own planner from changing anything.
pub fn read_only_rules(setup: &Setup) -> Result<Vec<Rule>, SetupError> {
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
        head.push("# Commands that `posse run --plan` runs from it, without asking:".to_owned());
    }
    // A line break in a command would end the comment; each is shown as what it is, so that no command reads as another.
    let listed = commands.iter().take(COMMANDS_LISTED_MAX);
    head.extend(listed.map(|command| format!("#   {}", printable::visible_line(command))));
    if commands.len() > COMMANDS_LISTED_MAX {
        head.push(format!("#   and {} more", commands.len() - COMMANDS_LISTED_MAX));
    }
    head.join("\n") + "\n"
}
