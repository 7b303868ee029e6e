//! Takes back what the last apply wrote into the user's checkout.
//!
//! The record of the apply names each path with its content before and after. A path that is as it was after the apply gets
//! its earlier content; one that is as it was before is left alone; one that the user changed since is merged, or it is a
//! conflict and nothing is written. The record is kept as that of an incomplete apply until everything is taken back, so that
//! a second undo, or another apply, completes an interrupted one.

use std::collections::BTreeMap;
use std::path::Path;

use posse_engine::ports::{ApplyError, ApplySummary};

use super::RepositoryError;
use super::apply_intent::{Intent, hex};
use super::path_writer::{FileAction, PathWriter, PlanError};
use super::tree_switch::TreeSwitch;

/// Takes back the apply with this record.
pub(super) fn undo(
    writer: &PathWriter<'_>,
    intent: &Path,
    mut onto: TreeSwitch,
) -> Result<ApplySummary, ApplyError> {
    let known = Intent::load(intent)?.filter(|known| !known.writes.is_empty());
    let Some(known) = known else { return Err(ApplyError::NotApplied) };
    let damaged =
        || RepositoryError::Damaged(format!("{} is damaged; nothing was written", intent.display()));
    let changes = known.undoing().ok_or_else(damaged)?;
    let (steps, mut undone) =
        writer.plan(&onto, &changes, &BTreeMap::new()).map_err(|error| match error {
            PlanError::Conflict(files) => ApplyError::ChangedSince(files),
            PlanError::Repository(error) => error.into(),
        })?;
    let staged = writer.stage(&mut onto, &steps)?;
    for (step, staged) in steps.iter().zip(&staged) {
        let bits = known.writes.get(&hex(&step.change.path)).and_then(|write| write.bits);
        if let (Some(bits), Some(staged), FileAction::Write(..)) = (bits, staged, &step.doing) {
            onto.permit_staged(staged.number, bits)?;
        }
    }
    let after = known.undone();
    Intent { done: false, ..known }.save(intent)?;
    (writer.hit)("workspace.apply.after_intent");
    writer.execute(onto, &steps, &staged, &mut undone)?;
    after.save(intent)?;
    Ok(undone)
}
