//! Going on after a crash, from the journal alone.
//!
//! Claim the run, fold its events, and look at every call that was begun and not ended, by its effect class:
//! a read runs again, a write is looked at, an exec is reported as interrupted, a delegate is found by its call
//! id, a model call is made again and counted.
//!
//! Why it is like this: `docs/decisions/events-run-resumed.md`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use posse_agent::conversation::Conversation;
use posse_agent::machine::Slot;
use posse_domain::code::Code;
use posse_domain::event::{EffectClass, Event, RunResumed, WriteIntent};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{FailKind, Failure, OpenState};

use super::effects::Effect;
use super::insisting::insist;
use super::session::{CallInFlight, CallStage, SeenDuringCall};
use super::{Driver, Stop};
use crate::history::conversation_of;
use crate::integrate::Fact;
use crate::ports::{Handler, WorkspaceId};

/// The events of each open agent, whole, in order.
pub(crate) type OpenEvents = HashMap<AgentId, Vec<Event>>;

/// A call that was begun before the crash.
struct InterruptedCall {
    call_id: Arc<str>,
    tool: String,
    class: EffectClass,
    write: Option<WriteIntent>,
}

impl Driver {
    /// Goes on with a run whose state was folded; `last_at_ms` is when its last event happened.
    pub(crate) async fn resume(mut self, mut events: OpenEvents, last_at_ms: i64) {
        let now_ms = self.rt.parts.system.now_ms();
        let unowned_ms = u64::try_from(now_ms - last_at_ms).unwrap_or(0);
        let epoch = self.epoch.unwrap_or_default();
        let order = self.run.open_in_order();
        // An owner that was only stopped still has its programs; this one must not act beside them.
        if let Err(reason) = self.rt.parts.system.end_effects(&self.run.id).await {
            self.missing = Some(reason);
        }
        if let Err(reason) = self.find_workspaces(&order).await {
            self.missing = Some(reason);
        }
        if !self.rt.parts.system.has_dir(&self.run.dir) {
            self.missing = Some(format!("its working directory {} is gone", self.run.dir));
        }
        let mut shared = self.shared_in_journal(&order);
        for id in &order {
            let contract = self.run.open(id).map(|agent| agent.contract.clone());
            let continues = contract.as_ref().and_then(|contract| contract.parent.continues.clone());
            let prior = match (continues, contract) {
                (Some(of), _) => {
                    let store = self.rt.parts.store.clone();
                    conversation_of(&*store, &self.key.clone(), &of).await.map_err(|error| error.to_string())
                }
                (None, Some(contract)) => shared.of(&contract).map(Option::unwrap_or_default),
                (None, None) => Ok(Conversation::default()),
            };
            let opened = prior.and_then(|prior| self.open_session(id, prior));
            if let Err(reason) = opened {
                self.poisoned = Some(Stop::Inconsistent(format!("{id} cannot go on: {reason}")));
                break;
            }
            if let Some(session) = self.sessions.get_mut(id) {
                for event in events.remove(id).unwrap_or_default() {
                    if let Some(replaying) = &mut self.replaying {
                        replaying.observe(&event);
                    }
                    shared.find_shared(id, &session.machine, &event.body);
                    session.machine.apply(&event.body);
                    self.projection.recall(&event);
                }
            }
        }
        self.rt.parts.faults.hit("engine.recover.after_fold");
        let root = self.run.id.root();
        self.emit(root, RunResumed { epoch, unowned_ms });
        for id in &order {
            self.watch_deadline(id);
        }
        self.reattach(&order);
        // Before anybody goes on: an agent that ends cuts its children short, and a call of theirs that seems to be
        // under way would give back a slot that this process never gave out.
        for id in &order {
            self.forfeit_model_call(id, Code::Interrupted, "the process ended before the reply", false);
        }
        for id in &order {
            self.resume_wait(id);
            for begun in self.begun_calls(id) {
                self.resume_call(id, begun);
            }
            self.resume_hooks(id);
            self.submit_if_full();
        }
        // A cancel that is durable is honoured before anything starts again.
        let mail = self.rt.parts.store.mail(&self.key);
        self.keep_places();
        // Before anybody is merged: one whose merge is journalled comes first, whatever its number.
        for id in &order {
            if self.waits_for_merge(id) && !self.wants_stop_hook_again(id) {
                self.wait_for_merge(id);
            }
        }
        match mail.await {
            Ok(mail) => self.take_mail(mail),
            Err(error) => self.poisoned = Some(Stop::Store(error)),
        }
        if let (Some(reason), false) = (self.missing.take(), self.run.is_cancelled(&self.run.id.root())) {
            self.poisoned.get_or_insert(Stop::Unavailable(reason));
        }
        for id in &order {
            self.reconcile(id);
            self.submit_if_full();
        }
        self.mark_plan();
        self.begin_run_skill();
        for id in &order {
            self.mark_merge_queue(id);
        }
        self.drive().await;
    }

    /// Makes sure of the workspaces that the journal knows: a machine that lost its power may have lost part of one,
    /// which is then made again from where its line stands.
    fn find_workspaces(&self, order: &[AgentId]) -> impl Future<Output = Result<(), String>> + use<> {
        let workspaces = self.rt.parts.workspaces.clone().filter(|_| self.run.is_isolated());
        let known = |id: &AgentId| {
            let agent = self.run.open(id).filter(|agent| agent.files.made)?;
            let (OpenState::Running { attempt }, origin) = (&agent.state, agent.files.origin()?) else {
                return None;
            };
            Some((WorkspaceId { agent: id.clone(), attempt: *attempt }, origin))
        };
        let known: Vec<_> = order.iter().filter_map(known).collect();
        async move {
            let Some(workspaces) = workspaces else { return Ok(()) };
            for (of, origin) in known {
                let id = of.agent.clone();
                let found = insist(|| workspaces.make(of.clone(), origin)).await;
                found.map_err(|problem| {
                    format!("the workspace of {} is not there: {problem}", id.relative())
                })?;
            }
            Ok(())
        }
    }

