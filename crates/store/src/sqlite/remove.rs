//! Removes an ended run from the journal as a whole, within the writer's group.

use posse_engine::ports::{Head, RunKey, StoreError};
use rusqlite::OptionalExtension;

use super::group::{Group, RefusedScope, RunHead, stored};
use super::lease::Lease;
use super::schema::row_ids;
use super::seal::REMOVED_RUNS;

impl Group<'_, '_> {
    /// Removes an ended run without a live lease, and records the end of its journal.
    pub(super) fn remove(&mut self, key: &RunKey) -> Result<Head, RefusedScope> {
        let head = self.head(key)?;
        let place = (head.run_no, key.tenant.as_str());
        let has_ended: bool = self.sql.has_ended.query_row(place, |row| row.get(0))?;
        let lease = self.sql.find_lease.query_row(place, |row| Lease::from_row(row, 0)).optional()?;
        let context = self.context;
        let is_held = lease.flatten().is_some_and(|lease| lease.is_live(context));
        if !has_ended || is_held {
            return Err(StoreError::Open(key.run.clone()).into());
        }
        self.whole(|group| group.remove_rows(key, head))?;
        self.heads.remove(key);
        Ok(Head { seq: head.seq, hash: head.hash })
    }

    fn remove_rows(&mut self, key: &RunKey, head: RunHead) -> Result<(), RefusedScope> {
        let (tenant, run) = (key.tenant.as_str(), key.run.as_str());
        // The trigger on events only permits deletion for runs that are marked as removed.
        self.sql.mark_removed.execute((head.run_no, tenant, run, stored(head.seq), head.hash.as_bytes()))?;
        let seal = self.sql.removed_row.query_row([head.run_no], |row| REMOVED_RUNS.of(row))?;
        self.sql.seal_removed.execute((seal.as_bytes(), head.run_no))?;
        let (first, last) = row_ids(head.run_no);
        for remove in &mut self.sql.remove_placed {
            remove.execute((first, last, tenant))?;
        }
        for remove in &mut self.sql.remove_rows {
            remove.execute((head.run_no, tenant))?;
        }
        Ok(())
    }
}
