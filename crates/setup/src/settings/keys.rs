//! The table of settings. A row has everything about a key: its type, its field in [`Settings`], its default, its flag,
//! what a project's file may do with it, and its meaning. The file, the variables, the flags, merging, listing, the run
//! request, the schema and the page `docs/reference/settings.md` are all derived from the rows. A new key needs a field of
//! [`Settings`] and a row.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use posse::sandbox::Limits as BoxLimits;
use posse::{
    DEFAULT_MAX_AGENTS, DEFAULT_PARALLEL, GcRequest, OnAsk, PriceTag, Rules, RunRequest, WorkspaceOptions,
};
use posse_domain::budget::{DEFAULT_BASE_TURNS, DEFAULT_MAX_DEPTH, DEFAULT_MAX_ORCHESTRATION_DEPTH};
use posse_domain::contract::DEFAULT_IDLE_TIMEOUT_MS;
use schemars::{Schema, SchemaGenerator};
use serde::de::{IgnoredAny, MapAccess};
use serde_json::Value;

use super::entries::Secret;
use super::field::{
    Field, OneValue, address, age, file_only, limit, list, money, number, on_ask, secret, text, time, whole,
    word, yes_or_no,
};
use super::hooks::RawHooks;
use super::located::WithLine;
use super::providers::{PriceShape, ProviderName, RawProvider};
use super::sandbox::RequiredLevel;
use super::search::Provider;
use super::workspace::KindSetting;
use super::{MB, Origin, Settings};
use crate::age::Age;
use crate::limit::{self as limits, Limit, MoneyLimit, TimeLimit};

/// The depth of a run that sets none.
pub const MAX_DEPTH: &str = "agent.max_depth";
/// The depth that no run exceeds. Also the default of [`MAX_DEPTH`] if only this is set.
pub const MAX_ORCHESTRATION_DEPTH: &str = "agent.max_orchestration_depth";
/// Longest idle timeout: a silent model or tool must time out at some point.
const IDLE_MAX: Duration = Duration::from_hours(24);

/// What a project's file may do with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InProject {
    /// Applies at once if it narrows, and never otherwise.
    Lowers,
    /// Applies at once if it narrows, otherwise once the user trusts the file.
    Narrows,
    /// Applies once the user trusts the file.
    Trusted,
    /// Never applies, because it determines where keys, money or data go.
    Never,
}

use InProject::{Lowers, Narrows, Never, Trusted};

/// The value of a key that no layer sets.
enum DefaultSource {
    /// One value, as in a file.
    Value(fn() -> Value),
    /// More than one value, described for users.
    Words(&'static str),
}

use DefaultSource::{Value as One, Words};

/// The flag of the command that sets a key for one run.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// Its name, with dashes.
    pub name: &'static str,
    /// The placeholder of its value in a help text. Empty for a flag without a value, which sets `true`.
    pub value: &'static str,
}

#[expect(clippy::unnecessary_wraps, reason = "a row without a flag has `None` in the same place")]
const fn flag(name: &'static str, value: &'static str) -> Option<Flag> {
    Some(Flag { name, value })
}

/// One row of the table.
pub struct Key {
    /// Its name, with dots.
    pub name: &'static str,
    /// The meaning in a phrase, for users.
    pub meaning: &'static str,
    /// What a project's file may do with it.
    pub in_project: InProject,
    /// The flag that sets it for one run.
    pub flag: Option<Flag>,
    default: DefaultSource,
    /// Its value in [`Settings`]; `None` for a key with several values, which only a file can set.
    pub(super) field: Option<&'static dyn Field>,
    /// The schema of its value in a file.
    pub(super) schema: fn(&mut SchemaGenerator) -> Schema,
}

