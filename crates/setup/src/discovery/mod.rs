//! Discovers the definitions and skills on the machine for a run: searches directories, reads files, and resolves equal
//! names.
//!
//! Discovery happens when a run starts. What the run can reach is stored in its journal, so later changes to the files
//! do not affect the run.

mod detail;
mod list;
mod notes;
mod precedence;
mod reachable;
mod read_files;
mod search_dirs;
mod skill_call;
mod validate;

use std::path::{Path, PathBuf};

use posse::discovery;
use posse::{Definition, ModelRegistry};
use posse_definitions::{
    CheckedFile, CheckedType, DEFINITION_MAX_BYTES, Mention, builtin_names, cross_check,
};
use posse_domain::definition::Mode;
use posse_domain::printable as term;
use posse_domain::skill::Skill;

pub use detail::{ResolvedAgent, ResolvedSkill, skill_ruling};
pub use list::{DefinitionList, ListItem};
pub use posse_definitions::{Severity, UnusedModel, Warning};
pub use precedence::Precedence;
pub use reachable::{SkillFolder, folders_outside, reaches_skills};
pub use read_files::{ReadFile, Value};
use read_files::{ReadMode, read_path};
pub use search_dirs::{FoundPlace, Origin, PathStyle};
pub use skill_call::{SkillCall, named_skill};
pub use validate::{SKILL_FILE, ValidationReport, validate};

use crate::Setup;
use crate::error::SetupError;
use crate::notes::{Note, WithNotes};
use crate::project_dirs::{AGENTS_MD, FILE_MAX_BYTES, project_dirs};
use crate::working_dir::working_dir;

/// A discovered definition or skill.
#[derive(Debug)]
pub struct Entry<T> {
    /// The parsed definition or skill.
    pub value: T,
    /// The index of its directory in [`DiscoveryResult::places`].
    pub place: usize,
    /// The path of its file.
    pub path: PathBuf,
    /// Whether the user trusts it: it is the user's own file, or they trusted its content.
    pub trusted: bool,
    /// Whether its name refers to it, or another entry comes first.
    pub standing: Precedence,
    /// Problems and notes about its file.
    pub warnings: Vec<Warning>,
    /// Set if it names a model that cannot be used.
    pub unused_model: Option<UnusedModel>,
    mentions: Vec<Mention>,
}

impl<T> Entry<T> {
    /// Whether its name refers to this entry.
    pub fn is_first(&self) -> bool {
        self.standing == Precedence::First
    }

    /// Whether its file has a problem, and not only notes.
    pub fn has_problem(&self) -> bool {
        self.warnings.iter().any(|warning| warning.level == Severity::Problem)
    }
}

/// A file that cannot be used.
#[derive(Debug)]
pub struct Unusable {
    /// The file, as notes and errors name it.
    pub file: String,
    /// The reasons; never empty.
    pub warnings: Vec<Warning>,
    /// Whether it is in a directory for skills.
    pub is_skill: bool,
}

impl Unusable {
    /// Whether the file has a problem. A file that its author disabled has none.
    pub fn is_wrong(&self) -> bool {
        self.warnings.iter().any(|warning| warning.level == Severity::Problem)
    }

    /// The name that it would have by default, from its path.
    fn name(&self) -> Option<&str> {
        let path = Path::new(&self.file);
        let stem = path.file_stem()?;
        let is_folder = self.is_skill && stem.eq_ignore_ascii_case("skill");
        if is_folder { path.parent()?.file_name()?.to_str() } else { stem.to_str() }
    }
}

/// All results of a discovery.
#[derive(Debug, Default)]
pub struct DiscoveryResult {
    /// The searched directories, in falling precedence.
    pub places: Vec<FoundPlace>,
    /// Definitions, by search directory and path.
    pub agents: Vec<Entry<Definition>>,
    /// Skills, by search directory and path.
    pub skills: Vec<Entry<Skill>>,
    /// Files that cannot be used.
    pub unusable: Vec<Unusable>,
    /// How paths are shown in messages.
    pub shown: PathStyle,
}

impl DiscoveryResult {
    /// Discovers what a run in `dir`, an absolute path, can use. With `models`, a definition whose model cannot be used
    /// gets none.
    pub fn load(dir: &Path, models: Option<&ModelRegistry>, setup: &Setup) -> Result<Self, SetupError> {
        Self::discover(dir, ReadMode::AsRun(models), setup)
    }

    /// Like [`DiscoveryResult::load`], but treats every file as trusted, to check the texts alone.
    pub fn strictly(dir: &Path, setup: &Setup) -> Result<Self, SetupError> {
        Self::discover(dir, ReadMode::Strictly, setup)
    }

    fn discover(dir: &Path, how: ReadMode<'_>, setup: &Setup) -> Result<Self, SetupError> {
        let mut found = Self {
            places: search_dirs::of(dir, &setup.environment),
            shown: PathStyle::new(dir, setup.environment.home.as_deref()),
            ..Self::default()
        };
        let places: Vec<discovery::SearchDir> = found.places.iter().map(FoundPlace::search_dirs).collect();
        let reader = read_files::Reader::new(how, setup, &found.shown);
        let discovered = discovery::discover(&places, DEFINITION_MAX_BYTES, |file| {
            reader.read(&found.places[file.place], file)
        });
        reader.finish()?;
        for skipped in discovered.skipped {
            let is_skill = places[skipped.place].holds == discovery::DefinitionType::Skills;
            let file = found.shown.path(&skipped.path);
            let warnings = vec![notes::skipped(&file, &skipped.why)];
            found.unusable.push(Unusable { file, warnings, is_skill });
        }
        for read in discovered.found {
            found.take(read);
        }
        precedence::rank(&mut found.agents, &builtin_names());
        precedence::rank(&mut found.skills, &[]);
        Ok(found)
    }

