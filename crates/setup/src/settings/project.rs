//! A project's settings: every `.posse/settings.yaml` from the directory of the run up to the root of the repository.
//!
//! Whoever wrote the project wrote these files, so they may only narrow, and each of them does: none hides another. What
//! could run code, widen a grant or spend more counts once the person trusts exactly this content, and what says where
//! keys and data go never does. A file with mistakes keeps nobody from working: until it is trusted, it is said and
//! ignored.
//!
//! Why it is like this: `docs/decisions/trust-project-settings.md`.

use std::path::{Path, PathBuf};

use posse::{DEFAULT_MAX_AGENTS, DEFAULT_PARALLEL, OnAsk};
use posse_domain::budget::{DEFAULT_BASE_TURNS, DEFAULT_MAX_DEPTH, DEFAULT_MAX_ORCHESTRATION_DEPTH};
use posse_domain::contract::DEFAULT_IDLE_TIMEOUT_MS;
use posse_domain::hash::Hash;

use super::entries::Entry;
use super::keys::{self, InProject, in_project};
use super::{Origin, Settings, WithOrigin, file};
use crate::Setup;
use crate::error::SetupError;
use crate::hooks::ReachedFiles;
use crate::limit::LimitAmount;
use crate::notes::Notes;
use crate::project_dirs;
use crate::trust::{Trust, TrustState};
use crate::trust_scope;

/// Most warnings about keys that never count; a project may write any number of them.
const WARNINGS_MAX: usize = 10;
/// Milliseconds of a second.
const SECOND_MS: u64 = 1_000;

/// A project's settings file.
#[derive(Debug)]
pub struct ProjectFile {
    /// Its canonical path.
    pub path: PathBuf,
    /// How it stands with the person.
    pub standing: TrustState,
    /// The hash of what trust in it covers; none if that cannot be read.
    pub hash: Option<Hash>,
    /// The scripts of the project that count with it, in a line.
    pub further: Option<String>,
    /// Commands in it that may run files that do not count with it, each with the reason.
    pub undetermined: Vec<String>,
    /// What it says, or what is wrong with it.
    pub said: Result<Settings, SetupError>,
}

impl ProjectFile {
    /// The settings files of the project that a directory is in, the nearest first.
    pub fn find(setup: &Setup, dir: &Path) -> Result<Vec<Self>, SetupError> {
        let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        let dirs = project_dirs::project_dirs(&dir, setup.environment.home.as_deref());
        let having: Vec<&PathBuf> = dirs.iter().filter(|dir| Self::is_in(dir)).collect();
        let (Some(root), false) = (dirs.last(), having.is_empty()) else { return Ok(Vec::new()) };
        let trust = Trust::load(&setup.environment)?;
        let mut files: Vec<Self> = Vec::new();
        for dir in having {
            let file = Self::read(dir, root, &trust);
            // One may be a link to another, and its hooks are to run once.
            if files.iter().all(|known| known.path != file.path) {
                files.push(file);
            }
        }
        Ok(files)
    }

    /// Whether a directory has one.
    pub fn is_in(dir: &Path) -> bool {
        dir.join(project_dirs::PROJECT_SETTINGS).symlink_metadata().is_ok()
    }

    /// That of a directory of the project with this root.
    pub fn read(dir: &Path, root: &Path, trust: &Trust) -> Self {
        let path = dir.join(project_dirs::PROJECT_SETTINGS);
        let path = path.canonicalize().unwrap_or(path);
        // A link to a file of the person's would have its lines shown as mistakes of this one.
        let read = if path.starts_with(root) {
            project_dirs::read(&path)
        } else {
            Err("it leads out of the project".to_owned())
        };
        match read {
            Ok(bytes) => {
                let bytes = bytes.unwrap_or_default();
                let said = file::parse_bytes(bytes.clone(), &path);
                let commands = said.as_ref().map(Settings::commands).unwrap_or_default();
                let ReachedFiles { files, undetermined } =
                    crate::hooks::reached(&commands, &[dir, root], root);
                match trust_scope::of_settings(&bytes, &files, root) {
                    Ok(covered) => {
                        let standing = trust.standing(&path, Some(covered.hash));
                        let (hash, further) = (Some(covered.hash), covered.line());
                        Self { path, standing, hash, further, undetermined, said }
                    }
                    Err(problem) => Self::unusable(path, &format!("a script that it names: {problem}")),
                }
            }
            Err(problem) => Self::unusable(path, &problem),
        }
    }

    fn unusable(path: PathBuf, problem: &str) -> Self {
        let said = Err(file::unreadable(&path, problem));
        Self { path, standing: TrustState::New, hash: None, further: None, undetermined: Vec::new(), said }
    }

