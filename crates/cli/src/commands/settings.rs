//! `posse settings`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use posse::effective_max_depth;
use serde::Serialize;
use serde_json::Value;

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::hooks;
use crate::models::usual_proxy;
use crate::output::{Output, note};
use crate::settings::entries::{Entry, origin_of_secret, secret_of, without_secrets};
use crate::settings::keys::{self, KEYS};
use crate::settings::project::{ProjectFile, counts};
use crate::settings::{Origin, ResolvedSettings, Settings, WithOrigin, schema};
use crate::term;
use crate::trust::TrustState;

/// Width of the column of keys.
const KEY_WIDTH: usize = 31;

/// Show every setting with where it was written
///
/// Your own file comes first, then the project's, which may only narrow until you trust them, then variables such as
/// `POSSE_MODEL`; flags of a run come last. What does not count is shown with the reason. No key or password is shown.
#[derive(Debug, clap::Args)]
pub(crate) struct SettingsArgs {
    /// The directory of the project [default: the current one]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print the JSON Schema of a settings file, for editors
    #[arg(long, conflicts_with_all = ["dir", "json"])]
    schema: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A setting with all that was said about it.
#[derive(Debug, Serialize)]
struct Row {
    key: String,
    /// As a file would say it; for a secret where it is set, null for what is not one value.
    value: Value,
    /// What stands for a default that is not one value.
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<&'static str>,
    origin: String,
    /// Whose word it is: `default`, `user`, `project` or `variable`.
    from: &'static str,
    /// What was said and does not count.
    unused: Vec<UnusedSetting>,
}

impl Row {
    /// What counts, for people.
    fn shown(&self) -> String {
        self.words.map_or_else(|| shown(&self.value), str::to_owned)
    }
}

#[derive(Debug, Serialize)]
struct UnusedSetting {
    value: Value,
    origin: String,
    why: String,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    /// The person's own file, whether it is there or not.
    user_file: Option<&'a Path>,
    /// The project's files, the nearest first.
    project_files: Vec<ProjectPart<'a>>,
    settings: Vec<Row>,
    notes: &'a [String],
}

/// One settings file of the project.
#[derive(Debug, Serialize)]
struct ProjectPart<'a> {
    path: &'a Path,
    /// `trusted`, `changed` or `new`.
    trust: TrustState,
    /// Whether it can be read; one that cannot is ignored.
    usable: bool,
}

impl<'a> ProjectPart<'a> {
    fn of(file: &'a ProjectFile) -> Self {
        Self { path: &file.path, trust: file.standing, usable: file.said.is_ok() }
    }
}

/// Shows the settings.
pub(crate) fn settings(args: &SettingsArgs, context: &Context) -> Result<Exit, CliError> {
    let mut output = Output::new();
    if args.schema {
        output.own(&format!("{:#}\n", schema()))?;
        output.flush()?;
        return Ok(Exit::DONE);
    }
    let cwd = &context.environment.cwd;
    let dir = args.dir.as_ref().map_or_else(|| cwd.clone(), |dir| cwd.join(dir));
    if !dir.is_dir() {
        return Err(CliError::usage(format!("{}: is not a directory", dir.display())));
    }
    let mut resolved = ResolvedSettings::of(context, &dir)?;
    resolved.notes.extend(hooks::unheard_in(&dir, &resolved.settings, context)?);
    let report = Report {
        user_file: context.environment.settings_file.as_deref(),
        project_files: resolved.project.iter().map(ProjectPart::of).collect(),
        settings: rows(&resolved, context),
        notes: resolved.notes.as_slice(),
    };
    if args.json {
        output.json(&report)?;
    } else {
        output.text(&page(&report))?;
        output.flush()?;
        for line in &resolved.notes {
            note(line);
        }
    }
    output.flush()?;
    Ok(Exit::DONE)
}

