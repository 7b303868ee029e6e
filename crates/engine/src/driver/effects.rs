//! Effects: what is done to the outside once its commit is durable, each in a task of its own that sends back
//! exactly one input.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use posse_agent::conversation::Conversation;
use posse_domain::budget::Amount;
use posse_domain::code::Code;
use posse_domain::event::{CallError, CheckRecord, RunResult, WriteIntent};
use posse_domain::id::AgentId;
use posse_domain::object_id::ObjectId;
use posse_domain::permission::Approvals;
use serde_json::Value;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::Driver;
use super::acting::{Limit, PrepareTask, act, prepare, prepare_read, recover};
use super::hooking::HookedMoment;
use super::insisting::{insist, insist_unless};
use super::session::{CallStage, ModelCallStage};
use super::waiting::WaitEnd;
use crate::deltas::{CallSink, DeltaCall};
use crate::history::conversation_of;
use crate::ports::{
    CallContext, CheckRequest, EffectTool, Faults, HookAnswer, HookCall, MadeWorkspace, Mail, Merge,
    MergeRequest, Model, ModelFailure, ModelReply, ModelRequest, Permit, PreparedEffect, RecoveredEffect,
    Retry, Salvage, StopSignal, StoreError, ToolFailure, ToolResult, UpdateOutcome, WorkspaceId,
    WorkspaceProblem,
};

/// What may start once a commit is durable.
pub(super) enum Effect {
    /// Ask a model.
    Model(Box<ModelEffect>),
    /// Look, and act at once: a read, or a call to the network that may be repeated.
    Look { call: CallContext, tool: Arc<dyn EffectTool>, input: Value, limit: Limit },
    /// Look only, to learn what will be done.
    Prepare { call: CallContext, tool: Arc<dyn EffectTool>, input: Value, limit: Limit },
    /// Do what was prepared and journalled.
    Run { call: CallContext, prepared: PreparedEffect, limit: Limit },
    /// Find out what became of a write that was cut off.
    Recover { call: CallContext, tool: Arc<dyn EffectTool>, input: Value, intent: WriteIntent },
    /// Read the conversation of a closed child.
    History { agent: AgentId, of: AgentId },
    /// Make an isolated workspace.
    Make { of: WorkspaceId, origin: ObjectId },
    /// Find, or lay out, the files that readers share.
    Share { snapshot: ObjectId },
    /// Commit the files of a workspace.
    Snapshot { of: WorkspaceId },
    /// Commit them for good.
    Salvage { of: WorkspaceId, base: ObjectId },
    /// Gate and merge a child's change.
    Merge { request: MergeRequest },
    /// Run a child's command criteria.
    Check { request: CheckRequest, signal: StopSignal },
    /// Bring a parent's files up to date.
    Update { child: AgentId, of: WorkspaceId, old: ObjectId, new: ObjectId },
    /// Make the root's files the run's result.
    Deliver { approvals: Approvals },
    /// Tell hooks, and wait for what they say.
    Hook { about: HookedMoment, call: Box<HookCall> },
    /// Write a report where people find it.
    Report { parent: AgentId, path: String, text: Arc<str> },
}

pub(super) struct ModelEffect {
    pub(super) model: Arc<dyn Model>,
    pub(super) request: ModelRequest,
    /// Held until the call has ended.
    pub(super) permit: Permit,
    pub(super) call: u32,
    pub(super) reserved: Amount,
    pub(super) total: Duration,
    pub(super) idle: Duration,
}

/// What comes back into the driver's inbox. Every effect sends one, so the inbox holds at most as many as there
/// are effects in flight.
pub(super) enum Input {
    Model(Box<ModelDone>),
    Waited {
        agent: AgentId,
        waited: WaitEnd,
    },
    Prepared {
        agent: AgentId,
        call_id: Arc<str>,
        result: Result<PreparedEffect, ToolFailure>,
    },
    /// What the programs of a call need could not be made ready.
    Unready {
        agent: AgentId,
        call_id: Arc<str>,
        problem: WorkspaceProblem,
    },
    /// `cut` if it was dropped at a limit.
    Tool {
        agent: AgentId,
        call_id: Arc<str>,
        result: ToolResult,
        elapsed: Duration,
        cut: bool,
    },
    Recovered {
        agent: AgentId,
        call_id: Arc<str>,
        recovered: RecoveredEffect,
    },
    History {
        agent: AgentId,
        conversation: Result<Conversation, String>,
    },
    Made {
        agent: AgentId,
        made: Result<MadeWorkspace, WorkspaceProblem>,
    },
    Shared {
        snapshot: ObjectId,
        dir: Result<PathBuf, WorkspaceProblem>,
    },
    Snapshot {
        agent: AgentId,
        taken: Result<ObjectId, WorkspaceProblem>,
    },
    Salvaged {
        agent: AgentId,
        salvage: Result<Salvage, WorkspaceProblem>,
    },
    Merged {
        request: Box<MergeRequest>,
        merge: Result<Merge, WorkspaceProblem>,
    },
    Checked {
        child: AgentId,
        checks: Result<Vec<CheckRecord>, WorkspaceProblem>,
    },
    Updated {
        child: AgentId,
        of: WorkspaceId,
        new: ObjectId,
        updated: Result<UpdateOutcome, WorkspaceProblem>,
    },
    Delivered(Result<Option<RunResult>, WorkspaceProblem>),
    Hooked {
        agent: AgentId,
        about: HookedMoment,
        answer: Result<HookAnswer, WorkspaceProblem>,
    },
    Mail(Vec<Mail>),
    Lost(StoreError),
}

