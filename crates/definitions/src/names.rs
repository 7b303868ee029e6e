//! Names of definitions and skills: their format, and the normalisation of other spellings.

use std::collections::BTreeSet;

use super::fields::Field;
use super::notes::{Notes, quoted};

/// Maximum number of names in one list of references.
pub(super) const NAMES_MAX: usize = 1_000;

/// Whether the text is a valid name: `[a-z0-9_-]`, at most `max` bytes, not beginning like a command-line option.
pub(super) fn is_name(text: &str, max: usize) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    (1..=max).contains(&text.len()) && !text.starts_with('-') && text.bytes().all(plain)
}

/// Normalises a text to a name: `Code Reviewer` becomes `code-reviewer`. None if letters would be lost: a name that
/// only looks like another must not become that other.
pub(super) fn normal(text: &str, max: usize) -> Option<String> {
    let mut name = String::new();
    for c in text.trim().chars() {
        match c {
            c if c.is_ascii_alphanumeric() || c == '_' => name.push(c.to_ascii_lowercase()),
            c if c.is_alphanumeric() => return None,
            _ if name.ends_with('-') => {}
            _ => name.push('-'),
        }
    }
    let name = name.trim_matches('-');
    let name = name.get(..max).unwrap_or(name).trim_end_matches('-');
    name.bytes().any(|b| b.is_ascii_alphanumeric()).then(|| name.to_owned())
}

/// Normalises a reference to another file. A text that is not a name stays as it is: it matches no file, and the caller
/// reports that. Patterns (`review-*`) keep their stars.
pub(super) fn reference(text: &str) -> String {
    let text = text.trim().trim_start_matches('@');
    if text.contains('*') {
        return text.to_ascii_lowercase();
    }
    normal(text, text.len()).unwrap_or_else(|| text.to_owned())
}

/// The name of a definition or skill: from its text, else from the file. None if neither is valid.
pub(super) fn name(
    given: Option<Field>,
    fallback: &str,
    max: usize,
    notes: &mut Notes<'_>,
) -> Option<String> {
    let line = given.as_ref().map(|field| field.line);
    let written = given.and_then(|field| field.text(notes)).filter(|text| !text.trim().is_empty());
    if let Some(written) = written {
        let written = written.trim();
        if is_name(written, max) {
            return Some(written.to_owned());
        }
        if let Some(name) = normal(written, max) {
            let problem = format!(
                "name: {} is written as a name should not be; it is known as `{name}`",
                quoted(written)
            );
            notes.problem(line, problem, &format!("write `name: {name}`"));
            return Some(name);
        }
        let problem = format!("name: {} cannot be a name, so the file's name is used", quoted(written));
        notes.problem(line, problem, &rule(max));
    }
    if is_name(fallback, max) {
        return Some(fallback.to_owned());
    }
    let name = normal(fallback, max);
    if let Some(name) = &name {
        notes.note(line, format!("{} is known as `{name}`", quoted(fallback)), "");
    } else {
        let problem = format!("{} cannot be a name, and the text gives none", quoted(fallback));
        notes.problem(line, problem, &rule(max));
    }
    name
}

fn rule(max: usize) -> String {
    format!("use 1 to {max} characters of a-z, 0-9, _ and -, and do not begin with -")
}

/// `code-reviewer` is shown as `Code Reviewer`.
pub(super) fn display_name(name: &str) -> String {
    let words = name.split(['-', '_']).filter(|word| !word.is_empty());
    let capital = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
    words.map(capital).collect::<Vec<_>>().join(" ")
}

/// The names in order, without duplicates.
pub(super) fn without_doubles(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names.into_iter().filter(|name| seen.insert(name.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_made_of_what_people_write() {
        for (text, name) in [
            ("Code Reviewer", Some("code-reviewer")),
            ("  QA_Lead ", Some("qa_lead")),
            ("review/security", Some("review-security")),
            ("plugin:reviewer", Some("plugin-reviewer")),
            ("🚀 Ship it!", Some("ship-it")),
            ("a--b", Some("a-b")),
            ("--help", Some("help")),
            ("c\u{43e}der", None),
            ("审查", None),
            ("...", None),
            ("", None),
        ] {
            assert_eq!(normal(text, 64).as_deref(), name, "{text}");
        }
        assert_eq!(normal(&"x".repeat(100), 64).map(|name| name.len()), Some(64));
    }

    #[test]
    fn a_name_is_not_like_an_option() {
        assert!(is_name("a-b", 64) && is_name("_a", 64));
        assert!(!is_name("-x", 64) && !is_name("--help", 64));
    }

    #[test]
    fn a_reference_is_found_in_any_case_and_keeps_its_stars() {
        assert_eq!(reference("Explore"), "explore");
        assert_eq!(reference("@code-reviewer"), "code-reviewer");
        assert_eq!(reference("Review-*"), "review-*");
        assert_eq!(reference("审查"), "审查");
    }

    #[test]
    fn a_display_name_has_capitals() {
        assert_eq!(display_name("code-reviewer_2"), "Code Reviewer 2");
        assert_eq!(display_name("--"), "");
    }
}
