//! Resolves settings for runs: the user's file, the project's files, the environment, flags. The later layer wins,
//! except that a project may only narrow (`project.rs`). Resolved once, before anything is done.
//!
//! Every value keeps its origin, so that an error can name where to change it.

mod check;
pub mod entries;
mod field;
mod file;
pub mod hooks;
pub mod keys;
mod list;
mod located;
mod problem;
pub mod project;
mod providers;
mod sandbox;
mod schema;
mod search;
mod variables;
mod webhook;
mod workspace;

use std::fmt;
use std::path::{Path, PathBuf};

use posse::{OnAsk, ProjectRules, Rules, RunRequest};

use self::hooks::Hook;
use self::project::ProjectFile;
use self::providers::ProviderSettings;
use self::sandbox::SandboxSettings;
pub use self::schema::schema;
pub(crate) use self::search::SEARCH_KEYS;
use self::search::SearchSettings;
use self::webhook::WebhookSettings;
use self::workspace::{GcKeys, WorkspaceKeys};
use crate::Setup;
use crate::environment::Environment;
use crate::error::SetupError;
use crate::limit::{Limit, MoneyLimit, TimeLimit};
use crate::notes::Notes;
use crate::project_dirs;
pub use variables::check_variables;

/// The unit of sizes in settings, in bytes.
const MB: u64 = 1 << 20;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In a settings file.
    File {
        /// The path of the file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
    /// In an environment variable.
    Variable(String),
    /// In the request itself, under the name that the front end has for it.
    Request(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Variable(name) => f.write_str(name),
            Origin::Request(name) => f.write_str(name),
        }
    }
}

/// A value with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithOrigin<T> {
    /// The value as it was parsed.
    pub value: T,
    /// Where it was written.
    pub origin: Origin,
}

impl<T> WithOrigin<T> {
    /// A value of the request, if it is set. `name` is the front end's name for it.
    pub fn request(value: Option<T>, name: &'static str) -> Option<Self> {
        value.map(|value| Self { value, origin: Origin::Request(name) })
    }
}

/// The settings of one layer, or of all of them merged. Absent values have their default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// `model`: the default model of runs.
    pub model: Option<WithOrigin<String>>,
    /// `agent.max_depth`: the default depth of runs.
    pub max_depth: Option<WithOrigin<u32>>,
    /// `agent.max_orchestration_depth`: the depth that no run exceeds.
    pub max_orchestration_depth: Option<WithOrigin<u32>>,
    /// `agent.max_turns`: base of the turn limit by depth.
    pub max_turns: Option<WithOrigin<Limit<1>>>,
    /// `agent.max_agents`: limit of agents in a tree.
    pub max_agents: Option<WithOrigin<Limit<1>>>,
    /// `agent.max_tokens`: limit of tokens of a tree.
    pub max_tokens: Option<WithOrigin<Limit<0>>>,
    /// `agent.max_usd`: limit of dollars of a tree.
    pub max_usd: Option<WithOrigin<MoneyLimit>>,
    /// `agent.max_time`: limit of a run's wall time.
    pub max_time: Option<WithOrigin<TimeLimit>>,
    /// `agent.idle_timeout`: how long a model or a tool may be silent.
    pub idle_timeout: Option<WithOrigin<TimeLimit>>,
    /// `agent.parallel`: concurrent calls.
    pub parallel: Option<WithOrigin<Limit<1>>>,
    /// `agent.may_share_history`: whether an agent may pass its conversation on to a child.
    pub may_share_history: Option<WithOrigin<bool>>,
    /// `agent.include_sub_agent_events`: whether subscribers of a parent also receive events of its sub-agents.
    pub include_sub_agent_events: Option<WithOrigin<bool>>,
    /// `on_ask`: the policy for a question that no user answers at once.
    pub on_ask: Option<WithOrigin<OnAsk>>,
    /// The base URL of the provider of `model`. There is no such setting: `providers` has a base URL for each provider.
    pub base_url: Option<WithOrigin<String>>,
    /// `providers` and `prices`.
    pub providers: ProviderSettings,
    /// `proxy`: the proxy for model traffic.
    pub proxy: Option<WithOrigin<String>>,
    /// `search`: the provider of web searches.
    pub search: SearchSettings,
    /// `webhook`: the address to which a server reports what happens.
    pub webhook: WebhookSettings,
    /// `sandbox`: what commands of agents see and may use.
    pub sandbox: SandboxSettings,
    /// `workspace`: how workspaces are created.
    pub workspace: WorkspaceKeys,
    /// `gc`: when workspaces and salvage are removed.
    pub gc: GcKeys,
    /// `hooks`: commands that are called on operations of agents. Those of the user come first.
    pub hooks: Vec<Hook>,
    /// `rules`: the operator's permission layer.
    pub rules: Option<WithOrigin<Rules>>,
    /// `rules` of the project: one more layer for each of its files, which can only narrow.
    pub project_rules: Vec<WithOrigin<Rules>>,
}

