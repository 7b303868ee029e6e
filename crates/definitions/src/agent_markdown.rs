//! Parses agent Markdown: front matter as Claude Code and opencode write it, and a prompt.
//!
//! Why it is like this: `docs/decisions/definitions-foreign-files.md`.

use posse_domain::definition::{DEFINITION_NAME_MAX, Definition, Mode, Trust};
use posse_domain::lifecycle::{DELEGATE_TOOLS, TASK_TOOL};
use posse_domain::permission::{Decision, RULES_MAX, Rule};

use super::builtin::tools;
use super::common::{TEMPERATURE_MAX, TOP_P_MAX, description, model, references};
use super::fields::{Field, Fields, Format};
use super::front_matter::{Document, document};
use super::names::{display_name, name, without_doubles};
use super::notes::{Notes, quoted};
use super::parse_options::{ParseOptions, ParsedFile, Role};
use super::permission;
use super::tool_list::{self, EVERY, ToolList};
use super::tool_names::about_no_tool;
use crate::yaml::Value;

/// The read-only tools, for `permissionMode: plan`.
const PLAN_TOOLS: [&str; 8] = ["read", "glob", "grep", "list", "webfetch", "websearch", "todo", "skill"];

/// The keys of the front matter.
pub(super) const AGENT: Format = Format {
    what: "front matter",
    keys: &[
        "name",
        "description",
        "prompt",
        "tools",
        "disallowedTools",
        "model",
        "permissionMode",
        "maxTurns",
        "steps",
        "maxSteps",
        "skills",
        "spawns",
        "background",
        "mode",
        "temperature",
        "top_p",
        "permission",
        "disable",
        "disabled",
        "rules",
        "parallel",
        "may_share_history",
    ],
    ignored: &[
        "color",
        "hidden",
        "isolation",
        "version",
        "author",
        "license",
        "category",
        "tags",
        "keywords",
        "metadata",
        "options",
        "variant",
        "icon",
        "emoji",
        "title",
        "display_name",
        "created",
        "updated",
    ],
    not_here: &[
        ("mcpServers", "MCP servers are not connected by definitions"),
        ("hooks", "hooks come from the user's settings only; these are not run"),
        ("memory", "agents have no memory beyond a run"),
        ("effort", "how much a model thinks is not set by definitions"),
        ("reasoningEffort", "how much a model thinks is not set by definitions"),
        ("thinking", "how much a model thinks is not set by definitions"),
        ("initialPrompt", "an agent's first message is its task"),
    ],
    texts: &["description", "prompt", "initialPrompt", "when_to_use", "examples"],
};

/// Parses a definition from Markdown. `stem` is the file's name without its extension. It is the definition's name if
/// the front matter has none.
///
/// - Without `tools` the definition gets the tools of the built-in `coder`, but may not spawn. `Task(name)`, `spawns`
///   and opencode's `permission.task` allow spawning, and add the tools for it.
/// - A specifier in brackets (`Bash(git:*)`) becomes rules, and a `permission` that cannot be parsed denies.
/// - Keys that only other programs know are ignored, with a note if that matters.
pub fn read_agent(bytes: &[u8], stem: &str, reading: &ParseOptions<'_>) -> ParsedFile<Definition> {
    let mut notes = Notes::new(reading.file);
    let value = agent(bytes, stem, reading, &mut notes);
    notes.loaded(value)
}

fn agent(bytes: &[u8], stem: &str, reading: &ParseOptions<'_>, notes: &mut Notes<'_>) -> Option<Definition> {
    let Document { mut fields, has_front_matter, body } = document(bytes, &AGENT, notes)?;
    if !has_front_matter && stem.eq_ignore_ascii_case("readme") {
        notes.note(None, "a readme without front matter is not a definition; it is skipped", "");
        return None;
    }
    if !has_front_matter {
        notes.problem(1, "there is no front matter", "begin with `---`, `description: …`, `---`");
    }
    if take_disabled(&mut fields, notes) {
        return None;
    }
    let name = name(fields.take("name"), stem, DEFINITION_NAME_MAX, notes)?;
    let (description, prompt) = description_and_prompt(&mut fields, body, notes)?;
    definition(Texts { name, description, prompt }, fields, &ToolList::every(reading), reading, notes)
}

