//! The only thread of a process that writes to the database.
//!
//! 1. Wait for work, and a moment longer if more is about to come.
//! 2. Make the files of long blobs durable.
//! 3. Queue with the writers of other processes.
//! 4. Write all waiting requests in one transaction, and let the next process write.
//! 5. Notify watchers, and answer callers.
//! 6. Checkpoint if it is due.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use posse_engine::ports::StoreError;
use rusqlite::Connection;

use super::blobs;
use super::checkpoint::{Checkpoints, Depth};
use super::context::Context;
use super::error::{from_sqlite, leaves_store_usable};
use super::group::Group;
use super::lease::OwnLifeLock;
use super::options::{GROUP_MAX_EVENTS, IDLE_CHECKPOINT_AFTER};
use super::queue::{Queue, WakeReason};
use super::request::{Reply, Request, not_reached};
use super::statements::Statements;
use super::turnstile::Turnstile;
use super::wake::{WakeSignal, Watchers};

/// How long an idle writer sleeps before it checks again.
const SLEEP: Duration = Duration::from_hours(1);
/// Longest wait for the callers of the last group to come back with more requests.
const LINGER_MAX: Duration = Duration::from_micros(500);
/// The wait is at most this fraction of the last sync, so that its cost stays small beside its possible gain.
const LINGER_PART: u32 = 8;

/// The inputs of the writer thread.
pub(super) struct Writer {
    pub(super) context: Arc<Context>,
    pub(super) connection: Connection,
    pub(super) turnstile: Turnstile,
    pub(super) queue: Arc<Queue>,
    pub(super) watchers: Arc<Watchers>,
    pub(super) bell: WakeSignal,
}

/// Refuses the remaining requests, however the thread ends, so that no caller waits for ever.
struct RefuseOnDrop(Arc<Queue>);

impl Drop for RefuseOnDrop {
    fn drop(&mut self) {
        self.0.fail(&StoreError::Failed("the store was closed".to_owned()));
    }
}

impl Writer {
    pub(super) fn run(mut self) {
        let _will = RefuseOnDrop(self.queue.clone());
        let ended = Checkpoints::count(&mut self.connection, self.context.options.checkpoint_pages)
            .and_then(|checkpoints| self.serve(checkpoints));
        if let Err(error) = ended {
            let error = fail_stop(&self.context, &error);
            tracing::error!(%error, "the journal cannot be written any more");
            self.queue.fail(&error);
        }
    }

    fn serve(&mut self, checkpoints: Checkpoints) -> rusqlite::Result<()> {
        let mut writing = WriterLoop {
            context: &self.context,
            connection: &self.connection,
            sql: Statements::prepare(&self.connection)?,
            turnstile: &mut self.turnstile,
            queue: &self.queue,
            watchers: &self.watchers,
            bell: &self.bell,
            checkpoints,
            life_lock: OwnLifeLock::default(),
            staged: VecDeque::new(),
            pace: Pace::default(),
        };
        let served = writing.run();
        if let Err(error) = &served {
            writing.refuse_all(&fail_stop(writing.context, error));
        }
        served
    }
}

/// The error of every later request: the content of the disk is in doubt, and only opening the store again can show it.
fn fail_stop(context: &Context, error: &rusqlite::Error) -> StoreError {
    match from_sqlite(&context.paths.database, error) {
        StoreError::Unusable { part, problem } => StoreError::Unusable {
            part,
            problem: format!("{problem}; nothing more is written until the store is opened again"),
        },
        named => named,
    }
}

/// The size of groups and the duration of a sync, which determine how long the writer lingers.
#[derive(Debug, Default)]
struct Pace {
    requests: usize,
    sync: Duration,
}

/// The state of the running thread.
struct WriterLoop<'s> {
    context: &'s Context,
    connection: &'s Connection,
    sql: Statements<'s>,
    turnstile: &'s mut Turnstile,
    queue: &'s Queue,
    watchers: &'s Watchers,
    bell: &'s WakeSignal,
    checkpoints: Checkpoints,
    life_lock: OwnLifeLock,
    /// Requests that were taken from the queue and are not written yet, and whether their blob files are durable.
    staged: VecDeque<StagedRequest>,
    pace: Pace,
}

struct StagedRequest {
    request: Request,
    is_ready: bool,
}

