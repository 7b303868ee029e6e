//! `posse resume`.

use std::path::Path;

use posse::ports::Models;
use posse::{ModelRegistry, Posse, Resume, RunId, RunSummary};

use crate::context::Context;
use crate::discovery::folders_outside;
use crate::drive::{drive_and_apply, print_end};
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::RunArg;
use crate::models;
use crate::questions::{self, QuestionPrompter};
use crate::runtime;
use crate::signals::Signals;
use crate::view::View;

/// Runs that `--last` looks through.
const LOOKED_THROUGH: u32 = 1_000;

/// Go on with a run that was interrupted, and watch it until it ends
///
/// A run that has ended is only told. One that another process carries is left alone.
#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    /// The run
    #[arg(required_unless_present = "last", conflicts_with = "last")]
    run: Option<RunArg>,
    /// The newest run that was interrupted
    #[arg(long)]
    last: bool,
    /// Bring what it made into the checkout once it has completed, as `posse apply` does
    #[arg(long)]
    apply: bool,
    /// Print events and the result as JSON lines
    #[arg(long)]
    json: bool,
}

/// Goes on with a run.
pub(crate) fn resume(args: &ResumeArgs, context: &Context) -> Result<Exit, CliError> {
    let looking = context.open_read_only()?;
    let (found, given, folders) = runtime::looking(async {
        let found = find(&looking, args).await?;
        let given = looking.base_url(&found.run).await?;
        let folders = folders_outside(&looking.skills(&found.run).await?, Path::new(&found.dir));
        Ok((found, given, folders))
    })?;
    drop(looking);
    let settings = context.settings_in(Path::new(&found.dir))?;
    let models = models::catalog(&settings, given.as_ref(), context)?;
    check_model(&found, &models)?;
    let (run, known) = (found.run, found.events);
    runtime::driving(async {
        let mut signals = Signals::listen()?;
        let posse = context.open_with_skills(models, &settings, &folders)?;
        let mut view = View::new(args.json, context);
        let attended = questions::attended(args.json);
        let resuming =
            async { if attended { posse.resume_attended(&run).await } else { posse.resume(&run).await } };
        let resumed = match signals.unless_one_comes(Box::pin(resuming)).await {
            Ok(resumed) => resumed?,
            Err(ask) => return Ok(ask.exit()),
        };
        match resumed {
            Resume::Going(handle) => {
                let asking =
                    if attended { QuestionPrompter::here() } else { QuestionPrompter::without_terminal() };
                drive_and_apply(&posse, &handle, known, &mut signals, view, asking, args.apply).await
            }
            Resume::Held(holder) => Err(held(&run, holder.pid)),
            Resume::Ended => {
                let finished = posse.wait(&run).await?;
                print_end(&posse, &finished, &mut view, args.apply).await
            }
        }
    })
}

/// The error of a run that another process carries.
pub(crate) fn held(run: &RunId, pid: u32) -> CliError {
    CliError::failed(format!("run {run} is being run by process {pid}"))
        .hint(format!("`posse logs -f {run}` follows it, `posse wait {run}` waits for its end"))
}

/// A run cannot go on without its model; better to say so before it is taken over.
fn check_model(found: &RunSummary, models: &ModelRegistry) -> Result<(), CliError> {
    // A recorded run is looked for when it is needed.
    if !found.status.is_running() || posse::replayed(&found.model).is_some() {
        return Ok(());
    }
    let left = "bring it back, and resume again; the run is left as it is";
    let unusable = |problem: &str| format!("the model of run {} cannot be used: {problem}", found.run);
    // A key that is missing has an exit code of its own.
    models.canonical_name(&found.model).map_err(|error| {
        let message = unusable(&error.to_string());
        let made = if error.is_about_key() { CliError::unauthenticated } else { CliError::usage };
        made(message).hint(left)
    })?;
    let resolved = models.resolve(&found.model);
    resolved.map(drop).map_err(|problem| CliError::usage(unusable(&problem)).hint(left))
}

/// The run that is meant.
async fn find(posse: &Posse, args: &ResumeArgs) -> Result<RunSummary, CliError> {
    let candidates = match &args.run {
        Some(run) => posse.runs(run.find(posse).await?.as_str(), 1).await?,
        None => posse.runs("", LOOKED_THROUGH).await?,
    };
    let is_meant = |run: &RunSummary| !args.last || (run.status.is_running() && run.holder.is_none());
    let nothing = || CliError::usage("no run was interrupted").hint("`posse ps` lists the runs");
    candidates.into_iter().find(is_meant).ok_or_else(nothing)
}
