//! Starts runs in the background: this program under a hidden verb ([`posse_setup::detach`]).

pub(crate) use posse_setup::detach::name_log;

use std::io::IsTerminal;

use posse_setup::PreparedRun;

use crate::commands::background::VERB;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, note};

/// The reply of the process in the background.
pub(crate) type Answer = posse_setup::detach::Answer<CliError>;

/// Starts the run in the background and prints its id.
pub(crate) fn detach_and_print(
    prepared: &PreparedRun,
    json: bool,
    context: &Context,
) -> Result<Exit, CliError> {
    let program = std::env::current_exe()
        .map_err(|error| CliError::failed(format!("this program cannot be found: {error}")))?;
    let started: Result<String, CliError> =
        posse_setup::detach::start(prepared, &program, VERB, context.state_dir()?)?;
    let run = started?;
    let mut output = Output::new();
    if json {
        output.json(&posse::api::RunReference::new(&run))?;
    } else {
        output.own(&format!("{run}\n"))?;
    }
    output.flush()?;
    if !json && std::io::stdout().is_terminal() {
        note(&format!("it runs in the background; `posse attach {run}` shows it"));
        note(&format!("`posse wait {run}` waits for its end"));
    }
    Ok(Exit::DONE)
}
