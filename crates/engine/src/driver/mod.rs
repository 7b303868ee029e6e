//! Carries one run: takes what came in, decides, commits, and only then lets effects start.
//!
//! One task owns the run's state, so nothing is locked and events have one order. A round takes everything that
//! waits in the inbox, decides on all of it, and hands the events over as one commit; while that commit is
//! syncing the next round is already decided, and its effects wait for its own sync. What a crash cuts off is
//! therefore always a whole number of commits, and no effect of a lost commit has begun.
//!
//! Why it is like this: `docs/decisions/engine-one-task-per-run.md`.

mod acting;
mod advancing;
mod answering;
mod asking;
mod calls;
mod commands;
mod committing;
mod delegate;
mod desks;
mod effects;
mod ending;
mod hooking;
pub(crate) mod insisting;
mod integrating;
mod mail;
mod model;
mod place;
mod planning;
mod publishing;
mod ready;
mod recover;
mod replaying;
mod results;
mod session;
mod sharing;
mod skills;
mod spawning;
mod starting;
mod status;
mod wait;
mod waiting;
mod winding;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use posse_agent::conversation::Conversation;
use posse_domain::code::Code;
use posse_domain::event::{Event, RunPlanned};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::Run;
use posse_domain::plan::Plan;
use tokio::sync::{mpsc, watch};

use self::committing::{Batch, InFlight, next_commit};
use self::desks::merging::MergeDesk;
use self::desks::preamble::PreambleDesk;
use self::desks::shared_files::SharedFilesDesk;
use self::desks::writers::WriterQueue;
use self::effects::Input;
pub(crate) use self::recover::OpenEvents;
pub use self::replaying::Replay;
use self::replaying::ReplayProgress;
use self::session::Session;
use self::status::StatusWait;
use crate::deltas::{DELTA_BATCH, DeltaHub};
use crate::ports::{Epoch, HookAnswer, Pulse, RunKey, StoreError, ToolFailure};
use crate::projection::Projection;
use crate::runtime::{Inner, StopKind};
use crate::scheduler::{Scheduler, SlotRequest, SlotUse};

/// Commits handed over and not yet durable.
const COMMITS_IN_FLIGHT_MAX: usize = 4;
/// Inputs taken in one round.
const INPUTS_PER_ROUND: usize = 1_024;

/// Agents of a tree whose end is worth handing memory back for.
const LARGE_TREE_AGENTS: usize = 1_000;

/// Why a driver gave its run up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The journal could not be written, or somebody else owns the run.
    Store(StoreError),
    /// The state refused an event it had decided on itself.
    Inconsistent(String),
    /// Something the run needs is not there; nothing was written.
    Unavailable(String),
    /// Whoever embeds the runtime asked for it.
    Asked,
}

/// What a driver tells the outside.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    /// The first commit is durable.
    pub(crate) durable: bool,
    /// The run has ended, or was given up.
    pub(crate) ended: Option<Result<(), Stop>>,
}

pub(crate) struct Driver {
    rt: Arc<Inner>,
    key: RunKey,
    epoch: Option<Epoch>,
    head: u64,
    run: Run,
    /// Whether somebody who can be asked attends to this process.
    attended: bool,
    /// The run's own directory.
    run_dir: Arc<PathBuf>,
    sessions: HashMap<AgentId, Session>,
    scheduler: Scheduler,
    batch: Batch,
    flight: VecDeque<InFlight>,
    inbox: mpsc::UnboundedReceiver<Input>,
    sender: mpsc::UnboundedSender<Input>,
    projection: Projection,
    deltas: DeltaHub,
    progress: watch::Sender<Progress>,
    pulse: watch::Receiver<Pulse>,
    /// Whether the store has stopped giving hints.
    deaf: bool,
    mail: mail::Mailbox,
    /// When wall times are up, on a clock that does not jump.
    deadlines: BTreeSet<(tokio::time::Instant, AgentId)>,
    status_waits: Vec<StatusWait>,
    writers: WriterQueue,
    merging: MergeDesk,
    shared_files: SharedFilesDesk,
    /// What the run made of the files it started from, once it is delivered.
    delivery: publishing::Delivery,
    /// Completed children that their contract leaves open for the parent to close.
    unclosed: BTreeSet<AgentId>,
    /// Agents whose call did not fit into a budget. One whose call waits for something else meanwhile is passed over.
    budget_queue: VecDeque<AgentId>,
    /// What may be able to go on.
    ready: ready::ReadySet,
    /// Hooks that hear of the commands of steps, by what a step is asked for by; asked again after a crash.
    step_hooks: BTreeMap<String, commands::StepHooks>,
    /// Children created in this round; the ones still waiting at its end say so.
    fresh: Vec<AgentId>,
    preambles: PreambleDesk,
    /// The recorded run that this one repeats.
    replaying: Option<ReplayProgress>,
    /// What the run needs and is not there: its directory, or an agent's model.
    missing: Option<String>,
    poisoned: Option<Stop>,
}

