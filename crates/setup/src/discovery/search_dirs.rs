//! Where definitions and skills are looked for, and how their paths are shown.

use std::path::{Path, PathBuf};

use posse::discovery::{Form, Holds, SearchDir, discover};
use posse_agent::definition::DEFINITION_MAX_BYTES;
use serde::Serialize;

use crate::environment::Environment;
use crate::project_dirs::{HOME_AGENTS, HOME_SKILLS, project_dirs, project_places};

/// The folders beside the person's settings.
const OWN_AGENTS: &str = "agents";
const OWN_SKILLS: &str = "skills";

/// Whose something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The project's: somebody else may have written it.
    Project,
    /// The person's own.
    User,
    /// Part of Posse.
    BuiltIn,
}

impl Origin {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Origin::Project => "project",
            Origin::User => "user",
            Origin::BuiltIn => "built in",
        }
    }
}

/// A directory that was looked in.
#[derive(Debug)]
pub struct FoundPlace {
    /// The directory.
    pub dir: PathBuf,
    /// Whose it is.
    pub origin: Origin,
    holds: Holds,
    /// The project that it belongs to, if it is one's.
    pub(super) within: Option<PathBuf>,
}

impl FoundPlace {
    fn new(SearchDir { dir, holds, within }: SearchDir, origin: Origin) -> Self {
        Self { dir, origin, holds, within }
    }

    /// What the host looks in.
    pub(super) fn search_dirs(&self) -> SearchDir {
        SearchDir { dir: self.dir.clone(), holds: self.holds, within: self.within.clone() }
    }
}

/// All places for a run in `dir`, in falling precedence: the project's from `dir` up to its root, then the person's.
pub(super) fn of(dir: &Path, environment: &Environment) -> Vec<FoundPlace> {
    let home = environment.home.as_deref();
    let of_project = project_places(&project_dirs(dir, home));
    let mut places: Vec<FoundPlace> =
        of_project.into_iter().map(|place| FoundPlace::new(place, Origin::Project)).collect();
    let own = environment.settings_file.as_deref().and_then(Path::parent);
    let own = own
        .into_iter()
        .flat_map(|dir| [(dir.join(OWN_AGENTS), Holds::Agents), (dir.join(OWN_SKILLS), Holds::Skills)]);
    let in_home = home.into_iter().flat_map(|home| {
        let agents = HOME_AGENTS.iter().map(|folder| (home.join(folder), Holds::Agents));
        agents.chain(HOME_SKILLS.iter().map(|folder| (home.join(folder), Holds::Skills)))
    });
    let of_person = own.chain(in_home).map(|(dir, holds)| SearchDir { dir, holds, within: None });
    places.extend(of_person.map(|place| FoundPlace::new(place, Origin::User)));
    places
}

/// The files in a folder that a person named, those included that cannot be read: whoever reads them is told why.
pub(super) fn files_in(dir: &Path, holds: Holds) -> Vec<(PathBuf, Form)> {
    let place = SearchDir { dir: dir.to_owned(), holds, within: None };
    let found = discover(&[place], DEFINITION_MAX_BYTES, |file| (file.path, file.form));
    let form = if holds == Holds::Agents { Form::Agent } else { Form::SkillFolder };
    let unread = found.passed_over.into_iter().map(|passed| (passed.path, form));
    found.found.into_iter().chain(unread).collect()
}

/// How paths are shown: short, from where the run works or from the person's home.
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

    /// A path, short.
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
