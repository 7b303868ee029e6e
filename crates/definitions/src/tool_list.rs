//! Parses a list of tools as users write it: text, a list or a map, with specifiers in brackets after a name.

use posse_domain::lifecycle::{DELEGATE_TO_AGENT, DELEGATE_TOOLS, TASK_TOOL};
use posse_domain::permission::{Decision, Pattern, Rule};

use super::builtin::coder_tools;
use super::definitions::fits;
use super::fields::{Field, plain_text};
use super::names::{NAMES_MAX, reference, without_doubles};
use super::notes::{Notes, quoted};
use super::parse_options::{ParseOptions, Role};
use super::specifier::{Stars, patterns};
use super::tool_names::{ToolName, tool, unknown};
use crate::yaml::Value;

/// Maximum number of entries of a list.
const ENTRIES_MAX: usize = 1_000;
/// Means any definition or skill.
pub(super) const EVERY: &str = "*";

#[derive(Debug, Default, PartialEq)]
pub(super) struct ToolList {
    /// Without duplicates.
    pub(super) tools: Vec<String>,
    /// The rules that narrow the tools.
    pub(super) rules: Vec<Rule>,
    /// The definitions that `Task(name)` allows to spawn.
    pub(super) spawns: Vec<String>,
    /// The skills that `Skill(name)` allows to use.
    pub(super) skills: Vec<String>,
}

/// One entry of a list: `Bash(git:*)`.
#[derive(Debug, PartialEq)]
struct Entry {
    name: String,
    specifier: Option<String>,
    line: u64,
}

/// Parses a list of tools. None means the same as no list: every tool.
pub(super) fn tools(
    field: &Field,
    every: &[String],
    reading: &ParseOptions<'_>,
    notes: &mut Notes<'_>,
) -> Option<ToolList> {
    if let Value::Map(_) = field.node.value {
        return Some(switches(field, every, reading, notes));
    }
    let entries = entries(field, notes);
    let is_everything = |entry: &Entry| {
        matches!(entry.name.to_ascii_lowercase().as_str(), "*" | "all" | "any" | "inherit")
            && entry.specifier.is_none()
    };
    if entries.iter().any(is_everything) {
        return None;
    }
    let mut list = ToolList::default();
    let mut narrowed: Vec<(&str, Vec<Pattern>)> = Vec::new();
    for entry in &entries {
        let Some(tool) = resolve(&entry.name, entry.line, reading, notes) else { continue };
        match (tool, entry.specifier.as_deref()) {
            (TASK_TOOL, specifier) => {
                list.tools.push(tool.to_owned());
                list.spawns.extend(named(specifier, entry.line, Role::Spawns, notes));
            }
            ("skill", Some(specifier)) => {
                list.tools.push(tool.to_owned());
                list.skills.extend(named(Some(specifier), entry.line, Role::Skill, notes));
            }
            (tool, None) => list.tools.push(tool.to_owned()),
            (tool, Some(specifier)) => match patterns(tool, specifier, Stars::Gitignore) {
                Ok(None) => list.tools.push(tool.to_owned()),
                Ok(Some(patterns)) => narrowed.push((tool, patterns)),
                Err(error) => {
                    let problem = format!("{}: {}: {error}", field.key, quoted(&entry.name));
                    notes.problem(entry.line, problem, "the entry is omitted");
                }
            },
        }
    }
    list.narrow(narrowed);
    list.spawns.truncate(NAMES_MAX);
    list.skills.truncate(NAMES_MAX);
    list.tools = without_doubles(list.tools);
    Some(list)
}

impl ToolList {
    /// The tools of a definition without `tools`: those of the built-in `coder`, except for spawning.
    pub(super) fn every(reading: &ParseOptions<'_>) -> Vec<String> {
        let is_here = |tool: &String| reading.known_tools.contains(&tool.as_str());
        let spawns = |tool: &String| DELEGATE_TOOLS.contains(&tool.as_str()) || tool == DELEGATE_TO_AGENT;
        coder_tools().into_iter().filter(|tool| is_here(tool) && !spawns(tool)).collect()
    }

