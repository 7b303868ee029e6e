//! Files in the style of public collections. Beside each is its expected parse result: `code-reviewer.md.read`.
//!
//! If a parser changes on purpose, this test writes the new results beneath the target directory and reports the path.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use posse_definitions::{Severity, Warning, read_agent, read_skill, read_yaml_skill};
use posse_domain::definition::{Definition, Trust};
use posse_domain::permission::Rule;
use posse_domain::skill::Skill;

use crate::promises;
use crate::styles::every_tool;

/// Minimum number of files, because a walk that finds none would pass.
const FILES_MIN: usize = 30;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/files")
}

/// All files except the expected results, in order.
fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            walk(&path, files);
        } else if path.extension().is_none_or(|ending| ending != "read") {
            files.push(path);
        }
    }
}

fn read(path: &Path) -> String {
    let bytes = fs::read(path).unwrap();
    promises::kept(&bytes);
    let name = path.strip_prefix(corpus()).unwrap().to_str().unwrap();
    let stem = path.file_stem().unwrap().to_str().unwrap();
    let reading = promises::reading(name, Trust::Trusted);
    if stem == "SKILL" {
        let folder = path.parent().and_then(Path::file_name).unwrap().to_str().unwrap();
        let loaded = read_skill(&bytes, folder, None, &reading);
        return told(loaded.value.as_ref().map(skill), &loaded.warnings);
    }
    if path.extension().is_some_and(|ending| ending == "yaml") {
        let loaded = read_yaml_skill(&bytes, stem, &reading);
        return told(loaded.value.as_ref().map(skill), &loaded.warnings);
    }
    let loaded = read_agent(&bytes, stem, &reading);
    told(loaded.value.as_ref().map(definition), &loaded.warnings)
}

fn told(value: Option<String>, warnings: &[Warning]) -> String {
    let mut text = value.unwrap_or_else(|| "not read\n".to_owned());
    for warning in warnings {
        let level = if warning.level == Severity::Note { "note" } else { "problem" };
        let _ = writeln!(text, "{level} {warning}");
    }
    text
}

/// The parsed fields, one per line. Absent fields are omitted.
fn lines(said: &[(&str, Option<String>)]) -> String {
    let mut text = String::new();
    for (key, value) in said {
        if let Some(value) = value {
            let _ = writeln!(text, "{key}: {}", value.replace('\n', "\\n"));
        }
    }
    text
}

fn list(names: &[String]) -> String {
    names.join(" ")
}

fn rules(rules: &[Rule]) -> Option<String> {
    (!rules.is_empty()).then(|| rules.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

fn yes(value: bool) -> Option<String> {
    value.then(|| "yes".to_owned())
}

fn definition(read: &Definition) -> String {
    lines(&[
        ("name", Some(read.name.clone())),
        ("description", Some(read.description.clone())),
        ("prompt", Some(read.prompt.to_string())),
        ("tools", Some(if read.tools == every_tool() { "every".to_owned() } else { list(&read.tools) })),
        ("rules", rules(&read.rules)),
        ("spawns", read.spawns.as_deref().map(list)),
        ("skills", read.skills.as_deref().map(list)),
        ("model", read.model.clone()),
        ("max_turns", read.max_turns.map(|turns| turns.to_string())),
        ("temperature", read.temperature.map(|number| number.to_string())),
        ("top_p", read.top_p.map(|number| number.to_string())),
        ("mode", Some(format!("{:?}", read.mode))),
        ("parallel", read.parallel.map(|number| number.to_string())),
        ("background", yes(read.background)),
        ("may_share_history", yes(read.may_share_history)),
    ])
}

fn skill(read: &Skill) -> String {
    lines(&[
        ("name", Some(read.name.clone())),
        ("description", Some(read.description.clone())),
        ("instructions", Some(read.instructions.to_string())),
        ("fork", yes(read.fork)),
        ("agent", read.agent.clone()),
        ("tools", read.tools.as_deref().map(list)),
        ("rules", rules(&read.rules)),
        ("sub_agents", read.sub_agents.as_deref().map(list)),
        ("model", read.model.clone()),
        ("temperature", read.temperature.map(|number| number.to_string())),
        ("max_iterations", read.max_iterations.map(|number| number.to_string())),
        ("max_depth", read.max_depth.map(|number| number.to_string())),
        ("max_retries_per_tool", read.max_retries_per_tool.map(|number| number.to_string())),
        ("turn_timeout_ms", read.turn_timeout_ms.map(|number| number.to_string())),
        ("include_sub_agent_events", yes(read.include_sub_agent_events)),
        ("not for models", yes(!read.for_models)),
        ("not for people", yes(!read.for_people)),
        ("argument_hint", read.argument_hint.clone()),
        ("background", yes(read.background)),
    ])
}

#[test]
fn every_file_is_read_as_is_said_beside_it() {
    let mut files = Vec::new();
    walk(&corpus(), &mut files);
    assert!(files.len() >= FILES_MIN, "{} files", files.len());
    let left = Path::new(env!("CARGO_TARGET_TMPDIR")).join("corpus");
    let mut wrong = Vec::new();
    for path in &files {
        let found = read(path);
        let beside = PathBuf::from(format!("{}.read", path.display()));
        let expected = fs::read_to_string(&beside).unwrap_or_default();
        if found != expected {
            let new = left.join(beside.strip_prefix(corpus()).unwrap());
            fs::create_dir_all(new.parent().unwrap()).unwrap();
            fs::write(&new, &found).unwrap();
            wrong.push(format!("{}\nexpected:\n{expected}\nfound:\n{found}", path.display()));
        }
    }
    let count = wrong.len();
    assert!(
        wrong.is_empty(),
        "{count} are not as expected:\n\n{}\n\nfound ones are in {}",
        wrong.join("\n"),
        left.display()
    );
}
