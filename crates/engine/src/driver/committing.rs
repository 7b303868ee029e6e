//! What a round decides: applied to the state at once, handed to the store as one commit, and only then carried out.

use std::collections::{BTreeSet, VecDeque};

use futures::future::BoxFuture;
use posse_domain::event::{Event, EventBody};
use posse_domain::id::AgentId;

use super::effects::Effect;
use super::{Driver, Stop};
use crate::ports::{Basis, Commit, CommitReceipt, StoreError, Tool};

/// Events from which on a commit is handed over; a wide reply is cut into several.
const COMMIT_TARGET_EVENTS: usize = 1_024;

/// What a round has decided on and not yet handed over.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) events: Vec<Event>,
    pub(super) touched: BTreeSet<AgentId>,
    pub(super) effects: Vec<Effect>,
    pub(super) run_changed: bool,
    pub(super) mail_taken: Option<u64>,
}

/// A commit on its way to the disk, and what may start once it is there.
pub(super) struct InFlight {
    pub(super) commit: BoxFuture<'static, Result<CommitReceipt, StoreError>>,
    pub(super) effects: Vec<Effect>,
}

impl Driver {
    /// Applies an event to the state and adds it to the round.
    pub(super) fn emit(&mut self, agent: AgentId, body: impl Into<EventBody>) {
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
    pub(super) fn submit_if_full(&mut self) {
        if self.batch.events.len() >= COMMIT_TARGET_EVENTS {
            self.submit();
        }
    }

    /// Lets an effect start once everything decided so far is durable.
    pub(super) fn after_commit(&mut self, effect: Effect) {
        self.batch.effects.push(effect);
    }

    pub(super) fn submit(&mut self) {
        if self.poisoned.is_some() {
            return;
        }
        if self.batch.events.is_empty() && self.batch.mail_taken.is_none() {
            let effects = std::mem::take(&mut self.batch.effects);
            match self.flight.back_mut() {
                Some(last) => last.effects.extend(effects),
                None => self.execute(effects),
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

    pub(super) fn committed(
        &mut self,
        result: Option<(Result<CommitReceipt, StoreError>, Vec<Effect>)>,
    ) -> Result<(), StoreError> {
        let Some((result, effects)) = result else { return Ok(()) };
        result?;
        self.rt.parts.faults.hit("engine.commit.after");
        if !self.progress.borrow().durable {
            self.progress.send_modify(|progress| progress.durable = true);
        }
        self.execute(effects);
        Ok(())
    }

    pub(super) fn tool(&self, name: &str) -> Option<&Tool> {
        self.rt.tools.get(name)
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

pub(super) async fn next_commit(
    flight: &mut VecDeque<InFlight>,
) -> Option<(Result<CommitReceipt, StoreError>, Vec<Effect>)> {
    let result = (&mut flight.front_mut()?.commit).await;
    let done = flight.pop_front()?;
    Some((result, done.effects))
}
