//! Progress of a run that repeats a recorded one: the recording determines the order of messages and calls.
//!
//! Each agent has a list of the recorded items that are still to come: model calls and their ends, messages, cancels by
//! users. A message that arrives too early is held back, and a model call waits for the messages before it.
//! `following.rs` repeats the actions of users.
//!
//! Why it is like this: `docs/decisions/replay-driver.md`.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use posse_domain::code::Code;
use posse_domain::event::{ContextTrimmed, Event, EventBody, HostNote, MessageReceived, ModelCalled, Sender};
use posse_domain::hash::Hash;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::Refusal;
use posse_domain::permission::Answer;
use posse_domain::text::Text;

use super::core::Core;
use crate::ports::Model;
use crate::recording::{Item, MessageAuthor, Recording, is_step};

/// The reason for the denial if a recorded approval does not count.
const NOT_YOURS: &str = "the recorded approval was given by another user, and no user can be asked";
/// The reason for the denial of a question that the recorded run did not ask.
const NOT_ASKED_BEFORE: &str = "the recorded run did not ask about it, and no user can be asked";

/// A recorded run that is to be repeated.
#[derive(Clone)]
pub struct Replay {
    pub recording: Arc<Recording>,
    /// The model of all agents. It answers from the recording.
    pub model: Arc<dyn Model>,
    /// Whether the run was recorded on this machine. Approvals in another machine's recording do not count, because
    /// another user gave them.
    pub is_own: bool,
    /// Whether a user attends to this process and answers questions.
    pub attended: bool,
}

impl Replay {
    /// The answer to the `nth` question (from 0) about this call of this agent, and the number of the agent's steps
    /// after which it is given. `None` leaves the question open. A question that no user will answer is denied.
    fn answer(&self, agent: &str, call_id: &str, nth: usize) -> Option<(Answer, usize)> {
        let no =
            |reason: &str| (!self.attended).then(|| (Answer::Deny { reason: Some(reason.to_owned()) }, 0));
        match self.recording.answer(agent, call_id, nth) {
            Some((yes, _)) if yes.allows() && !self.is_own => no(NOT_YOURS),
            Some(answer) => Some(answer.clone()),
            None if self.recording.leaves_open(agent, call_id, self.is_own) => None,
            None => no(NOT_ASKED_BEFORE),
        }
    }
}

/// The progress of one agent through its recording.
#[derive(Debug, Default)]
pub(super) struct Follower {
    pub(super) left: VecDeque<Item>,
    /// The model call under way. An interrupted call is put back into the list.
    calling: Option<Item>,
    /// Messages that arrived before their recorded position.
    pub(super) early: VecDeque<(Sender, Text)>,
    /// Whether a model call of the agent waits for a message.
    pub(super) waits: bool,
    /// The number of questions asked about each call.
    asked: HashMap<String, usize>,
    /// The number of steps that the agent has made.
    pub(super) steps: usize,
}

/// A question that is open now and that a user answered in the recorded run.
pub(super) struct RecordedAnswer {
    pub(super) agent: AgentId,
    pub(super) call_id: String,
    pub(super) approval: Hash,
    pub(super) answer: Answer,
    /// The number of steps that the agent had made before the answer.
    pub(super) after: usize,
}

pub(crate) struct ReplayProgress {
    pub(super) of: Replay,
    pub(super) followers: HashMap<AgentId, Follower>,
    pub(super) answers: VecDeque<RecordedAnswer>,
    /// When the driver stops waiting for a recorded message that does not arrive.
    pub(super) gives_up_at: Option<tokio::time::Instant>,
}

impl ReplayProgress {
    pub(super) fn new(of: Replay) -> Self {
        Self { of, followers: HashMap::new(), answers: VecDeque::new(), gives_up_at: None }
    }

    pub(super) fn model(&self) -> Arc<dyn Model> {
        self.of.model.clone()
    }

    /// The recorded refusal of the child that this call requested, if the cause was a missing model or too little
    /// budget for reports. A replay cannot decide that again, because other calls are in flight at that moment.
    pub(super) fn refused(&self, parent: &AgentId, call_id: &str) -> Option<Refusal> {
        let refusal = self.of.recording.refusal(parent.relative(), call_id);
        refusal.filter(|known| matches!(known.code, Code::InvalidInput | Code::BudgetExhausted))
    }

    pub(super) fn follower(&mut self, id: &AgentId) -> &mut Follower {
        let recording = &self.of.recording;
        self.followers.entry(id.clone()).or_insert_with(|| Follower {
            left: recording.items(id.relative()).iter().cloned().collect(),
            ..Follower::default()
        })
    }

