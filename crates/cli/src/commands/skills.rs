//! `posse skills`: which skills there are, what one says, and whether all are well written.

use std::fmt::Write;

use posse::Definitions;
use posse::discovery::Holds;
use posse_agent::definition::nearest;
use posse_domain::nearest::hint;
use posse_domain::skill::{DEFAULT_SKILL_AGENT, Skill};
use serde_json::json;

use super::agents::{ListArgs, ShowArgs, ValidateArgs, described, load, names};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::found::{Entry, Found, List, validate};
use crate::output::Output;
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
        Some(SkillsVerb::Validate(args)) => validate(&args.paths, Holds::Skills, args.json, context),
    }
}

fn show(args: &ShowArgs, context: &Context) -> Result<Exit, CliError> {
    let found = load(&args.listing, context)?;
    let wanted = args.name.trim_start_matches('/').to_ascii_lowercase();
    let entry = found.skills.iter().find(|entry| entry.counts() && entry.value.name == wanted);
    let Some(entry) = entry else {
        let names = found.usable_skills().map(|skill| skill.name.as_str());
        let name = term::line(&args.name);
        return Err(CliError::usage(format!("there is no skill `{name}`{}", hint(nearest(&wanted, names))))
            .hint("`posse skills` lists them, and where they are from"));
    };
    let (skill, origin) = (&entry.value, found.origin(entry.place));
    let mut output = Output::new();
    if args.listing.json {
        output.json(&json!({
            "version": 1, "skill": skill, "origin": origin, "path": entry.path, "trusted": entry.trusted,
            "unused_model": entry.unused_model.as_ref().map(|unused| &unused.name),
        }))?;
        return Ok(Exit::DONE);
    }
    let from = format!("{} {}", origin.words(), found.shown.path(&entry.path));
    let text = if skill.fork { forked(entry, &found, &from) } else { inline(skill, &from, entry.trusted) };
    output.paragraph(&text)?;
    output.flush()?;
    Ok(Exit::DONE)
}

/// A skill that makes a sub-agent: what that would be.
fn forked(entry: &Entry<Skill>, found: &Found, from: &str) -> String {
    let (skill, trusted) = (&entry.value, entry.trusted);
    let known = Definitions::builtin_and(found.and_given(&[]));
    let agent = skill.agent.as_deref().unwrap_or(DEFAULT_SKILL_AGENT);
    let Some(base) = known.get(agent) else {
        return format!(
            "{}\nIts agent `{agent}` does not exist, so it cannot be used.",
            inline(skill, from, trusted)
        );
    };
    let mut kind = skill.definition(base);
    let prompt = std::mem::take(&mut kind.prompt);
    kind.name.clone_from(&skill.name);
    kind.display_name.clone_from(&skill.name);
    kind.description.clone_from(&skill.description);
    let mut text = described(&kind, from, trusted, entry.unused_model.as_ref());
    let delegates = skill.sub_agents.as_deref().map_or_else(|| "every skill it may use".to_owned(), names);
    let lines = [
        Some(("context", format!("a sub-agent of its own, as `{}`", base.name))),
        Some(("delegates to", delegates)),
        skill.max_depth.map(|depth| ("max depth", depth.to_string())),
        skill.max_retries_per_tool.map(|retries| ("retries", format!("{retries} for each tool"))),
        skill.turn_timeout_ms.map(|ms| ("turn timeout", format!("{ms} ms"))),
        Some(who_may(skill)),
    ];
    add(&mut text, &lines);
    format!("{text}\n{}", prompt.trim_end())
}

/// A skill that enters the conversation of whoever uses it.
fn inline(skill: &Skill, from: &str, trusted: bool) -> String {
    let mut text = String::new();
    let lines = [
        Some(("name", skill.name.clone())),
        Some(("from", from.to_owned())),
        Some(("description", skill.description.split_whitespace().collect::<Vec<_>>().join(" "))),
        Some(("context", "the conversation of whoever uses it".to_owned())),
        skill.tools.as_deref().map(|tools| ("tools", names(tools))),
        skill.dir.clone().map(|dir| ("files", dir)),
        Some(who_may(skill)),
        (!trusted).then(|| ("trust", "not trusted yet: `posse trust`".to_owned())),
    ];
    add(&mut text, &lines);
    for rule in &skill.rules {
        let _ = writeln!(text, "{:14}{} {}", "rule:", rule.decision, rule.pattern);
    }
    format!("{text}\n{}", skill.instructions.trim_end())
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

fn add(text: &mut String, lines: &[Option<(&'static str, String)>]) {
    for (key, value) in lines.iter().flatten() {
        // A text cannot fail to be written to.
        let _ = writeln!(text, "{:14}{value}", format!("{key}:"));
    }
}
