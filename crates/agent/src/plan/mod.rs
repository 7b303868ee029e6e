//! Plans as text: reading them with the line of every problem, and asking the planner for one.
//!
//! A problem in one field does not hide the next: the text is read into a tree, each field of it by itself, and
//! what could be read is checked all the same.

mod planner;
mod read;
mod syntax;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use posse_domain::definition::Definition;
use posse_domain::event::EffectClass;
use posse_domain::plan::{
    PROBLEMS_MAX, Plan, PlanContext, Problem, StepDefinition, StepName, Unread, check_read,
};

use crate::definition::Definitions;
pub use crate::yaml::innermost;
pub use planner::{document, first_request, second_request};

/// Largest text of a plan.
pub const PLAN_MAX_BYTES: usize = 1024 * 1024;

/// One thing that is wrong with a plan's text, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanProblem {
    /// The line, from 1; none if the text as a whole is meant.
    pub line: Option<u64>,
    /// The step, if it is about one.
    pub step: Option<StepName>,
    /// The field, if it is about one.
    pub field: Option<String>,
    /// What is wrong.
    pub problem: String,
}

/// Without the line, which belongs to the name of the file: `plan.yaml:7: step 2 ...`.
impl fmt::Display for PlanProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(step) = &self.step {
            write!(f, "{step}: ")?;
        }
        if let Some(field) = &self.field {
            write!(f, "{field}: ")?;
        }
        f.write_str(&self.problem)
    }
}

/// Where the fields of a plan stand: by step, field and entry.
type FieldLines = BTreeMap<(Option<usize>, Option<&'static str>, Option<usize>), u64>;

/// A plan's text as far as it could be read, not yet checked.
#[derive(Debug)]
pub struct PlanText {
    plan: Plan,
    /// Whether there is a plan at all.
    is_plan: bool,
    problems: Vec<PlanProblem>,
    unread: Unread,
    lines: FieldLines,
}

/// Reads a plan from YAML, and so from JSON too. Never fails: what is wrong is told by [`PlanText::check`].
pub fn parse(text: &str) -> PlanText {
    match syntax::read(text) {
        Ok(document) => read::plan(document),
        Err((line, problem)) => PlanText::not_a_plan(PlanProblem { line, step: None, field: None, problem }),
    }
}

impl PlanText {
    fn not_a_plan(problem: PlanProblem) -> Self {
        let plan = Plan {
            goal: String::new(),
            on_failure: posse_domain::plan::OnFailure::default(),
            integration: posse_domain::plan::IntegrationOrder::default(),
            unowned_writers: posse_domain::plan::UnownedWriters::default(),
            steps: Vec::new(),
            author: posse_domain::plan::Author::Person,
        };
        let (unread, lines) = (Unread::default(), FieldLines::new());
        Self { plan, is_plan: false, problems: vec![problem], unread, lines }
    }

    /// The models that steps name, for whoever can tell whether they exist.
    pub fn models(&self) -> BTreeSet<&str> {
        self.plan.steps.iter().filter_map(|step| step.model.as_deref()).collect()
    }

    /// The plan, or all that is wrong with it in the order of its lines, [`PROBLEMS_MAX`] at most.
    pub fn check(self, context: &PlanContext) -> Result<Plan, Vec<PlanProblem>> {
        let Self { plan, is_plan, mut problems, unread, lines } = self;
        if is_plan {
            let found = check_read(&plan, context, &unread);
            problems.extend(found.into_iter().map(|problem| located(problem, &lines)));
        }
        if problems.is_empty() {
            return Ok(plan);
        }
        problems.sort_by_key(|problem| problem.line);
        problems.truncate(PROBLEMS_MAX);
        Err(problems)
    }
}

/// A problem with the line of its entry, else of its field, else of its step.
fn located(problem: Problem, lines: &FieldLines) -> PlanProblem {
    let Problem { step, field, item, problem } = problem;
    let position = step.as_ref().map(|step| step.position);
    let places = [(position, Some(field), item), (position, Some(field), None), (position, None, None)];
    let line = places.iter().find_map(|place| lines.get(place)).copied();
    PlanProblem { line, step, field: Some(field.to_owned()), problem }
}

/// What a plan is checked against in a run with these definitions and this root. `tools` are all there are.
pub fn context<'a>(
    definitions: &Definitions,
    root: &Definition,
    tools: impl IntoIterator<Item = (&'a str, EffectClass)>,
) -> PlanContext {
    let spawnable: BTreeSet<&str> =
        definitions.spawnable(root).map(|definition| definition.name.as_str()).collect();
    let known = |definition: &Definition| StepDefinition {
        tools: definition.tools.clone(),
        spawnable: spawnable.contains(definition.name.as_str()),
    };
    PlanContext {
        definitions: definitions.iter().map(|one| (one.name.clone(), known(one))).collect(),
        tools: tools.into_iter().map(|(name, class)| (name.to_owned(), class)).collect(),
        unusable_models: BTreeMap::new(),
    }
}
