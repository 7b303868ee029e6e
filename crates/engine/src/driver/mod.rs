//! Carries one run: takes what came in, decides, commits, and only then lets effects start.
//!
//! One task owns the run's state, so nothing is locked and events have one order. A round takes everything that
//! waits in the inbox, decides on all of it, and hands the events over as one commit; while that commit is
//! syncing the next round is already decided, and its effects wait for its own sync. What a crash cuts off is
//! therefore always a whole number of commits, and no effect of a lost commit has begun.

mod asking;
mod calls;
mod delegate;
mod delivering;
mod effects;
mod ending;
mod hooking;
mod integrating;
mod mail;
mod model;
mod place;
mod planning;
mod preamble;
mod recover;
mod replaying;
mod session;
mod sharing;
mod skills;
mod waiting;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use posse_agent::conversation::Conversation;
use posse_agent::machine::Step;
use posse_domain::code::Code;
use posse_domain::event::{CallError, Event, EventBody, QueuedFor, RunPlanned};
use posse_domain::hash::Hash;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{Finish, Run, RunEnd};
use posse_domain::object_id::ObjectId;
use posse_domain::plan::Plan;
use tokio::sync::{mpsc, watch};

use self::delegate::StatusWait;
use self::effects::{Effect, Input};
pub(crate) use self::recover::OpenEvents;
pub use self::replaying::Replay;
use self::replaying::Replaying;
use self::session::{Base, Calls, Keeping, Session, Start};
use crate::deltas::{DELTA_BATCH, DeltaHub};
use crate::history::machine_of;
use crate::integrate::Lane;
use crate::ports::{
    Basis, Commit, Committed, Epoch, Model, ModelFacts, ModelFailure, ModelReply, ModelRequest, Pulse,
    RunKey, StoreError, StreamSink, Tool, Urgency,
};
use crate::projection::Projection;
use crate::runtime::{Inner, StopKind};
use crate::scheduler::{Scheduler, Want, What};

/// Events from which on a commit is handed over; a wide reply is cut into several.
const COMMIT_TARGET_EVENTS: usize = 1_024;
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

/// What a round has decided on and not yet handed over.
#[derive(Default)]
struct Batch {
    events: Vec<Event>,
    touched: BTreeSet<AgentId>,
    effects: Vec<Effect>,
    run_changed: bool,
    mail_taken: Option<u64>,
}

