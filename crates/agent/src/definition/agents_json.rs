//! A person's own definitions, as JSON: `{"lead": {"description": "...", "prompt": "...", ...}}`.
//!
//! Read strictly, because the person named the file on the command line: an unknown key, a wrong type or a
//! name that leads nowhere is an error with its line and field. For that the text is taken apart in layers,
//! each value read only once it is known whose it is: then an error can say so.

use std::fmt;

use posse_domain::definition::{DEFINITION_NAME_MAX, Definition, Mode};
use posse_domain::nearest::{hint, nearest};
use posse_domain::permission::{RULES_MAX, Rule};
use posse_domain::text::first_line;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use thiserror::Error;

use super::builtin::{DELEGATE, LOOK, builtin, plain, tools};
use super::catalogue::known_as;
use super::names::{display_name, is_name, without_doubles};
use super::tool_names::{self, ToolName};

/// Largest text of definitions.
pub const AGENTS_JSON_MAX_BYTES: usize = 4 * 1024 * 1024;
/// Longest description made from a prompt's first line.
const DESCRIPTION_MAX_CHARS: usize = 160;

/// What may be written about a definition.
const KEYS: [&str; 14] = [
    "description",
    "prompt",
    "tools",
    "spawns",
    "max_turns",
    "model",
    "temperature",
    "top_p",
    "rules",
    "parallel",
    "mode",
    "skills",
    "background",
    "may_share_history",
];

/// Definitions that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}:{line}: {problem}")]
pub struct DefinitionError {
    /// The file, or what stands for it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, with the field's name.
    pub problem: String,
}

/// Reads definitions from JSON. `file` is what errors call it, `known_tools` the tools that exist.
///
/// - `prompt` must be there; without `description` the prompt's first line takes its place.
/// - `tools` may be spelled as other programs spell them (`Read`, `read_file`).
/// - Without `tools` a definition may look at files: `read`, `glob`, `grep` and `list`.
/// - Without `spawns` it may not spawn. With `spawns` it needs `task`: if that is not among its tools, all
///   tools for working with children are added.
/// - Names in `spawns` are those of built-in definitions and of the same file, in any case; `*` and `review-*` are every
///   child whose name fits.
pub fn parse_agents(
    text: &str,
    file: &str,
    known_tools: &[&str],
) -> Result<Vec<Definition>, DefinitionError> {
    parse_agents_among(text, file, known_tools, &[])
}

/// The same where other definitions were found, which can be spawned too.
pub fn parse_agents_among(
    text: &str,
    file: &str,
    known_tools: &[&str],
    found: &[Definition],
) -> Result<Vec<Definition>, DefinitionError> {
    let reader = Reader { text, file, known_tools, found };
    if text.len() > AGENTS_JSON_MAX_BYTES {
        let problem = format!("{} bytes, more than the {AGENTS_JSON_MAX_BYTES} accepted", text.len());
        return Err(reader.error(1, problem));
    }
    let whole: Entries = serde_json::from_str(text).map_err(|error| reader.json_error(1, "", &error))?;
    let mut read = Vec::with_capacity(whole.0.len());
    for (name, value) in whole.0 {
        reader.check_name(&name, value)?;
        if read.iter().any(|(definition, _): &(Definition, _)| definition.name == name) {
            return Err(reader.at(value, format!("the definition `{name}` is written twice")));
        }
        read.push(reader.definition(name, value)?);
    }
    reader.check_spawns(&read)?;
    Ok(read.into_iter().map(|(definition, _)| definition).collect())
}

/// An object with its values not read yet, in the order in which they are written, doubles included.
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

/// A definition with where its `spawns` stand, for what can be checked only when all are known.
type Read<'a> = (Definition, Option<&'a RawValue>);

struct Reader<'a> {
    text: &'a str,
    file: &'a str,
    known_tools: &'a [&'a str],
    found: &'a [Definition],
}

