//! Reading runs back from the journal.

use std::collections::HashMap;

use posse_agent::conversation::Conversation;
use posse_agent::machine::Machine;
use posse_domain::contract::Contract;
use posse_domain::definition::Definition;
use posse_domain::event::{CodecError, Event, EventBody, RunStarted, StoredEvent};
use posse_domain::hash::Hash;
use posse_domain::id::{AgentId, RunId};
use posse_domain::text::BlobRef;
use thiserror::Error;

use crate::ports::{READ_MAX_EVENTS, RunKey, Store, StoreError};

/// Longest chain of children that continue one another.
const CONTINUES_MAX: usize = 64;

/// Why a run cannot be read back.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HistoryError {
    /// The journal could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An event is not what it should be.
    #[error("event {seq} of run {run}: {error}")]
    Event {
        /// The run.
        run: RunId,
        /// Its number.
        seq: u64,
        /// What is wrong.
        error: CodecError,
    },
    /// The journal does not have what was looked for.
    #[error("{0}")]
    Missing(String),
}

/// An event as it was stored, without its long texts.
pub fn decode(key: &RunKey, stored: &StoredEvent) -> Result<Event, HistoryError> {
    let (run, seq) = (&key.run, stored.seq);
    Event::decode(stored).map_err(|error| HistoryError::Event { run: run.clone(), seq, error })
}

/// All events of a run, oldest first, handed to `take` page by page.
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

/// Fetches the long texts of an event.
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

/// A text that is gone or is not what it was is damage of the run that names it.
fn of_run(key: &RunKey, error: StoreError) -> StoreError {
    match error {
        StoreError::UnknownBlob(_) | StoreError::Corrupt { .. } => {
            StoreError::Damaged { run: key.run.clone(), problem: error.to_string() }
        }
        other => other,
    }
}

/// Fetches the long texts of an event that are for reading. What a run found on the machine, which may be megabytes,
/// stays where it is kept.
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

/// The first event of a run with its long texts; none if it cannot be read, which whoever reads the journal finds out.
pub(crate) async fn first_event(store: &dyn Store, key: &RunKey) -> Result<Option<Event>, StoreError> {
    let Some(stored) = store.read(key, 0, 1).await?.into_iter().next() else { return Ok(None) };
    let Ok(mut event) = Event::decode(&stored) else { return Ok(None) };
    fill(store, key, &mut event).await?;
    Ok(Some(event))
}

/// A reply, as contracts name it.
pub(crate) fn message_id(attempt: u32, turn: u32) -> String {
    match attempt {
        1 => format!("m{turn}"),
        _ => format!("m{attempt}.{turn}"),
    }
}

/// The reply that came with an event, as contracts name it. A call without one has none.
pub(crate) fn reply_id(body: &EventBody) -> Option<String> {
    match body {
        EventBody::ModelReplied(replied) if replied.reply.is_some() => {
            Some(message_id(replied.attempt, replied.turn))
        }
        _ => None,
    }
}

/// The events that came before a reply; all if it is not among them.
pub(crate) fn before_reply<'a>(events: &'a [Event], reply: &str) -> &'a [Event] {
    let at = events.iter().position(|event| reply_id(&event.body).is_some_and(|found| found == reply));
    &events[..at.unwrap_or(events.len())]
}

/// Whose conversation an agent begins with, and before which reply it ends; none if it shares none.
pub(crate) fn shared_from(contract: &Contract) -> Option<(&AgentId, &str)> {
    let reply = contract.parent.message_id.as_deref().filter(|_| contract.execution.share_history)?;
    Some((&contract.parent.agent_id, reply))
}

/// The machine of an agent as it begins. Its definition is asked for only if it begins with its parent's conversation.
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

/// The definitions of a run, as its first event has them.
#[derive(Debug, Default)]
pub(crate) struct Definitions(HashMap<String, Definition>);

impl Definitions {
    pub(crate) fn of(started: &RunStarted) -> Self {
        let found = started.request.discovered().unwrap_or_default();
        let all = started.request.definitions.iter().chain(&found.definitions);
        let mut named = HashMap::new();
        for definition in all {
            // Of one name the first counts, as in the run itself.
            named.entry(definition.name.clone()).or_insert_with(|| definition.clone());
        }
        Self(named)
    }

    pub(crate) fn get(&self, contract: &Contract) -> Option<&Definition> {
        self.0.get(&contract.execution.definition)
    }
}

/// One of the agents whose conversations make up another's.
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

    /// Whose conversation this one begins with, and where that ends.
    fn before(&self) -> Result<Option<(AgentId, Option<String>)>, HistoryError> {
        let contract = self.contract()?;
        let continued = contract.parent.continues.clone().map(|of| (of, None));
        let shared = shared_from(contract).map(|(of, reply)| (of.clone(), Some(reply.to_owned())));
        Ok(continued.or(shared))
    }
}

/// The conversation of a closed child, as its last attempt left it.
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
        let contract = link.contract()?;
        let mut machine = machine_of(definitions.get(contract), contract, conversation);
        for event in &mut link.events {
            fill(store, key, event).await?;
            machine.apply(&event.body);
        }
        conversation = machine.conversation().clone();
    }
    Ok(conversation)
}
