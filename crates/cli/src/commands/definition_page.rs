//! The common part of `agents show` and `skills show`: prints a definition as its agents have it in a run.

use std::fmt::Write;

use posse::{Definition, Mode, Rule, Trust};
use posse_setup::discovery::{self, Entry, Severity, UnusedModel, Warning};

use super::definition_list::warning_text;

/// The column of values.
const VALUES_AT: usize = 14;
/// Width of the lines of a list of patterns.
const LIST_MAX_WIDTH: usize = 80;

/// A key and its value on one line.
pub(crate) type PageLine = (&'static str, String);

/// What is shown beside the definition itself.
pub(crate) struct DefinitionOrigin<'a> {
    /// Who provides it.
    pub(crate) from: &'a str,
    /// Whether the user trusts it.
    pub(crate) trusted: bool,
    /// Set if its file names a model that is not used.
    pub(crate) unused: Option<&'a UnusedModel>,
    /// Problems and notes about its file.
    pub(crate) warnings: &'a [Warning],
}

impl<'a> DefinitionOrigin<'a> {
    /// For a discovered entry.
    pub(crate) fn entry<T>(entry: &'a Entry<T>, from: &'a str) -> Self {
        let unused = entry.unused_model.as_ref();
        Self { from, trusted: entry.trusted, unused, warnings: &entry.warnings }
    }

    /// The last lines of its page.
    pub(crate) fn last(&self) -> Vec<PageLine> {
        let trust = (!self.trusted).then(|| ("trust", "not trusted yet: `posse trust`".to_owned()));
        trust
            .into_iter()
            .chain(self.warnings.iter().map(|warning| (level(warning), warning_text(warning))))
            .collect()
    }
}

/// The word for a warning, as the validation of its file has it.
fn level(warning: &Warning) -> &'static str {
    match warning.level {
        Severity::Note => "note",
        Severity::Problem => "problem",
    }
}

/// Names in one line.
pub(crate) fn names(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// A text in one line.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// All lines except the prompt and the last ones.
pub(crate) fn described(definition: &Definition, about: &DefinitionOrigin<'_>) -> Vec<PageLine> {
    let Definition { name, display_name, description, model, .. } = definition;
    let named = if display_name == name { name.clone() } else { format!("{name} ({display_name})") };
    let number =
        |value: Option<u32>, none: &str| value.map_or_else(|| none.to_owned(), |value| value.to_string());
    let mut lines = vec![
        ("name", named),
        ("from", about.from.to_owned()),
        ("description", one_line(description)),
        ("tools", names(&definition.tools)),
        ("spawns", definition.spawns.as_deref().map_or_else(|| "none".to_owned(), names)),
        ("model", model_line(model.as_deref(), about.unused)),
        ("turns", number(definition.max_turns, "the run's")),
        ("at once", number(definition.parallel, "as many as the run allows")),
    ];
    if discovery::reaches_skills(&definition.tools) {
        lines.push(("skills", definition.skills.as_deref().map_or_else(|| "all".to_owned(), names)));
    }
    lines.extend(definition.temperature.map(|value| ("temperature", value.to_string())));
    lines.extend(definition.top_p.map(|value| ("top_p", value.to_string())));
    lines.extend(definition.background.then(|| ("background", "yes".to_owned())));
    lines.extend(definition.may_share_history.then(|| ("history", "may be shared with children".to_owned())));
    if definition.trust == Trust::Untrusted {
        lines.push(("permissions", "asks for everything".to_owned()));
    }
    lines.extend(rules("rules", &definition.rules));
    lines
}

/// The model, and the one that the file names if it differs.
fn model_line(model: Option<&str>, unused: Option<&UnusedModel>) -> String {
    let model = model.unwrap_or("the parent's, at the root the run's");
    let unused = unused.map(|unused| format!("; its file names {}, {}", unused.name, unused.why));
    format!("{model}{}", unused.unwrap_or_default())
}

/// Whether it can be a root, a child or both.
pub(crate) fn used_as(definition: &Definition) -> PageLine {
    let words = if definition.mode == Mode::Primary { "root only" } else { "root or child" };
    ("used as", words.to_owned())
}

/// Rules in order, of which the last that matches wins. Consecutive rules with the same decision share a line.
pub(crate) fn rules(key: &'static str, rules: &[Rule]) -> Vec<PageLine> {
    let stretches = rules.chunk_by(|one, next| one.decision == next.decision);
    let line = |stretch: &[Rule]| {
        let patterns: Vec<&str> = stretch.iter().map(|rule| rule.pattern.as_str()).collect();
        (key, format!("{} {}", stretch[0].decision, wrapped(&patterns)))
    };
    stretches.map(line).collect()
}

/// Patterns with commas, in lines that are no longer than a page is wide.
fn wrapped(patterns: &[&str]) -> String {
    let mut text = String::new();
    let mut width = 0;
    for (position, pattern) in patterns.iter().enumerate() {
        if position > 0 {
            let is_full = width + pattern.len() > LIST_MAX_WIDTH;
            text.push_str(if is_full { ",\n" } else { ", " });
            width = if is_full { 0 } else { width + 2 };
        }
        text.push_str(pattern);
        width += pattern.len();
    }
    text
}

/// What a run adds to the prompt.
pub(crate) fn in_a_run(definition: &Definition, agents_md: Option<&str>) -> PageLine {
    let mut parts = vec!["its contract".to_owned()];
    parts.extend(agents_md.map(|file| format!("the text of {file}")));
    parts.extend(discovery::reaches_skills(&definition.tools).then(|| "the list of its skills".to_owned()));
    ("prompt", format!("as below; in a run followed by {}", parts.join(", ")))
}

/// The lines as text.
pub(crate) fn text(lines: &[PageLine]) -> String {
    let mut text = String::new();
    for (key, value) in lines {
        // Writing to a string does not fail.
        let value = value.replace('\n', &format!("\n{:VALUES_AT$}", ""));
        let _ = writeln!(text, "{:VALUES_AT$}{value}", format!("{key}:"));
    }
    text
}