/// A commit on its way to the disk, and what may start once it is there.
struct InFlight {
    commit: BoxFuture<'static, Result<Committed, StoreError>>,
    effects: Vec<Effect>,
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
    /// Writers that have started and are not closed, but for the root.
    writers: BTreeSet<AgentId>,
    /// Writers that wait for another to close, in order.
    held_writers: VecDeque<AgentId>,
    /// Who has the files of each agent, and whose work is next to be merged into them.
    lanes: HashMap<AgentId, Lane>,
    /// Files that readers share, by snapshot.
    shared: HashMap<ObjectId, place::Shared>,
    /// Merges that were made and are not yet in the journal.
    merges: HashMap<AgentId, integrating::Made>,
    /// Files of a parent that were in the way of a child's work and were kept, until the parent is told.
    in_the_way: HashMap<AgentId, String>,
    /// Ends the checks under way, by the child they are for.
    checks: HashMap<AgentId, watch::Sender<Urgency>>,
    /// What the run made of the files it started from, once it is delivered.
    delivery: delivering::Delivery,
    /// Completed children that their contract leaves open for the parent to close.
    unclosed: BTreeSet<AgentId>,
    /// Agents whose call did not fit into a budget now.
    budget_line: VecDeque<AgentId>,
    /// Whether the agents are still being put back on their feet; each is pumped when its turn comes.
    resuming: bool,
    /// How many calls are being dispatched, one because of the other.
    dispatching: u32,
    /// Children created in this round; the ones still waiting at its end say so.
    fresh: Vec<AgentId>,
    system_texts: HashMap<String, (Arc<str>, Hash)>,
    tool_lists: HashMap<String, Arc<preamble::ToolList>>,
    /// The system prompts and lists of tools whose text is in the journal.
    kept_texts: HashSet<Hash>,
    /// The recorded run that this one repeats.
    replaying: Option<Replaying>,
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
        let replaying = replay.map(Replaying::new);
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
            writers: BTreeSet::new(),
            held_writers: VecDeque::new(),
            lanes: HashMap::new(),
            shared: HashMap::new(),
            merges: HashMap::new(),
            in_the_way: HashMap::new(),
            checks: HashMap::new(),
            delivery: delivering::Delivery::Due,
            unclosed: BTreeSet::new(),
            budget_line: VecDeque::new(),
            resuming: false,
            dispatching: 0,
            fresh: Vec::new(),
            system_texts: HashMap::new(),
            tool_lists: HashMap::new(),
            kept_texts: HashSet::new(),
            replaying,
            missing: None,
            poisoned: None,
        }
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
            self.advance_plan();
        }
        self.begin_run_skill();
        self.pump(&root);
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
                _ = flush.tick(), if self.deltas.is_heard() => self.deltas.flush(),
                changed = self.pulse.changed(), if !self.deaf => match changed {
                    Ok(()) => self.look_for_mail(),
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
        self.take(input);
        self.cut();
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Model(done) => self.model_done(&done),
            Input::Waited { agent, waited } => self.waited(&agent, waited),
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
            Input::Delivered(result) => self.result_delivered(result),
            Input::Hooked { agent, about, answer } => self.hooked(&agent, &about, answer),
            Input::History { agent, conversation } => self.history_read(&agent, conversation),
            Input::Mail(mail) => self.take_mail(mail),
            Input::Lost(error) => self.poisoned = Some(Stop::Store(error)),
        }
    }

    /// Hands out slots, says what waits, and hands the round's events to the store.
    fn end_round(&mut self) {
        self.follow();
        while let Some(want) = self.scheduler.take() {
            self.grant(want);
        }
        self.say_what_waits();
        self.answer_status_waits();
        if self.flight.len() < COMMITS_IN_FLIGHT_MAX || self.run.outcome.is_some() {
            self.submit();
        }
    }

    fn say_what_waits(&mut self) {
        for id in std::mem::take(&mut self.fresh) {
            let Some(session) = self.sessions.get(&id) else { continue };
            let waits_for = if session.held {
                QueuedFor::Ownership
            } else if self.budget_line.contains(&id) {
                QueuedFor::Budget
            } else {
                QueuedFor::Slot
            };
            if session.needs_history || session.base == Base::Awaited || !session.hooks.is_empty() {
                continue;
            }
            if let Some((id, body)) = self.run.queue(&id, waits_for) {
                self.emit(id, body);
            }
        }
    }

    fn grant(&mut self, want: Want) {
        match want.what {
            What::Model => self.ask_model(&want.agent, &want.kind),
            What::Call(call_id) => self.run_call(&want.agent, &call_id, &want.kind),
        }
    }

    /// Applies an event to the state and adds it to the round.
    fn emit(&mut self, agent: AgentId, body: impl Into<EventBody>) {
        let event = Event { agent, at_ms: self.rt.parts.system.now_ms(), body: body.into() };
        if let Err(illegal) = self.run.apply(&event) {
            // Never seen outside a bug. Nothing of this round is written, so the journal stays good.
            self.poisoned.get_or_insert(Stop::Inconsistent(illegal.to_string()));
            return;
        }
        if let Some(session) = self.sessions.get_mut(&event.agent) {
            session.machine.apply(&event.body);
            session.last_activity = event.body.kind();
        }
        trace(&event);
        if let Some(replaying) = &mut self.replaying {
            replaying.observe(&event);
        }
        self.projection.observe(&event, &self.run);
        self.batch.run_changed |= matches!(
            event.body,
            EventBody::RunCompleted(_) | EventBody::RunFailed(_) | EventBody::RunCancelled(_)
        );
        self.batch.touched.insert(event.agent.clone());
        self.batch.events.push(event);
    }

    /// Hands over what was decided once it is much. Only called between things that belong together: a child that
    /// is closed in one commit and delivered in the next would, after a crash between the two, be spawned again.
    fn cut(&mut self) {
        if self.batch.events.len() >= COMMIT_TARGET_EVENTS {
            self.submit();
        }
    }

    /// Lets an effect start once everything decided so far is durable.
    fn after_commit(&mut self, effect: Effect) {
        self.batch.effects.push(effect);
    }

    fn submit(&mut self) {
        if self.poisoned.is_some() {
            return;
        }
        if self.batch.events.is_empty() && self.batch.mail_taken.is_none() {
            let effects = std::mem::take(&mut self.batch.effects);
            match self.flight.back_mut() {
                Some(last) => last.effects.extend(effects),
                None => self.carry_out(effects),
            }
            return;
        }
        let Batch { events, touched, effects, run_changed, mail_taken } = std::mem::take(&mut self.batch);
        self.rt.parts.faults.hit("engine.commit.before");
        let count = events.len() as u64;
        let mut blobs = Vec::new();
        let agents = self.projection.rows(&self.run, with_those_above(touched));
        let encoded: Result<Vec<_>, _> = events.into_iter().map(|event| event.encode(&mut blobs)).collect();
        let encoded = match encoded {
            Ok(encoded) => encoded,
            Err(error) => {
                self.poisoned = Some(Stop::Inconsistent(error.to_string()));
                return;
            }
        };
        let basis = match self.epoch {
            None => Basis::New,
            Some(epoch) => Basis::Owned { head: self.head, epoch },
        };
        // A new run has epoch 1: later commits may be handed over before the first is durable.
        self.epoch.get_or_insert(1);
        let run = run_changed.then(|| self.projection.run_row(&self.run));
        let commit = Commit { key: self.key.clone(), basis, events: encoded, blobs, agents, run, mail_taken };
        self.head += count;
        self.flight.push_back(InFlight { commit: self.rt.parts.store.commit(commit), effects });
    }

    fn committed(
        &mut self,
        result: Option<(Result<Committed, StoreError>, Vec<Effect>)>,
    ) -> Result<(), StoreError> {
        let Some((result, effects)) = result else { return Ok(()) };
        result?;
        self.rt.parts.faults.hit("engine.commit.after");
        if !self.progress.borrow().durable {
            self.progress.send_modify(|progress| progress.durable = true);
        }
        self.carry_out(effects);
        Ok(())
    }

    /// Does whatever the agent's machine says is next.
    fn pump(&mut self, id: &AgentId) {
        if self.resuming {
            return;
        }
        loop {
            let Some(session) = self.sessions.get(id) else { return };
            if session.ending.is_some() {
                self.conclude(id);
                return;
            }
            if session.needs_history
                || session.base == Base::Awaited
                || session.held
                || self.run.is_cancelled(id)
            {
                return;
            }
            if !self.has_base(id) {
                return;
            }
            let Some(session) = self.sessions.get(id) else { return };
            let hooked = !session.hooks.is_empty();
            match session.machine.next(self.has_working_children(id) || self.plan_goes_on(id)) {
                // No result is read, and no first turn taken, before the hooks have answered.
                Step::CallModel { .. } | Step::Done { .. } if hooked || self.waits_for_recorded(id) => return,
                Step::CallModel { .. } if self.tell_start(id) => return,
                Step::CallModel { .. } => return self.want_model(id),
                Step::CallTools => return self.dispatch_calls(id),
                Step::Wait | Step::Idle => return,
                Step::Tell(note, text) => self.tell(id, note, text),
                Step::Done { report, turns_exhausted } => return self.done(id, &report, turns_exhausted),
                Step::Fail(broken) => return self.end_attempt(id, ending::failure_of(broken)),
            }
        }
    }

    fn has_working_children(&self, id: &AgentId) -> bool {
        let Some(agent) = self.run.open(id) else { return false };
        let left_open = self.unclosed.iter().filter(|child| child.parent().as_ref() == Some(id)).count();
        agent.open_children.len() > left_open
    }

    fn want_model(&mut self, id: &AgentId) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        if session.wants_model || session.held || session.waiting.is_some() {
            return;
        }
        session.wants_model = true;
        let want = Want { agent: id.clone(), kind: session.kind.clone(), what: What::Model };
        self.scheduler.request(want);
    }

    /// The agent's work is done: children it left open are closed, then it finishes.
    fn done(&mut self, id: &AgentId, report: &Arc<str>, turns_exhausted: bool) {
        self.close_finished_children(id);
        if id.is_root() {
            self.abandon_steps();
        }
        if self.run.attempt_of(id).is_none() || !self.files_are_kept(id) {
            return;
        }
        if id.is_root() {
            let end = RunEnd::Done { report: self.with_plan(report).into(), turns_exhausted };
            return self.end_run(end);
        }
        let change = self.change_of(id);
        let finish = Finish { report: report.clone().into(), turns_exhausted, change };
        let Some(mut decided) = self.run.finish(id, finish) else { return };
        // Hooks hear of its end before it is integrated.
        decided.truncate(if self.hears_stop(id) { 1 } else { decided.len() });
        let accepted = decided.len() > 1;
        for (id, body) in decided {
            self.emit(id, body);
        }
        if accepted { self.settled(id) } else { self.work_ended(id) }
    }

    /// Makes the session of an agent that is in the state.
    fn open_session(&mut self, id: &AgentId, prior: Conversation) -> Result<(), String> {
        let agent = self.run.open(id).ok_or("the agent is not open")?;
        let contract = agent.contract.clone();
        let kind = agent.kind.name.clone();
        let replayed = self.replaying.as_ref().map(|replaying| Ok(replaying.model()));
        let resolve = || self.rt.parts.models.resolve(&contract.execution.model);
        let model = match replayed.unwrap_or_else(resolve) {
            Ok(model) => model,
            Err(reason) => {
                // A run can be cancelled without its model; anything else stops before it starts.
                self.missing.get_or_insert(reason);
                Arc::new(NoModel)
            }
        };
        let machine = machine_of(Some(&agent.kind.definition), &contract, prior);
        let (system, text_hash, tools) = self.preamble_of(id)?;
        // One that begins with its parent's conversation is offered its parent's tools, which is no right to use them.
        let own = if contract.execution.share_history { self.tools_of(id) } else { tools.clone() };
        let skill_dirs = own.skills.dirs.clone();
        let preamble = preamble::of(&text_hash, &system, &tools);
        let facts = model.facts();
        let relays = id.is_root() && self.run.terms.skill.is_some();
        let session = Session {
            machine: if relays { machine.relaying() } else { machine },
            kind,
            model,
            facts,
            system,
            system_hash: text_hash,
            tools,
            skill_dirs,
            preamble,
            asking: None,
            permit: None,
            waiting: None,
            unanswered: None,
            wants_model: false,
            held: false,
            needs_history: false,
            cursor: 0,
            calls: Calls::default(),
            hooks: Vec::new(),
            start: Start::Untold,
            last_activity: "agent.subagent_created",
            ending: None,
            place: self.known_place(id),
            parked: Vec::new(),
            base: Base::Unknown,
            tip: None,
            change: None,
            keeping: Keeping::No,
        };
        self.sessions.insert(id.clone(), session);
        Ok(())
    }

    fn tool(&self, name: &str) -> Option<&Tool> {
        self.rt.tools.get(name)
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

/// Stands in for a model that is not there. It is never asked: a driver with one only ends what it carries.
struct NoModel;

impl Model for NoModel {
    fn facts(&self) -> ModelFacts {
        ModelFacts { context_tokens: 0, max_output_tokens: 0, price: None }
    }

    fn call(
        &self,
        _: ModelRequest,
        _: Arc<dyn StreamSink>,
    ) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        let error = CallError::new(Code::ModelError, "the model is not there".to_owned());
        Box::pin(async { Err(ModelFailure::last(error)) })
    }
}