/// Takes the fields that disable a definition, and notes it if one of them does. Returns whether one does.
pub(super) fn take_disabled(fields: &mut Fields, notes: &mut Notes<'_>) -> bool {
    let disabled = ["disable", "disabled"].map(|key| fields.take(key).and_then(|field| field.flag(notes)));
    let is_disabled = disabled.contains(&Some(true));
    if is_disabled {
        notes.note(None, "the definition is disabled by its file; it is skipped", "");
    }
    is_disabled
}

/// The texts that each format stores in its own way.
pub(super) struct Texts {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) prompt: String,
}

/// Builds the definition from its texts and all other fields. `unlisted` are its tools if it lists none.
pub(super) fn definition(
    Texts { name, description, prompt }: Texts,
    mut fields: Fields,
    unlisted: &[String],
    reading: &ParseOptions<'_>,
    notes: &mut Notes<'_>,
) -> Option<Definition> {
    let (mut list, spawns) = tools_and_spawns(&mut fields, unlisted, reading, notes);
    let (own_rules, trust) = rules(&mut fields, reading, notes);
    list.rules.extend(own_rules);
    list.within_trust(reading);
    if list.rules.len() > RULES_MAX {
        notes.problem(None, format!("more than the {RULES_MAX} rules accepted"), "use fewer, wider patterns");
        return None;
    }
    let skills = references(fields.take("skills"), Role::Skill, notes);
    let skills = skills.or_else(|| (!list.skills.is_empty()).then_some(list.skills));
    let mut flag = |key: &str| fields.take(key).and_then(|field| field.flag(notes)).unwrap_or(false);
    let (background, may_share_history) = (flag("background"), flag("may_share_history"));
    let definition = Definition {
        display_name: display_name(&name),
        name,
        description,
        prompt: prompt.into(),
        tools: list.tools,
        spawns,
        max_turns: fields
            .take_any(&["maxTurns", "steps", "maxSteps"])
            .and_then(|field| field.whole(1, notes)),
        model: model(fields.take("model"), reading, notes),
        temperature: fields.take("temperature").and_then(|field| field.number(TEMPERATURE_MAX, notes)),
        top_p: fields.take("top_p").and_then(|field| field.number(TOP_P_MAX, notes)),
        mode: mode(fields.take("mode"), notes),
        trust,
        rules: list.rules,
        parallel: fields.take("parallel").and_then(|field| field.whole(1, notes)),
        skills: skills.filter(|skills| !skills.iter().any(|skill| skill == EVERY)),
        background,
        may_share_history: may_share_history && reading.trusted(),
    };
    fields.finish(&AGENT, notes);
    Some(definition)
}

fn description_and_prompt(
    fields: &mut Fields,
    body: String,
    notes: &mut Notes<'_>,
) -> Option<(String, String)> {
    let prompt = fields.take("prompt").and_then(|field| field.text(notes));
    let text = if body.is_empty() { prompt.unwrap_or_default() } else { body };
    let given = fields.take("description");
    if given.is_none() && text.trim().is_empty() {
        notes.problem(
            None,
            "there is neither a description nor a prompt",
            "write the prompt below the front matter",
        );
        return None;
    }
    let description = description(given, None, &text, notes);
    if text.trim().is_empty() {
        notes.problem(
            None,
            "there is no prompt; the description is used",
            "write the prompt below the front matter",
        );
        return (!description.is_empty()).then(|| (description.clone(), description));
    }
    Some((description, text))
}

/// The tools with their rules, and the definitions that may be spawned.
fn tools_and_spawns(
    fields: &mut Fields,
    unlisted: &[String],
    reading: &ParseOptions<'_>,
    notes: &mut Notes<'_>,
) -> (ToolList, Option<Vec<String>>) {
    let every = ToolList::every(reading);
    let given = fields.take("tools");
    let all = if given.is_some() { &every } else { unlisted };
    let listed = given.and_then(|field| tool_list::tools(&field, &every, reading, notes));
    let mut list = listed.unwrap_or_else(|| ToolList { tools: all.to_vec(), ..ToolList::default() });
    if let Some(field) = fields.take("permission") {
        permission::apply(&field, &mut list, reading, notes);
    }
    if let Some(field) = fields.take("disallowedTools") {
        tool_list::disallow(&field, &mut list, reading, notes);
    }
    plan_mode(fields.take("permissionMode"), &mut list, notes);
    let spawns = references(fields.take("spawns"), Role::Spawns, notes);
    let spawns = spawns.or_else(|| (!list.spawns.is_empty()).then(|| without_doubles(list.spawns.clone())));
    let may_spawn = spawns.as_ref().is_some_and(|names| !names.is_empty());
    if may_spawn && !list.tools.iter().any(|tool| tool == TASK_TOOL) {
        let delegate =
            tools(&[&DELEGATE_TOOLS]).into_iter().filter(|tool| reading.known_tools.contains(&tool.as_str()));
        list.tools = without_doubles(list.tools.into_iter().chain(delegate));
    }
    (list, spawns)
}

