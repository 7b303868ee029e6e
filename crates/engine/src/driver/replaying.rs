//! A run that repeats a recorded one: who hears from whom, and when, is taken from the record.
//!
//! Each agent has the list of what is still to happen to it: model calls and their ends, messages, cancels by people. A message that
//! comes before its turn is held back; a model call waits for the messages that come before it; what people said and
//! answered is said and answered again. If something that is waited for never comes, the run is not the same, and
//! ends with that.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use posse_domain::budget::Amount;
use posse_domain::code::Code;
use posse_domain::event::{ContextTrimmed, Event, EventBody, HostNote, MessageReceived, ModelCalled, Sender};
use posse_domain::hash::Hash;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{Cancel, FailKind, Failure, Node, Refusal};
use posse_domain::permission::Answer;
use posse_domain::text::Text;

use super::Driver;
use super::model::CallPurpose;
use super::session::{CallStage, Session};
use crate::ports::Model;
use crate::recording::{Item, MessageAuthor, Recording, is_step};

/// How long nothing may happen while a message that was recorded is waited for.
const STALLED_AFTER: Duration = Duration::from_secs(10);

/// Why a recorded yes is a no.
const NOT_YOURS: &str = "the recorded yes is somebody else's, and there is nobody to ask";
/// Why a question that was not recorded is a no.
const NOBODY: &str = "it was not asked about in the recorded run, and there is nobody to ask";

/// A recorded run to be run again.
#[derive(Clone)]
pub struct Replay {
    /// What was recorded.
    pub recording: Arc<Recording>,
    /// The model that answers from it, for every agent.
    pub model: Arc<dyn Model>,
    /// Whether it was recorded here: a yes of somebody else opens nothing.
    pub is_own: bool,
    /// Whether somebody is there who answers questions.
    pub attended: bool,
}

impl Replay {
    /// What is answered when this call of this agent is asked about for the `nth` time, from 0, and after how many steps of
    /// the agent; none leaves it open. A question that nobody will answer is a no.
    fn answer(&self, agent: &str, call_id: &str, nth: usize) -> Option<(Answer, usize)> {
        let no =
            |reason: &str| (!self.attended).then(|| (Answer::Deny { reason: Some(reason.to_owned()) }, 0));
        match self.recording.answer(agent, call_id, nth) {
            Some((yes, _)) if yes.allows() && !self.is_own => no(NOT_YOURS),
            Some(answer) => Some(answer.clone()),
            None if self.recording.leaves_open(agent, call_id, self.is_own) => None,
            None => no(NOBODY),
        }
    }
}

/// What is still to happen to one agent.
#[derive(Debug, Default)]
struct Follower {
    left: VecDeque<Item>,
    /// The call under way, to be put back if it is cut off.
    calling: Option<Item>,
    /// Messages that came before their turn.
    early: VecDeque<(Sender, Text)>,
    /// Whether a model call of it waits for a message.
    waits: bool,
    /// How often each call was asked about.
    asked: HashMap<String, usize>,
    /// How far it has come.
    steps: usize,
}

/// A question that a person answered in the record.
struct RecordedAnswer {
    agent: AgentId,
    call_id: String,
    approval: Hash,
    answer: Answer,
    /// The steps its agent had made by then.
    after: usize,
}

/// Where a replay stands.
pub(super) struct ReplayProgress {
    of: Replay,
    followers: HashMap<AgentId, Follower>,
    answers: VecDeque<RecordedAnswer>,
    /// When the wait for what does not come is given up.
    gives_up_at: Option<tokio::time::Instant>,
}

impl ReplayProgress {
    pub(super) fn new(of: Replay) -> Self {
        Self { of, followers: HashMap::new(), answers: VecDeque::new(), gives_up_at: None }
    }

    pub(super) fn model(&self) -> Arc<dyn Model> {
        self.of.model.clone()
    }

    /// What the root's model was called.
    pub(super) fn recorded_model(&self) -> &str {
        &self.of.recording.started().contract.execution.model
    }

