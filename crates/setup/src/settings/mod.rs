//! Settings: the person's file, the project's, the environment, flags; the later wins, but that a project may only
//! narrow (`project.rs`). Resolved once, before anything is done.
//!
//! Every value keeps where it came from, so that an error can say which of these places to look at.

mod check;
pub mod entries;
mod field;
mod file;
pub mod hooks;
pub mod keys;
mod located;
mod problem;
pub mod project;
mod providers;
mod sandbox;
mod search;
mod variables;
mod workspace;

use std::fmt;
use std::path::{Path, PathBuf};

use posse::{OnAsk, ProjectRules, Rules};

use self::hooks::Hook;
use self::project::ProjectFile;
use self::providers::ProviderSettings;
use self::sandbox::SandboxSettings;
use self::search::SearchSettings;
use self::workspace::{GcKeys, WorkspaceKeys};
use crate::Setup;
use crate::environment::Environment;
use crate::error::SetupError;
use crate::limit::{Limit, MoneyLimit, TimeLimit};
use crate::notes::Notes;
use crate::project_dirs;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In the settings file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
    /// In an environment variable.
    Variable(String),
    /// In a flag.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Variable(name) => f.write_str(name),
            Origin::Flag(name) => f.write_str(name),
        }
    }
}

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithOrigin<T> {
    /// The value.
    pub value: T,
    /// Where it was written.
    pub origin: Origin,
}

impl<T> WithOrigin<T> {
    /// A value from a flag, if the flag was given.
    pub fn flag(value: Option<T>, name: &'static str) -> Option<Self> {
        value.map(|value| Self { value, origin: Origin::Flag(name) })
    }
}

/// What one place says, or all of them together. What is absent is for the default to say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// `model`: the model of a run that names none.
    pub model: Option<WithOrigin<String>>,
    /// `agent.max_depth`: the depth of a run that says none.
    pub max_depth: Option<WithOrigin<u32>>,
    /// `agent.max_orchestration_depth`: the depth that no run exceeds.
    pub max_orchestration_depth: Option<WithOrigin<u32>>,
    /// `agent.max_turns`: base of the turn limit by depth.
    pub max_turns: Option<WithOrigin<Limit<1>>>,
    /// `agent.max_agents`: agents in a tree.
    pub max_agents: Option<WithOrigin<Limit<1>>>,
    /// `agent.max_tokens`: tokens of a tree.
    pub max_tokens: Option<WithOrigin<Limit<0>>>,
    /// `agent.max_usd`: dollars of a tree.
    pub max_usd: Option<WithOrigin<MoneyLimit>>,
    /// `agent.max_time`: wall time of a run.
    pub max_time: Option<WithOrigin<TimeLimit>>,
    /// `agent.idle_timeout`: how long a model or a tool may be silent.
    pub idle_timeout: Option<WithOrigin<TimeLimit>>,
    /// `agent.parallel`: calls that run at once.
    pub parallel: Option<WithOrigin<Limit<1>>>,
    /// `agent.may_share_history`: whether an agent may hand its conversation on to a child.
    pub may_share_history: Option<WithOrigin<bool>>,
    /// `agent.include_sub_agent_events`: whether the events of sub-agents go to whoever follows their parent.
    pub include_sub_agent_events: Option<WithOrigin<bool>>,
    /// `on_ask`: what becomes of a question that nobody answers at once.
    pub on_ask: Option<WithOrigin<OnAsk>>,
    /// `--base-url`: where the provider of `model` is. There is no key for it: `providers` has it for each provider.
    pub base_url: Option<WithOrigin<String>>,
    /// `providers` and `prices`.
    pub providers: ProviderSettings,
    /// `proxy`: what model traffic goes through.
    pub proxy: Option<WithOrigin<String>>,
    /// `search`: who is asked when an agent searches the web.
    pub search: SearchSettings,
    /// `sandbox`: what commands of agents see and may use.
    pub sandbox: SandboxSettings,
    /// `workspace`: how workspaces are made.
    pub workspace: WorkspaceKeys,
    /// `gc`: when they go.
    pub gc: GcKeys,
    /// `hooks`: commands that hear of what agents do. Those of the person come first.
    pub hooks: Vec<Hook>,
    /// `rules`: the operator's layer.
    pub rules: Option<WithOrigin<Rules>>,
    /// `rules` of the project: one more layer for each of its files, which can only narrow.
    pub project_rules: Vec<WithOrigin<Rules>>,
}

/// Settings with all that they were made from.
#[derive(Debug)]
pub struct ResolvedSettings {
    /// What counts.
    pub settings: Settings,
    /// What the person's file says.
    pub file: Settings,
    /// What variables say.
    pub variables: Settings,
    /// The project's files, the nearest first.
    pub project: Vec<ProjectFile>,
    /// What a person should know about the project's files.
    pub notes: Notes,
}

impl ResolvedSettings {
    /// The settings that count in a directory.
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

/// What a person's variables and their file say.
fn own(environment: &Environment) -> Result<(Settings, Settings), SetupError> {
    let file = match &environment.settings_file {
        Some(path) => file::read(path)?,
        None => Settings::default(),
    };
    Ok((variables::read(&environment.settings)?, file))
}

impl Settings {
    /// The commands that they have run.
    fn commands(&self) -> Vec<&str> {
        let hooks = self.hooks.iter().map(|hook| hook.command.as_str());
        hooks.chain(self.workspace.setup()).collect()
    }

    /// The person's own settings, whatever a project says.
    pub fn own(environment: &Environment) -> Result<Settings, SetupError> {
        let (variables, file) = own(environment)?;
        Ok(variables.or(file))
    }

    /// The settings that count in a directory, the project's among them.
    pub fn resolve(setup: &Setup, dir: &Path) -> Result<Settings, SetupError> {
        Ok(ResolvedSettings::of(setup, dir)?.settings)
    }

    /// The settings that would count if the project's files that the person does not trust were not there.
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

    /// These settings, and where they are silent the others.
    pub fn or(mut self, mut other: Settings) -> Settings {
        for (_, field) in keys::fields() {
            field.fill(&mut self, &mut other);
        }
        Settings {
            base_url: self.base_url.or(other.base_url),
            providers: self.providers.or(other.providers),
            hooks: if self.hooks.is_empty() { other.hooks } else { self.hooks },
            rules: self.rules.or(other.rules),
            project_rules: if self.project_rules.is_empty() {
                other.project_rules
            } else {
                self.project_rules
            },
            ..self
        }
    }
}

/// Reads `on_ask` as it is typed.
pub fn on_ask(text: &str) -> Result<OnAsk, String> {
    match text {
        "deny" => Ok(OnAsk::Deny),
        "escalate" => Ok(OnAsk::Escalate),
        _ => Err("expected `deny` or `escalate`".to_owned()),
    }
}

/// The JSON Schema of a settings file.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(file::RawSettings).to_value()
}

#[cfg(test)]
mod tests;
