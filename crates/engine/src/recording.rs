//! Reads a run from its journal for a replay: the reply to each model call, and the order in which each agent received
//! messages.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use posse_agent::conversation::{Conversation, Message};
use posse_agent::machine::{CallPlace, Machine};
use posse_agent::prompts::report_prompt;
use posse_domain::code::Code;
use posse_domain::contract::Contract;
use posse_domain::event::{
    AnsweredBy, ContextCompacted, Event, EventBody, EventKind, HostNote, InputAnswered, ModelCalled,
    ModelReplied, Preamble, QuestionAnswer, RunStarted, Sender,
};
use posse_domain::hash::Hash;
use posse_domain::id::{AgentId, RunId};
use posse_domain::lifecycle::Refusal;
use posse_domain::permission::Answer;
use posse_domain::plan::Plan;
use posse_domain::request::RunRequest;
use posse_domain::text::Text;
use thiserror::Error;

use crate::history::{
    CONTINUES_MAX, Definitions, before_reply, continued_conversation, continued_json, machine_of, shared_from,
};

#[derive(Debug, Clone)]
pub struct RecordedCall {
    pub called: ModelCalled,
    /// The end of the call. `None` if the journal ends before it.
    pub replied: Option<Box<ModelReplied>>,
    /// The index of the call among the events of its agent.
    position: usize,
}

impl RecordedCall {
    /// Whether the call got no reply because its agent was cancelled, or because both ended with the process.
    pub fn was_dropped(&self) -> bool {
        let error = self.replied.as_ref().and_then(|replied| replied.error.as_ref());
        error.is_some_and(|error| matches!(error.code, Code::Cancelled | Code::Interrupted))
    }

    /// Whether the call is in the same turn, and both or neither are for a summary.
    fn is_beside(&self, place: CallPlace) -> bool {
        let ModelCalled { attempt, turn, scope, .. } = &self.called;
        (*attempt, *turn, scope.is_some()) == (place.attempt, place.turn, place.summary)
    }

    /// Whether the process ended before the reply.
    fn was_interrupted(&self) -> bool {
        let error = self.replied.as_ref().and_then(|replied| replied.error.as_ref());
        error.is_some_and(|error| error.code == Code::Interrupted)
    }
}

/// The author of a message. Agents are identified by their relative ids, which are the same in every run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MessageAuthor {
    Person,
    Agent(String),
    Child(String),
    Host(HostNote),
}

impl MessageAuthor {
    pub(crate) fn of(sender: &Sender) -> Self {
        match sender {
            Sender::Person => MessageAuthor::Person,
            Sender::Agent(id) => MessageAuthor::Agent(id.relative().to_owned()),
            Sender::Child(id) => MessageAuthor::Child(id.relative().to_owned()),
            Sender::Host(note) => MessageAuthor::Host(*note),
        }
    }
}

/// An event of an agent whose position in the order a replay must keep.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    /// A model call, by its index among the agent's recorded calls.
    Call(usize),
    /// The end of the model call with this index.
    Reply(usize),
    /// A message that the agent received.
    Message(MessageAuthor, Text),
    /// The outputs of these calls were omitted from the conversation.
    Trim(Vec<String>),
    /// The host replaced the older part of the conversation with a summary of its own.
    Compact(ContextCompacted),
    /// A user cancelled the agent. `after` has the number of steps that the agent and each agent in its subtree had
    /// made by then.
    Cancel { reason: String, kill: bool, after: Arc<BTreeMap<String, usize>> },
}

/// Whether an event counts as a step. Steps measure the progress of an agent at the time of its cancel, so they must
/// not depend on crashes or on the process that executed the run.
pub(crate) fn is_step(body: &EventBody) -> bool {
    match body {
        EventBody::ModelReplied(e) => {
            e.error.as_ref().is_none_or(|error| !matches!(error.code, Code::Interrupted | Code::Cancelled))
        }
        // Without it, a cancel soon after a user's message would be repeated before the message.
        EventBody::MessageReceived(e) => e.from == Sender::Person,
        EventBody::ToolIntended(_)
        | EventBody::ToolFinished(_)
        | EventBody::ToolInterrupted(_)
        | EventBody::WorkspaceMade(_)
        | EventBody::SubagentCreated(_)
        | EventBody::SubagentClosed(_) => true,
        _ => false,
    }
}

#[derive(Debug, Default)]
struct Agent {
    contract: Option<Contract>,
    preamble: Option<Box<Preamble>>,
    events: Vec<Event>,
    calls: Vec<RecordedCall>,
    items: Vec<Item>,
    steps: usize,
    /// The users' answers to questions about each call, in their order, each with the number of steps that the agent
    /// had made by then.
    answers: HashMap<String, Vec<(Answer, usize)>>,
    /// Why a call that requested a child was refused, by call id.
    refusals: HashMap<String, Refusal>,
}

