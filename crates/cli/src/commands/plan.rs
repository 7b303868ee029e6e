//! `posse plan`: the planner writes a plan, or a plan is checked.

mod write;

pub(crate) use write::{MakeArgs, plan_for};

use std::fmt::Write;
use std::path::{Path, PathBuf};

use posse_agent::plan::PlanProblem;
use posse_domain::plan::Plan;
use serde_json::{Value, json};

use crate::context::Context;
use crate::discovery::DiscoveryResult;
use crate::error::CliError;
use crate::exit::Exit;
use crate::launch::working_dir;
use crate::models;
use crate::output::Output;
use crate::plan_file::{self, Judge};
use crate::text::plural;

/// Let the planner write a plan, or check one
///
/// The planner looks at the workspace, changes nothing, and answers with a plan: steps, whom each is given to, what
/// it may change, what it depends on, and how one can tell that it is done. The plan is checked, written to standard
/// output or to a file, and carried out by `posse run --plan`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct PlanArgs {
    #[command(subcommand)]
    verb: Option<PlanVerb>,
    #[command(flatten)]
    making: write::MakeArgs,
}

#[derive(Debug, clap::Subcommand)]
enum PlanVerb {
    Check(CheckArgs),
    Schema(SchemaArgs),
}

/// Check a plan file and start nothing
///
/// All problems are told at once, with step and line. Without problems the order of the steps is shown, and which of
/// them can run at the same time.
#[derive(Debug, clap::Args)]
struct CheckArgs {
    /// The plan, as YAML or JSON
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    known: KnownArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The definitions of the run that carries a plan out.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct KnownArgs {
    /// The definition of the root agent, which decides whom steps can be given to [default: coder]
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// More definitions: a JSON file, or the JSON itself
    #[arg(long, value_name = "FILE|JSON")]
    pub(crate) agents: Option<String>,
}

impl KnownArgs {
    /// What plans are judged against.
    pub(crate) fn judge(&self, found: &DiscoveryResult, context: &Context) -> Result<Judge, CliError> {
        Ok(Judge::new(self.agent.as_deref(), self.agents.as_deref(), found, context)?)
    }
}

/// Print the JSON Schema of plans
#[derive(Debug, clap::Args)]
struct SchemaArgs {}

/// Makes or checks a plan.
pub(crate) fn plan(args: PlanArgs, context: &Context) -> Result<Exit, CliError> {
    match args.verb {
        None => write::make(args.making, context),
        Some(PlanVerb::Check(args)) => check(&args, context),
        Some(PlanVerb::Schema(SchemaArgs {})) => schema(),
    }
}

fn schema() -> Result<Exit, CliError> {
    let mut output = Output::new();
    output.own(&format!("{:#}\n", Plan::json_schema()))?;
    output.flush()?;
    Ok(Exit::DONE)
}

fn check(args: &CheckArgs, context: &Context) -> Result<Exit, CliError> {
    let models = models::usual(context)?;
    let found = DiscoveryResult::load(
        Path::new(&working_dir(None, &context.environment.cwd)?),
        Some(&models),
        context,
    )?;
    let judge = args.known.judge(&found, context)?;
    let mut output = Output::new();
    if args.json {
        let (text, base) = plan_file::read(&args.file, context)?;
        let judged = judge.judge(&text, &base, &models);
        output.json(&to_json(judged.as_ref().map_err(Vec::as_slice)))?;
        return Ok(if judged.is_ok() { Exit::DONE } else { Exit::USAGE });
    }
    let plan = judge.load(&args.file, context, &models)?;
    output.text(&summary(&plan))?;
    output.flush()?;
    Ok(Exit::DONE)
}

/// That a plan is fine, the order of its steps, and which can run at once.
fn summary(plan: &Plan) -> String {
    let names = |steps: &[usize]| {
        steps.iter().map(|at| format!("`{}`", plan.steps[*at].title)).collect::<Vec<_>>().join(", ")
    };
    let count = plural(plan.steps.len() as u64, "step");
    let mut text = format!("ok: {count}, order: {}\n", names(&plan.order()));
    for (number, wave) in plan.waves().iter().enumerate() {
        let lead = if number == 0 { "first" } else { "then" };
        let together = if wave.len() > 1 { " (in parallel)" } else { "" };
        // A text cannot fail to be written to.
        let _ = writeln!(text, "  {lead} {}{together}", names(wave));
    }
    text
}

fn to_json(judged: Result<&Plan, &[PlanProblem]>) -> Value {
    match judged {
        Ok(plan) => {
            let titles = |steps: Vec<usize>| -> Vec<&str> {
                steps.into_iter().map(|at| plan.steps[at].title.as_str()).collect()
            };
            let waves: Vec<Vec<&str>> = plan.waves().into_iter().map(titles).collect();
            json!({
                "ok": true, "goal": plan.goal, "steps": plan.steps.len(),
                "order": titles(plan.order()), "waves": waves, "problems": [],
            })
        }
        Err(problems) => {
            let problem = |problem: &PlanProblem| {
                let step = problem.step.as_ref();
                json!({
                    "line": problem.line,
                    "step": step.map(|step| step.position + 1),
                    "title": step.map(|step| step.title.as_str()),
                    "field": problem.field,
                    "problem": problem.problem,
                })
            };
            json!({"ok": false, "problems": problems.iter().map(problem).collect::<Vec<_>>()})
        }
    }
}
