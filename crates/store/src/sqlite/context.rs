//! What all parts of one open store share.

use super::clock::BootClock;
use super::options::SqliteOptions;
use super::paths::Paths;

/// One open store.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) paths: Paths,
    pub(super) options: SqliteOptions,
    pub(super) clock: BootClock,
    /// Whether its rows have seals: one that an older Posse wrote and this one only reads has none.
    pub(super) has_seals: bool,
    /// This store's name as an owner of runs.
    pub(super) owner: String,
    /// This process, for people.
    pub(super) pid: u32,
}
