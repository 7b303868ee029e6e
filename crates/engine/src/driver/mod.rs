//! The driver of one run: takes inputs, decides, commits, and only then starts effects.
//!
//! One task owns the run's state, so nothing is locked and events have one order. A round takes all inputs in the
//! inbox, decides on them, and hands the events to the store as one commit. While that commit syncs, the driver decides
//! the next round, whose effects wait for its own sync. A crash therefore always loses whole commits, and no effect of
//! a lost commit has begun.
//!
//! Files call each other in one direction (`cargo xtask tidy`): the loop (this file) calls the lifecycle of agents
//! (advancing, dispatching, planning, requests, spawning, starting, ending, integrating, closing, answering), which
//! calls the desks, which use the core.
//!
//! Why it is like this: `docs/decisions/engine-one-task-per-run.md`, `docs/decisions/engine-desks.md`.

mod advancing;
mod answering;
mod closing;
mod committing;
pub(crate) mod core;
mod desks;
mod dispatching;
mod effects;
mod ending;
mod following;
mod integrating;
mod mail;
mod planning;
mod ready;
mod recover;
mod recover_files;
mod replaying;
mod requests;
mod session;
mod sharing;
mod skills;
mod spawning;
mod starting;
mod status;
mod submitting;
mod time_up;
mod wait;
pub(crate) mod workspace_retry;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use posse_domain::code::Code;
use posse_domain::event::{Event, RunPlanned};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::Run;
use posse_domain::plan::Plan;
use tokio::sync::{mpsc, watch};

use self::committing::{Batch, Commits};
use self::core::Core;
use self::desks::calls::CallDesk;
use self::desks::files::FilesDesk;
use self::desks::models::ModelDesk;
use self::desks::preamble::PreambleDesk;
use self::desks::writers::WriterQueue;
use self::effects::{Effect, Input};
use self::mail::Mailbox;
use self::ready::ReadySet;
pub(crate) use self::recover::OpenEvents;
pub use self::replaying::Replay;
use self::replaying::ReplayProgress;
use self::status::StatusWaits;
use crate::deltas::{DELTA_BATCH, DeltaHub};
use crate::ports::{Epoch, HookAnswer, RunKey, StoreError, ToolFailure};
use crate::projection::Projection;
use crate::runtime::{Inner, RequestField, StopKind};
use crate::scheduler::Scheduler;

/// Limit of inputs that one round takes.
const INPUTS_PER_ROUND: usize = 1_024;
/// Limit of slots that one round grants while a commit is under way.
const GRANTS_PER_ROUND: usize = 128;

/// From this number of agents, the system is notified at the end of the run that memory was freed.
const LARGE_TREE_AGENTS: usize = 1_000;

/// Why a driver gave its run up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The journal could not be written, or another process holds the lease.
    Store(StoreError),
    /// The state refused an event or a command that the driver had decided on.
    Inconsistent(String),
    /// The run needs something that is missing. Nothing was written.
    Unavailable(String),
    /// The embedder stopped the runtime.
    Requested,
}

/// What a driver reports to its runtime.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    /// The first commit is durable.
    pub(crate) durable: bool,
    /// The run has ended, or was given up.
    pub(crate) ended: Option<Result<(), Stop>>,
}

pub(crate) struct Driver {
    core: Core,
    commits: Commits,
    inbox: mpsc::UnboundedReceiver<Input>,
    mail: Mailbox,
    deltas: DeltaHub,
    progress: watch::Sender<Progress>,
    models: ModelDesk,
    preambles: PreambleDesk,
    calls: CallDesk,
    files: FilesDesk,
    writers: WriterQueue,
    status_waits: StatusWaits,
    /// Children created in this round. At its end, the driver journals what they still wait for.
    fresh: Vec<AgentId>,
    /// A requirement of the run that is missing: its directory, or an agent's model.
    missing: Option<String>,
}

