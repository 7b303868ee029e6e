//! The planner at work: one run, and one more if its plan has problems.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use posse::{ModelRegistry, Posse, RunOutcome, RunRequest, RunStatus};
use posse_domain::plan::Plan;
use posse_setup::planner::{PLANNER, Planner, answer_in, read_only_rules};

use super::KnownArgs;
use crate::commands::run::typed;
use crate::context::Context;
use crate::discovery::{self, DiscoveryResult};
use crate::drive::{DriveOutcome, drive_to_end};
use crate::error::CliError;
use crate::exit::Exit;
use crate::launch::{PreparedRun, TypedRequest, working_dir};
use crate::limit::{Limit, MoneyLimit, TimeLimit};
use crate::models::{self, BASE_URL_FLAG};
use crate::output::{Output, note, print_noted};
use crate::permissions::PermissionArgs;
use crate::plan_file::report;
use crate::questions::QuestionPrompter;
use crate::runtime;
use crate::settings::{Settings, WithOrigin};
use crate::signals::Signals;
use crate::view::{View, print_end};

/// Permissions of a plan file, before the person's umask.
const FILE_MODE: u32 = 0o666;

/// What a plan is to be about.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct MakeArgs {
    /// What is to be true in the end; `-` reads it from standard input
    #[arg(required = true, value_name = "GOAL")]
    goal: Vec<String>,
    /// Write the plan to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write over a file that is there
    #[arg(long, requires = "output")]
    force: bool,
    /// The planner's model, as provider/name; scripted/<file> answers from a YAML script [default: that of the first
    /// provider with a key, else of a local Ollama]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Where the model's provider is, for example `http://localhost:8080/v1`
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    #[command(flatten)]
    known: KnownArgs,
    /// The working directory [default: the current one]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Turns of the planner, or none [default: 40, and at most the planner's own]
    #[arg(long, value_name = "N")]
    max_turns: Option<Limit<1>>,
    /// Tokens of each of its at most two runs, or none [default: none]
    #[arg(long, value_name = "N")]
    max_tokens: Option<Limit<0>>,
    /// Dollars of each of its at most two runs, or none [default: none]
    #[arg(long, value_name = "USD")]
    max_usd: Option<MoneyLimit>,
    /// Wall time of each of its at most two runs, such as 90s, 30m or 2h, or none [default: none]
    #[arg(long, value_name = "TIME")]
    max_time: Option<TimeLimit>,
}

/// What came of asking the planner.
enum PlannerOutcome {
    /// It answered.
    Answer(String),
    /// Its run did not complete, or was left; the rest is said.
    Ended(Exit),
}

/// Lets the planner write a plan.
pub(crate) fn make(args: MakeArgs, context: &Context) -> Result<Exit, CliError> {
    let goal = typed("goal", &args.goal)?;
    let target = match &args.output {
        Some(file) => Some(Target::new(file, args.force, context)?),
        None => None,
    };
    let dir = working_dir(args.dir.clone(), &context.environment.cwd)?;
    context.settings_in(Path::new(&dir))?;
    let found = Arc::new(DiscoveryResult::load(Path::new(&dir), Some(&models::usual(context)?), context)?);
    let judge = args.known.judge(&found, context)?;
    let planner = Planner::new(&goal, &judge, &context.environment.cwd);
    match ask_planner(&goal, args, &planner, &found, context)? {
        PlannerOutcome::Ended(exit) => Ok(exit),
        PlannerOutcome::Answer(answer) => hand_over(&planner.file_text(&answer), target),
    }
}

/// A plan of the planner's for a run that carries it out at once; or how the planner's run ended without one.
pub(crate) fn plan_for(
    goal: &str,
    args: MakeArgs,
    found: &Arc<DiscoveryResult>,
    models: &ModelRegistry,
    context: &Context,
) -> Result<Result<Plan, Exit>, CliError> {
    let judge = args.known.judge(found, context)?;
    let planner = Planner::new(goal, &judge, &context.environment.cwd);
    let answer = match ask_planner(goal, args, &planner, found, context)? {
        PlannerOutcome::Ended(exit) => return Ok(Err(exit)),
        PlannerOutcome::Answer(answer) => answer,
    };
    let plan = planner.unread_plan(&answer, models)?;
    note(&format!("The plan:\n{}\n", answer.trim_end()));
    Ok(Ok(plan))
}

/// Asks the planner, once more if its first answer has problems. An answer that comes back has none.
fn ask_planner(
    goal: &str,
    args: MakeArgs,
    planner: &Planner<'_>,
    found: &Arc<DiscoveryResult>,
    context: &Context,
) -> Result<PlannerOutcome, CliError> {
    // People read the goal in lists of runs, and not what the planner is told about the format.
    let wanted = TypedRequest { found: Arc::clone(found), ..args.wanted(format!("plan: {goal}"), context)? };
    let settings = wanted.settings.clone();
    let given = models::given(&wanted.settings, context)?;
    let models = models::catalog(&wanted.settings, given.as_ref(), context)?;
    let judging = models::catalog(&wanted.settings, given.as_ref(), context)?;
    let PreparedRun { request: run, .. } = PreparedRun::new(wanted, context, &models)?;
    let asked_for = |prompt: String| RunRequest { prompt: Some(prompt.into()), ..run.clone() };
    let (asked, problems) = runtime::driving(async {
        let mut signals = Signals::listen()?;
        let posse = context.open(models, &settings)?;
        let answer =
            match Box::pin(ask(&posse, asked_for(planner.request().to_owned()), &mut signals, context))
                .await?
            {
                PlannerOutcome::Answer(answer) => answer,
                ended @ PlannerOutcome::Ended(_) => return Ok((ended, Vec::new())),
            };
        let problems = planner.problems(&answer, &judging);
        if problems.is_empty() {
            return Ok((PlannerOutcome::Answer(answer), problems));
        }
        note(&format!("{}\nthe planner is asked once more", report(None, &problems)));
        let again = asked_for(planner.second_request(&answer, &problems));
        let answer = Box::pin(ask(&posse, again, &mut signals, context)).await?;
        let problems = match &answer {
            PlannerOutcome::Answer(answer) => planner.problems(answer, &judging),
            PlannerOutcome::Ended(_) => Vec::new(),
        };
        Ok((answer, problems))
    })?;
    match asked {
        PlannerOutcome::Answer(answer) if !problems.is_empty() => {
            note(&format!("The planner's answer:\n{}\n", answer.trim_end()));
            Err(CliError::failed(report(None, &problems)).hint(
                "put the answer above right by hand, or say the goal in other words; no plan was written",
            ))
        }
        asked => Ok(asked),
    }
}

