//! Every key there is, and what a project's file may do with it. The one table: what is read from variables, what is
//! shown and what is taken from a project all come from here.

use posse::sandbox::Limits as BoxLimits;
use posse::{Cleaning, DEFAULT_MAX_AGENTS, DEFAULT_PARALLEL, WorkspaceOptions};
use posse_domain::budget::{DEFAULT_BASE_TURNS, DEFAULT_MAX_DEPTH, DEFAULT_MAX_ORCHESTRATION_DEPTH};
use posse_domain::contract::DEFAULT_IDLE_TIMEOUT_MS;

use serde_json::Value;

use crate::age::Age;

/// Bytes of the unit in which sizes are written.
const MB: u64 = 1 << 20;

/// What a project's file may do with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InProject {
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
pub(crate) const KEYS: [(&str, InProject); 36] = [
    ("model", Trusted),
    ("agent.max_depth", Lowers),
    ("agent.max_orchestration_depth", Lowers),
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
pub(crate) fn family(key: &str) -> &str {
    let top = key.split('.').next().unwrap_or(key);
    if ["providers", "prices"].contains(&top) { top } else { key }
}

/// What a project may do with a key.
pub(crate) fn in_project(key: &str) -> InProject {
    let found = KEYS.iter().find(|(name, _)| *name == family(key));
    found.map_or(Never, |(_, class)| *class)
}

/// What counts where nobody says anything: a value, or words about it.
pub(crate) fn default(key: &str) -> Value {
    let text = default_text(key);
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

fn default_text(key: &str) -> String {
    let number = |number: u64| number.to_string();
    let (boxed, workspace, cleaning) =
        (BoxLimits::default(), WorkspaceOptions::default(), Cleaning::default());
    match key {
        "model" => "that of the first provider with a key, else of a local Ollama".to_owned(),
        "agent.max_depth" => number(DEFAULT_MAX_DEPTH.into()),
        "agent.max_orchestration_depth" => number(DEFAULT_MAX_ORCHESTRATION_DEPTH.into()),
        "agent.max_turns" => number(DEFAULT_BASE_TURNS.into()),
        "agent.max_agents" => number(DEFAULT_MAX_AGENTS),
        "agent.idle_timeout" => {
            crate::limit::typed(std::time::Duration::from_millis(DEFAULT_IDLE_TIMEOUT_MS))
        }
        "agent.parallel" => number(DEFAULT_PARALLEL.into()),
        "agent.may_share_history" | "agent.include_sub_agent_events" => "false".to_owned(),
        "on_ask" => "deny".to_owned(),
        "providers" => "the built-in ones".to_owned(),
        "prices" => "the built-in table".to_owned(),
        "search.key_env" => "the provider's usual variable".to_owned(),
        "sandbox.level" => "namespaces".to_owned(),
        "sandbox.concurrent" => "as many as the machine carries".to_owned(),
        "sandbox.memory_mb" => number(boxed.memory_bytes / MB),
        "sandbox.processes" => number(boxed.processes),
        "workspace.caches" => "the usual ones, such as node_modules and target".to_owned(),
        "workspace.max_run_mb" => number(workspace.max_run_bytes / MB),
        "workspace.max_files" => number(workspace.max_files),
        "workspace.max_file_mb" => number(workspace.max_file_bytes / MB),
        "gc.workspaces" => Age(cleaning.workspaces_older_than).to_string(),
        "gc.salvage" => Age(cleaning.salvage_older_than).to_string(),
        _ => "none".to_owned(),
    }
}
