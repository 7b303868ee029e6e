//! The values that all parts of one open store share.

use super::options::SqliteOptions;
use super::paths::Paths;
use super::schema::{EVENTS_IN_FORCE_SINCE, SEALED_SINCE};

#[derive(Debug)]
pub(super) struct Context {
    pub(super) paths: Paths,
    pub(super) options: SqliteOptions,
    /// The version of its schema: a store that this process only reads may be of an older one.
    pub(super) version: u32,
    /// The id of this process as a lease holder.
    pub(super) holder_id: String,
    /// Stored with a lease, for display only.
    pub(super) pid: u32,
}

impl Context {
    /// Whether rows that no event describes have seals.
    pub(super) fn has_seals(&self) -> bool {
        self.version >= SEALED_SINCE
    }

    /// Whether the rows of agents have the numbers of their events in force.
    pub(super) fn has_events_in_force(&self) -> bool {
        self.version >= EVENTS_IN_FORCE_SINCE
    }
}
