//! Parses the fields that definitions and skills share.

use posse_domain::skill::DESCRIPTION_MAX_CHARS;
use posse_domain::text::first_line;

use super::fields::Field;
use super::names::{NAMES_MAX, reference, without_doubles};
use super::notes::{Notes, quoted};
use super::parse_options::{ParseOptions, Role};
use super::tool_list::EVERY;

/// Highest sampling temperature that a provider accepts.
pub(super) const TEMPERATURE_MAX: u32 = 2;
/// Highest value of nucleus sampling.
pub(super) const TOP_P_MAX: u32 = 1;
/// Maximum length of a description that is taken from a body's first line.
const FIRST_LINE_MAX_CHARS: usize = 160;

/// Values with which other programs leave the choice of the model open.
const NO_MODEL: [&str; 5] = ["inherit", "default", "parent", "auto", "none"];
/// Short model names that other programs define, but no provider.
const SHORT_NAMES: [&str; 9] =
    ["sonnet", "opus", "haiku", "opusplan", "best", "fast", "claude", "gpt", "gemini"];

/// The description: as given, followed by `more`, or the first line of the text.
pub(super) fn description(
    given: Option<Field>,
    more: Option<&str>,
    text: &str,
    notes: &mut Notes<'_>,
) -> String {
    let line = given.as_ref().map(|field| field.line);
    let given = given.and_then(|field| field.text(notes));
    let parts = given.as_deref().into_iter().chain(more).map(str::trim).filter(|part| !part.is_empty());
    let given = Some(parts.collect::<Vec<_>>().join("\n"));
    let given = given.map(|text| without_controls(text.trim())).filter(|text| !text.is_empty());
    let Some(given) = given else {
        let first = first_line(text.trim_start_matches(['#', ' ', '\n']), FIRST_LINE_MAX_CHARS);
        let problem = "there is no description; the first line of the text is used";
        notes.problem(line, problem, "write `description:` and when to use it");
        return without_controls(&first);
    };
    let length = given.chars().count();
    if length <= DESCRIPTION_MAX_CHARS {
        return given;
    }
    let problem = format!(
        "description: {length} characters, more than the {DESCRIPTION_MAX_CHARS} that models read; the rest is cut"
    );
    notes.problem(line, problem, "say in short when to use it, and the rest in the text");
    given.chars().take(DESCRIPTION_MAX_CHARS - 1).chain(['…']).collect()
}

fn without_controls(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect()
}

/// The model. None means the parent's, also for a model that cannot be used.
pub(super) fn model(
    field: Option<Field>,
    reading: &ParseOptions<'_>,
    notes: &mut Notes<'_>,
) -> Option<String> {
    let field = field?;
    let line = field.line;
    let model = field.text(notes)?;
    let model = model.trim();
    let lower = model.to_ascii_lowercase();
    if model.is_empty() || NO_MODEL.contains(&lower.as_str()) {
        return None;
    }
    let as_parent = "its parent's is used; write it as provider/model";
    // `sonnet[1m]` is a short name too.
    let short = lower.split('[').next().unwrap_or_default();
    let is_short = SHORT_NAMES.contains(&short);
    let is_alias = is_short && reading.model.is_some_and(|check| check(short).is_ok());
    if is_short && !is_alias {
        let problem = format!("model: {} is a short name of no model that can be used here", quoted(model));
        notes.note(line, problem, as_parent);
        notes.unused_model(model, "a short name of no model that can be used here".to_owned(), false);
        return None;
    }
    if !reading.trusted() {
        let problem = format!("model: {} is not used until the file is trusted", quoted(model));
        notes.untrusted(line, problem);
        notes.unused_model(model, "which is not used until the file is trusted".to_owned(), false);
        return None;
    }
    let named = if is_alias { short } else { model };
    match reading.model.map_or_else(|| Ok(named.to_owned()), |check| check(named)) {
        Ok(model) => Some(model),
        Err(why) => {
            notes.problem(line, format!("model: {why}"), as_parent);
            notes.unused_model(model, format!("which cannot be used here: {why}"), true);
            None
        }
    }
}

/// A list of names of other files. `*` and `all` mean every name.
pub(super) fn references(field: Option<Field>, role: Role, notes: &mut Notes<'_>) -> Option<Vec<String>> {
    let field = field?;
    let (key, line) = (field.key.clone(), field.line);
    let names = field.names(notes)?;
    if names.len() > NAMES_MAX {
        let problem =
            format!("{key}: {} names, more than the {NAMES_MAX} accepted; the rest is omitted", names.len());
        notes.problem(line, problem, "remove some of them");
    }
    let mut all = Vec::new();
    for (name, line) in names.into_iter().take(NAMES_MAX) {
        let name = if name.eq_ignore_ascii_case("all") { EVERY.to_owned() } else { reference(&name) };
        notes.mention(role, &name, line);
        all.push(name);
    }
    Some(without_doubles(all))
}
