//! The breaker: once a provider fails every call, everybody stops calling it, and one call at a time tries.

use std::time::Duration;

use super::retry::with_jitter;

/// Failures in a row, of all agents together, after which it opens.
pub(super) const FAILURES_TO_OPEN: u32 = 5;
/// How long it stays open the first time.
const OPEN_FIRST: Duration = Duration::from_secs(5);
/// How long it stays open at most.
const OPEN_MOST: Duration = Duration::from_mins(2);

/// Whether a provider is called at all.
///
/// Who made the call that succeeded or failed is not known, and need not be: any answer shows that the provider is
/// there, and closes the breaker.
#[derive(Debug, Clone)]
pub(super) struct Breaker {
    state: State,
    /// Failures since the last answer.
    failures: u32,
    /// How often it opened since the last answer.
    openings: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Calls go.
    Closed,
    /// None goes until then.
    Open { until: Duration },
    /// One tries, and all others wait for what comes of it.
    Trying,
}

/// When the breaker lets a call go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BreakerOpening {
    /// At once, or at this time.
    At(Duration),
    /// When it is known how the call that tries has ended.
    AfterTrial,
}

impl Breaker {
    /// Closed.
    pub(super) fn new() -> Self {
        Self { state: State::Closed, failures: 0, openings: 0 }
    }

    /// When a call may go.
    pub(super) fn opening(&self) -> BreakerOpening {
        match self.state {
            State::Closed => BreakerOpening::At(Duration::ZERO),
            State::Open { until } => BreakerOpening::At(until),
            State::Trying => BreakerOpening::AfterTrial,
        }
    }

    /// Whether calls are held back.
    pub(super) fn is_open(&self) -> bool {
        self.state != State::Closed
    }

    /// Failures since the last answer.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Lets a call go; whether it is one that tries.
    pub(super) fn take(&mut self) -> bool {
        let trial = self.is_open();
        if trial {
            self.state = State::Trying;
        }
        trial
    }

    /// A call failed in a way that says that the provider is unwell. Whether that opened the breaker.
    pub(super) fn failed(&mut self, now: Duration, chance: f64) -> bool {
        self.failures = self.failures.saturating_add(1);
        // The calls that were under way when it opened fail too, and say nothing new.
        if matches!(self.state, State::Open { .. }) || self.failures < FAILURES_TO_OPEN {
            return false;
        }
        let open = OPEN_FIRST.saturating_mul(1 << self.openings.min(16)).min(OPEN_MOST);
        self.openings = self.openings.saturating_add(1);
        self.state = State::Open { until: now + with_jitter(open, chance) };
        true
    }

    /// A call was answered. Whether that closed the breaker.
    pub(super) fn answered(&mut self) -> bool {
        let closed = self.is_open();
        *self = Self::new();
        closed
    }

    /// An answer has begun. That is enough to let the others go; should it be cut, the breaker opens again at once, and
    /// for longer. Whether it closed.
    pub(super) fn answering(&mut self) -> bool {
        let closed = self.is_open();
        self.state = State::Closed;
        self.failures = self.failures.min(FAILURES_TO_OPEN - 1);
        closed
    }

    /// A call that tried has ended, and nobody said how: the next one tries.
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
        while !breaker.failed(now, 0.0) {}
    }

    #[test]
    fn it_opens_once_for_all_that_fail_together() {
        let mut breaker = Breaker::new();
        let opened = (0..50).filter(|_| breaker.failed(Duration::ZERO, 0.0)).count();
        assert_eq!(opened, 1);
        assert_eq!(breaker.opening(), BreakerOpening::At(OPEN_FIRST));
        assert_eq!(breaker.failures(), 50);
    }

    #[test]
    fn an_answer_in_between_keeps_it_closed() {
        let mut breaker = Breaker::new();
        for _ in 0..20 {
            for _ in 1..FAILURES_TO_OPEN {
                assert!(!breaker.failed(Duration::ZERO, 0.0));
            }
            assert!(!breaker.answered());
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
            assert!(breaker.failed(now, 0.0));
        }
        assert_eq!(waits, [5, 10, 20, 40, 80, 120, 120, 120]);
        assert!(breaker.answered());
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
        assert!(breaker.answering());
        assert!(!breaker.is_open());
        assert!(breaker.failed(Duration::ZERO, 0.0));
        assert_eq!(breaker.opening(), BreakerOpening::At(OPEN_FIRST * 2));
    }
}
