//! `posse agents`: which definitions there are, what one says, and whether all are well written.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use posse::discovery::Holds;
use posse::{Decision, Definition, Definitions};
use posse_agent::definition::UnusedModel;
use posse_domain::definition::Mode;
use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::found::{self, Found, List, Origin, validate};
use crate::launch::working_dir;
use crate::models;
use crate::output::Output;

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
        Some(AgentsVerb::Validate(args)) => validate(&args.paths, Holds::Agents, args.json, context),
    }
}

/// What a run in this directory would find.
pub(crate) fn load(args: &ListArgs, context: &Context) -> Result<Found, CliError> {
    let dir = working_dir(args.dir.clone(), &context.environment.cwd)?;
    Found::load(Path::new(&dir), Some(&models::usual(context)?), context)
}

fn show(args: &ShowArgs, context: &Context) -> Result<Exit, CliError> {
    let found = load(&args.listing, context)?;
    let known = Definitions::builtin_and(found.and_given(&[]));
    let definition = known.find(&args.name).map_err(|unknown| {
        CliError::usage(unknown.to_string()).hint("`posse agents` lists them, and where they are from")
    })?;
    let entry = found.agents.iter().find(|entry| entry.counts() && entry.value.name == definition.name);
    let origin = entry.map_or(Origin::BuiltIn, |entry| found.origin(entry.place));
    let trusted = entry.is_none_or(|entry| entry.trusted);
    let unused = entry.and_then(|entry| entry.unused_model.as_ref());
    let mut output = Output::new();
    if args.listing.json {
        output.json(&json!({
            "version": 1,
            "definition": &**definition,
            "origin": origin,
            "path": entry.map(|entry| &entry.path),
            "trusted": trusted,
            "unused_model": unused.map(|unused| &unused.name),
        }))?;
        return Ok(Exit::DONE);
    }
    let place = entry.map(|entry| format!(" {}", found.shown.path(&entry.path))).unwrap_or_default();
    let text = described(definition, &format!("{}{place}", origin.words()), trusted, unused);
    output.paragraph(&format!("{text}\n{}", definition.prompt.trim_end()))?;
    output.flush()?;
    Ok(Exit::DONE)
}

/// Names in one line.
pub(crate) fn names(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The model, and the one that the file names if that is another.
fn model_line(model: Option<&str>, unused: Option<&UnusedModel>) -> String {
    let model = model.unwrap_or("the parent's, at the root the run's");
    let unused = unused.map(|unused| format!("; its file names {}, {}", unused.name, unused.why));
    format!("{model}{}", unused.unwrap_or_default())
}

/// All but the prompt, one thing on a line.
pub(crate) fn described(
    definition: &Definition,
    from: &str,
    trusted: bool,
    unused: Option<&UnusedModel>,
) -> String {
    let Definition { name, display_name, description, model, rules, mode, .. } = definition;
    let named = if display_name == name { name.clone() } else { format!("{name} ({display_name})") };
    let number =
        |value: Option<u32>, none: &str| value.map_or_else(|| none.to_owned(), |value| value.to_string());
    let mut lines = vec![
        ("name", named),
        ("from", from.to_owned()),
        ("description", description.split_whitespace().collect::<Vec<_>>().join(" ")),
        ("tools", names(&definition.tools)),
        ("spawns", definition.spawns.as_deref().map_or_else(|| "none".to_owned(), names)),
        ("model", model_line(model.as_deref(), unused)),
        ("turns", number(definition.max_turns, "the run's")),
        ("at once", number(definition.parallel, "as many as the run allows")),
        ("used as", if *mode == Mode::Primary { "root only" } else { "root or child" }.to_owned()),
    ];
    if found::reaches_skills(&definition.tools) {
        lines.push(("skills", definition.skills.as_deref().map_or_else(|| "all".to_owned(), names)));
    }
    lines.extend(definition.temperature.map(|value| ("temperature", value.to_string())));
    lines.extend(definition.top_p.map(|value| ("top_p", value.to_string())));
    lines.extend(definition.background.then(|| ("background", "yes".to_owned())));
    lines.extend(definition.may_share_history.then(|| ("history", "may be shared with children".to_owned())));
    if definition.default != Decision::Allow {
        lines.push(("permissions", "asks for everything".to_owned()));
    }
    lines.extend((!trusted).then(|| ("trust", "not trusted yet: `posse trust`".to_owned())));
    let mut text = String::new();
    for (key, value) in lines {
        // A text cannot fail to be written to.
        let _ = writeln!(text, "{:14}{value}", format!("{key}:"));
    }
    for rule in rules {
        let _ = writeln!(text, "{:14}{} {}", "rule:", rule.decision, rule.pattern);
    }
    text
}
