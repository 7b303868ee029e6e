//! `posse settings`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use posse::api::{self, ProjectSettingsFile, Setting, SettingsList, UnusedValue};
use posse_setup::settings::entries::origin_of_secret;
use posse_setup::settings::{ResolvedSettings, schema};
use serde_json::Value;

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, note_line, output_width, print_notes};
use crate::server;
use crate::term;
use crate::view::width::{hanging, text_columns};

/// Width of the column of keys.
const KEY_WIDTH: usize = 31;
/// Width of the column that says whose file it is.
const FILE_KEY_WIDTH: usize = 8;

/// Show every setting with its origin
///
/// Your own file comes first, then the project's, which may only narrow until you trust them, then variables such as
/// `POSSE_MODEL`; flags of a run come last. Values without effect are shown with the reason. No key or password is
/// shown.
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

/// Shows the settings.
pub(crate) fn settings(args: &SettingsArgs, context: &Context) -> Result<Exit, CliError> {
    if args.schema {
        let mut output = Output::new();
        output.own(&format!("{:#}\n", schema()))?;
        output.flush()?;
        return Ok(Exit::DONE);
    }
    if let Some(server) = context.server() {
        let dir = args.dir.as_ref().map(|dir| dir.to_string_lossy());
        let query: Vec<(&str, &str)> = dir.iter().map(|dir| ("dir", dir.as_ref())).collect();
        return show(&server::fetch(server, "/api/v1/settings", &query)?, args.json);
    }
    let cwd = &context.environment.cwd;
    let dir = args.dir.as_ref().map_or_else(|| cwd.clone(), |dir| cwd.join(dir));
    if !dir.is_dir() {
        return Err(CliError::usage(format!("{}: is not a directory", dir.display())));
    }
    let resolved = ResolvedSettings::with_unused_matchers(context, &dir)?;
    let report = resolved.list(context, note_line);
    let exit = show(&report, args.json)?;
    if !args.json {
        print_notes(&resolved.notes);
    }
    Ok(exit)
}

fn show(report: &SettingsList, json: bool) -> Result<Exit, CliError> {
    let mut output = Output::new();
    if json {
        output.json(report)?;
    } else {
        let page = page(report);
        let width = output_width();
        output.text(&width.map_or(page.clone(), |width| fitting(&page, width)))?;
    }
    output.flush()?;
    Ok(Exit::DONE)
}

fn page(report: &SettingsList) -> String {
    let mut page = String::new();
    let mut files = vec![("yours", report.user_file.as_deref().map_or_else(|| "none".into(), there))];
    files.extend(report.project_files.iter().map(|ProjectSettingsFile { path, trust, usable }| {
        let standing = if *usable { trust_words(*trust) } else { "cannot be read" };
        ("project", format!("{} ({standing})", path.display()))
    }));
    for (whose, file) in files {
        let _ = writeln!(page, "{whose:<FILE_KEY_WIDTH$} {file}");
    }
    page.push('\n');
    for row in &report.settings {
        let _ = writeln!(page, "{:<KEY_WIDTH$} {}  [{}]", row.key, shown_value(row), row.origin);
        for UnusedValue { value, origin, why } in &row.unused {
            let _ = writeln!(page, "{:<KEY_WIDTH$} ignored: {}  [{origin}]: {why}", "", shown(value));
        }
    }
    page
}

/// The page in lines that fit: a long line continues beneath its value.
fn fitting(page: &str, width: usize) -> String {
    // The names of the files are a column of their own, above the settings.
    let mut value_at = FILE_KEY_WIDTH + 1;
    let line = |line: &str| {
        if line.is_empty() {
            value_at = KEY_WIDTH + 1;
        }
        match line.char_indices().nth(value_at) {
            Some((at, _)) if text_columns(line) > width => hanging(&line[..at], &line[at..], width),
            _ => format!("{line}\n"),
        }
    };
    page.lines().map(line).collect()
}

/// The effective value, or a description of the default.
fn shown_value(row: &Setting) -> String {
    row.words.clone().unwrap_or_else(|| shown(&row.value))
}

/// A file, and whether it exists.
fn there(path: &Path) -> String {
    let absent = if path.exists() { "" } else { " (does not exist)" };
    format!("{}{absent}", path.display())
}

/// A value on one line, with control characters made visible.
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

fn trust_words(state: api::TrustState) -> &'static str {
    match state {
        api::TrustState::Trusted => "trusted",
        api::TrustState::Changed => "changed since you trusted it: `posse trust`",
        api::TrustState::New => "not trusted: `posse trust`",
    }
}
