//! The hidden verb that carries a run in the background; see [`crate::background`].

use std::io::Read;
use std::path::PathBuf;

use crate::context::Context;
use crate::detach::{Answer, name_log};
use crate::drive::drive_and_apply;
use crate::error::CliError;
use crate::exit::Exit;
use crate::launch::PreparedRun;
use crate::models;
use crate::output::Output;
use crate::questions::QuestionPrompter;
use crate::runtime;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::view::View;

/// Its name.
pub(crate) const VERB: &str = "__background";

/// Carry a run in the background; the run is described on standard input
#[derive(Debug, clap::Args)]
pub(crate) struct BackgroundArgs {
    /// The log file that standard error goes to
    log: PathBuf,
}

/// Carries a run in the background.
pub(crate) fn background(args: &BackgroundArgs, context: &Context) -> Result<Exit, CliError> {
    // Its own session: closing the terminal where it was started does not reach it. It leads no group yet, so
    // this can only fail if somebody typed the verb; then it stays where it is.
    let _ = rustix::process::setsid();
    let mut output = Output::new();
    runtime::driving(async {
        let started = async {
            let mut signals = Signals::listen()?;
            let PreparedRun { request, local } = read_run()?;
            let settings = Settings::resolve(context, &context.environment.cwd.join(&request.dir))?;
            let models = models::catalog(&settings, request.terms.base_url.as_ref(), context)?;
            let posse = context.open_with_skills(models, &settings, &local.skill_folders)?;
            let handle = match signals.unless_one_comes(posse.start_request(request, false)).await {
                Ok(started) => started?,
                Err(_) => return Err(CliError::failed("it was stopped before the run had begun")),
            };
            Ok((signals, posse, handle, local.apply))
        };
        let (mut signals, posse, handle, apply) = match Box::pin(started).await {
            Ok(started) => started,
            Err(error) => {
                output.plain_json(&Answer::Refused(error))?;
                return Ok(Exit::FAILED);
            }
        };
        name_log(&args.log, handle.id().as_str());
        // Whoever asked may be gone; the run is not.
        drop(output.plain_json(&Answer::Started { run: handle.id().to_string() }));
        drive_and_apply(
            &posse,
            &handle,
            0,
            &mut signals,
            View::plain(),
            QuestionPrompter::without_terminal(),
            apply,
        )
        .await
    })
}

fn read_run() -> Result<PreparedRun, CliError> {
    let mut text = String::new();
    let read = std::io::stdin().lock().read_to_string(&mut text);
    read.map_err(|error| CliError::usage(format!("standard input cannot be read: {error}")))?;
    serde_json::from_str(&text).map_err(|error| CliError::usage(format!("this verb is Posse's own: {error}")))
}
