//! Reads plans from text with the line of every problem, and asks the planner for plans.
//!
//! A problem in one field does not hide the next: the text is parsed into a tree, each field is read separately, and
//! everything readable is checked.

pub mod file;
pub mod planner;
pub mod planning;
mod prompt;
mod read;
mod syntax;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use posse_domain::definition::Definition;
use posse_domain::event::EffectClass;
use posse_domain::plan::{
    PROBLEMS_MAX, Plan, PlanContext, Problem, StepDefinition, StepName, UnreadFields, check_read,
};

use posse::Definitions;
pub use posse_definitions::yaml::innermost;
pub use prompt::{document, first_request, second_request};

/// Largest text of a plan.
pub const PLAN_MAX_BYTES: usize = 1024 * 1024;

/// One problem in a plan's text, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanProblem {
    /// The line, from 1; `None` for a problem of the whole text.
    pub line: Option<u64>,
    /// The step that has the problem, if any.
    pub step: Option<StepName>,
    /// The field that has the problem, if any.
    pub field: Option<String>,
    /// The description of the problem.
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

/// The lines of the fields of a plan: by step, field and entry.
type FieldLines = BTreeMap<(Option<usize>, Option<&'static str>, Option<usize>), u64>;

/// A parsed plan, not yet checked. Unreadable fields are missing.
#[derive(Debug)]
pub struct PlanText {
    plan: Plan,
    /// Whether the text is a plan at all.
    is_plan: bool,
    problems: Vec<PlanProblem>,
    unread: UnreadFields,
    lines: FieldLines,
}

/// Parses a plan from YAML, which includes JSON. Never fails: [`PlanText::check`] reports the problems.
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
        let (unread, lines) = (UnreadFields::default(), FieldLines::new());
        Self { plan, is_plan: false, problems: vec![problem], unread, lines }
    }

    /// The models that steps name. The caller knows which exist.
    pub fn models(&self) -> BTreeSet<&str> {
        self.plan.steps.iter().filter_map(|step| step.model.as_deref()).collect()
    }

    /// The plan, or its problems in the order of lines, [`PROBLEMS_MAX`] at most.
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

/// The context for checking plans of a run with these definitions and this root. `tools` are all existing tools.
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
