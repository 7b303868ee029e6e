//! Reads files as definitions and skills, in the way of a run or of a strict check.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use posse::discovery::{Form, FoundFile, IgnoredFolders, read_file};
use posse::{Definition, ModelRegistry, ProviderError, Providers};
use posse_definitions::{
    DEFINITION_MAX_BYTES, Mention, ModelCheck, ParseOptions, ParsedFile, UnusedModel, Warning, read_agent,
    read_skill, read_yaml_skill,
};
use posse_domain::definition;
use posse_domain::hash::Hash;
use posse_domain::skill::Skill;

use super::{Entry, FoundPlace, Origin, PathStyle, Precedence, notes};
use crate::Setup;
use crate::error::SetupError;
use crate::models::{SCRIPTED, canonical_model};
use crate::settings::Settings;
use crate::trust::Trust;
use crate::trust_scope;

/// How files are read.
#[derive(Clone, Copy)]
pub(super) enum ReadMode<'a> {
    /// As a run does: trust is checked, and models must exist if a registry is given.
    AsRun(Option<&'a ModelRegistry>),
    /// As texts alone.
    Strictly,
}

/// The parsed content of a file.
#[derive(Debug)]
pub enum Value {
    /// The file defines an agent.
    Agent(Box<Definition>),
    /// The file defines a skill.
    Skill(Box<Skill>),
}

/// The result of reading one file.
#[derive(Debug)]
pub struct ReadFile {
    pub(super) place: usize,
    /// The path of the file.
    pub path: PathBuf,
    /// The file's name in notes and errors.
    pub file: String,
    pub(super) trusted: bool,
    /// The parsed content; `None` if the file cannot be used, and then a warning has the reason.
    pub value: Option<Value>,
    /// Problems and notes about the file.
    pub warnings: Vec<Warning>,
    pub(super) unused_model: Option<UnusedModel>,
    pub(super) mentions: Vec<Mention>,
    pub(super) is_skill: bool,
}

impl ReadFile {
    /// Converts to an entry. Its precedence is decided once all entries are known.
    pub(super) fn entry<T>(self, value: T) -> Entry<T> {
        let Self { place, path, trusted, warnings, unused_model, mentions, .. } = self;
        Entry { value, place, path, trusted, standing: Precedence::First, warnings, unused_model, mentions }
    }
}

/// The result of parsing a text.
struct ParsedText {
    value: Option<Value>,
    warnings: Vec<Warning>,
    unused_model: Option<UnusedModel>,
    mentions: Vec<Mention>,
}