/// The request of a recorded model call. A part that is not in the journal is `None`.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    pub system: Option<Arc<str>>,
    /// The tools, as JSON.
    pub tools: Option<Arc<str>>,
    pub messages: Vec<Arc<Message>>,
}

/// Why events are not the recording of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RecordingError {
    #[error("the run has no events")]
    NoEvents,
    /// The kind of the first event.
    #[error("the first event is {0}, not run.started")]
    NotStarted(&'static str),
}

/// A recorded run. Its agents are identified by their relative ids, which are the same in every run.
#[derive(Debug)]
pub struct Recording {
    run: RunId,
    started: RunStarted,
    plan: Option<Plan>,
    agents: BTreeMap<String, Agent>,
    /// The system prompts and the offered tools, by their hash.
    texts: HashMap<Hash, Text>,
    definitions: Definitions,
    has_ended: bool,
    has_changed_texts: bool,
}

impl Recording {
    /// Creates a recording from all events of a run, oldest first, with their long texts.
    pub fn new(events: Vec<Event>) -> Result<Self, RecordingError> {
        let mut events = events.into_iter();
        let first = events.next().ok_or(RecordingError::NoEvents)?;
        let EventBody::RunStarted(started) = &first.body else {
            return Err(RecordingError::NotStarted(first.body.kind()));
        };
        let mut recording = Self {
            run: first.agent.run(),
            started: (**started).clone(),
            plan: None,
            agents: BTreeMap::new(),
            texts: HashMap::new(),
            definitions: Definitions::of(started),
            has_ended: false,
            has_changed_texts: false,
        };
        for event in std::iter::once(first).chain(events) {
            recording.take(event);
        }
        let has_ended = recording.has_ended;
        for agent in recording.agents.values_mut() {
            agent.forget_interrupted(has_ended);
        }
        Ok(recording)
    }

    fn take(&mut self, event: Event) {
        let after = matches!(&event.body, EventBody::CancelRequested(_)).then(|| self.steps(&event.agent));
        let agent = self.agents.entry(event.agent.relative().to_owned()).or_default();
        let position = agent.events.len();
        match &event.body {
            EventBody::RunStarted(e) => agent.contract = Some(e.contract.clone()),
            EventBody::SubagentCreated(e) => agent.contract = Some(e.contract.clone()),
            EventBody::RunPlanned(e) => self.plan = Some(e.plan.clone()),
            body if EventKind::from(body).ends_run() => self.has_ended = true,
            EventBody::ModelCalled(called) => {
                if let Some(preamble) = &called.preamble {
                    let texts =
                        [(preamble.system, &preamble.system_text), (preamble.tools, &preamble.tools_text)];
                    for (hash, text) in texts {
                        self.texts.extend(text.clone().map(|text| (hash, text)));
                    }
                    agent.preamble.get_or_insert_with(|| preamble.clone());
                }
                agent.items.push(Item::Call(agent.calls.len()));
                agent.calls.push(RecordedCall { called: called.clone(), replied: None, position });
            }
            EventBody::ModelReplied(replied) => {
                if let Some(call) = agent.calls.last_mut() {
                    call.replied = Some(replied.clone());
                    agent.items.push(Item::Reply(agent.calls.len() - 1));
                }
            }
            EventBody::MessageReceived(e) => {
                agent.items.push(Item::Message(MessageAuthor::of(&e.from), e.text.clone()));
            }
            EventBody::ContextTrimmed(e) => agent.items.push(Item::Trim(e.call_ids.clone())),
            // A compaction by a call follows from its reply.
            EventBody::ContextCompacted(e) if e.call.is_none() => agent.items.push(Item::Compact(e.clone())),
            EventBody::CancelRequested(e) if e.by == "user" => {
                let after = Arc::new(after.unwrap_or_default());
                agent.items.push(Item::Cancel { reason: e.reason.clone(), kill: e.kill, after });
            }
            EventBody::InputAnswered(e) if e.by == AnsweredBy::Person => {
                let answer = (answer_of(e), agent.steps);
                agent.answers.entry(e.call_id.clone()).or_default().push(answer);
            }
            EventBody::SubagentRefused(e) => {
                let refusal = Refusal { code: e.code, reason: e.reason.clone() };
                agent.refusals.insert(e.call_id.clone(), refusal);
            }
            _ => {}
        }
        agent.steps += usize::from(is_step(&event.body));
        agent.events.push(event);
    }

