//! The fields of a file: a parser takes each by its key and converts it leniently to the expected type.

use posse_domain::nearest::{hint, nearest};
use serde_json::Number;

use super::notes::{Notes, quoted};
use crate::yaml::{Key, Node, Value};

/// Maximum of a limit that is a whole number.
const WHOLE_MAX: u64 = 1_000_000;
/// Maximum of a time limit, in milliseconds: a week.
const DURATION_MAX_MS: u64 = 7 * 24 * 3_600_000;

/// Keys that narrow permissions. A typo in one of them grants more than the author meant.
const NARROWING: [&str; 6] =
    ["tools", "disallowedTools", "permission", "permissionMode", "rules", "allowed-tools"];

/// The keys that one file format accepts.
#[derive(Debug)]
pub(super) struct Format {
    /// The format's name in warnings.
    pub(super) what: &'static str,
    /// The keys that are parsed.
    pub(super) keys: &'static [&'static str],
    /// Keys of other tools that have no effect here.
    pub(super) ignored: &'static [&'static str],
    /// Keys of other tools whose missing effect the user should know, with the reason.
    pub(super) not_here: &'static [(&'static str, &'static str)],
    /// The keys with prose as their values, which users often forget to quote.
    pub(super) texts: &'static [&'static str],
}

impl Format {
    /// Whether the format has this key.
    pub(super) fn knows(&self, key: &str) -> bool {
        self.all_keys().any(|known| same_key(known, key))
    }

    /// Whether the key's value is prose.
    pub(super) fn is_text(&self, key: &str) -> bool {
        self.texts.iter().any(|known| same_key(known, key))
    }

    fn all_keys(&self) -> impl Iterator<Item = &'static str> {
        let not_here = self.not_here.iter().map(|(key, _)| *key);
        self.keys.iter().chain(self.ignored).copied().chain(not_here)
    }
}

/// `max-turns`, `max_turns` and `maxTurns` are the same key.
pub(super) fn same_key(left: &str, right: &str) -> bool {
    fn letters(key: &str) -> impl Iterator<Item = u8> {
        key.bytes().filter(|b| !b"-_ ".contains(b)).map(|b| b.to_ascii_lowercase())
    }
    letters(left).eq(letters(right))
}

/// A key with its value.
#[derive(Debug)]
pub(super) struct Field {
    /// The key as written in the file.
    pub(super) key: String,
    /// The line of the key.
    pub(super) line: u64,
    pub(super) node: Node,
}

/// The fields that no parser has taken yet.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<Field>);

impl Fields {
    /// The entries of a map. Of two entries with one key the last wins.
    pub(super) fn new(entries: Vec<(Key, Node)>, notes: &mut Notes<'_>) -> Self {
        let mut fields: Vec<Field> = Vec::with_capacity(entries.len());
        for (Key { line, name: key }, node) in entries {
            if let Some(earlier) = fields.iter().position(|field| same_key(&field.key, &key)) {
                let first = fields.remove(earlier).line;
                let problem = format!("the key {} is written twice; the last one is used", quoted(&key));
                notes.problem(line, problem, &format!("remove the one in line {first}"));
            }
            fields.push(Field { key, line, node });
        }
        Self(fields)
    }

    /// Takes the field with this key. A field without a value counts as absent.
    pub(super) fn take(&mut self, key: &str) -> Option<Field> {
        let at = self.0.iter().position(|field| same_key(&field.key, key))?;
        let field = self.0.remove(at);
        (!matches!(field.node.value, Value::Null)).then_some(field)
    }

    /// Takes the fields of all these synonymous keys. The first one with a value wins.
    pub(super) fn take_any(&mut self, keys: &[&str]) -> Option<Field> {
        let mut taken = keys.iter().filter_map(|key| self.take(key)).collect::<Vec<_>>().into_iter();
        taken.next()
    }

    /// The remaining key that is probably a typo of this one, and its line.
    pub(super) fn near(&self, key: &str) -> Option<(&str, u64)> {
        let near = nearest(key, self.0.iter().map(|field| field.key.as_str()))?;
        self.0.iter().find(|field| field.key == near).map(|field| (near, field.line))
    }

    /// Reports the remaining fields that have no meaning here.
    pub(super) fn finish(self, format: &Format, notes: &mut Notes<'_>) {
        for Field { key, line, node } in self.0 {
            if matches!(node.value, Value::Null) || format.ignored.iter().any(|known| same_key(known, &key)) {
                continue;
            }
            if let Some((_, why)) = format.not_here.iter().find(|(known, _)| same_key(known, &key)) {
                notes.note(line, format!("{}: {why}", quoted(&key)), "");
                continue;
            }
            let near = nearest(&key, format.keys.iter().copied());
            let problem = format!("unknown key {}{}; it is ignored", quoted(&key), hint(near));
            // Collections have their own keys, which mean nothing here. Only a likely typo is a problem.
            match near {
                Some(near) if NARROWING.contains(&near) => {
                    notes.widening(line, problem, "correct or remove it; until then it narrows nothing");
                }
                Some(_) => notes.problem(line, problem, "correct or remove it"),
                None => notes.note(line, problem, ""),
            }
        }
    }
}

impl Field {
    fn wrong(&self, expected: &str, notes: &mut Notes<'_>) {
        let found = match &self.node.value {
            Value::Number(number) => number.to_string(),
            _ => self.node.kind().to_owned(),
        };
        let problem = format!("{}: expected {expected}, found {found}", self.key);
        notes.problem(self.line, problem, "it is omitted");
    }