/// Reads files, several in parallel.
pub(super) struct Reader<'a> {
    how: ReadMode<'a>,
    setup: &'a Setup,
    shown: &'a PathStyle,
    tools: Vec<&'static str>,
    /// Loaded for the first file of a project. Most runs have none.
    trust: OnceLock<Result<Trust, SetupError>>,
    /// Caches which folders of projects git ignores.
    ignored: IgnoredFolders,
    /// The known providers; `None` if the settings cannot be read, which is not checked here.
    providers: OnceLock<Option<Providers>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(how: ReadMode<'a>, setup: &'a Setup, shown: &'a PathStyle) -> Self {
        Self {
            how,
            setup,
            shown,
            tools: setup.tool_names(),
            trust: OnceLock::new(),
            ignored: IgnoredFolders::default(),
            providers: OnceLock::new(),
        }
    }

    /// Reads a file of this search directory.
    pub(super) fn read(&self, place: &FoundPlace, found: FoundFile) -> ReadFile {
        let FoundFile { place: number, path, real, form, content } = found;
        let trusted = match (self.how, place.origin) {
            (ReadMode::AsRun(_), Origin::Project) => self.trusts(form, &real, &content),
            _ => true,
        };
        let file = self.shown.path(&path);
        let ParsedText { mut value, warnings, unused_model, mentions } =
            self.understand(form, &path, &real, &content, &file, trusted);
        if let Some(Value::Skill(skill)) = &mut value {
            self.resolve_files(skill, place, trusted);
        }
        let is_skill = form != Form::Agent;
        ReadFile { place: number, path, file, trusted, value, warnings, unused_model, mentions, is_skill }
    }

    /// Sets the project of a skill's files. A folder that git ignores is not part of the project and not in its
    /// workspaces. Its files are unavailable to agents, unless the user trusts it; then they count as the user's own.
    fn resolve_files(&self, skill: &mut Skill, place: &FoundPlace, trusted: bool) {
        let Some(within) = &place.within else { return };
        let dir = skill.dir.as_deref().map(Path::new);
        match (dir.is_some_and(|dir| self.ignored.holds(dir, within)), trusted) {
            (true, true) => {}
            (true, false) => skill.dir = None,
            (false, _) => skill.project = within.to_str().map(str::to_owned),
        }
    }

    fn trusts(&self, form: Form, file: &Path, content: &[u8]) -> bool {
        let trust = self.trust.get_or_init(|| Trust::load(&self.setup.environment));
        let covered = || match (form, file.parent()) {
            (Form::SkillFolder, Some(folder)) => {
                trust_scope::of_skill(content, folder).ok().map(|all| all.hash)
            }
            _ => Some(Hash::of(content)),
        };
        trust.as_ref().is_ok_and(|trust| trust.holds(file, covered))
    }

    /// Checks the spelling of a model's name. A strict check needs no key.
    fn spelled(&self, name: &str) -> Result<String, String> {
        let providers = self.providers.get_or_init(|| {
            let settings = Settings::own(&self.setup.environment).ok()?;
            Some(settings.providers.providers(&self.setup.environment.variables))
        });
        let is_script = name.starts_with(SCRIPTED);
        match providers.as_ref().filter(|_| !is_script).map(|providers| providers.split(name, false)) {
            Some(Err(error)) if was_meant(&error) => Err(error.to_string()),
            _ => Ok(name.to_owned()),
        }
    }

    /// Fails if the user's trust could not be read.
    pub(super) fn finish(self) -> Result<(), SetupError> {
        self.trust.into_inner().transpose().map(drop)
    }

    fn understand(
        &self,
        form: Form,
        path: &Path,
        real: &Path,
        content: &[u8],
        file: &str,
        trusted: bool,
    ) -> ParsedText {
        let base = real.parent().unwrap_or(real);
        let check = |name: &str| match self.how {
            ReadMode::AsRun(Some(models)) => canonical_model(name, base, models),
            ReadMode::AsRun(None) => Ok(name.to_owned()),
            ReadMode::Strictly => self.spelled(name),
        };
        let check: &ModelCheck<'_> = &check;
        let reading = ParseOptions {
            file,
            known_tools: &self.tools,
            trust: if trusted { definition::Trust::Trusted } else { definition::Trust::Untrusted },
            model: Some(check),
        };
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        match form {
            Form::Agent => taken(read_agent(content, &stem, &reading), |value| Value::Agent(Box::new(value))),
            Form::YamlSkill => {
                taken(read_yaml_skill(content, &stem, &reading), |value| Value::Skill(Box::new(value)))
            }
            Form::SkillFolder => {
                let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
                let skill = read_skill(content, &folder, base.to_str(), &reading);
                taken(skill, |value| Value::Skill(Box::new(value)))
            }
        }
    }
}

/// Whether an error suggests the name that was probably meant.
fn was_meant(error: &ProviderError) -> bool {
    match error {
        ProviderError::UnknownProvider { hint, .. } | ProviderError::UnknownModel { hint, .. } => {
            !hint.is_empty()
        }
        _ => false,
    }
}

fn taken<T>(loaded: ParsedFile<T>, value: impl Fn(T) -> Value) -> ParsedText {
    let ParsedFile { value: read, warnings, unused_model, mentions } = loaded;
    ParsedText { value: read.map(value), warnings, unused_model, mentions }
}

/// Reads one file that a user named, strictly.
pub(super) fn read_path(path: &Path, form: Form, file: String, setup: &Setup) -> ReadFile {
    let shown = PathStyle::default();
    let reader = Reader::new(ReadMode::Strictly, setup, &shown);
    let read = ReadFile {
        place: usize::MAX,
        path: path.to_owned(),
        file,
        trusted: true,
        value: None,
        warnings: Vec::new(),
        unused_model: None,
        mentions: Vec::new(),
        is_skill: form != Form::Agent,
    };
    match read_file(path, DEFINITION_MAX_BYTES) {
        Err(why) => ReadFile { warnings: vec![notes::skipped(&read.file, &why)], ..read },
        Ok(bytes) => {
            let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            let ParsedText { value, warnings, unused_model, mentions } =
                reader.understand(form, path, &whole, &bytes, &read.file, true);
            ReadFile { value, warnings, unused_model, mentions, ..read }
        }
    }
}
