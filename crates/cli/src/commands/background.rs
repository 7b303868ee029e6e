//! The hidden verb that executes a run in the background; see [`crate::detach`].

use std::io::Read;
use std::path::PathBuf;

use posse_setup::detach::{StartedRun, start_received};

use crate::context::Context;
use crate::detach::{Answer, name_log};
use crate::drive::drive_and_apply;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::questions::QuestionPrompter;
use crate::runtime;
use crate::signals::Signals;
use crate::view::View;

pub(crate) const VERB: &str = "__background";

/// Execute a run in the background; the run is described on standard input
#[derive(Debug, clap::Args)]
pub(crate) struct BackgroundArgs {
    /// The log file that standard error goes to
    log: PathBuf,
}

/// Executes a run in the background.
pub(crate) fn background(args: &BackgroundArgs, context: &Context) -> Result<Exit, CliError> {
    // A separate session, so that closing the terminal does not end it. It fails only if a user typed the verb;
    // then the session stays unchanged.
    let _ = rustix::process::setsid();
    let mut output = Output::new();
    runtime::driving(async {
        let started = async {
            let mut signals = Signals::listen()?;
            let json = read_run()?;
            match signals.unless_one_comes(Box::pin(start_received(&json, context))).await {
                Ok(started) => Ok((signals, started?)),
                Err(_) => Err(CliError::failed("it was stopped before the run had begun")),
            }
        };
        let (mut signals, StartedRun { posse, handle, local }) = match Box::pin(started).await {
            Ok(started) => started,
            Err(error) => {
                output.plain_json(&Answer::Refused(error))?;
                return Ok(Exit::FAILED);
            }
        };
        name_log(&args.log, handle.id().as_str());
        // The process that started this one may be gone. The run continues.
        drop(output.plain_json(&Answer::Started { run: handle.id().to_string() }));
        drive_and_apply(
            &posse,
            &handle,
            0,
            &mut signals,
            View::plain(),
            QuestionPrompter::without_terminal(),
            local.apply,
        )
        .await
    })
}

fn read_run() -> Result<String, CliError> {
    let mut text = String::new();
    let read = std::io::stdin().lock().read_to_string(&mut text);
    read.map_err(|error| CliError::usage(format!("standard input cannot be read: {error}")))?;
    Ok(text)
}
