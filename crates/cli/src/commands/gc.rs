//! `posse gc`.

use posse::{GcRequest, GcSummary, api};

use crate::age::Age;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::runtime;
use crate::settings::Settings;
use crate::text::{bytes, plural};

/// Remove what runs that have ended left on disk
///
/// Workspaces go when they are old and all of their files are salvaged; salvaged work goes later. How old is set by
/// gc.workspaces [default: 7d] and gc.salvage [default: 30d]. A run that is open is never touched, and what cannot be
/// inspected is kept.
#[derive(Debug, clap::Args)]
pub(crate) struct GcArgs {
    /// Only say what would go
    #[arg(long)]
    dry_run: bool,
    /// Remove runs as a whole that ended this long ago, out of the journal too; 0 is all that have ended
    #[arg(long, value_name = "AGE")]
    runs: Option<Age>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Cleans.
pub(crate) fn gc(args: &GcArgs, context: &Context) -> Result<Exit, CliError> {
    let settings = Settings::own(&context.environment)?;
    let cleaning = GcRequest {
        dry_run: args.dry_run,
        runs_older_than: args.runs.map(|age| age.0),
        ..settings.gc.apply(GcRequest::default())
    };
    // A state directory that is not there is not made to be cleaned.
    let writes = args.runs.is_some() && !args.dry_run && context.state_dir()?.exists();
    let posse = if writes { context.open_to_post()? } else { context.open_read_only()? };
    let cleaned = runtime::looking(async { Ok(posse.clean(cleaning).await?) })?;
    let mut output = Output::new();
    if args.json {
        output.json(&api::GcResult::new(&cleaned, args.dry_run))?;
    } else {
        output.text(&page(&cleaned, args.dry_run))?;
    }
    output.flush()?;
    Ok(Exit::DONE)
}

fn page(cleaned: &GcSummary, dry_run: bool) -> String {
    let (removes, frees) = if dry_run { ("would remove", "would free") } else { ("removed", "freed") };
    let gone = cleaned.removed.iter().map(|what| format!("{removes} {what}\n"));
    let kept = cleaned.kept.iter().map(|(what, why)| format!("kept {what}: {why}\n"));
    let (things, space) = (plural(cleaned.removed.len() as u64, "thing"), bytes(cleaned.freed_bytes));
    let sum = format!("{removes} {things}, kept {}, {frees} {space}\n", cleaned.kept.len());
    gone.chain(kept).chain([sum]).collect()
}
