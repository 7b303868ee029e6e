//! Repeats user actions in a replay: messages, answers and cancels of users, each at its recorded position. If a
//! recorded message does not arrive, the replay differs from the recorded run and fails.

use std::time::Duration;

use posse_domain::event::Sender;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{Cancel, Node};

use super::Driver;
use super::replaying::RecordedAnswer;
use crate::recording::{Item, MessageAuthor};

/// How long an agent waits for a recorded message while nothing else happens in the run.
const STALLED_AFTER: Duration = Duration::from_secs(10);

impl Driver {
    /// Delivers held messages, and repeats recorded messages, answers and cancels of users, when their recorded
    /// position is reached.
    pub(super) fn follow(&mut self) {
        while self.core.stop.is_none() && self.follow_one() {
            self.drain_ready();
        }
        self.watch_for_stall();
    }

    fn follow_one(&mut self) -> bool {
        let Some(replaying) = &mut self.core.replaying else { return false };
        if self.core.run.outcome.is_some() {
            return false;
        }
        let next = replaying.answers.iter().position(|next| {
            let has_come = replaying.followers.get(&next.agent).is_none_or(|known| known.steps >= next.after);
            // The answer is given early if no call is under way that could advance the agent.
            has_come || !self.calls.has_calls_under_way(&next.agent)
        });
        if let Some(RecordedAnswer { agent, call_id, approval, answer, .. }) =
            next.and_then(|next| replaying.answers.remove(next))
        {
            self.take_answer(&agent, &call_id, &approval, answer);
            return true;
        }
        let ids: Vec<AgentId> = self.core.sessions.keys().cloned().collect();
        ids.iter().any(|id| self.follow_agent(id))
    }

    fn follow_agent(&mut self, id: &AgentId) -> bool {
        let takes = self.core.takes_messages(id);
        let Some(replaying) = &mut self.core.replaying else { return false };
        let follower = replaying.follower(id);
        let awaited = follower.awaits().cloned();
        if let Some(who) = awaited.filter(|_| takes) {
            let early = follower.early.iter().position(|(from, _)| MessageAuthor::of(from) == who);
            if let Some((from, text)) = early.and_then(|at| follower.early.remove(at)) {
                self.receive(id, from, text);
                return true;
            }
            let message = follower.left.iter().find_map(|item| match item {
                Item::Message(MessageAuthor::Person, text) => Some(text.clone()),
                _ => None,
            });
            if let (MessageAuthor::Person, Some(text)) = (who, message) {
                self.receive(id, Sender::Person, text);
                return true;
            }
            return false;
        }
        let Some(Item::Cancel { reason, kill, after }) = follower.left.front().cloned() else { return false };
        let (run, recording) = (id.run(), replaying.of.recording.clone());
        let is_there = |agent: &str| {
            let id = AgentId::from_relative(&run, agent).ok();
            // A closed agent makes no more steps, and after a resume its steps are unknown.
            let is_closed =
                id.as_ref().is_some_and(|id| matches!(self.core.run.get(id), Some(Node::Closed(_))));
            let steps = after.get(agent).copied().unwrap_or(0);
            is_closed || replaying.has_no_calls_left(&run, agent) && replaying.has_come_to(&run, agent, steps)
        };
        if !recording.below(id).all(is_there) {
            return false;
        }
        replaying.follower(id).left.pop_front();
        match self.cancel(id, Cancel { by: "user".to_owned(), reason, kill }) {
            Ok(()) => true,
            Err(refused) => {
                // The replay may end the agent earlier than the recorded run did.
                tracing::info!(agent_id = %id, %refused, "a recorded cancel was ignored");
                false
            }
        }
    }

    /// Sets the time at which the replay is given up, if an agent waits for a message and nothing is under way that
    /// could cause it.
    fn watch_for_stall(&mut self) {
        let stalled = self.is_stalled();
        let Some(replaying) = &mut self.core.replaying else { return };
        replaying.gives_up_at = match (stalled, replaying.gives_up_at) {
            (false, _) => None,
            (true, Some(at)) => Some(at),
            (true, None) => Some(tokio::time::Instant::now() + STALLED_AFTER),
        };
    }

    fn is_stalled(&self) -> bool {
        let Some(replaying) = &self.core.replaying else { return false };
        let waits =
            replaying.followers.iter().any(|(id, follower)| follower.waits && self.core.is_active(id));
        waits
            && self.core.batch.events.is_empty()
            && self.commits.is_empty()
            && !self.files.is_checking()
            && self.core.sessions.iter().all(|(id, session)| {
                session.is_quiet()
                    && !session.machine.is_asking()
                    && !self.files.is_making(id)
                    && self.calls.is_quiet(id)
                    && self.calls.only_waits(id)
            })
    }

    /// When the driver stops waiting for a recorded message that does not arrive.
    pub(super) fn replay_gives_up_at(&self) -> Option<tokio::time::Instant> {
        self.core.replaying.as_ref()?.gives_up_at
    }

    /// Ends a run that waits for a recorded message that does not arrive.
    pub(super) fn give_replay_up(&mut self) {
        let due = self.replay_gives_up_at().is_some_and(|at| at <= tokio::time::Instant::now());
        let Some(replaying) = self.core.replaying.as_mut().filter(|_| due) else { return };
        replaying.gives_up_at = None;
        let waiting =
            replaying.followers.iter().filter(|(_, follower)| follower.waits).map(|(id, follower)| {
                let who = match follower.awaits() {
                    Some(MessageAuthor::Child(child)) => format!("the end of task {child}"),
                    Some(MessageAuthor::Agent(agent)) => format!("a message of agent {agent}"),
                    _ => "a message".to_owned(),
                };
                format!("agent {} waits for {who}", id.relative())
            });
        let mut waiting: Vec<String> = waiting.collect();
        waiting.sort();
        self.end_replay(format!(
            "the replay is not the recorded run: {}, which was recorded and does not come",
            waiting.join(", ")
        ));
    }
}
