//! The count of the work of one check, which ends the check at its limits.

use super::{DEPTH_MAX, STEPS_MAX, SchemaProblem};

/// Bytes of text that are compared, copied or measured in one step.
const TEXT_BYTES_PER_STEP: usize = 64;

/// The limit that ended a check. It is small, because every level of the recursion returns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    Steps,
    Depth,
}

impl From<Limit> for SchemaProblem {
    fn from(limit: Limit) -> Self {
        match limit {
            Limit::Steps => Self::Steps,
            Limit::Depth => Self::Depth,
        }
    }
}

/// A step is one part of the schema at one place of the answer, one value that is compared, or one byte that a small
/// pattern is matched with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meter {
    steps_left: usize,
    depth_left: usize,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self { steps_left: STEPS_MAX, depth_left: DEPTH_MAX }
    }

    /// The same depth, with its own count of steps.
    pub(super) fn with_steps(self, steps_left: usize) -> Self {
        Self { steps_left, ..self }
    }

    pub(super) fn take(&mut self, steps: usize) -> Result<(), Limit> {
        self.steps_left = self.steps_left.checked_sub(steps).ok_or(Limit::Steps)?;
        Ok(())
    }

    /// Takes the steps of reading a text of this length; a short text has none.
    pub(super) fn take_text(&mut self, bytes: usize) -> Result<(), Limit> {
        self.take(bytes / TEXT_BYTES_PER_STEP)
    }

    /// Takes the steps of looking up a name.
    pub(super) fn take_name(&mut self, name: &str) -> Result<(), Limit> {
        self.take(1)?;
        self.take_text(name.len())
    }

    /// Takes one step, one level deeper. Each level uses the stack, so the caller calls [`Meter::leave`] at its end.
    pub(super) fn enter(&mut self) -> Result<(), Limit> {
        self.depth_left = self.depth_left.checked_sub(1).ok_or(Limit::Depth)?;
        self.take(1)
    }

    pub(super) fn leave(&mut self) {
        self.depth_left += 1;
    }
}
