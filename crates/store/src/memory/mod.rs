//! The store in memory, for tests and for runs that need not outlive their process.
//!
//! It gives the same answers as the SQLite store, without delay. Several handles can share one set of data. Each handle
//! represents a process, and a dropped handle represents a process that died.

mod journal;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use posse_domain::event::StoredEvent;
use posse_domain::hash::Hash;
use posse_domain::id::RunId;
use posse_engine::ports::{
    AgentRow, Capabilities, Claim, Commit, CommitReceipt, Epoch, Head, Health, Mail, MailCommand, Pulse,
    READ_MAX_EVENTS, RemovedRun, RunEntry, RunKey, RunSpending, Store, StoreError, TenantId,
};
use tokio::sync::watch;

use self::journal::{Data, HandleNo};
use crate::clock::LeaseClock;
use crate::sqlite::LEASE;
use crate::validate::validate;

/// The journal of one process, in memory.
#[derive(Debug)]
pub struct MemoryStore {
    data: Arc<Mutex<Data>>,
    process: Process,
}

/// The process that a handle represents, as a lease holder.
#[derive(Debug)]
struct Process {
    handle: HandleNo,
    lease: Duration,
    clock: LeaseClock,
    label: Arc<str>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    pub fn new() -> Self {
        let label = std::process::id().to_string();
        Self::handle(Arc::default(), LEASE, LeaseClock::default(), label.into())
    }

    /// Sets the lease time.
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.process.lease = lease;
        self
    }

    /// Sets the clock of leases.
    pub fn with_clock(mut self, clock: LeaseClock) -> Self {
        self.process.clock = clock;
        self
    }

    /// Sets the label of this process as a lease holder.
    pub fn with_label(mut self, label: &str) -> Self {
        self.process.label = label.into();
        self
    }

    /// Disables the detection of dead lease holders, like in a store over a network.
    pub fn without_death_notice(self) -> Self {
        self.data().ignores_death = true;
        self
    }

    /// A handle for another process on the same data.
    pub fn another_process(&self) -> Self {
        let Process { lease, clock, label, .. } = &self.process;
        Self::handle(self.data.clone(), *lease, clock.clone(), label.clone())
    }

    fn handle(data: Arc<Mutex<Data>>, lease: Duration, clock: LeaseClock, label: Arc<str>) -> Self {
        let handle = lock(&data).arrive();
        Self { data, process: Process { handle, lease, clock, label } }
    }

    fn data(&self) -> MutexGuard<'_, Data> {
        lock(&self.data)
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        lock(&self.data).leave(self.process.handle);
    }
}

fn lock(data: &Mutex<Data>) -> MutexGuard<'_, Data> {
    // Every change is checked before it is made, so a panic elsewhere leaves the data intact.
    data.lock().unwrap_or_else(PoisonError::into_inner)
}

fn done<T: Send + 'static>(outcome: Result<T, StoreError>) -> BoxFuture<'static, Result<T, StoreError>> {
    ready(outcome).boxed()
}

impl Store for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { notices_death: !self.data().ignores_death }
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'static, Result<CommitReceipt, StoreError>> {
        done(validate(&commit).and_then(|()| self.data().commit(commit, &self.process)))
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
        done(self.data().claim(key, &self.process))
    }

    fn heartbeat(&self, key: &RunKey, epoch: Epoch) -> BoxFuture<'static, Result<(), StoreError>> {
        done(self.data().heartbeat(key, epoch, &self.process))
    }

    fn release(&self, key: &RunKey, epoch: Epoch) -> BoxFuture<'static, Result<(), StoreError>> {
        done(self.data().release(key, epoch, &self.process))
    }

    fn claimable(&self, tenant: &TenantId, limit: u32) -> BoxFuture<'static, Result<Vec<RunId>, StoreError>> {
        done(Ok(self.data().claimable(tenant, limit, &self.process.clock)))
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
        done(Ok(self.data().runs(tenant, prefix, limit, &self.process.clock)))
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
        done(self.data().remove(key, &self.process.clock))
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
