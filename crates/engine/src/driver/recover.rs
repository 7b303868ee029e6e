//! Resumes a run after a crash, from the journal alone.
//!
//! The events are folded. Every call that had begun and not ended is handled by its effect class: a read runs again, a
//! write is inspected, an exec is reported as interrupted, a delegate is found by its call id, a model call is repeated
//! and counted.
//!
//! Why it is like this: `docs/decisions/events-run-resumed.md`.

use std::collections::HashMap;
use std::sync::Arc;

use posse_agent::conversation::Conversation;
use posse_agent::machine::Slot;
use posse_domain::code::Code;
use posse_domain::event::{EffectClass, Event, RunResumed, WriteIntent};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::OpenState;

use super::desks::calls::{CallDesk, wants_stop_hook_again};
use super::desks::models::ModelDesk;
use super::recover_files::LeftFiles;
use super::session::SessionError;
use super::{Driver, Stop};
use crate::history::conversation_of;
use crate::ports::Urgency;

/// The events of each open agent with their long texts, in order.
pub(crate) type OpenEvents = HashMap<AgentId, Vec<Event>>;

/// A call that began before the crash.
struct InterruptedCall {
    call_id: Arc<str>,
    tool: String,
    class: EffectClass,
    write: Option<WriteIntent>,
}

impl Driver {
    /// Continues a run whose state is folded. `last_at_ms` is the time of its last event.
    pub(crate) async fn resume(mut self, mut events: OpenEvents, last_at_ms: i64) {
        let now_ms = self.core.rt.parts.system.now_ms();
        let unowned_ms = u64::try_from(now_ms - last_at_ms).unwrap_or(0);
        let epoch = self.commits.epoch.unwrap_or_default();
        let order = self.core.run.open_in_order();
        // An earlier lease holder may be suspended, with its programs still running. This process must not act at the
        // same time.
        if let Err(error) = self.core.rt.parts.system.end_effects(&self.core.run.id).await {
            self.missing = Some(error.to_string());
        }
        let mut left = match self.recover_files(&order, &events).await {
            Ok(left) => left,
            Err(missing) => {
                self.missing = Some(missing.to_string());
                LeftFiles::default()
            }
        };
        if !self.core.rt.parts.system.has_dir(&self.core.run.dir) {
            self.missing = Some(format!("its working directory {} is gone", self.core.run.dir));
        }
        let mut shared = self.shared_in_journal(&order);
        for id in &order {
            let contract = self.core.run.open(id).map(|agent| agent.contract.clone());
            let continues = contract.as_ref().and_then(|contract| contract.parent.continues.clone());
            let prior = match (continues, contract) {
                _ if id.is_root() => self.prior_of_root(),
                (Some(of), _) => {
                    let store = self.core.rt.parts.store.clone();
                    conversation_of(&*store, &self.core.key.clone(), &of).await.map_err(SessionError::from)
                }
                (None, Some(contract)) => shared.of(&contract).map(Option::unwrap_or_default),
                (None, None) => Ok(Conversation::default()),
            };
            let opened = prior.and_then(|prior| self.open_session(id, prior));
            if let Err(reason) = opened {
                self.core.stop = Some(Stop::Inconsistent(format!("{id} cannot continue: {reason}")));
                break;
            }
            if let Some(session) = self.core.sessions.get_mut(id) {
                for event in events.remove(id).unwrap_or_default() {
                    if let Some(replaying) = &mut self.core.replaying {
                        replaying.observe(&event);
                    }
                    shared.find_shared(id, &session.machine, &event.body);
                    session.machine.apply(&event.body);
                    self.core.projection.recall(&event);
                }
            }
        }
        self.core.rt.parts.faults.hit("engine.recover.after_fold");
        let root = self.core.run.id.root();
        self.core.emit(root, RunResumed { epoch, unowned_ms });
        for id in &order {
            self.core.watch_deadline(id);
        }
        self.reattach(&order);
        // This must precede all other steps: an agent that ends cuts its children short, and a call of theirs that
        // seems to be under way would return a slot that this process never granted.
        for id in &order {
            ModelDesk::forfeit(
                &mut self.core,
                id,
                Code::Interrupted,
                "the process ended before the reply",
                false,
            );
        }
        for id in &order {
            ModelDesk::resume_wait(&mut self.core, id);
            for begun in self.begun_calls(id) {
                self.resume_call(id, begun, &mut left);
            }
            self.calls.resume_hooks(&mut self.core, &mut self.files, id);
            self.submit_if_full();
        }
        // A cancel in the mailbox is taken before anything starts again.
        let mail = self.core.rt.parts.store.mail(&self.core.key);
        self.files.reserve_positions(&mut self.core);
        // All children enter their merge queues before any merge starts. A child whose merge is journalled comes first,
        // whatever its number.
        for id in &order {
            if self.core.waits_for_merge(id) && !wants_stop_hook_again(&self.core, id) {
                self.files.wait_for_merge(&mut self.core, id);
            }
        }
        match mail.await {
            Ok(mail) => self.take_mail(mail),
            Err(error) => self.core.stop = Some(Stop::Store(error)),
        }
        if let (Some(reason), false) =
            (self.missing.take(), self.core.run.is_cancelled(&self.core.run.id.root()))
        {
            self.core.stop.get_or_insert(Stop::Unavailable(reason));
        }
        for id in &order {
            self.reconcile(id);
            self.submit_if_full();
        }
        self.core.mark_plan();
        self.begin_run_skill();
        for id in &order {
            self.core.mark_merge_queue(id);
        }
        self.drive().await;
    }

