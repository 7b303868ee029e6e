//! Reading runs back from the journal.

use std::collections::HashMap;

use posse_agent::conversation::Conversation;
use posse_agent::machine::Machine;
use posse_domain::event::{CodecError, Event, EventBody, Stored};
use posse_domain::hash::Hash;
use posse_domain::id::AgentId;
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
    #[error("event {seq}: {error}")]
    Event {
        /// Its number.
        seq: u64,
        /// What is wrong.
        error: CodecError,
    },
    /// The journal does not have what was looked for.
    #[error("{0}")]
    Missing(String),
}

/// All events of a run, oldest first, handed to `take` page by page.
pub async fn read_events(
    store: &dyn Store,
    key: &RunKey,
    mut after: u64,
    mut take: impl FnMut(Stored) -> Result<(), HistoryError>,
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
        let bytes = store.get_blob(&key.tenant, &at.blob).await?;
        texts.insert(at.blob, String::from_utf8_lossy(&bytes).into_owned());
    }
    let mut fetch = |at: &BlobRef| texts.get(&at.blob).cloned();
    event.body.fill(&mut fetch).map_err(|error| StoreError::Failed(error.to_string()))
}

/// The first event of a run with its long texts; none if it cannot be read, which whoever reads the journal finds out.
pub(crate) async fn first_event(store: &dyn Store, key: &RunKey) -> Result<Option<Event>, StoreError> {
    let Some(stored) = store.read(key, 0, 1).await?.into_iter().next() else { return Ok(None) };
    let Ok(mut event) = Event::decode(&stored) else { return Ok(None) };
    fill(store, key, &mut event).await?;
    Ok(Some(event))
}

/// The conversation of a closed child, as its last attempt left it.
pub(crate) async fn conversation_of(
    store: &dyn Store,
    key: &RunKey,
    of: &AgentId,
) -> Result<Conversation, HistoryError> {
    let mut chain = Vec::new();
    let mut next = Some(of.clone());
    let mut events: HashMap<AgentId, Vec<Event>> = HashMap::new();
    while let Some(id) = next {
        if chain.len() >= CONTINUES_MAX {
            return Err(HistoryError::Missing(format!(
                "more than {CONTINUES_MAX} tasks continue one another"
            )));
        }
        let mut own = Vec::new();
        read_events(store, key, 0, |stored| {
            if stored.agent == id {
                let seq = stored.seq;
                own.push(Event::decode(&stored).map_err(|error| HistoryError::Event { seq, error })?);
            }
            Ok(())
        })
        .await?;
        next = match own.first().map(|event| &event.body) {
            Some(EventBody::SubagentCreated(created)) => created.contract.parent.continues.clone(),
            _ => return Err(HistoryError::Missing(format!("{id} is not in the journal"))),
        };
        events.insert(id.clone(), own);
        chain.push(id);
    }
    let mut conversation = Conversation::default();
    for id in chain.into_iter().rev() {
        let mut own = events.remove(&id).unwrap_or_default();
        let Some(EventBody::SubagentCreated(created)) = own.first().map(|event| event.body.clone()) else {
            continue;
        };
        let mut machine = Machine::new(&created.contract, conversation);
        for event in &mut own {
            fill(store, key, event).await?;
            machine.apply(&event.body);
        }
        conversation = machine.conversation().clone();
    }
    Ok(conversation)
}
