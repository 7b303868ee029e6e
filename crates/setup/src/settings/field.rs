//! Keys that hold one value: how a variable is read, how places are merged, and how the value is shown, once for all.

use serde::Serialize;
use serde_json::Value;

use super::entries::{Entries, Secret, secret_of, without_secrets};
use super::{Origin, Settings, WithOrigin};

/// A key that holds one value, whatever its type.
pub(super) trait Field: Sync {
    /// Sets it from the text of a variable.
    fn set(&self, settings: &mut Settings, text: &str, origin: Origin) -> Result<(), String>;
    /// Takes it from the other settings where these have none.
    fn fill(&self, settings: &mut Settings, other: &mut Settings);
    /// Takes it from a project's files that the user trusts, unless a variable states it.
    fn choose(&self, own: &mut Settings, project: &Settings);
    /// Adds it under its key, if it is stated.
    fn list(&self, key: &str, settings: &Settings, entries: &mut Entries);
}

/// Where such a value is, how its text is read, and how it is shown.
pub(super) struct OneValue<T> {
    pub(super) get: fn(&Settings) -> Option<&WithOrigin<T>>,
    pub(super) get_mut: fn(&mut Settings) -> &mut Option<WithOrigin<T>>,
    pub(super) parse: fn(&str) -> Result<T, String>,
    pub(super) show: fn(&WithOrigin<T>) -> Value,
}

impl<T: Clone> Field for OneValue<T> {
    fn set(&self, settings: &mut Settings, text: &str, origin: Origin) -> Result<(), String> {
        let value = (self.parse)(text)?;
        *(self.get_mut)(settings) = Some(WithOrigin { value, origin });
        Ok(())
    }

    fn fill(&self, settings: &mut Settings, other: &mut Settings) {
        let value = (self.get_mut)(settings);
        if value.is_none() {
            *value = (self.get_mut)(other).take();
        }
    }

    fn choose(&self, own: &mut Settings, project: &Settings) {
        let is_variable = |own: &WithOrigin<T>| matches!(own.origin, Origin::Variable(_));
        if let Some(stated) = (self.get)(project)
            && !(self.get)(own).is_some_and(is_variable)
        {
            *(self.get_mut)(own) = Some(stated.clone());
        }
    }

    fn list(&self, key: &str, settings: &Settings, entries: &mut Entries) {
        if let Some(stated) = (self.get)(settings) {
            entries.push(key, (self.show)(stated), &stated.origin);
        }
    }
}

/// Shows a value as a file would state it.
pub(super) fn plain<T: Serialize>(stated: &WithOrigin<T>) -> Value {
    serde_json::to_value(&stated.value).unwrap_or_default()
}

/// Shows an address without its secrets.
pub(super) fn address(stated: &WithOrigin<String>) -> Value {
    without_secrets(&stated.value).into()
}

/// Shows where a secret is written.
pub(super) fn secret(stated: &WithOrigin<Secret>) -> Value {
    secret_of(&stated.origin.to_string())
}

/// Reads a value by its own rules.
pub(super) fn own<T: std::str::FromStr<Err = String>>(text: &str) -> Result<T, String> {
    text.parse()
}

/// Reads any text.
#[expect(clippy::unnecessary_wraps, reason = "one of the readers of a table, and others can fail")]
pub(super) fn text(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

/// Reads the parts between commas.
#[expect(clippy::unnecessary_wraps, reason = "one of the readers of a table, and others can fail")]
pub(super) fn list(text: &str) -> Result<Vec<String>, String> {
    let parts = text.split(',').map(|part| part.trim().to_owned());
    Ok(parts.filter(|part| !part.is_empty()).collect())
}

/// Reads a number that may be 0.
pub(super) fn whole(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("expected a whole number of at least 0, found `{text}`"))
}

/// Reads a number that counts something.
pub(super) fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("expected a whole number of at least 1, found `{text}`"))
}

/// Reads a word for yes or no.
pub(super) fn yes_or_no(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("expected `true` or `false`, found `{text}`"))
}

/// Refuses a variable for what only a file can state.
pub(super) fn file_only<T>(_: &str) -> Result<T, String> {
    Err(FILE_ONLY.to_owned())
}

/// Why a variable cannot set a key.
pub(super) const FILE_ONLY: &str = "can only be set in the settings file";
