//! `posse man`.

use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;

use crate::error::CliError;
use crate::exit::Exit;
use crate::help;
use crate::output::{Output, note};
use crate::text::plural;

/// Print the manual page, or write the pages of all verbs into a directory
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// The verb whose page is printed [default: the page of the command]
    #[arg(conflicts_with = "dir")]
    verb: Option<String>,
    /// Write the pages of the command and of all verbs into this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints or writes manual pages.
pub(crate) fn man(args: &ManArgs) -> Result<Exit, CliError> {
    let mut command = help::command();
    command.build();
    if let Some(dir) = &args.dir {
        let pages = write_pages(&command, dir)?;
        note(&format!("wrote {} to {}", plural(pages, "page"), dir.display()));
        return Ok(Exit::DONE);
    }
    let verb = match &args.verb {
        None => &command,
        Some(verb) => command.find_subcommand(verb).filter(|verb| !verb.is_hide_set()).ok_or_else(|| {
            CliError::usage(format!("there is no verb `{verb}`")).hint("`posse help` lists the verbs")
        })?,
    };
    let mut output = Output::new();
    output.own(&page(verb)?)?;
    output.flush()?;
    Ok(Exit::DONE)
}

/// The page of a verb, in the format of man.
fn page(command: &Command) -> Result<String, CliError> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let mut bytes = Vec::new();
    // The page lists options and verbs in its own way; the template is for terminals.
    let command = command.clone().help_template("{all-args}").disable_help_subcommand(true);
    Man::new(command)
        .title(name.to_uppercase())
        .render(&mut bytes)
        .map_err(|error| CliError::failed(format!("the page of {name} cannot be made: {error}")))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes the pages of a command and of its verbs; returns how many.
fn write_pages(command: &Command, dir: &Path) -> Result<u64, CliError> {
    let failed = |error: std::io::Error| {
        CliError::failed(format!("{} cannot be written: {error}", dir.display()))
            .hint("name a directory that can be written")
    };
    std::fs::create_dir_all(dir).map_err(failed)?;
    let mut waiting = vec![command];
    let mut count = 0;
    while let Some(command) = waiting.pop() {
        let name = command.get_display_name().unwrap_or_else(|| command.get_name());
        std::fs::write(dir.join(format!("{name}.1")), page(command)?).map_err(failed)?;
        count += 1;
        let is_verb = |verb: &&Command| !verb.is_hide_set() && verb.get_name() != "help";
        waiting.extend(command.get_subcommands().filter(is_verb));
    }
    Ok(count)
}
