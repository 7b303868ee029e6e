//! Reads the events and conversations of a run from its journal, for the driver and for front ends.

use std::collections::HashMap;
use std::sync::Arc;

use posse_agent::conversation::{Conversation, Message};
use posse_agent::machine::Machine;
use posse_domain::contract::Contract;
use posse_domain::definition::Definition;
use posse_domain::event::{CodecError, Event, EventBody, RunStarted, StoredEvent};
use posse_domain::hash::Hash;
use posse_domain::id::{AgentId, RunId};
use posse_domain::text::{BlobRef, Text};
use thiserror::Error;

use crate::ports::{READ_MAX_EVENTS, RunKey, Store, StoreError};

/// Limit of a chain of children in which each continues the conversation of the previous one.
pub(crate) const CONTINUES_MAX: usize = 64;

/// Why a run cannot be read from its journal.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HistoryError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("event {seq} of run {run}: {error}")]
    Event { run: RunId, seq: u64, error: CodecError },
    /// An agent or a reply that another conversation continues is not in the journal.
    #[error("{0}")]
    Missing(String),
}

/// Decodes a stored event. Its long texts stay in their blobs. [`fill`] fetches them.
pub fn decode(key: &RunKey, stored: &StoredEvent) -> Result<Event, HistoryError> {
    let (run, seq) = (&key.run, stored.seq);
    Event::decode(stored).map_err(|error| HistoryError::Event { run: run.clone(), seq, error })
}

/// Reads the events of a run, oldest first, and passes each to `take`.
pub async fn read_events(
    store: &dyn Store,
    key: &RunKey,
    mut after: u64,
    mut take: impl FnMut(StoredEvent) -> Result<(), HistoryError>,
) -> Result<(), HistoryError> {
    loop {
        let page = store.read(key, after, READ_MAX_EVENTS).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.seq;
        for stored in page {
            take(stored)?;
        }
    }
}

/// Fetches the long texts of an event from their blobs.
pub async fn fill(store: &dyn Store, key: &RunKey, event: &mut Event) -> Result<(), StoreError> {
    let missing = event.body.missing();
    if missing.is_empty() {
        return Ok(());
    }
    let mut texts: HashMap<Hash, String> = HashMap::new();
    for at in missing {
        let bytes = store.get_blob(&key.tenant, &at.blob).await.map_err(|error| of_run(key, error))?;
        texts.insert(at.blob, String::from_utf8_lossy(&bytes).into_owned());
    }
    let mut fetch = |at: &BlobRef| texts.get(&at.blob).cloned();
    event.body.fill(&mut fetch).map_err(|error| StoreError::Failed(error.to_string()))
}

/// Reports a missing or changed blob as damage of the run that refers to it.
fn of_run(key: &RunKey, error: StoreError) -> StoreError {
    match error {
        StoreError::Corrupt { problem, .. } => StoreError::Damaged { run: key.run.clone(), problem },
        StoreError::UnknownBlob(_) => {
            StoreError::Damaged { run: key.run.clone(), problem: error.to_string() }
        }
        other => other,
    }
}

/// Fetches the long texts of an event, except the catalogue of definitions and skills: it may have megabytes, and users
/// do not read it.
pub async fn fill_readable(store: &dyn Store, key: &RunKey, event: &mut Event) -> Result<(), StoreError> {
    let found = match &mut event.body {
        EventBody::RunStarted(started) => started.request.catalogue.take(),
        _ => None,
    };
    fill(store, key, event).await?;
    if let EventBody::RunStarted(started) = &mut event.body {
        started.request.catalogue = found;
    }
    Ok(())
}

/// The first event of a run with its long texts. `None` if the event cannot be decoded. The caller finds and reports
/// that when it reads the whole journal.
pub(crate) async fn first_event(store: &dyn Store, key: &RunKey) -> Result<Option<Event>, StoreError> {
    let Some(stored) = store.read(key, 0, 1).await?.into_iter().next() else { return Ok(None) };
    let Ok(mut event) = Event::decode(&stored) else { return Ok(None) };
    fill(store, key, &mut event).await?;
    Ok(Some(event))
}

/// The id by which contracts refer to a reply.
pub(crate) fn message_id(attempt: u32, turn: u32) -> String {
    match attempt {
        1 => format!("m{turn}"),
        _ => format!("m{attempt}.{turn}"),
    }
}

/// The contract id of the reply that an event contains. `None` for other events, failed calls and summaries.
pub(crate) fn reply_id(body: &EventBody) -> Option<String> {
    match body {
        EventBody::ModelReplied(replied) if replied.reply.is_some() && !replied.summary => {
            Some(message_id(replied.attempt, replied.turn))
        }
        _ => None,
    }
}

/// The events before a reply, or all events if the reply is not among them.
pub(crate) fn before_reply<'a>(events: &'a [Event], reply: &str) -> &'a [Event] {
    let at = events.iter().position(|event| reply_id(&event.body).is_some_and(|found| found == reply));
    &events[..at.unwrap_or(events.len())]
}

/// The parent whose conversation an agent begins with, if any, and the reply before which the shared part ends.
pub(crate) fn shared_from(contract: &Contract) -> Option<(&AgentId, &str)> {
    let reply = contract.parent.message_id.as_deref().filter(|_| contract.execution.share_history)?;
    Some((&contract.parent.agent_id, reply))
}

