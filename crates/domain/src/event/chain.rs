//! Events as the journal holds them: encoded, numbered, chained by hash.

use std::sync::Arc;

use crate::hash::Hash;
use crate::id::{AgentId, RunId};

/// An event ready for the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
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
pub struct Stored {
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

impl Stored {
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