pub(super) struct ModelDone {
    pub(super) agent: AgentId,
    pub(super) attempt: u32,
    pub(super) turn: u32,
    pub(super) call: u32,
    pub(super) reserved: Amount,
    pub(super) result: Result<ModelReply, ModelFailure>,
    pub(super) elapsed: Duration,
}

impl Driver {
    pub(super) fn execute(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Model(effect) => self.start_model(*effect),
                Effect::Look { call, tool, input, limit } => {
                    self.start_call(call, true, move |call, faults| {
                        prepare_read(call, tool, input, limit, faults)
                    });
                }
                Effect::Prepare { call, tool, input, limit } => {
                    let workspaces = self.rt.parts.workspaces.clone();
                    self.start_call(call, true, move |call, faults| {
                        prepare(call, PrepareTask { tool, input, limit, workspaces }, faults)
                    });
                }
                Effect::Run { call, prepared, limit } => {
                    self.start_call(call, false, move |call, faults| act(call, prepared, limit, faults));
                }
                Effect::Recover { call, tool, input, intent } => {
                    self.start_call(call, false, move |call, faults| {
                        recover(call, tool, input, intent, faults)
                    });
                }
                Effect::History { agent, of } => self.read_history(agent, of),
                Effect::Hook { about, call } => self.start_hooks(about, *call),
                effect @ (Effect::Make { .. }
                | Effect::Share { .. }
                | Effect::Snapshot { .. }
                | Effect::Salvage { .. }
                | Effect::Merge { .. }
                | Effect::Check { .. }
                | Effect::Update { .. }
                | Effect::Deliver { .. }
                | Effect::Report { .. }) => self.touch_workspace(effect),
            }
        }
    }

    /// Starts what has to do with workspaces. These hold no slot; what they begin they finish, also when the agent they
    /// are for ends meanwhile.
    fn touch_workspace(&mut self, effect: Effect) {
        let Some(workspaces) = self.rt.parts.workspaces.clone() else { return };
        let (sender, faults) = (self.sender.clone(), self.rt.parts.faults.clone());
        let run = self.run.id.clone();
        tokio::spawn(async move {
            let input = match effect {
                Effect::Make { of, origin } => {
                    faults.hit("engine.workspace.before_make");
                    let made = insist(|| workspaces.make(of.clone(), origin)).await;
                    faults.hit("engine.workspace.after_make");
                    Input::Made { agent: of.agent, made }
                }
                Effect::Share { snapshot } => {
                    let dir = insist(|| workspaces.shared(&run, snapshot)).await;
                    Input::Shared { snapshot, dir }
                }
                Effect::Snapshot { of } => {
                    faults.hit("engine.workspace.before_snapshot");
                    let taken = insist(|| workspaces.snapshot(of.clone())).await;
                    faults.hit("engine.workspace.after_snapshot");
                    Input::Snapshot { agent: of.agent, taken }
                }
                Effect::Salvage { of, base } => {
                    faults.hit("engine.workspace.before_salvage");
                    let salvage = insist(|| workspaces.salvage(of.clone(), base)).await;
                    faults.hit("engine.workspace.after_salvage");
                    Input::Salvaged { agent: of.agent, salvage }
                }
                Effect::Merge { request } => {
                    faults.hit("engine.merge.before");
                    let merge = insist(|| workspaces.merge(request.clone())).await;
                    faults.hit("engine.merge.after");
                    Input::Merged { request: Box::new(request), merge }
                }
                Effect::Check { request, signal } => {
                    faults.hit("engine.check.before");
                    let child = request.child.clone();
                    let ask = || workspaces.check(request.clone(), signal.clone());
                    let checks = insist_unless(&signal, ask).await;
                    faults.hit("engine.check.after");
                    Input::Checked { child, checks }
                }
                Effect::Update { child, of, old, new } => {
                    faults.hit("engine.update.before");
                    let updated = insist(|| workspaces.update(of.clone(), old, new)).await;
                    faults.hit("engine.update.after");
                    Input::Updated { child, of, new, updated }
                }
                Effect::Deliver { approvals } => {
                    faults.hit("engine.deliver.before");
                    let result = insist(|| workspaces.publish(&run, approvals.clone())).await;
                    faults.hit("engine.deliver.after");
                    Input::Delivered(result)
                }
                Effect::Report { parent, path, text } => {
                    // The report is in the journal; the file is for people, and can be written again from there.
                    if let Err(problem) = workspaces.report(&parent, path, text).await {
                        tracing::warn!(%parent, %problem, "a report could not be written");
                    }
                    return;
                }
                Effect::Model(_)
                | Effect::Look { .. }
                | Effect::Prepare { .. }
                | Effect::Run { .. }
                | Effect::Recover { .. }
                | Effect::Hook { .. }
                | Effect::History { .. } => return,
            };
            drop(sender.send(input));
        });
    }

    fn start_model(&mut self, effect: ModelEffect) {
        let agent = effect.request.agent.clone();
        // Cut short between the commit and now: the call was never sent, and is settled as such.
        let Some(session) = self.sessions.get_mut(&agent) else { return };
        let machine = &session.machine;
        let cut =
            !machine.is_asking() || machine.call() != effect.call || machine.turn() != effect.request.turn;
        if session.ending.is_some() || cut || self.poisoned.is_some() {
            return;
        }
        let alive = Arc::new(Notify::new());
        let ModelRequest { attempt, turn, .. } = effect.request;
        let call = DeltaCall { attempt, turn, call: effect.call };
        let sink = Arc::new(CallSink { hub: self.deltas.clone(), agent, call, alive: alive.clone() });
        let sender = self.sender.clone();
        let faults = self.rt.parts.faults.clone();
        let task = tokio::spawn(ask(effect, sink, alive, sender, faults));
        session.model_call = ModelCallStage::Reply(task.abort_handle());
    }

    /// Starts the task of a tool call. `droppable` calls only look: they are not started once the agent ends.
    fn start_call<F, T>(&mut self, call: CallContext, droppable: bool, task: F)
    where
        F: FnOnce(CallContext, Faults) -> T,
        T: Future<Output = Input> + Send + 'static,
    {
        let Some(session) = self.sessions.get_mut(&call.agent) else { return };
        let ending = session.ending.is_some();
        let Some(flight) = session.calls.get_mut(&call.call_id) else { return };
        // No tool starts after a cancel, whatever was committed before it. The call is answered at the end.
        if ending && (droppable || matches!(flight.stage, CallStage::Committing)) {
            flight.stage = CallStage::Committing;
            return;
        }
        let sender = self.sender.clone();
        let work = task(call, self.rt.parts.faults.clone());
        let handle = tokio::spawn(async move {
            // The driver is gone only when the run was given up; then nobody waits for the answer.
            drop(sender.send(work.await));
        });
        flight.stage = CallStage::Running(handle.abort_handle());
    }

    fn read_history(&mut self, agent: AgentId, of: AgentId) {
        let store = self.rt.parts.store.clone();
        let key = self.key.clone();
        let sender = self.sender.clone();
        let faults = self.rt.parts.faults.clone();
        tokio::spawn(async move {
            let conversation = conversation_of(&*store, &key, &of).await.map_err(|error| error.to_string());
            faults.hit("engine.history.after_read");
            drop(sender.send(Input::History { agent, conversation }));
        });
    }
}

