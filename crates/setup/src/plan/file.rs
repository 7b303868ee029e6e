//! Reads plan files and checks them against the definitions of a run. An error lists every problem.

use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::plan::{PLAN_MAX_BYTES, PlanProblem, context as plan_context, parse};
use posse::{DEFAULT_ROOT, Definition, Definitions, ModelRegistry, api};
use posse_domain::contract::Criterion;
use posse_domain::plan::{Plan, PlanContext};

use crate::Setup;
use crate::discovery::DiscoveryResult;
use crate::error::{SetupError, Subject};
use crate::given_agents;
use crate::models::canonical_model;
use crate::text::plural;
use posse_domain::printable as term;

/// Checks plans against the definitions and tools of a run.
pub struct Judge {
    /// All definitions of the run.
    pub definitions: Definitions,
    /// The definition of the root.
    pub root: Definition,
    known: PlanContext,
}

impl Judge {
    /// Loads the definitions and tools. `agent` names the root's definition, `agents` are definitions given with the
    /// request.
    pub fn new(
        agent: Option<&str>,
        agents: Option<&str>,
        found: &DiscoveryResult,
        setup: &Setup,
    ) -> Result<Self, SetupError> {
        let own = match agents {
            Some(agents) => given_agents::read(agents, found, setup)?.definitions,
            None => Vec::new(),
        };
        let definitions = Definitions::builtin_and(found.and_given(&own));
        let root = definitions.find(agent.unwrap_or(DEFAULT_ROOT));
        let root = root.map_err(|unknown| SetupError::about(Subject::Agent, unknown.to_string()))?;
        let root = Definition::clone(root);
        let known = plan_context(&definitions, &root, setup.tool_classes());
        Ok(Self { definitions, root, known })
    }

    /// The plan in a text, or all its problems. Scripts that steps name as models are searched beneath `base`; the plan
    /// gets names that work in any process.
    pub fn judge(&self, text: &str, base: &Path, models: &ModelRegistry) -> Result<Plan, Vec<PlanProblem>> {
        let parsed = parse(text);
        let mut known = self.known.clone();
        let mut settled = Vec::new();
        for name in parsed.models() {
            match canonical_model(name, base, models) {
                Ok(whole) => settled.push((name.to_owned(), whole)),
                Err(why) => drop(known.unusable_models.insert(name.to_owned(), why)),
            }
        }
        let mut plan = parsed.check(&known)?;
        for model in plan.steps.iter_mut().filter_map(|step| step.model.as_mut()) {
            if let Some((_, whole)) = settled.iter().find(|(name, _)| name == model) {
                model.clone_from(whole);
            }
        }
        Ok(plan)
    }

    /// The commands in a plan's text, in the order of its steps.
    pub fn commands(&self, text: &str) -> Vec<String> {
        let Ok(plan) = parse(text).check(&self.known) else { return Vec::new() };
        let criteria = plan.steps.into_iter().flat_map(|step| step.success_criteria);
        let command = |criterion| match criterion {
            Criterion::Command(command) => Some(command.command),
            Criterion::Words(_) => None,
        };
        criteria.filter_map(command).collect()
    }

    /// The plan in a file, or an error with all its problems. Models that it needs stay loaded in `models`.
    pub fn load(&self, file: &Path, setup: &Setup, models: &ModelRegistry) -> Result<Plan, SetupError> {
        let (text, base) = read(file, setup)?;
        self.judge(&text, &base, models).map_err(|problems| {
            SetupError::usage(report(Some(&file.display().to_string()), &problems))
                .hint("fix the file and try again; nothing was started")
        })
    }
}

/// The text of a plan file, and its folder.
pub fn read(file: &Path, setup: &Setup) -> Result<(String, std::path::PathBuf), SetupError> {
    let wrong = |problem: String| {
        SetupError::usage(format!("{}: {problem}", file.display())).hint("name a plan file that can be read")
    };
    let path = setup.environment.cwd.join(file);
    let opened = File::open(&path).map_err(|error| wrong(error.to_string()))?;
    let mut bytes = Vec::new();
    // Not by the file's stated length: it may be a pipe.
    let most = PLAN_MAX_BYTES as u64 + 1;
    opened.take(most).read_to_end(&mut bytes).map_err(|error| wrong(error.to_string()))?;
    if bytes.len() > PLAN_MAX_BYTES {
        return Err(wrong(format!("has more than the {PLAN_MAX_BYTES} bytes accepted")));
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong("is not UTF-8 text".to_owned()))?;
    let base = path.parent().unwrap_or(&setup.environment.cwd).to_owned();
    Ok((text, base))
}

/// The result of a check as front ends serve it.
pub fn plan_check<'a>(judged: Result<&'a Plan, &'a [PlanProblem]>) -> api::PlanCheck<'a> {
    let problem = |problem: &'a PlanProblem| api::PlanProblem {
        line: problem.line,
        step: problem.step.as_ref().map(|step| step.position + 1),
        title: problem.step.as_ref().map(|step| step.title.as_str()),
        field: problem.field.as_deref(),
        problem: &problem.problem,
    };
    match judged {
        Ok(plan) => api::PlanCheck::valid(plan),
        Err(problems) => api::PlanCheck::invalid(problems.iter().map(problem).collect()),
    }
}

/// All problems, one per line, each with its position in the form that editors read.
pub fn report(file: Option<&str>, problems: &[PlanProblem]) -> String {
    let count = plural(problems.len() as u64, "problem");
    let mut report = format!("{}: {count}", file.unwrap_or("the plan"));
    for problem in problems {
        let place = match (file, problem.line) {
            (Some(file), Some(line)) => format!("{file}:{line}: "),
            (Some(file), None) => format!("{file}: "),
            (None, Some(line)) => format!("line {line}: "),
            (None, None) => String::new(),
        };
        // Writing to a string does not fail.
        let _ = write!(report, "\n  {place}{}", term::line(&problem.to_string()));
    }
    report
}
