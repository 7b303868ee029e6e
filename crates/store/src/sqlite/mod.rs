//! The store in SQLite, for all processes that share a state directory.

mod blobs;
mod check;
mod checkpoint;
mod columns;
mod commit;
mod connect;
mod context;
mod error;
mod events_in_force;
mod files;
mod filesystem;
mod flock;
mod group;
mod holder;
mod lease;
mod mailbox;
mod migrate;
mod open;
mod options;
mod paths;
mod query;
mod queue;
mod readers;
mod remove;
mod request;
mod rows;
mod schema;
mod seal;
mod statements;
mod turnstile;
mod wake;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use futures::FutureExt;
use futures::future::BoxFuture;
use posse_domain::event::StoredEvent;
use posse_domain::hash::Hash;
use posse_domain::id::RunId;
use posse_engine::ports::{
    AgentRow, Capabilities, Claim, Commit, CommitReceipt, Epoch, Head, Health, Mail, MailCommand, Pulse,
    RemovedRun, RunEntry, RunKey, RunSpending, Store, StoreError, StorePart, TenantId,
};
use rusqlite::Connection;
use tokio::sync::{oneshot, watch};

pub use self::connect::sqlite_version;
use self::context::Context;
pub use self::options::*;
use self::paths::Paths;
use self::query::QueryError;
use self::queue::Queue;
use self::readers::{Readers, closed};
use self::request::{Answer, Request};
use self::wake::{Lookout, WakeSignal, Watchers};
use self::writer::Writer;
use crate::validate::validate;

/// The journal in a directory of this machine. Dropping it writes the queued commits, which takes a sync or two.
pub struct SqliteStore {
    context: Arc<Context>,
    watchers: Arc<Watchers>,
    /// Started by the first watcher.
    lookout: Mutex<Option<Lookout>>,
    readers: Readers,
    /// `None` in a read-only store.
    writer: Option<WriterThread>,
}

struct WriterThread {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        self.queue.close(closed());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("context", &self.context).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the store in `dir`, and creates it if needed.
    pub fn open(dir: &Path, options: SqliteOptions) -> Result<Self, StoreError> {
        let opened = open::open(dir, options)?;
        let context = opened.context;
        let bell = WakeSignal::open(&context)
            .map_err(|error| error::from_io(StorePart::Store, &context.paths.wake, &error))?;
        let watchers = Arc::new(Watchers::default());
        let queue = Arc::new(Queue::default());
        let writer = Writer {
            context: context.clone(),
            connection: opened.connection,
            turnstile: opened.turnstile,
            queue: queue.clone(),
            watchers: watchers.clone(),
            bell,
        };
        let thread = std::thread::Builder::new()
            .name("posse-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(|error| StoreError::Failed(format!("no thread for the writer: {error}")))?;
        let path = context.paths.database.clone();
        Ok(Self {
            context,
            watchers,
            lookout: Mutex::new(None),
            readers: Readers::new(move || connect::reader(&path)),
            writer: Some(WriterThread { queue, thread: Some(thread) }),
        })
    }

    /// Opens an existing store for reading only, also on a read-only medium. Writing returns [`StoreError::ReadOnly`].
    /// Returns `None` if there is no store: it was never created, or a crash interrupted its creation.
    pub fn open_existing_read_only(dir: &Path) -> Result<Option<Self>, StoreError> {
        let Some(context) = open::open_read_only(dir)? else { return Ok(None) };
        let readers = {
            let context = context.clone();
            Readers::new(move || open::connect_read_only(&context.paths.database))
        };
        let watchers = Arc::default();
        Ok(Some(Self { context, watchers, lookout: Mutex::new(None), readers, writer: None }))
    }

    /// The file or directory of a part of the store in `dir`, for a front end on the same machine. Errors of the store
    /// do not contain it.
    pub fn path_of(dir: &Path, part: StorePart) -> PathBuf {
        Paths::new(dir).of_part(part)
    }

    /// Queues a request at once, so that commits are written in call order. The future only waits for the answer.
    fn write<T: Send + 'static>(
        &self,
        request: impl FnOnce(Answer<T>) -> Request,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let (answer, heard) = oneshot::channel();
        if let Some(writer) = &self.writer {
            writer.queue.push(request(answer));
        } else {
            request(answer).refuse(StoreError::ReadOnly { part: StorePart::Store });
        }
        heard.map(|heard| heard.unwrap_or_else(|_| Err(closed()))).boxed()
    }

    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection, &Context) -> Result<T, QueryError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let context = self.context.clone();
        self.readers.ask(move |connection| {
            question(connection, &context).map_err(|broken| broken.at(&context.paths.database))
        })
    }

    /// Makes the lookout thread read the heads for a new receiver.
    fn start_watcher(&self) {
        let mut lookout = self.lookout.lock().unwrap_or_else(PoisonError::into_inner);
        if lookout.is_none() {
            match Lookout::start(self.context.clone(), self.watchers.clone()) {
                Ok(started) => *lookout = Some(started),
                Err(error) => tracing::warn!(%error, "changes by other processes will not be noticed"),
            }
        }
        if let Some(lookout) = &*lookout {
            lookout.check_now();
        }
    }
}

