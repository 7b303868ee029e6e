//! Parses skills: a `SKILL.md` with front matter, or one YAML file.

use posse_domain::contract::DEFAULT_MAX_RETRIES_PER_TOOL;
use posse_domain::lifecycle::DELEGATE_TO_AGENT;
use posse_domain::permission::RULES_MAX;
use posse_domain::skill::{SKILL_NAME_MAX, Skill};

use super::common::{TEMPERATURE_MAX, description, model, references};
use super::fields::{Field, Fields, Format};
use super::front_matter::{Document, document, yaml_document};
use super::names::{name, reference};
use super::notes::{Notes, quoted};
use super::parse_options::{ParseOptions, ParsedFile, Role};
use super::tool_list::{self, EVERY, ToolList};

/// The keys of the front matter of a `SKILL.md`.
pub(super) const SKILL: Format = Format {
    what: "front matter",
    keys: &[
        "name",
        "description",
        "when_to_use",
        "allowed-tools",
        "context",
        "agent",
        "model",
        "max-iterations",
        "max-depth",
        "max-retries-per-tool",
        "timeout-per-iteration",
        "include_sub_agent_events",
        "disable-model-invocation",
        "user-invocable",
        "argument-hint",
        "background",
        "temperature",
        "sub_agents",
    ],
    ignored: &[
        "license",
        "compatibility",
        "metadata",
        "tags",
        "version",
        "author",
        "category",
        "keywords",
        "title",
        "display_name",
        "icon",
        "dependencies",
        "requirements",
        "created",
        "updated",
        "mode",
    ],
    not_here: &[
        ("hooks", "hooks come from the user's settings only; these are not run"),
        ("effort", "how much a model thinks is not set by skills"),
        ("paths", "skills are not chosen by the files at hand"),
        ("shell", "no command is run when a skill is loaded"),
        ("arguments", "arguments have no names; they are `$ARGUMENTS` and `$1` to `$9`"),
        ("disallowed-tools", "list the tools that it may use in `allowed-tools`"),
    ],
    texts: &["description", "when_to_use", "argument-hint", "compatibility"],
};

/// The keys of a YAML skill.
pub(super) const YAML_SKILL: Format = Format {
    what: "skill",
    keys: &[
        "name",
        "description",
        "system_prompt",
        "model",
        "temperature",
        "tools",
        "sub_agents",
        "max_iterations",
        "max_depth",
        "max_retries_per_tool",
        "timeout_per_iteration",
        "include_sub_agent_events",
        "agent",
        "background",
    ],
    ignored: &["version", "author", "license", "category", "tags", "metadata", "title", "display_name"],
    not_here: &[],
    texts: &["description", "system_prompt"],
};

/// Parses a skill from a `SKILL.md`. `folder` is the name of its folder, `dir` the path of that folder, for the skill's
/// files.
pub fn read_skill(
    bytes: &[u8],
    folder: &str,
    dir: Option<&str>,
    reading: &ParseOptions<'_>,
) -> ParsedFile<Skill> {
    let mut notes = Notes::new(reading.file);
    let value = skill(bytes, folder, dir, reading, &mut notes);
    notes.loaded(value)
}

/// Parses a skill from YAML. `stem` is the file's name without its extension. It is the skill's name if the text has
/// none. Such a skill is always forked, because it describes a sub-agent.
pub fn read_yaml_skill(bytes: &[u8], stem: &str, reading: &ParseOptions<'_>) -> ParsedFile<Skill> {
    let mut notes = Notes::new(reading.file);
    let value = yaml_skill(bytes, stem, reading, &mut notes);
    notes.loaded(value)
}

fn skill(
    bytes: &[u8],
    folder: &str,
    dir: Option<&str>,
    reading: &ParseOptions<'_>,
    notes: &mut Notes<'_>,
) -> Option<Skill> {
    let Document { mut fields, has_front_matter, body } = document(bytes, &SKILL, notes)?;
    if !has_front_matter {
        notes.problem(1, "there is no front matter", "begin with `---`, `name: …`, `description: …`, `---`");
    }
    if body.is_empty() {
        notes.problem(None, "there are no instructions", "write them below the front matter");
        return None;
    }
    let named = fields.take("name");
    let name_line = named.as_ref().map(|field| field.line);
    let name = name(named, folder, SKILL_NAME_MAX, notes)?;
    if !name.eq_ignore_ascii_case(folder) {
        let problem =
            format!("the skill is named `{name}` and its folder {}; `{name}` is used", quoted(folder));
        notes.problem(name_line, problem, "give both the same name");
    }
    let hint = fields.take("argument-hint").and_then(|field| field.text(notes));
    let flag = |fields: &mut Fields, key: &str, notes: &mut Notes<'_>| {
        fields.take(key).and_then(|field| field.flag(notes))
    };
    let when = fields.take("when_to_use").and_then(|field| field.text(notes));
    let skill = Skill {
        description: description(fields.take("description"), when.as_deref(), &body, notes),
        fork: fork(fields.take("context"), notes),
        for_models: !flag(&mut fields, "disable-model-invocation", notes).unwrap_or(false),
        for_people: flag(&mut fields, "user-invocable", notes).unwrap_or(true),
        argument_hint: hint.map(|hint| hint.trim().to_owned()).filter(|hint| !hint.is_empty()),
        dir: dir.map(ToOwned::to_owned),
        ..common(name, body, "allowed-tools", &mut fields, reading, notes)?
    };
    shell_note(&skill.instructions, notes);
    fields.finish(&SKILL, notes);
    Some(skill)
}