    /// The number of steps that this agent and each agent in its subtree have made so far.
    fn steps(&self, agent: &AgentId) -> BTreeMap<String, usize> {
        let steps = |id: &str| self.agents.get(id).map_or(0, |known| known.steps);
        self.below(agent).map(|id| (id.to_owned(), steps(id))).collect()
    }

    /// Marks a recording whose texts were changed to remove secrets. The recorded hashes of requests no longer match.
    pub fn with_changed_texts(self) -> Self {
        Self { has_changed_texts: true, ..self }
    }

    /// Whether texts were changed to remove secrets.
    pub fn has_changed_texts(&self) -> bool {
        self.has_changed_texts
    }

    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// The first event: request, terms, definitions, base.
    pub fn started(&self) -> &RunStarted {
        &self.started
    }

    /// The request of the run, with the plan that the run executed.
    pub fn run_request(&self) -> RunRequest {
        RunRequest { plan: self.plan.clone(), ..self.started.request.clone() }
    }

    /// Whether the journal contains the end of the run.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether the root asked a user a question.
    pub fn is_attended(&self) -> bool {
        let asks = |event: &Event| matches!(event.body, EventBody::InputRequested(_));
        self.agents.get("0").is_some_and(|root| root.events.iter().any(asks))
    }

    /// The number of model calls that a replay can answer.
    pub fn call_count(&self) -> usize {
        self.agents.values().map(|agent| agent.calls.len()).sum()
    }

    /// The recorded call that answers this call. Calls that a crash interrupted are not recorded. If this run makes
    /// more calls in a turn than were recorded, it repeats a call that a crash interrupted, and gets the last recorded
    /// call.
    pub fn call(&self, agent: &str, place: CallPlace) -> Option<&RecordedCall> {
        let calls = &self.agents.get(agent)?.calls;
        let of_turn = || calls.iter().filter(move |known| known.is_beside(place));
        of_turn().nth(place.call.saturating_sub(1) as usize).or_else(|| of_turn().next_back())
    }

    /// The number of recorded model calls of the turn, or of those for a summary before it.
    pub fn calls_of_turn(&self, agent: &str, place: CallPlace) -> usize {
        self.calls(agent).iter().filter(|call| call.is_beside(place)).count()
    }

    /// The largest number of output tokens that any recorded call reserved.
    pub fn max_output_tokens(&self) -> u64 {
        let calls = self.agents.values().flat_map(|agent| &agent.calls);
        calls.map(|call| call.called.reserved.output_tokens).max().unwrap_or(0)
    }

    /// The request of a recorded call, folded from the journal.
    pub fn request(&self, agent: &str, call: &RecordedCall) -> RecordedRequest {
        let preamble = self.agents.get(agent).and_then(|agent| agent.preamble.as_deref());
        let text = |hash: &Hash| self.texts.get(hash).map(Text::to_shared);
        let machine = self.machine(agent, call.position + 1, 0);
        let known = self.agents.get(agent).and_then(|known| known.contract.as_ref());
        let short = known.filter(|_| call.called.trimmed).and_then(|contract| {
            let system = report_prompt(self.definitions.get(contract)?, contract);
            let message = machine.as_ref()?.condensed(call.called.cause?, system.len());
            Some((system, message))
        });
        if let Some((system, message)) = short {
            return RecordedRequest {
                system: Some(system.into()),
                tools: None,
                messages: vec![Arc::new(message)],
            };
        }
        let messages = |machine: Machine| match &call.called.scope {
            Some(scope) => machine.summary_request(scope).messages().to_vec(),
            None => machine.conversation().messages().to_vec(),
        };
        let messages = machine.map(messages).unwrap_or_default();
        RecordedRequest {
            system: preamble.and_then(|preamble| text(&preamble.system)),
            tools: preamble.and_then(|preamble| text(&preamble.tools)),
            messages,
        }
    }

    /// The conversation of an agent after its first `count` events.
    fn conversation(&self, agent: &str, count: usize, depth: usize) -> Conversation {
        let machine = self.machine(agent, count, depth);
        machine.map(|machine| machine.conversation().clone()).unwrap_or_default()
    }

