//! Finds all problems of a plan before anything starts, and reports them together.

mod steps;
mod together;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{GOAL_MAX_BYTES, PROBLEMS_MAX, Plan, STEPS_MAX};
use crate::event::EffectClass;

/// The environment that a plan is checked against: definitions, tools and models of the run that would execute it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlanContext {
    /// All definitions by name, in lower case.
    pub definitions: BTreeMap<String, StepDefinition>,
    pub tools: BTreeMap<String, EffectClass>,
    /// The models that the plan names but that cannot be used, each with the reason.
    pub unusable_models: BTreeMap<String, String>,
}

/// The parts of a definition that a plan depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepDefinition {
    pub tools: Vec<String>,
    /// Whether the root of the run may spawn it.
    pub spawnable: bool,
}

impl PlanContext {
    /// Looks up a definition, ignoring the case of its name.
    fn definition(&self, name: &str) -> Option<&StepDefinition> {
        self.definitions.get(name).or_else(|| self.definitions.get(&name.to_ascii_lowercase()))
    }

    /// Whether a step can change its workspace. A step with an unknown definition counts as a reader: it already has a
    /// problem.
    pub fn writes(&self, step: &super::Step) -> bool {
        let changes = |tool: &String| self.tools.get(tool).is_some_and(|class| class.changes_workspace());
        let own = self.definition(&step.agent).map(|definition| definition.tools.as_slice());
        let own = own.unwrap_or_default();
        own.iter().any(|tool| changes(tool) && step.tools.as_ref().is_none_or(|only| only.contains(tool)))
    }
}

/// A step's name in reports, with its position, because a title may be missing or not unique.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepName {
    /// The position in the plan, from 0.
    pub position: usize,
    /// The title, shortened if it is long.
    pub title: String,
}

impl StepName {
    /// Maximum number of characters of a title in a report.
    const SHOWN_MAX_CHARS: usize = 60;

    pub fn new(position: usize, title: &str) -> Self {
        Self { position, title: crate::text::first_line(title, Self::SHOWN_MAX_CHARS) }
    }

    /// The name of the step at this position of a plan.
    pub(super) fn of(plan: &Plan, position: usize) -> Self {
        Self::new(position, plan.steps.get(position).map_or("", |step| step.title.as_str()))
    }
}

impl fmt::Display for StepName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.position + 1;
        if self.title.is_empty() {
            write!(f, "step {number}")
        } else {
            write!(f, "step {number} `{}`", self.title)
        }
    }
}

/// A problem of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// None if the problem is about the whole plan.
    pub step: Option<StepName>,
    pub field: &'static str,
    /// The index of the wrong entry, if the field is a list.
    pub item: Option<usize>,
    pub problem: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(step) = &self.step {
            write!(f, "{step}: ")?;
        }
        write!(f, "{}: {}", self.field, self.problem)
    }
}

/// The fields that could not be parsed. The plan has meaningless placeholder values in them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnreadFields(BTreeSet<(Option<usize>, &'static str)>);

impl UnreadFields {
    /// Adds a field of a step, or of the whole plan.
    pub fn add(&mut self, step: Option<usize>, field: &'static str) {
        self.0.insert((step, field));
    }

    pub fn contains(&self, step: Option<usize>, field: &'static str) -> bool {
        self.0.contains(&(step, field))
    }

    /// Whether one of these fields was not parsed in any step.
    fn any(&self, fields: &[&str]) -> bool {
        self.0.iter().any(|(_, field)| fields.contains(field))
    }
}

/// All problems of a plan, [`PROBLEMS_MAX`] at most. A run can execute a plan without problems.
pub fn check(plan: &Plan, context: &PlanContext) -> Vec<Problem> {
    check_read(plan, context, &UnreadFields::default())
}

/// Like [`check`], for a plan with fields that could not be parsed. Problems that only follow from these are not
/// reported.
pub fn check_read(plan: &Plan, context: &PlanContext, unread: &UnreadFields) -> Vec<Problem> {
    let mut found = CheckProgress { plan, unread, problems: Vec::new() };
    found.check_whole();
    if plan.steps.len() <= STEPS_MAX {
        steps::check(&mut found, context);
        together::check(&mut found, context);
    }
    found.problems.sort_by_key(|problem| problem.step.as_ref().map(|step| step.position));
    found.problems.truncate(PROBLEMS_MAX);
    found.problems
}

/// The problems found so far.
struct CheckProgress<'a> {
    plan: &'a Plan,
    unread: &'a UnreadFields,
    problems: Vec<Problem>,
}

impl CheckProgress<'_> {
    /// Whether further problems are no longer reported. The check then skips the costly search for suggestions.
    fn is_full(&self) -> bool {
        self.problems.len() >= PROBLEMS_MAX
    }

    fn add(&mut self, step: Option<usize>, field: &'static str, item: Option<usize>, problem: String) {
        if !self.unread.contains(step, field) {
            let step = step.map(|position| StepName::of(self.plan, position));
            self.problems.push(Problem { step, field, item, problem });
        }
    }

    fn check_whole(&mut self) {
        let plan = self.plan;
        if plan.goal.trim().is_empty() {
            self.add(None, "goal", None, "is empty: describe the intended result".to_owned());
        } else if plan.goal.len() > GOAL_MAX_BYTES {
            self.add(None, "goal", None, format!("has more than the {GOAL_MAX_BYTES} bytes accepted"));
        }
        if plan.steps.is_empty() {
            self.add(None, "steps", None, "there are none: a plan has at least one".to_owned());
        } else if plan.steps.len() > STEPS_MAX {
            self.add(None, "steps", None, format!("there are more than the {STEPS_MAX} accepted"));
        }
    }
}
