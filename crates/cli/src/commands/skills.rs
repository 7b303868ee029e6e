//! `posse skills`: lists skills, shows one, and checks their files.

use std::path::Path;

use posse::discovery::DefinitionType;
use posse::{DEFAULT_SKILL_AGENT, Decision, Definition, Skill};
use posse_setup::discovery::{
    self, DefinitionList, Entry, Origin, ResolvedSkill, SKILL_FILE, skill_ruling, validate,
};
use posse_setup::working_dir::working_dir;

use super::agents::{ListArgs, ShowArgs, ValidateArgs, load};
use super::definition_page::{self, DefinitionOrigin, PageLine, names, one_line};
use crate::commands::definition_list::{List, print_validation};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, print_noted};

/// List the skills with their origins
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct SkillsArgs {
    #[command(subcommand)]
    verb: Option<SkillsVerb>,
    #[command(flatten)]
    listing: ListArgs,
}

#[derive(Debug, clap::Subcommand)]
enum SkillsVerb {
    /// Show a skill as Posse reads it: prompt, tools, limits and model
    Show(ShowArgs),
    Validate(ValidateArgs),
}

/// Lists, shows or checks skills.
pub(crate) fn skills(args: &SkillsArgs, context: &Context) -> Result<Exit, CliError> {
    match &args.verb {
        None => {
            let found = load(&args.listing, context)?;
            let list = DefinitionList::skills(&found);
            if args.listing.json {
                Output::new().json(&list.to_api())?;
            } else {
                List(list).print()?;
            }
            Ok(Exit::DONE)
        }
        Some(SkillsVerb::Show(args)) => show(args, context),
        Some(SkillsVerb::Validate(args)) => {
            print_validation(&validate(&args.paths, DefinitionType::Skills, context)?, args.json)
        }
    }
}

fn show(args: &ShowArgs, context: &Context) -> Result<Exit, CliError> {
    let found = load(&args.listing, context)?;
    let resolved = found
        .skill(&args.name)
        .map_err(|error| CliError::from(error).hint("`posse skills` lists them, and where they are from"))?;
    let agents_md = print_noted(discovery::agents_md_file(args.listing.dir.as_ref(), context)?);
    let dir = working_dir(args.listing.dir.clone(), &context.environment.cwd)?;
    let ruling = skill_ruling(&resolved.entry.value, Path::new(&dir), context)?;
    let mut output = Output::new();
    if args.listing.json {
        output.json(&resolved.to_api(agents_md.as_deref(), ruling.as_ref()))?;
        return Ok(Exit::DONE);
    }
    let ResolvedSkill { entry, origin, definition: kind } = resolved;
    let skill = &entry.value;
    let from = format!("{} {}", origin.words(), found.shown.path(&entry.path));
    let about = DefinitionOrigin::entry(entry, &from);
    let agents_md = agents_md.map(|file| found.shown.path(&file));
    let text = match &kind {
        Some(kind) => forked(skill, kind, &about, files(entry, origin), agents_md.as_deref()),
        None => inline(skill, &about, files(entry, origin)),
    };
    if let Some(verdict) = ruling.filter(|verdict| verdict.decision != Decision::Allow) {
        output.paragraph(&format!("in a run here: {verdict}\n"))?;
    }
    output.paragraph(&text)?;
    output.flush()?;
    Ok(Exit::DONE)
}

/// Describes the sub-agent of a forked skill.
fn forked(
    skill: &Skill,
    kind: &Definition,
    about: &DefinitionOrigin<'_>,
    files: Option<PageLine>,
    agents_md: Option<&str>,
) -> String {
    let named = Definition {
        name: skill.name.clone(),
        display_name: skill.name.clone(),
        description: skill.description.clone(),
        ..kind.clone()
    };
    let mut lines = definition_page::described(&named, about);
    lines.extend(definition_page::rules("and rules", &skill.rules));
    let delegates = skill.sub_agents.as_deref().map_or_else(|| "every skill it may use".to_owned(), names);
    let more = [
        Some(("context", format!("a sub-agent of its own, as `{}`", kind.name))),
        Some(("delegates to", delegates)),
        files,
        skill.max_depth.map(|depth| ("max depth", depth.to_string())),
        skill.max_retries_per_tool.map(|retries| ("retries", format!("{retries} for each tool"))),
        skill.turn_timeout_ms.map(|ms| ("turn timeout", format!("{ms} ms"))),
        Some(who_may(skill)),
        Some(definition_page::in_a_run(kind, agents_md)),
    ];
    lines.extend(more.into_iter().flatten());
    lines.extend(about.last());
    format!("{}\n{}", definition_page::text(&lines), kind.prompt.trim_end())
}

/// Describes a skill that an agent loads into its conversation, or that cannot be used.
fn inline(skill: &Skill, about: &DefinitionOrigin<'_>, files: Option<PageLine>) -> String {
    let agent = skill.agent.as_deref().unwrap_or(DEFAULT_SKILL_AGENT);
    let context = if skill.fork {
        format!("its agent `{agent}` does not exist, so it cannot be used")
    } else {
        "the conversation of the agent that loads it".to_owned()
    };
    let idle = if skill.tools.is_some() { "; `allowed-tools` is used with `context: fork` only" } else { "" };
    let lines = [
        Some(("name", skill.name.clone())),
        Some(("from", about.from.to_owned())),
        Some(("description", one_line(&skill.description))),
        Some(("context", context)),
        (!skill.fork).then(|| ("tools", format!("those of the agent that loads it{idle}"))),
        files,
        Some(if skill.fork { ("used by", "no agent".to_owned()) } else { who_may(skill) }),
    ];
    let lines: Vec<PageLine> = lines.into_iter().flatten().chain(about.last()).collect();
    format!("{}\n{}", definition_page::text(&lines), skill.instructions.trim_end())
}

/// Where its files are, and whether agents can read them.
fn files(entry: &Entry<Skill>, origin: Origin) -> Option<PageLine> {
    let has_folder = entry.path.file_name().is_some_and(|name| name == SKILL_FILE);
    let text = match (&entry.value.dir, &entry.value.project) {
        (Some(dir), None) if origin == Origin::Project => {
            format!("{dir} (git ignores it; it is read because you trust the skill)")
        }
        (Some(dir), _) => dir.clone(),
        (None, _) if has_folder => "none: git ignores its folder; `posse trust` has it read".to_owned(),
        (None, _) => return None,
    };
    Some(("files", text))
}

fn who_may(skill: &Skill) -> (&'static str, String) {
    let hint = skill.argument_hint.as_deref().map(|hint| format!(" {hint}")).unwrap_or_default();
    let call = format!("/{}{hint}", skill.name);
    let who = match (skill.for_models, skill.for_people) {
        (true, true) => format!("agents, and users with `{call}`"),
        (true, false) => "agents only".to_owned(),
        (false, true) => format!("users only, with `{call}`"),
        (false, false) => "users only, with `posse run --skill`".to_owned(),
    };
    ("used by", who)
}
