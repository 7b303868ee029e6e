//! `posse agents`: which definitions there are, what one says, and whether all are well written.

use std::path::{Path, PathBuf};

use posse::Definitions;
use posse::discovery::Holds;
use serde_json::json;

use super::definition_page::{self, DefinitionOrigin};
use crate::commands::definition_list::{List, print_validation, warnings};
use crate::context::Context;
use crate::discovery::{self, DiscoveryResult, Origin, validate};
use crate::error::CliError;
use crate::exit::Exit;
use crate::launch::working_dir;
use crate::models;
use crate::output::{Output, print_noted};

/// List the definitions of agents: which there are, where from, and what shadows what
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct AgentsArgs {
    #[command(subcommand)]
    verb: Option<AgentsVerb>,
    #[command(flatten)]
    listing: ListArgs,
}

/// Where to look, and how to print.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// The working directory of the run that would use them [default: the current one]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum AgentsVerb {
    Show(ShowArgs),
    Validate(ValidateArgs),
}

/// Print what one definition comes to: its prompt, tools, limits and model
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) listing: ListArgs,
}

/// Check files strictly: every oddity with file, line and what to do; exit code 1 if something is wrong
#[derive(Debug, clap::Args)]
pub(crate) struct ValidateArgs {
    /// Files and folders to check [default: everything that is found]
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Lists, shows or checks definitions.
pub(crate) fn agents(args: &AgentsArgs, context: &Context) -> Result<Exit, CliError> {
    match &args.verb {
        None => {
            let found = load(&args.listing, context)?;
            let built_in = posse::builtin();
            let list = List { what: "agents", found: &found, entries: &found.agents, built_in: &built_in };
            list.print(args.listing.json)?;
            Ok(Exit::DONE)
        }
        Some(AgentsVerb::Show(args)) => show(args, context),
        Some(AgentsVerb::Validate(args)) => {
            print_validation(&validate(&args.paths, Holds::Agents, context)?, args.json)
        }
    }
}

/// What a run in this directory would find.
pub(crate) fn load(args: &ListArgs, context: &Context) -> Result<DiscoveryResult, CliError> {
    let dir = working_dir(args.dir.clone(), &context.environment.cwd)?;
    Ok(DiscoveryResult::load(Path::new(&dir), Some(&models::usual(context)?), context)?)
}

fn show(args: &ShowArgs, context: &Context) -> Result<Exit, CliError> {
    let found = load(&args.listing, context)?;
    let known = Definitions::builtin_and(found.and_given(&[]));
    let definition = known.find(&args.name).map_err(|unknown| {
        let problem = found.why_unusable(&args.name, Holds::Agents).unwrap_or_else(|| unknown.to_string());
        CliError::usage(problem).hint("`posse agents` lists them, and where they are from")
    })?;
    let entry = found.agents.iter().find(|entry| entry.counts() && entry.value.name == definition.name);
    let mut definition = definition_page::as_in_runs(definition, entry.is_some());
    definition_page::only_its_rules(&mut definition);
    let origin = entry.map_or(Origin::BuiltIn, |entry| found.origin(entry.place));
    let agents_md = print_noted(discovery::agents_md_file(args.listing.dir.as_ref(), context)?);
    let mut output = Output::new();
    if args.listing.json {
        output.json(&json!({
            "definition": definition,
            "origin": origin,
            "path": entry.map(|entry| &entry.path),
            "trusted": entry.is_none_or(|entry| entry.trusted),
            "unused_model": entry.and_then(|entry| Some(&entry.unused_model.as_ref()?.name)),
            "warnings": entry.map(|entry| warnings(&entry.warnings)).unwrap_or_default(),
            "agents_md": agents_md,
        }))?;
        return Ok(Exit::DONE);
    }
    let place = entry.map(|entry| format!(" {}", found.shown.path(&entry.path))).unwrap_or_default();
    let from = format!("{}{place}", origin.words());
    let built_in = DefinitionOrigin { from: &from, trusted: true, unused: None, warnings: &[] };
    let about = entry.map_or(built_in, |entry| DefinitionOrigin::entry(entry, &from));
    let mut lines = definition_page::described(&definition, &about);
    lines.push(definition_page::used_as(&definition));
    let agents_md = agents_md.map(|file| found.shown.path(&file));
    lines.push(definition_page::in_a_run(&definition, agents_md.as_deref()));
    lines.extend(about.last());
    output.paragraph(&format!("{}\n{}", definition_page::text(&lines), definition.prompt.trim_end()))?;
    output.flush()?;
    Ok(Exit::DONE)
}
