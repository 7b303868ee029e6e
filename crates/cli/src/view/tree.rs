//! A run's tree of agents as its events tell it, with just enough of each agent to draw it.

use std::collections::HashMap;

use posse::{AgentId, Delta, DeltaCall, DeltaPart, EventBody, JournalEvent, Usage};
use posse_domain::event::{FinalStatus, ModelReplied, QueuedFor, ToolFinished, ToolInterrupted};
use posse_domain::lifecycle::FailKind;

use crate::blocked::on_provider;
use crate::term;

/// Refusals that are kept for an agent; of more only the number.
const REFUSALS_KEPT: usize = 4;

/// Where an agent stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Created, not started.
    Queued,
    /// At work.
    Running,
    /// Ended its work, nothing is accepted yet.
    WaitingForMerge,
    /// Ended well.
    Completed,
    /// Failed.
    Failed,
    /// Cancelled.
    Cancelled,
}

impl Stage {
    /// Whether nothing more will happen.
    pub(crate) fn is_over(self) -> bool {
        matches!(self, Stage::Completed | Stage::Failed | Stage::Cancelled)
    }
}

/// A child that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The definition asked for.
    pub(crate) definition: String,
    /// Why, as a word.
    pub(crate) code: &'static str,
}

/// One agent.
#[derive(Debug, Clone)]
pub(crate) struct Agent {
    /// Its id.
    pub(crate) id: AgentId,
    /// Its definition.
    pub(crate) definition: String,
    /// The skill that it carries out.
    pub(crate) skill: Option<String>,
    /// What it is for.
    pub(crate) title: String,
    /// Where it stands.
    pub(crate) stage: Stage,
    /// Its turn of the attempt.
    pub(crate) turn: u32,
    /// Its turns per attempt.
    pub(crate) turn_limit: Option<u32>,
    /// Its attempt, from 1.
    pub(crate) attempt: u32,
    /// Whether its parent goes on without waiting for it.
    pub(crate) background: bool,
    /// What it spent itself.
    pub(crate) usage: Usage,
    /// Whether its model is being asked.
    pub(crate) asking: bool,
    /// What it did last.
    pub(crate) activity: String,
    /// That it waits for the provider of its model.
    pub(crate) provider_wait: Option<String>,
    /// The end of what its model is saying, as it came: a control sequence may be cut in two.
    pub(crate) saying: String,
    /// The model call that says it.
    saying_in: DeltaCall,
    /// The last model call that has ended.
    replied_in: DeltaCall,
    /// Whether its work was cut off by its turn limit.
    pub(crate) turn_limited: bool,
    /// The calls that wait for a person, and what each would do.
    pub(crate) waiting: Vec<(String, String)>,
    /// The number of its last event.
    pub(crate) last_seq: u64,
    /// Its children, oldest first.
    pub(crate) children: Vec<AgentId>,
    /// The first children it was refused.
    pub(crate) refused: Vec<Refusal>,
    /// How many it was refused in all.
    pub(crate) refused_count: usize,
}

impl Agent {
    fn new(id: AgentId, definition: &str, title: &str, turn_limit: Option<u32>) -> Self {
        Self {
            id,
            definition: term::line(definition),
            skill: None,
            title: term::line(title),
            stage: Stage::Queued,
            turn: 0,
            turn_limit,
            attempt: 1,
            background: false,
            usage: Usage::ZERO,
            asking: false,
            activity: String::new(),
            provider_wait: None,
            saying: String::new(),
            saying_in: DeltaCall::default(),
            replied_in: DeltaCall::default(),
            turn_limited: false,
            waiting: Vec::new(),
            last_seq: 0,
            children: Vec::new(),
            refused: Vec::new(),
            refused_count: 0,
        }
    }
}

/// How many agents stand where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Not started.
    pub(crate) queued: u64,
    /// At work, or waiting for merge.
    pub(crate) running: u64,
    /// Ended well.
    pub(crate) completed: u64,
    /// Ended otherwise.
    pub(crate) failed: u64,
    /// Cancelled.
    pub(crate) cancelled: u64,
}

impl Counts {
    /// All of them.
    pub(crate) fn all(&self) -> u64 {
        self.queued + self.running + self.completed + self.failed + self.cancelled
    }
}

/// A run's agents.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    agents: HashMap<AgentId, Agent>,
    root: Option<AgentId>,
    /// What the whole tree spent.
    pub(crate) usage: Usage,
    /// Whether the run is a recorded one, run again.
    pub(crate) is_replay: bool,
    /// Its turns.
    pub(crate) turns: u64,
    /// When the run started, in milliseconds since 1970.
    pub(crate) started_at_ms: i64,
    /// When its last event happened.
    pub(crate) last_at_ms: i64,
}

