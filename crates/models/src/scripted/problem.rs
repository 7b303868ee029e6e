//! Converts errors of the YAML parser to messages for the user who wrote the script.

use std::borrow::Cow;

use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Error, Location, MessageFormatter, UserMessageFormatter};

use super::error::ScriptError;

pub(super) fn in_file(error: &Error, text: &str, file: &str) -> ScriptError {
    let file = file.to_owned();
    let cause = innermost(error);
    let problem = describe(cause);
    match cause.location().or_else(|| error.location()) {
        None => ScriptError::NotAScript { file, problem },
        Some(at) => {
            // The parser reports the name of an unknown field, but not the field of a wrong value.
            let field = key_before(text, at).filter(|_| is_about_a_value(cause));
            let problem = field.map_or(problem.clone(), |field| format!("{field}: {problem}"));
            ScriptError::Line { file, line: at.line(), problem }
        }
    }
}

/// The innermost error, without its wrappers.
fn innermost(mut error: &Error) -> &Error {
    while let Error::AliasError { error: inner, .. } | Error::WithSnippet { error: inner, .. } = error {
        error = inner;
    }
    error
}

fn is_about_a_value(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidScalar { .. }
            | Error::Unexpected { .. }
            | Error::NullIntoString { .. }
            | Error::NonFiniteFloat { .. }
            | Error::SerdeInvalidType { .. }
            | Error::SerdeInvalidValue { .. }
    )
}

fn describe(error: &Error) -> String {
    match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            format!("unknown field {field:?}, expected {}", one_of(expected))
        }
        Error::SerdeMissingField { field, .. } => format!("the field `{field}` is missing"),
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("the field `{key}` is written twice"),
        Error::InvalidScalar { ty, .. } => format!("expected {}", kind(ty)),
        Error::Unexpected { expected, .. } => format!("expected {}", kind(expected)),
        Error::NullIntoString { .. } => "expected text, found nothing".to_owned(),
        Error::MultipleDocuments { .. } => "a script is one YAML document; here begins another".to_owned(),
        Error::Budget { breach, .. } => too_much(breach).to_owned(),
        Error::AliasReplayLimitExceeded { .. } => ALIASED_TOO_MUCH.to_owned(),
        Error::SerdeInvalidType { unexpected, expected, .. }
        | Error::SerdeInvalidValue { unexpected, expected, .. } => {
            format!("found {unexpected}, expected {expected}")
        }
        other => UserMessageFormatter.format_message(other).into_owned(),
    }
}

const ALIASED_TOO_MUCH: &str = "the aliases of the script stand for more than can be read safely";

fn too_much(breach: &BudgetBreach) -> &'static str {
    match breach {
        BudgetBreach::Aliases { .. }
        | BudgetBreach::Anchors { .. }
        | BudgetBreach::AliasAnchorRatio { .. }
        | BudgetBreach::MergeKeys { .. }
        | BudgetBreach::RecordedAnchorEvents { .. } => ALIASED_TOO_MUCH,
        BudgetBreach::Depth { .. } => "the script is nested too deeply to be read safely",
        _ => "the script holds more than can be read safely",
    }
}

fn one_of(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [name] => name.clone(),
        _ => format!("one of {}", quoted.join(", ")),
    }
}

/// The expected type, without names of Rust's or the parser's types.
fn kind(expected: &str) -> Cow<'_, str> {
    match expected {
        "u64" => "a whole number of at least 0".into(),
        "u32" => format!("a whole number from 0 to {}", u32::MAX).into(),
        "u16" => format!("a whole number from 0 to {}", u16::MAX).into(),
        "floating point" => "a number".into(),
        "string scalar" => "a single value".into(),
        "mapping start" => "a map".into(),
        "sequence start" => "a list".into(),
        other => other.into(),
    }
}

/// The key whose value begins at this position, if it is on the same line.
fn key_before(text: &str, at: Location) -> Option<&str> {
    let line = text.lines().nth(usize::try_from(at.line().checked_sub(1)?).ok()?)?;
    let column = usize::try_from(at.column().checked_sub(1)?).ok()?;
    let before = line.char_indices().nth(column).map_or(line, |(end, _)| &line[..end]);
    let before = before.trim_end().strip_suffix(':')?.trim_end_matches(['"', '\'']);
    let start = before.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |at| at + 1);
    Some(&before[start..]).filter(|key| !key.is_empty())
}