    /// Why the child that this call asked for had no model to be asked, or left no room for reports: what was in flight
    /// at that moment is not the same twice.
    pub(super) fn refused(&self, parent: &AgentId, call_id: &str) -> Option<Refusal> {
        let refusal = self.of.recording.refusal(parent.relative(), call_id);
        refusal.filter(|known| matches!(known.code, Code::InvalidInput | Code::BudgetExhausted))
    }

    fn follower(&mut self, id: &AgentId) -> &mut Follower {
        let recording = &self.of.recording;
        self.followers.entry(id.clone()).or_insert_with(|| Follower {
            left: recording.items(id.relative()).iter().cloned().collect(),
            ..Follower::default()
        })
    }

    /// Whether all model calls of an agent, by its relative id, have been made.
    fn has_no_calls_left(&self, run: &posse_domain::id::RunId, relative: &str) -> bool {
        let has_call = |item: &Item| matches!(item, Item::Call(_));
        match AgentId::from_relative(run, relative).ok().and_then(|id| self.followers.get(&id)) {
            Some(follower) => !follower.left.iter().any(has_call),
            None => !self.of.recording.items(relative).iter().any(has_call),
        }
    }

    /// Whether an agent, by its relative id, has made so many steps.
    fn has_come_to(&self, run: &posse_domain::id::RunId, relative: &str, steps: usize) -> bool {
        let id = AgentId::from_relative(run, relative).ok();
        id.and_then(|id| self.followers.get(&id)).map_or(0, |follower| follower.steps) >= steps
    }

    /// Follows what happened, live or in this run's own journal.
    pub(super) fn observe(&mut self, event: &Event) {
        let of = self.of.clone();
        let follower = self.follower(&event.agent);
        follower.steps += usize::from(is_step(&event.body));
        match &event.body {
            EventBody::ModelCalled(_) => {
                follower.waits = false;
                let next = follower.left.iter().position(|item| matches!(item, Item::Call(_)));
                follower.calling = next.and_then(|next| follower.left.drain(..=next).next_back());
            }
            EventBody::ModelReplied(e) => {
                let interrupted = e.error.as_ref().is_some_and(|error| error.code == Code::Interrupted);
                match follower.calling.take() {
                    Some(call) if interrupted => follower.left.push_front(call),
                    _ => follower.passed(|item| matches!(item, Item::Reply(_))),
                }
            }
            EventBody::MessageReceived(e) => {
                let who = MessageAuthor::of(&e.from);
                follower.passed(|item| matches!(item, Item::Message(from, _) if *from == who));
            }
            EventBody::ContextTrimmed(_) => follower.passed(|item| matches!(item, Item::Trim(_))),
            EventBody::CancelRequested(e) if e.by == "user" => {
                follower.left.retain(|item| !matches!(item, Item::Cancel { .. }));
            }
            EventBody::InputRequested(e) => {
                let nth = follower.asked.entry(e.call_id.clone()).or_default();
                let answer = of.answer(event.agent.relative(), &e.call_id, *nth);
                *nth += 1;
                self.answers.extend(answer.map(|(answer, after)| RecordedAnswer {
                    agent: event.agent.clone(),
                    call_id: e.call_id.clone(),
                    approval: e.approval,
                    answer,
                    after,
                }));
            }
            EventBody::InputAnswered(e) => {
                self.answers.retain(|a| a.agent != event.agent || a.call_id != e.call_id);
            }
            _ => {}
        }
    }
}

impl Session {
    /// Whether a call of it may end without a person.
    fn has_calls_under_way(&self) -> bool {
        self.calls.values().any(|call| !matches!(call.stage, CallStage::Asking))
    }
}

impl Item {
    /// Whether the host does it just before a model call, and not because of anything that comes.
    fn is_hosts(&self) -> bool {
        matches!(self, Item::Trim(_) | Item::Message(MessageAuthor::Host(HostNote::BudgetLow), _))
    }
}

