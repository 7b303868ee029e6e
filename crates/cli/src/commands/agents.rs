//! `posse agents`: lists definitions, shows one, and checks their files.

use std::path::{Path, PathBuf};

use posse::discovery::DefinitionType;
use posse_setup::discovery::{self, DefinitionList, DiscoveryResult, ResolvedAgent, validate};
use posse_setup::models;
use posse_setup::working_dir::working_dir;

use super::definition_page::{self, DefinitionOrigin};
use crate::commands::definition_list::{List, print_validation};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, print_noted};

/// List the agent definitions with their origins
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct AgentsArgs {
    #[command(subcommand)]
    verb: Option<AgentsVerb>,
    #[command(flatten)]
    listing: ListArgs,
}

/// The directory to search, and the output format.
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

/// Show an agent definition as Posse reads it: prompt, tools, limits and model
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The name of the definition
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) listing: ListArgs,
}

/// Validate files; report every problem with file, line and fix; exit code 1 if there is one
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
            let list = DefinitionList::agents(&found, &built_in);
            if args.listing.json {
                Output::new().json(&list.to_api())?;
            } else {
                List(list).print()?;
            }
            Ok(Exit::DONE)
        }
        Some(AgentsVerb::Show(args)) => show(args, context),
        Some(AgentsVerb::Validate(args)) => {
            print_validation(&validate(&args.paths, DefinitionType::Agents, context)?, args.json)
        }
    }
}

/// Discovers what a run in this directory would find.
pub(crate) fn load(args: &ListArgs, context: &Context) -> Result<DiscoveryResult, CliError> {
    let dir = working_dir(args.dir.clone(), &context.environment.cwd)?;
    Ok(DiscoveryResult::load(Path::new(&dir), Some(&models::usual(context)?), context)?)
}

fn show(args: &ShowArgs, context: &Context) -> Result<Exit, CliError> {
    let found = load(&args.listing, context)?;
    let agent = found
        .agent(&args.name)
        .map_err(|error| CliError::from(error).hint("`posse agents` lists them, and where they are from"))?;
    let agents_md = print_noted(discovery::agents_md_file(args.listing.dir.as_ref(), context)?);
    let mut output = Output::new();
    if args.listing.json {
        output.json(&agent.to_api(agents_md.as_deref()))?;
        return Ok(Exit::DONE);
    }
    let ResolvedAgent { definition, entry, origin } = agent;
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
