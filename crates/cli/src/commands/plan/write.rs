//! Executes the planner's runs and writes the resulting plan.

use std::io::Write;
use std::path::{Path, PathBuf};

use posse::atomic_file::{self, ExistingFile};
use posse::{Plan, Posse, RunOutcome, RunRequest, RunStatus, api};
use posse_setup::plan::file::report;
use posse_setup::plan::planning::{PlanningSession, PlanningStep};
use posse_setup::{RunDirectory, RunDraft};

use super::DefinitionArgs;
use crate::commands::run::typed;
use crate::context::Context;
use crate::drive::{DriveOutcome, drive_to_end};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, note, print_noted};
use crate::questions::QuestionPrompter;
use crate::runtime;
use crate::setting_flags::SettingFlags;
use crate::signals::Signals;
use crate::view::{View, print_end};

/// The goal and the options of the planner's run.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct MakeArgs {
    /// The goal of the plan; `-` reads it from standard input
    #[arg(required = true, value_name = "GOAL")]
    goal: Vec<String>,
    /// Write the plan to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long, requires = "output")]
    force: bool,
    #[command(flatten)]
    settings: SettingFlags<true>,
    #[command(flatten)]
    definitions: DefinitionArgs,
    /// The working directory [default: the current one]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print one JSON object with the plan
    #[arg(long)]
    json: bool,
}

/// The result of asking the planner.
enum PlannerOutcome {
    /// The planner answered.
    Answer(String),
    /// Its run did not complete; the reason is printed.
    Ended(Exit),
}

/// Has the planner write a plan.
pub(crate) fn make(args: &MakeArgs, context: &Context) -> Result<Exit, CliError> {
    let goal = typed("goal", &args.goal)?;
    let target = match &args.output {
        Some(file) => Some(Target::new(file, args.force, context)?),
        None => None,
    };
    let preparing = PlanningSession::prepare(&goal, args.draft(), context);
    let mut planning = print_noted(runtime::looking(async { Ok(preparing.await) })?)?;
    match ask_planner(&mut planning, context)? {
        PlannerOutcome::Ended(exit) => Ok(exit),
        PlannerOutcome::Answer(answer) => hand_over(&planning.file_text(&answer), target, args.json),
    }
}

/// A plan by the planner for a run that executes it at once, or the exit code of a planner that ended without one.
pub(crate) fn plan_for(
    draft: &RunDraft,
    directory: &RunDirectory,
    context: &Context,
) -> Result<Result<Plan, Exit>, CliError> {
    if draft.text.is_none() {
        return Err(CliError::usage("--plan auto needs a request: the goal of the plan"));
    }
    let preparing = PlanningSession::for_run(draft, directory, context);
    let mut planning = print_noted(runtime::looking(async { Ok(preparing.await) })?)?;
    let answer = match ask_planner(&mut planning, context)? {
        PlannerOutcome::Ended(exit) => return Ok(Err(exit)),
        PlannerOutcome::Answer(answer) => answer,
    };
    let plan = planning.unread_plan(&answer, directory)?;
    note(&format!("The plan:\n{}\n", answer.trim_end()));
    Ok(Ok(plan))
}

/// Executes the planner's runs. A returned answer has no problems.
fn ask_planner(planning: &mut PlanningSession, context: &Context) -> Result<PlannerOutcome, CliError> {
    runtime::driving(async {
        let mut signals = Signals::listen()?;
        let posse = planning.open(context)?;
        let mut request = planning.request();
        loop {
            let text = match Box::pin(ask(&posse, request, &mut signals, context)).await? {
                PlannerOutcome::Answer(text) => text,
                ended @ PlannerOutcome::Ended(_) => return Ok(ended),
            };
            match planning.answered(&text) {
                PlanningStep::Planned(answer) => return Ok(PlannerOutcome::Answer(answer)),
                PlanningStep::AskAgain { problems, request: second } => {
                    note(&format!("{}\nthe planner is asked once more", report(None, &problems)));
                    request = *second;
                }
                PlanningStep::Failed { answer, problems } => {
                    note(&format!("The planner's answer:\n{}\n", answer.trim_end()));
                    return Err(CliError::failed(report(None, &problems)).hint(
                        "fix the answer above by hand, or word the goal differently; no plan was written",
                    ));
                }
            }
        }
    })
}