    /// Text. A number or a word that YAML parses as another type is text too.
    pub(super) fn text(self, notes: &mut Notes<'_>) -> Option<String> {
        match self.node.value {
            Value::Text(text) => Some(text),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(value) => Some(value.to_string()),
            // `[file]` is a common notation for an optional argument.
            Value::List(ref items) if items.iter().all(|item| plain_text(item).is_some()) => {
                let items: Vec<String> = items.iter().filter_map(plain_text).collect();
                Some(format!("[{}]", items.join(", ")))
            }
            Value::List(_) | Value::Map(_) | Value::Null => {
                self.wrong("text", notes);
                None
            }
        }
    }

    /// A boolean in any common spelling.
    pub(super) fn flag(&self, notes: &mut Notes<'_>) -> Option<bool> {
        let flag = match &self.node.value {
            Value::Bool(value) => Some(*value),
            Value::Text(text) => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" => Some(true),
                "false" | "no" | "off" => Some(false),
                _ => None,
            },
            Value::Number(number) => match number.as_u64() {
                Some(0) => Some(false),
                Some(1) => Some(true),
                _ => None,
            },
            Value::Null | Value::List(_) | Value::Map(_) => None,
        };
        if flag.is_none() {
            self.wrong("true or false", notes);
        }
        flag
    }

    /// A number from 0 to `most`.
    pub(super) fn number(&self, most: u32, notes: &mut Notes<'_>) -> Option<f64> {
        let number = self.any_number().filter(|number| (0.0..=f64::from(most)).contains(number));
        if number.is_none() {
            self.wrong(&format!("a number from 0 to {most}"), notes);
        }
        number
    }

    /// A whole number of at least `least`.
    pub(super) fn whole(&self, least: u32, notes: &mut Notes<'_>) -> Option<u32> {
        let number = match &self.node.value {
            Value::Number(number) => whole(number),
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        };
        let fitting = number.filter(|number| (u64::from(least)..=WHOLE_MAX).contains(number));
        if fitting.is_none() {
            self.wrong(&format!("a whole number from {least} to {WHOLE_MAX}"), notes);
        }
        fitting.and_then(|number| u32::try_from(number).ok())
    }

    /// A duration in milliseconds, written in seconds or with a unit: `90`, `1.5`, `500ms`, `30s`, `5m`, `1h`.
    pub(super) fn duration_ms(&self, notes: &mut Notes<'_>) -> Option<u64> {
        let seconds = match &self.node.value {
            Value::Text(text) => seconds(text),
            _ => self.any_number(),
        };
        let ms = seconds.map(|seconds| (seconds * 1_000.0).round());
        #[expect(clippy::cast_precision_loss, reason = "a week in milliseconds is exact")]
        let longest = DURATION_MAX_MS as f64;
        let Some(ms) = ms.filter(|ms| (1.0..=longest).contains(ms)) else {
            self.wrong("a time such as `90` (seconds), `30s` or `5m`, a week at most", notes);
            return None;
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within 1 and a week")]
        Some(ms as u64)
    }

    fn any_number(&self) -> Option<f64> {
        match &self.node.value {
            Value::Number(number) => number.as_f64(),
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// Names with their lines: a list, or text separated by commas or spaces.
    pub(super) fn names(self, notes: &mut Notes<'_>) -> Option<Vec<(String, u64)>> {
        let split = |text: &str, line: u64| {
            let names = text.split([',', ' ', '\t', '\n', '[', ']', '"', '\'', '`']).map(str::trim);
            names.filter(|name| !name.is_empty()).map(|name| (name.to_owned(), line)).collect::<Vec<_>>()
        };
        match &self.node.value {
            Value::List(items) => {
                let texts = items.iter().map(|item| (plain_text(item), item.line));
                let names: Vec<_> =
                    texts.filter_map(|(text, line)| Some((text?.trim().to_owned(), line))).collect();
                if names.len() < items.len() {
                    self.wrong("names", notes);
                }
                Some(names.into_iter().filter(|(name, _)| !name.is_empty()).collect())
            }
            Value::Map(_) => {
                self.wrong("a list of names", notes);
                None
            }
            _ => plain_text(&self.node).map(|text| split(&text, self.line)),
        }
    }
}

/// A scalar as text.
pub(super) fn plain_text(node: &Node) -> Option<String> {
    match &node.value {
        Value::Text(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::List(_) | Value::Map(_) => None,
    }
}

/// `20` and `20.0` are whole.
fn whole(number: &Number) -> Option<u64> {
    let rounded = || number.as_f64().filter(|float| float.fract() == 0.0 && *float >= 0.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative; it saturates")]
    number.as_u64().or_else(|| rounded().map(|float| float as u64))
}

fn seconds(text: &str) -> Option<f64> {
    let text = text.trim().to_ascii_lowercase();
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let number: f64 = number.parse().ok()?;
    let factor = match unit.trim() {
        "ms" => 0.001,
        "" | "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3_600.0,
        _ => return None,
    };
    Some(number * factor)
}

#[cfg(test)]
mod tests {
    use super::super::agent_markdown::tests::reading;
    use super::super::{Severity, read_agent};

    #[test]
    fn keys_of_other_collections_are_notes_and_slips_are_problems() {
        let text = "---\ndescription: d\ntier: 2\nlevel: senior\ndesription: x\n---\nYou do it.";
        let loaded = read_agent(text.as_bytes(), "stem", &reading("a.md"));
        let told: Vec<_> = loaded.warnings.iter().map(|one| (one.level, one.problem.as_str())).collect();
        assert_eq!(
            told,
            [
                (Severity::Note, "unknown key `tier`; it is ignored"),
                (Severity::Note, "unknown key `level`; it is ignored"),
                (Severity::Problem, "unknown key `desription` (did you mean `description`?); it is ignored"),
            ]
        );
    }
}
