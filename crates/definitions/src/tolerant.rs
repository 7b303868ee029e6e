//! Parses front matter that is not valid YAML, key by key.
//!
//! The text is split before every line that begins with a key. Each part is parsed as YAML by itself. A part that is
//! not YAML becomes the text that it looks like, with a warning that names its line. So a colon in a description only
//! costs a warning.

use super::fields::Format;
use super::front_matter::strict;
use super::notes::Notes;
use crate::yaml::{Key, Node, Value, YamlError};

const KEY_MAX_BYTES: usize = 64;

/// The key at the beginning of a line, and the text after its colon.
pub(super) fn key_of(line: &str) -> Option<(&str, &str)> {
    // One leading space is a slip, more are a nested value.
    let line = line.strip_prefix(' ').unwrap_or(line);
    let (key, value) = line.split_once(':')?;
    let key = key.trim_end().trim_matches(['"', '\'']);
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
    let is_key = (1..=KEY_MAX_BYTES).contains(&key.len())
        && key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && key.bytes().all(plain);
    is_key.then_some((key, value))
}

/// Parses a text that strict parsing refused with `error`. None if it is refused here too.
pub(super) fn entries(
    text: &str,
    lines_before: u64,
    error: &YamlError,
    format: &Format,
    notes: &mut Notes<'_>,
) -> Option<Vec<(Key, Node)>> {
    let mut reader = Reader { format, entries: Vec::new(), found_fault: false };
    for part in parts(text, lines_before, format) {
        if let Err(RefusedPart { line, problem }) = reader.part(&part, notes) {
            notes.problem(line, problem, TOO_MUCH);
            return None;
        }
    }
    if !reader.found_fault {
        let line = error.line.map(|line| line + lines_before);
        let problem = format!("the {} is not valid YAML: {}", format.what, error.problem);
        notes.problem(line, problem, "write lines `key: value`");
    }
    Some(reader.entries)
}

/// The remedy for a text that expands beyond its limits.
pub(super) const TOO_MUCH: &str = "write it shorter and flatter, without `&` and `*` aliases";

/// The lines of one key.
struct Part<'a> {
    key: Option<&'a str>,
    /// The line of the key, from 1.
    line: u64,
    lines: Vec<&'a str>,
}

fn parts<'a>(text: &'a str, lines_before: u64, format: &Format) -> Vec<Part<'a>> {
    let mut parts: Vec<Part<'a>> = Vec::new();
    for (line_number, line) in (lines_before + 1..).zip(text.lines()) {
        let key = key_of(line).filter(|(key, value)| {
            // Prose has lines such as `user: hello`, so only a known key ends it.
            let in_text = parts.last().and_then(|part| part.key).is_some_and(|key| format.is_text(key));
            let spaced = value.is_empty() || value.starts_with([' ', '\t']);
            format.knows(key) || (spaced && !in_text && !line.starts_with(' '))
        });
        match (key, parts.last_mut()) {
            (None, Some(part)) => part.lines.push(line),
            (None, None) if line.trim().is_empty() || line.trim_start().starts_with('#') => {}
            (key, _) => {
                parts.push(Part { key: key.map(|(key, _)| key), line: line_number, lines: vec![line] });
            }
        }
    }
    parts
}

struct Reader<'f> {
    format: &'f Format,
    entries: Vec<(Key, Node)>,
    found_fault: bool,
}

/// A part that expands beyond its limits.
struct RefusedPart {
    line: u64,
    problem: String,
}

