//! The strict check of definition and skill files: everything that is odd about them, with file, line and remedy.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use posse::discovery::{Form, Holds};
use posse_agent::definition::{Severity, Warning};
use serde_json::json;

use super::list::warning;
use super::{DiscoveryResult, ReadFile, read_path, search_dirs};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::launch::working_dir;
use crate::output::Output;
use crate::term;
use crate::text::plural;

/// The file that makes a folder a skill.
pub(crate) const SKILL_FILE: &str = "SKILL.md";

/// Checks the named files and folders, or everything that is found; the exit code says whether all is well.
pub(crate) fn validate(
    paths: &[PathBuf],
    holds: Holds,
    as_json: bool,
    context: &Context,
) -> Result<Exit, CliError> {
    let dir = PathBuf::from(working_dir(None, &context.environment.cwd)?);
    let mut found = DiscoveryResult::strictly(&dir, context)?;
    let (files, mut warnings) = if paths.is_empty() {
        of_found(&found, holds)
    } else {
        let read = named(paths, holds, context)?;
        // What is checked here by its name is not checked against itself.
        let own: BTreeSet<PathBuf> = read.iter().filter_map(|read| read.path.canonicalize().ok()).collect();
        let other = |path: &Path| path.canonicalize().is_ok_and(|path| !own.contains(&path));
        found.agents.retain(|entry| other(&entry.path));
        found.skills.retain(|entry| other(&entry.path));
        let files: BTreeSet<String> = read.iter().map(|read| read.file.clone()).collect();
        let mut warnings: Vec<Warning> = read.iter().flat_map(|read| read.warnings.clone()).collect();
        let crossed = found.cross_check(&read);
        warnings.extend(crossed.into_iter().filter(|warning| files.contains(&warning.file)));
        (files, warnings)
    };
    warnings.sort_by(|one, other| (&one.file, one.line).cmp(&(&other.file, other.line)));
    let problems = warnings.iter().filter(|warning| warning.level == Severity::Problem).count();
    let mut output = Output::new();
    if as_json {
        let all: Vec<_> = warnings.iter().map(warning).collect();
        output.json(&json!({"ok": problems == 0, "files": files.len(), "problems": all}))?;
    } else {
        for warning in &warnings {
            let lead = if warning.level == Severity::Note { "note: " } else { "" };
            output.own(&format!("{lead}{}\n", term::line(&warning.to_string())))?;
        }
        let count = plural(files.len() as u64, "file");
        let summary = if problems == 0 {
            format!("ok: {count}\n")
        } else {
            format!("{} in {count}\n", plural(problems as u64, "problem"))
        };
        output.own(&summary)?;
        output.flush()?;
    }
    Ok(if problems == 0 { Exit::DONE } else { Exit::FAILED })
}

/// All files that were found, and what is odd about them.
fn of_found(found: &DiscoveryResult, holds: Holds) -> (BTreeSet<String>, Vec<Warning>) {
    let is_skill = holds == Holds::Skills;
    let unusable = found.unusable.iter().filter(|unusable| unusable.is_skill == is_skill);
    let agents = found.agents.iter().map(|entry| (&entry.path, &entry.warnings, false));
    let skills = found.skills.iter().map(|entry| (&entry.path, &entry.warnings, true));
    let usable = agents.chain(skills).filter(|(_, _, skill)| *skill == is_skill);
    let usable = usable.map(|(path, warnings, _)| (found.shown.path(path), warnings));
    let all: Vec<(String, &Vec<Warning>)> =
        usable.chain(unusable.map(|unusable| (unusable.file.clone(), &unusable.warnings))).collect();
    let mut warnings: Vec<Warning> = all.iter().flat_map(|(_, warnings)| warnings.iter().cloned()).collect();
    let files: BTreeSet<String> = all.into_iter().map(|(file, _)| file).collect();
    warnings.extend(found.cross_check(&[]).into_iter().filter(|warning| files.contains(&warning.file)));
    (files, warnings)
}

/// The files that a person named, and those in folders that they named.
fn named(paths: &[PathBuf], holds: Holds, context: &Context) -> Result<Vec<ReadFile>, CliError> {
    let mut all = Vec::new();
    for given in paths {
        let path = context.environment.cwd.join(given);
        let read =
            |path: &Path, form, file: &Path| read_path(path, form, file.display().to_string(), context);
        if path.symlink_metadata().is_err() {
            return Err(
                CliError::usage(format!("{}: does not exist", given.display())).hint(what_is_checked(holds))
            );
        }
        if holds == Holds::Agents && path.join(SKILL_FILE).exists() {
            return Err(other_type(given, "the folder of a skill", "skills"));
        }
        if !path.is_dir() {
            all.push(read(&path, form_of(given, holds)?, given));
        } else if holds == Holds::Skills && path.join(SKILL_FILE).exists() {
            all.push(read(&path.join(SKILL_FILE), Form::SkillFolder, &given.join(SKILL_FILE)));
        } else {
            let before = all.len();
            all.extend(search_dirs::files_in(&path, holds).into_iter().map(|(file, form)| {
                let shown = given.join(file.strip_prefix(&path).unwrap_or(&file));
                read(&file, form, &shown)
            }));
            if all.len() == before {
                return Err(CliError::usage(format!("{}: there is nothing to check in it", given.display()))
                    .hint(what_is_checked(holds)));
            }
        }
    }
    Ok(all)
}

fn form_of(path: &Path, holds: Holds) -> Result<Form, CliError> {
    let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
    let is_skill = path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(SKILL_FILE));
    match (holds, extension.to_str()) {
        (Holds::Agents, Some("md")) if is_skill => Err(other_type(path, "a SKILL.md", "skills")),
        (Holds::Agents, Some("yaml" | "yml")) => Err(other_type(path, "a YAML skill", "skills")),
        (Holds::Skills, Some("md")) if !is_skill => {
            Err(other_type(path, "no SKILL.md but agent Markdown", "agents"))
        }
        (Holds::Agents, Some("md")) => Ok(Form::Agent),
        (Holds::Skills, Some("yaml" | "yml")) => Ok(Form::YamlSkill),
        (Holds::Skills, Some("md")) => Ok(Form::SkillFolder),
        _ => Err(CliError::usage(format!("{}: this is no file of that kind", path.display()))
            .hint(what_is_checked(holds))),
    }
}

fn other_type(path: &Path, kind: &str, verb: &str) -> CliError {
    CliError::usage(format!("{}: this is {kind}", path.display()))
        .hint(format!("use `posse {verb} validate`"))
}

fn what_is_checked(holds: Holds) -> &'static str {
    match holds {
        Holds::Agents => "name a Markdown file, or a folder of them",
        Holds::Skills => "name a SKILL.md, a folder with one, a YAML skill, or a folder of these",
    }
}