    /// Adds the result of one file.
    fn take(&mut self, mut read: ReadFile) {
        match read.value.take() {
            Some(Value::Agent(value)) => self.agents.push(read.entry(*value)),
            Some(Value::Skill(value)) => self.skills.push(read.entry(*value)),
            None => {
                let ReadFile { file, warnings, is_skill, .. } = read;
                self.unusable.push(Unusable { file, warnings, is_skill });
            }
        }
    }

    /// Checks the names by which files refer to each other.
    pub fn cross_check(&self, more: &[ReadFile]) -> Vec<Warning> {
        let files: Vec<(String, &Path)> = self.entries().collect();
        let more_files = more.iter().filter_map(|read| Some((read, read.value.as_ref()?)));
        let dirs: Vec<String> = self.places.iter().map(|place| place.dir.display().to_string()).collect();
        let agents = self
            .agents
            .iter()
            .map(|entry| (kind(&entry.value), &entry.value.name, &entry.mentions, entry.place));
        let skills = self
            .skills
            .iter()
            .map(|entry| (CheckedType::Skill, &entry.value.name, &entry.mentions, entry.place));
        let found = agents.chain(skills).zip(&files).map(|((kind, name, mentions, place), (file, _))| {
            CheckedFile { file, place: &dirs[place], kind, name, mentions }
        });
        let parents: Vec<String> = more_files
            .clone()
            .map(|(read, _)| read.path.parent().unwrap_or(&read.path).display().to_string())
            .collect();
        let named = more_files.zip(&parents).map(|((read, value), place)| {
            let (kind, name) = match value {
                Value::Agent(value) => (kind(value), &value.name),
                Value::Skill(value) => (CheckedType::Skill, &value.name),
            };
            CheckedFile { file: &read.file, place, kind, name, mentions: &read.mentions }
        });
        cross_check(&found.chain(named).collect::<Vec<_>>())
    }

    /// The files of all entries, agents first.
    fn entries(&self) -> impl Iterator<Item = (String, &Path)> {
        let agents = self.agents.iter().map(|entry| entry.path.as_path());
        let paths = agents.chain(self.skills.iter().map(|entry| entry.path.as_path()));
        paths.map(|path| (self.shown.path(path), path))
    }

    /// Why no usable entry has this name although a file for it exists.
    pub fn why_unusable(&self, name: &str, holds: discovery::DefinitionType) -> Option<String> {
        let is_skill = holds == discovery::DefinitionType::Skills;
        let mut all = self.unusable.iter().filter(|unusable| unusable.is_skill == is_skill);
        let of_name = all.find(|one| one.name().is_some_and(|own| own.eq_ignore_ascii_case(name)))?;
        let why = of_name.warnings.iter().max_by_key(|warning| warning.level)?;
        Some(term::line(&format!("`{name}` cannot be used: {why}")))
    }

    /// Who provides the files of a search directory.
    pub fn origin(&self, place: usize) -> Origin {
        self.places[place].origin
    }
}

fn kind(definition: &Definition) -> CheckedType {
    if definition.mode == Mode::Primary { CheckedType::Primary } else { CheckedType::Definition }
}

/// The text of the project's `AGENTS.md` nearest to `dir`. A note names a file that cannot be used.
pub fn agents_md(dir: Option<&PathBuf>, setup: &Setup) -> Result<WithNotes<Option<String>>, SetupError> {
    let WithNotes { value, notes } = nearest_agents_md(dir, setup)?;
    Ok(WithNotes::new(value.map(|found| found.text), notes))
}

/// The path of that file.
pub fn agents_md_file(
    dir: Option<&PathBuf>,
    setup: &Setup,
) -> Result<WithNotes<Option<PathBuf>>, SetupError> {
    let WithNotes { value, notes } = nearest_agents_md(dir, setup)?;
    Ok(WithNotes::new(value.map(|found| found.path), notes))
}

fn nearest_agents_md(
    dir: Option<&PathBuf>,
    setup: &Setup,
) -> Result<WithNotes<Option<discovery::Instructions>>, SetupError> {
    let dir = PathBuf::from(working_dir(dir.cloned(), &setup.environment.cwd)?);
    let home = setup.environment.home.as_deref();
    let dirs = project_dirs(&dir, home);
    let root = dirs.last().unwrap_or(&dir);
    Ok(match discovery::nearest_file(&dir, root, AGENTS_MD, FILE_MAX_BYTES) {
        Ok(found) => WithNotes::silent(found.filter(|found| !found.text.trim().is_empty())),
        Err(skipped) => {
            let file = PathStyle::new(&dir, home).path(&skipped.path);
            WithNotes::noted(None, Note::info(format!("{file}: {}", skipped.why)))
        }
    })
}
