//! The state that every desk and every lifecycle step of the driver may use: the run, the turn machines of its open
//! agents, the events and effects of the round, the slots, and the ready set.
//!
//! The core decides nothing. Desks receive it as a parameter. They do not know the driver, so they cannot call back
//! into it.
//!
//! Why it is like this: `docs/decisions/engine-desks.md`.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use posse_domain::event::{Event, EventBody, EventKind, HostNote, MessageReceived, Sender};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{OpenState, Run};
use tokio::sync::mpsc;

use super::Stop;
use super::committing::Batch;
use super::effects::{Effect, Input};
use super::ready::ReadySet;
use super::replaying::ReplayProgress;
use super::session::{Session, TimeUp};
use crate::history::message_id;
use crate::ports::{RunKey, Tool};
use crate::projection::Projection;
use crate::runtime::Inner;
use crate::scheduler::Scheduler;

pub(crate) struct Core {
    pub(crate) rt: Arc<Inner>,
    pub(crate) key: RunKey,
    pub(crate) run: Run,
    /// Whether a user attends to this process and can be asked.
    pub(crate) attended: bool,
    /// The directory in which the run was started.
    pub(crate) run_dir: Arc<PathBuf>,
    pub(crate) sessions: HashMap<AgentId, Session>,
    pub(crate) scheduler: Scheduler,
    pub(crate) batch: Batch,
    /// Channel on which the tasks of effects send their results.
    pub(crate) sender: mpsc::UnboundedSender<Input>,
    pub(crate) projection: Projection,
    /// The wall-time deadline of each agent, on a monotonic clock.
    pub(crate) deadlines: BTreeSet<(tokio::time::Instant, AgentId)>,
    /// Ended children that stay open until their parent closes them, as their contract says.
    pub(crate) unclosed: BTreeSet<AgentId>,
    pub(crate) ready: ReadySet,
    /// Progress through the recorded run, if this run is a replay.
    pub(crate) replaying: Option<ReplayProgress>,
    /// Set when the driver gives the run up.
    pub(crate) stop: Option<Stop>,
}

impl Core {
    /// Applies an event to the state and adds it to the round.
    pub(crate) fn emit(&mut self, agent: AgentId, body: impl Into<EventBody>) {
        let mut event = Event { agent, at_ms: self.now_ms(), body: body.into() };
        // A process that recovers the run does not know when the call began, nor when it was cut off.
        let called_at_ms = self.sessions.get(&event.agent).and_then(|session| session.called_at_ms);
        if let (EventBody::ModelReplied(replied), Some(called_at_ms)) = (&mut event.body, called_at_ms)
            && replied.estimated
        {
            replied.elapsed_ms = event.at_ms.saturating_sub(called_at_ms).max(0).cast_unsigned();
        }
        if let Err(illegal) = self.run.apply(&event) {
            // Only a bug leads here. The driver writes no event of this round, so the journal stays valid.
            self.stop.get_or_insert(Stop::Inconsistent(illegal.to_string()));
            return;
        }
        if let Some(session) = self.sessions.get_mut(&event.agent) {
            session.machine.apply(&event.body);
            session.last_activity = event.body.kind();
            if let EventBody::ModelCalled(_) = event.body {
                session.called_at_ms = Some(event.at_ms);
            }
        }
        trace(&event);
        if let Some(replaying) = &mut self.replaying {
            replaying.observe(&event);
        }
        self.projection.observe(&event, &self.run);
        self.batch.run_changed |= EventKind::from(&event.body).ends_run();
        self.batch.touched.insert(event.agent.clone());
        self.batch.events.push(event);
    }

    /// Journals a message from the host to an agent.
    pub(crate) fn emit_note(&mut self, id: &AgentId, note: HostNote, text: String) {
        self.emit(id.clone(), MessageReceived { from: Sender::Host(note), text: text.into() });
    }

    /// Queues an effect that starts when all decisions so far are durable.
    pub(crate) fn after_commit(&mut self, effect: Effect) {
        self.batch.effects.push(effect);
    }