/// Creates the table and the function that reads the value of a row from a file. A row is the name, the type in a file,
/// the value, the class for projects, the default, the flag and the meaning. The value is `one` field of [`Settings`],
/// or `many` entries that a function takes from the file.
macro_rules! keys {
    ($($name:literal: $type:ty = $how:ident $value:tt, $project:expr, $default:expr, $flag:expr, $meaning:literal;)*) => {
        /// Every key, in the order of lists and pages.
        pub static KEYS: &[Key] = &[$(Key {
            name: $name,
            meaning: $meaning,
            in_project: $project,
            flag: $flag,
            default: $default,
            field: keys!(@field $how $value),
            schema: |generator| generator.subschema_for::<Option<$type>>(),
        }),*];

        /// Reads the value of a key from a file into the settings.
        pub(super) fn read_value<'de, A: MapAccess<'de>>(
            key: &str,
            map: &mut A,
            settings: &mut Settings,
            path: &Path,
        ) -> Result<(), A::Error> {
            match key {
                $($name => keys!(@read $how $value, $type, map, settings, path),)*
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
            Ok(())
        }
    };
    (@field one ($($field:ident).+, $kind:expr)) => {
        Some(&OneValue {
            get: |settings| settings.$($field).+.as_ref(),
            get_mut: |settings| &mut settings.$($field).+,
            kind: $kind,
        })
    };
    (@field many ($read:expr, $raw:ty)) => { None };
    (@read one ($($field:ident).+, $kind:expr), $type:ty, $map:ident, $settings:ident, $path:ident) => {
        $settings.$($field).+ = $map.next_value::<Option<WithLine<$type>>>()?.map(|value| value.sourced($path))
    };
    (@read many ($read:expr, $raw:ty), $type:ty, $map:ident, $settings:ident, $path:ident) => {
        if let Some(raw) = $map.next_value::<Option<$raw>>()? {
            $read($settings, raw, $path);
        }
    };
}

#[rustfmt::skip]
keys! {
    "model": String = one(model, text()), Trusted, Words("the default model of the first provider with a key, else of a local Ollama"), flag("--model", "MODEL"),
        "The model, as `provider/name`; `scripted/<file>` takes replies from a YAML script, `replay/<run>` and `replay/<file>.posse` from a recorded run";
    "agent.max_depth": u32 = one(max_depth, whole().narrows(|new, old| new < old)), Lowers, One(|| DEFAULT_MAX_DEPTH.into()), flag("--max-depth", "N"),
        "Deepest level of sub-agents; 0 allows none";
    "agent.max_orchestration_depth": u32 = one(max_orchestration_depth, whole().narrows(|new, old| new < old)), Lowers, One(|| DEFAULT_MAX_ORCHESTRATION_DEPTH.into()), None,
        "The depth that no run can exceed, whatever its request says";
    "agent.max_turns": Limit<1> = one(max_turns, limit().run(|turns, run| run.terms.base_turns = turns.as_u32())), Narrows, One(|| DEFAULT_BASE_TURNS.into()), flag("--max-turns", "N"),
        "Maximum number of turns of the root, halved with every level below it; `none` for no limit";
    "agent.max_agents": Limit<1> = one(max_agents, limit().run(|agents, run| run.budget.agents = agents.0)), Narrows, One(|| DEFAULT_MAX_AGENTS.into()), flag("--max-agents", "N"),
        "Maximum number of agents in the whole tree; `none` for no limit";
    "agent.max_tokens": Limit<0> = one(max_tokens, limit().run(|tokens, run| run.budget.tokens = tokens.0)), Narrows, One(|| limits::NONE.into()), flag("--max-tokens", "N"),
        "Maximum number of tokens of the whole tree; `none` for no limit";
    "agent.max_usd": MoneyLimit = one(max_usd, money().run(|usd, run| run.budget.usd = usd.0)), Narrows, One(|| limits::NONE.into()), flag("--max-usd", "USD"),
        "Maximum cost of the whole tree, in dollars; `none` for no limit";
    "agent.max_time": TimeLimit = one(max_time, time().run(|time, run| run.budget.wall_ms = time.0.map(milliseconds))), Narrows, One(|| limits::NONE.into()), flag("--max-time", "TIME"),
        "Maximum wall time of the run, such as 90s, 30m or 2h; `none` for no limit";
    "agent.idle_timeout": TimeLimit = one(idle_timeout, time().run(idle_timeout)), Narrows, One(|| limits::typed(Duration::from_millis(DEFAULT_IDLE_TIMEOUT_MS)).into()), None,
        "Maximum time without output from a model or a tool";
    "agent.parallel": Limit<1> = one(parallel, limit().run(|calls, run| run.terms.parallel = calls.as_u32().unwrap_or(u32::MAX))), Narrows, One(|| DEFAULT_PARALLEL.into()), flag("--parallel", "N"),
        "Maximum number of calls at once; `none` for no limit";
    "agent.may_share_history": bool = one(may_share_history, yes_or_no().run(|may, run| run.may_share_history = *may)), Narrows, One(|| false.into()), flag("--may-share-history", ""),
        "Let agents share their conversation with the sub-agents that they start";
    "agent.include_sub_agent_events": bool = one(include_sub_agent_events, yes_or_no().run(|include, run| run.terms.include_sub_agent_events = *include)), Narrows, One(|| false.into()), flag("--include-sub-agent-events", ""),
        "For embedders: the events of an agent as a task (`posse::Posse::task_events`) include those of the sub-agents below it";
    "on_ask": OnAsk = one(on_ask, on_ask().run(|on_ask, run| run.on_ask = *on_ask)), Narrows, One(|| "deny".into()), flag("--on-ask", "deny|escalate"),
        "What happens to a question that no user can answer at once: `deny` refuses the call, `escalate` lets it wait for an approver";
    "providers": BTreeMap<ProviderName, RawProvider> = many(Settings::read_providers, BTreeMap<ProviderName, WithLine<RawProvider>>), Never, Words("the built-in ones"), None,
        "Model providers, by the first part of a model's name";
    "prices": BTreeMap<String, PriceShape> = many(Settings::read_prices, BTreeMap<String, WithLine<PriceTag>>), Never, Words("the built-in table"), None,
        "Prices of models, in dollars per million tokens";
    "model_aliases": BTreeMap<String, String> = many(Settings::read_aliases, BTreeMap<String, WithLine<String>>), Never, Words("`sonnet`, `opus` and `haiku`"), None,
        "Short names for models, each with its `provider/name`";
    "proxy": String = one(proxy, text().shown(address)), Never, One(|| Value::Null), None,
        "The proxy for requests to models";
    "search.provider": Provider = one(search.provider, word(Provider::parse)), Trusted, One(|| Value::Null), None,
        "The search provider";
    "search.url": String = one(search.url, text().shown(address)), Never, One(|| Value::Null), None,
        "Base URL of the search provider";
    "search.key": Secret = one(search.key, word(Secret::parse).shown(secret)), Never, One(|| Value::Null), None,
        "The provider's key";
    "search.key_env": String = one(search.key_env, text()), Never, Words("the provider's usual variable"), None,
        "The environment variable with the key";
    "webhook.url": String = one(webhook.url, text().shown(address)), Never, One(|| Value::Null), None,
        "The address to which a server reports what happens in runs";
    "webhook.key": Secret = one(webhook.key, word(Secret::parse).shown(secret)), Never, One(|| Value::Null), None,
        "The key of the signatures of these reports";
    "webhook.key_env": String = one(webhook.key_env, text()), Never, One(|| Value::Null), None,
        "The environment variable with this key";
    "webhook.events": Vec<String> = one(webhook.events, list()), Never, Words("all"), None,
        "What is reported there: `run.ended`, `question.asked`";
    "sandbox.level": RequiredLevel = one(sandbox.level, file_only()), Trusted, One(|| "namespaces".into()), None,
        "The weakest isolation that a sandbox may have";
    "sandbox.read": Vec<String> = one(sandbox.read, file_only()), Trusted, One(empty), None,
        "More files and directories that commands can read";
    "sandbox.env": Vec<String> = one(sandbox.env, file_only()), Trusted, One(empty), None,
        "More environment variables that commands receive, by name";
    "sandbox.concurrent": u32 = one(sandbox.concurrent, file_only()), Trusted, Words("as many as the machine can run"), None,
        "How many commands run at once";
    "sandbox.memory_mb": u64 = one(sandbox.memory_mb, file_only()), Trusted, One(|| (BoxLimits::default().memory_bytes / MB).into()), None,
        "Memory of one command with all that it starts, in MiB";
    "sandbox.processes": u64 = one(sandbox.processes, file_only()), Trusted, One(|| BoxLimits::default().processes.into()), None,
        "Processes of one command";
    "workspace.kind": KindSetting = one(workspace.kind, word(KindSetting::parse)), Trusted, One(|| "auto".into()), None,
        "What workspaces consist of: `auto` for overlays where the machine can mount them, `copies` for copies of all files";
    "workspace.copy": Vec<String> = one(workspace.copy, list()), Trusted, One(empty), None,
        "Globs of ignored files that are copied into workspaces";
    "workspace.setup": String = one(workspace.setup, text()), Trusted, One(|| Value::Null), None,
        "A command that runs once in each new workspace, in the sandbox";
    "workspace.caches": Vec<String> = one(workspace.caches, list()), Trusted, Words("the usual ones, such as node_modules and target"), None,
        "Names of ignored directories that commands see without a copy";
    "workspace.max_run_mb": u64 = one(workspace.max_run_mb, number()), Trusted, One(|| (WorkspaceOptions::default().max_run_bytes / MB).into()), None,
        "Maximum disk space of all workspaces of a run, in MiB";
    "workspace.max_files": u64 = one(workspace.max_files, number()), Trusted, One(|| WorkspaceOptions::default().max_files.into()), None,
        "Maximum number of files in a project";
    "workspace.max_file_mb": u64 = one(workspace.max_file_mb, number()), Trusted, One(|| (WorkspaceOptions::default().max_file_bytes / MB).into()), None,
        "The largest file of a project, in MiB";
    "gc.workspaces": Age = one(gc.workspaces, age()), Never, One(|| Age(GcRequest::default().workspaces_older_than).to_string().into()), None,
        "The age from which workspaces of runs that have ended are removed";
    "gc.salvage": Age = one(gc.salvage, age()), Never, One(|| Age(GcRequest::default().salvage_older_than).to_string().into()), None,
        "The age from which salvaged work is removed";
    "hooks": RawHooks = many(Settings::read_hooks, RawHooks), Trusted, One(|| Value::Null), None,
        "Commands that are notified of agent actions and can block them";
    "rules": Rules = one(rules, file_only()), Lowers, One(empty), None,
        "Rules for the operations of agents; the last rule that matches an operation wins";
}

/// The sections of a file, each with its meaning.
pub(super) const SECTIONS: [(&str, &str); 6] = [
    ("agent", "Limits and defaults of runs"),
    ("search", "The provider of web searches"),
    ("webhook", "The address to which a server reports what happens"),
    ("sandbox", "What commands of agents can see and use"),
    ("workspace", "How workspaces are made"),
    ("gc", "When workspaces and salvaged work are removed"),
];

impl Key {
    /// Checks a text as a value of the key, as in variables and flags. The error names what was expected.
    pub fn check(&self, text: &str) -> Result<(), String> {
        self.set(&mut Settings::default(), text, Origin::Request(self.name))
    }

    /// Sets the key from the text of a variable or a flag.
    pub fn set(&self, settings: &mut Settings, text: &str, origin: Origin) -> Result<(), String> {
        match self.field {
            Some(field) => field.set(settings, text, origin),
            None => Err(super::field::FILE_ONLY.to_owned()),
        }
    }

    /// The value if no layer sets the key.
    pub fn default(&self) -> Default {
        match self.default {
            One(value) => Default { value: value(), words: None },
            Words(words) => Default { value: Value::Null, words: Some(words) },
        }
    }

    /// The section of a file that it is in, and its name there.
    pub(super) fn in_file(&self) -> (Option<&'static str>, &'static str) {
        self.name.split_once('.').map_or((None, self.name), |(section, name)| (Some(section), name))
    }
}

/// The keys that have a flag.
pub fn with_flag() -> impl Iterator<Item = (&'static Key, Flag)> {
    KEYS.iter().filter_map(|key| Some((key, key.flag?)))
}

/// The keys with one value.
pub(super) fn fields() -> impl Iterator<Item = (&'static Key, &'static dyn Field)> {
    KEYS.iter().filter_map(|key| Some((key, key.field?)))
}

/// The names of all keys.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|key| key.name)
}