impl WriterLoop<'_> {
    fn run(&mut self) -> rusqlite::Result<()> {
        loop {
            if self.staged.is_empty() {
                let pending = self.checkpoints.is_pending();
                match self.queue.wait(if pending { IDLE_CHECKPOINT_AFTER } else { SLEEP }) {
                    WakeReason::Idle if pending => self.checkpoint_if_free()?,
                    WakeReason::Idle | WakeReason::Work => {}
                    WakeReason::Closed => return self.close(),
                }
                self.queue.linger(self.pace.requests, LINGER_MAX.min(self.pace.sync / LINGER_PART));
            }
            self.stage();
            self.make_files();
            if !self.staged.is_empty() {
                self.write_group()?;
            }
            if self.checkpoints.is_due() {
                self.checkpoint(Depth::Passive)?;
            }
        }
    }

    fn stage(&mut self) {
        let mut requests = VecDeque::new();
        self.queue.take_all(&mut requests);
        self.staged.extend(requests.into_iter().map(|request| {
            let is_ready = !matches!(&request, Request::Commit(commit, _) if blobs::has_files(commit));
            StagedRequest { request, is_ready }
        }));
    }

    fn make_files(&mut self) {
        if self.staged.iter().all(|staged| staged.is_ready) {
            return;
        }
        for mut staged in std::mem::take(&mut self.staged) {
            if let (Request::Commit(commit, _), false) = (&staged.request, staged.is_ready)
                && let Err(error) =
                    blobs::write_files(&self.context.paths.blobs, commit, &self.context.options.faults)
            {
                staged.request.refuse(error);
                continue;
            }
            staged.is_ready = true;
            self.staged.push_back(staged);
        }
    }

    /// The requests that fit into one transaction, in order. A request whose blob files are not durable ends the group.
    fn next_group(&mut self) -> Vec<Request> {
        let mut requests = Vec::with_capacity(self.staged.len().min(GROUP_MAX_EVENTS));
        let mut weight = 0;
        while let Some(staged) = self.staged.pop_front_if(|staged| {
            staged.is_ready && (weight == 0 || weight + staged.request.weight() <= GROUP_MAX_EVENTS)
        }) {
            weight += staged.request.weight();
            requests.push(staged.request);
        }
        requests
    }

    fn write_group(&mut self) -> rusqlite::Result<()> {
        self.context.options.faults.hit("store.commit.before_txn");
        let permit = match self.turnstile.take() {
            Ok(permit) => permit,
            Err(error) => {
                self.stage();
                self.refuse_all(&error);
                return Ok(());
            }
        };
        // More requests may have arrived while other processes wrote.
        self.stage();
        let requests = self.next_group();
        self.pace.requests = requests.len();
        let mut group = Group {
            sql: &mut self.sql,
            context: self.context,
            life_lock: &mut self.life_lock,
            lease_until_ms: self.context.options.clock.until_ms(self.context.options.lease),
            heads: HashMap::new(),
            granted_claim: false,
        };
        let mut replies = Vec::with_capacity(requests.len());
        if let Err(error) = transact(&mut group, requests, &mut replies, &mut self.pace) {
            return self.undo(error, replies);
        }
        self.bell.ring();
        drop(permit);
        self.watchers.announce(group.pulses());
        for reply in replies {
            reply(None);
        }
        Ok(())
    }

    /// Handles a failed group, of which nothing was written. The writer continues if the store is still usable.
    fn undo(&mut self, error: rusqlite::Error, replies: Vec<Reply>) -> rusqlite::Result<()> {
        // SQLite may have rolled back by itself already.
        if !self.connection.is_autocommit() {
            let _ = self.sql.rollback.execute([]);
        }
        let usable = leaves_store_usable(&error) && self.connection.is_autocommit();
        let reason = if usable {
            from_sqlite(&self.context.paths.database, &error)
        } else {
            fail_stop(self.context, &error)
        };
        for reply in replies {
            reply(Some(reason.clone()));
        }
        if usable { Ok(()) } else { Err(error) }
    }

    fn refuse_all(&mut self, reason: &StoreError) {
        for staged in self.staged.drain(..) {
            staged.request.refuse(reason.clone());
        }
    }

    fn checkpoint_if_free(&mut self) -> rusqlite::Result<()> {
        match self.turnstile.try_take() {
            Some(_permit) => self.make_checkpoint(Depth::Passive),
            // Another process writes, and makes the checkpoint.
            None => Ok(()),
        }
    }

    fn checkpoint(&mut self, depth: Depth) -> rusqlite::Result<()> {
        match self.turnstile.take() {
            Ok(_permit) => self.make_checkpoint(depth),
            Err(error) => {
                tracing::warn!(%error, "no checkpoint");
                Ok(())
            }
        }
    }

    fn make_checkpoint(&mut self, depth: Depth) -> rusqlite::Result<()> {
        match self.checkpoints.make(self.connection, depth, &self.context.options.faults) {
            // The WAL still has everything. The disk only has no space for the checkpoint.
            Err(error) if leaves_store_usable(&error) => {
                tracing::warn!(%error, "no checkpoint");
                Ok(())
            }
            made => made,
        }
    }

    fn close(&mut self) -> rusqlite::Result<()> {
        self.checkpoint(Depth::Truncate)
    }
}

/// Executes the requests and syncs. Every request gets a reply, whatever happens.
fn transact(
    group: &mut Group<'_, '_>,
    requests: Vec<Request>,
    replies: &mut Vec<Reply>,
    pace: &mut Pace,
) -> rusqlite::Result<()> {
    let faults = &group.context.options.faults;
    let mut failure = group.sql.begin.execute([]).err();
    for request in requests {
        if failure.is_some() {
            replies.push(refused(request));
            continue;
        }
        let (reply, done) = group.execute(request);
        replies.push(reply);
        failure = done.err();
    }
    if let Some(error) = failure {
        return Err(error);
    }
    group.write_heads()?;
    faults.hit("store.commit.before_sync");
    let started = Instant::now();
    group.sql.commit.execute([])?;
    pace.sync = started.elapsed();
    faults.hit("store.commit.after_sync");
    if group.granted_claim {
        faults.hit("store.claim.after");
    }
    Ok(())
}

/// The reply to a request that was not reached.
fn refused(request: Request) -> Reply {
    Box::new(move |failure| request.refuse(failure.unwrap_or_else(not_reached)))
}
