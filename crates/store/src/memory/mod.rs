//! The store in memory, for tests and for runs that need not outlive their process.
//!
//! It gives the same answers as the one in SQLite, at once. Several handles can share one set of data: each stands
//! for a process, and a dropped one for a process that died.

mod journal;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use posse_domain::event::StoredEvent;
use posse_domain::hash::Hash;
use posse_engine::ports::{
    AgentRow, Claim, Commit, CommitReceipt, Epoch, Head, Health, Mail, MailCommand, Pulse, READ_MAX_EVENTS,
    RemovedRun, RunEntry, RunKey, RunSpending, Store, StoreError, TenantId,
};
use tokio::sync::watch;

use self::journal::Data;
use crate::sqlite::LEASE;
use crate::validate::validate;

/// Who a handle is: its number among all handles of the same data.
type OwnerNo = u64;

/// The journal of one process, in memory.
#[derive(Debug)]
pub struct MemoryStore {
    data: Arc<Mutex<Data>>,
    owner: OwnerNo,
    lease: Duration,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::handle(Arc::default(), LEASE)
    }

    /// The same store with leases that last `lease`.
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Another process on the same data.
    pub fn another_process(&self) -> Self {
        Self::handle(self.data.clone(), self.lease)
    }

    fn handle(data: Arc<Mutex<Data>>, lease: Duration) -> Self {
        let owner = lock(&data).arrive();
        Self { data, owner, lease }
    }

    fn data(&self) -> MutexGuard<'_, Data> {
        lock(&self.data)
    }

    fn lease_end(&self) -> Instant {
        Instant::now() + self.lease
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        lock(&self.data).leave(self.owner);
    }
}

fn lock(data: &Mutex<Data>) -> MutexGuard<'_, Data> {
    // Every change is checked before it is made, so a panic elsewhere leaves the data whole.
    data.lock().unwrap_or_else(PoisonError::into_inner)
}

fn done<T: Send + 'static>(outcome: Result<T, StoreError>) -> BoxFuture<'static, Result<T, StoreError>> {
    ready(outcome).boxed()
}

impl Store for MemoryStore {
    fn commit(&self, commit: Commit) -> BoxFuture<'static, Result<CommitReceipt, StoreError>> {
        let outcome =
            validate(&commit).and_then(|()| self.data().commit(commit, self.owner, self.lease_end()));
        done(outcome)
    }

    fn read(
        &self,
        key: &RunKey,
        after: u64,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<StoredEvent>, StoreError>> {
        done(self.data().read(key, after, limit.min(READ_MAX_EVENTS)))
    }

    fn head(&self, key: &RunKey) -> BoxFuture<'static, Result<Head, StoreError>> {
        done(self.data().head(key))
    }

    fn watch(&self, key: &RunKey) -> watch::Receiver<Pulse> {
        self.data().watch(key)
    }

    fn claim(&self, key: &RunKey) -> BoxFuture<'static, Result<Claim, StoreError>> {
        done(self.data().claim(key, self.owner, self.lease_end()))
    }

    fn heartbeat(&self, key: &RunKey, epoch: Epoch) -> BoxFuture<'static, Result<(), StoreError>> {
        done(self.data().heartbeat(key, epoch, self.owner, self.lease_end()))
    }

    fn release(&self, key: &RunKey, epoch: Epoch) -> BoxFuture<'static, Result<(), StoreError>> {
        done(self.data().release(key, epoch, self.owner))
    }

    fn post(&self, key: &RunKey, command: MailCommand) -> BoxFuture<'static, Result<u64, StoreError>> {
        done(self.data().post(key, command))
    }

    fn mail(&self, key: &RunKey) -> BoxFuture<'static, Result<Vec<Mail>, StoreError>> {
        done(self.data().mail(key))
    }

    fn get_blob(&self, tenant: &TenantId, hash: &Hash) -> BoxFuture<'static, Result<Vec<u8>, StoreError>> {
        done(self.data().blob(tenant, hash))
    }

    fn runs(
        &self,
        tenant: &TenantId,
        prefix: &str,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<RunEntry>, StoreError>> {
        done(Ok(self.data().runs(tenant, prefix, limit)))
    }

    fn agents(&self, key: &RunKey) -> BoxFuture<'static, Result<Vec<AgentRow>, StoreError>> {
        done(self.data().agents(key))
    }

    fn spending(
        &self,
        tenant: &TenantId,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<RunSpending>, StoreError>> {
        done(self.data().spending(tenant, limit))
    }

    fn remove(&self, key: &RunKey) -> BoxFuture<'static, Result<Head, StoreError>> {
        done(self.data().remove(key))
    }

    fn removed(
        &self,
        tenant: &TenantId,
        prefix: &str,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<RemovedRun>, StoreError>> {
        done(Ok(self.data().removed(tenant, prefix, limit)))
    }

    fn check_run(&self, key: &RunKey) -> BoxFuture<'static, Result<Health, StoreError>> {
        done(self.data().head(key).map(|_| Health::default()))
    }

    fn check(&self) -> BoxFuture<'static, Result<Health, StoreError>> {
        done(Ok(Health::default()))
    }
}
