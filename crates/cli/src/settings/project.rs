//! A project's settings: `.posse/settings.yaml` in the directory of the run, or the nearest above it up to the root of
//! the repository.
//!
//! Whoever wrote the project wrote this file, so it may only narrow. What could run code, widen a grant or spend more
//! counts once the person trusts exactly this content, and what says where keys and data go never does. A file with
//! mistakes keeps nobody from working: until it is trusted, it is said and ignored.

use std::path::{Path, PathBuf};

use posse::{DEFAULT_MAX_AGENTS, DEFAULT_PARALLEL, OnAsk};
use posse_domain::budget::{DEFAULT_BASE_TURNS, DEFAULT_MAX_DEPTH, DEFAULT_MAX_ORCHESTRATION_DEPTH};
use posse_domain::contract::DEFAULT_IDLE_TIMEOUT_MS;
use posse_domain::hash::Hash;

use super::entries::Entry;
use super::keys::{InProject, in_project};
use super::{Origin, Settings, Sourced, file};
use crate::context::Context;
use crate::error::CliError;
use crate::limit::Measured;
use crate::places;
use crate::trust::{Standing, Trust};

/// Most warnings about keys that never count; a project may write any number of them.
const WARNINGS_MAX: usize = 10;
/// Milliseconds of a second.
const SECOND_MS: u64 = 1_000;

/// A project's settings file.
#[derive(Debug)]
pub(crate) struct ProjectFile {
    /// Its canonical path.
    pub(crate) path: PathBuf,
    /// How it stands with the person.
    pub(crate) standing: Standing,
    /// The hash of what it holds; none if that cannot be read.
    pub(crate) hash: Option<Hash>,
    /// What it says, or what is wrong with it.
    pub(crate) said: Result<Settings, CliError>,
}

impl ProjectFile {
    /// The settings file of the project that a directory is in.
    pub(crate) fn find(context: &Context, dir: &Path) -> Result<Option<Self>, CliError> {
        let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        let dirs = places::project_dirs(&dir, context.environment.home.as_deref());
        let Some(root) = dirs.last() else { return Ok(None) };
        let nearest = dirs.iter().find(|dir| Self::is_in(dir));
        nearest.map(|dir| Ok(Self::read(dir, root, &Trust::load(context)?))).transpose()
    }

    /// Whether a directory has one.
    pub(crate) fn is_in(dir: &Path) -> bool {
        dir.join(places::PROJECT_SETTINGS).symlink_metadata().is_ok()
    }

    /// That of a directory of the project with this root.
    pub(crate) fn read(dir: &Path, root: &Path, trust: &Trust) -> Self {
        let path = dir.join(places::PROJECT_SETTINGS);
        let path = path.canonicalize().unwrap_or(path);
        // A link to a file of the person's would have its lines shown as mistakes of this one.
        let read = if path.starts_with(root) {
            places::read(&path)
        } else {
            Err("it leads out of the project".to_owned())
        };
        match read {
            Ok(bytes) => {
                let bytes = bytes.unwrap_or_default();
                let standing = trust.standing(&path, &bytes);
                let hash = Some(Hash::of(&bytes));
                let said = file::parse_bytes(bytes, &path);
                Self { path, standing, hash, said }
            }
            Err(problem) => {
                let said = Err(file::unreadable(&path, &problem));
                Self { path, standing: Standing::New, hash: None, said }
            }
        }
    }

    /// Whether the person trusts it as it is.
    pub(crate) fn is_trusted(&self) -> bool {
        self.standing == Standing::Trusted
    }

    /// The person's settings with what the project may say put in, and what a person should know about the rest.
    pub(super) fn put_between(
        &self,
        variables: Settings,
        file: Settings,
    ) -> Result<(Settings, Vec<String>), CliError> {
        let said = match &self.said {
            Ok(said) => said,
            Err(error) if self.is_trusted() => return Err(error.clone()),
            Err(error) => {
                let note = format!("warning: {}; the project's settings are ignored", error.message());
                return Ok((variables.or(file), vec![note]));
            }
        };
        let settings = Settings::layered(variables, file, said.clone(), self.is_trusted());
        let notes = self.notes(said, &settings);
        Ok((settings, notes))
    }

    fn notes(&self, said: &Settings, settings: &Settings) -> Vec<String> {
        let counting = settings.entries();
        let mut notes = Vec::new();
        let mut waiting = Vec::new();
        for entry in said.entries() {
            match in_project(&entry.key) {
                InProject::Never => {
                    notes.push(format!("warning: {}: {} is ignored: {NEVER}", entry.origin, entry.key));
                }
                InProject::Trusted | InProject::Narrows
                    if !self.is_trusted() && !counts(&entry, &counting) && !waiting.contains(&entry.key) =>
                {
                    waiting.push(entry.key);
                }
                _ => {}
            }
        }
        if let Some(more) = notes.len().checked_sub(WARNINGS_MAX).filter(|more| *more > 0) {
            notes.truncate(WARNINGS_MAX);
            notes.push(format!("warning: {more} more are ignored; `posse settings` shows them"));
        }
        if !waiting.is_empty() {
            let standing = match self.standing {
                Standing::Changed => "has changed since you trusted it",
                _ => "is not trusted",
            };
            notes.push(format!(
                "note: {} {standing}, so these do not count: {}; `posse trust` shows them",
                self.path.display(),
                waiting.join(", "),
            ));
        }
        notes
    }

