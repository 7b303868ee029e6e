//! Everything that is wrong with a plan, in one report and before anything starts.

mod steps;
mod together;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{GOAL_MAX_BYTES, PROBLEMS_MAX, Plan, STEPS_MAX};
use crate::event::EffectClass;

/// What a plan is checked against: what the run that carries it out would know.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlanContext {
    /// All definitions by name, in lower case.
    pub definitions: BTreeMap<String, StepDefinition>,
    /// All tools by name.
    pub tools: BTreeMap<String, EffectClass>,
    /// The models that the plan names and that cannot be used, each with why.
    pub unusable_models: BTreeMap<String, String>,
}

/// A definition, as far as a plan depends on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepDefinition {
    /// Its tools.
    pub tools: Vec<String>,
    /// Whether the root of the run may spawn it.
    pub spawnable: bool,
}

impl PlanContext {
    /// The definition of this name, in any case.
    fn definition(&self, name: &str) -> Option<&StepDefinition> {
        self.definitions.get(name).or_else(|| self.definitions.get(&name.to_ascii_lowercase()))
    }

    /// Whether a step can change its workspace. One whose definition is unknown is taken for a reader: it has a
    /// problem already.
    pub fn writes(&self, step: &super::Step) -> bool {
        let changes = |tool: &String| self.tools.get(tool).is_some_and(|class| class.changes_workspace());
        let own = self.definition(&step.agent).map(|definition| definition.tools.as_slice());
        let own = own.unwrap_or_default();
        own.iter().any(|tool| changes(tool) && step.tools.as_ref().is_none_or(|only| only.contains(tool)))
    }
}

/// A step as reports name it: its title may be missing, and two may share one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepName {
    /// Its position, from 0.
    pub position: usize,
    /// Its title, shortened if it is long.
    pub title: String,
}

impl StepName {
    /// Characters of a title that a report shows.
    const SHOWN_MAX_CHARS: usize = 60;

    /// The name of the step with this title at this position.
    pub fn new(position: usize, title: &str) -> Self {
        Self { position, title: crate::text::first_line(title, Self::SHOWN_MAX_CHARS) }
    }

    /// The name of the step at a position of a plan.
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

/// One thing that is wrong with a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The step; none for the plan as a whole.
    pub step: Option<StepName>,
    /// The field.
    pub field: &'static str,
    /// Which of the field's entries, from 0, if it is a list and one of them is wrong.
    pub item: Option<usize>,
    /// What is wrong.
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

/// The fields of a text that could not be read: the plan holds stand-ins for them, which say nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unread(BTreeSet<(Option<usize>, &'static str)>);

impl Unread {
    /// Adds a field of a step, or of the plan as a whole.
    pub fn add(&mut self, step: Option<usize>, field: &'static str) {
        self.0.insert((step, field));
    }

    /// Whether this field was not read.
    pub fn contains(&self, step: Option<usize>, field: &'static str) -> bool {
        self.0.contains(&(step, field))
    }

    /// Whether one of these fields was not read, of whichever step.
    fn any(&self, fields: &[&str]) -> bool {
        self.0.iter().any(|(_, field)| fields.contains(field))
    }
}

/// All problems of a plan, [`PROBLEMS_MAX`] at most; none means that it can be carried out.
pub fn check(plan: &Plan, context: &PlanContext) -> Vec<Problem> {
    check_read(plan, context, &Unread::default())
}

/// All problems of a plan of which some fields could not be read; what follows from these is not told.
pub fn check_read(plan: &Plan, context: &PlanContext, unread: &Unread) -> Vec<Problem> {
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

/// What was found so far.
struct CheckProgress<'a> {
    plan: &'a Plan,
    unread: &'a Unread,
    problems: Vec<Problem>,
}

impl CheckProgress<'_> {
    /// Whether nothing more would be told: looking for what was probably meant has its price.
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
            self.add(None, "goal", None, "is empty: say what is to be true in the end".to_owned());
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
