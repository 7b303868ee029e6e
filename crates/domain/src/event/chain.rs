//! Events as the journal stores them: encoded, numbered, chained by hash.

use std::sync::Arc;

use crate::hash::Hash;
use crate::id::{AgentId, RunId};

/// An encoded event that the store can append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedEvent {
    /// The agent that the event belongs to.
    pub agent: AgentId,
    /// The name of the event's kind.
    pub kind: &'static str,
    /// The time in milliseconds since 1970.
    pub at_ms: i64,
    /// Version of the payload's format.
    pub version: u32,
    /// The event's data as JSON.
    pub payload: String,
}

/// An event that was read from the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// The event's number in its run, from 1, without gaps.
    pub seq: u64,
    /// The agent that the event belongs to.
    pub agent: AgentId,
    /// The name of the event's kind.
    pub kind: Arc<str>,
    /// The time in milliseconds since 1970.
    pub at_ms: i64,
    /// Version of the payload's format.
    pub version: u32,
    /// The event's data as JSON.
    pub payload: String,
    /// Hash over this event and its predecessor's hash, and so over all events before it.
    pub hash: Hash,
}

/// The data that one hash of the chain covers, beside the previous hash.
#[derive(Debug, Clone, Copy)]
pub struct Link<'a> {
    /// Tenant of the run.
    pub tenant: &'a str,
    /// The run that the event belongs to.
    pub run: &'a RunId,
    /// The event's number in the run.
    pub seq: u64,
    /// The event's agent.
    pub agent: &'a AgentId,
    /// The event's kind.
    pub kind: &'a str,
    /// The event's time in milliseconds since 1970.
    pub at_ms: i64,
    /// The version of the payload's format.
    pub version: u32,
    /// The event's data as JSON.
    pub payload: &'a str,
}

/// The hash of an event that follows an event with hash `previous`.
pub fn chain(previous: &Hash, link: Link<'_>) -> Hash {
    Hash::of_parts([
        previous.as_bytes().as_slice(),
        link.tenant.as_bytes(),
        link.run.as_str().as_bytes(),
        &link.seq.to_le_bytes(),
        link.agent.as_str().as_bytes(),
        link.kind.as_bytes(),
        &link.at_ms.to_le_bytes(),
        &link.version.to_le_bytes(),
        link.payload.as_bytes(),
    ])
}

impl StoredEvent {
    /// The hash that this event must have if it follows `previous`.
    pub fn expected_hash(&self, previous: &Hash, tenant: &str, run: &RunId) -> Hash {
        chain(
            previous,
            Link {
                tenant,
                run,
                seq: self.seq,
                agent: &self.agent,
                kind: &self.kind,
                at_ms: self.at_ms,
                version: self.version,
                payload: &self.payload,
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_an_event_and_all_before_it_are_in_its_hash() {
        let run: RunId = "k3f9ab2c".parse().expect("id");
        let other: RunId = "k3f9ab2d".parse().expect("id");
        let (agent, child) = (run.root(), run.root().child(1));
        let link = Link {
            tenant: "local",
            run: &run,
            seq: 7,
            agent: &agent,
            kind: "run.started",
            at_ms: 9,
            version: 1,
            payload: "{}",
        };
        let hash = chain(&Hash::ZERO, link);
        let others = [
            chain(&Hash::of(b"x"), link),
            chain(&Hash::ZERO, Link { tenant: "other", ..link }),
            chain(&Hash::ZERO, Link { run: &other, ..link }),
            chain(&Hash::ZERO, Link { seq: 8, ..link }),
            chain(&Hash::ZERO, Link { agent: &child, ..link }),
            chain(&Hash::ZERO, Link { kind: "run.failed", ..link }),
            chain(&Hash::ZERO, Link { at_ms: 10, ..link }),
            chain(&Hash::ZERO, Link { version: 2, ..link }),
            chain(&Hash::ZERO, Link { payload: "[]", ..link }),
            // The same characters, split between the fields in another way.
            chain(&Hash::ZERO, Link { tenant: "loca", ..link }),
            chain(&Hash::ZERO, Link { kind: "run.started{", payload: "}", ..link }),
        ];
        for (at, other) in others.iter().enumerate() {
            assert_ne!(*other, hash, "{at}");
        }
        assert_eq!(chain(&Hash::ZERO, link), hash);
    }
}