    /// Keeps only what an untrusted file may request.
    pub(super) fn within_trust(&mut self, reading: &ParseOptions<'_>) {
        if reading.trusted() {
            return;
        }
        let coder = coder_tools();
        self.tools.retain(|tool| coder.contains(tool));
        for rule in &mut self.rules {
            rule.decision = rule.decision.min(reading.trust.default_decision());
        }
    }

    /// Adds tools that may be used only as the patterns allow, unless they are listed without a specifier.
    fn narrow(&mut self, narrowed: Vec<(&str, Vec<Pattern>)>) {
        let free: Vec<String> = self.tools.clone();
        for (tool, patterns) in narrowed {
            if free.iter().any(|free| free == tool) {
                continue;
            }
            if !self.tools.iter().any(|listed| listed == tool) {
                self.tools.push(tool.to_owned());
                self.rules.extend(all_of(tool, Decision::Deny));
            }
            let allow = |pattern| Rule { pattern, decision: Decision::Allow };
            self.rules.extend(patterns.into_iter().map(allow));
        }
    }
}

/// `{write: false, bash: true}`: tools that are not named stay as they are.
fn switches(field: &Field, every: &[String], reading: &ParseOptions<'_>, notes: &mut Notes<'_>) -> ToolList {
    let mut list = ToolList { tools: every.to_vec(), ..ToolList::default() };
    let Value::Map(entries) = &field.node.value else { return list };
    for (key, node) in entries.iter().take(ENTRIES_MAX) {
        let on = match &node.value {
            Value::Bool(on) => *on,
            Value::Text(text) if matches!(text.as_str(), "true" | "allow" | "yes" | "on" | "ask") => true,
            Value::Text(text) if matches!(text.as_str(), "false" | "deny" | "no" | "off") => false,
            _ => {
                let problem = format!("{}.{}: expected true or false", field.key, quoted(&key.name));
                notes.problem(key.line, problem, "until then it is off");
                false
            }
        };
        if key.name == EVERY {
            list.tools = if on { every.to_vec() } else { Vec::new() };
        } else if key.name.contains('*') {
            // `server_*` are tools of MCP servers, and none is connected here. A pattern that disables tools may match
            // Posse's own too.
            if on {
                notes.note(key.line, not_connected(&key.name), "");
            } else {
                let pattern = key.name.to_ascii_lowercase();
                list.tools.retain(|tool| !fits(&pattern, tool));
            }
        } else if let Some(tool) = resolve(&key.name, key.line, reading, notes) {
            list.tools.retain(|listed| listed != tool);
            if on {
                list.tools.push(tool.to_owned());
            }
            if on && tool == TASK_TOOL {
                list.spawns.push(EVERY.to_owned());
            }
        }
    }
    list
}

/// Removes tools of the list, or the uses of them that it names.
pub(super) fn disallow(
    field: &Field,
    list: &mut ToolList,
    reading: &ParseOptions<'_>,
    notes: &mut Notes<'_>,
) {
    for Entry { name, specifier, line } in entries(field, notes) {
        if name.starts_with("mcp__") || name.contains('*') {
            continue;
        }
        if tool(&name, reading.known_tools) == ToolName::Unknown {
            let fix = "correct or remove it; until then it removes nothing";
            notes.widening(line, unknown(&name, reading.known_tools), fix);
            continue;
        }
        let Some(tool) = resolve(&name, line, reading, notes) else { continue };
        let Some(specifier) = specifier else {
            list.tools.retain(|listed| listed != tool);
            continue;
        };
        if tool == TASK_TOOL {
            let names: Vec<String> = specifier.split(',').map(reference).collect();
            list.spawns.retain(|spawned| !names.contains(spawned));
            let rules = names.iter().filter_map(|name| rule(&format!("task:{name}"), Decision::Deny));
            list.rules.extend(rules);
            continue;
        }
        match patterns(tool, &specifier, Stars::Gitignore) {
            Ok(None) => list.tools.retain(|listed| listed != tool),
            Ok(Some(patterns)) => {
                let deny = |pattern| Rule { pattern, decision: Decision::Deny };
                list.rules.extend(patterns.into_iter().map(deny));
            }
            Err(error) => {
                notes.note(line, format!("{}: {error}", field.key), "nothing there can be reached anyway");
            }
        }
    }
}

