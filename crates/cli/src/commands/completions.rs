//! `posse completions`.

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use crate::args::Cli;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    // Without hidden verbs.
    let whole = Cli::command();
    let verbs = whole.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    let mut shown = clap::Command::new("posse").version(env!("CARGO_PKG_VERSION")).subcommands(verbs);
    generate(args.shell, &mut shown, "posse", &mut script);
    let mut output = Output::new();
    output.own(&String::from_utf8_lossy(&script))?;
    output.flush()?;
    Ok(Exit::DONE)
}