fn yaml_skill(bytes: &[u8], stem: &str, reading: &ParseOptions<'_>, notes: &mut Notes<'_>) -> Option<Skill> {
    let mut fields = yaml_document(bytes, &YAML_SKILL, notes)?;
    let name = name(fields.take("name"), stem, SKILL_NAME_MAX, notes)?;
    let prompt = fields.take("system_prompt").and_then(|field| field.text(notes)).unwrap_or_default();
    if prompt.trim().is_empty() {
        let fix = "write `system_prompt: |` and the text indented below";
        match fields.near("system_prompt") {
            Some((key, line)) => {
                let problem = format!(
                    "there is no `system_prompt`, but {} (did you mean `system_prompt`?)",
                    quoted(key)
                );
                notes.problem(line, problem, fix);
            }
            None => notes.problem(None, "there is no `system_prompt`", fix),
        }
        return None;
    }
    let skill = Skill {
        description: description(fields.take("description"), None, &prompt, notes),
        fork: true,
        ..common(name, prompt.trim().to_owned(), "tools", &mut fields, reading, notes)?
    };
    fields.finish(&YAML_SKILL, notes);
    Some(skill)
}

/// Parses the fields that both formats share.
fn common(
    name: String,
    instructions: String,
    tools_key: &str,
    fields: &mut Fields,
    reading: &ParseOptions<'_>,
    notes: &mut Notes<'_>,
) -> Option<Skill> {
    let every = ToolList::every(reading);
    let list = fields.take(tools_key).and_then(|field| tool_list::tools(&field, &every, reading, notes));
    let has_list = list.is_some();
    let mut list = list.unwrap_or_default();
    list.within_trust(reading);
    if list.rules.len() > RULES_MAX {
        notes.problem(None, format!("more than the {RULES_MAX} rules accepted"), "use fewer, wider patterns");
        return None;
    }
    let sub_agents = references(fields.take("sub_agents"), Role::SubAgent, notes);
    let delegates = sub_agents.as_ref().is_some_and(|names| !names.is_empty());
    if delegates && !list.tools.iter().any(|tool| tool == DELEGATE_TO_AGENT) {
        list.tools.push(DELEGATE_TO_AGENT.to_owned());
    }
    let mut whole = |key: &str, least: u32| fields.take(key).and_then(|field| field.whole(least, notes));
    let max_iterations = whole("max-iterations", 1);
    let max_retries_per_tool = whole("max-retries-per-tool", 1);
    // An untrusted file can only lower the limit.
    let most_retries = if reading.trusted() { u32::MAX } else { DEFAULT_MAX_RETRIES_PER_TOOL };
    let mut flag = |key: &str| fields.take(key).and_then(|field| field.flag(notes)).unwrap_or(false);
    let (include_sub_agent_events, background) = (flag("include_sub_agent_events"), flag("background"));
    Some(Skill {
        name,
        description: String::new(),
        instructions: instructions.into(),
        fork: false,
        agent: agent(fields.take("agent"), notes),
        tools: has_list.then_some(list.tools),
        rules: list.rules,
        sub_agents: sub_agents.filter(|names| !names.iter().any(|name| name == EVERY)),
        model: model(fields.take("model"), reading, notes),
        temperature: fields.take("temperature").and_then(|field| field.number(TEMPERATURE_MAX, notes)),
        max_iterations,
        max_depth: max_depth(fields.take("max-depth"), reading, notes),
        max_retries_per_tool: max_retries_per_tool.map(|retries| retries.min(most_retries)),
        turn_timeout_ms: fields.take("timeout-per-iteration").and_then(|field| field.duration_ms(notes)),
        include_sub_agent_events,
        for_models: true,
        for_people: true,
        argument_hint: None,
        background,
        trust: reading.trust,
        dir: None,
        project: None,
        shown_dir: None,
    })
}

/// In a root skill this can raise the run's limit, so it applies only if the file is trusted.
fn max_depth(field: Option<Field>, reading: &ParseOptions<'_>, notes: &mut Notes<'_>) -> Option<u32> {
    let field = field?;
    if !reading.trusted() {
        let problem = format!("{} is not used until the file is trusted", quoted(&field.key));
        notes.untrusted(field.line, problem);
        return None;
    }
    field.whole(0, notes)
}

fn agent(field: Option<Field>, notes: &mut Notes<'_>) -> Option<String> {
    let field = field?;
    let line = field.line;
    let name = reference(&field.text(notes)?);
    if name.is_empty() {
        return None;
    }
    notes.mention(Role::Agent, &name, line);
    Some(name)
}

fn fork(field: Option<Field>, notes: &mut Notes<'_>) -> bool {
    let Some(field) = field else { return false };
    let line = field.line;
    let context = field.text(notes).unwrap_or_default();
    match context.trim().to_ascii_lowercase().as_str() {
        "fork" => true,
        "inherit" | "inline" | "main" | "shared" => false,
        _ => {
            let problem =
                format!("context: {} is not known; the skill enters the conversation", quoted(&context));
            notes.problem(line, problem, "write `context: fork` for a sub-agent, or remove it");
            false
        }
    }
}

/// Warns about commands in `` !`…` ``, which other programs run while they load a skill.
fn shell_note(instructions: &str, notes: &mut Notes<'_>) {
    let runs = |line: &str| {
        let mut at = line.match_indices("!`").map(|(at, _)| at);
        at.any(|at| at == 0 || line[..at].ends_with([' ', '\t', ':', '(', '-', '*']))
    };
    if instructions.lines().any(runs) {
        let problem = "commands in !`…` are not run when the skill is loaded; they stay as text";
        notes.note(None, problem, "let the agent run them with its tools");
    }
}

#[cfg(test)]
mod tests;