async fn ask(
    effect: ModelEffect,
    sink: Arc<CallSink>,
    alive: Arc<Notify>,
    sender: mpsc::UnboundedSender<Input>,
    faults: Faults,
) {
    let ModelEffect { model, request, permit, call, reserved, total, idle } = effect;
    let (agent, attempt, turn) = (request.agent.clone(), request.attempt, request.turn);
    faults.hit("engine.model.before_send");
    let began = Instant::now();
    let answer = model.call(request, sink);
    drop(model);
    let result = tokio::select! {
        biased;
        result = answer => result,
        failure = watchdog(&alive, idle, total) => Err(failure),
    };
    drop(permit);
    faults.hit("engine.model.after_reply");
    let done = ModelDone { agent, attempt, turn, call, reserved, result, elapsed: began.elapsed() };
    drop(sender.send(Input::Model(Box::new(done))));
}

/// Ends when a call has been silent for `idle`, or has taken `total` in all.
async fn watchdog(alive: &Notify, idle: Duration, total: Duration) -> ModelFailure {
    let end = tokio::time::Instant::now() + total;
    loop {
        let silent = tokio::time::Instant::now() + idle;
        let (at, silence) = if end < silent { (end, false) } else { (silent, true) };
        tokio::select! {
            () = tokio::time::sleep_until(at) => return timed_out(silence, idle, total),
            () = alive.notified() => {}
        }
    }
}

/// A call that was cut off. One that fell silent may be made again; one that took all the time there was may not.
fn timed_out(silence: bool, idle: Duration, total: Duration) -> ModelFailure {
    let message = if silence {
        format!("the model was silent for {} ms", idle.as_millis())
    } else {
        format!("no reply within {} ms", total.as_millis())
    };
    let retry = silence.then_some(Retry { after: Duration::ZERO, limited: false });
    let error = Box::new(CallError::new(Code::Timeout, message));
    ModelFailure { error, usage: None, tag: None, retry }
}