impl Store for SqliteStore {
    fn capabilities(&self) -> Capabilities {
        // The life locks of lease holders show their death.
        Capabilities { notices_death: true }
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'static, Result<CommitReceipt, StoreError>> {
        if let Err(error) = validate(&commit) {
            return futures::future::ready(Err(error)).boxed();
        }
        self.write(|answer| Request::Commit(Box::new(commit), answer))
    }

    fn read(
        &self,
        key: &RunKey,
        after: u64,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<StoredEvent>, StoreError>> {
        let key = key.clone();
        self.ask(move |connection, _| query::read(connection, &key, after, limit))
    }

    fn head(&self, key: &RunKey) -> BoxFuture<'static, Result<Head, StoreError>> {
        let key = key.clone();
        self.ask(move |connection, _| query::head(connection, &key))
    }

    fn watch(&self, key: &RunKey) -> watch::Receiver<Pulse> {
        let receiver = self.watchers.subscribe(key);
        self.start_watcher();
        receiver
    }

    fn claim(&self, key: &RunKey) -> BoxFuture<'static, Result<Claim, StoreError>> {
        let key = key.clone();
        self.write(|answer| Request::Claim(key, answer))
    }

    fn heartbeat(&self, key: &RunKey, epoch: Epoch) -> BoxFuture<'static, Result<(), StoreError>> {
        let key = key.clone();
        self.write(|answer| Request::Heartbeat(key, epoch, answer))
    }

    fn release(&self, key: &RunKey, epoch: Epoch) -> BoxFuture<'static, Result<(), StoreError>> {
        let key = key.clone();
        self.write(|answer| Request::Release(key, epoch, answer))
    }

    fn claimable(&self, tenant: &TenantId, limit: u32) -> BoxFuture<'static, Result<Vec<RunId>, StoreError>> {
        let tenant = tenant.clone();
        self.ask(move |connection, context| query::claimable(connection, context, &tenant, limit))
    }

    fn post(&self, key: &RunKey, command: MailCommand) -> BoxFuture<'static, Result<u64, StoreError>> {
        let key = key.clone();
        match serde_json::to_string(&command) {
            Ok(text) => self.write(|answer| Request::Post(key, text, answer)),
            Err(error) => {
                let error = StoreError::Failed(format!("the command cannot be written: {error}"));
                futures::future::ready(Err(error)).boxed()
            }
        }
    }

    fn mail(&self, key: &RunKey) -> BoxFuture<'static, Result<Vec<Mail>, StoreError>> {
        let key = key.clone();
        self.ask(move |connection, context| query::mail(connection, context, &key))
    }

    fn get_blob(&self, tenant: &TenantId, hash: &Hash) -> BoxFuture<'static, Result<Vec<u8>, StoreError>> {
        let (tenant, hash) = (tenant.clone(), *hash);
        self.ask(move |connection, context| query::blob(connection, context, &tenant, &hash))
    }

    fn runs(
        &self,
        tenant: &TenantId,
        prefix: &str,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<RunEntry>, StoreError>> {
        let (tenant, prefix) = (tenant.clone(), prefix.to_owned());
        self.ask(move |connection, context| query::runs(connection, context, &tenant, &prefix, limit))
    }

    fn agents(&self, key: &RunKey) -> BoxFuture<'static, Result<Vec<AgentRow>, StoreError>> {
        let key = key.clone();
        self.ask(move |connection, context| query::agents(connection, context, &key))
    }

    fn spending(
        &self,
        tenant: &TenantId,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<RunSpending>, StoreError>> {
        let tenant = tenant.clone();
        self.ask(move |connection, _| query::spending(connection, &tenant, limit))
    }

    fn remove(&self, key: &RunKey) -> BoxFuture<'static, Result<Head, StoreError>> {
        let key = key.clone();
        self.write(|answer| Request::Remove(key, answer))
    }

    fn removed(
        &self,
        tenant: &TenantId,
        prefix: &str,
        limit: u32,
    ) -> BoxFuture<'static, Result<Vec<RemovedRun>, StoreError>> {
        let (tenant, prefix) = (tenant.clone(), prefix.to_owned());
        self.ask(move |connection, _| query::removed(connection, &tenant, &prefix, limit))
    }

    fn check_run(&self, key: &RunKey) -> BoxFuture<'static, Result<Health, StoreError>> {
        let key = key.clone();
        self.ask(move |connection, context| {
            query::at_one_moment(connection, |moment| check::check_run(moment, context, &key))
        })
    }

    fn check(&self) -> BoxFuture<'static, Result<Health, StoreError>> {
        self.ask(|connection, context| {
            query::at_one_moment(connection, |moment| check::check(moment, context))
        })
    }
}
