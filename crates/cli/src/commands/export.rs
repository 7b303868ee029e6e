//! `posse export`.

use std::path::{Path, PathBuf};

use posse::{BUNDLE_EXTENSION, ExportOptions, ExportSummary};
use serde_json::Value;

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::RunArg;
use crate::output::{Output, note};
use crate::runtime;
use crate::text::{bytes, plural};

/// Places of secrets that are listed on screen; all of them are in `--json`.
const PLACES_SHOWN: usize = 10;

/// Write a run into one file that `posse run --model replay/FILE` runs again, on any machine
///
/// The file has the run's events, its long texts and the files that it began with. Values of variables that hold keys,
/// and whatever looks like a key, are replaced by a mark; what else is in the run is in the file, so look at it before
/// you pass it on: `zcat FILE` shows it.
#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    /// The run
    run: RunArg,
    /// The file to write [default: RUN.posse in the current directory]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
    /// Print what was written as a JSON object
    #[arg(long)]
    json: bool,
}

/// Exports a run.
pub(crate) fn export(args: &ExportArgs, context: &Context) -> Result<Exit, CliError> {
    let posse = context.open_read_only()?;
    let secrets = secrets(context)?;
    let exported = runtime::looking(async {
        let run = args.run.find(&posse).await?;
        let usual = || PathBuf::from(format!("{run}.{BUNDLE_EXTENSION}"));
        let to = context.environment.cwd.join(args.output.clone().unwrap_or_else(usual));
        refuse(&to)?;
        let options = ExportOptions { secrets, overwrite: args.force };
        Ok::<_, CliError>(posse.export(&run, &to, options).await?)
    })?;
    let mut output = Output::new();
    if args.json {
        output.json(&exported)?;
    } else {
        output.own(&format!("{}\n", exported.path.display()))?;
    }
    output.flush()?;
    if !args.json {
        print_summary(&exported);
    }
    Ok(Exit::DONE)
}

/// A name that a replay could not tell from a run's is refused.
fn refuse(to: &Path) -> Result<(), CliError> {
    if to.extension().is_some_and(|extension| extension == BUNDLE_EXTENSION) {
        return Ok(());
    }
    Err(CliError::usage(format!("--output: {}: its name must end in .{BUNDLE_EXTENSION}", to.display())))
}

/// The person's keys: those in the settings, and the values of variables that hold secrets by their names, or because
/// the settings say so.
fn secrets(context: &Context) -> Result<Vec<String>, CliError> {
    let (mut secrets, mut names) = (Vec::new(), Vec::new());
    if let Some(path) = &context.environment.settings_file
        && let Ok(text) = std::fs::read_to_string(path)
    {
        let settings: Value = serde_saphyr::from_str(&text).map_err(|error| {
            CliError::usage(format!("{} cannot be read: {error}", path.display()))
                .hint("fix it first: the keys in it are to be left out of the bundle")
        })?;
        keys_in(&settings, &mut secrets, &mut names);
    }
    for (name, value) in &context.environment.variables {
        if posse::names_a_secret(name) || names.contains(name) {
            secrets.push(value.clone());
        }
        // A word as a password, such as `postgres`, is in many texts that have nothing to do with it; in URLs it is found.
        let is_word = |password: &String| password.bytes().all(|byte| byte.is_ascii_lowercase());
        secrets.extend(posse::url_passwords(value).into_iter().filter(|password| !is_word(password)));
    }
    Ok(secrets)
}

/// The keys that settings hold, and the names of the variables that do.
fn keys_in(settings: &Value, keys: &mut Vec<String>, names: &mut Vec<String>) {
    match settings {
        Value::Object(map) => {
            for (name, value) in map {
                match (name.as_str(), value) {
                    ("key", Value::String(key)) => keys.push(key.clone()),
                    ("key_env", Value::String(variable)) => names.push(variable.clone()),
                    _ => keys_in(value, keys, names),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| keys_in(item, keys, names)),
        _ => {}
    }
}

fn print_summary(exported: &ExportSummary) {
    let ExportSummary { run, events, blobs, files, file_bytes, .. } = exported;
    let base = if exported.has_base {
        format!("{} it began with ({})", plural(*files, "file"), bytes(*file_bytes))
    } else {
        "no files: it worked in its folder as it was".to_owned()
    };
    note(&format!(
        "run {run}: {}, {}, {base}; {} in all",
        plural(*events, "event"),
        plural(*blobs, "long text"),
        bytes(exported.bytes)
    ));
    for (name, size) in &exported.large_files {
        note(&format!("  {name} has {}", bytes(*size)));
    }
    for left_out in &exported.left_out {
        note(&format!("  left out: {left_out}"));
    }
    if exported.unused_agents + exported.unused_skills > 0 {
        let (agents, skills) =
            (plural(exported.unused_agents, "agent"), plural(exported.unused_skills, "skill"));
        note(&format!(
            "  left out: the texts of {agents} and {skills} of this machine that the run did not use"
        ));
    }
    if exported.secrets > 0 {
        note(&format!(
            "replaced by a mark: {}. The hashes of the texts around do not fit any more, and a replay compares those \
             requests by their text:",
            plural(exported.secrets, "secret")
        ));
        for place in exported.secret_places.iter().take(PLACES_SHOWN) {
            note(&format!("  {place}"));
        }
        let more = exported.secret_places.len().saturating_sub(PLACES_SHOWN);
        if more > 0 {
            note(&format!("  and {} (`--json` lists them)", plural(more as u64, "more place")));
        }
    }
}
