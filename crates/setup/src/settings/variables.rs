//! Settings in environment variables: `POSSE_AGENT__MAX_DEPTH` is `agent.max_depth`.

use std::str::FromStr;

use posse_domain::nearest::{hint, nearest};

use super::keys;
use super::{Origin, Settings, WithOrigin, on_ask};
use crate::environment::{POSSE_HOME, POSSE_LOG, SETTINGS_PREFIX};
use crate::error::{Remedy, SetupError};
use crate::limit::Limit;

/// Variables that are read before any setting.
const NO_SETTINGS: [&str; 2] = [POSSE_HOME, POSSE_LOG];
/// Stands for a dot: shells allow none in a name.
const DOT: &str = "__";

/// Begins the names that are left to programs around Posse, such as its tests.
const OTHERS: &str = "POSSE_TEST_";

/// Reads the settings among the variables. Every other name that begins as theirs do is an error: a limit that was
/// misspelled must not be silently none.
pub(super) fn read(variables: &[(String, String)]) -> Result<Settings, SetupError> {
    let mut settings = Settings::default();
    for (name, value) in variables {
        let Some(rest) = name.strip_prefix(SETTINGS_PREFIX) else { continue };
        if NO_SETTINGS.contains(&name.as_str()) || name.starts_with(OTHERS) || value.is_empty() {
            continue;
        }
        let key = rest.to_ascii_lowercase().replace(DOT, ".");
        // What belongs to a key that only a file can say is refused there.
        if keys::names().any(|known| known == keys::family(&key)) {
            let set = settings.set(&key, value, name);
            set.map_err(|problem| SetupError::usage(format!("{name}: {problem}")))?;
        } else {
            return Err(unknown(name, rest));
        }
    }
    Ok(settings)
}

/// What all names begin with alike makes none of them more like another.
fn unknown(name: &str, rest: &str) -> SetupError {
    let known: Vec<String> = keys::names().map(variable).chain(NO_SETTINGS.map(str::to_owned)).collect();
    let rests = known.iter().filter_map(|known| known.strip_prefix(SETTINGS_PREFIX));
    // A key without the name of its section is one that was half written.
    let whole = || {
        keys::names().find(|key| key.split_once('.').is_some_and(|(_, last)| rest.eq_ignore_ascii_case(last)))
    };
    let near = nearest(rest, rests).map(|near| format!("{SETTINGS_PREFIX}{near}"));
    let near = whole().map(variable).or(near);
    SetupError::usage(format!("{name}: there is no such setting{}", hint(near.as_deref())))
        .remedy(Remedy::ListSettings)
}

/// The variable of a key.
fn variable(key: &str) -> String {
    format!("{SETTINGS_PREFIX}{}", key.replace('.', DOT).to_ascii_uppercase())
}

impl Settings {
    fn set(&mut self, key: &str, value: &str, name: &str) -> Result<(), String> {
        match key {
            "model" => self.model = sourced(value.to_owned(), name),
            "agent.max_depth" => self.max_depth = sourced(whole(value)?, name),
            "agent.max_orchestration_depth" => self.max_orchestration_depth = sourced(whole(value)?, name),
            "agent.max_turns" => self.max_turns = sourced(Limit::from_str(value)?, name),
            "agent.max_agents" => self.max_agents = sourced(Limit::from_str(value)?, name),
            "agent.max_tokens" => self.max_tokens = sourced(Limit::from_str(value)?, name),
            "agent.max_usd" => self.max_usd = sourced(value.parse()?, name),
            "agent.max_time" => self.max_time = sourced(value.parse()?, name),
            "agent.idle_timeout" => self.idle_timeout = sourced(value.parse()?, name),
            "proxy" => self.proxy = sourced(value.to_owned(), name),
            "agent.parallel" => self.parallel = sourced(Limit::from_str(value)?, name),
            "agent.may_share_history" => self.may_share_history = sourced(yes_or_no(value)?, name),
            "agent.include_sub_agent_events" => {
                self.include_sub_agent_events = sourced(yes_or_no(value)?, name);
            }
            "on_ask" => self.on_ask = sourced(on_ask(value)?, name),
            _ => match key.split_once('.') {
                Some(("search", key)) => self.search.set(key, value, name)?,
                Some(("workspace", key)) => self.workspace.set(key, value, name)?,
                Some(("gc", key)) => self.gc.set(key, value, name)?,
                _ => return Err("can only be set in the settings file".to_owned()),
            },
        }
        Ok(())
    }
}

fn whole(value: &str) -> Result<u32, String> {
    value.parse().map_err(|_| format!("expected a whole number of at least 0, found `{value}`"))
}

fn yes_or_no(value: &str) -> Result<bool, String> {
    value.parse().map_err(|_| format!("expected `true` or `false`, found `{value}`"))
}

#[expect(clippy::unnecessary_wraps, reason = "every setting is optional; this is where one becomes set")]
fn sourced<T>(value: T, name: &str) -> Option<WithOrigin<T>> {
    Some(WithOrigin { value, origin: Origin::Variable(name.to_owned()) })
}
