//! `posse man`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::help;
use crate::output::{Output, note};
use crate::text::plural;

/// The name of the command.
const NAME: &str = "posse";
/// What a renderer writes first: how man prints an apostrophe.
const PREAMBLE: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";
/// The program and its version, at the foot of each page.
const SOURCE: &str = concat!("posse ", env!("CARGO_PKG_VERSION"));

/// Print the manual page, or write the pages of all verbs into a directory
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// The verb whose page is printed, such as `run` or `plan check` [default: the page of the command]
    #[arg(conflicts_with = "dir")]
    verb: Vec<String>,
    /// Write the pages of the command and of all verbs into this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints or writes manual pages.
pub(crate) fn man(args: &ManArgs, context: &Context) -> Result<Exit, CliError> {
    let command = without_help(help::command());
    if let Some(dir) = &args.dir {
        let pages = write_pages(&command, dir)?;
        note(&format!("wrote {} to {}", plural(pages, "page"), dir.display()));
        return Ok(Exit::DONE);
    }
    let mut verb = &command;
    for word in args.verb.iter().flat_map(|words| words.split_whitespace()) {
        verb = verb.find_subcommand(word).filter(|verb| !verb.is_hide_set()).ok_or_else(|| {
            let verb = args.verb.join(" ");
            CliError::usage(format!("there is no verb `{verb}`")).hint("`posse help` lists the verbs")
        })?;
    }
    let mut output = Output::new();
    output.own(&page(verb)?)?;
    output.flush()?;
    if std::io::stdout().is_terminal() {
        let words = [context.program.as_str(), "man"].into_iter().chain(args.verb.iter().map(String::as_str));
        let typed = words.collect::<Vec<_>>().join(" ");
        note(&format!("this is the source of the page; `{typed} | man -l -` shows it"));
    }
    Ok(Exit::DONE)
}

/// The parser without the verb `help`, which has no page.
fn without_help(command: Command) -> Command {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    command
}

/// The page of a verb, in the format of man.
fn page(command: &Command) -> Result<String, CliError> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let mut bytes = Vec::new();
    // The page lists options and verbs in its own way; the template is for terminals.
    let shown = command.clone().help_template("{all-args}").disable_help_subcommand(true);
    // The short help leaves out options that a page must explain.
    let shown = shown.mut_args(|arg| arg.hide_short_help(false));
    let title = name.to_uppercase();
    let man = Man::new(shown).title(title).source(SOURCE).manual("Posse");
    sections(&man, command, &mut bytes)
        .map_err(|error| CliError::failed(format!("the page of {name} cannot be made: {error}")))?;
    // Each section is rendered with these lines before it. The page needs them once.
    let page = String::from_utf8_lossy(&bytes).replace(PREAMBLE, "");
    Ok(format!("{PREAMBLE}{page}"))
}

/// The sections of a page.
fn sections(man: &Man, command: &Command, page: &mut Vec<u8>) -> std::io::Result<()> {
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if command.get_subcommands().any(|verb| !verb.is_hide_set()) {
        man.render_subcommands_section(page)?;
    }
    let mut more = Roff::default();
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    for block in after.split("\n\n") {
        add_block(&mut more, block);
    }
    if command.get_name() != NAME {
        more.control("SH", ["SEE ALSO"]);
        more.text([bold(NAME), roman("(1)")]);
    }
    more.to_writer(page)
}

/// Adds a block of the text after the help. Its first line is the title of a section if it ends with a colon; the lines
/// beneath it stay as they are.
fn add_block(page: &mut Roff, block: &str) {
    let (first, rest) = block.split_once('\n').unwrap_or((block, ""));
    let Some(title) = first.strip_suffix(':') else {
        if !block.trim().is_empty() {
            page.control("SH", ["NOTES"]);
            page.text([roman(block.split_whitespace().collect::<Vec<_>>().join(" "))]);
        }
        return;
    };
    let title = title.split(',').next().unwrap_or(title).to_uppercase();
    page.control("SH", [title.as_str()]);
    page.control("nf", []);
    for line in rest.lines() {
        page.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
    }
    page.control("fi", []);
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