/// The initial state of a driver.
pub(crate) struct Seed {
    pub(crate) run: Run,
    pub(crate) attended: bool,
    pub(crate) key: RunKey,
    pub(crate) epoch: Option<Epoch>,
    pub(crate) head: u64,
    pub(crate) projection: Projection,
    pub(crate) deltas: DeltaHub,
    pub(crate) progress: watch::Sender<Progress>,
    pub(crate) replay: Option<Replay>,
}

impl Driver {
    pub(crate) fn new(rt: Arc<Inner>, seed: Seed) -> Self {
        let Seed { run, attended, key, epoch, head, projection, deltas, progress, replay } = seed;
        let replaying = replay.map(ReplayProgress::new);
        #[expect(
            clippy::disallowed_methods,
            reason = "every effect in flight sends one input, and those are limited"
        )]
        let (sender, inbox) = mpsc::unbounded_channel();
        let limits =
            run.definitions.values().map(|prepared| (prepared.name.clone(), prepared.definition.parallel));
        let scheduler = Scheduler::new(run.terms.parallel, limits);
        let mail = Mailbox::new(rt.parts.store.watch(&key));
        let core = Core {
            rt,
            key,
            run_dir: Arc::new(PathBuf::from(&run.dir)),
            run,
            attended,
            sessions: HashMap::new(),
            scheduler,
            batch: Batch::default(),
            sender,
            projection,
            deadlines: BTreeSet::new(),
            unclosed: BTreeSet::new(),
            ready: ReadySet::default(),
            replaying,
            stop: None,
        };
        Self {
            core,
            commits: Commits::new(epoch, head),
            inbox,
            mail,
            models: ModelDesk::new(deltas.clone()),
            deltas,
            progress,
            preambles: PreambleDesk::default(),
            calls: CallDesk::default(),
            files: FilesDesk::default(),
            writers: WriterQueue::default(),
            status_waits: StatusWaits::default(),
            fresh: Vec::new(),
            missing: None,
        }
    }

    /// The run limit that is too small for a first call and a report. Checked before anything is written.
    pub(crate) fn problem_with_limits(mut self) -> Option<(RequestField, String)> {
        let root = self.core.run.id.root();
        let prior = self.prior_of_root().ok()?;
        self.open_session(&root, prior).ok()?;
        self.models.first_call_problem(&self.core, &self.preambles)
    }

    /// Starts a new run. Its first commit contains `run.started` and the root's first model call.
    pub(crate) async fn start(mut self, started: Event, plan: Option<Plan>) {
        let root = self.core.run.id.root();
        self.core.projection.observe(&started, &self.core.run);
        self.core.batch.touched.insert(root.clone());
        self.core.batch.run_changed = true;
        self.core.batch.events.push(started);
        self.core.watch_deadline(&root);
        let opened = self.prior_of_root().and_then(|prior| self.open_session(&root, prior));
        if let Err(reason) = opened {
            self.core.stop = Some(Stop::Inconsistent(reason.to_string()));
        }
        if let Some(reason) = self.missing.take() {
            self.core.stop = Some(Stop::Unavailable(reason));
        }
        if let Some(plan) = plan {
            self.core.emit(root.clone(), Box::new(RunPlanned { plan }));
            self.core.mark_plan();
        }
        self.begin_run_skill();
        self.core.mark_ready(&root);
        self.drive().await;
    }

    /// Executes rounds until the run has ended or must be given up.
    async fn drive(mut self) {
        let mut heartbeat = tokio::time::interval(self.core.rt.options.heartbeat);
        heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut flush = tokio::time::interval(DELTA_BATCH);
        flush.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut stop = self.core.rt.stopping.subscribe();
        let result = loop {
            self.end_round();
            if let Some(reason) = self.core.stop.take() {
                break Err(reason);
            }
            if self.core.run.outcome.is_some() && self.core.batch.events.is_empty() && self.commits.is_empty()
            {
                break Ok(());
            }
            let wake = self.next_wake();
            tokio::select! {
                // Rare inputs come first: under load the inbox is never empty, and a cancel must not wait for it.
                biased;
                _ = stop.changed() => {
                    let kind = *stop.borrow();
                    if kind == StopKind::Now {
                        break Err(Stop::Requested);
                    }
                }
                () = sleep_until(wake), if wake.is_some() => self.on_time(),
                _ = heartbeat.tick() => self.beat(),
                () = self.deltas.joined() => {}
                _ = flush.tick(), if self.deltas.has_listener() => self.deltas.flush(),
                () = self.mail.posted() => self.fetch_mail(),
                Some(committed) = self.commits.next(), if !self.commits.is_empty() => match committed {
                    Ok(effects) => {
                        self.committed(effects);
                        // Inputs that arrived while the commit was written are part of this round.
                        self.take_inputs();
                    }
                    Err(reason) => break Err(Stop::Store(reason)),
                },
                Some(input) = self.inbox.recv(), if self.commits.has_room() => {
                    self.input(input);
                    self.take_inputs();
                }
            }
        };
        self.leave(result).await;
    }

    /// Ends everything in flight, releases the lease, and reports how the run ended.
    async fn leave(self, result: Result<(), Stop>) {
        self.deltas.flush();
        for session in self.core.sessions.values() {
            session.abort();
        }
        self.calls.abort_all();
        // Before the lease is given back, so that the next holder of it finds them free.
        self.files.release_all(&self.core);
        if result.is_ok() {
            self.core.rt.parts.faults.hit("engine.run.before_release");
        }
        // If another process has the lease of this run, the store detects that by the epoch.
        if let Some(epoch) = self.commits.epoch
            && let Err(error) = self.core.rt.parts.store.release(&self.core.key, epoch).await
        {
            tracing::warn!(run = %self.core.key.run, %error, "the run's lease could not be given back");
        }
        if result.is_ok() {
            self.core.rt.parts.faults.hit("engine.run.after_release");
        }
        let system = self.core.rt.parts.system.clone();
        let progress = self.progress.clone();
        let large = self.core.run.agent_count() >= LARGE_TREE_AGENTS;
        drop(self);
        if large {
            system.freed();
        }
        progress.send_modify(|progress| progress.ended = Some(result));
    }

    fn take_inputs(&mut self) {
        for _ in 0..INPUTS_PER_ROUND {
            match self.inbox.try_recv() {
                Ok(input) => self.input(input),
                Err(_) => return,
            }
        }
    }

    fn input(&mut self, input: Input) {
        if let Input::Model(_) = &input {
            // The pieces of a reply reach their readers before its event does.
            self.deltas.flush();
        }
        let is_stopped_check =
            matches!(&input, Input::Checked { child, .. } if self.files.is_check_stopped(child));
        if let Some(problem) = input.machine_failure().filter(|_| !is_stopped_check) {
            // The machine failed, so the agent's work is neither accepted nor rejected. It is kept, and the operation
            // is retried when the run is resumed.
            self.core.stop = Some(Stop::Unavailable(problem.to_string()));
            return;
        }
        self.take(input);
        self.submit_if_full();
    }

    fn take(&mut self, input: Input) {
        let (core, files, calls) = (&mut self.core, &mut self.files, &mut self.calls);
        match input {
            Input::Model(done) => self.model_done(&done),
            Input::Waited { agent, end } => self.waited(&agent, end),
            Input::Unready { agent, call_id, problem } => {
                let text = format!("No command was run: {problem}.");
                let failure = ToolFailure { code: Code::Unsupported, text };
                calls.prepared(core, files, &agent, &call_id, Err(failure));
            }
            Input::Prepared { agent, call_id, result } => {
                calls.prepared(core, files, &agent, &call_id, result);
            }
            Input::Tool { agent, call_id, end } => calls.ended(core, files, &agent, &call_id, *end),
            Input::Recovered { agent, call_id, recovered, files: after } => {
                calls.recovered(core, files, &agent, &call_id, recovered, after);
            }
            Input::Hooked { agent, about, answer } => {
                let answer = answer.unwrap_or_else(|problem| HookAnswer::Denied(problem.to_string()));
                self.hooked(&agent, &about, answer);
            }
            Input::History { agent, conversation } => self.history_read(&agent, conversation),
            Input::Mail(mail) => self.take_mail(mail),
            Input::Lost(error) => core.stop = Some(Stop::Store(error)),
            input => self.take_files(input),
        }
    }

    fn take_files(&mut self, input: Input) {
        let (core, files) = (&mut self.core, &mut self.files);
        match input {
            Input::Made { agent, made } => {
                if let Some(outcome) = files.made(core, &agent, made) {
                    self.follow_files(outcome);
                }
            }
            Input::Shared { snapshot, dir } => {
                for outcome in files.shared_made(core, snapshot, dir) {
                    self.follow_files(outcome);
                }
            }
            Input::Snapshot { agent, taken } => self.snapshot_taken(&agent, taken),
            Input::Salvaged { agent, salvage } => {
                if let Some(outcome) = files.salvaged(core, &agent, salvage) {
                    self.follow_files(outcome);
                }
                self.core.mark_ready(&agent);
            }
            Input::Merged { request, merge } => {
                let outcome = files.merge_made(core, &request, merge);
                self.follow_merge(request.child.parent(), outcome);
            }
            Input::Checked { child, checks } => {
                let outcome = files.checks_run(core, &child, checks);
                self.follow_merge(child.parent(), outcome);
            }
            Input::Updated { child, of, new, updated } => {
                let outcome = files.updated(core, &child, &of, new, updated);
                self.follow_merge(Some(of.agent), outcome);
            }
            Input::Published(result) => files.published(core, result),
            _ => {}
        }
    }

    /// Reports the durable commit, and starts its effects.
    fn committed(&mut self, effects: Vec<Effect>) {
        self.core.rt.parts.faults.hit("engine.commit.after");
        if !self.progress.borrow().durable {
            self.progress.send_modify(|progress| progress.durable = true);
        }
        self.execute(effects);
    }

    /// Advances ready agents, grants slots, journals what new children wait for, and hands the round's events to the
    /// store.
    fn end_round(&mut self) {
        self.drain_ready();
        self.follow();
        if self.grant_slots() {
            self.log_waits();
            self.answer_status_waits();
            self.drain_ready();
        }
        if self.commits.has_room() || self.core.run.outcome.is_some() {
            self.submit();
        }
    }

    /// Grants free slots to those who wait for one. Returns whether all were granted: after a number of them, the round
    /// ends if a commit is under way, so that the calls of that commit start before the others are decided on.
    fn grant_slots(&mut self) -> bool {
        let mut granted = 0;
        while let Some(request) = self.core.scheduler.take() {
            self.grant(&request);
            self.drain_ready();
            granted += 1;
            // The end of a commit begins the next round. Without one, nothing might.
            if granted >= GRANTS_PER_ROUND && !self.commits.is_empty() {
                return false;
            }
        }
        true
    }

    /// When the next deadline or wait ends.
    fn next_wake(&self) -> Option<tokio::time::Instant> {
        let deadline = self.core.deadlines.first().map(|(at, _)| *at);
        let status = self.status_waits.next_end();
        [deadline, status, self.replay_gives_up_at()].into_iter().flatten().min()
    }

    fn on_time(&mut self) {
        self.give_replay_up();
        let now = tokio::time::Instant::now();
        while let Some((at, id)) = self.core.deadlines.first().cloned() {
            if at > now {
                break;
            }
            self.core.deadlines.pop_first();
            self.deadline_passed(&id);
        }
    }

    fn beat(&mut self) {
        let Some(epoch) = self.commits.epoch.filter(|_| self.progress.borrow().durable) else { return };
        let beat = self.core.rt.parts.store.heartbeat(&self.core.key, epoch);
        let sender = self.core.sender.clone();
        tokio::spawn(async move {
            if let Err(error) = beat.await {
                drop(sender.send(Input::Lost(error)));
            }
        });
    }
}

async fn sleep_until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
