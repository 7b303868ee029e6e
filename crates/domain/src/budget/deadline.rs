//! Wall time as a deadline, in milliseconds of whatever clock the caller reads.

use serde::{Deserialize, Serialize};

/// When an agent's time is up: `min(parent's, start + wall_ms)`, which stands still while the agent waits for
/// a person or the run has no owner.
///
/// The parent's is asked for each time, never copied at the start: it may have stood still since then. A
/// pause of the whole run is a pause of each of its agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "units stand last in names")]
pub struct Deadline {
    start_ms: u64,
    wall_ms: Option<u64>,
    paused_ms: u64,
}

impl Deadline {
    /// The deadline of an agent that starts now; without `wall_ms` it has only its parent's.
    pub fn new(start_ms: u64, wall_ms: Option<u64>) -> Self {
        Self { start_ms, wall_ms, paused_ms: 0 }
    }

    /// Stood still for so long.
    pub fn pause(&mut self, ms: u64) {
        self.paused_ms = self.paused_ms.saturating_add(ms);
    }

    /// When the time is up, given when the parent's is; none is never.
    pub fn at_ms(&self, parent_at_ms: Option<u64>) -> Option<u64> {
        let own = self.wall_ms.map(|wall| self.start_ms.saturating_add(wall).saturating_add(self.paused_ms));
        [own, parent_at_ms].into_iter().flatten().min()
    }

    /// How much is left; none is no limit, zero is over.
    pub fn left_ms(&self, parent_at_ms: Option<u64>, now_ms: u64) -> Option<u64> {
        self.at_ms(parent_at_ms).map(|at| at.saturating_sub(now_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_deadline_binds() {
        let root = Deadline::new(1000, Some(500)).at_ms(None);
        assert_eq!(root, Some(1500));
        assert_eq!(Deadline::new(1200, Some(100)).at_ms(root), Some(1300));
        assert_eq!(Deadline::new(1200, Some(900)).at_ms(root), Some(1500));
        assert_eq!(Deadline::new(1200, None).at_ms(root), Some(1500));
        assert_eq!(Deadline::new(1200, None).at_ms(None), None);
    }

    #[test]
    fn a_pause_moves_the_own_deadline_only() {
        let mut child = Deadline::new(1200, Some(100));
        child.pause(50);
        assert_eq!(child.at_ms(Some(5000)), Some(1350));
        child.pause(10_000);
        assert_eq!(child.at_ms(Some(5000)), Some(5000), "its parent did not stand still");
    }

    #[test]
    fn a_pause_of_the_run_moves_all() {
        let (mut root, mut child) = (Deadline::new(0, Some(100)), Deadline::new(50, None));
        for deadline in [&mut root, &mut child] {
            deadline.pause(30);
        }
        assert_eq!(child.at_ms(root.at_ms(None)), Some(130));
    }

    #[test]
    fn zero_means_zero() {
        assert_eq!(Deadline::new(1000, Some(0)).left_ms(None, 1000), Some(0));
        assert_eq!(Deadline::new(1000, Some(10)).left_ms(None, 1004), Some(6));
        assert_eq!(Deadline::new(1000, None).left_ms(None, 1004), None);
        assert_eq!(Deadline::new(u64::MAX, Some(10)).at_ms(None), Some(u64::MAX));
    }
}