    /// Whether the person trusts it as it is.
    pub fn is_trusted(&self) -> bool {
        self.standing == TrustState::Trusted
    }

    /// Whether something was written in it.
    pub fn has(&self, origin: &Origin) -> bool {
        matches!(origin, Origin::File { path, .. } if *path == self.path)
    }

    /// What counts for a key, if one of these files says it.
    fn counting_of<'a>(files: &[Self], key: &str, counting: &'a [Entry]) -> Option<&'a Origin> {
        let winner = counting.iter().find(|other| other.key == key)?;
        files.iter().any(|file| file.has(&winner.origin)).then_some(&winner.origin)
    }

    /// Why something that the file says does not count.
    pub fn why_not(&self, key: &str, counting: &[Entry], files: &[Self]) -> String {
        let class = in_project(key);
        let other = Self::counting_of(files, key, counting);
        let why = match (class, other) {
            (InProject::Never, _) => NEVER,
            (InProject::Lowers | InProject::Narrows, Some(other)) => {
                return format!("{other} counts before it");
            }
            (_, Some(other)) if self.is_trusted() => return format!("{other} counts before it"),
            (InProject::Lowers, _) => "a project may only lower it",
            _ if self.standing == TrustState::Changed => {
                "the file has changed since you trusted it: `posse trust`"
            }
            _ if !self.is_trusted() => "counts once you trust the file: `posse trust`",
            _ => "yours counts before it",
        };
        why.to_owned()
    }

    /// What it says that would count if the person trusted it.
    fn waiting(&self, counting: &[Entry], files: &[Self]) -> Vec<String> {
        let said = self.said.as_ref().map(Settings::entries).unwrap_or_default();
        let mut waiting = Vec::new();
        for entry in said.into_iter().filter(|entry| !self.is_trusted() && !counts(entry, counting)) {
            let waits = match in_project(&entry.key) {
                InProject::Trusted => true,
                // A smaller limit of another file would count all the same.
                InProject::Narrows => Self::counting_of(files, &entry.key, counting).is_none(),
                InProject::Lowers | InProject::Never => false,
            };
            if waits && !waiting.contains(&entry.key) {
                waiting.push(entry.key);
            }
        }
        waiting
    }
}

/// The person's settings with what the files of a project may say put in, and what a person should know about the rest.
/// The nearest file is the first.
pub(super) fn put_between(
    files: &[ProjectFile],
    variables: Settings,
    own: Settings,
) -> Result<(Settings, Notes), SetupError> {
    let mut notes = Notes::none();
    let mut said = Vec::new();
    for file in files {
        match &file.said {
            Ok(settings) => said.push((settings, file.is_trusted())),
            Err(error) if file.is_trusted() => return Err(error.clone()),
            Err(error) => notes.push(format!("warning: {}; the file is ignored", error.message())),
        }
    }
    let settings = Settings::layered(variables, own, &said);
    notes.extend(said.iter().flat_map(|(said, _)| said.entries()).filter_map(|entry| {
        let never = in_project(&entry.key) == InProject::Never;
        never.then(|| format!("warning: {}: {} is ignored: {NEVER}", entry.origin, entry.key))
    }));
    if let Some(more) = notes.len().checked_sub(WARNINGS_MAX).filter(|more| *more > 0) {
        notes.truncate(WARNINGS_MAX);
        notes.push(format!("warning: {more} more are ignored; `posse settings` shows them"));
    }
    let counting = settings.entries();
    for file in files {
        let waiting = file.waiting(&counting, files);
        if !waiting.is_empty() {
            let standing = match file.standing {
                TrustState::Changed => "has changed since you trusted it",
                _ => "is not trusted",
            };
            notes.push(format!(
                "note: {} {standing}, so these do not count: {}; `posse trust` shows them",
                file.path.display(),
                waiting.join(", "),
            ));
        }
    }
    Ok((settings, notes))
}

/// Why some keys of a project never count.
const NEVER: &str = "a project cannot say it, only your own settings can";

/// Whether an entry is among those that count.
pub fn counts(entry: &Entry, counting: &[Entry]) -> bool {
    counting.iter().any(|other| other.key == entry.key && other.origin == entry.origin)
}

