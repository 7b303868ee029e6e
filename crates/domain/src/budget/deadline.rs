//! Wall time of an agent as a deadline, in milliseconds of a clock that the caller reads.

use serde::{Deserialize, Serialize};

use super::reserve::LOW_PERCENT;

/// Percentage of an agent's time that is kept for its report turn.
pub const REPORT_TIME_PERCENT: u64 = 10;
/// Minimum time for the report, but never more than half of the total. A model needs this long for a page of text, and
/// running programs need a moment to end.
pub const REPORT_TIME_LEAST_MS: u64 = 20_000;
/// Maximum time for the report, however long the total is.
pub const REPORT_TIME_MOST_MS: u64 = 300_000;

/// The part of `time_ms` that is kept for a report turn.
fn report_time_ms(time_ms: u64) -> u64 {
    let part = time_ms / 100 * REPORT_TIME_PERCENT;
    part.clamp(REPORT_TIME_LEAST_MS, REPORT_TIME_MOST_MS).min(time_ms / 2)
}

/// The time at which an agent must end: `min(parent's, start + wall_ms)`. It moves back while the agent waits for a
/// user and while the run has no lease holder.
///
/// The caller passes the parent's deadline each time, because it may have been paused after the agent started. A pause
/// of the whole run is a pause of each of its agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "units stand last in names")]
pub struct Deadline {
    start_ms: u64,
    wall_ms: Option<u64>,
    paused_ms: u64,
    /// The start of the current wait for a user.
    waits_since_ms: Option<u64>,
}

impl Deadline {
    /// The deadline of an agent that starts now. Without `wall_ms` only its parent's deadline applies.
    pub fn new(start_ms: u64, wall_ms: Option<u64>) -> Self {
        Self { start_ms, wall_ms, paused_ms: 0, waits_since_ms: None }
    }

    /// Extends the deadline by a pause that is not a wait for a user.
    pub fn pause(&mut self, ms: u64) {
        self.paused_ms = self.paused_ms.saturating_add(ms);
        // The agent waited for a user in the same time, which must count only once.
        self.waits_since_ms = self.waits_since_ms.map(|since| since.saturating_add(ms));
    }

    /// Starts a wait for a user. Does nothing if one is under way.
    pub fn wait(&mut self, now_ms: u64) {
        self.waits_since_ms.get_or_insert(now_ms);
    }

    /// Ends the wait for a user.
    pub fn resume(&mut self, now_ms: u64) {
        self.paused_ms = self.paused_ms.saturating_add(self.waited_ms(now_ms));
        self.waits_since_ms = None;
    }

    /// Whether the agent waits for a user.
    pub fn waits(&self) -> bool {
        self.waits_since_ms.is_some()
    }

    fn waited_ms(&self, now_ms: u64) -> u64 {
        self.waits_since_ms.map_or(0, |since| now_ms.saturating_sub(since))
    }

    /// The deadline as of now, given the parent's. None means no deadline. During a wait for a user it moves with the
    /// clock.
    pub fn at_ms(&self, parent_at_ms: Option<u64>, now_ms: u64) -> Option<u64> {
        let paused_ms = self.paused_ms.saturating_add(self.waited_ms(now_ms));
        let own = self.wall_ms.map(|wall| self.start_ms.saturating_add(wall).saturating_add(paused_ms));
        [own, parent_at_ms].into_iter().flatten().min()
    }

    /// The time at which the report turn is due, as of now. The last part of the agent's time is kept for it.
    pub fn report_at_ms(&self, parent_at_ms: Option<u64>, now_ms: u64) -> Option<u64> {
        let at_ms = self.at_ms(parent_at_ms, now_ms)?;
        let paused_ms = self.paused_ms.saturating_add(self.waited_ms(now_ms));
        let time_ms = at_ms.saturating_sub(self.start_ms.saturating_add(paused_ms));
        Some(at_ms - report_time_ms(time_ms))
    }

    /// The agent's own time limit. None if only its parent's applies.
    pub fn wall_ms(&self) -> Option<u64> {
        self.wall_ms
    }

    /// Whether the agent has used most of its own time for work.
    pub fn is_low(&self, now_ms: u64) -> bool {
        let (Some(wall_ms), Some(report_at_ms)) = (self.wall_ms, self.report_at_ms(None, now_ms)) else {
            return false;
        };
        let work_ms = wall_ms - report_time_ms(wall_ms);
        let left_ms = report_at_ms.saturating_sub(now_ms);
        u128::from(left_ms) * 100 <= u128::from(work_ms) * u128::from(100 - LOW_PERCENT)
    }

    /// The remaining time. None means no limit, zero means that the deadline passed.
    pub fn left_ms(&self, parent_at_ms: Option<u64>, now_ms: u64) -> Option<u64> {
        self.at_ms(parent_at_ms, now_ms).map(|at| at.saturating_sub(now_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_deadline_binds() {
        let root = Deadline::new(1000, Some(500)).at_ms(None, 0);
        assert_eq!(root, Some(1500));
        assert_eq!(Deadline::new(1200, Some(100)).at_ms(root, 0), Some(1300));
        assert_eq!(Deadline::new(1200, Some(900)).at_ms(root, 0), Some(1500));
        assert_eq!(Deadline::new(1200, None).at_ms(root, 0), Some(1500));
        assert_eq!(Deadline::new(1200, None).at_ms(None, 0), None);
    }

    #[test]
    fn a_pause_moves_the_own_deadline_only() {
        let mut child = Deadline::new(1200, Some(100));
        child.pause(50);
        assert_eq!(child.at_ms(Some(5000), 0), Some(1350));
        child.pause(10_000);
        assert_eq!(child.at_ms(Some(5000), 0), Some(5000), "its parent did not stand still");
    }

    #[test]
    fn a_pause_of_the_run_moves_all() {
        let (mut root, mut child) = (Deadline::new(0, Some(100)), Deadline::new(50, None));
        for deadline in [&mut root, &mut child] {
            deadline.pause(30);
        }
        assert_eq!(child.at_ms(root.at_ms(None, 0), 0), Some(130));
    }

    #[test]
    fn zero_means_zero() {
        assert_eq!(Deadline::new(1000, Some(0)).left_ms(None, 1000), Some(0));
        assert_eq!(Deadline::new(1000, Some(10)).left_ms(None, 1004), Some(6));
        assert_eq!(Deadline::new(1000, None).left_ms(None, 1004), None);
        assert_eq!(Deadline::new(u64::MAX, Some(10)).at_ms(None, 0), Some(u64::MAX));
    }
    #[test]
    fn waiting_for_a_person_takes_no_time() {
        let mut root = Deadline::new(1000, Some(500));
        root.wait(1100);
        root.wait(1200);
        assert!(root.waits());
        assert_eq!(root.left_ms(None, 1100), Some(400));
        assert_eq!(root.left_ms(None, 9_000_000), Some(400));
        root.resume(2100);
        root.resume(2200);
        assert_eq!((root.waits(), root.at_ms(None, 2100)), (false, Some(2500)));
    }

    #[test]
    fn time_without_an_owner_and_a_person_counts_once() {
        let mut root = Deadline::new(0, Some(100));
        root.wait(10);
        // The lease holder died at 20, and the next one started at 70.
        root.pause(50);
        assert_eq!(root.at_ms(None, 70), Some(160));
        root.resume(90);
        assert_eq!(root.at_ms(None, 90), Some(180), "80 of waiting, 50 of them without an owner");
    }
}
