//! Who may use the server of a state directory, where its clients may start runs, and the log of what they decided.

pub mod access;
pub mod audit;
pub mod sent;

pub use access::{AccessFile, AddedProject, NewToken, ServerAccess, StoredToken};
pub use audit::{AuditEntry, AuditLog};
pub use sent::SentEvents;
