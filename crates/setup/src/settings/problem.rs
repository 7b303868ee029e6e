//! Converts errors of the YAML reader about a settings file to messages for the user who wrote it.

use std::borrow::Cow;
use std::path::Path;

use crate::plan::innermost;
use posse_domain::nearest::{hint, nearest};
use serde_saphyr::{Error, Location, MessageFormatter, UserMessageFormatter};

use crate::error::SetupError;

/// Longest unknown key that an error repeats completely.
const SHOWN_MAX_CHARS: usize = 40;
/// How many characters of a longer key, or of a possible secret, are repeated.
const SECRET_SHOWN_CHARS: usize = 4;
/// A longer name with digits in it could be a secret.
const PLAIN_MAX_BYTES: usize = 15;

/// The prefix of every message that expects a number.
const A_NUMBER: &str = "expected a whole number";

/// The error for a settings file that could not be parsed.
pub(super) fn in_file(error: &Error, text: &str, path: &Path) -> SetupError {
    let cause = innermost(error);
    let at = cause.location().or_else(|| error.location());
    let within = at.map(|at| keys_above(text, at)).unwrap_or_default();
    let mut problem = describe(cause, &within);
    if problem.starts_with(A_NUMBER)
        && let Some(found) = at.and_then(|at| scalar_at(text, at))
    {
        problem = format!("{problem}, found `{}`", shown(found));
    }
    let place = at.map_or_else(String::new, |at| format!(":{}", at.line()));
    // The reader knows the name of an unknown key, but not which key has a wrong value.
    let names_itself = matches!(
        cause,
        Error::SerdeUnknownField { .. } | Error::SerdeMissingField { .. } | Error::DuplicateMappingKey { .. }
    );
    // Only for a value of the wrong type is the key above it certainly the right one.
    let above = problem.starts_with("expected ");
    let key = at.and_then(|at| key_before(text, at, above)).filter(|_| !names_itself);
    let path_of = |key: &str| {
        let above = within.strip_suffix(&[key.to_owned()][..]).unwrap_or(&within);
        whole(above, key)
    };
    let problem = key.map_or(problem.clone(), |key| format!("{}: {problem}", path_of(key)));
    SetupError::usage(format!("{}{place}: {problem}", path.display()))
        .hint("fix the file and try again; nothing was started")
}

/// A key with those above it, such as `sandbox.level`.
fn whole(above: &[String], key: &str) -> String {
    let above = above.iter().map(|key| format!("{}.", shown(key)));
    above.chain([shown(key).into_owned()]).collect()
}

/// The keys that a position lies in, the outermost first: those of the lines above with less indentation, and on its own
/// line those with an open brace.
fn keys_above(text: &str, at: Location) -> Vec<String> {
    let Some((before, _)) = split_at(text, at) else { return Vec::new() };
    let number = usize::try_from(at.line()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().take(number).collect();
    let Some((own, above)) = lines.split_last() else { return Vec::new() };
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut keys = Vec::new();
    let mut inner = indent(own);
    for line in above.iter().rev() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') || indent(line) >= inner {
            continue;
        }
        inner = indent(line);
        keys.extend(key_at_end(trimmed.split(':').next().unwrap_or_default()));
    }
    keys.reverse();
    let mut open = Vec::new();
    for (position, c) in before.char_indices() {
        match c {
            '{' => open.push(before[..position].trim_end().strip_suffix(':').and_then(key_at_end)),
            '}' => drop(open.pop()),
            _ => {}
        }
    }
    keys.extend(open.into_iter().flatten());
    keys
}

/// The key at the end of a text, without quotes.
fn key_at_end(text: &str) -> Option<String> {
    let text = text.trim_end_matches(['"', '\'']);
    let start =
        text.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').map_or(0, |at| at + 1);
    Some(text[start..].to_owned()).filter(|key| !key.is_empty())
}

fn describe(error: &Error, above: &[String]) -> String {
    match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            let meant = hint(nearest(field, expected.iter().copied()));
            format!("unknown key `{}`{meant}; known keys: {}", whole(above, field), expected.join(", "))
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            format!("`{}` is not one of {}", shown(variant), expected.join(", "))
        }
        Error::SerdeMissingField { field, .. } => format!("the key `{field}` is missing"),
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("the key `{}` is written twice", shown(key))
        }
        Error::InvalidScalar { ty, .. } => format!("expected {}", kind(ty)),
        Error::Unexpected { expected, .. } => format!("expected {}", kind(expected)),
        Error::SerdeInvalidType { unexpected, expected, .. }
        | Error::SerdeInvalidValue { unexpected, expected, .. } => {
            format!("found {unexpected}, expected {expected}")
        }
        other => UserMessageFormatter.format_message(other).into_owned(),
    }
}

/// A key as an error repeats it: a secret in a key's position is not repeated completely.
pub(super) fn shown(key: &str) -> Cow<'_, str> {
    let has_digit = key.bytes().any(|byte| byte.is_ascii_digit());
    let is_secret = key.starts_with("sk-") || has_digit && key.len() > PLAIN_MAX_BYTES;
    if is_secret || key.chars().count() > SHOWN_MAX_CHARS {
        format!("{}…", key.chars().take(SECRET_SHOWN_CHARS).collect::<String>()).into()
    } else {
        key.into()
    }
}

/// The expected type, without names of Rust's or the reader's types.
fn kind(expected: &str) -> Cow<'_, str> {
    match expected {
        "u32" | "u64" => "a whole number of at least 0".into(),
        "string scalar" => "a single value".into(),
        "mapping start" => "a map".into(),
        "sequence start" => "a list".into(),
        other => other.into(),
    }
}

/// The parts of a line before and after a position.
fn split_at(text: &str, at: Location) -> Option<(&str, &str)> {
    let line = text.lines().nth(usize::try_from(at.line().checked_sub(1)?).ok()?)?;
    let column = usize::try_from(at.column().checked_sub(1)?).ok()?;
    Some(line.split_at(line.char_indices().nth(column).map_or(line.len(), |(end, _)| end)))
}

/// The plain value that begins at this position.
fn scalar_at(text: &str, at: Location) -> Option<&str> {
    let (_, value) = split_at(text, at)?;
    let end = value.find([',', '}', ']', '#']).unwrap_or(value.len());
    Some(value[..end].trim().trim_matches(['"', '\''])).filter(|value| !value.is_empty())
}

/// The key of the value that begins at this position: on the same line, or, with `above`, on the nearest preceding line
/// with less indentation.
fn key_before(text: &str, at: Location, above: bool) -> Option<&str> {
    let (before, _) = split_at(text, at)?;
    let before = if above && before.trim().is_empty() {
        let lines: Vec<&str> = text.lines().take(usize::try_from(at.line()).ok()?.checked_sub(1)?).collect();
        let indent = |line: &str| line.len() - line.trim_start().len();
        let is_above = |line: &&str| !line.trim().is_empty() && indent(line) < before.len();
        lines.into_iter().rev().find(is_above)?
    } else {
        before
    };
    let before = before.trim_end_matches([' ', '[', '{']).strip_suffix(':')?.trim_end_matches(['"', '\'']);
    let start = before.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |at| at + 1);
    Some(&before[start..]).filter(|key| !key.is_empty())
}