/// These agents and all above them: what one spends is in the figures of every subtree it is part of.
fn with_those_above(touched: BTreeSet<AgentId>) -> BTreeSet<AgentId> {
    let mut all = touched.clone();
    for id in touched {
        let mut above = id.parent();
        // One that is there already brought those above it along, or will.
        while let Some(next) = above.filter(|next| !all.contains(next)) {
            above = next.parent();
            all.insert(next);
        }
    }
    all
}

/// Spawning and closing are log records too, so that metrics can be made from them.
fn trace(event: &Event) {
    match &event.body {
        EventBody::SubagentCreated(e) => tracing::info!(
            agent_id = %event.agent, definition = %e.definition, skill = e.skill.as_deref(), depth = e.depth,
            parent_id = %e.parent_id, root_id = %e.root_id, turn_limit = e.turn_limit, "sub-agent created"
        ),
        EventBody::SubagentClosed(e) => tracing::info!(
            agent_id = %event.agent, final_status = ?e.final_status, close_reason = %e.close_reason,
            turns = e.usage.turns, tool_calls = e.usage.tool_calls, wall_ms = e.usage.wall_ms,
            input_tokens = e.usage.usage.input_tokens, output_tokens = e.usage.usage.output_tokens,
            subtree_input_tokens = e.subtree_usage.usage.input_tokens,
            subtree_output_tokens = e.subtree_usage.usage.output_tokens, "sub-agent closed"
        ),
        _ => {}
    }
}

async fn next_commit(
    flight: &mut VecDeque<InFlight>,
) -> Option<(Result<Committed, StoreError>, Vec<Effect>)> {
    let result = (&mut flight.front_mut()?.commit).await;
    let done = flight.pop_front()?;
    Some((result, done.effects))
}

async fn sleep_until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
