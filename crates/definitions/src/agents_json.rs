//! Parses a user's own definitions from JSON: `{"lead": {"description": "...", "prompt": "...", ...}}`.
//!
//! The keys are those of agent Markdown, parsed by the same code, so files for Claude Code work here. But parsing is
//! strict, because the user named the file on the command line: an unknown key, a wrong type or an unknown name is an
//! error with its line and field. For that the text is parsed in layers: each value only when its definition and field
//! are known, so that an error can name them.

use std::fmt;

use posse_domain::definition::{DEFINITION_NAME_MAX, Definition, Mode, Trust};
use posse_domain::nearest::{hint, nearest};
use posse_domain::text::first_line;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use thiserror::Error;

use super::agent_markdown::{AGENT, Texts, definition, take_disabled};
use super::builtin::{LOOK, builtin, tools};
use super::definitions::known_as;
use super::fields::{Fields, same_key};
use super::names::is_name;
use super::notes::{Notes, quoted};
use super::parse_options::{Mention, ParseOptions, ParsedFile, Role, Severity, Warning};
use crate::yaml::{Key, Node, Value};

/// Maximum size of the text.
pub const AGENTS_JSON_MAX_BYTES: usize = 4 * 1024 * 1024;
/// Maximum length of a description that is taken from a prompt's first line.
const DESCRIPTION_MAX_CHARS: usize = 160;
/// Maximum nesting of a value: servers and hooks of other tools have some levels.
const DEPTH_MAX: usize = 32;

const TEXT: &[&str] = &["text"];
const NAMES: &[&str] = &["text", "a list"];
const NUMBER: &[&str] = &["a number"];
const FLAG: &[&str] = &["true or false"];

/// The JSON types that each key accepts. Markdown is parsed leniently, JSON strictly.
const KINDS: &[(&str, &[&str])] = &[
    ("name", TEXT),
    ("description", TEXT),
    ("prompt", TEXT),
    ("model", TEXT),
    ("mode", TEXT),
    ("permissionMode", TEXT),
    ("tools", &["text", "a list", "a map"]),
    ("disallowedTools", NAMES),
    ("skills", NAMES),
    ("spawns", NAMES),
    ("permission", &["text", "a map"]),
    ("rules", &["a list"]),
    ("maxTurns", NUMBER),
    ("steps", NUMBER),
    ("maxSteps", NUMBER),
    ("parallel", NUMBER),
    ("temperature", NUMBER),
    ("top_p", NUMBER),
    ("background", FLAG),
    ("may_share_history", FLAG),
    ("disable", FLAG),
    ("disabled", FLAG),
];

/// An error in the text of definitions.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}:{line}: {problem}")]
pub struct DefinitionError {
    /// The name of the file in errors.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The problem, with the field's name.
    pub problem: String,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct GivenDefinitions {
    /// In the order of the text.
    pub definitions: Vec<Definition>,
    /// Keys that have no effect here.
    pub notes: Vec<Warning>,
}

/// Parses definitions from JSON. `file` is its name in errors, `known_tools` are the tools that exist.
///
/// - The keys are those of agent Markdown. `prompt` is required, and its first line is the default of `description`.
/// - Without `tools` a definition may read files: `read`, `glob`, `grep` and `list`.
/// - Without `spawns` it may not spawn. With `spawns` it needs `task`: if its tools do not include it, all tools for
///   working with children are added.
/// - Names in `spawns` are those of built-in definitions and of the same file, in any case. `*` and `review-*` match
///   every child by name.
pub fn parse_agents(
    text: &str,
    file: &str,
    known_tools: &[&str],
) -> Result<Vec<Definition>, DefinitionError> {
    parse_agents_among(text, file, known_tools, &[]).map(|given| given.definitions)
}

/// Like [`parse_agents`], with other discovered definitions that can be spawned too. Also returns notes about the text.
pub fn parse_agents_among(
    text: &str,
    file: &str,
    known_tools: &[&str],
    found: &[Definition],
) -> Result<GivenDefinitions, DefinitionError> {
    let reading = ParseOptions { file, known_tools, trust: Trust::Trusted, model: None };
    let reader = Reader { text, reading, found };
    if text.len() > AGENTS_JSON_MAX_BYTES {
        let problem = format!("{} bytes, more than the {AGENTS_JSON_MAX_BYTES} accepted", text.len());
        return Err(reader.error(1, problem));
    }
    let whole: Entries = serde_json::from_str(text).map_err(|error| reader.json_error(1, "", &error))?;
    let mut names: Vec<&str> = Vec::with_capacity(whole.0.len());
    let mut given = GivenDefinitions::default();
    let mut mentions = Vec::new();
    for (name, value) in &whole.0 {
        reader.check_name(name, value)?;
        if names.contains(&name.as_str()) {
            return Err(reader.at(value, format!("the definition `{name}` is written twice")));
        }
        names.push(name);
        let read = reader.definition(name, value)?;
        given.notes.extend(read.warnings);
        given.definitions.extend(read.value);
        mentions.extend(read.mentions.into_iter().map(|mention| (name.as_str(), mention)));
    }
    reader.check_spawns(&given.definitions, &mentions)?;
    Ok(given)
}

/// An object with unparsed values, in the order of the text, including duplicate keys.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;
        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct Reader<'a> {
    text: &'a str,
    reading: ParseOptions<'a>,
    found: &'a [Definition],
}