impl<'a> Reader<'a> {
    fn definition(&self, name: String, value: &'a RawValue) -> Result<Read<'a>, DefinitionError> {
        let fields = self.fields(name, value)?;
        let prompt = fields.prompt()?;
        let spawns = fields.names("spawns")?;
        let definition = Definition {
            display_name: display_name(&fields.definition),
            description: fields.description(&prompt)?,
            tools: fields.tools(spawns.as_ref().is_some_and(|names| !names.is_empty()))?,
            max_turns: fields.at_least_one("max_turns")?,
            model: fields.model()?,
            temperature: fields.not_negative("temperature")?,
            top_p: fields.not_negative("top_p")?,
            mode: fields.get("mode")?.unwrap_or(Mode::All),
            rules: fields.rules()?,
            parallel: fields.at_least_one("parallel")?,
            skills: fields.names("skills")?,
            background: fields.get("background")?.unwrap_or(false),
            may_share_history: fields.get("may_share_history")?.unwrap_or(false),
            prompt,
            spawns,
            name: fields.definition.clone(),
            ..plain()
        };
        Ok((definition, fields.raw("spawns")))
    }

    fn fields(&self, definition: String, value: &'a RawValue) -> Result<Fields<'_, 'a>, DefinitionError> {
        let read = serde_json::from_str(value.get());
        let Entries(entries) =
            read.map_err(|error| self.json_error(self.line_of(value), &definition, &error))?;
        for (at, (key, value)) in entries.iter().enumerate() {
            if !KEYS.contains(&key.as_str()) {
                let (hint, keys) = (hint(nearest(key, KEYS)), KEYS.join(", "));
                let problem = format!("{definition}: unknown field {key:?}{hint}, expected one of {keys}");
                return Err(self.at(value, problem));
            }
            if entries[..at].iter().any(|(earlier, _)| earlier == key) {
                return Err(self.at(value, format!("{definition}: the field `{key}` is written twice")));
            }
        }
        Ok(Fields { reader: self, definition, value, entries })
    }

    fn check_name(&self, name: &str, value: &RawValue) -> Result<(), DefinitionError> {
        if is_name(name, DEFINITION_NAME_MAX) {
            return Ok(());
        }
        let name: String = name.chars().take(DEFINITION_NAME_MAX).collect();
        let problem = format!(
            "{name:?} cannot be a definition's name: 1 to {DEFINITION_NAME_MAX} of the characters a-z, 0-9, _ and -"
        );
        Err(self.at(value, problem))
    }

    /// Every name in `spawns` must be a definition that can be a child: found now, not in the middle of a run.
    fn check_spawns(&self, read: &[Read<'a>]) -> Result<(), DefinitionError> {
        let built_in = builtin();
        let own = read.iter().map(|(definition, _)| definition);
        // The file's own come first: they shadow others of the same name.
        let known: Vec<&Definition> = own.chain(self.found).chain(&built_in).collect();
        let find = |name: &str| known.iter().find(|known| known.name == name);
        for (definition, at) in read {
            let (Some(names), Some(at)) = (&definition.spawns, *at) else { continue };
            for name in names.iter().filter(|name| !name.contains('*')) {
                let wrong =
                    |problem: String| Err(self.at(at, format!("{}.spawns: {problem}", definition.name)));
                match find(name).or_else(|| find(known_as(name)?)) {
                    None => {
                        let hint = hint(nearest(name, known.iter().map(|known| known.name.as_str())));
                        return wrong(format!("there is no definition {name:?}{hint}"));
                    }
                    Some(child) if child.mode == Mode::Primary => {
                        return wrong(format!("`{name}` is a primary definition, which is never a child"));
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(())
    }

    /// The line where a value begins. Values borrow from the text, so their place in it is their address.
    fn line_of(&self, value: &RawValue) -> usize {
        let start = value.get().as_ptr().addr().saturating_sub(self.text.as_ptr().addr());
        1 + self.text.get(..start).unwrap_or_default().matches('\n').count()
    }

    fn at(&self, value: &RawValue, problem: String) -> DefinitionError {
        self.error(self.line_of(value), problem)
    }

    fn error(&self, line: usize, problem: String) -> DefinitionError {
        DefinitionError { file: self.file.to_owned(), line, problem }
    }

    /// An error of the JSON reader about a part of the text that begins in `first_line`.
    fn json_error(&self, first_line: usize, field: &str, error: &serde_json::Error) -> DefinitionError {
        let place = format!(" at line {} column {}", error.line(), error.column());
        let problem = error.to_string();
        let problem = problem.strip_suffix(&place).unwrap_or(&problem);
        // The reader names Rust's types; the person who wrote the file may not know them.
        let problem = problem.replace("expected u32", "expected a whole number");
        let problem = problem.replace("expected f64", "expected a number");
        let problem = if field.is_empty() { problem } else { format!("{field}: {problem}") };
        self.error(first_line + error.line().saturating_sub(1), problem)
    }
}

/// The fields of one definition.
struct Fields<'r, 'a> {
    reader: &'r Reader<'a>,
    definition: String,
    value: &'a RawValue,
    entries: Vec<(String, &'a RawValue)>,
}

impl<'a> Fields<'_, 'a> {
    fn raw(&self, key: &str) -> Option<&'a RawValue> {
        self.entries.iter().find(|(name, _)| name == key).map(|(_, value)| *value)
    }

    /// The field's value; `null` is the same as leaving it out.
    fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, DefinitionError> {
        let Some(raw) = self.raw(key) else { return Ok(None) };
        let field = format!("{}.{key}", self.definition);
        serde_json::from_str(raw.get())
            .map_err(|error| self.reader.json_error(self.reader.line_of(raw), &field, &error))
    }

    fn wrong(&self, key: &str, problem: &str) -> DefinitionError {
        let at = self.raw(key).unwrap_or(self.value);
        self.reader.at(at, format!("{}.{key}: {problem}", self.definition))
    }

    fn prompt(&self) -> Result<String, DefinitionError> {
        match self.get::<String>("prompt")? {
            Some(prompt) if prompt.trim().is_empty() => Err(self.wrong("prompt", "must not be empty")),
            Some(prompt) => Ok(prompt),
            None => Err(self.wrong("prompt", "is missing")),
        }
    }

    fn description(&self, prompt: &str) -> Result<String, DefinitionError> {
        let given = self.get::<String>("description")?.filter(|given| !given.trim().is_empty());
        Ok(given.unwrap_or_else(|| first_line(prompt, DESCRIPTION_MAX_CHARS)))
    }

    fn tools(&self, spawns: bool) -> Result<Vec<String>, DefinitionError> {
        let known = self.reader.known_tools;
        let ours = |name: String| match tool_names::tool(&name, known) {
            ToolName::Known(tool) => Ok(tool.to_owned()),
            _ => Err(self.wrong("tools", &tool_names::unknown(&name, known))),
        };
        let listed = self.get::<Vec<String>>("tools")?;
        let listed = listed.map(|names| names.into_iter().map(ours).collect::<Result<_, _>>()).transpose()?;
        let mut all = without_doubles(listed.unwrap_or_else(|| tools(&[&LOOK])));
        if spawns && !all.iter().any(|tool| tool == "task") {
            all = without_doubles(all.into_iter().chain(tools(&[&DELEGATE])));
        }
        Ok(all)
    }

    /// Names of others, in any case.
    fn names(&self, key: &str) -> Result<Option<Vec<String>>, DefinitionError> {
        let names = self.get::<Vec<String>>(key)?;
        Ok(names.map(|names| without_doubles(names.iter().map(|name| name.to_ascii_lowercase()))))
    }

    fn at_least_one(&self, key: &str) -> Result<Option<u32>, DefinitionError> {
        match self.get(key)? {
            Some(0) => Err(self.wrong(key, "must be at least 1")),
            number => Ok(number),
        }
    }

    fn not_negative(&self, key: &str) -> Result<Option<f64>, DefinitionError> {
        match self.get::<f64>(key)? {
            Some(number) if number < 0.0 => Err(self.wrong(key, "must be at least 0")),
            number => Ok(number),
        }
    }

    /// `inherit` is what other tools write for the parent's model.
    fn model(&self) -> Result<Option<String>, DefinitionError> {
        match self.get::<String>("model")? {
            Some(model) if model.trim().is_empty() => Err(self.wrong("model", "must not be empty")),
            Some(model) if model == "inherit" => Ok(None),
            model => Ok(model),
        }
    }

    fn rules(&self) -> Result<Vec<Rule>, DefinitionError> {
        let rules = self.get::<Vec<Rule>>("rules")?.unwrap_or_default();
        if rules.len() > RULES_MAX {
            return Err(self.wrong("rules", &format!("more than the {RULES_MAX} rules accepted")));
        }
        Ok(rules)
    }
}

#[cfg(test)]
mod tests;