impl Follower {
    /// Takes the first such item before the next call off the list.
    fn passed(&mut self, is_it: impl Fn(&Item) -> bool) {
        let before = self.left.iter().take_while(|item| !matches!(item, Item::Call(_)));
        if let Some(at) = before.into_iter().position(is_it) {
            self.left.remove(at);
        }
    }

    /// The message that has to come before anything else.
    fn awaits(&self) -> Option<&MessageAuthor> {
        match self.left.iter().find(|item| !item.is_hosts())? {
            Item::Message(who, _) => Some(who),
            _ => None,
        }
    }
}

impl Driver {
    /// Holds a message back that comes before its turn in the record. Gives it back if its turn has come.
    pub(super) fn in_turn(&mut self, id: &AgentId, from: Sender, text: Text) -> Option<MessageReceived> {
        let Some(replaying) = &mut self.replaying else { return Some(MessageReceived { from, text }) };
        let follower = replaying.follower(id);
        // What is not in the record at all is let through: the next request shows it.
        let who = MessageAuthor::of(&from);
        let recorded =
            follower.left.iter().any(|item| matches!(item, Item::Message(known, _) if *known == who));
        if recorded && follower.awaits() != Some(&who) {
            follower.early.push_back((from, text));
            return None;
        }
        Some(MessageReceived { from, text })
    }

    /// Whether the agent must not go on before a recorded message has come. Notes of the host come by themselves.
    pub(super) fn hold_for_recording(&mut self, id: &AgentId) -> bool {
        let Some(replaying) = &mut self.replaying else { return false };
        let follower = replaying.follower(id);
        follower.waits = follower.awaits().is_some_and(|who| !matches!(who, MessageAuthor::Host(_)));
        follower.waits
    }

    /// What was recorded of the agent's next call: what it was for, why, and what it set aside. What the host did before
    /// it is done now: old outputs left out, a budget that is low told of.
    pub(super) fn as_recorded(&mut self, id: &AgentId) -> Option<(CallPurpose, Amount)> {
        let replaying = self.replaying.as_mut()?;
        let recording = replaying.of.recording.clone();
        let follower = replaying.follower(id);
        let next = follower.left.iter().find_map(|item| match item {
            Item::Call(at) => Some(*at),
            _ => None,
        });
        let called = &recording.calls(id.relative()).get(next?)?.called;
        let before = follower.left.iter().take_while(|item| !matches!(item, Item::Call(_)));
        let hosts: Vec<Item> = before.filter(|item| item.is_hosts()).cloned().collect();
        for item in hosts {
            match item {
                Item::Trim(call_ids) => {
                    let conversation = self.sessions.get(id).map(|session| session.machine.conversation());
                    let freed_bytes = conversation.map_or(0, |kept| kept.clone().trim(&call_ids));
                    self.emit(id.clone(), ContextTrimmed { call_ids, freed_bytes });
                }
                Item::Message(MessageAuthor::Host(note), text) => {
                    self.emit(id.clone(), MessageReceived { from: Sender::Host(note), text });
                }
                _ => {}
            }
        }
        let ModelCalled { purpose, cause, reason, trimmed, reserved, .. } = called;
        let (reason, trimmed) = (reason.clone(), *trimmed);
        Some((CallPurpose { purpose: *purpose, cause: *cause, reason, trimmed }, *reserved))
    }

    /// Lets everything happen whose turn has come: held messages, what people said, answered and ended.
    pub(super) fn follow(&mut self) {
        while self.poisoned.is_none() && self.follow_one() {
            self.drain_ready();
        }
        self.watch_for_stall();
    }

    fn follow_one(&mut self) -> bool {
        let Some(replaying) = &mut self.replaying else { return false };
        if self.run.outcome.is_some() {
            return false;
        }
        let next = replaying.answers.iter().position(|next| {
            let has_come = replaying.followers.get(&next.agent).is_none_or(|known| known.steps >= next.after);
            // What nothing under way can bring is not waited for.
            has_come || self.sessions.get(&next.agent).is_none_or(|session| !session.has_calls_under_way())
        });
        if let Some(RecordedAnswer { agent, call_id, approval, answer, .. }) =
            next.and_then(|next| replaying.answers.remove(next))
        {
            self.take_answer(&agent, &call_id, &approval, answer);
            return true;
        }
        let ids: Vec<AgentId> = self.sessions.keys().cloned().collect();
        ids.iter().any(|id| self.follow_agent(id))
    }