/// `plan` narrows. Every other mode would widen, or is the default.
fn plan_mode(field: Option<Field>, list: &mut ToolList, notes: &mut Notes<'_>) {
    let Some(field) = field else { return };
    let line = field.line;
    let Some(mode) = field.text(notes) else { return };
    match mode.trim() {
        "plan" => list.tools.retain(|tool| PLAN_TOOLS.contains(&tool.as_str())),
        "default" | "dontAsk" | "manual" => {}
        "acceptEdits" | "bypassPermissions" | "auto" => {
            let problem = format!(
                "permissionMode: {} is ignored: a definition cannot grant itself more permissions",
                quoted(&mode)
            );
            notes.note(line, problem, "");
        }
        _ => {
            let problem = format!("permissionMode: {} is not known; it is ignored", quoted(&mode));
            notes.widening(line, problem, "write `plan`, or remove it");
        }
    }
}

fn mode(field: Option<Field>, notes: &mut Notes<'_>) -> Mode {
    let Some(field) = field else { return Mode::All };
    let line = field.line;
    let mode = field.text(notes).unwrap_or_default();
    match mode.trim().to_ascii_lowercase().as_str() {
        "primary" => Mode::Primary,
        "all" | "subagent" => Mode::All,
        _ => {
            let problem = format!("mode: {} is not one of primary, subagent and all", quoted(&mode));
            notes.problem(line, problem, "`all` is used");
            Mode::All
        }
    }
}

/// The remedy for a rule that cannot be parsed.
const WRITE_RULES: &str = "write a list of `{pattern: \"bash:git push*\", decision: deny}`";
/// The remedy for a rule about an unknown tool.
const NAME_TOOL: &str = "name a tool that is there";
/// What applies until the user trusts the file.
const UNTIL_THEN: &str = "until then every use of a tool asks";

/// Rules in Posse's own format, and whether they can be trusted. A rule that cannot be parsed or is about no tool must
/// not widen anything, so with one every call asks.
fn rules(fields: &mut Fields, reading: &ParseOptions<'_>, notes: &mut Notes<'_>) -> (Vec<Rule>, Trust) {
    let Some(field) = fields.take("rules") else { return (Vec::new(), reading.trust) };
    let Value::List(items) = field.node.value else {
        let problem = format!("rules: expected a list, found {}", field.node.kind());
        notes.problem(field.line, problem, &format!("{WRITE_RULES}; {UNTIL_THEN}"));
        return (Vec::new(), Trust::Untrusted);
    };
    let (mut rules, mut is_wrong, mut all_read) = (Vec::new(), false, true);
    for item in items {
        let line = item.line;
        let read = serde_json::from_value::<Rule>(item.into_json()).map_err(|error| error.to_string());
        let problem = match &read {
            Ok(rule) => about_no_tool(&rule.pattern, reading.known_tools).map(|problem| (problem, NAME_TOOL)),
            Err(problem) => Some((problem.clone(), WRITE_RULES)),
        };
        if let Some((problem, fix)) = problem {
            is_wrong = true;
            notes.problem(line, format!("rules: {problem}"), &format!("{fix}; {UNTIL_THEN}"));
        }
        all_read &= read.is_ok();
        rules.extend(read);
    }
    if !all_read {
        // An unreadable entry may have been meant to narrow the entries before it.
        for rule in &mut rules {
            rule.decision = rule.decision.min(Decision::Ask);
        }
    }
    (rules, if is_wrong { Trust::Untrusted } else { reading.trust })
}

#[cfg(test)]
pub(super) mod tests;
