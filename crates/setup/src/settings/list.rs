//! Lists all settings of a directory: effective values with their origins, and values without effect with the reason.

use std::path::Path;

use posse::api::{ProjectSettingsFile, Setting, SettingLayer, SettingsList, UnusedValue};
use posse::effective_max_depth;
use serde_json::Value;

use super::entries::{Entry, secret_of, without_secrets};
use super::keys::{self, KEYS};
use super::project::{ProjectFile, counts};
use super::{Origin, ResolvedSettings, Settings, WithOrigin};
use crate::Setup;
use crate::error::SetupError;
use crate::hooks;
use crate::models::usual_proxy;
use crate::notes::Note;

impl ResolvedSettings {
    /// The effective settings of a directory, with notes about hooks that no call matches there.
    pub fn with_unused_matchers(setup: &Setup, dir: &Path) -> Result<Self, SetupError> {
        let mut resolved = Self::of(setup, dir)?;
        resolved.notes.extend(hooks::unused_matchers_in(dir, &resolved.settings, setup)?);
        Ok(resolved)
    }

    /// Every setting. `words` converts a note to the front end's words. The list contains no key or password.
    pub fn list(&self, setup: &Setup, words: impl Fn(&Note) -> String) -> SettingsList {
        SettingsList {
            user_file: setup.environment.settings_file.clone(),
            project_files: self.project.iter().map(project_file).collect(),
            settings: rows(self, setup),
            notes: self.notes.iter().map(words).collect(),
        }
    }
}

fn project_file(file: &ProjectFile) -> ProjectSettingsFile {
    ProjectSettingsFile { path: file.path.clone(), trust: file.standing, usable: file.settings.is_ok() }
}

/// Every key, in the order of the table. A key that no layer sets has its default.
fn rows(resolved: &ResolvedSettings, setup: &Setup) -> Vec<Setting> {
    let counting = resolved.settings.entries();
    let usual = usual(resolved, setup);
    let unused = unused(resolved, &counting);
    let mut rows = Vec::new();
    for key in KEYS.iter().map(|key| key.name) {
        let set = counting.iter().filter(|entry| keys::family(&entry.key) == key);
        let before = rows.len();
        rows.extend(set.map(|entry| Setting {
            key: entry.key.clone(),
            value: entry.value.clone(),
            words: None,
            origin: entry.origin.to_string(),
            from: from(&entry.origin, &resolved.project),
            unused: Vec::new(),
        }));
        rows.extend(usual.iter().filter(|(known, ..)| *known == key).map(|(_, name, value, variable)| {
            Setting {
                key: name.clone(),
                value: value.clone(),
                words: None,
                origin: variable.clone(),
                from: SettingLayer::Variable,
                unused: Vec::new(),
            }
        }));
        if rows.len() == before {
            let keys::Default { value, words } = keys::default(key);
            rows.push(Setting {
                key: key.to_owned(),
                value,
                words: words.map(str::to_owned),
                origin: "default".to_owned(),
                from: SettingLayer::Default,
                unused: Vec::new(),
            });
        }
    }
    for (key, word) in unused {
        let row = rows.iter_mut().rev().find(|row| row.key == key || row.key == keys::family(&key));
        if let Some(row) = row {
            row.unused.push(word);
        }
    }
    depth_that_counts(&mut rows, &resolved.settings);
    rows
}

/// Two keys limit the depth of runs: the ceiling is also the default if only it is set, and no depth exceeds it.
fn depth_that_counts(rows: &mut [Setting], settings: &Settings) {
    let value = |set: Option<&WithOrigin<u32>>| set.map(|set| set.value);
    let own = value(settings.max_depth.as_ref());
    let ceiling = value(settings.max_orchestration_depth.as_ref());
    let counts = effective_max_depth(None, own, ceiling);
    if own == Some(counts) || own.is_none() && ceiling.is_none() {
        return;
    }
    let of_ceiling = rows.iter().find(|row| row.key == keys::MAX_ORCHESTRATION_DEPTH);
    let Some((origin, from)) = of_ceiling.map(|row| (row.origin.clone(), row.from)) else { return };
    let Some(row) = rows.iter_mut().find(|row| row.key == keys::MAX_DEPTH) else { return };
    let (value, set_in) =
        (std::mem::replace(&mut row.value, counts.into()), std::mem::replace(&mut row.origin, origin));
    row.from = from;
    if own.is_some() {
        let why = format!("{} is lower", keys::MAX_ORCHESTRATION_DEPTH);
        row.unused.insert(0, UnusedValue { value, origin: set_in, why });
    }
}

/// Values from well-known variables of other programs: keys and the proxy. Each has a key of the table, the name of the
/// row, the shown value and the variable.
fn usual(resolved: &ResolvedSettings, setup: &Setup) -> Vec<(&'static str, String, Value, String)> {
    let variables = &setup.environment.variables;
    let providers = resolved.settings.providers.providers(variables);
    let mut usual = Vec::new();
    for name in providers.names() {
        let origin = providers.key_origin(name).ok().flatten();
        if let Some(variable) = origin.filter(|origin| variables.iter().any(|(known, _)| known == origin)) {
            let shown = secret_of(&variable);
            usual.push(("providers", format!("providers.{name}.key"), shown, variable));
        }
    }
    if let Some(variable) = resolved.settings.search.key_variable(variables) {
        let shown = secret_of(variable);
        usual.push(("search.key", "search.key".to_owned(), shown, variable.to_owned()));
    }
    if resolved.settings.proxy.is_none()
        && let Some((variable, url)) = usual_proxy(setup)
    {
        usual.push(("proxy", "proxy".to_owned(), without_secrets(&url).into(), variable.to_owned()));
    }
    usual
}

/// Values that are set but have no effect, by key.
fn unused(resolved: &ResolvedSettings, counting: &[Entry]) -> Vec<(String, UnusedValue)> {
    let files = &resolved.project;
    let of_project = files.iter().filter_map(|file| file.settings.as_ref().ok()).flat_map(Settings::entries);
    let all = resolved.variables.entries().into_iter().chain(of_project).chain(resolved.file.entries());
    let mut unused = Vec::new();
    for entry in all.filter(|entry| !counts(entry, counting)) {
        let winner = counting.iter().find(|other| other.key == entry.key);
        let why = match (files.iter().find(|file| file.has(&entry.origin)), winner) {
            (Some(file), _) => file.why_not(&entry.key, counting, files),
            (_, Some(winner)) => format!("{} is used instead", winner.origin),
            (_, None) => "it is ignored".to_owned(),
        };
        unused.push((entry.key, UnusedValue { value: entry.value, origin: entry.origin.to_string(), why }));
    }
    unused
}

fn from(origin: &Origin, project: &[ProjectFile]) -> SettingLayer {
    match origin {
        Origin::File { .. } if project.iter().any(|file| file.has(origin)) => SettingLayer::Project,
        Origin::File { .. } => SettingLayer::User,
        Origin::Variable(_) => SettingLayer::Variable,
        Origin::Request(_) => SettingLayer::Flag,
    }
}