impl Reader<'_> {
    fn part(&mut self, part: &Part<'_>, notes: &mut Notes<'_>) -> Result<(), RefusedPart> {
        let Some(key) = part.key else {
            self.fault(part.line, "this line has no key and is ignored", "write `key: value`", notes);
            return Ok(());
        };
        if self.yaml(&part.lines, part.line)? {
            return Ok(());
        }
        if part.lines.iter().any(|line| line.starts_with('\t')) {
            let spaces: Vec<String> = part.lines.iter().map(|line| line.replace('\t', "  ")).collect();
            if self.yaml(&spaces, part.line)? {
                self.fault(part.line, &format!("{key}: tabs cannot indent YAML"), "use spaces", notes);
                return Ok(());
            }
        }
        let value = raw_value(self.own_lines(part)?, part.line);
        let fix = "put the value in quotes, or write it indented below `key: |`";
        let problem = format!("{key}: the value is not valid YAML and is used as plain text");
        self.fault(part.line, &problem, fix, notes);
        let node = Node { line: part.line, value };
        self.entries.push((Key { line: part.line, name: key.to_owned() }, node));
        Ok(())
    }

    /// Takes the lines if they are YAML: a map with text keys.
    fn yaml<S: AsRef<str>>(&mut self, lines: &[S], line: u64) -> Result<bool, RefusedPart> {
        let mut text = String::new();
        for line in lines {
            text.push_str(line.as_ref());
            text.push('\n');
        }
        match strict(text.strip_prefix(' ').unwrap_or(&text), self.format) {
            Ok(mut node) if matches!(node.value, Value::Map(_)) => {
                node.move_down(line - 1);
                self.entries.extend(node.into_entries());
                Ok(true)
            }
            Err(YamlError { problem, beyond_limits: true, .. }) => Err(RefusedPart { line, problem }),
            Ok(_) | Err(_) => Ok(false),
        }
    }

    /// The lines that belong to the part's key. Lines after them that are valid YAML by themselves become further keys.
    fn own_lines<'p>(&mut self, part: &'p Part<'_>) -> Result<&'p [&'p str], RefusedPart> {
        let is_new = |line: &&str| !line.is_empty() && !line.starts_with([' ', '\t', '-', '#']);
        let Some(end) = part.lines.iter().skip(1).position(is_new).map(|at| at + 1) else {
            return Ok(&part.lines);
        };
        let (own, rest) = part.lines.split_at(end);
        Ok(if self.yaml(rest, part.line + end as u64)? { own } else { &part.lines })
    }

    fn fault(&mut self, line: u64, problem: &str, fix: &str, notes: &mut Notes<'_>) {
        self.found_fault = true;
        notes.problem(line, problem, fix);
    }
}

/// The value that the lines of a key look like: a list if they are one, else text.
fn raw_value(lines: &[&str], line: u64) -> Value {
    let (first, rest) = lines.split_first().unwrap_or((&"", &[]));
    let first = key_of(first).map_or("", |(_, value)| value).trim();
    let rest: Vec<&str> = rest.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
    let is_block = first.is_empty() || (first.starts_with(['|', '>']) && first.len() <= 3);
    if first.is_empty() && !rest.is_empty() && rest.iter().all(|line| line.starts_with('-')) {
        let item = |item: &&str| Node { line, value: Value::Text(unquoted(item.trim_start_matches('-'))) };
        return Value::List(rest.iter().map(item).collect());
    }
    let lines = (!is_block).then_some(first).into_iter().chain(rest);
    Value::Text(unquoted(&lines.collect::<Vec<_>>().join("\n")))
}

/// Removes the surrounding quotes, even if the closing one is missing.
fn unquoted(text: &str) -> String {
    let text = text.trim();
    for quote in ['"', '\''] {
        let Some(inner) = text.strip_prefix(quote) else { continue };
        let closed = inner.strip_suffix(quote);
        let unclosed = (!inner.contains(quote)).then_some(inner);
        return closed.or(unclosed).unwrap_or(text).trim().to_owned();
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_word_before_a_colon() {
        for (line, found) in [
            ("name: x", Some(("name", " x"))),
            ("allowed-tools:", Some(("allowed-tools", ""))),
            ("\"name\": x", Some(("name", " x"))),
            (" name: x", Some(("name", " x"))),
            ("  name: x", None),
            ("see https://example.org", None),
            ("http://example.org", Some(("http", "//example.org"))),
            ("- a: b", None),
            ("no key", None),
            ("1: x", None),
            (": x", None),
        ] {
            assert_eq!(key_of(line), found, "{line}");
        }
    }

    #[test]
    fn quotes_are_taken_off_even_if_one_is_missing() {
        assert_eq!(unquoted(" \"a\" "), "a");
        assert_eq!(unquoted("'it"), "it");
        assert_eq!(unquoted("say \"x\""), "say \"x\"");
        assert_eq!(unquoted("\"x\" and y"), "\"x\" and y");
        assert_eq!(unquoted("\""), "");
    }
}