impl Reader<'_> {
    fn definition(&self, name: &str, value: &RawValue) -> Result<ParsedFile<Definition>, DefinitionError> {
        let entries = self.entries(name, value)?;
        let mut notes = Notes::new(self.reading.file);
        let mut fields = Fields::new(entries, &mut notes);
        let value = if take_disabled(&mut fields, &mut notes) {
            None
        } else {
            let texts = self.texts(name, value, &mut fields, &mut notes)?;
            definition(texts, fields, &tools(&[&LOOK]), &self.reading, &mut notes)
        };
        let mut read = notes.loaded(value);
        for warning in &mut read.warnings {
            warning.problem = format!("{name}: {}", warning.problem);
        }
        let wrong = read.warnings.iter().find(|warning| warning.level == Severity::Problem);
        wrong.map_or(Ok(()), |wrong| Err(self.error(line(wrong.line), wrong.problem.clone())))?;
        Ok(read)
    }

    /// The texts of a definition. Only the prompt is required.
    fn texts(
        &self,
        name: &str,
        value: &RawValue,
        fields: &mut Fields,
        notes: &mut Notes<'_>,
    ) -> Result<Texts, DefinitionError> {
        if let Some(field) = fields.take("name") {
            let at = line(Some(field.line));
            if let Some(other) = field.text(notes).filter(|other| !other.eq_ignore_ascii_case(name)) {
                let problem =
                    format!("{name}.name: the definition is called `{name}`, not {}", quoted(&other));
                return Err(self.error(at, problem));
            }
        }
        let prompt = fields.take("prompt");
        let at = prompt.as_ref().map_or_else(|| self.line_of(value), |field| line(Some(field.line)));
        let missing = if prompt.is_some() { "must not be empty" } else { "is missing" };
        let prompt = prompt.and_then(|field| field.text(notes)).filter(|prompt| !prompt.trim().is_empty());
        let Some(prompt) = prompt else { return Err(self.error(at, format!("{name}.prompt: {missing}"))) };
        let given = fields.take("description").and_then(|field| field.text(notes));
        let description = given.filter(|given| !given.trim().is_empty());
        let description = description.unwrap_or_else(|| first_line(&prompt, DESCRIPTION_MAX_CHARS));
        Ok(Texts { name: name.to_owned(), description, prompt })
    }

    /// The fields of a definition, each with a type that its key accepts.
    fn entries(&self, name: &str, value: &RawValue) -> Result<Vec<(Key, Node)>, DefinitionError> {
        let read = serde_json::from_str(value.get());
        let Entries(raw) = read.map_err(|error| self.json_error(self.line_of(value), name, &error))?;
        let mut entries: Vec<(Key, Node)> = Vec::with_capacity(raw.len());
        for (key, value) in raw {
            if !AGENT.knows(&key) {
                let (hint, keys) = (hint(nearest(&key, AGENT.keys.iter().copied())), AGENT.keys.join(", "));
                let key: String = key.chars().take(DEFINITION_NAME_MAX).collect();
                let problem = format!("{name}: unknown field {key:?}{hint}, expected one of {keys}");
                return Err(self.at(value, problem));
            }
            if entries.iter().any(|(earlier, _)| same_key(&earlier.name, &key)) {
                return Err(self.at(value, format!("{name}: the field `{key}` is written twice")));
            }
            let field = format!("{name}.{key}");
            let node = self.node(&field, value, DEPTH_MAX)?;
            self.check_kind(&field, &key, &node)?;
            entries.push((Key { line: node.line, name: key }, node));
        }
        Ok(entries)
    }

    /// A value with its lines.
    fn node(&self, field: &str, value: &RawValue, levels: usize) -> Result<Node, DefinitionError> {
        let Some(levels) = levels.checked_sub(1) else {
            return Err(self.at(value, format!("{field}: is nested too deeply")));
        };
        let at = self.line_of(value);
        let wrong = |error| self.json_error(at, field, &error);
        let value = match value.get().as_bytes().first() {
            Some(b'{') => {
                let Entries(entries) = serde_json::from_str(value.get()).map_err(wrong)?;
                let entries = entries.into_iter().map(|(name, value)| {
                    let node = self.node(field, value, levels)?;
                    Ok((Key { line: node.line, name }, node))
                });
                Value::Map(entries.collect::<Result<_, _>>()?)
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(value.get()).map_err(wrong)?;
                let items = items.into_iter().map(|item| self.node(field, item, levels));
                Value::List(items.collect::<Result<_, _>>()?)
            }
            _ => serde_json::from_str(value.get()).map_err(wrong)?,
        };
        Ok(Node { line: at as u64, value })
    }

    fn check_kind(&self, field: &str, key: &str, node: &Node) -> Result<(), DefinitionError> {
        let Some((_, kinds)) = KINDS.iter().find(|(known, _)| same_key(known, key)) else { return Ok(()) };
        let wrong = |node: &Node, expected: &str| {
            let problem = format!("{field}: expected {expected}, found {}", node.kind());
            Err(self.error(line(Some(node.line)), problem))
        };
        match &node.value {
            Value::Null => Ok(()),
            Value::Text(text) if text.trim().is_empty() && same_key(key, "model") => {
                Err(self.error(line(Some(node.line)), format!("{field}: must not be empty")))
            }
            Value::List(items) if *kinds != ["a list"] && kinds.contains(&"a list") => {
                let other = items.iter().find(|item| !matches!(item.value, Value::Text(_)));
                other.map_or(Ok(()), |other| wrong(other, "text"))
            }
            _ if kinds.contains(&node.kind()) => Ok(()),
            _ => wrong(node, &kinds.join(" or ")),
        }
    }

    fn check_name(&self, name: &str, value: &RawValue) -> Result<(), DefinitionError> {
        if is_name(name, DEFINITION_NAME_MAX) {
            return Ok(());
        }
        let name: String = name.chars().take(DEFINITION_NAME_MAX).collect();
        let problem = format!(
            "{name:?} cannot be a definition's name: 1 to {DEFINITION_NAME_MAX} characters of a-z, 0-9, _ and -, not beginning with -"
        );
        Err(self.at(value, problem))
    }

    /// Checks that every name of a child is a definition that can be a child, so that the error does not occur in the
    /// middle of a run.
    fn check_spawns(&self, read: &[Definition], mentions: &[(&str, Mention)]) -> Result<(), DefinitionError> {
        let built_in = builtin();
        // The file's own definitions come first: they shadow others of the same name.
        let known: Vec<&Definition> = read.iter().chain(self.found).chain(&built_in).collect();
        let find = |name: &str| known.iter().find(|known| known.name == name);
        let spawned = mentions.iter().filter(|(_, mention)| mention.role == Role::Spawns);
        for (parent, Mention { name, line: at, .. }) in spawned.filter(|(_, one)| !one.name.contains('*')) {
            let wrong = |problem: String| Err(self.error(line(*at), format!("{parent}.spawns: {problem}")));
            match find(name).or_else(|| find(known_as(name)?)) {
                None => {
                    let hint = hint(nearest(name, known.iter().map(|known| known.name.as_str())));
                    return wrong(format!("unknown definition {name:?}{hint}"));
                }
                Some(child) if child.mode == Mode::Primary => {
                    return wrong(format!("`{name}` is a primary definition, which is never a child"));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// The line where a value begins. Values borrow from the text, so the address gives the offset.
    fn line_of(&self, value: &RawValue) -> usize {
        let start = value.get().as_ptr().addr().saturating_sub(self.text.as_ptr().addr());
        1 + self.text.get(..start).unwrap_or_default().matches('\n').count()
    }

    fn at(&self, value: &RawValue, problem: String) -> DefinitionError {
        self.error(self.line_of(value), problem)
    }

    fn error(&self, line: usize, problem: String) -> DefinitionError {
        DefinitionError { file: self.reading.file.to_owned(), line, problem }
    }

    /// An error of the JSON parser about a part of the text that begins in `first_line`.
    fn json_error(&self, first_line: usize, field: &str, error: &serde_json::Error) -> DefinitionError {
        let place = format!(" at line {} column {}", error.line(), error.column());
        let problem = error.to_string();
        let problem = problem.strip_suffix(&place).unwrap_or(&problem);
        let problem = if field.is_empty() { problem.to_owned() } else { format!("{field}: {problem}") };
        self.error(first_line + error.line().saturating_sub(1), problem)
    }
}

/// A line number for errors.
fn line(line: Option<u64>) -> usize {
    line.and_then(|line| usize::try_from(line).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests;
