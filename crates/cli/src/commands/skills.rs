//! `posse skills`: which skills there are, what one says, and whether all are well written.

use std::path::Path;

use posse::discovery::Holds;
use posse::{Definition, Definitions};
use posse_agent::definition::nearest;
use posse_domain::nearest::hint;
use posse_domain::permission::{Decision, Operation, RunLayers, Verdict};
use posse_domain::skill::{DEFAULT_SKILL_AGENT, SKILL_TOOL, Skill};
use serde_json::json;

use super::agents::{ListArgs, ShowArgs, ValidateArgs, load};
use super::definition_page::{self, DefinitionOrigin, PageLine, names, one_line};
use crate::commands::definition_list::{List, print_validation, warnings};
use crate::context::Context;
use crate::discovery::{self, DiscoveryResult, Entry, Origin, SKILL_FILE, validate};
use crate::error::CliError;
use crate::exit::Exit;
use crate::launch::working_dir;
use crate::output::{Output, print_noted};
use crate::settings::Settings;
use crate::term;

/// List the skills: which there are, where from, and what shadows what
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
    /// Print what one skill comes to: its prompt, tools, limits and model
    Show(ShowArgs),
    Validate(ValidateArgs),
}

/// Lists, shows or checks skills.
pub(crate) fn skills(args: &SkillsArgs, context: &Context) -> Result<Exit, CliError> {
    match &args.verb {
        None => {
            let found = load(&args.listing, context)?;
            let list = List { what: "skills", found: &found, entries: &found.skills, built_in: &[] };
            list.print(args.listing.json)?;
            Ok(Exit::DONE)
        }
        Some(SkillsVerb::Show(args)) => show(args, context),
        Some(SkillsVerb::Validate(args)) => {
            print_validation(&validate(&args.paths, Holds::Skills, context)?, args.json)
        }
    }
}

fn show(args: &ShowArgs, context: &Context) -> Result<Exit, CliError> {
    let found = load(&args.listing, context)?;
    let wanted = args.name.trim_start_matches('/').to_ascii_lowercase();
    let entry = found.skills.iter().find(|entry| entry.counts() && entry.value.name == wanted);
    let Some(entry) = entry else {
        let names = found.usable_skills().map(|skill| skill.name.as_str());
        let name = term::line(&args.name);
        let problem = found
            .why_unusable(&wanted, Holds::Skills)
            .unwrap_or_else(|| format!("there is no skill `{name}`{}", hint(nearest(&wanted, names))));
        return Err(CliError::usage(problem).hint("`posse skills` lists them, and where they are from"));
    };
    let (skill, origin) = (&entry.value, found.origin(entry.place));
    let agents_md = print_noted(discovery::agents_md_file(args.listing.dir.as_ref(), context)?);
    let kind = kind(skill, &found);
    let ruling = ruling(skill, args, context)?;
    let mut output = Output::new();
    if args.listing.json {
        output.json(&json!({
            "skill": skill, "origin": origin, "path": entry.path, "trusted": entry.trusted,
            "unused_model": entry.unused_model.as_ref().map(|unused| &unused.name),
            "warnings": warnings(&entry.warnings), "definition": kind, "agents_md": agents_md,
            "decision": ruling.as_ref().map(|verdict| verdict.decision.to_string()),
            "because": ruling.as_ref().map(ToString::to_string),
        }))?;
        return Ok(Exit::DONE);
    }
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

/// What a rule of the person or of the project says about the use of a skill, whatever the run and the agent; none where no
/// rule speaks.
fn ruling(skill: &Skill, args: &ShowArgs, context: &Context) -> Result<Option<Verdict>, CliError> {
    let dir = working_dir(args.listing.dir.clone(), &context.environment.cwd)?;
    let settings = Settings::resolve(context, Path::new(&dir))?;
    let layers =
        RunLayers { operator: settings.rules(), project: settings.project_rules(), ..RunLayers::default() };
    Ok(layers.ruling(&Operation::new(SKILL_TOOL, Some(&skill.name))))
}

/// What the sub-agent of a forked skill is in a run; none if there is none.
fn kind(skill: &Skill, found: &DiscoveryResult) -> Option<Definition> {
    let known = Definitions::builtin_and(found.and_given(&[]));
    let base = known.get(skill.agent.as_deref().unwrap_or(DEFAULT_SKILL_AGENT)).filter(|_| skill.fork)?;
    let is_found = found.definitions().any(|definition| definition.name == base.name);
    let mut kind = skill.definition(&definition_page::as_in_runs(base, is_found));
    definition_page::only_its_rules(&mut kind);
    Some(kind)
}

/// A skill that makes a sub-agent: what that would be.
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

/// A skill that enters the conversation of whoever uses it, or cannot be carried out.
fn inline(skill: &Skill, about: &DefinitionOrigin<'_>, files: Option<PageLine>) -> String {
    let agent = skill.agent.as_deref().unwrap_or(DEFAULT_SKILL_AGENT);
    let context = if skill.fork {
        format!("its agent `{agent}` does not exist, so it cannot be used")
    } else {
        "the conversation of whoever uses it".to_owned()
    };
    let idle = if skill.tools.is_some() { "; `allowed-tools` counts with `context: fork` only" } else { "" };
    let lines = [
        Some(("name", skill.name.clone())),
        Some(("from", about.from.to_owned())),
        Some(("description", one_line(&skill.description))),
        Some(("context", context)),
        (!skill.fork).then(|| ("tools", format!("those of whoever uses it{idle}"))),
        files,
        Some(if skill.fork { ("used by", "nobody".to_owned()) } else { who_may(skill) }),
    ];
    let lines: Vec<PageLine> = lines.into_iter().flatten().chain(about.last()).collect();
    format!("{}\n{}", definition_page::text(&lines), skill.instructions.trim_end())
}

/// Where its files are, and whether somebody gets to see them.
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
        (true, true) => format!("agents, and people with `{call}`"),
        (true, false) => "agents only".to_owned(),
        (false, true) => format!("people only, with `{call}`"),
        (false, false) => "people only, with `posse run --skill`".to_owned(),
    };
    ("used by", who)
}
