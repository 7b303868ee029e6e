//! Decodes a definition or skill file and splits it into the fields of its front matter and its body.
//!
//! Front matter is YAML, but many files that users wrote by hand are not valid YAML. Such a text is parsed again key by
//! key (see `tolerant`). Only a text that expands beyond its limits is refused.
//!
//! Why it is like this: `docs/decisions/definitions-front-matter.md`.

use serde_saphyr::DuplicateKeyPolicy;

use super::fields::{Fields, Format};
use super::notes::Notes;
use super::{plain_lines, tolerant};
use crate::yaml::{self, Limits, Node, Value, YamlError};

/// Maximum size of a definition or skill file, here and in discovery.
pub const DEFINITION_MAX_BYTES: u64 = 512 * 1024;
const FRONT_MATTER_MAX_BYTES: usize = 64 * 1024;
const KEYS_MAX: usize = 256;
/// Two or three levels are usual. Servers and hooks of other tools have some more.
const LIMITS: Limits = Limits { nodes: 20_000, aliased_nodes: 1_000, depth: 32 };
/// Maximum length of front matter without its opening mark.
const UNOPENED_MAX_LINES: usize = 40;

/// A file split into its parts.
#[derive(Debug)]
pub(super) struct Document {
    /// The fields of the front matter.
    pub(super) fields: Fields,
    pub(super) has_front_matter: bool,
    /// The text after the front matter, without surrounding empty lines.
    pub(super) body: String,
}

/// Splits a Markdown file. None if it cannot be used. Then a warning has the reason.
pub(super) fn document(bytes: &[u8], format: &Format, notes: &mut Notes<'_>) -> Option<Document> {
    let text = decode(bytes, notes)?;
    let Some(Split { matter, first_line, body }) = split(&text, format, notes) else {
        let body = text.trim().to_owned();
        return Some(Document { fields: Fields::default(), has_front_matter: false, body });
    };
    if matter.len() > FRONT_MATTER_MAX_BYTES {
        let problem = format!(
            "the front matter has {} bytes, more than the {FRONT_MATTER_MAX_BYTES} accepted",
            matter.len()
        );
        notes.problem(first_line, problem, "move the text below the closing `---`");
        return None;
    }
    let fields = fields(matter, first_line - 1, format, notes)?;
    Some(Document { fields, has_front_matter: true, body: body.trim().to_owned() })
}

/// Parses a file that is YAML as a whole. None if it cannot be used. Then a warning has the reason.
pub(super) fn yaml_document(bytes: &[u8], format: &Format, notes: &mut Notes<'_>) -> Option<Fields> {
    let text = decode(bytes, notes)?;
    fields(&text, 0, format, notes)
}

/// Decodes to UTF-8 with Unix line ends.
fn decode(bytes: &[u8], notes: &mut Notes<'_>) -> Option<String> {
    if bytes.len() as u64 > DEFINITION_MAX_BYTES {
        let problem = format!("{} bytes, more than the {DEFINITION_MAX_BYTES} accepted", bytes.len());
        notes.problem(None, problem, "move rarely needed parts to other files");
        return None;
    }
    let text = match bytes {
        [0xff, 0xfe, rest @ ..] => utf_16(rest, u16::from_le_bytes, notes),
        [0xfe, 0xff, rest @ ..] => utf_16(rest, u16::from_be_bytes, notes),
        _ => match std::str::from_utf8(bytes) {
            Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text).to_owned(),
            Err(error) => {
                let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
                let line = before.split(|b| *b == b'\n').count() as u64;
                notes.problem(
                    line,
                    "the file is not UTF-8; what cannot be read is replaced",
                    "save it as UTF-8",
                );
                let text = String::from_utf8_lossy(bytes);
                text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned()
            }
        },
    };
    let text = if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n") } else { text };
    if text.trim().is_empty() {
        notes.problem(None, "the file is empty", "write what it is for, or remove it");
        return None;
    }
    Some(text)
}

fn utf_16(bytes: &[u8], unit: fn([u8; 2]) -> u16, notes: &mut Notes<'_>) -> String {
    notes.problem(None, "the file is UTF-16", "save it as UTF-8");
    let (units, _) = bytes.as_chunks::<2>();
    String::from_utf16_lossy(&units.iter().map(|pair| unit(*pair)).collect::<Vec<_>>())
}

/// The position of the front matter.
struct Split<'a> {
    matter: &'a str,
    /// The line of the file on which the front matter begins, from 1.
    first_line: u64,
    body: &'a str,
}

