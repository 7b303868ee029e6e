//! Strictly checks definition and skill files, for the `validate` commands: reports every problem with file, line and
//! remedy.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use posse::discovery::{DefinitionType, Form};
use posse_definitions::{Severity, Warning};

use super::{DiscoveryResult, ReadFile, read_path, search_dirs};
use crate::Setup;
use crate::error::{Remedy, SetupError};
use crate::working_dir::working_dir;

/// The file that makes a folder a skill.
pub const SKILL_FILE: &str = "SKILL.md";

/// The result of a strict check.
#[derive(Debug)]
pub struct ValidationReport {
    /// The checked files, as messages name them.
    pub files: BTreeSet<String>,
    /// All problems and notes, by file and line.
    pub warnings: Vec<Warning>,
}

impl ValidationReport {
    /// How many of the warnings are problems.
    pub fn problems(&self) -> usize {
        self.warnings.iter().filter(|warning| warning.level == Severity::Problem).count()
    }
}

/// Checks the named files and folders, or everything that is discovered.
pub fn validate(
    paths: &[PathBuf],
    holds: DefinitionType,
    setup: &Setup,
) -> Result<ValidationReport, SetupError> {
    let dir = PathBuf::from(working_dir(None, &setup.environment.cwd)?);
    let mut found = DiscoveryResult::strictly(&dir, setup)?;
    let (files, mut warnings) = if paths.is_empty() {
        of_found(&found, holds)
    } else {
        let read = named(paths, holds, setup)?;
        // A file that is checked by name must not be compared with itself.
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
    Ok(ValidationReport { files, warnings })
}

/// All discovered files, and the warnings about them.
fn of_found(found: &DiscoveryResult, holds: DefinitionType) -> (BTreeSet<String>, Vec<Warning>) {
    let is_skill = holds == DefinitionType::Skills;
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

/// The files that a user named, and those in named folders.
fn named(paths: &[PathBuf], holds: DefinitionType, setup: &Setup) -> Result<Vec<ReadFile>, SetupError> {
    let mut all = Vec::new();
    for given in paths {
        let path = setup.environment.cwd.join(given);
        let read = |path: &Path, form, file: &Path| read_path(path, form, file.display().to_string(), setup);
        if path.symlink_metadata().is_err() {
            return Err(SetupError::usage(format!("{}: does not exist", given.display()))
                .remedy(Remedy::NameFileFor(holds)));
        }
        if holds == DefinitionType::Agents && path.join(SKILL_FILE).exists() {
            return Err(other_type(given, "the folder of a skill", DefinitionType::Skills));
        }
        if !path.is_dir() {
            all.push(read(&path, form_of(given, holds)?, given));
        } else if holds == DefinitionType::Skills && path.join(SKILL_FILE).exists() {
            all.push(read(&path.join(SKILL_FILE), Form::SkillFolder, &given.join(SKILL_FILE)));
        } else {
            let before = all.len();
            all.extend(search_dirs::files_in(&path, holds).into_iter().map(|(file, form)| {
                let shown = given.join(file.strip_prefix(&path).unwrap_or(&file));
                read(&file, form, &shown)
            }));
            if all.len() == before {
                return Err(SetupError::usage(format!(
                    "{}: there is nothing to check in it",
                    given.display()
                ))
                .remedy(Remedy::NameFileFor(holds)));
            }
        }
    }
    Ok(all)
}

fn form_of(path: &Path, holds: DefinitionType) -> Result<Form, SetupError> {
    let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
    let is_skill = path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(SKILL_FILE));
    match (holds, extension.to_str()) {
        (DefinitionType::Agents, Some("md")) if is_skill => {
            Err(other_type(path, "a SKILL.md", DefinitionType::Skills))
        }
        (DefinitionType::Agents, Some("yaml" | "yml")) => {
            Err(other_type(path, "a YAML skill", DefinitionType::Skills))
        }
        (DefinitionType::Skills, Some("md")) if !is_skill => {
            Err(other_type(path, "no SKILL.md but agent Markdown", DefinitionType::Agents))
        }
        (DefinitionType::Agents, Some("md")) => Ok(Form::Agent),
        (DefinitionType::Skills, Some("yaml" | "yml")) => Ok(Form::YamlSkill),
        (DefinitionType::Skills, Some("md")) => Ok(Form::SkillFolder),
        _ => Err(SetupError::usage(format!(
            "{}: this file contains neither an agent nor a skill",
            path.display()
        ))
        .remedy(Remedy::NameFileFor(holds))),
    }
}

fn other_type(path: &Path, kind: &str, holds: DefinitionType) -> SetupError {
    SetupError::usage(format!("{}: this is {kind}", path.display())).remedy(Remedy::CheckAs(holds))
}