    /// The turn machine of an agent after its first `count` events.
    fn machine(&self, agent: &str, count: usize, depth: usize) -> Option<Machine> {
        let known = self.agents.get(agent)?;
        let contract = known.contract.as_ref()?;
        let prior = match (&contract.parent.continues, shared_from(contract)) {
            _ if depth >= CONTINUES_MAX => Conversation::default(),
            // A root has the conversation that it continues in its first event.
            (Some(_), _) if known.events.first().is_some_and(|event| event.agent.is_root()) => {
                let prior = known.events.first().and_then(|event| continued_json(&event.body));
                prior.and_then(|json| continued_conversation(&json).ok()).unwrap_or_default()
            }
            (Some(of), _) => self.conversation(of.relative(), usize::MAX, depth + 1),
            (None, Some((of, reply))) => {
                let events = self.agents.get(of.relative()).map_or(&[][..], |agent| &agent.events);
                self.conversation(of.relative(), before_reply(events, reply).len(), depth + 1)
            }
            (None, None) => Conversation::default(),
        };
        let mut machine = machine_of(self.definitions.get(contract), contract, prior);
        for event in known.events.iter().take(count) {
            machine.apply(&event.body);
        }
        Some(machine)
    }

    pub(crate) fn items(&self, agent: &str) -> &[Item] {
        self.agents.get(agent).map_or(&[], |agent| &agent.items)
    }

    pub(crate) fn calls(&self, agent: &str) -> &[RecordedCall] {
        self.agents.get(agent).map_or(&[], |agent| &agent.calls)
    }

    /// The recorded agents of this agent's subtree, including itself.
    pub(crate) fn below<'a>(&'a self, agent: &AgentId) -> impl Iterator<Item = &'a str> + use<'a> {
        let all = agent.is_root();
        let own = agent.relative().to_owned();
        self.agents.keys().map(String::as_str).filter(move |id| {
            all || id.strip_prefix(own.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }

    /// The user's answer to the `nth` question (from 0) about this call of this agent, and the number of steps that the
    /// agent had made by then.
    pub(crate) fn answer(&self, agent: &str, call_id: &str, nth: usize) -> Option<&(Answer, usize)> {
        self.agents.get(agent)?.answers.get(call_id)?.get(nth)
    }

    /// Why this call, which requested a child, was refused.
    pub(crate) fn refusal(&self, agent: &str, call_id: &str) -> Option<Refusal> {
        self.agents.get(agent)?.refusals.get(call_id).cloned()
    }

    /// Whether the recorded run asked a question about this call that no user answered. A replay leaves it open too.
    /// With `with_hosts`, a question that the host answered counts as open, because that answer follows again from a
    /// user's answer to another question.
    pub(crate) fn leaves_open(&self, agent: &str, call_id: &str, with_hosts: bool) -> bool {
        let events = || self.agents.get(agent).into_iter().flat_map(|agent| &agent.events);
        let asked =
            events().any(|event| matches!(&event.body, EventBody::InputRequested(e) if e.call_id == call_id));
        let answered = || {
            events().any(|event| matches!(&event.body, EventBody::InputAnswered(e) if e.call_id == call_id))
        };
        asked && (with_hosts || !answered())
    }
}

impl Agent {
    /// Removes the calls that a crash interrupted and that were repeated. Their events stay, because the conversation
    /// is folded from them. In an ended run, an interrupted call that was not repeated was dropped with its agent, so
    /// only the end of that call is removed.
    fn forget_interrupted(&mut self, has_ended: bool) {
        let made_again = |at: usize, call: &RecordedCall| {
            let position = |call: &RecordedCall| (call.called.attempt, call.called.turn);
            self.calls.iter().skip(at + 1).any(|later| position(later) == position(call))
        };
        let cut: Vec<bool> = self.calls.iter().map(RecordedCall::was_interrupted).collect();
        let calls = self.calls.iter().enumerate();
        let gone: Vec<bool> =
            calls.map(|(at, call)| call.was_interrupted() && (!has_ended || made_again(at, call))).collect();
        let mut kept = 0;
        let positions: Vec<Option<usize>> = gone
            .iter()
            .map(|gone| {
                (!gone).then(|| {
                    kept += 1;
                    kept - 1
                })
            })
            .collect();
        self.items.retain_mut(|item| {
            let has_no_end = matches!(item, Item::Reply(at) if cut.get(*at).is_some_and(|cut| *cut));
            match item {
                Item::Call(at) | Item::Reply(at) => match positions.get(*at).copied().flatten() {
                    Some(position) => {
                        *at = position;
                        !has_no_end
                    }
                    None => false,
                },
                _ => true,
            }
        });
        let mut gone = gone.into_iter();
        self.calls.retain(|_| !gone.next().unwrap_or(false));
    }
}

fn answer_of(answered: &InputAnswered) -> Answer {
    match answered.decision {
        QuestionAnswer::Allow if answered.always => Answer::Always,
        QuestionAnswer::Allow => Answer::Once,
        QuestionAnswer::Deny => Answer::Deny { reason: answered.reason.clone() },
    }
}
