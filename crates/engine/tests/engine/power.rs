//! A process that can lose its power at any moment. After that, none of its effects reaches the outside.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use futures::FutureExt;
use futures::future::{BoxFuture, pending};
use posse_domain::event::StoredEvent;
use posse_domain::hash::Hash;
use posse_domain::id::RunId;
use posse_engine::ports::{
    AgentRow, Capabilities, Claim, Commit, CommitReceipt, Epoch, Faults, Head, Health, Mail, MailCommand,
    Pulse, RemovedRun, RunEntry, RunKey, RunSpending, Store, StoreError, TenantId,
};
use posse_store::MemoryStore;
use tokio::sync::{mpsc, oneshot, watch};

/// The moment at which a process dies: the n-th pass of a fault point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CrashPoint {
    pub(crate) point: &'static str,
    pub(crate) pass: u64,
}

/// Whether a process lives. One lock covers its life and all its effects on the outside, so that no thread acts after
/// its death.
#[derive(Clone)]
pub(crate) struct Power(Arc<Mutex<State>>, watch::Sender<bool>);

struct State {
    store: Option<MemoryStore>,
    death: Option<CrashPoint>,
    passes: HashMap<&'static str, u64>,
}

impl Power {
    fn new(store: MemoryStore, death: Option<CrashPoint>) -> Self {
        let state = State { store: Some(store), death, passes: HashMap::new() };
        Self(Arc::new(Mutex::new(state)), watch::Sender::new(true))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic while it is held")
    }

    /// Executes an effect on the outside, unless the process is dead.
    pub(crate) fn act<T>(&self, act: impl FnOnce() -> T) -> Option<T> {
        let state = self.state();
        state.store.is_some().then(act)
    }

    fn with_store<T>(&self, act: impl FnOnce(&MemoryStore) -> T) -> Option<T> {
        self.state().store.as_ref().map(act)
    }

    /// Cuts the power. The handle of the store is dropped, so its leases end.
    pub(crate) fn cut(&self) {
        self.state().store = None;
        self.1.send_replace(false);
    }

    pub(crate) fn is_on(&self) -> bool {
        *self.1.borrow()
    }

    /// Waits until the power is cut.
    pub(crate) async fn lost(&self) {
        let mut on = self.1.subscribe();
        drop(on.wait_for(|on| !on).await);
    }

    pub(crate) fn passes(&self) -> HashMap<&'static str, u64> {
        self.state().passes.clone()
    }

    /// Dies at this pass of the point, counted from now.
    pub(crate) fn die_at(&self, point: &'static str, pass: u64) {
        let mut state = self.state();
        let passed = state.passes.get(point).copied().unwrap_or(0);
        state.death = Some(CrashPoint { point, pass: passed + pass });
    }

    fn pass(&self, point: &'static str) {
        let mut state = self.state();
        let count = state.passes.entry(point).or_default();
        *count += 1;
        let count = *count;
        let dies = state.death.is_some_and(|death| death.point == point && death.pass == count);
        let dead = dies || state.store.is_none();
        drop(state);
        if dies {
            self.cut();
        }
        if dead {
            // A dead process does not return from the fault point. This unwinds its task without a message.
            std::panic::resume_unwind(Box::new("the power is cut"));
        }
    }

    pub(crate) fn faults(&self) -> Faults {
        let power = self.clone();
        Faults::new(move |point| power.pass(point))
    }
}

/// The store of a process that can die. A separate task executes the commits later, in their order: as with a disk, a
/// commit that the store has received is not yet durable.
pub(crate) struct LateStore {
    power: Power,
    commits: mpsc::Sender<(Commit, oneshot::Sender<Result<CommitReceipt, StoreError>>)>,
    rewrite: fn(&mut Commit),
}

/// Limit of commits that wait for the disk. A driver never has more under way.
const COMMITS_MAX: usize = 64;

