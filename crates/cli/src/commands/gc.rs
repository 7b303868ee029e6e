//! `posse gc`.

use std::collections::BTreeMap;

use posse::{GcSummary, api};
use posse_setup::age::Age;
use posse_setup::gc::PreparedCleaning;

use crate::confirm::{confirm, has_terminal};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, note};
use crate::runtime;
use crate::text::{bytes, plural};

/// Remove files of ended runs from disk
///
/// Workspaces are removed when they are old and all of their files are salvaged; salvaged work is removed later. The
/// ages are set by gc.workspaces [default: 7d] and gc.salvage [default: 30d]. An open run is never touched, and what
/// cannot be inspected is kept. On a terminal it shows what goes and asks; `--runs` always needs a yes.
#[derive(Debug, clap::Args)]
pub(crate) struct GcArgs {
    /// Only show what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Remove whole runs that ended at least this long ago, with their journals; 0 removes all ended runs
    #[arg(long, value_name = "AGE", allow_negative_numbers = true)]
    runs: Option<Age>,
    /// Do not ask, for scripts
    #[arg(long, short, conflicts_with = "dry_run")]
    yes: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Cleans the state directory.
pub(crate) fn gc(args: &GcArgs, context: &Context) -> Result<Exit, CliError> {
    let mut output = Output::new();
    let asks = !args.dry_run && !args.yes && (has_terminal() || args.runs.is_some());
    if asks && !confirm_cleaning(args, context, &mut output)? {
        note("nothing was removed");
        return Ok(Exit::FAILED);
    }
    let cleaned = clean(args, args.dry_run, context)?;
    if args.json {
        output.json(&api::GcResult::new(&cleaned, args.dry_run))?;
    } else {
        output.prose(&page(&cleaned, args.dry_run))?;
    }
    output.flush()?;
    Ok(Exit::DONE)
}

/// Shows what would be removed, and asks if that is anything.
fn confirm_cleaning(args: &GcArgs, context: &Context, output: &mut Output) -> Result<bool, CliError> {
    let going = clean(args, true, context)?;
    if going.removed.is_empty() {
        return Ok(true);
    }
    note(page(&going, true).trim_end());
    output.flush()?;
    confirm(&format!("remove {}?", things(&going)), "nothing was removed")
}

fn clean(args: &GcArgs, dry_run: bool, context: &Context) -> Result<GcSummary, CliError> {
    let PreparedCleaning { request, posse } =
        PreparedCleaning::new(dry_run, args.runs.map(|age| age.0), context)?;
    runtime::looking(async { Ok(posse.clean(request).await?) })
}

/// A reason, for one thing and for several.
const ITS_WORKSPACE: &str = "its workspace still exists";
const THEIR_WORKSPACES: &str = "their workspaces still exist";

fn things(cleaned: &GcSummary) -> String {
    plural(cleaned.removed.len() as u64, "item")
}

/// What goes, line by line, and what stays, counted by the reason.
fn page(cleaned: &GcSummary, dry_run: bool) -> String {
    let (removes, frees) = if dry_run { ("would remove", "would free") } else { ("removed", "freed") };
    let gone = cleaned.removed.iter().map(|what| format!("{removes} {what}\n"));
    let mut reasons: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
    for item in &cleaned.kept {
        reasons.entry(item.why.as_str()).or_insert((0, item.what.as_str())).0 += 1;
    }
    let kept = reasons.into_iter().map(|(why, (count, what))| match count {
        1 => format!("kept {what}: {why}\n"),
        count => {
            let why = why.replace(ITS_WORKSPACE, THEIR_WORKSPACES);
            format!("kept {count}, such as {what}: {why}\n")
        }
    });
    let sum = match (cleaned.removed.len(), cleaned.kept.len()) {
        (0, 0) => format!("nothing {}\n", if dry_run { "to remove" } else { "removed" }),
        (0, kept) => format!("nothing {}, kept {kept}\n", if dry_run { "to remove" } else { "removed" }),
        (_, kept) => {
            format!("{removes} {}, kept {kept}, {frees} {}\n", things(cleaned), bytes(cleaned.freed_bytes))
        }
    };
    gone.chain(kept).chain([sum]).collect()
}