/// What a new driver begins with.
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
        let Seed { mut run, attended, key, epoch, head, projection, deltas, progress, replay } = seed;
        let replaying = replay.map(ReplayProgress::new);
        run.recorded_model = replaying.as_ref().map(|replaying| replaying.recorded_model().to_owned());
        #[expect(
            clippy::disallowed_methods,
            reason = "every effect in flight sends one input, and those are limited"
        )]
        let (sender, inbox) = mpsc::unbounded_channel();
        let limits = run.kinds.values().map(|kind| (kind.name.clone(), kind.definition.parallel));
        let scheduler = Scheduler::new(run.terms.parallel, limits);
        Self {
            pulse: rt.parts.store.watch(&key),
            deaf: false,
            run_dir: Arc::new(PathBuf::from(&run.dir)),
            rt,
            key,
            epoch,
            head,
            run,
            attended,
            sessions: HashMap::new(),
            scheduler,
            batch: Batch::default(),
            flight: VecDeque::new(),
            inbox,
            sender,
            projection,
            deltas,
            progress,
            mail: mail::Mailbox::default(),
            deadlines: BTreeSet::new(),
            status_waits: Vec::new(),
            step_hooks: BTreeMap::new(),
            writers: WriterQueue::default(),
            merging: MergeDesk::default(),
            shared_files: SharedFilesDesk::default(),
            delivery: publishing::Delivery::Due,
            unclosed: BTreeSet::new(),
            budget_queue: VecDeque::new(),
            ready: ready::ReadySet::default(),
            fresh: Vec::new(),
            preambles: PreambleDesk::default(),
            replaying,
            missing: None,
            poisoned: None,
        }
    }

    /// What the limits of a new run have no room for, found before anything of it is written.
    pub(crate) fn problem_with_limits(mut self) -> Option<(&'static str, String)> {
        let root = self.run.id.root();
        self.open_session(&root, Conversation::default()).ok()?;
        self.first_call_problem()
    }

    /// A new run: its first commit holds `run.started` and the root's first model call.
    pub(crate) async fn start(mut self, started: Event, plan: Option<Plan>) {
        let root = self.run.id.root();
        self.projection.observe(&started, &self.run);
        self.batch.touched.insert(root.clone());
        self.batch.run_changed = true;
        self.batch.events.push(started);
        self.watch_deadline(&root);
        if let Err(reason) = self.open_session(&root, Conversation::default()) {
            self.poisoned = Some(Stop::Inconsistent(reason));
        }
        if let Some(reason) = self.missing.take() {
            self.poisoned = Some(Stop::Unavailable(reason));
        }
        if let Some(plan) = plan {
            self.emit(root.clone(), Box::new(RunPlanned { plan }));
            self.mark_plan();
        }
        self.begin_run_skill();
        self.mark_ready(&root);
        self.drive().await;
    }

    /// The loop of rounds, until the run has ended or must be given up.
    async fn drive(mut self) {
        let mut heartbeat = tokio::time::interval(self.rt.options.heartbeat);
        heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut flush = tokio::time::interval(DELTA_BATCH);
        flush.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut stop = self.rt.stopping.subscribe();
        let result = loop {
            self.end_round();
            if let Some(reason) = self.poisoned.take() {
                break Err(reason);
            }
            if self.run.outcome.is_some() && self.batch.events.is_empty() && self.flight.is_empty() {
                break Ok(());
            }
            let wake = self.next_wake();
            tokio::select! {
                // What is rare comes first: under load the inbox is never empty, and a cancel must not wait for that.
                biased;
                _ = stop.changed() => {
                    let kind = *stop.borrow();
                    if kind == StopKind::Now {
                        break Err(Stop::Asked);
                    }
                }
                () = sleep_until(wake), if wake.is_some() => self.on_time(),
                _ = heartbeat.tick() => self.beat(),
                () = self.deltas.joined() => {}
                _ = flush.tick(), if self.deltas.has_listener() => self.deltas.flush(),
                changed = self.pulse.changed(), if !self.deaf => match changed {
                    Ok(()) => self.check_mailbox(),
                    // The store gives no more hints. Asked again it would say so at once, for ever.
                    Err(_) => self.deaf = true,
                },
                committed = next_commit(&mut self.flight), if !self.flight.is_empty() => {
                    if let Err(reason) = self.committed(committed) {
                        break Err(Stop::Store(reason));
                    }
                    // What finished while the disk was busy joins this round.
                    self.take_inputs();
                }
                Some(input) = self.inbox.recv(), if self.flight.len() < COMMITS_IN_FLIGHT_MAX => {
                    self.input(input);
                    self.take_inputs();
                }
            }
        };
        self.leave(result).await;
    }

    /// Ends what is still in flight, gives the lease back and says how it ended.
    async fn leave(self, result: Result<(), Stop>) {
        self.deltas.flush();
        for session in self.sessions.values() {
            session.abort_all();
        }
        if result.is_ok() {
            self.rt.parts.faults.hit("engine.run.before_release");
        }
        // A run that was fenced is not ours to release; the store knows that by the epoch.
        if let Some(epoch) = self.epoch
            && let Err(error) = self.rt.parts.store.release(&self.key, epoch).await
        {
            tracing::warn!(run = %self.key.run, %error, "the run's lease could not be given back");
        }
        if result.is_ok() {
            self.rt.parts.faults.hit("engine.run.after_release");
        }
        let system = self.rt.parts.system.clone();
        let progress = self.progress.clone();
        let large = self.run.agent_count() >= LARGE_TREE_AGENTS;
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
        if let Some(problem) = self.given_up(&input) {
            // Nothing is decided about the agent's work: it is kept, and the run asks again when it is resumed.
            self.poisoned = Some(Stop::Unavailable(problem));
            return;
        }
        self.take(input);
        self.submit_if_full();
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Model(done) => self.model_done(&done),
            Input::Waited { agent, waited } => self.waited(&agent, waited),
            Input::Unready { agent, call_id, problem } => {
                let text = format!("No command was run: {problem}.");
                self.prepared(&agent, &call_id, Err(ToolFailure { code: Code::Unsupported, text }));
            }
            Input::Prepared { agent, call_id, result } => self.prepared(&agent, &call_id, result),
            Input::Tool { agent, call_id, result, elapsed, cut } => {
                self.tool_done(&agent, &call_id, result, elapsed, cut);
            }
            Input::Recovered { agent, call_id, recovered } => self.recovered(&agent, &call_id, recovered),
            Input::Made { agent, made } => self.made(&agent, made),
            Input::Shared { snapshot, dir } => self.shared_made(snapshot, dir),
            Input::Snapshot { agent, taken } => self.snapshot_taken(&agent, taken),
            Input::Salvaged { agent, salvage } => self.salvaged(&agent, salvage),
            Input::Merged { request, merge } => self.merge_made(&request, merge),
            Input::Checked { child, checks } => self.checks_run(&child, checks),
            Input::Updated { child, of, new, updated } => self.updated(&child, &of, new, updated),
            Input::Delivered(result) => self.result_published(result),
            Input::Hooked { agent, about, answer } => {
                let answer = answer.unwrap_or_else(|problem| HookAnswer::Denied(problem.text));
                self.hooked(&agent, &about, answer);
            }
            Input::History { agent, conversation } => self.history_read(&agent, conversation),
            Input::Mail(mail) => self.take_mail(mail),
            Input::Lost(error) => self.poisoned = Some(Stop::Store(error)),
        }
    }

    /// Lets what is ready go on, hands out slots, says what waits, and hands the round's events to the store.
    fn end_round(&mut self) {
        self.drain_ready();
        self.follow();
        while let Some(want) = self.scheduler.take() {
            self.grant(want);
            self.drain_ready();
        }
        self.log_waits();
        self.answer_status_waits();
        self.drain_ready();
        if self.flight.len() < COMMITS_IN_FLIGHT_MAX || self.run.outcome.is_some() {
            self.submit();
        }
    }

    fn grant(&mut self, want: SlotRequest) {
        match want.what {
            SlotUse::Model => self.ask_model(&want.agent, &want.kind),
            SlotUse::Call(call_id) => self.run_call(&want.agent, &call_id, &want.kind),
        }
    }

    /// When the driver must look at the clock again.
    fn next_wake(&self) -> Option<tokio::time::Instant> {
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        let status = self.status_waits.iter().map(|wait| wait.until).min();
        [deadline, status, self.replay_gives_up_at()].into_iter().flatten().min()
    }

    fn on_time(&mut self) {
        self.give_replay_up();
        let now = tokio::time::Instant::now();
        while let Some((at, id)) = self.deadlines.first().cloned() {
            if at > now {
                break;
            }
            self.deadlines.pop_first();
            self.deadline_passed(&id);
        }
    }

    fn beat(&mut self) {
        let Some(epoch) = self.epoch.filter(|_| self.progress.borrow().durable) else { return };
        let beat = self.rt.parts.store.heartbeat(&self.key, epoch);
        let sender = self.sender.clone();
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
