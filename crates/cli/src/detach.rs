//! Runs that go on after the command has returned: this program under a hidden verb ([`posse_setup::detach`]).

pub(crate) use posse_setup::detach::name_log;

use crate::commands::background::VERB;
use crate::context::Context;
use crate::error::CliError;
use crate::launch::PreparedRun;

/// What the process in the background answers.
pub(crate) type Answer = posse_setup::detach::Answer<CliError>;

/// Starts the run in the background and gives its id.
pub(crate) fn detach(prepared: &PreparedRun, context: &Context) -> Result<String, CliError> {
    let program = std::env::current_exe()
        .map_err(|error| CliError::failed(format!("this program cannot be found: {error}")))?;
    posse_setup::detach::start(prepared, &program, VERB, context.state_dir()?)?
}