impl Settings {
    /// A person's variables and file with what the files of a project may say put in; each with whether it is trusted,
    /// the nearest first.
    fn layered(variables: Settings, file: Settings, files: &[(&Settings, bool)]) -> Settings {
        let trusted = files.iter().filter(|(_, trusted)| *trusted).map(|(said, _)| (*said).clone());
        let chosen = trusted.clone().fold(Settings::default(), Settings::or);
        let hooks = trusted.rev().flat_map(|said| said.hooks);
        let project = Project { chosen: &chosen, files };
        let mut own = variables.or(file);
        for (_, field) in keys::fields().filter(|(key, _)| key.in_project == InProject::Trusted) {
            field.choose(&mut own, &chosen);
        }
        // The ceiling alone is the default of the depth too.
        let depth = own.max_orchestration_depth.as_ref().map_or(DEFAULT_MAX_DEPTH, |ceiling| ceiling.value);
        let ceiling = DEFAULT_MAX_ORCHESTRATION_DEPTH;
        let (turns, parallel) = (DEFAULT_BASE_TURNS.into(), DEFAULT_PARALLEL.into());
        let silence = DEFAULT_IDLE_TIMEOUT_MS / SECOND_MS;
        Settings {
            max_depth: project.depth(own.max_depth, depth, |said| said.max_depth.as_ref()),
            max_orchestration_depth: project
                .depth(own.max_orchestration_depth, ceiling, |said| said.max_orchestration_depth.as_ref()),
            max_turns: project.limit(own.max_turns, turns, |said| said.max_turns.as_ref()),
            max_agents: project.limit(own.max_agents, DEFAULT_MAX_AGENTS, |said| said.max_agents.as_ref()),
            max_tokens: project.limit(own.max_tokens, u64::MAX, |said| said.max_tokens.as_ref()),
            max_usd: project.limit(own.max_usd, u64::MAX, |said| said.max_usd.as_ref()),
            max_time: project.limit(own.max_time, u64::MAX, |said| said.max_time.as_ref()),
            idle_timeout: project.limit(own.idle_timeout, silence, |said| said.idle_timeout.as_ref()),
            parallel: project.limit(own.parallel, parallel, |said| said.parallel.as_ref()),
            may_share_history: project
                .word(own.may_share_history, &true, |said| said.may_share_history.as_ref()),
            include_sub_agent_events: project
                .word(own.include_sub_agent_events, &true, |said| said.include_sub_agent_events.as_ref()),
            on_ask: project.word(own.on_ask, &OnAsk::Escalate, |said| said.on_ask.as_ref()),
            hooks: own.hooks.into_iter().chain(hooks).collect(),
            project_rules: files.iter().filter_map(|(said, _)| said.rules.clone()).collect(),
            ..own
        }
    }
}

/// How one key is looked up.
type Key<T> = fn(&Settings) -> Option<&WithOrigin<T>>;

/// What a project says.
#[derive(Clone, Copy)]
struct Project<'a> {
    /// What the files say that the person trusts, the nearest before the others.
    chosen: &'a Settings,
    /// All files, the nearest first.
    files: &'a [(&'a Settings, bool)],
}

impl Project<'_> {
    /// What each file says of a key. The nearest is the last, so that it is named where several say the same.
    fn all<'a, T: 'a>(&'a self, key: Key<T>) -> impl Iterator<Item = &'a WithOrigin<T>> {
        self.files.iter().rev().filter_map(move |(said, _)| key(said))
    }

    /// The smallest depth. One that is not smaller says nothing at all: a ceiling that is said is the default of the
    /// depth too, and would raise that.
    fn depth(self, own: Option<WithOrigin<u32>>, usual: u32, key: Key<u32>) -> Option<WithOrigin<u32>> {
        self.all(key).fold(own, |least, said| {
            let current = least.as_ref().map_or(usual, |least| least.value);
            if said.value < current { Some(said.clone()) } else { least }
        })
    }

    /// The smallest limit; a larger one than the person's only if it may be chosen.
    fn limit<T: LimitAmount + Clone>(
        self,
        own: Option<WithOrigin<T>>,
        usual: u64,
        key: Key<T>,
    ) -> Option<WithOrigin<T>> {
        self.all(key).fold(choose(own, key(self.chosen)), |least, said| {
            let current = least.as_ref().map_or(usual, |least| least.value.measure());
            if said.value.measure() <= current { Some(said.clone()) } else { least }
        })
    }

    /// The narrow word if any file says it; the wide one only if it may be chosen.
    fn word<T: PartialEq + Clone>(
        self,
        own: Option<WithOrigin<T>>,
        wide: &T,
        key: Key<T>,
    ) -> Option<WithOrigin<T>> {
        let narrow = self.all(key).filter(|said| said.value != *wide).last().cloned();
        narrow.or_else(|| choose(own, key(self.chosen)))
    }
}

/// What a trusted file says, if the person has no variable of their own.
fn choose<T: Clone>(own: Option<WithOrigin<T>>, said: Option<&WithOrigin<T>>) -> Option<WithOrigin<T>> {
    match said {
        Some(said) if !is_variable(own.as_ref()) => Some(said.clone()),
        _ => own,
    }
}

fn is_variable<T>(own: Option<&WithOrigin<T>>) -> bool {
    matches!(own, Some(WithOrigin { origin: Origin::Variable(_), .. }))
}

#[cfg(test)]
mod tests;