/// The turn machine of an agent at its start. The definition is only used if the agent begins with its parent's
/// conversation.
pub(crate) fn machine_of(
    definition: Option<&Definition>,
    contract: &Contract,
    prior: Conversation,
) -> Machine {
    match definition.filter(|_| contract.execution.share_history) {
        Some(definition) => Machine::sharing(definition, contract, prior),
        None => Machine::new(contract, prior),
    }
}

/// The definitions in the first event of a run, by name.
#[derive(Debug, Default)]
pub(crate) struct Definitions(HashMap<String, Definition>);

impl Definitions {
    pub(crate) fn of(started: &RunStarted) -> Self {
        let found = started.request.discovered().unwrap_or_default();
        let all = started.request.definitions.iter().chain(&found.definitions);
        let mut named = HashMap::new();
        for definition in all {
            // If several definitions have the same name, the first is used, as in the run itself.
            named.entry(definition.name.clone()).or_insert_with(|| definition.clone());
        }
        Self(named)
    }

    pub(crate) fn get(&self, contract: &Contract) -> Option<&Definition> {
        self.0.get(&contract.execution.definition)
    }
}

/// The conversation that a root begins with, which continues an agent of an earlier run.
pub(crate) fn continued_conversation(json: &str) -> Result<Conversation, HistoryError> {
    let unreadable =
        |error| HistoryError::Missing(format!("the conversation to continue cannot be read: {error}"));
    let messages: Vec<Message> = serde_json::from_str(json).map_err(unreadable)?;
    Ok(messages.into_iter().collect())
}

/// The conversation of a closed agent at its end, for a run that continues it: [`Continuation::conversation`].
///
/// [`Continuation::conversation`]: posse_domain::request::Continuation::conversation
pub async fn conversation_json(
    store: &dyn Store,
    key: &RunKey,
    of: &AgentId,
) -> Result<String, HistoryError> {
    let conversation = conversation_of(store, key, of).await?;
    serde_json::to_string(conversation.messages()).map_err(|error| HistoryError::Missing(error.to_string()))
}

/// One agent, with its events, of a chain in which each agent continues the conversation of another.
struct Link {
    agent: AgentId,
    events: Vec<Event>,
}

impl Link {
    async fn read(
        store: &dyn Store,
        key: &RunKey,
        agent: AgentId,
        until: Option<String>,
    ) -> Result<Self, HistoryError> {
        let mut events = Vec::new();
        read_events(store, key, 0, |stored| {
            if stored.agent == agent {
                events.push(decode(key, &stored)?);
            }
            Ok(())
        })
        .await?;
        if let Some(until) = &until {
            let count = before_reply(&events, until).len();
            if count == events.len() {
                return Err(HistoryError::Missing(format!("reply {until} of {agent} is not in the journal")));
            }
            events.truncate(count);
        }
        Ok(Self { agent, events })
    }

    fn contract(&self) -> Result<&Contract, HistoryError> {
        match self.events.first().map(|event| &event.body) {
            Some(EventBody::SubagentCreated(created)) => Ok(&created.contract),
            Some(EventBody::RunStarted(started)) => Ok(&started.contract),
            _ => Err(HistoryError::Missing(format!("{} is not in the journal", self.agent))),
        }
    }

    /// The agent whose conversation this agent begins with, and the reply before which the shared part ends. Without a
    /// reply the whole conversation is shared.
    fn before(&self) -> Result<Option<(AgentId, Option<String>)>, HistoryError> {
        let contract = self.contract()?;
        // A root has the conversation that it continues in its first event.
        let earlier = contract.parent.continues.clone().filter(|_| !self.agent.is_root());
        let continued = earlier.map(|of| (of, None));
        let shared = shared_from(contract).map(|(of, reply)| (of.clone(), Some(reply.to_owned())));
        Ok(continued.or(shared))
    }
}

/// The conversation that a run's first event continues, as JSON.
pub(crate) fn continued_json(body: &EventBody) -> Option<Arc<str>> {
    let EventBody::RunStarted(started) = body else { return None };
    let continued = started.request.continues.as_ref()?;
    continued.conversation.as_ref().map(Text::to_shared)
}

/// The conversation of a closed agent at the end of its last attempt.
pub(crate) async fn conversation_of(
    store: &dyn Store,
    key: &RunKey,
    of: &AgentId,
) -> Result<Conversation, HistoryError> {
    let mut chain = Vec::new();
    let mut next = Some((of.clone(), None));
    while let Some((agent, until)) = next {
        if chain.len() >= CONTINUES_MAX {
            return Err(HistoryError::Missing(format!(
                "more than {CONTINUES_MAX} tasks continue one another"
            )));
        }
        let link = Link::read(store, key, agent, until).await?;
        next = link.before()?;
        chain.push(link);
    }
    let definitions = match first_event(store, key).await?.map(|event| event.body) {
        Some(EventBody::RunStarted(started)) => Definitions::of(&started),
        _ => Definitions::default(),
    };
    let mut conversation = Conversation::default();
    for mut link in chain.into_iter().rev() {
        for event in &mut link.events {
            fill(store, key, event).await?;
        }
        let contract = link.contract()?;
        let prior = link.events.first().and_then(|event| continued_json(&event.body));
        let prior = prior.map(|json| continued_conversation(&json)).transpose()?;
        let mut machine = machine_of(definitions.get(contract), contract, prior.unwrap_or(conversation));
        for event in &link.events {
            machine.apply(&event.body);
        }
        conversation = machine.conversation().clone();
    }
    Ok(conversation)
}
