//! The data types that leave the program: what `--json` prints today, and what other front ends serve. One module and
//! one version, so that a program that reads one front end reads them all.
//!
//! They are a promise: fields are added, never renamed or removed, and a type that has to break gets the next
//! version. The types of the facade are free to change, because none of them is serialised directly. The schema of
//! every object is published as `docs/schemas/api.schema.json`, and tests hold real output against it.
//!
//! Why it is like this: `docs/decisions/api-data-types.md`.

mod event;
mod files;
mod permission;
mod run;
mod schema;
mod stats;
mod verification;

pub use event::Event;
pub use files::{ApplyResult, GcResult, KeptItem, Salvage};
pub use permission::{Answer, Explanation, LayerDecision, Question};
pub use run::{Agent, Depth, FailedAgent, Outcome, RunDetail, RunReference, RunSummary, status_word};
pub use schema::json_schema;
pub use stats::{AgentStats, AllStats, DepthStats, FigureValues, RunStats, Total};
pub use verification::Verification;

use posse_domain::budget::Usd;
use schemars::JsonSchema;
use serde::Serialize;

/// Version of all objects.
pub const VERSION: u32 = 1;

/// An object with its version before its own fields. Every object that leaves the program gets it here, so that none
/// can lack it.
#[derive(Serialize)]
pub struct VersionedObject<'a, T> {
    version: u32,
    #[serde(flatten)]
    object: &'a T,
}

impl<'a, T> VersionedObject<'a, T> {
    /// The object with today's version.
    pub fn new(object: &'a T) -> Self {
        Self { version: VERSION, object }
    }
}

/// Tokens and money.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct Usage {
    input_tokens: u64,
    output_tokens: u64,
    /// The part of the input that was read from a cache.
    cached_tokens: u64,
    /// The part of the input that was written to a cache.
    cache_write_tokens: u64,
    /// The part of the output that was thinking.
    reasoning_tokens: u64,
    /// Dollars; null if the price is unknown.
    usd: Option<f64>,
}

impl From<&crate::Usage> for Usage {
    fn from(usage: &crate::Usage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cached_tokens: usage.cached_tokens,
            cache_write_tokens: usage.cache_write_tokens,
            reasoning_tokens: usage.reasoning_tokens,
            usd: usage.micro_usd.map(|micros| Usd::from_micros(micros).as_f64()),
        }
    }
}

/// A time as programs read it: RFC 3339, UTC, with milliseconds.
pub fn timestamp(at_ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(at_ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339_with_milliseconds() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(1_700_000_000_050), "2023-11-14T22:13:20.050Z");
        assert_eq!(timestamp(i64::MAX), "1970-01-01T00:00:00.000Z");
    }
}
