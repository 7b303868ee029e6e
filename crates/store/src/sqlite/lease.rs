//! Claims, heartbeats and releases of leases. The writer decides them inside its transaction, so two claims can never
//! both be granted.
//!
//! Why it is like this: `docs/decisions/store-epochs-over-clocks.md`.

use posse_engine::ports::{Claim, Epoch, Holder, RunKey, StoreError};
use rusqlite::{OptionalExtension, Row};

use super::context::Context;
use super::group::{Group, RefusedScope, RunHead, stored};
use super::holder::{self, LifeLock};
use crate::clock::Expiry;

/// The life lock of this process, taken when it first gets a lease.
#[derive(Debug, Default)]
pub(super) struct OwnLifeLock(Option<LifeLock>);

impl OwnLifeLock {
    /// Takes the lock if it is not held yet. The caller must hold the writers' lock.
    pub(super) fn ensure(&mut self, context: &Context) -> Result<(), StoreError> {
        if self.0.is_none() {
            let lock = LifeLock::take(&context.paths.holders, &context.holder_id, &context.options.label)?;
            self.0 = Some(lock);
        }
        Ok(())
    }
}

/// The lease of a run, as stored in its row.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) holder_id: String,
    pub(super) pid: Option<u32>,
    pub(super) expiry: Expiry,
}

impl Lease {
    /// Reads the columns `owner, owner_pid, boot, lease_until_ms`, the first of them at index `at`.
    pub(super) fn from_row(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Self>> {
        let Some(holder_id) = row.get(at)? else { return Ok(None) };
        // `verify` reports a number that is not a process id. Here the number is only displayed.
        let pid = row.get::<_, Option<i64>>(at + 1)?.and_then(|pid| u32::try_from(pid).ok());
        let boot = row.get::<_, Option<String>>(at + 2)?.unwrap_or_default();
        Ok(Some(Self { holder_id, pid, expiry: Expiry { boot, until_ms: row.get(at + 3)? } }))
    }

    /// Whether the lease still excludes other processes: its holder is alive and has renewed it in time.
    pub(super) fn is_live(&self, context: &Context) -> bool {
        !context.options.clock.is_over(&self.expiry)
            && holder::is_alive(&context.paths.holders, &self.holder_id)
    }

    pub(super) fn into_holder(self, context: &Context, epoch: Epoch) -> Holder {
        let label = holder::label(&context.paths.holders, &self.holder_id);
        let label = label.unwrap_or_else(|| self.pid.unwrap_or_default().to_string());
        Holder { id: self.holder_id, label, pid: self.pid, epoch }
    }
}

impl Group<'_, '_> {
    /// Gives this process the lease, unless another lease is live.
    pub(super) fn claim(&mut self, key: &RunKey) -> Result<Claim, RefusedScope> {
        let head = self.head(key)?;
        let tenant = key.tenant.as_str();
        let lease =
            self.sql.find_lease.query_row((head.run_no, tenant), |row| Lease::from_row(row, 0)).optional()?;
        let context = self.context;
        if let Some(lease) = lease.flatten().filter(|lease| lease.is_live(context)) {
            return Ok(Claim::Held(lease.into_holder(context, head.epoch)));
        }
        self.life_lock.ensure(context)?;
        let epoch = head.epoch + 1;
        self.sql.give_lease.execute((
            head.run_no,
            tenant,
            stored(epoch),
            &context.holder_id,
            context.pid,
            context.options.clock.boot(),
        ))?;
        self.move_head(key, RunHead { epoch, is_mine: true, lease_until_ms: self.lease_until_ms, ..head });
        self.granted_claim = true;
        Ok(Claim::Granted(epoch))
    }

    pub(super) fn heartbeat(&mut self, key: &RunKey, epoch: Epoch) -> Result<(), RefusedScope> {
        let head = self.head(key)?;
        self.check_epoch(key, epoch, &head)?;
        self.move_head(key, RunHead { lease_until_ms: self.lease_until_ms, ..head });
        Ok(())
    }

    /// Ends a lease, if this process still holds it.
    pub(super) fn release(&mut self, key: &RunKey, epoch: Epoch) -> Result<(), RefusedScope> {
        let head = self.head(key)?;
        if self.check_epoch(key, epoch, &head).is_ok() {
            self.sql.end_lease.execute((head.run_no, key.tenant.as_str()))?;
            self.move_head(key, RunHead { is_mine: false, ..head });
        }
        Ok(())
    }

    /// Refuses a process that does not hold the lease with this epoch. An expired lease is not refused: as long as no
    /// other process claimed the run, no other process wrote.
    #[expect(clippy::unused_self, reason = "reads as one of the group's checks")]
    pub(super) fn check_epoch(&self, key: &RunKey, epoch: Epoch, head: &RunHead) -> Result<(), StoreError> {
        if head.is_mine && head.epoch == epoch {
            return Ok(());
        }
        Err(StoreError::Fenced { run: key.run.clone(), held: epoch, actual: head.epoch })
    }
}