/// The tool with this name. Reports a problem if there is none.
pub(super) fn resolve<'a>(
    name: &str,
    line: u64,
    reading: &ParseOptions<'a>,
    notes: &mut Notes<'_>,
) -> Option<&'a str> {
    match tool(name, reading.known_tools) {
        ToolName::Known(tool) => return Some(tool),
        ToolName::Mcp => notes.note(line, not_connected(name), ""),
        ToolName::NotHere => {
            notes.note(line, format!("the tool {} has no counterpart here; it is omitted", quoted(name)), "");
        }
        ToolName::Unknown => {
            notes.problem(line, unknown(name, reading.known_tools), "correct or remove it; it is omitted");
        }
    }
    None
}

fn not_connected(name: &str) -> String {
    format!("{} is a tool of an MCP server, and none is connected; it is omitted", quoted(name))
}

/// The names in the brackets of `Task(a, b)`. Without brackets any name.
fn named(specifier: Option<&str>, line: u64, role: Role, notes: &mut Notes<'_>) -> Vec<String> {
    let Some(specifier) = specifier else { return vec![EVERY.to_owned()] };
    // `Skill(deploy *)` means the skill with any arguments.
    let names = specifier.split(',').map(|name| name.trim().trim_end_matches(" *").trim_end_matches(":*"));
    let names: Vec<String> = names.filter(|name| !name.is_empty()).map(reference).collect();
    for name in &names {
        notes.mention(role, name, line);
    }
    names
}

/// A rule about all uses of a tool.
pub(super) fn all_of(tool: &str, decision: Decision) -> Option<Rule> {
    rule(tool, decision)
}

fn rule(pattern: &str, decision: Decision) -> Option<Rule> {
    Some(Rule { pattern: pattern.parse().ok()?, decision })
}

/// The entries of a list or of a text.
fn entries(field: &Field, notes: &mut Notes<'_>) -> Vec<Entry> {
    let mut entries = Vec::new();
    match &field.node.value {
        Value::List(items) => {
            let mut texts = Vec::new();
            for item in items {
                let Some(text) = plain_text(item) else {
                    let problem =
                        format!("{}: expected the name of a tool, found {}", field.key, item.kind());
                    notes.problem(item.line, problem, "the entry is omitted");
                    continue;
                };
                texts.push((text, item.line));
            }
            // A comma within brackets has split an entry of `[Agent(a, b)]`.
            if texts.iter().any(|(text, _)| text.matches('(').count() != text.matches(')').count()) {
                let joined = texts.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>().join(", ");
                split(&joined, field.line, &mut entries);
            } else {
                for (text, line) in &texts {
                    split(text, *line, &mut entries);
                }
            }
        }
        Value::Map(_) => {
            let problem = format!("{}: expected names of tools, found {}", field.key, field.node.kind());
            notes.problem(field.line, problem, "it is omitted");
        }
        _ => split(&plain_text(&field.node).unwrap_or_default(), field.line, &mut entries),
    }
    if entries.len() > ENTRIES_MAX {
        let problem =
            format!("{}: more than the {ENTRIES_MAX} entries accepted; the rest is omitted", field.key);
        notes.problem(field.line, problem, "");
        entries.truncate(ENTRIES_MAX);
    }
    entries
}

/// Splits a text at commas and spaces outside of brackets.
fn split(text: &str, line: u64, entries: &mut Vec<Entry>) {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([',', ' ', '\t', '\n', '[', ']', '"', '\'', '`', ')']);
        if rest.is_empty() {
            return;
        }
        let end = rest.find([',', ' ', '\t', '\n', '(']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let (specifier, after) = bracketed(after);
        let name = name.trim_matches(['"', '\'', '`', '[', ']']).to_owned();
        if name != "tools" || !entries.last().is_some_and(|last| last.name.eq_ignore_ascii_case("all")) {
            // `All tools` is one entry.
            entries.push(Entry { name, specifier: specifier.map(ToOwned::to_owned), line });
        }
        rest = after;
    }
}

/// The content of the brackets at the beginning of a text, and the rest.
fn bracketed(text: &str) -> (Option<&str>, &str) {
    let Some(inner) = text.strip_prefix('(') else { return (None, text) };
    let mut depth = 1_usize;
    for (at, c) in inner.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            let (within, after) = inner.split_at(at);
            return (Some(within), after.strip_prefix(')').unwrap_or(after));
        }
    }
    (Some(inner), "")
}