    /// Marks calls with open children as waiting, and registers the writers that had started.
    fn reattach(&mut self, order: &[AgentId]) {
        for id in order {
            let Some(agent) = self.core.run.open(id) else { continue };
            let started = !matches!(agent.state, OpenState::Created { .. });
            let left = !agent.contract.execution.close_on_completion;
            let finished = matches!(agent.state, OpenState::Completed { .. })
                || left && matches!(agent.state, OpenState::Failed(_));
            let (call_id, background, writer) = (agent.call_id.clone(), agent.background, agent.writer);
            if finished {
                // The child has ended and stays open until its parent closes it. It needs no session.
                self.core.unclosed.insert(id.clone());
                self.drop_session(id);
                continue;
            }
            if writer && started && !id.is_root() {
                self.writers.resume(id);
            }
            self.files.enqueue(&self.core, id);
            let Some(parent) = id.parent().filter(|_| !background) else { continue };
            let session = self.core.sessions.get(&parent);
            if session.is_some_and(|session| session.machine.call_of(&call_id).is_some()) {
                self.calls.wait_in_engine(&parent, &call_id);
            }
        }
    }

    /// Lets one agent continue, end, or be integrated.
    fn reconcile(&mut self, id: &AgentId) {
        if !self.core.sessions.contains_key(id) || self.core.run.outcome.is_some() {
            return;
        }
        if self.core.run.is_cancelled(id) {
            return self.resume_cancel(id);
        }
        if self.core.waits_for_merge(id) {
            if wants_stop_hook_again(&self.core, id) {
                self.begin_integration(id);
            }
            return;
        }
        self.core.mark_ready(id);
    }

    /// Continues a journalled cancel. The agent starts nothing again.
    fn resume_cancel(&mut self, id: &AgentId) {
        let mut reason = "cancelled".to_owned();
        let mut at = Some(id.clone());
        while let Some(agent) = at {
            if let Some(cancel) = self.core.run.open(&agent).and_then(|agent| agent.cancel.as_ref()) {
                reason.clone_from(&cancel.reason);
            }
            at = agent.parent();
        }
        self.begin_cancel(id, &reason, Urgency::Gently);
        self.core.mark_ready(id);
    }

    fn begun_calls(&self, id: &AgentId) -> Vec<InterruptedCall> {
        let Some(session) = self.core.sessions.get(id) else { return Vec::new() };
        let (calls, slots) = session.machine.calls();
        calls
            .iter()
            .zip(slots)
            .filter_map(|(call, slot)| match slot {
                Slot::Open { intended: true, write } => {
                    let class = self.core.tool(&call.name).map_or(EffectClass::Exec, |tool| tool.class);
                    let call_id = call.id.as_str().into();
                    Some(InterruptedCall { call_id, tool: call.name.clone(), class, write: write.clone() })
                }
                _ => None,
            })
            .collect()
    }

    fn resume_call(&mut self, id: &AgentId, begun: InterruptedCall, left: &mut LeftFiles) {
        let InterruptedCall { call_id, tool, class, write } = begun;
        match (class, write) {
            // A delegate is found by its call id. The other calls are dispatched again with their reply.
            (EffectClass::Delegate | EffectClass::Journal | EffectClass::Read | EffectClass::Net, _) => {}
            (EffectClass::Write, Some(intent)) => {
                let (core, files) = (&mut self.core, &mut self.files);
                if !self.calls.recover_write(core, files, id, &call_id, &tool, intent) {
                    CallDesk::interrupt(core, id, &call_id, &tool, "the tool is gone", left.remove(id));
                }
            }
            (EffectClass::Write | EffectClass::Exec, _) => {
                let text = "the process ended during this call; it was not run again";
                CallDesk::interrupt(&mut self.core, id, &call_id, &tool, text, left.remove(id));
            }
        }
    }
}