impl Tree {
    /// The root, once the run has started.
    pub(crate) fn root(&self) -> Option<&Agent> {
        self.root.as_ref().and_then(|id| self.agents.get(id))
    }

    /// An agent.
    pub(crate) fn get(&self, id: &AgentId) -> Option<&Agent> {
        self.agents.get(id)
    }

    /// All agents, in no order.
    pub(crate) fn agents(&self) -> impl Iterator<Item = &Agent> {
        self.agents.values()
    }

    /// How many children of an agent have not ended.
    pub(crate) fn open_children(&self, agent: &Agent) -> u64 {
        let open = |id: &&AgentId| self.get(id).is_some_and(|child| !child.stage.is_over());
        agent.children.iter().filter(open).count() as u64
    }

    /// How many agents stand where.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for agent in self.agents.values() {
            match agent.stage {
                Stage::Queued => counts.queued += 1,
                Stage::Running | Stage::WaitingForMerge => counts.running += 1,
                Stage::Completed => counts.completed += 1,
                Stage::Failed => counts.failed += 1,
                Stage::Cancelled => counts.cancelled += 1,
            }
        }
        counts
    }

    /// Takes in a piece of what a model is saying. A piece that comes after the reply it is of is late, and left out.
    pub(crate) fn on_event(&mut self, delta: &Delta) {
        if let Some(agent) = self.agents.get_mut(&delta.agent_id) {
            agent.hear(delta);
        }
    }

    /// Takes in an event.
    pub(crate) fn event(&mut self, event: &JournalEvent) {
        self.last_at_ms = event.at_ms;
        match &event.body {
            EventBody::RunStarted(e) => {
                self.started_at_ms = event.at_ms;
                let execution = &e.contract.execution;
                self.is_replay = posse::replayed(&execution.model).is_some();
                let mut root = Agent::new(
                    event.agent_id.clone(),
                    &execution.definition,
                    &e.contract.step.title,
                    execution.max_turns,
                );
                root.stage = Stage::Running;
                self.root = Some(root.id.clone());
                self.agents.insert(root.id.clone(), root);
            }
            EventBody::SubagentCreated(e) => {
                let mut child =
                    Agent::new(event.agent_id.clone(), &e.definition, &e.contract.step.title, e.turn_limit);
                child.background = e.background;
                child.skill = e.skill.as_deref().map(term::line);
                if let Some(parent) = self.agents.get_mut(&e.parent_id) {
                    parent.children.push(child.id.clone());
                }
                self.agents.insert(child.id.clone(), child);
            }
            EventBody::ModelReplied(e) => {
                self.usage += e.usage;
                self.turns += u64::from(e.error.is_none());
            }
            _ => {}
        }
        if let Some(agent) = self.agents.get_mut(&event.agent_id) {
            agent.last_seq = event.seq;
            agent.take(event);
        }
    }
}