    /// Why something that the file says does not count.
    pub(crate) fn why_not(&self, key: &str) -> &'static str {
        match in_project(key) {
            InProject::Never => NEVER,
            InProject::Lowers => "a project may only lower it",
            _ if !self.is_trusted() && self.standing == Standing::Changed => {
                "the file has changed since you trusted it: `posse trust`"
            }
            _ if !self.is_trusted() => "counts once you trust the file: `posse trust`",
            _ => "yours counts before it",
        }
    }
}

/// Why some keys of a project never count.
const NEVER: &str = "a project cannot say it, only your own settings can";

/// Whether an entry is among those that count.
pub(crate) fn counts(entry: &Entry, counting: &[Entry]) -> bool {
    counting.iter().any(|other| other.key == entry.key && other.origin == entry.origin)
}

impl Settings {
    /// A person's variables and file with what a project may say put in.
    fn layered(variables: Settings, file: Settings, said: Settings, trusted: bool) -> Settings {
        let may = Judge { trusted };
        let chosen = if trusted { said.clone() } else { Settings::default() };
        let search = variables.search.clone().or(chosen.search.provider_alone()).or(file.search.clone());
        let sandbox = variables.sandbox.clone().or(chosen.sandbox).or(file.sandbox.clone());
        let workspace = variables.workspace.clone().or(chosen.workspace).or(file.workspace.clone());
        let own = variables.or(file);
        // The ceiling alone is the default of the depth too.
        let depth = own.max_orchestration_depth.as_ref().map_or(DEFAULT_MAX_DEPTH, |ceiling| ceiling.value);
        let ceiling = DEFAULT_MAX_ORCHESTRATION_DEPTH;
        let silence = DEFAULT_IDLE_TIMEOUT_MS / SECOND_MS;
        Settings {
            model: may.choose(own.model, said.model),
            max_depth: lowered(own.max_depth, depth, said.max_depth),
            max_orchestration_depth: lowered(
                own.max_orchestration_depth,
                ceiling,
                said.max_orchestration_depth,
            ),
            max_turns: may.limit(own.max_turns, DEFAULT_BASE_TURNS.into(), said.max_turns),
            max_agents: may.limit(own.max_agents, DEFAULT_MAX_AGENTS, said.max_agents),
            max_tokens: may.limit(own.max_tokens, u64::MAX, said.max_tokens),
            max_usd: may.limit(own.max_usd, u64::MAX, said.max_usd),
            max_time: may.limit(own.max_time, u64::MAX, said.max_time),
            idle_timeout: may.limit(own.idle_timeout, silence, said.idle_timeout),
            parallel: may.limit(own.parallel, DEFAULT_PARALLEL.into(), said.parallel),
            may_share_history: may.word(own.may_share_history, said.may_share_history, &true),
            include_sub_agent_events: may.word(
                own.include_sub_agent_events,
                said.include_sub_agent_events,
                &true,
            ),
            on_ask: may.word(own.on_ask, said.on_ask, &OnAsk::Escalate),
            search,
            sandbox,
            workspace,
            hooks: [own.hooks, chosen.hooks].concat(),
            project_rules: said.rules,
            ..own
        }
    }
}

/// The smaller of two depths. One that is not smaller says nothing at all: a ceiling that is said is the default of the
/// depth too, and would raise that.
fn lowered(own: Option<Sourced<u32>>, usual: u32, said: Option<Sourced<u32>>) -> Option<Sourced<u32>> {
    let current = own.as_ref().map_or(usual, |own| own.value);
    said.filter(|said| said.value < current).or(own)
}

/// Which of two values counts: the person's standing one, or the project's.
#[derive(Clone, Copy)]
struct Judge {
    /// Whether the person trusts the project's file, so that it may raise and choose.
    trusted: bool,
}

impl Judge {
    /// The project's value if the person trusts it and has no variable of their own.
    fn choose<T>(self, own: Option<Sourced<T>>, said: Option<Sourced<T>>) -> Option<Sourced<T>> {
        match said {
            Some(said) if self.trusted && !is_variable(own.as_ref()) => Some(said),
            _ => own,
        }
    }

    /// The smaller limit; a larger one of the project's only if it may be chosen.
    fn limit<T: Measured>(
        self,
        own: Option<Sourced<T>>,
        usual: u64,
        said: Option<Sourced<T>>,
    ) -> Option<Sourced<T>> {
        let current = own.as_ref().map_or(usual, |own| own.value.measure());
        match said {
            Some(said) if said.value.measure() <= current => Some(said),
            said => self.choose(own, said),
        }
    }

    /// The narrower of two words; the wide one of the project's only if it may be chosen.
    fn word<T: PartialEq>(
        self,
        own: Option<Sourced<T>>,
        said: Option<Sourced<T>>,
        wide: &T,
    ) -> Option<Sourced<T>> {
        match said {
            Some(said) if said.value != *wide => Some(said),
            said => self.choose(own, said),
        }
    }
}

fn is_variable<T>(own: Option<&Sourced<T>>) -> bool {
    matches!(own, Some(Sourced { origin: Origin::Variable(_), .. }))
}

#[cfg(test)]
mod tests;
