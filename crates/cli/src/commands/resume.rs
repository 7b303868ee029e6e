//! `posse resume`.

use posse::ports::Holder;
use posse::remote::ServerClient;
use posse::{Posse, Resume, RunId, RunSummary, api};
use posse_setup::RunExecution;
use posse_setup::execution::{is_interrupted, last_interrupted};
use posse_setup::project_runs::Project;
use serde_json::json;

use crate::context::Context;
use crate::drive::{drive_and_apply, print_end};
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::RunArg;
use crate::output::print_noted;
use crate::questions::{self, QuestionPrompter};
use crate::runtime;
use crate::server;
use crate::signals::Signals;
use crate::view::View;

/// Resume an interrupted run, and watch it until it ends
///
/// For a finished run this only prints its result. A run that another process executes is not changed.
#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    /// The run [default: the newest interrupted run of this project]
    #[arg(conflicts_with = "last")]
    run: Option<RunArg>,
    /// The newest interrupted run of all projects
    #[arg(long)]
    last: bool,
    /// Apply the result to the checkout when the run has completed, as `posse apply` does
    #[arg(long)]
    apply: bool,
    /// Print events and the result as JSON lines
    #[arg(long)]
    json: bool,
}

impl ResumeArgs {
    /// Whether no user watches the run.
    pub(crate) fn is_for_programs(&self) -> bool {
        self.json
    }
}

/// Continues a run.
pub(crate) fn resume(args: &ResumeArgs, context: &Context) -> Result<Exit, CliError> {
    if let Some(server) = context.server() {
        return resume_there(server, args, context);
    }
    let reader = context.open_read_only()?;
    let (found, execution) = runtime::looking(async {
        let found = find(&reader, args, context).await?;
        let execution = RunExecution::of_stored(&found, &reader, context).await;
        Ok((found, execution))
    })?;
    drop(reader);
    let execution = print_noted(execution)?;
    let (run, known) = (found.run, found.events);
    runtime::driving(async {
        let mut signals = Signals::listen()?;
        let posse = execution.open(context)?;
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
                let asking = QuestionPrompter::new(attended);
                drive_and_apply(&posse, &handle, known, &mut signals, view, asking, args.apply).await
            }
            Resume::Held(holder) => Err(held(&run, &holder)),
            Resume::Ended => {
                let finished = posse.wait(&run).await?;
                print_end(&posse, &finished, &mut view, args.apply).await
            }
        }
    })
}

/// Lets the server take over a run, and watches it.
fn resume_there(server: &ServerClient, args: &ResumeArgs, context: &Context) -> Result<Exit, CliError> {
    server::refuse(context, &[(args.apply, "--apply")])?;
    runtime::looking(async {
        let posse = context.open_for_commands()?;
        let mut signals = Signals::listen()?;
        let found = find(&posse, args, context).await?;
        if !found.status.is_running() {
            let finished = posse.wait(&found.run).await?;
            return print_end(&posse, &finished, &mut View::new(args.json, context), false).await;
        }
        let path = format!("/api/v1/runs/{}/resume", found.run);
        let body = json!({});
        let resuming = Box::pin(server.post::<api::StartedRun>(&path, &body));
        let resumed = match signals.unless_one_comes(resuming).await {
            Ok(resumed) => resumed.map_err(posse::Error::from)?,
            Err(ask) => return Ok(ask.exit()),
        };
        server::attach(&posse, &resumed, found.events, &mut signals, args.json, context).await
    })
}

/// The error for a run that another process executes.
fn held(run: &RunId, holder: &Holder) -> CliError {
    CliError::failed(format!("run {run} is already running ({holder})"))
        .hint(format!("`posse logs -f {run}` follows it, `posse wait {run}` waits for its end"))
}

/// Finds the run to resume.
async fn find(posse: &Posse, args: &ResumeArgs, context: &Context) -> Result<RunSummary, CliError> {
    let none = |message: &str| CliError::usage(message).hint("`posse ps` lists the runs");
    match &args.run {
        Some(run) => Ok(posse.summary(&run.find(posse, context).await?).await?),
        None if args.last => last_interrupted(posse).await?.ok_or_else(|| none("no run was interrupted")),
        None => {
            let runs = Project::current(&context.environment).runs(posse).await?;
            let found = runs.into_iter().find(is_interrupted);
            found.ok_or_else(|| none("no run of this project was interrupted"))
        }
    }
}
