//! Events as the journal holds them: encoded, numbered, chained by hash.

use std::sync::Arc;

use crate::hash::Hash;
use crate::id::{AgentId, RunId};

/// An event ready for the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedEvent {
    /// The agent it happened to.
    pub agent: AgentId,
    /// Its kind.
    pub kind: &'static str,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// Version of the payload's format.
    pub version: u32,
    /// The detail, as JSON.
    pub payload: String,
}

/// An event as the journal gives it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its number in its run, from 1, without gaps.
    pub seq: u64,
    /// The agent it happened to.
    pub agent: AgentId,
    /// Its kind.
    pub kind: Arc<str>,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// Version of the payload's format.
    pub version: u32,
    /// The detail, as JSON.
    pub payload: String,
    /// Hash over this event and, through its predecessor's, over all before it.
    pub hash: Hash,
}

/// What a link of the chain covers.
#[derive(Debug, Clone, Copy)]
pub struct Link<'a> {
    /// Tenant of the run.
    pub tenant: &'a str,
    /// The run.
    pub run: &'a RunId,
    /// The event's number.
    pub seq: u64,
    /// The event's agent.
    pub agent: &'a AgentId,
    /// The event's kind.
    pub kind: &'a str,
    /// The event's time.
    pub at_ms: i64,
    /// The payload's version.
    pub version: u32,
    /// The payload.
    pub payload: &'a str,
}

/// The hash of an event that follows one with hash `previous`.
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
    /// The hash this event should have after `previous`.
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
            // The same letters, divided otherwise.
            chain(&Hash::ZERO, Link { tenant: "loca", ..link }),
            chain(&Hash::ZERO, Link { kind: "run.started{", payload: "}", ..link }),
        ];
        for (at, other) in others.iter().enumerate() {
            assert_ne!(*other, hash, "{at}");
        }
        assert_eq!(chain(&Hash::ZERO, link), hash);
    }
}
