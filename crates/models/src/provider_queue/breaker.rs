//! The circuit breaker: when a provider fails every call, all agents stop calling it, and one call at a time tries
//! again.

use std::time::Duration;

use super::retry::with_jitter;

/// Failures in a row, of all agents together, after which the breaker opens.
pub(super) const FAILURES_TO_OPEN: u32 = 5;
/// How long the breaker stays open the first time.
const OPEN_FIRST: Duration = Duration::from_secs(5);
/// Longest time that the breaker stays open.
const OPEN_MOST: Duration = Duration::from_mins(2);

/// Decides whether a provider is called at all. The breaker does not know which agent made a call, and need not: any
/// answer shows that the provider works, and closes the breaker.
#[derive(Debug, Clone)]
pub(super) struct Breaker {
    state: State,
    failures: u32,
    /// How often the breaker opened since the last answer.
    openings: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Calls are let through.
    Closed,
    /// No call is let through before this time.
    Open { until: Duration },
    /// One call tries, and all others wait for its outcome.
    Trying,
}

/// When the breaker lets a call through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BreakerOpening {
    /// At this time, which may be in the past.
    At(Duration),
    /// When the outcome of the trial call is known.
    AfterTrial,
}

impl Breaker {
    pub(super) fn new() -> Self {
        Self { state: State::Closed, failures: 0, openings: 0 }
    }

    pub(super) fn opening(&self) -> BreakerOpening {
        match self.state {
            State::Closed => BreakerOpening::At(Duration::ZERO),
            State::Open { until } => BreakerOpening::At(until),
            State::Trying => BreakerOpening::AfterTrial,
        }
    }

    /// Whether calls are blocked.
    pub(super) fn is_open(&self) -> bool {
        self.state != State::Closed
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Lets a call through. Returns whether it is a trial call.
    pub(super) fn take(&mut self) -> bool {
        let trial = self.is_open();
        if trial {
            self.state = State::Trying;
        }
        trial
    }

    /// Records a failure that shows that the provider is failing. Returns whether that opened the breaker.
    pub(super) fn record_failure(&mut self, now: Duration, chance: f64) -> bool {
        self.failures = self.failures.saturating_add(1);
        // Calls that were under way when the breaker opened fail too, and add no information.
        if matches!(self.state, State::Open { .. }) || self.failures < FAILURES_TO_OPEN {
            return false;
        }
        let open = OPEN_FIRST.saturating_mul(1 << self.openings.min(16)).min(OPEN_MOST);
        self.openings = self.openings.saturating_add(1);
        self.state = State::Open { until: now + with_jitter(open, chance) };
        true
    }

    /// Records an answered call. Returns whether that closed the breaker.
    pub(super) fn record_answer(&mut self) -> bool {
        let closed = self.is_open();
        *self = Self::new();
        closed
    }

    /// Records that an answer has begun. That is enough to let other calls through. If the answer is cut, the breaker
    /// opens again at once, and for longer. Returns whether the breaker closed.
    pub(super) fn record_answer_begun(&mut self) -> bool {
        let closed = self.is_open();
        self.state = State::Closed;
        self.failures = self.failures.min(FAILURES_TO_OPEN - 1);
        closed
    }

    /// Records that a trial call ended without an outcome. The next call tries.
    pub(super) fn trial_ended(&mut self, now: Duration) {
        if self.state == State::Trying {
            self.state = State::Open { until: now };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(breaker: &mut Breaker, now: Duration) {
        while !breaker.record_failure(now, 0.0) {}
    }

    #[test]
    fn it_opens_once_for_all_that_fail_together() {
        let mut breaker = Breaker::new();
        let opened = (0..50).filter(|_| breaker.record_failure(Duration::ZERO, 0.0)).count();
        assert_eq!(opened, 1);
        assert_eq!(breaker.opening(), BreakerOpening::At(OPEN_FIRST));
        assert_eq!(breaker.failures(), 50);
    }

    #[test]
    fn an_answer_in_between_keeps_it_closed() {
        let mut breaker = Breaker::new();
        for _ in 0..20 {
            for _ in 1..FAILURES_TO_OPEN {
                assert!(!breaker.record_failure(Duration::ZERO, 0.0));
            }
            assert!(!breaker.record_answer());
        }
    }

    #[test]
    fn one_tries_and_a_failure_opens_it_for_longer_up_to_a_limit() {
        let mut breaker = Breaker::new();
        let mut now = Duration::ZERO;
        let mut waits = Vec::new();
        open(&mut breaker, now);
        for _ in 0..8 {
            let BreakerOpening::At(until) = breaker.opening() else { panic!("nobody tries") };
            waits.push(until.saturating_sub(now).as_secs());
            now = until;
            assert!(breaker.take());
            assert_eq!(breaker.opening(), BreakerOpening::AfterTrial);
            assert!(breaker.record_failure(now, 0.0));
        }
        assert_eq!(waits, [5, 10, 20, 40, 80, 120, 120, 120]);
        assert!(breaker.record_answer());
        open(&mut breaker, now);
        assert_eq!(breaker.opening(), BreakerOpening::At(now + OPEN_FIRST));
    }

    #[test]
    fn a_trial_that_is_given_up_is_followed_by_another() {
        let mut breaker = Breaker::new();
        open(&mut breaker, Duration::ZERO);
        assert!(breaker.take());
        breaker.trial_ended(Duration::from_secs(7));
        assert_eq!(breaker.opening(), BreakerOpening::At(Duration::from_secs(7)));
        assert!(breaker.take());
    }

    #[test]
    fn an_answer_that_begins_lets_others_go_and_opens_it_again_if_it_is_cut() {
        let mut breaker = Breaker::new();
        open(&mut breaker, Duration::ZERO);
        assert!(breaker.take());
        assert!(breaker.record_answer_begun());
        assert!(!breaker.is_open());
        assert!(breaker.record_failure(Duration::ZERO, 0.0));
        assert_eq!(breaker.opening(), BreakerOpening::At(OPEN_FIRST * 2));
    }
}
