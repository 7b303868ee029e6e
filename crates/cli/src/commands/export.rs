//! `posse export`.

use std::io::Write;
use std::path::{Path, PathBuf};

use posse::atomic_file::{self, ExistingFile, PRIVATE};
use posse::remote::ServerClient;
use posse::{BUNDLE_EXTENSION, ExportOptions, ExportSummary, api};
use posse_setup::export::known_secrets;

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::RunArg;
use crate::output::{Output, note};
use crate::runtime;
use crate::server;
use crate::text::{bytes, plural};

/// How many positions of secrets are listed on screen; `--json` has all of them.
const PLACES_SHOWN: usize = 10;

/// Export a run to one file that `posse run --model replay/FILE` replays on any machine
///
/// The file has the run's events, its long texts and the files that it began with. Values of variables that contain
/// keys, and everything that looks like a key, are replaced by a mark. Everything else in the run is in the file, so
/// read it before you pass it on: `zcat FILE` shows it.
#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    /// The run [default: the newest run of this project]
    run: Option<RunArg>,
    /// The file to write [default: RUN.posse in the current directory]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Print what was written as a JSON object
    #[arg(long)]
    json: bool,
}

/// Exports a run.
pub(crate) fn export(args: &ExportArgs, context: &Context) -> Result<Exit, CliError> {
    if args.output.as_deref() == Some(Path::new("-")) {
        return Err(CliError::usage(
            "--output: a bundle is compressed data, which is not written to standard output",
        )
        .hint("name a file, such as run.posse; `zcat run.posse` prints it"));
    }
    if let Some(server) = context.server() {
        return download(server, args, context);
    }
    let posse = context.open_read_only()?;
    let secrets = known_secrets(context)?;
    let exported = runtime::looking(async {
        let run = args.run.clone().unwrap_or_else(RunArg::newest).find(&posse, context).await?;
        let usual = || PathBuf::from(format!("{run}.{BUNDLE_EXTENSION}"));
        let to = context.environment.cwd.join(args.output.clone().unwrap_or_else(usual));
        let options = ExportOptions { secrets, overwrite: args.force };
        Ok::<_, CliError>(posse.export(&run, &to, options).await?)
    })?;
    let mut output = Output::new();
    if args.json {
        output.json(&api::ExportResult::new(&exported))?;
    } else {
        output.own(&format!("{}\n", exported.path.display()))?;
    }
    output.flush()?;
    if !args.json {
        print_summary(&exported);
    }
    Ok(Exit::DONE)
}

/// Writes the bundle of a run of a server. What it replaced and omitted is known to the server alone.
fn download(server: &ServerClient, args: &ExportArgs, context: &Context) -> Result<Exit, CliError> {
    server::refuse(context, &[(args.json, "--json")])?;
    let posse = context.open_read_only()?;
    let to = runtime::looking(async {
        let run = args.run.clone().unwrap_or_else(RunArg::newest).find(&posse, context).await?;
        let usual = || PathBuf::from(format!("{run}.{BUNDLE_EXTENSION}"));
        let to = context.environment.cwd.join(args.output.clone().unwrap_or_else(usual));
        if to.extension().is_none_or(|extension| extension != BUNDLE_EXTENSION) {
            return Err(posse::Error::BundleName(to).into());
        }
        if !args.force && to.symlink_metadata().is_ok() {
            return Err(posse::Error::ExportExists(to).into());
        }
        let bundle = server.text(&format!("/api/v1/runs/{run}/export"), &[]).await;
        let bundle = bundle.map_err(posse::Error::from)?;
        let existing = if args.force { ExistingFile::Replace } else { ExistingFile::Keep };
        let written = atomic_file::write(&to, PRIVATE, existing, |file| file.write_all(&bundle));
        written.map_err(|error| CliError::failed(format!("{}: {error}", to.display())))?;
        Ok(to)
    })?;
    let mut output = Output::new();
    output.own(&format!("{}\n", to.display()))?;
    output.flush()?;
    Ok(Exit::DONE)
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
        note(&format!("  omitted: {left_out}"));
    }
    if exported.unused_agents + exported.unused_skills > 0 {
        let (agents, skills) =
            (plural(exported.unused_agents, "agent"), plural(exported.unused_skills, "skill"));
        note(&format!(
            "  omitted: the texts of {agents} and {skills} of this machine that the run did not use"
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
