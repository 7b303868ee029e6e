//! What every verb needs: the environment, what a test binary adds, and the state directory.

use std::ops::Deref;
use std::path::Path;

use posse_setup::Setup;
use posse_setup::settings::{ResolvedSettings, Settings};

use crate::Extras;
use crate::commands::demo;
use crate::env::ProcessEnvironment;
use crate::error::CliError;
use crate::output::print_notes;

/// The composition root's own part.
pub(crate) struct Context {
    /// What is set up for the person who typed the command.
    setup: Setup,
    /// Whether colour and animation are unwelcome.
    pub(crate) plain: bool,
    /// What a person types to call this program again.
    pub(crate) program: String,
}

impl Context {
    /// Reads the environment.
    pub(crate) fn new(program: String, extras: Extras) -> Result<Self, CliError> {
        let ProcessEnvironment { environment, log, plain } = ProcessEnvironment::read()?;
        if let Some(filter) = &log {
            log_to_stderr(filter)?;
        }
        let Extras { tools, faults, lease } = extras;
        let setup = Setup::new(environment)
            .with_tools(tools)
            .with_models(demo::models())
            .with_faults(faults)
            .with_lease(lease);
        Ok(Self { setup, plain, program })
    }

    /// The settings that count in a directory; what the person should know about the project's is printed.
    pub(crate) fn settings_in(&self, dir: &Path) -> Result<Settings, CliError> {
        let resolved = ResolvedSettings::of(&self.setup, dir)?;
        print_notes(&resolved.notes);
        Ok(resolved.settings)
    }
}

/// A verb hands its context to the library as what is set up.
impl Deref for Context {
    type Target = Setup;

    fn deref(&self) -> &Setup {
        &self.setup
    }
}

fn log_to_stderr(filter: &str) -> Result<(), CliError> {
    // The crate logs whole answers, and a provider that refuses a key may repeat it.
    let filter = tracing_subscriber::EnvFilter::try_new(format!("{filter},genai=off"))
        .map_err(|error| CliError::usage(format!("{}: {error}", posse_setup::environment::POSSE_LOG)))?;
    // Complaints about a log that cannot be written would go to the same place, and end the run with a panic.
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .log_internal_errors(false)
        .finish();
    // Only the first one counts; a test binary may have set its own.
    drop(tracing::subscriber::set_global_default(subscriber));
    Ok(())
}
