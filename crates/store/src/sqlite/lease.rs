//! Who owns a run: claims, heartbeats, release. Decided inside the writer's transaction, so two claims can never
//! both win.
//!
//! Why it is like this: `docs/decisions/store-epochs-over-clocks.md`.

use posse_engine::ports::{Claim, Epoch, Holder, RunKey, StoreError};
use rusqlite::{OptionalExtension, Row};

use super::clock::{BootClock, Expiry};
use super::context::Context;
use super::group::{Group, RefusedScope, RunHead, stored};
use super::owner::{self, OwnerLock};
use super::paths::Paths;

/// This store's life lock, taken when it first owns a run.
#[derive(Debug, Default)]
pub(super) struct Ownership(Option<OwnerLock>);

impl Ownership {
    /// Takes the lock if it is not held yet. Only under the writers' lock.
    pub(super) fn ensure(&mut self, context: &Context) -> Result<(), StoreError> {
        if self.0.is_none() {
            self.0 = Some(OwnerLock::take(&context.paths.owners, &context.owner)?);
        }
        Ok(())
    }
}

/// Somebody's right to write to a run.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) owner: String,
    pub(super) pid: u32,
    pub(super) expiry: Expiry,
}

impl Lease {
    /// Reads the columns `owner, owner_pid, boot, lease_until_ms`, the first of them at `at`.
    pub(super) fn from_row(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Self>> {
        let Some(owner) = row.get(at)? else { return Ok(None) };
        // A number that is no process id is `verify`'s to report; nobody but people looks at it here.
        let pid =
            row.get::<_, Option<i64>>(at + 1)?.and_then(|pid| u32::try_from(pid).ok()).unwrap_or_default();
        let boot = row.get::<_, Option<String>>(at + 2)?.unwrap_or_default();
        Ok(Some(Self { owner, pid, expiry: Expiry { boot, until_ms: row.get(at + 3)? } }))
    }

    /// Whether it still binds others: its owner lives and was heard of in time.
    pub(super) fn holds(&self, paths: &Paths, clock: &BootClock) -> bool {
        !clock.is_over(&self.expiry) && owner::is_alive(&paths.owners, &self.owner)
    }

    /// The owner, for people.
    pub(super) fn into_holder(self, epoch: Epoch) -> Holder {
        Holder { owner: self.owner, pid: self.pid, epoch }
    }
}

impl Group<'_, '_> {
    /// Takes ownership, if nobody alive has it.
    pub(super) fn claim(&mut self, key: &RunKey) -> Result<Claim, RefusedScope> {
        let head = self.head(key)?;
        let tenant = key.tenant.as_str();
        let lease =
            self.sql.find_lease.query_row((head.run_no, tenant), |row| Lease::from_row(row, 0)).optional()?;
        let context = self.context;
        if let Some(lease) = lease.flatten().filter(|lease| lease.holds(&context.paths, &context.clock)) {
            return Ok(Claim::Held(lease.into_holder(head.epoch)));
        }
        self.ownership.ensure(context)?;
        let epoch = head.epoch + 1;
        self.sql.give_lease.execute((
            head.run_no,
            tenant,
            stored(epoch),
            &context.owner,
            context.pid,
            context.clock.boot(),
        ))?;
        self.move_head(key, RunHead { epoch, is_mine: true, lease_until_ms: self.lease_until_ms, ..head });
        self.granted_claim = true;
        Ok(Claim::Granted(epoch))
    }

    /// Renews a lease.
    pub(super) fn heartbeat(&mut self, key: &RunKey, epoch: Epoch) -> Result<(), RefusedScope> {
        let head = self.head(key)?;
        self.check_epoch(key, epoch, &head)?;
        self.move_head(key, RunHead { lease_until_ms: self.lease_until_ms, ..head });
        Ok(())
    }

    /// Gives a run up, if it is still this store's.
    pub(super) fn release(&mut self, key: &RunKey, epoch: Epoch) -> Result<(), RefusedScope> {
        let head = self.head(key)?;
        if self.check_epoch(key, epoch, &head).is_ok() {
            self.sql.end_lease.execute((head.run_no, key.tenant.as_str()))?;
            self.move_head(key, RunHead { is_mine: false, ..head });
        }
        Ok(())
    }

    /// Refuses who does not own the run, or no longer under this epoch. A lease that ran out unnoticed is no
    /// reason: as long as nobody claimed the run, nobody else wrote.
    #[expect(clippy::unused_self, reason = "reads as one of the group's checks")]
    pub(super) fn check_epoch(&self, key: &RunKey, epoch: Epoch, head: &RunHead) -> Result<(), StoreError> {
        if head.is_mine && head.epoch == epoch {
            return Ok(());
        }
        Err(StoreError::Fenced { run: key.run.clone(), held: epoch, actual: head.epoch })
    }
}