impl Agent {
    fn take(&mut self, event: &JournalEvent) {
        match &event.body {
            EventBody::SubagentQueued(e) => {
                let waits = match e.waits_for {
                    QueuedFor::Slot => "waits for a slot",
                    QueuedFor::Ownership => "waits for another writer",
                    QueuedFor::Budget => "waits for budget",
                };
                waits.clone_into(&mut self.activity);
            }
            EventBody::SubagentStarted(_) => self.stage = Stage::Running,
            EventBody::SubagentAttempt(e) => {
                self.stage = Stage::Running;
                self.attempt = e.n;
                self.turn = 0;
                self.activity = term::line(&event.summary);
            }
            EventBody::ModelCalled(e) => {
                self.turn = e.turn;
                self.asking = true;
                self.show_text(DeltaCall { attempt: e.attempt, turn: e.turn, call: e.call });
            }
            EventBody::ProviderWaitStarted(e) => {
                self.provider_wait = Some(on_provider(&e.provider, &e.reason, e.until_ms));
            }
            EventBody::ProviderWaitEnded(_) => self.provider_wait = None,
            EventBody::ModelReplied(e) => {
                self.asking = false;
                self.replied_in = DeltaCall { attempt: e.attempt, turn: e.turn, call: e.call };
                if self.saying_in <= self.replied_in {
                    self.saying.clear();
                }
                self.usage += e.usage;
                self.activity = on_text(e);
            }
            EventBody::SubagentRefused(e) => {
                self.refused_count += 1;
                if self.refused.len() < REFUSALS_KEPT {
                    self.refused
                        .push(Refusal { definition: term::line(&e.definition), code: e.code.as_str() });
                }
            }
            EventBody::SubagentWaitingForMerge(e) => {
                self.stage = Stage::WaitingForMerge;
                self.turn_limited = e.turns_exhausted;
                self.activity =
                    term::line(&posse_domain::text::first_line(&e.report.to_shared(), ACTIVITY_MAX));
            }
            EventBody::SubagentFailed(e) => self.fail(e.kind, e.code.as_str(), &e.reason),
            EventBody::IntegrationFailed(e) => self.fail(e.kind, e.code.as_str(), &e.reason),
            EventBody::SubagentClosed(e) if e.final_status == FinalStatus::Completed => {
                self.stage = Stage::Completed;
            }
            EventBody::RunCompleted(e) => {
                self.stage = Stage::Completed;
                self.turn_limited = e.turns_exhausted;
            }
            EventBody::RunFailed(e) => self.fail(e.kind, e.code.as_str(), &e.reason),
            EventBody::RunCancelled(e) => self.fail(FailKind::Cancelled, "CANCELLED", &e.reason),
            EventBody::InputRequested(e) => {
                let operation: String = e.operation.chars().take(ACTIVITY_MAX).collect();
                self.waiting.push((e.call_id.clone(), term::visible_line(&operation)));
            }
            EventBody::InputAnswered(e) => self.on_ended(&e.call_id, event),
            EventBody::ToolFinished(ToolFinished { call_id, .. })
            | EventBody::ToolInterrupted(ToolInterrupted { call_id, .. }) => self.on_ended(call_id, event),
            EventBody::ToolIntended(_)
            | EventBody::TodoChanged(_)
            | EventBody::MessageReceived(_)
            | EventBody::CancelRequested(_) => self.activity = term::line(&event.summary),
            _ => {}
        }
    }

    /// What is said from now on is of this call; what was said before is of another.
    fn show_text(&mut self, call: DeltaCall) {
        if self.saying_in < call {
            self.saying_in = call;
            self.saying.clear();
        }
    }

    /// Takes in a piece of what its model is saying. Pieces may come before the event of their call, and after that of
    /// the reply.
    fn hear(&mut self, delta: &Delta) {
        if delta.call <= self.replied_in || delta.call < self.saying_in {
            return;
        }
        self.show_text(delta.call);
        match delta.part {
            DeltaPart::Text | DeltaPart::Other => self.saying.push_str(&delta.content),
            DeltaPart::Tool => {
                self.saying.push_str("\ncalls ");
                self.saying.push_str(&delta.content);
                self.saying.push('\n');
            }
            DeltaPart::Error => {}
        }
        if self.saying.len() > 2 * SAYING_MAX_BYTES {
            let cut = self.saying.ceil_char_boundary(self.saying.len() - SAYING_MAX_BYTES);
            self.saying.drain(..cut);
        }
    }

    /// The last lines of what its model is saying, newest last; none if it is silent.
    pub(crate) fn last_lines(&self, most: usize) -> Vec<String> {
        let clean = term::clean(&self.saying);
        let mut lines: Vec<String> =
            clean.lines().rev().map(term::line).filter(|line| !line.is_empty()).take(most).collect();
        lines.reverse();
        lines
    }

    /// A call has its answer or its result.
    fn on_ended(&mut self, call_id: &str, event: &JournalEvent) {
        self.waiting.retain(|(waiting, _)| waiting != call_id);
        self.activity = term::line(&event.summary);
    }

    fn fail(&mut self, kind: FailKind, code: &str, reason: &str) {
        self.stage = if kind == FailKind::Cancelled { Stage::Cancelled } else { Stage::Failed };
        let code = if kind == FailKind::Cancelled { "cancelled" } else { code };
        self.activity = format!("{code}: {}", term::line(reason));
    }
}

/// Bytes of what a model is saying that are kept to be shown.
const SAYING_MAX_BYTES: usize = 4_096;
/// Characters of a text that are kept to be shown.
const ACTIVITY_MAX: usize = 200;

/// What a reply says, in a few words.
fn on_text(replied: &ModelReplied) -> String {
    if let Some(error) = &replied.error {
        return term::line(&format!("model failed: {}", error.message));
    }
    let Some(reply) = &replied.reply else { return String::new() };
    let text = term::line(&posse_domain::text::first_line(&reply.text.to_shared(), ACTIVITY_MAX));
    match reply.calls.as_slice() {
        _ if !text.is_empty() => text,
        [] => String::new(),
        [call] => format!("calls {}", term::line(&call.name)),
        calls => format!("{} calls", calls.len()),
    }
}