    /// Marks the calls whose children are open as waiting, and the writers that had started.
    fn reattach(&mut self, order: &[AgentId]) {
        for id in order {
            let Some(agent) = self.run.open(id) else { continue };
            let started = !matches!(agent.state, OpenState::Created { .. });
            let left = !agent.contract.execution.close_on_completion;
            let finished = matches!(agent.state, OpenState::Completed { .. })
                || left && matches!(agent.state, OpenState::Failed(_));
            let (call_id, background, writer) = (agent.call_id.clone(), agent.background, agent.writer);
            if finished {
                // Left open for its parent to close; it has no conversation any more.
                self.unclosed.insert(id.clone());
                self.sessions.remove(id);
                continue;
            }
            if writer && started && !id.is_root() {
                self.writers.resume(id);
            }
            self.enqueue_for_merge(id);
            let Some(parent) = id.parent().filter(|_| !background) else { continue };
            if let Some(session) = self.sessions.get_mut(&parent)
                && session.machine.call_of(&call_id).is_some()
            {
                let seen = Arc::new(SeenDuringCall::default());
                let flight = CallInFlight::new(EffectClass::Delegate, CallStage::Waiting, seen);
                session.calls.insert(call_id, flight);
            }
        }
    }

    /// Puts one agent back on its feet.
    fn reconcile(&mut self, id: &AgentId) {
        if !self.sessions.contains_key(id) || self.run.outcome.is_some() {
            return;
        }
        if self.run.is_cancelled(id) {
            return self.resume_cancel(id);
        }
        if self.waits_for_merge(id) {
            if self.wants_stop_hook_again(id) {
                self.begin_integration(id);
            }
            return;
        }
        self.mark_ready(id);
    }

    /// A cancel that was journalled is honoured: nothing of the agent starts again.
    fn resume_cancel(&mut self, id: &AgentId) {
        let mut reason = "cancelled".to_owned();
        let mut at = Some(id.clone());
        while let Some(agent) = at {
            if let Some(cancel) = self.run.open(&agent).and_then(|agent| agent.cancel.as_ref()) {
                reason.clone_from(&cancel.reason);
            }
            at = agent.parent();
        }
        if let Some(session) = self.sessions.get_mut(id) {
            session.ending =
                Some(Failure { kind: FailKind::Cancelled, code: Code::Cancelled, reason, report: None });
        }
        self.cut_short(id, false);
        self.mark_ready(id);
    }

    fn begun_calls(&self, id: &AgentId) -> Vec<InterruptedCall> {
        let Some(session) = self.sessions.get(id) else { return Vec::new() };
        let (calls, slots) = session.machine.calls();
        calls
            .iter()
            .zip(slots)
            .filter_map(|(call, slot)| match slot {
                Slot::Open { intended: true, write } => {
                    let class = self.tool(&call.name).map_or(EffectClass::Exec, |tool| tool.class);
                    let call_id = call.id.as_str().into();
                    Some(InterruptedCall { call_id, tool: call.name.clone(), class, write: write.clone() })
                }
                _ => None,
            })
            .collect()
    }

    fn resume_call(&mut self, id: &AgentId, begun: InterruptedCall) {
        let InterruptedCall { call_id, tool, class, write } = begun;
        match (class, write) {
            // Found again by its call id, or decided again when its turn comes.
            (EffectClass::Delegate | EffectClass::Journal | EffectClass::Read | EffectClass::Net, _) => {}
            (EffectClass::Write, Some(intent)) => self.recover_write(id, &call_id, &tool, intent),
            (EffectClass::Write | EffectClass::Exec, _) => {
                let text = "the process ended during this call; it was not run again";
                self.interrupt(id, &call_id, &tool, text);
            }
        }
    }

    fn recover_write(&mut self, id: &AgentId, call_id: &Arc<str>, tool: &str, intent: WriteIntent) {
        let handler = self.tool(tool).map(|tool| tool.handler.clone());
        let Some(Handler::Effect(handler)) = handler else {
            return self.interrupt(id, call_id, tool, "the tool is gone");
        };
        let Some(session) = self.sessions.get_mut(id) else { return };
        let seen = Arc::new(SeenDuringCall::new(session.machine.seen_files().clone()));
        let class = EffectClass::Write;
        let mut flight = CallInFlight::new(class, CallStage::Committing, seen);
        flight.holds = self.run.is_isolated();
        session.calls.insert(call_id.clone(), flight);
        let Some(input) = session.machine.call_of(call_id).map(|call| call.input.clone()) else { return };
        let Some(call) = self.context_of(id, call_id, Duration::MAX) else { return };
        // It holds a slot like any call; recovery may run a little over the limit, it never waits for it.
        if let Some(kind) = self.sessions.get(id).map(|session| session.kind.clone()) {
            self.scheduler.force(&kind);
        }
        if self.run.is_isolated() {
            self.merge_queue(id).apply(Fact::ChangeBegan);
        }
        self.after_commit(Effect::Recover { call, tool: handler, input, intent });
    }
}
