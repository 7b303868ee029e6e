//! Lists the directories that are searched for definitions and skills, and shortens paths for messages.

use std::path::{Path, PathBuf};

use posse::discovery::{DefinitionType, Form, SearchDir, discover};
use posse_definitions::DEFINITION_MAX_BYTES;
use serde::Serialize;

use crate::environment::Environment;
use crate::project_dirs::{HOME_AGENTS, HOME_SKILLS, project_dirs, project_places};

/// The folders beside the user's settings.
const OWN_AGENTS: &str = "agents";
const OWN_SKILLS: &str = "skills";

/// Who provides a definition or skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The project, whose author may be another user.
    Project,
    /// The user.
    User,
    /// Posse itself.
    BuiltIn,
}

impl Origin {
    /// The word that users read.
    pub fn words(self) -> &'static str {
        match self {
            Origin::Project => "project",
            Origin::User => "user",
            Origin::BuiltIn => "built in",
        }
    }
}

/// A directory that was searched.
#[derive(Debug)]
pub struct FoundPlace {
    /// The path of the directory.
    pub dir: PathBuf,
    /// Who provides its files.
    pub origin: Origin,
    holds: DefinitionType,
    /// The project that contains it, if any.
    pub(super) within: Option<PathBuf>,
}

impl FoundPlace {
    fn new(SearchDir { dir, holds, within }: SearchDir, origin: Origin) -> Self {
        Self { dir, origin, holds, within }
    }

    /// The directory as discovery searches it.
    pub(super) fn search_dirs(&self) -> SearchDir {
        SearchDir { dir: self.dir.clone(), holds: self.holds, within: self.within.clone() }
    }
}

/// All search directories for a run in `dir`, in falling precedence: the project's from `dir` up to its root, then the
/// user's.
pub(super) fn of(dir: &Path, environment: &Environment) -> Vec<FoundPlace> {
    let home = environment.home.as_deref();
    let of_project = project_places(&project_dirs(dir, home));
    let mut places: Vec<FoundPlace> =
        of_project.into_iter().map(|place| FoundPlace::new(place, Origin::Project)).collect();
    let own = environment.settings_file.as_deref().and_then(Path::parent);
    let own = own.into_iter().flat_map(|dir| {
        [(dir.join(OWN_AGENTS), DefinitionType::Agents), (dir.join(OWN_SKILLS), DefinitionType::Skills)]
    });
    let in_home = home.into_iter().flat_map(|home| {
        let agents = HOME_AGENTS.iter().map(|folder| (home.join(folder), DefinitionType::Agents));
        agents.chain(HOME_SKILLS.iter().map(|folder| (home.join(folder), DefinitionType::Skills)))
    });
    let of_person = own.chain(in_home).map(|(dir, holds)| SearchDir { dir, holds, within: None });
    places.extend(of_person.map(|place| FoundPlace::new(place, Origin::User)));
    places
}

/// The files in a folder that a user named, including unreadable ones: reading them reports why.
pub(super) fn files_in(dir: &Path, holds: DefinitionType) -> Vec<(PathBuf, Form)> {
    let place = SearchDir { dir: dir.to_owned(), holds, within: None };
    let found = discover(&[place], DEFINITION_MAX_BYTES, |file| (file.path, file.form));
    let form = if holds == DefinitionType::Agents { Form::Agent } else { Form::SkillFolder };
    let unread = found.skipped.into_iter().map(|skipped| (skipped.path, form));
    found.found.into_iter().chain(unread).collect()
}

/// Shows paths in a short form, relative to the run's directory or the user's home.
#[derive(Debug, Default)]
pub struct PathStyle {
    dir: PathBuf,
    home: Option<PathBuf>,
}

impl PathStyle {
    /// For a run in `dir`.
    pub(super) fn new(dir: &Path, home: Option<&Path>) -> Self {
        Self { dir: dir.to_owned(), home: home.map(Path::to_owned) }
    }

    /// The short form of a path.
    pub fn path(&self, path: &Path) -> String {
        if let Some(beneath) = beneath(path, &self.dir) {
            return beneath.display().to_string();
        }
        match self.home.as_deref().and_then(|home| beneath(path, home)) {
            Some(beneath) => format!("~/{}", beneath.display()),
            None => path.display().to_string(),
        }
    }
}

fn beneath<'a>(path: &'a Path, dir: &Path) -> Option<&'a Path> {
    path.strip_prefix(dir)
        .ok()
        .filter(|beneath| !beneath.as_os_str().is_empty() && !dir.as_os_str().is_empty())
}
