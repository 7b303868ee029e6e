//! Reads settings from environment variables: `POSSE_AGENT__MAX_DEPTH` is `agent.max_depth`.

use posse_domain::nearest::{hint, nearest};

use super::keys;
use super::{Origin, Settings};
use crate::environment::{
    Environment, POSSE_HOME, POSSE_LOG, POSSE_SERVER, POSSE_SERVER_TOKEN, POSSE_SERVER_TOKEN_FILE,
    SETTINGS_PREFIX,
};
use crate::error::{Remedy, SetupError};

/// Variables that are read before any setting.
const NO_SETTINGS: [&str; 5] =
    [POSSE_HOME, POSSE_LOG, POSSE_SERVER, POSSE_SERVER_TOKEN, POSSE_SERVER_TOKEN_FILE];
/// Replaces a dot, which shells do not allow in a name.
const DOT: &str = "__";

/// The prefix of variables that belong to programs around Posse, such as its tests.
const OTHERS: &str = "POSSE_TEST_";

/// Reads the settings among the variables. Any other name with their prefix is an error: a misspelled limit must not
/// silently mean no limit.
pub(super) fn read(variables: &[(String, String)]) -> Result<Settings, SetupError> {
    let mut settings = Settings::default();
    for (name, value) in variables {
        let Some(rest) = name.strip_prefix(SETTINGS_PREFIX) else { continue };
        if NO_SETTINGS.contains(&name.as_str()) || name.starts_with(OTHERS) || value.is_empty() {
            continue;
        }
        let key = rest.to_ascii_lowercase().replace(DOT, ".");
        let Some(known) = keys::find(&key) else { return Err(unknown(name, rest)) };
        let set = known.set(&mut settings, value, Origin::Variable(name.clone()));
        set.map_err(|problem| SetupError::usage(format!("{name}: {problem}")))?;
    }
    Ok(settings)
}

/// Checks the variables for front ends that use no settings: a misspelled name is a mistake wherever it is seen.
pub fn check_variables(environment: &Environment) -> Result<(), SetupError> {
    read(&environment.variables).map(drop)
}

/// The nearest name is searched without the common prefix, which would make all names similar.
fn unknown(name: &str, rest: &str) -> SetupError {
    let known: Vec<String> = keys::names().map(variable).chain(NO_SETTINGS.map(str::to_owned)).collect();
    let rests = known.iter().filter_map(|known| known.strip_prefix(SETTINGS_PREFIX));
    // The name of the section may be missing.
    let whole = || {
        keys::names().find(|key| key.split_once('.').is_some_and(|(_, last)| rest.eq_ignore_ascii_case(last)))
    };
    let near = nearest(rest, rests).map(|near| format!("{SETTINGS_PREFIX}{near}"));
    let near = whole().map(variable).or(near);
    SetupError::usage(format!("{name}: unknown setting{}", hint(near.as_deref())))
        .remedy(Remedy::ListSettings)
}

/// The variable of a key.
pub(super) fn variable(key: &str) -> String {
    format!("{SETTINGS_PREFIX}{}", key.replace('.', DOT).to_ascii_uppercase())
}