/// The names that may be written in a section of a file, or at its top, in the order of the table.
pub(super) fn names_in(section: Option<&'static str>) -> &'static [&'static str] {
    static NAMES: LazyLock<BTreeMap<Option<&str>, Vec<&str>>> = LazyLock::new(|| {
        let mut names: BTreeMap<Option<&str>, Vec<&str>> = BTreeMap::new();
        for key in KEYS {
            let (section, name) = key.in_file();
            names.entry(section).or_default().push(name);
            let top = names.entry(None).or_default();
            if let Some(section) = section.filter(|section| !top.contains(section)) {
                top.push(section);
            }
        }
        names
    });
    NAMES.get(&section).map(Vec::as_slice).unwrap_or_default()
}

/// The key of the table that an entry belongs to: the entries of all providers or prices share one key.
pub fn family(key: &str) -> &str {
    let top = key.split('.').next().unwrap_or(key);
    if ["providers", "prices", "model_aliases"].contains(&top) { top } else { key }
}

/// What a project may do with a key.
pub fn in_project(key: &str) -> InProject {
    find(key).map_or(Never, |key| key.in_project)
}

/// The value of a key that no layer sets.
pub struct Default {
    /// As in a file; null if it is not one value.
    pub value: Value,
    /// A description for users, if it is not one value.
    pub words: Option<&'static str>,
}

/// The value of a key that no layer sets.
pub fn default(key: &str) -> Default {
    find(key).map_or(Default { value: Value::Null, words: None }, Key::default)
}

/// The key that an entry belongs to.
pub(super) fn find(key: &str) -> Option<&'static Key> {
    KEYS.iter().find(|known| known.name == family(key))
}

fn empty() -> Value {
    Value::Array(Vec::new())
}

fn milliseconds(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

fn idle_timeout(limit: &TimeLimit, run: &mut RunRequest) {
    run.idle_timeout_ms = milliseconds(limit.0.unwrap_or(IDLE_MAX).min(IDLE_MAX));
}
