//! `posse gc`.

use posse::{GcSummary, api};
use posse_setup::age::Age;
use posse_setup::gc::PreparedCleaning;

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::runtime;
use crate::text::{bytes, plural};

/// Remove files of ended runs from disk
///
/// Workspaces are removed when they are old and all of their files are salvaged; salvaged work is removed later. The
/// ages are set by gc.workspaces [default: 7d] and gc.salvage [default: 30d]. An open run is never touched, and what
/// cannot be inspected is kept.
#[derive(Debug, clap::Args)]
pub(crate) struct GcArgs {
    /// Only show what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Remove whole runs that ended at least this long ago, with their journals; 0 removes all ended runs
    #[arg(long, value_name = "AGE")]
    runs: Option<Age>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Cleans the state directory.
pub(crate) fn gc(args: &GcArgs, context: &Context) -> Result<Exit, CliError> {
    let PreparedCleaning { request, posse } =
        PreparedCleaning::new(args.dry_run, args.runs.map(|age| age.0), context)?;
    let cleaned = runtime::looking(async { Ok(posse.clean(request).await?) })?;
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
    let kept = cleaned.kept.iter().map(|item| format!("kept {}: {}\n", item.what, item.why));
    let (things, space) = (plural(cleaned.removed.len() as u64, "thing"), bytes(cleaned.freed_bytes));
    let sum = format!("{removes} {things}, kept {}, {frees} {space}\n", cleaned.kept.len());
    gone.chain(kept).chain([sum]).collect()
}
