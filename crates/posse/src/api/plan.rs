//! API types of a checked plan.

use posse_domain::plan::Plan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A problem in a plan.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PlanProblem<'a> {
    /// The line of the file, from 1.
    pub line: Option<u64>,
    /// The number of the step, from 1.
    pub step: Option<usize>,
    /// The step's title.
    pub title: Option<&'a str>,
    /// The field of the plan or of the step.
    pub field: Option<&'a str>,
    /// The description of the problem.
    pub problem: &'a str,
}

/// The result of checking a plan.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct PlanCheck<'a> {
    /// Whether the plan can be executed. If not, only `problems` is set.
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    goal: Option<&'a str>,
    /// The number of steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<usize>,
    /// The titles of its steps in an order of execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<Vec<&'a str>>,
    /// The titles of the steps that can run at the same time, in the order of execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    waves: Option<Vec<Vec<&'a str>>>,
    problems: Vec<PlanProblem<'a>>,
}

impl<'a> PlanCheck<'a> {
    /// A plan without problems.
    pub fn valid(plan: &'a Plan) -> Self {
        let titles = |steps: Vec<usize>| -> Vec<&'a str> {
            steps.into_iter().map(|at| plan.steps[at].title.as_str()).collect()
        };
        Self {
            ok: true,
            goal: Some(&plan.goal),
            steps: Some(plan.steps.len()),
            order: Some(titles(plan.order())),
            waves: Some(plan.waves().into_iter().map(titles).collect()),
            problems: Vec::new(),
        }
    }

    /// A plan with problems.
    pub fn invalid(problems: Vec<PlanProblem<'a>>) -> Self {
        Self { problems, ..Self::default() }
    }
}

/// A plan that the planner wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WrittenPlan {
    /// The plan, as a file for `run --plan`.
    pub text: String,
    /// The file that it was written to; null if it was only printed.
    pub file: Option<String>,
}
