//! Every key there is, and what a project's file may do with it. The one table: what is read from variables, what is
//! shown and what is taken from a project all come from here.

use std::time::Duration;

use posse::sandbox::Limits as BoxLimits;
use posse::{DEFAULT_MAX_AGENTS, DEFAULT_PARALLEL, GcRequest, WorkspaceOptions};
use posse_domain::budget::{DEFAULT_BASE_TURNS, DEFAULT_MAX_DEPTH, DEFAULT_MAX_ORCHESTRATION_DEPTH};
use posse_domain::contract::DEFAULT_IDLE_TIMEOUT_MS;

use serde_json::Value;

use crate::age::Age;
use crate::limit;

/// The depth of a run that says none.
pub const MAX_DEPTH: &str = "agent.max_depth";
/// The depth that no run exceeds, and the default of the other if it alone is said.
pub const MAX_ORCHESTRATION_DEPTH: &str = "agent.max_orchestration_depth";
/// Bytes of the unit in which sizes are written.
const MB: u64 = 1 << 20;

/// What a project's file may do with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InProject {
    /// Counts at once if it narrows, and never otherwise.
    Lowers,
    /// Counts at once if it narrows, otherwise once the person trusts the file.
    Narrows,
    /// Counts once the person trusts the file.
    Trusted,
    /// Never counts: it says where keys, money or data go.
    Never,
}

use InProject::{Lowers, Narrows, Never, Trusted};

/// Every key, with what a project may do with it. `rules`, `hooks`, `sandbox`, `providers` and `prices` can only be
/// written in a file.
pub const KEYS: [(&str, InProject); 36] = [
    ("model", Trusted),
    (MAX_DEPTH, Lowers),
    (MAX_ORCHESTRATION_DEPTH, Lowers),
    ("agent.max_turns", Narrows),
    ("agent.max_agents", Narrows),
    ("agent.max_tokens", Narrows),
    ("agent.max_usd", Narrows),
    ("agent.max_time", Narrows),
    ("agent.idle_timeout", Narrows),
    ("agent.parallel", Narrows),
    ("agent.may_share_history", Narrows),
    ("agent.include_sub_agent_events", Narrows),
    ("on_ask", Narrows),
    ("providers", Never),
    ("prices", Never),
    ("proxy", Never),
    ("search.provider", Trusted),
    ("search.url", Never),
    ("search.key", Never),
    ("search.key_env", Never),
    ("sandbox.level", Trusted),
    ("sandbox.read", Trusted),
    ("sandbox.env", Trusted),
    ("sandbox.concurrent", Trusted),
    ("sandbox.memory_mb", Trusted),
    ("sandbox.processes", Trusted),
    ("workspace.copy", Trusted),
    ("workspace.setup", Trusted),
    ("workspace.caches", Trusted),
    ("workspace.max_run_mb", Trusted),
    ("workspace.max_files", Trusted),
    ("workspace.max_file_mb", Trusted),
    ("gc.workspaces", Never),
    ("gc.salvage", Never),
    ("hooks", Trusted),
    ("rules", Lowers),
];

/// The names of all keys.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|(name, _)| *name)
}

/// The key of the table that an entry belongs to: those of one provider or price belong to all of them.
pub fn family(key: &str) -> &str {
    let top = key.split('.').next().unwrap_or(key);
    if ["providers", "prices"].contains(&top) { top } else { key }
}

/// What a project may do with a key.
pub fn in_project(key: &str) -> InProject {
    let found = KEYS.iter().find(|(name, _)| *name == family(key));
    found.map_or(Never, |(_, class)| *class)
}

/// What counts where nobody says anything.
pub struct Default {
    /// As a file would say it; null if it is not one value.
    pub value: Value,
    /// What it is then, for people.
    pub words: Option<&'static str>,
}

/// What counts for a key where nobody says anything.
pub fn default(key: &str) -> Default {
    let words = default_words(key);
    Default { value: if words.is_some() { Value::Null } else { default_value(key) }, words }
}

fn default_words(key: &str) -> Option<&'static str> {
    match key {
        "model" => Some("that of the first provider with a key, else of a local Ollama"),
        "providers" => Some("the built-in ones"),
        "prices" => Some("the built-in table"),
        "search.key_env" => Some("the provider's usual variable"),
        "sandbox.concurrent" => Some("as many as the machine carries"),
        "workspace.caches" => Some("the usual ones, such as node_modules and target"),
        _ => None,
    }
}

fn default_value(key: &str) -> Value {
    let (boxed, workspace, cleaning) =
        (BoxLimits::default(), WorkspaceOptions::default(), GcRequest::default());
    match key {
        MAX_DEPTH => DEFAULT_MAX_DEPTH.into(),
        MAX_ORCHESTRATION_DEPTH => DEFAULT_MAX_ORCHESTRATION_DEPTH.into(),
        "agent.max_turns" => DEFAULT_BASE_TURNS.into(),
        "agent.max_agents" => DEFAULT_MAX_AGENTS.into(),
        "agent.max_tokens" | "agent.max_usd" | "agent.max_time" => limit::NONE.into(),
        "agent.idle_timeout" => limit::typed(Duration::from_millis(DEFAULT_IDLE_TIMEOUT_MS)).into(),
        "agent.parallel" => DEFAULT_PARALLEL.into(),
        "agent.may_share_history" | "agent.include_sub_agent_events" => false.into(),
        "on_ask" => "deny".into(),
        "sandbox.level" => "namespaces".into(),
        "sandbox.memory_mb" => (boxed.memory_bytes / MB).into(),
        "sandbox.processes" => boxed.processes.into(),
        "workspace.max_run_mb" => (workspace.max_run_bytes / MB).into(),
        "workspace.max_files" => workspace.max_files.into(),
        "workspace.max_file_mb" => (workspace.max_file_bytes / MB).into(),
        "gc.workspaces" => Age(cleaning.workspaces_older_than).to_string().into(),
        "gc.salvage" => Age(cleaning.salvage_older_than).to_string().into(),
        "sandbox.read" | "sandbox.env" | "workspace.copy" | "rules" => Value::Array(Vec::new()),
        _ => Value::Null,
    }
}