/// The effective settings with the layers that they come from.
#[derive(Debug)]
pub struct ResolvedSettings {
    /// The effective settings.
    pub settings: Settings,
    /// The user's file.
    pub file: Settings,
    /// The environment variables.
    pub variables: Settings,
    /// The project's files, the nearest first.
    pub project: Vec<ProjectFile>,
    /// Notes about the project's files.
    pub notes: Notes,
}

impl ResolvedSettings {
    /// Resolves the settings of a directory.
    pub fn of(setup: &Setup, dir: &Path) -> Result<Self, SetupError> {
        let (variables, file) = own(&setup.environment)?;
        let project = ProjectFile::find(setup, dir)?;
        let (settings, mut notes) = project::put_between(&project, variables.clone(), file.clone())?;
        settings.check(setup)?;
        notes.extend(check::project_rules(&settings.project_rules, &project, setup)?);
        let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        let dirs = project_dirs::project_dirs(&dir, setup.environment.home.as_deref());
        notes.extend(crate::hooks::warnings(&settings.hooks, &dir, dirs.last().unwrap_or(&dir)));
        Ok(Self { settings, file, variables, project, notes })
    }
}

/// The user's variables and file.
fn own(environment: &Environment) -> Result<(Settings, Settings), SetupError> {
    let file = match &environment.settings_file {
        Some(path) => file::read(path)?,
        None => Settings::default(),
    };
    Ok((variables::read(&environment.settings)?, file))
}

impl Settings {
    /// The commands that these settings run.
    fn commands(&self) -> Vec<&str> {
        let hooks = self.hooks.iter().map(|hook| hook.command.as_str());
        hooks.chain(self.workspace.setup()).collect()
    }

    /// The user's own settings, without those of a project.
    pub fn own(environment: &Environment) -> Result<Settings, SetupError> {
        let (variables, file) = own(environment)?;
        Ok(variables.or(file))
    }

    /// The effective settings of a directory, including the project's.
    pub fn resolve(setup: &Setup, dir: &Path) -> Result<Settings, SetupError> {
        Ok(ResolvedSettings::of(setup, dir)?.settings)
    }

    /// The effective settings without the project's untrusted files.
    pub fn resolve_trusted(setup: &Setup, dir: &Path) -> Result<Settings, SetupError> {
        let (variables, file) = own(&setup.environment)?;
        let mut project = ProjectFile::find(setup, dir)?;
        project.retain(ProjectFile::is_trusted);
        Ok(project::put_between(&project, variables, file)?.0)
    }

    /// The operator's rules.
    pub fn rules(&self) -> Rules {
        self.rules.as_ref().map(|rules| rules.value.clone()).unwrap_or_default()
    }

    /// The rules of the project.
    pub fn project_rules(&self) -> ProjectRules {
        self.project_rules.iter().map(|rules| rules.value.clone()).collect()
    }

    /// Copies every option of runs to the request.
    pub fn apply(&self, request: &mut RunRequest) {
        for (_, field) in keys::fields() {
            field.apply(self, request);
        }
    }

    /// Fills unset values from the other settings.
    pub fn or(mut self, mut other: Settings) -> Settings {
        for (_, field) in keys::fields() {
            field.fill(&mut self, &mut other);
        }
        Settings {
            base_url: self.base_url.or(other.base_url),
            providers: self.providers.or(other.providers),
            hooks: if self.hooks.is_empty() { other.hooks } else { self.hooks },
            project_rules: if self.project_rules.is_empty() {
                other.project_rules
            } else {
                self.project_rules
            },
            ..self
        }
    }
}

/// Parses `on_ask` in its typed form.
pub fn on_ask(text: &str) -> Result<OnAsk, String> {
    match text {
        "deny" => Ok(OnAsk::Deny),
        "escalate" => Ok(OnAsk::Escalate),
        _ => Err("expected `deny` or `escalate`".to_owned()),
    }
}

#[cfg(test)]
mod page;
#[cfg(test)]
mod tests;
