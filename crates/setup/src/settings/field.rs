//! The behaviour of keys with one value, once for all types: parsing, merging of layers, narrowing by a project,
//! transfer to the run request, display.

use std::str::FromStr;

use posse::{OnAsk, RunRequest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::entries::{Entries, Secret, secret_of, without_secrets};
use super::{Origin, Settings, WithOrigin};
use crate::age::Age;
use crate::limit::{Limit, LimitAmount, MoneyLimit, TimeLimit};

/// A key with one value of any type.
pub(super) trait Field: Sync {
    /// Sets it from the text of a variable or a flag.
    fn set(&self, settings: &mut Settings, text: &str, origin: Origin) -> Result<(), String>;
    /// Takes it from the other settings if these have none.
    fn fill(&self, settings: &mut Settings, other: &mut Settings);
    /// Takes it from a project's trusted files, unless a variable sets it.
    fn choose(&self, own: &mut Settings, project: &Settings);
    /// Takes it from a project's file if that narrows it. `default` is the value if `own` has none.
    fn narrow(&self, own: &mut Settings, project: &Settings, default: &Value);
    /// Whether [`narrow`](Self::narrow) ever changes a value, also if only the default is there to compare with.
    #[cfg(test)]
    fn can_narrow(&self, default: &Value) -> bool;
    /// Adds it under its key, if it is set.
    fn list(&self, key: &str, settings: &Settings, entries: &mut Entries);
    /// Copies it to the run request, if it is set and is an option of runs.
    fn apply(&self, settings: &Settings, request: &mut RunRequest);
}

/// Access to a value in the settings, and the behaviour of its type.
pub(super) struct OneValue<T> {
    pub(super) get: fn(&Settings) -> Option<&WithOrigin<T>>,
    pub(super) get_mut: fn(&mut Settings) -> &mut Option<WithOrigin<T>>,
    pub(super) kind: ValueType<T>,
}

/// The operations on the values of a key.
pub(super) struct ValueType<T> {
    parse: fn(&str) -> Result<T, String>,
    show: fn(&WithOrigin<T>) -> Value,
    /// Whether the new value is narrower than the old one; `None` for a key that a project cannot narrow.
    narrows: Option<fn(new: &T, old: &T) -> bool>,
    /// Copies the value to the run request.
    run: Option<fn(&T, &mut RunRequest)>,
}

impl<T> ValueType<T> {
    /// Lets a project narrow the values.
    pub(super) const fn narrows(mut self, narrows: fn(&T, &T) -> bool) -> Self {
        self.narrows = Some(narrows);
        self
    }

    /// Makes the key an option of runs.
    pub(super) const fn run(mut self, run: fn(&T, &mut RunRequest)) -> Self {
        self.run = Some(run);
        self
    }

    /// Shows values in another form than in a file.
    pub(super) const fn shown(mut self, show: fn(&WithOrigin<T>) -> Value) -> Self {
        self.show = show;
        self
    }
}

impl<T: Clone + DeserializeOwned> Field for OneValue<T> {
    fn set(&self, settings: &mut Settings, text: &str, origin: Origin) -> Result<(), String> {
        let value = (self.kind.parse)(text)?;
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

    fn narrow(&self, own: &mut Settings, project: &Settings, default: &Value) {
        let (Some(narrows), Some(stated)) = (self.kind.narrows, (self.get)(project)) else { return };
        let is_narrower = match (self.get)(own) {
            Some(own) => narrows(&stated.value, &own.value),
            None => T::deserialize(default).is_ok_and(|default| narrows(&stated.value, &default)),
        };
        if is_narrower {
            *(self.get_mut)(own) = Some(stated.clone());
        }
    }

    #[cfg(test)]
    fn can_narrow(&self, default: &Value) -> bool {
        self.kind.narrows.is_some() && T::deserialize(default).is_ok()
    }

    fn list(&self, key: &str, settings: &Settings, entries: &mut Entries) {
        if let Some(stated) = (self.get)(settings) {
            entries.push(key, (self.kind.show)(stated), &stated.origin);
        }
    }

    fn apply(&self, settings: &Settings, request: &mut RunRequest) {
        if let (Some(run), Some(stated)) = (self.kind.run, (self.get)(settings)) {
            run(&stated.value, request);
        }
    }
}

/// Values that are shown as in a file, and parsed from a text by this function.
pub(super) const fn word<T: Serialize>(parse: fn(&str) -> Result<T, String>) -> ValueType<T> {
    ValueType { parse, show: plain, narrows: None, run: None }
}

/// Any text.
pub(super) const fn text() -> ValueType<String> {
    word(|text| Ok(text.to_owned()))
}

/// The parts between commas.
pub(super) const fn list() -> ValueType<Vec<String>> {
    word(|text| {
        let parts = text.split(',').map(|part| part.trim().to_owned());
        Ok(parts.filter(|part| !part.is_empty()).collect())
    })
}

/// A number that may be 0.
pub(super) const fn whole() -> ValueType<u32> {
    word(|text| text.parse().map_err(|_| format!("expected a whole number of at least 0, found `{text}`")))
}

/// A number of at least 1.
pub(super) const fn number() -> ValueType<u64> {
    word(|text| text.parse().map_err(|_| format!("expected a whole number of at least 1, found `{text}`")))
}

/// `true` or `false`; only `false` narrows.
pub(super) const fn yes_or_no() -> ValueType<bool> {
    word(|text| text.parse().map_err(|_| format!("expected `true` or `false`, found `{text}`")))
        .narrows(|new, _| !*new)
}

/// The policy for questions; only `deny` narrows.
pub(super) const fn on_ask() -> ValueType<OnAsk> {
    word(super::on_ask).narrows(|new, _| *new == OnAsk::Deny)
}

/// A number or no limit. A value that is not larger narrows.
pub(super) const fn limit<const LEAST: u64>() -> ValueType<Limit<LEAST>> {
    word(FromStr::from_str).narrows(is_not_larger)
}

/// Dollars or no limit.
pub(super) const fn money() -> ValueType<MoneyLimit> {
    word(FromStr::from_str).narrows(is_not_larger)
}

/// A time or no limit.
pub(super) const fn time() -> ValueType<TimeLimit> {
    word(FromStr::from_str).narrows(is_not_larger)
}

/// An age.
pub(super) const fn age() -> ValueType<Age> {
    word(FromStr::from_str)
}

/// Values that only a file can set.
pub(super) const fn file_only<T: Serialize>() -> ValueType<T> {
    word(|_| Err(FILE_ONLY.to_owned()))
}

/// Why a variable cannot set a key.
pub(super) const FILE_ONLY: &str = "can only be set in the settings file";

fn is_not_larger<T: LimitAmount>(new: &T, old: &T) -> bool {
    new.measure() <= old.measure()
}

/// Shows a value as in a file.
fn plain<T: Serialize>(stated: &WithOrigin<T>) -> Value {
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