/// Every key, in the order of the table; those that nobody said with their default.
fn rows(resolved: &ResolvedSettings, context: &Context) -> Vec<Row> {
    let counting = resolved.settings.entries();
    let usual = usual(resolved, context);
    let unused = unused(resolved, &counting);
    let mut rows = Vec::new();
    for key in KEYS.iter().map(|key| key.name) {
        let said = counting.iter().filter(|entry| keys::family(&entry.key) == key);
        let before = rows.len();
        rows.extend(said.map(|entry| Row {
            key: entry.key.clone(),
            value: entry.value.clone(),
            words: None,
            origin: entry.origin.to_string(),
            from: from(&entry.origin, &resolved.project),
            unused: Vec::new(),
        }));
        rows.extend(usual.iter().filter(|(known, ..)| *known == key).map(|(_, name, value, variable)| Row {
            key: name.clone(),
            value: value.clone(),
            words: None,
            origin: variable.clone(),
            from: "variable",
            unused: Vec::new(),
        }));
        if rows.len() == before {
            let keys::Default { value, words } = keys::default(key);
            rows.push(Row {
                key: key.to_owned(),
                value,
                words,
                origin: "default".to_owned(),
                from: "default",
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

/// Two keys say how deep runs go: the ceiling is the default too if it alone is said, and no depth exceeds it.
fn depth_that_counts(rows: &mut [Row], settings: &Settings) {
    let value = |said: Option<&WithOrigin<u32>>| said.map(|said| said.value);
    let said = value(settings.max_depth.as_ref());
    let ceiling = value(settings.max_orchestration_depth.as_ref());
    let counts = effective_max_depth(None, said, ceiling);
    if said == Some(counts) || said.is_none() && ceiling.is_none() {
        return;
    }
    let of_ceiling = rows.iter().find(|row| row.key == keys::MAX_ORCHESTRATION_DEPTH);
    let Some((origin, from)) = of_ceiling.map(|row| (row.origin.clone(), row.from)) else { return };
    let Some(row) = rows.iter_mut().find(|row| row.key == keys::MAX_DEPTH) else { return };
    let (value, said_in) =
        (std::mem::replace(&mut row.value, counts.into()), std::mem::replace(&mut row.origin, origin));
    row.from = from;
    if said.is_some() {
        let why = format!("{} is lower", keys::MAX_ORCHESTRATION_DEPTH);
        row.unused.insert(0, UnusedSetting { value, origin: said_in, why });
    }
}

/// What is taken from the usual variables of others: keys and the proxy. A key of the table each, with the name of the row,
/// what is shown and the variable.
fn usual(resolved: &ResolvedSettings, context: &Context) -> Vec<(&'static str, String, Value, String)> {
    let variables = &context.environment.variables;
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
        && let Some((variable, url)) = usual_proxy(context)
    {
        usual.push(("proxy", "proxy".to_owned(), without_secrets(&url).into(), variable.to_owned()));
    }
    usual
}

/// What was said and does not count, by its key.
fn unused(resolved: &ResolvedSettings, counting: &[Entry]) -> Vec<(String, UnusedSetting)> {
    let files = &resolved.project;
    let of_project = files.iter().filter_map(|file| file.said.as_ref().ok()).flat_map(Settings::entries);
    let all = resolved.variables.entries().into_iter().chain(of_project).chain(resolved.file.entries());
    let mut unused = Vec::new();
    for entry in all.filter(|entry| !counts(entry, counting)) {
        let winner = counting.iter().find(|other| other.key == entry.key);
        let why = match (files.iter().find(|file| file.has(&entry.origin)), winner) {
            (Some(file), _) => file.why_not(&entry.key, counting, files),
            (_, Some(winner)) => format!("{} counts before it", winner.origin),
            (_, None) => "it does not count".to_owned(),
        };
        unused.push((entry.key, UnusedSetting { value: entry.value, origin: entry.origin.to_string(), why }));
    }
    unused
}

fn from(origin: &Origin, project: &[ProjectFile]) -> &'static str {
    match origin {
        Origin::File { .. } if project.iter().any(|file| file.has(origin)) => "project",
        Origin::File { .. } => "user",
        Origin::Variable(_) => "variable",
        Origin::Flag(_) => "flag",
    }
}

fn page(report: &Report<'_>) -> String {
    let mut page = String::new();
    let mut files = vec![("yours", report.user_file.map_or_else(|| "none".into(), there))];
    files.extend(report.project_files.iter().map(|ProjectPart { path, trust, usable }| {
        let standing = if *usable { trust_words(*trust) } else { "cannot be read" };
        ("project", format!("{} ({standing})", path.display()))
    }));
    for (whose, file) in files {
        let _ = writeln!(page, "{whose:<8} {file}");
    }
    page.push('\n');
    for row in &report.settings {
        let _ = writeln!(page, "{:<KEY_WIDTH$} {}  [{}]", row.key, row.shown(), row.origin);
        for UnusedSetting { value, origin, why } in &row.unused {
            let _ = writeln!(page, "{:<KEY_WIDTH$} not {}  [{origin}]: {why}", "", shown(value));
        }
    }
    page
}

/// A file, and whether it is there.
fn there(path: &Path) -> String {
    let absent = if path.exists() { "" } else { " (not there)" };
    format!("{}{absent}", path.display())
}

/// A value on one line, with what a terminal would act on made visible.
fn shown(value: &Value) -> String {
    if let Some(origin) = origin_of_secret(value) {
        return term::visible_line(&format!("set in {origin}"));
    }
    match value {
        Value::Null => "none".to_owned(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::String(text) => term::visible_line(text),
        other => term::visible_line(&other.to_string()),
    }
}

fn trust_words(state: TrustState) -> &'static str {
    match state {
        TrustState::Trusted => "trusted",
        TrustState::Changed => "changed since you trusted it: `posse trust`",
        TrustState::New => "not trusted: `posse trust`",
    }
}
