//! `posse plan`: has the planner write a plan, or checks a plan file.

mod write;

pub(crate) use write::plan_for;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use posse::Plan;
use posse_setup::discovery::DiscoveryResult;
use posse_setup::models;
use posse_setup::plan::file::{self as plan_file, Judge, plan_check};
use posse_setup::working_dir::working_dir;

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::text::plural;

/// Let the planner write a plan, or check one
///
/// The planner reads the workspace, changes nothing, and writes a plan: which agent does each step, which files the
/// step may change, which steps it depends on, and how completion is checked. Posse checks the plan and writes it to
/// standard output or to a file; `posse run --plan` executes it. The planner has at most two runs, and the limits
/// apply to each.
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
/// Lists all problems at once, each with its step and line. Without problems it shows the order of the steps, and which of
/// them can run at the same time.
#[derive(Debug, clap::Args)]
struct CheckArgs {
    /// The plan, as YAML or JSON
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    definitions: DefinitionArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The definitions of a run.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct DefinitionArgs {
    /// The definition of the root agent, which decides which agents it can start [default: coder]
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// More definitions: a JSON file, or the JSON itself
    #[arg(long, value_name = "FILE|JSON")]
    pub(crate) agents: Option<String>,
}

/// Print the JSON Schema of plans
#[derive(Debug, clap::Args)]
struct SchemaArgs {}

/// Creates or checks a plan.
pub(crate) fn plan(args: PlanArgs, context: &Context) -> Result<Exit, CliError> {
    match args.verb {
        None => write::make(&args.making, context),
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
    let DefinitionArgs { agent, agents } = &args.definitions;
    let judge = Judge::new(agent.as_deref(), agents.as_deref(), &found, context)?;
    let mut output = Output::new();
    if args.json {
        let (text, base) = plan_file::read(&args.file, context)?;
        let judged = judge.judge(&text, &base, &models);
        output.json(&plan_check(judged.as_ref().map_err(Vec::as_slice)))?;
        return Ok(if judged.is_ok() { Exit::DONE } else { Exit::USAGE });
    }
    let plan = judge.load(&args.file, context, &models)?;
    output.prose(&summary(&plan))?;
    output.flush()?;
    Ok(Exit::DONE)
}

/// The order of the steps of a valid plan, and which can run at once.
fn summary(plan: &Plan) -> String {
    let names = |steps: &[usize]| {
        steps.iter().map(|at| format!("`{}`", plan.steps[*at].title)).collect::<Vec<_>>().join(", ")
    };
    let count = plural(plan.steps.len() as u64, "step");
    let mut text = format!("ok: {count}, order: {}\n", names(&plan.order()));
    for (number, wave) in plan.waves().iter().enumerate() {
        let lead = if number == 0 { "first" } else { "then" };
        let together = if wave.len() > 1 { " (in parallel)" } else { "" };
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {lead} {}{together}", names(wave));
    }
    text
}
