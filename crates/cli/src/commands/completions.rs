//! `posse completions`.

use clap_complete::env::Shells;

use crate::complete::VARIABLE;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;

/// The shells with a script.
const SHELLS: [&str; 5] = ["bash", "zsh", "fish", "elvish", "powershell"];

/// Print a completion script for a shell
///
/// The script asks this program for candidates, so it knows your runs, agents, skills and models.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_parser = SHELLS)]
    shell: String,
}

/// Prints the script.
pub(crate) fn completions(args: &CompletionsArgs, context: &Context) -> Result<Exit, CliError> {
    let unknown = || CliError::usage(format!("there is no script for {}", args.shell));
    let shells = Shells::builtins();
    let shell = shells.completer(&args.shell).ok_or_else(unknown)?;
    let mut script = Vec::new();
    shell
        .write_registration(VARIABLE, "posse", "posse", &context.program, &mut script)
        .map_err(|error| CliError::failed(format!("the script cannot be written: {error}")))?;
    let mut output = Output::new();
    output.own(&String::from_utf8_lossy(&script))?;
    output.flush()?;
    Ok(Exit::DONE)
}