    /// Stops the run because the state refused a command that must apply here. Only a bug leads here. Without the stop,
    /// the run would wait for ever for the event of that command.
    pub(crate) fn stop_for_refusal(&mut self, id: &AgentId, command: &str, refused: impl fmt::Display) {
        let problem = format!("the command `{command}` for agent {} was refused: {refused}", id.relative());
        self.stop.get_or_insert(Stop::Inconsistent(problem));
    }

    /// Marks an agent that may be able to continue or to end.
    pub(crate) fn mark_ready(&mut self, id: &AgentId) {
        self.ready.mark_agent(id);
    }

    /// Marks the merge queue of the agent's files, which may be able to continue.
    pub(crate) fn mark_merge_queue(&mut self, id: &AgentId) {
        self.ready.mark_merge_queue(id);
    }

    /// Marks the plan, because some of its steps may be able to start.
    pub(crate) fn mark_plan(&mut self) {
        self.ready.mark_plan();
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        self.rt.tools.get(name)
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.rt.parts.system.now_ms()
    }

    /// Whether the agent has a session and is not ending.
    pub(crate) fn is_active(&self, id: &AgentId) -> bool {
        self.sessions.get(id).is_some_and(|session| !session.is_ending())
    }

    /// Returns a slot of the agent's definition to the scheduler.
    pub(crate) fn release_slot(&mut self, id: &AgentId) {
        if let Some(session) = self.sessions.get(id) {
            self.scheduler.release(&session.definition);
        }
    }

    /// Whether any child of the agent still works. A completed child that waits to be closed does not count.
    pub(crate) fn has_working_children(&self, id: &AgentId) -> bool {
        let Some(agent) = self.run.open(id) else { return false };
        let left_open = self.unclosed.iter().filter(|child| child.parent().as_ref() == Some(id)).count();
        agent.open_children.len() > left_open
    }

    /// Whether the agent can still receive messages.
    pub(crate) fn takes_messages(&self, id: &AgentId) -> bool {
        let state = self.run.open(id).map(|agent| &agent.state);
        matches!(state, Some(OpenState::Created { .. } | OpenState::Running { .. }))
            && !self.run.is_cancelled(id)
    }

    /// The id of the current reply, as contracts refer to it.
    pub(crate) fn message_id(&self, id: &AgentId) -> String {
        let machine = self.sessions.get(id).map(|session| &session.machine);
        machine.map_or_else(String::new, |machine| message_id(machine.attempt(), machine.turn()))
    }

    /// Whether the child has ended its work and is not integrated yet.
    pub(crate) fn waits_for_merge(&self, child: &AgentId) -> bool {
        self.run.open(child).is_some_and(|agent| matches!(agent.state, OpenState::WaitingForMerge { .. }))
    }

    /// Schedules a wake-up of the driver for when the agent must write its report, and later for its wall-time
    /// deadline.
    pub(crate) fn watch_deadline(&mut self, id: &AgentId) {
        let now_ms = self.now_ms();
        let at_ms = match self.sessions.get(id).map(|session| session.time_up) {
            Some(TimeUp::Up | TimeUp::Late) => self.run.deadline_ms(id, now_ms),
            Some(TimeUp::No) | None => self.run.report_at_ms(id, now_ms),
        };
        if let Some(at_ms) = at_ms {
            self.watch_for(id, at_ms - now_ms);
        }
    }

    pub(crate) fn watch_for(&mut self, id: &AgentId, left_ms: i64) {
        let left = Duration::from_millis(u64::try_from(left_ms).unwrap_or(0));
        self.deadlines.insert((tokio::time::Instant::now() + left, id.clone()));
    }

    /// Schedules the deadlines of an agent and its subtree again. Their clocks were stopped while a user was asked.
    pub(crate) fn watch_deadlines_below(&mut self, id: &AgentId) {
        for id in self.run.subtree(id) {
            if !self.run.is_stopped(&id) {
                self.watch_deadline(&id);
            }
        }
    }
}

/// Logs each spawn and close. Embedders can derive metrics from these records.
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