/// Finds the front matter, if there is any.
fn split<'a>(text: &'a str, format: &Format, notes: &mut Notes<'_>) -> Option<Split<'a>> {
    let start = text.len() - text.trim_start().len();
    let start = text.get(..start).and_then(|blank| blank.rfind('\n')).map_or(0, |end| end + 1);
    let lines_before = text.get(..start)?.matches('\n').count() as u64;
    let rest = text.get(start..)?;
    let opening = rest.lines().next()?;
    if !is_mark(opening) {
        return unopened(rest, lines_before, format, notes);
    }
    let matter_and_body = rest.get(opening.len() + 1..).unwrap_or_default();
    let first_line = lines_before + 2;
    let (matter, body) = cut_at_mark(matter_and_body).unwrap_or_else(|| {
        notes.problem(first_line - 1, "the front matter has no end", "close it with a line `---`");
        let end = unclosed_end(matter_and_body, format);
        matter_and_body.split_at_checked(end).unwrap_or((matter_and_body, ""))
    });
    Some(Split { matter, first_line, body })
}

fn is_mark(line: &str) -> bool {
    line.trim_end() == "---"
}

/// The text before and after the first mark.
fn cut_at_mark(text: &str) -> Option<(&str, &str)> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if is_mark(line) {
            return Some((text.get(..at)?, text.get(at + line.len()..)?));
        }
        at += line.len();
    }
    None
}

/// Front matter without its opening mark: it begins with a known key and has a closing mark.
fn unopened<'a>(
    text: &'a str,
    lines_before: u64,
    format: &Format,
    notes: &mut Notes<'_>,
) -> Option<Split<'a>> {
    let (key, _) = tolerant::key_of(text.lines().next()?)?;
    if !format.keys.contains(&key) || !text.lines().take(UNOPENED_MAX_LINES).any(is_mark) {
        return None;
    }
    let (matter, body) = cut_at_mark(text)?;
    notes.problem(lines_before + 1, "the front matter has no beginning", "open it with a line `---`");
    Some(Split { matter, first_line: lines_before + 1, body })
}

/// The end of front matter without a closing mark: before the first line that cannot belong to it.
fn unclosed_end(text: &str, format: &Format) -> usize {
    let mut end = 0;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        at += line.len();
        let belongs = line.starts_with([' ', '\t', '-'])
            || tolerant::key_of(line).is_some_and(|(key, _)| end == 0 || format.knows(key));
        if belongs && !line.trim().is_empty() {
            end = at;
        } else if !line.trim().is_empty() {
            break;
        }
    }
    end
}

/// Parses front matter that begins after `lines_before` lines. None if it is refused.
fn fields(text: &str, lines_before: u64, format: &Format, notes: &mut Notes<'_>) -> Option<Fields> {
    let entries = match strict(text, format) {
        Ok(Node { value: Value::Null, .. }) => Vec::new(),
        Ok(mut node) if matches!(node.value, Value::Map(_)) => {
            node.move_down(lines_before);
            comments_in_texts(text, lines_before, format, notes);
            node.into_entries()
        }
        Ok(node) => {
            let problem = format!("it is {} instead of lines `key: value`", node.kind());
            let error = YamlError { line: Some(node.line), problem, beyond_limits: false };
            tolerant::entries(text, lines_before, &error, format, notes)?
        }
        Err(error) if error.beyond_limits => {
            notes.problem(error.line.map(|line| line + lines_before), error.problem, tolerant::TOO_MUCH);
            return None;
        }
        Err(error) => tolerant::entries(text, lines_before, &error, format, notes)?,
    };
    if entries.len() > KEYS_MAX {
        let problem = format!("{} keys, more than the {KEYS_MAX} accepted", entries.len());
        notes.problem(None, problem, "remove some of them");
        return None;
    }
    Some(Fields::new(entries, notes))
}

/// Warns where a `#` cuts a text short: `Fixes issue #12` is `Fixes issue` and a comment.
fn comments_in_texts(text: &str, lines_before: u64, format: &Format, notes: &mut Notes<'_>) {
    for (line, content) in (lines_before + 1..).zip(text.lines()) {
        let Some((key, value)) = tolerant::key_of(content).filter(|(key, _)| format.is_text(key)) else {
            continue;
        };
        let is_plain = !value.trim_start().starts_with(['"', '\'', '|', '>', '#']);
        let mut hashes = value.match_indices(" #").map(|(at, _)| value.get(at + 2..).unwrap_or_default());
        if is_plain && hashes.any(|after| after.starts_with(|c: char| c.is_alphanumeric())) {
            let problem = format!("{key}: the text after ` #` is a comment");
            notes.problem(line, problem, "put the value in quotes");
        }
    }
}

/// Parses valid YAML.
pub(super) fn strict(text: &str, format: &Format) -> Result<Node, YamlError> {
    plain_lines::read(text).map_or_else(|| yaml(text, format), Ok)
}

/// Parses any YAML, without the fast path.
pub(super) fn yaml(text: &str, format: &Format) -> Result<Node, YamlError> {
    yaml::read(text, format.what, LIMITS, DuplicateKeyPolicy::LastWins)
}
