//! What can be checked only when all files are read: that the names they give each other lead somewhere.

use super::reading::{Mention, Warning};

/// What a checked file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A definition that can be a child.
    Definition,
    /// A definition that is only a root.
    Primary,
    /// A skill.
    Skill,
}

/// One file that was read.
#[derive(Debug, Clone, Copy)]
pub struct Checked<'a> {
    /// What warnings call the file.
    pub file: &'a str,
    /// Where it was found: of two with one name in one place one is a mistake, in two places one shadows the other.
    pub place: &'a str,
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub name: &'a str,
    /// The names of others that it gives.
    pub mentions: &'a [Mention],
}

/// Checks all files against each other and against the built-in definitions.
pub fn cross_check(_all: &[Checked<'_>]) -> Vec<Warning> {
    Vec::new()
}