impl LateStore {
    pub(crate) fn open(
        store: MemoryStore,
        death: Option<CrashPoint>,
        rewrite: fn(&mut Commit),
    ) -> (Arc<Self>, Power) {
        let power = Power::new(store, death);
        let (commits, mut queue) = mpsc::channel::<(Commit, oneshot::Sender<_>)>(COMMITS_MAX);
        let disk = power.clone();
        tokio::spawn(async move {
            let mut turn: u32 = 0;
            while let Some((commit, answer)) = queue.recv().await {
                turn = turn.wrapping_add(1);
                // Sometimes at once, sometimes after the other tasks have run once or more.
                for _ in 0..turn % 4 {
                    tokio::task::yield_now().await;
                }
                match disk.with_store(|store| store.commit(commit)) {
                    Some(committed) => drop(answer.send(committed.await)),
                    None => return,
                }
            }
        });
        (Arc::new(Self { power: power.clone(), commits, rewrite }), power)
    }

    fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&MemoryStore) -> BoxFuture<'static, T>,
    ) -> BoxFuture<'static, T> {
        self.power.with_store(ask).unwrap_or_else(|| pending().boxed())
    }
}

impl Store for LateStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { notices_death: true }
    }

    fn commit(&self, mut commit: Commit) -> BoxFuture<'static, Result<CommitReceipt, StoreError>> {
        (self.rewrite)(&mut commit);
        let (answer, answered) = oneshot::channel();
        if self.commits.try_send((commit, answer)).is_err() {
            return pending().boxed();
        }
        async move {
            match answered.await {
                Ok(committed) => committed,
                Err(_) => pending().await,
            }
        }
        .boxed()
    }

    fn read(
        &self,
        key: &RunKey,
        after: u64,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<StoredEvent>, StoreError>> {
        self.ask(|store| store.read(key, after, limit))
    }

    fn head(&self, key: &RunKey) -> BoxFuture<'static, Result<Head, StoreError>> {
        self.ask(|store| store.head(key))
    }

    fn watch(&self, key: &RunKey) -> watch::Receiver<Pulse> {
        let watched = self.power.with_store(|store| store.watch(key));
        watched.unwrap_or_else(|| watch::channel(Pulse::default()).1)
    }

    fn claim(&self, key: &RunKey) -> BoxFuture<'static, Result<Claim, StoreError>> {
        self.ask(|store| store.claim(key))
    }

    fn heartbeat(&self, key: &RunKey, epoch: Epoch) -> BoxFuture<'static, Result<(), StoreError>> {
        self.ask(|store| store.heartbeat(key, epoch))
    }

    fn release(&self, key: &RunKey, epoch: Epoch) -> BoxFuture<'static, Result<(), StoreError>> {
        self.ask(|store| store.release(key, epoch))
    }

    fn claimable(&self, tenant: &TenantId, limit: u32) -> BoxFuture<'static, Result<Vec<RunId>, StoreError>> {
        self.ask(|store| store.claimable(tenant, limit))
    }

    fn post(&self, key: &RunKey, command: MailCommand) -> BoxFuture<'static, Result<u64, StoreError>> {
        self.ask(|store| store.post(key, command))
    }

    fn mail(&self, key: &RunKey) -> BoxFuture<'static, Result<Vec<Mail>, StoreError>> {
        self.ask(|store| store.mail(key))
    }

    fn get_blob(&self, tenant: &TenantId, hash: &Hash) -> BoxFuture<'static, Result<Vec<u8>, StoreError>> {
        self.ask(|store| store.get_blob(tenant, hash))
    }

    fn runs(
        &self,
        tenant: &TenantId,
        prefix: &str,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<RunEntry>, StoreError>> {
        self.ask(|store| store.runs(tenant, prefix, limit))
    }

    fn agents(&self, key: &RunKey) -> BoxFuture<'static, Result<Vec<AgentRow>, StoreError>> {
        self.ask(|store| store.agents(key))
    }

    fn spending(
        &self,
        tenant: &TenantId,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<RunSpending>, StoreError>> {
        self.ask(|store| store.spending(tenant, limit))
    }

    fn remove(&self, key: &RunKey) -> BoxFuture<'static, Result<Head, StoreError>> {
        self.ask(|store| store.remove(key))
    }

    fn removed(
        &self,
        tenant: &TenantId,
        prefix: &str,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<RemovedRun>, StoreError>> {
        self.ask(|store| store.removed(tenant, prefix, limit))
    }

    fn check_run(&self, key: &RunKey) -> BoxFuture<'static, Result<Health, StoreError>> {
        self.ask(|store| store.check_run(key))
    }

    fn check(&self) -> BoxFuture<'static, Result<Health, StoreError>> {
        self.ask(MemoryStore::check)
    }
}