    fn follow_agent(&mut self, id: &AgentId) -> bool {
        let takes = self.takes_messages(id);
        let Some(replaying) = &mut self.replaying else { return false };
        let follower = replaying.follower(id);
        let awaited = follower.awaits().cloned();
        if let Some(who) = awaited.filter(|_| takes) {
            let early = follower.early.iter().position(|(from, _)| MessageAuthor::of(from) == who);
            if let Some((from, text)) = early.and_then(|at| follower.early.remove(at)) {
                self.receive(id, from, text);
                return true;
            }
            let said = follower.left.iter().find_map(|item| match item {
                Item::Message(MessageAuthor::Person, text) => Some(text.clone()),
                _ => None,
            });
            if let (MessageAuthor::Person, Some(text)) = (who, said) {
                self.receive(id, Sender::Person, text);
                return true;
            }
            return false;
        }
        let Some(Item::Cancel { reason, kill, after }) = follower.left.front().cloned() else { return false };
        let (run, recording) = (id.run(), replaying.of.recording.clone());
        let is_there = |agent: &str| {
            let id = AgentId::from_relative(&run, agent).ok();
            // A closed one has done all it will; after a resume nothing else is known of it.
            let is_closed = id.as_ref().is_some_and(|id| matches!(self.run.get(id), Some(Node::Closed(_))));
            let steps = after.get(agent).copied().unwrap_or(0);
            is_closed || replaying.has_no_calls_left(&run, agent) && replaying.has_come_to(&run, agent, steps)
        };
        if !recording.below(id).all(is_there) {
            return false;
        }
        replaying.follower(id).left.pop_front();
        self.cancel(id, Cancel { by: "user".to_owned(), reason, kill })
    }

    /// A request was not the recorded one: the whole run ends with that, whoever made it.
    pub(super) fn end_replay(&mut self, reason: String) {
        let failure = Failure { kind: FailKind::Execution, code: Code::ReplayDiffers, reason, report: None };
        let root = self.run.id.root();
        self.end_attempt(&root, failure);
    }

    /// Something waits for a message, and nothing is under way that could bring it: that is given some time.
    fn watch_for_stall(&mut self) {
        let stalled = self.is_stalled();
        let Some(replaying) = &mut self.replaying else { return };
        replaying.gives_up_at = match (stalled, replaying.gives_up_at) {
            (false, _) => None,
            (true, Some(at)) => Some(at),
            (true, None) => Some(tokio::time::Instant::now() + STALLED_AFTER),
        };
    }

    fn is_stalled(&self) -> bool {
        let Some(replaying) = &self.replaying else { return false };
        let waits = replaying.followers.iter().any(|(id, follower)| {
            follower.waits && self.sessions.get(id).is_some_and(|session| session.ending.is_none())
        });
        let busy = |stage: &CallStage| !matches!(stage, CallStage::Waiting | CallStage::Asking);
        waits
            && self.batch.events.is_empty()
            && self.flight.is_empty()
            && !self.merging.is_checking()
            && self.sessions.values().all(|session| {
                session.is_quiet()
                    && !session.machine.is_asking()
                    && !session.calls.values().any(|call| busy(&call.stage))
            })
    }

    /// When a wait for what does not come is given up.
    pub(super) fn replay_gives_up_at(&self) -> Option<tokio::time::Instant> {
        self.replaying.as_ref()?.gives_up_at
    }

    /// Ends a run that waits for what does not come.
    pub(super) fn give_replay_up(&mut self) {
        let due = self.replay_gives_up_at().is_some_and(|at| at <= tokio::time::Instant::now());
        let Some(replaying) = self.replaying.as_mut().filter(|_| due) else { return };
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
