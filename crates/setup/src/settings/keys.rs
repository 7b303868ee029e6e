//! Every key there is: its default, what a project's file may do with it, where its value is, how a variable's text is read
//! and how it is shown. The one table: reading variables, merging places, listing and what a trusted project may choose
//! all go through it. A new key of one value is a field of [`Settings`](super::Settings), its line in the file's types, and a row here.

use std::time::Duration;

use posse::sandbox::Limits as BoxLimits;
use posse::{DEFAULT_MAX_AGENTS, DEFAULT_PARALLEL, GcRequest, WorkspaceOptions};
use posse_domain::budget::{DEFAULT_BASE_TURNS, DEFAULT_MAX_DEPTH, DEFAULT_MAX_ORCHESTRATION_DEPTH};
use posse_domain::contract::DEFAULT_IDLE_TIMEOUT_MS;

use serde_json::Value;

use super::entries::Secret;
use super::field::{
    Field, OneValue, address, file_only, list, number, own, plain, secret, text, whole, yes_or_no,
};
use super::on_ask;
use super::search::Provider;
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

/// What counts where no place states a key.
enum DefaultSource {
    /// One value, as a file would state it.
    Value(fn() -> Value),
    /// No one value; what it is then, for people.
    Words(&'static str),
}

use DefaultSource::{Value as One, Words};

/// A key.
pub struct Key {
    /// Its name, with dots.
    pub name: &'static str,
    /// What a project's file may do with it.
    pub in_project: InProject,
    default: DefaultSource,
    /// Its value in [`Settings`]; none if it is not one value. Such keys can only be written in a file.
    pub(super) field: Option<&'static dyn Field>,
}

const fn key(
    name: &'static str,
    in_project: InProject,
    default: DefaultSource,
    field: Option<&'static dyn Field>,
) -> Key {
    Key { name, in_project, default, field }
}

/// A key of one value: where it is in [`Settings`], how a variable's text is read, and how it is shown.
macro_rules! one {
    ($($field:ident).+, $parse:expr) => { one!($($field).+, $parse, plain) };
    ($($field:ident).+, $parse:expr, $show:expr) => {
        Some(&OneValue {
            get: |settings| settings.$($field).+.as_ref(),
            get_mut: |settings| &mut settings.$($field).+,
            parse: $parse,
            show: $show,
        })
    };
}

/// Every key.
#[rustfmt::skip]
pub static KEYS: [Key; 36] = [
    key("model", Trusted, Words("that of the first provider with a key, else of a local Ollama"), one!(model, text)),
    key(MAX_DEPTH, Lowers, One(|| DEFAULT_MAX_DEPTH.into()), one!(max_depth, whole)),
    key(MAX_ORCHESTRATION_DEPTH, Lowers, One(|| DEFAULT_MAX_ORCHESTRATION_DEPTH.into()), one!(max_orchestration_depth, whole)),
    key("agent.max_turns", Narrows, One(|| DEFAULT_BASE_TURNS.into()), one!(max_turns, own)),
    key("agent.max_agents", Narrows, One(|| DEFAULT_MAX_AGENTS.into()), one!(max_agents, own)),
    key("agent.max_tokens", Narrows, One(|| limit::NONE.into()), one!(max_tokens, own)),
    key("agent.max_usd", Narrows, One(|| limit::NONE.into()), one!(max_usd, own)),
    key("agent.max_time", Narrows, One(|| limit::NONE.into()), one!(max_time, own)),
    key("agent.idle_timeout", Narrows, One(|| limit::typed(Duration::from_millis(DEFAULT_IDLE_TIMEOUT_MS)).into()), one!(idle_timeout, own)),
    key("agent.parallel", Narrows, One(|| DEFAULT_PARALLEL.into()), one!(parallel, own)),
    key("agent.may_share_history", Narrows, One(|| false.into()), one!(may_share_history, yes_or_no)),
    key("agent.include_sub_agent_events", Narrows, One(|| false.into()), one!(include_sub_agent_events, yes_or_no)),
    key("on_ask", Narrows, One(|| "deny".into()), one!(on_ask, on_ask)),
    key("providers", Never, Words("the built-in ones"), None),
    key("prices", Never, Words("the built-in table"), None),
    key("proxy", Never, One(|| Value::Null), one!(proxy, text, address)),
    key("search.provider", Trusted, One(|| Value::Null), one!(search.provider, Provider::parse)),
    key("search.url", Never, One(|| Value::Null), one!(search.url, text, address)),
    key("search.key", Never, One(|| Value::Null), one!(search.key, Secret::parse, secret)),
    key("search.key_env", Never, Words("the provider's usual variable"), one!(search.key_env, text)),
    key("sandbox.level", Trusted, One(|| "namespaces".into()), one!(sandbox.level, file_only)),
    key("sandbox.read", Trusted, One(empty), one!(sandbox.read, file_only)),
    key("sandbox.env", Trusted, One(empty), one!(sandbox.env, file_only)),
    key("sandbox.concurrent", Trusted, Words("as many as the machine carries"), one!(sandbox.concurrent, file_only)),
    key("sandbox.memory_mb", Trusted, One(|| (BoxLimits::default().memory_bytes / MB).into()), one!(sandbox.memory_mb, file_only)),
    key("sandbox.processes", Trusted, One(|| BoxLimits::default().processes.into()), one!(sandbox.processes, file_only)),
    key("workspace.copy", Trusted, One(empty), one!(workspace.copy, list)),
    key("workspace.setup", Trusted, One(|| Value::Null), one!(workspace.setup, text)),
    key("workspace.caches", Trusted, Words("the usual ones, such as node_modules and target"), one!(workspace.caches, list)),
    key("workspace.max_run_mb", Trusted, One(|| (WorkspaceOptions::default().max_run_bytes / MB).into()), one!(workspace.max_run_mb, number)),
    key("workspace.max_files", Trusted, One(|| WorkspaceOptions::default().max_files.into()), one!(workspace.max_files, number)),
    key("workspace.max_file_mb", Trusted, One(|| (WorkspaceOptions::default().max_file_bytes / MB).into()), one!(workspace.max_file_mb, number)),
    key("gc.workspaces", Never, One(|| Age(GcRequest::default().workspaces_older_than).to_string().into()), one!(gc.workspaces, own)),
    key("gc.salvage", Never, One(|| Age(GcRequest::default().salvage_older_than).to_string().into()), one!(gc.salvage, own)),
    key("hooks", Trusted, One(|| Value::Null), None),
    key("rules", Lowers, One(empty), None),
];

/// The keys that hold one value.
pub(super) fn fields() -> impl Iterator<Item = (&'static Key, &'static dyn Field)> {
    KEYS.iter().filter_map(|key| Some((key, key.field?)))
}

/// The names of all keys.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|key| key.name)
}

/// The key of the table that an entry belongs to: those of one provider or price belong to all of them.
pub fn family(key: &str) -> &str {
    let top = key.split('.').next().unwrap_or(key);
    if ["providers", "prices"].contains(&top) { top } else { key }
}

/// What a project may do with a key.
pub fn in_project(key: &str) -> InProject {
    find(key).map_or(Never, |key| key.in_project)
}

/// What counts where no place states a key.
pub struct Default {
    /// As a file would say it; null if it is not one value.
    pub value: Value,
    /// What it is then, for people.
    pub words: Option<&'static str>,
}

/// What counts for a key that no place states.
pub fn default(key: &str) -> Default {
    match find(key).map(|key| &key.default) {
        Some(One(value)) => Default { value: value(), words: None },
        Some(Words(words)) => Default { value: Value::Null, words: Some(words) },
        None => Default { value: Value::Null, words: None },
    }
}

/// The key that an entry belongs to.
pub(super) fn find(key: &str) -> Option<&'static Key> {
    KEYS.iter().find(|known| known.name == family(key))
}

fn empty() -> Value {
    Value::Array(Vec::new())
}
