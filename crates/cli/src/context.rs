//! The context of every verb: the environment, additions of a test binary, and the state directory.

use std::ops::Deref;

use posse::Posse;
use posse_setup::Setup;
use posse_setup::settings::check_variables;

use crate::Extras;
use crate::commands::demo;
use crate::display::{Display, DisplayArgs};
use crate::env::ProcessEnvironment;
use crate::error::{CliError, remedy_text};
use crate::foreground::WaitingProcess;
use crate::output::note;
use crate::server::ServerArgs;

/// What a server logs: what it could not do for its clients and for its webhook.
const SERVER_LOG: &str = "posse_protocols=warn";

pub(crate) struct Context {
    /// The setup of the user who typed the command.
    setup: Setup,
    /// How progress is shown.
    pub(crate) display: Display,
    /// The process that waits for this one at the terminal, if there is one.
    pub(crate) waiting: Option<WaitingProcess>,
    /// What a user types to call this program again.
    pub(crate) program: String,
}

impl Context {
    /// Reads the environment.
    pub(crate) fn new(
        program: String,
        extras: Extras,
        display: DisplayArgs,
        waiting: Option<WaitingProcess>,
    ) -> Result<Self, CliError> {
        let ProcessEnvironment { environment, log, terminal } = ProcessEnvironment::read()?;
        if let Some(filter) = &log {
            log_to_stderr(filter)?;
        }
        let Extras { tools, faults, lease } = extras;
        let setup = Setup::new(environment)
            .with_tools(tools)
            .with_models(demo::models())
            .with_faults(faults)
            .with_lease(lease);
        Ok(Self { setup, display: Display::new(display, terminal), waiting, program })
    }

    /// Uses the runs of a server, if one is named.
    pub(crate) fn on_server(self, server: &ServerArgs) -> Result<Self, CliError> {
        let environment = &self.setup.environment;
        let client = server.client(&environment.variables, &environment.cwd)?;
        Ok(Self { setup: self.setup.with_server(client), ..self })
    }

    /// Opens the state directory for reading. Such verbs work with wrong variables too, and only report them.
    pub(crate) fn open_read_only(&self) -> Result<Posse, CliError> {
        if let Err(error) = check_variables(&self.setup.environment) {
            let remedy = error.remedy.as_ref().map(|remedy| format!("; {}", remedy_text(remedy)));
            note(&format!("warning: {}{}", error.message(), remedy.unwrap_or_default()));
        }
        Ok(self.setup.open_read_only()?)
    }
}

/// Lets a verb pass its context to the library as the setup.
impl Deref for Context {
    type Target = Setup;

    fn deref(&self) -> &Setup {
        &self.setup
    }
}

/// Writes the log of a server to standard error, unless the user has chosen another one.
pub(crate) fn log_of_server() -> Result<(), CliError> {
    if tracing::dispatcher::has_been_set() { Ok(()) } else { log_to_stderr(SERVER_LOG) }
}

fn log_to_stderr(filter: &str) -> Result<(), CliError> {
    let filter = tracing_subscriber::EnvFilter::try_new(filter)
        .map_err(|error| CliError::usage(format!("{}: {error}", posse_setup::environment::POSSE_LOG)))?;
    // An error about the log would be written to the same stream and end the run with a panic.
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .log_internal_errors(false)
        .finish();
    // Only the first subscriber counts; a test binary may have set its own.
    drop(tracing::subscriber::set_global_default(subscriber));
    Ok(())
}