    /// Whether all recorded model calls of an agent were made. Takes its relative id.
    pub(super) fn has_no_calls_left(&self, run: &posse_domain::id::RunId, relative: &str) -> bool {
        let has_call = |item: &Item| matches!(item, Item::Call(_));
        match AgentId::from_relative(run, relative).ok().and_then(|id| self.followers.get(&id)) {
            Some(follower) => !follower.left.iter().any(has_call),
            None => !self.of.recording.items(relative).iter().any(has_call),
        }
    }

    /// Whether an agent has made at least this many steps. Takes its relative id.
    pub(super) fn has_come_to(&self, run: &posse_domain::id::RunId, relative: &str, steps: usize) -> bool {
        let id = AgentId::from_relative(run, relative).ok();
        id.and_then(|id| self.followers.get(&id)).map_or(0, |follower| follower.steps) >= steps
    }

    /// Takes an event of the replay itself, live or, after a crash, from the journal.
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
            EventBody::ContextCompacted(e) if e.call.is_none() => {
                follower.passed(|item| matches!(item, Item::Compact(_)));
            }
            EventBody::CancelRequested(e) if e.by == "user" => {
                // A kill may follow a cancel, and is repeated too.
                let is_it = |item: &Item| matches!(item, Item::Cancel { kill, .. } if *kill == e.kill);
                if let Some(at) = follower.left.iter().position(is_it) {
                    follower.left.remove(at);
                }
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

impl Item {
    /// Whether the host causes this item itself, just before a model call.
    fn is_hosts(&self) -> bool {
        matches!(
            self,
            Item::Trim(_) | Item::Compact(_) | Item::Message(MessageAuthor::Host(HostNote::BudgetLow), _)
        )
    }
}

impl Follower {
    /// Removes the first matching item before the next call.
    fn passed(&mut self, is_it: impl Fn(&Item) -> bool) {
        let before = self.left.iter().take_while(|item| !matches!(item, Item::Call(_)));
        if let Some(at) = before.into_iter().position(is_it) {
            self.left.remove(at);
        }
    }

    /// The author of the next message in the recording.
    pub(super) fn awaits(&self) -> Option<&MessageAuthor> {
        match self.left.iter().find(|item| !item.is_hosts())? {
            Item::Message(who, _) => Some(who),
            _ => None,
        }
    }
}

impl Core {
    /// Returns the message if its recorded position is reached. Otherwise holds it back.
    pub(crate) fn in_turn(&mut self, id: &AgentId, from: Sender, text: Text) -> Option<MessageReceived> {
        let Some(replaying) = &mut self.replaying else { return Some(MessageReceived { from, text }) };
        let follower = replaying.follower(id);
        // A message that was not recorded is delivered. The next request will then differ from the recorded one, which
        // ends the replay.
        let who = MessageAuthor::of(&from);
        let recorded =
            follower.left.iter().any(|item| matches!(item, Item::Message(known, _) if *known == who));
        if recorded && follower.awaits() != Some(&who) {
            follower.early.push_back((from, text));
            return None;
        }
        Some(MessageReceived { from, text })
    }

    /// Makes the agent wait if the next recorded item is a message, and returns whether it waits. It does not wait for
    /// host notes, which the replay creates itself.
    pub(crate) fn hold_for_recording(&mut self, id: &AgentId) -> bool {
        let Some(replaying) = &mut self.replaying else { return false };
        let follower = replaying.follower(id);
        follower.waits = follower.awaits().is_some_and(|who| !matches!(who, MessageAuthor::Host(_)));
        follower.waits
    }

    /// The recorded event of the agent's next model call. First repeats the host's actions before that call: omitting
    /// old outputs, a summary of its own, and the note about a low budget.
    pub(crate) fn take_recorded_call(&mut self, id: &AgentId) -> Option<ModelCalled> {
        let replaying = self.replaying.as_mut()?;
        let recording = replaying.of.recording.clone();
        let follower = replaying.follower(id);
        let next = follower.left.iter().find_map(|item| match item {
            Item::Call(at) => Some(*at),
            _ => None,
        });
        let called = recording.calls(id.relative()).get(next?)?.called.clone();
        let before = follower.left.iter().take_while(|item| !matches!(item, Item::Call(_)));
        let hosts: Vec<Item> = before.filter(|item| item.is_hosts()).cloned().collect();
        for item in hosts {
            match item {
                Item::Trim(call_ids) => {
                    let conversation = self.sessions.get(id).map(|session| session.machine.conversation());
                    let freed_bytes = conversation.map_or(0, |kept| kept.clone().trim(&call_ids));
                    self.emit(id.clone(), ContextTrimmed { call_ids, freed_bytes });
                }
                Item::Compact(compacted) => self.emit(id.clone(), compacted),
                Item::Message(MessageAuthor::Host(note), text) => {
                    self.emit(id.clone(), MessageReceived { from: Sender::Host(note), text });
                }
                _ => {}
            }
        }
        Some(called)
    }
}