impl MakeArgs {
    /// The planner of a run that carries its plan out at once.
    pub(crate) fn of_run(
        (model, base_url): (Option<String>, Option<String>),
        known: KnownArgs,
        dir: Option<PathBuf>,
    ) -> Self {
        Self { model, base_url, known, dir, ..Self::default() }
    }

    fn wanted(self, request: String, context: &Context) -> Result<TypedRequest, CliError> {
        let dir = context.environment.cwd.join(self.dir.as_deref().unwrap_or(Path::new(".")));
        let flags = Settings {
            model: WithOrigin::flag(self.model, "--model"),
            base_url: WithOrigin::flag(self.base_url, BASE_URL_FLAG),
            max_usd: WithOrigin::flag(self.max_usd, "--max-usd"),
            max_time: WithOrigin::flag(self.max_time, "--max-time"),
            max_turns: WithOrigin::flag(self.max_turns, "--max-turns"),
            max_tokens: WithOrigin::flag(self.max_tokens, "--max-tokens"),
            ..Settings::default()
        };
        Ok(TypedRequest {
            settings: flags.or(Settings::resolve(context, &dir)?),
            request,
            definition: Some(PLANNER.to_owned()),
            agents: self.known.agents,
            agents_md: print_noted(discovery::agents_md(self.dir.as_ref(), context)?),
            dir: self.dir,
            max_depth: Some(0),
            permissions: PermissionArgs { rules: read_only_rules(context)?, ..PermissionArgs::default() },
            ..TypedRequest::default()
        })
    }
}

/// Carries one run of the planner, and gives its document without anything that would steer a terminal.
async fn ask(
    posse: &Posse,
    request: RunRequest,
    signals: &mut Signals,
    context: &Context,
) -> Result<PlannerOutcome, CliError> {
    let handle = match signals.unless_one_comes(posse.start_request(request, false)).await {
        Ok(started) => started?,
        Err(ask) => return Ok(PlannerOutcome::Ended(ask.exit())),
    };
    let mut view = View::new(false, context);
    match drive_to_end(posse, &handle, 0, signals, &mut view, &mut QuestionPrompter::without_terminal())
        .await?
    {
        DriveOutcome::Stopped(ask) => Ok(PlannerOutcome::Ended(ask.exit())),
        DriveOutcome::Ended(finished) => {
            print_end(&finished, view.shows_figures());
            let RunOutcome { status, text, .. } = &*finished;
            if *status == RunStatus::Completed {
                Ok(PlannerOutcome::Answer(answer_in(text)))
            } else {
                Ok(PlannerOutcome::Ended(Exit::of(&finished)))
            }
        }
    }
}

fn hand_over(plan: &str, target: Option<Target>) -> Result<Exit, CliError> {
    if let Some(target) = target {
        target.write(plan)?;
        note(&format!("written to {}", target.path.display()));
    } else {
        let mut output = Output::new();
        output.paragraph(plan)?;
        output.flush()?;
    }
    Ok(Exit::DONE)
}

/// The file that a plan goes to.
struct Target {
    path: PathBuf,
    force: bool,
}

impl Target {
    /// Finds out before the planner starts whether the file could be written.
    fn new(file: &Path, force: bool, context: &Context) -> Result<Self, CliError> {
        let target = Self { path: context.environment.cwd.join(file), force };
        let wrong = |problem: &str| CliError::usage(format!("--output: {}: {problem}", file.display()));
        if target.path.is_dir() {
            return Err(wrong("is a directory"));
        }
        if !force && target.path.symlink_metadata().is_ok() {
            return Err(wrong("is there already").hint("name another file, or write over it with --force"));
        }
        if !target.path.parent().is_some_and(Path::is_dir) {
            return Err(wrong("its folder does not exist"));
        }
        Ok(target)
    }

    /// Writes the whole file or nothing, and without `--force` never over another.
    fn write(&self, plan: &str) -> Result<(), CliError> {
        let failed = |error: std::io::Error| {
            note(plan);
            CliError::failed(format!("{}: cannot write the plan: {error}", self.path.display()))
                .hint("the plan is printed above")
        };
        let folder = self.path.parent().unwrap_or(&self.path);
        let mut builder = tempfile::Builder::new();
        builder.prefix(".posse-plan-").permissions(Permissions::from_mode(FILE_MODE));
        let mut file = builder.tempfile_in(folder).map_err(failed)?;
        let end = if plan.ends_with('\n') { "" } else { "\n" };
        file.write_all(plan.as_bytes()).and_then(|()| file.write_all(end.as_bytes())).map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        let persisted =
            if self.force { file.persist(&self.path) } else { file.persist_noclobber(&self.path) };
        persisted.map(drop).map_err(|error| failed(error.error))
    }
}
