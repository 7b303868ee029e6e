//! Files become definitions and skills, as a run would take them or as a strict check does.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use posse::discovery::{Form, FoundFile, IgnoredFolders, read_file};
use posse::{Decision, Definition, ModelRegistry, ProviderError, Providers};
use posse_agent::definition::{
    DEFINITION_MAX_BYTES, Mention, ModelCheck, ParseOptions, ParsedFile, UnusedModel, Warning, read_agent,
    read_skill, read_yaml_skill,
};
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
    /// As a run takes them: what is trusted is told apart, and models have to be there if they are given.
    AsRun(Option<&'a ModelRegistry>),
    /// As texts alone.
    Strictly,
}

/// What a file turned out to be.
#[derive(Debug)]
pub enum Value {
    /// A definition.
    Agent(Box<Definition>),
    /// A skill.
    Skill(Box<Skill>),
}

/// What came of a file.
#[derive(Debug)]
pub struct ReadFile {
    pub(super) place: usize,
    /// Where it is.
    pub path: PathBuf,
    /// What people are told it is called.
    pub file: String,
    pub(super) trusted: bool,
    /// What it says; none if it cannot be used, and then a warning says why.
    pub value: Option<Value>,
    /// What is odd about it.
    pub warnings: Vec<Warning>,
    pub(super) unused_model: Option<UnusedModel>,
    pub(super) mentions: Vec<Mention>,
    pub(super) is_skill: bool,
}

impl ReadFile {
    /// It as something that was found; what becomes of it is decided once all are.
    pub(super) fn entry<T>(self, value: T) -> Entry<T> {
        let Self { place, path, trusted, warnings, unused_model, mentions, .. } = self;
        Entry { value, place, path, trusted, standing: Precedence::Counts, warnings, unused_model, mentions }
    }
}

/// What a text says.
struct Understood {
    value: Option<Value>,
    warnings: Vec<Warning>,
    unused_model: Option<UnusedModel>,
    mentions: Vec<Mention>,
}

/// Reads files, several at once.
pub(super) struct Reader<'a> {
    how: ReadMode<'a>,
    setup: &'a Setup,
    shown: &'a PathStyle,
    tools: Vec<&'static str>,
    /// Looked up when the first file of a project is met; most runs meet none.
    trust: OnceLock<Result<Trust, SetupError>>,
    /// The folders of projects that git ignores.
    ignored: IgnoredFolders,
    /// Who has models; none if the settings cannot be read, which is not what is checked.
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

    /// What a file of this place says.
    pub(super) fn read(&self, place: &FoundPlace, found: FoundFile) -> ReadFile {
        let FoundFile { place: number, path, real, form, content } = found;
        let trusted = match (self.how, place.origin) {
            (ReadMode::AsRun(_), Origin::Project) => self.trusts(form, &real, &content),
            _ => true,
        };
        let file = self.shown.path(&path);
        let Understood { mut value, warnings, unused_model, mentions } =
            self.understand(form, &path, &real, &content, &file, trusted);
        if let Some(Value::Skill(skill)) = &mut value {
            self.resolve_files(skill, place, trusted);
        }
        let is_skill = form != Form::Agent;
        ReadFile { place: number, path, file, trusted, value, warnings, unused_model, mentions, is_skill }
    }

    /// Whose the files of a skill are. A folder that git ignores is no part of the project, and not in its workspaces: it has
    /// no files for agents, unless the person trusts it; then they are like the person's own.
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

    /// The name of a model, unless another was meant: where the text is judged alone, no key has to be there.
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

    /// Whether it could be found out what the person trusts.
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
    ) -> Understood {
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
            default: if trusted { Decision::Allow } else { Decision::Ask },
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

/// Whether an error knows the name that was probably meant.
fn was_meant(error: &ProviderError) -> bool {
    match error {
        ProviderError::UnknownProvider { hint, .. } | ProviderError::UnknownModel { hint, .. } => {
            !hint.is_empty()
        }
        _ => false,
    }
}

fn taken<T>(loaded: ParsedFile<T>, value: impl Fn(T) -> Value) -> Understood {
    let ParsedFile { value: read, warnings, unused_model, mentions } = loaded;
    Understood { value: read.map(value), warnings, unused_model, mentions }
}

/// Reads one file that a person named, strictly.
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
        Err(why) => ReadFile { warnings: vec![notes::passed_over(&read.file, &why)], ..read },
        Ok(bytes) => {
            let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            let Understood { value, warnings, unused_model, mentions } =
                reader.understand(form, path, &whole, &bytes, &read.file, true);
            ReadFile { value, warnings, unused_model, mentions, ..read }
        }
    }
}
