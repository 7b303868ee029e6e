//! Invariants of every parsed definition and skill, whatever the text contains. The corpus test and the fuzz target
//! check the same ones.

use posse_definitions::{
    ParseOptions, ParsedFile, WARNINGS_MAX, builtin, read_agent, read_skill, read_yaml_skill,
};
use posse_domain::definition::{Definition, Trust};
use posse_domain::permission::{Decision, Rule};
use posse_domain::skill::{DESCRIPTION_MAX_CHARS, Skill};

pub(crate) const TOOLS: &[&str] = &[
    "read",
    "list",
    "glob",
    "grep",
    "write",
    "edit",
    "bash",
    "webfetch",
    "websearch",
    "todo",
    "skill",
    "task",
    "task_status",
    "task_send",
    "task_cancel",
    "task_close",
    "delegate_to_agent",
    "docs__search",
];

/// Maximum length of a name.
const NAME_MAX: usize = 64;
/// Maximum length of a warning: it quotes a text in part only.
const WARNING_MAX_CHARS: usize = 1_000;

/// Options for parsing a file, trusted or not.
pub(crate) fn reading(file: &str, trust: Trust) -> ParseOptions<'_> {
    ParseOptions { file, known_tools: TOOLS, trust, model: None }
}

/// Parses a text as every format. Panics if an invariant is violated.
pub(crate) fn kept(bytes: &[u8]) {
    for trust in [Trust::Trusted, Trust::Untrusted] {
        let reading = reading("a-file.md", trust);
        definition(bytes, &read_agent(bytes, "a-file", &reading), trust);
        skill(bytes, &read_skill(bytes, "a-folder", Some("/skills/a-folder"), &reading), trust);
        skill(bytes, &read_yaml_skill(bytes, "a-file", &reading), trust);
    }
}

/// The invariants of a definition.
pub(crate) fn definition(bytes: &[u8], loaded: &ParsedFile<Definition>, trust: Trust) {
    warnings(bytes, loaded);
    let Some(found) = &loaded.value else { return };
    named(&found.name, &found.description);
    assert!(!found.prompt.trim().is_empty(), "a definition without a prompt");
    assert!(found.trust <= trust, "more than its reader allowed");
    exist(&found.tools);
    if trust == Trust::Untrusted {
        untrusted(&found.tools, &found.rules, found.model.as_ref());
        assert!(!found.may_share_history, "nobody trusted it");
    }
}

/// The invariants of a skill.
pub(crate) fn skill(bytes: &[u8], loaded: &ParsedFile<Skill>, trust: Trust) {
    warnings(bytes, loaded);
    let Some(found) = &loaded.value else { return };
    named(&found.name, &found.description);
    assert!(!found.instructions.trim().is_empty(), "a skill without instructions");
    assert!(found.trust <= trust, "more than its reader allowed");
    let tools = found.tools.as_deref().unwrap_or_default();
    exist(tools);
    if trust == Trust::Untrusted {
        untrusted(tools, &found.rules, found.model.as_ref());
    }
}

fn warnings<T>(bytes: &[u8], loaded: &ParsedFile<T>) {
    assert!(loaded.value.is_some() || !loaded.warnings.is_empty(), "refused without a word");
    assert!(loaded.warnings.len() <= WARNINGS_MAX, "{} warnings", loaded.warnings.len());
    // Each kind of line end counts, whatever the encoding.
    let lines = bytes.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count() as u64 + 1;
    for warning in &loaded.warnings {
        let text = warning.to_string();
        assert!(!text.chars().any(char::is_control), "{text:?} has control characters");
        assert!(text.chars().count() <= WARNING_MAX_CHARS, "{text}");
        assert!(warning.line.is_none_or(|line| (1..=lines).contains(&line)), "{text}: it has {lines} lines");
    }
}

fn named(name: &str, description: &str) {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    assert!((1..=NAME_MAX).contains(&name.len()) && name.bytes().all(plain), "{name:?} is no name");
    assert!(
        description.chars().count() <= DESCRIPTION_MAX_CHARS,
        "{} characters",
        description.chars().count()
    );
}

fn exist(tools: &[String]) {
    for (at, tool) in tools.iter().enumerate() {
        assert!(TOOLS.contains(&tool.as_str()), "unknown tool {tool:?}");
        assert!(!tools[..at].contains(tool), "{tool} is listed twice");
    }
}

fn untrusted(tools: &[String], rules: &[Rule], model: Option<&String>) {
    let coder = coder_tools();
    for tool in tools {
        assert!(coder.contains(tool), "{tool} is more than `coder` has");
    }
    assert!(rules.iter().all(|rule| rule.decision != Decision::Allow), "nobody trusted it: {rules:?}");
    assert_eq!(model, None, "nobody trusted it");
}

/// The tools of the built-in `coder`.
pub(crate) fn coder_tools() -> Vec<String> {
    let coder = builtin().into_iter().find(|known| known.name == "coder");
    coder.map(|coder| coder.tools).unwrap_or_default()
}