impl MakeArgs {
    /// The draft of the planner's run. Its root is the planner; `--agent` names the root of the run that will execute
    /// the plan.
    fn draft(&self) -> RunDraft {
        RunDraft {
            dir: self.dir.clone(),
            agent: self.definitions.agent.clone(),
            agents: self.definitions.agents.clone(),
            settings: self.settings.0.clone(),
            ..RunDraft::default()
        }
    }
}

/// Executes one run of the planner, and returns its report.
async fn ask(
    posse: &Posse,
    request: RunRequest,
    signals: &mut Signals,
    context: &Context,
) -> Result<PlannerOutcome, CliError> {
    let mut view = View::new(false, context).without_detach();
    let starting = view.while_starting(posse, Box::pin(posse.start_request(request, false)));
    let handle = match signals.unless_one_comes(starting).await {
        Ok(started) => started?,
        Err(ask) => {
            view.progress(None);
            return Ok(PlannerOutcome::Ended(ask.exit()));
        }
    };
    match drive_to_end(posse, &handle, 0, signals, &mut view, &mut QuestionPrompter::without_terminal())
        .await?
    {
        DriveOutcome::Stopped(ask) => Ok(PlannerOutcome::Ended(ask.exit())),
        DriveOutcome::Left(exit) => Ok(PlannerOutcome::Ended(exit)),
        DriveOutcome::Ended(finished) => {
            print_end(&finished);
            let RunOutcome { status, text, .. } = &*finished;
            if *status == RunStatus::Completed {
                Ok(PlannerOutcome::Answer(text.clone()))
            } else {
                Ok(PlannerOutcome::Ended(Exit::of(&finished)))
            }
        }
    }
}

fn hand_over(plan: &str, target: Option<Target>, json: bool) -> Result<Exit, CliError> {
    if let Some(target) = &target {
        target.write(plan)?;
    }
    if json {
        let file = target.map(|target| target.path.display().to_string());
        Output::new().json(&api::WrittenPlan { text: plan.to_owned(), file })?;
        return Ok(Exit::DONE);
    }
    if let Some(target) = target {
        note(&format!("written to {}", target.path.display()));
    } else {
        let mut output = Output::new();
        output.paragraph(plan)?;
        output.flush()?;
    }
    Ok(Exit::DONE)
}

/// The file that a plan is written to.
struct Target {
    path: PathBuf,
    force: bool,
}

impl Target {
    /// Checks before the planner starts whether the file can be written.
    fn new(file: &Path, force: bool, context: &Context) -> Result<Self, CliError> {
        let target = Self { path: context.environment.cwd.join(file), force };
        let wrong = |problem: &str| CliError::usage(format!("--output: {}: {problem}", file.display()));
        if target.path.is_dir() {
            return Err(wrong("is a directory"));
        }
        if !force && target.path.symlink_metadata().is_ok() {
            return Err(wrong("already exists").hint("name another file, or replace it with --force"));
        }
        if !target.path.parent().is_some_and(Path::is_dir) {
            return Err(wrong("its folder does not exist"));
        }
        Ok(target)
    }

    /// Writes the file atomically, and never over another file without `--force`.
    fn write(&self, plan: &str) -> Result<(), CliError> {
        let failed = |error: std::io::Error| {
            note(plan);
            CliError::failed(format!("{}: cannot write the plan: {error}", self.path.display()))
                .hint("the plan is printed above")
        };
        let end = if plan.ends_with('\n') { "" } else { "\n" };
        let existing = if self.force { ExistingFile::Replace } else { ExistingFile::Keep };
        atomic_file::write(&self.path, atomic_file::SHARED, existing, |file| write!(file, "{plan}{end}"))
            .map_err(failed)
    }
}
