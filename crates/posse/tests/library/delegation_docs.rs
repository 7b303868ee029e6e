//! `docs/delegation.md` lists every tool for delegation with its parameters, and every error code, exactly as in the
//! code.
use std::collections::BTreeSet;

use posse_domain::code::Code;
use posse_domain::event::{EVENT_VERSION, EffectClass, Event, StoredEvent};
use posse_domain::hash::Hash;
use posse_domain::id::RunId;

const PAGE: &str = include_str!("../../../../docs/delegation.md");

/// The rows of the page whose first cell is a matching name.
fn rows(fits: impl Fn(&str) -> bool) -> BTreeSet<&'static str> {
    PAGE.lines().filter(|line| name(line).is_some_and(&fits)).collect()
}

/// The name in the first cell of a row.
fn name(line: &str) -> Option<&str> {
    line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name)
}

/// Fails with every missing and every superfluous row.
#[track_caller]
fn same(found: &BTreeSet<&str>, expected: &[String]) {
    let expected: BTreeSet<&str> = expected.iter().map(String::as_str).collect();
    let missing: Vec<&str> = expected.difference(found).copied().collect();
    let extra: Vec<&str> = found.difference(&expected).copied().collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "docs/delegation.md lacks:\n{}\n\nand should not have:\n{}",
        missing.join("\n"),
        extra.join("\n")
    );
}

/// The fields of a kind of event, from the codec's error about an unknown field.
pub(crate) fn fields(kind: &str) -> Vec<String> {
    let stored = StoredEvent {
        seq: 1,
        agent: RunId::from_random(1).root(),
        kind: kind.into(),
        at_ms: 0,
        version: EVENT_VERSION,
        payload: r#"{"no_such_field":0}"#.to_owned(),
        hash: Hash::ZERO,
    };
    let problem = Event::decode(&stored).unwrap_err().to_string();
    let (_, expected) = problem.split_once("expected ").unwrap_or_else(|| panic!("{kind}: {problem}"));
    expected.split('`').skip(1).step_by(2).map(|field| format!("`{field}`")).collect()
}

#[test]
fn every_error_code_has_its_row_with_what_to_do() {
    let is_code = |name: &str| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    let found = rows(is_code);
    for (code, meaning) in Code::MEANINGS {
        let begins = format!("| `{code}` | {} | ", meaning.trim());
        let row =
            found.iter().find(|row| row.starts_with(&begins)).unwrap_or_else(|| panic!("no row {begins}…"));
        let advice = row[begins.len()..].trim_end_matches('|').trim();
        assert!(advice.len() > 10, "{row} says nothing about what to do");
    }
    assert_eq!(found.len(), Code::MEANINGS.len(), "a code that there is not: {found:#?}");
}

#[test]
fn every_tool_for_delegation_has_its_parameters() {
    let mut expected = Vec::new();
    for tool in posse::builtin_tools() {
        if tool.class != EffectClass::Delegate && tool.name != "skill" {
            continue;
        }
        assert!(PAGE.contains(&format!("\n### `{}`\n", tool.name)), "{} has no section", tool.name);
        let schema = (tool.describe)(&[]).input_schema;
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (parameter, spec) in schema["properties"].as_object().unwrap() {
            let needed = if required.iter().any(|name| name == parameter) { "required" } else { "optional" };
            let text = spec["description"].as_str().unwrap_or_default();
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            expected.push(format!("| `{}.{parameter}` | {needed} | {text} |", tool.name));
        }
    }
    let tools: Vec<String> = posse::builtin_tools().iter().map(|tool| format!("{}.", tool.name)).collect();
    same(&rows(|name| tools.iter().any(|tool| name.starts_with(tool))), &expected);
}
