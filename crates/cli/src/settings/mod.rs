//! Settings: the person's file, the environment, flags; the later wins. Resolved once, before anything is done.
//!
//! Every value keeps where it came from, so that an error can say which of three places to look at.

mod file;
mod problem;
mod providers;
mod sandbox;
mod search;
mod variables;
mod workspace;

use std::fmt;
use std::path::PathBuf;

use posse::{OnAsk, Rules};

use self::providers::ProviderSettings;
use self::sandbox::SandboxSettings;
use self::search::SearchSettings;
use self::workspace::{GcKeys, WorkspaceKeys};
use crate::env::Environment;
use crate::error::CliError;
use crate::limit::{Limit, MoneyLimit, TimeLimit};

/// Every key there is. `rules`, `sandbox`, `providers` and `prices` can only be written in the file.
const KEYS: [&str; 33] = [
    "model",
    "agent.max_depth",
    "agent.max_orchestration_depth",
    "agent.max_turns",
    "agent.max_agents",
    "agent.max_tokens",
    "agent.max_usd",
    "agent.max_time",
    "agent.idle_timeout",
    "agent.parallel",
    "on_ask",
    "providers",
    "prices",
    "proxy",
    "search.provider",
    "search.url",
    "search.key",
    "search.key_env",
    "sandbox.level",
    "sandbox.read",
    "sandbox.env",
    "sandbox.concurrent",
    "sandbox.memory_mb",
    "sandbox.processes",
    "workspace.copy",
    "workspace.setup",
    "workspace.caches",
    "workspace.max_run_mb",
    "workspace.max_files",
    "workspace.max_file_mb",
    "gc.workspaces",
    "gc.salvage",
    "rules",
];

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
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
pub(crate) struct Sourced<T> {
    /// The value.
    pub(crate) value: T,
    /// Where it was written.
    pub(crate) origin: Origin,
}

impl<T> Sourced<T> {
    /// A value from a flag, if the flag was given.
    pub(crate) fn flag(value: Option<T>, name: &'static str) -> Option<Self> {
        value.map(|value| Self { value, origin: Origin::Flag(name) })
    }
}

/// What one place says, or all of them together. What is absent is for the default to say.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Settings {
    /// `model`: the model of a run that names none.
    pub(crate) model: Option<Sourced<String>>,
    /// `agent.max_depth`: the depth of a run that says none.
    pub(crate) max_depth: Option<Sourced<u32>>,
    /// `agent.max_orchestration_depth`: the depth that no run exceeds.
    pub(crate) max_orchestration_depth: Option<Sourced<u32>>,
    /// `agent.max_turns`: base of the turn limit by depth.
    pub(crate) max_turns: Option<Sourced<Limit<1>>>,
    /// `agent.max_agents`: agents in a tree.
    pub(crate) max_agents: Option<Sourced<Limit<1>>>,
    /// `agent.max_tokens`: tokens of a tree.
    pub(crate) max_tokens: Option<Sourced<Limit<0>>>,
    /// `agent.max_usd`: dollars of a tree.
    pub(crate) max_usd: Option<Sourced<MoneyLimit>>,
    /// `agent.max_time`: wall time of a run.
    pub(crate) max_time: Option<Sourced<TimeLimit>>,
    /// `agent.idle_timeout`: how long a model or a tool may be silent.
    pub(crate) idle_timeout: Option<Sourced<TimeLimit>>,
    /// `agent.parallel`: calls that run at once.
    pub(crate) parallel: Option<Sourced<Limit<1>>>,
    /// `on_ask`: what becomes of a question that nobody answers at once.
    pub(crate) on_ask: Option<Sourced<OnAsk>>,
    /// `--base-url`: where the provider of `model` is. There is no key for it: `providers` has it for each provider.
    pub(crate) base_url: Option<Sourced<String>>,
    /// `providers` and `prices`.
    pub(crate) providers: ProviderSettings,
    /// `proxy`: what model traffic goes through.
    pub(crate) proxy: Option<Sourced<String>>,
    /// `search`: who is asked when an agent searches the web.
    pub(crate) search: SearchSettings,
    /// `sandbox`: what commands of agents see and may use.
    pub(crate) sandbox: SandboxSettings,
    /// `workspace`: how workspaces are made.
    pub(crate) workspace: WorkspaceKeys,
    /// `gc`: when they go.
    pub(crate) gc: GcKeys,
    /// `rules`: the operator's layer.
    pub(crate) rules: Rules,
}

impl Settings {
    /// The settings of this environment.
    pub(crate) fn resolve(environment: &Environment) -> Result<Settings, CliError> {
        let file = match &environment.settings_file {
            Some(path) => file::read(path)?,
            None => Settings::default(),
        };
        Ok(variables::read(&environment.settings)?.or(file))
    }

    /// These settings, and where they are silent the others.
    pub(crate) fn or(self, other: Settings) -> Settings {
        Settings {
            model: self.model.or(other.model),
            max_depth: self.max_depth.or(other.max_depth),
            max_orchestration_depth: self.max_orchestration_depth.or(other.max_orchestration_depth),
            max_turns: self.max_turns.or(other.max_turns),
            max_agents: self.max_agents.or(other.max_agents),
            max_tokens: self.max_tokens.or(other.max_tokens),
            max_usd: self.max_usd.or(other.max_usd),
            max_time: self.max_time.or(other.max_time),
            idle_timeout: self.idle_timeout.or(other.idle_timeout),
            parallel: self.parallel.or(other.parallel),
            on_ask: self.on_ask.or(other.on_ask),
            base_url: self.base_url.or(other.base_url),
            providers: self.providers.or(other.providers),
            proxy: self.proxy.or(other.proxy),
            search: self.search.or(other.search),
            sandbox: if self.sandbox == SandboxSettings::default() { other.sandbox } else { self.sandbox },
            workspace: self.workspace.or(other.workspace),
            gc: self.gc.or(other.gc),
            rules: if self.rules.is_empty() { other.rules } else { self.rules },
        }
    }
}

/// Reads `on_ask` as it is typed.
pub(crate) fn on_ask(text: &str) -> Result<OnAsk, String> {
    match text {
        "deny" => Ok(OnAsk::Deny),
        "escalate" => Ok(OnAsk::Escalate),
        _ => Err("expected `deny` or `escalate`".to_owned()),
    }
}

/// The key that was probably meant, as an error adds it; empty if there is none.
fn meant<'a>(key: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let near = posse_agent::definition::nearest(key, known);
    near.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

#[cfg(test)]
mod tests;
