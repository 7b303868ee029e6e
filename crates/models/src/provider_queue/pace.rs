//! Limits the rate of calls: the user's limits per minute, and a slow start after a pause.

use std::time::Duration;

const MINUTE: Duration = Duration::from_mins(1);

/// This fraction of a limit may be used at once.
const BURST_SHARE: u32 = 20;
/// Limit of calls that may start at once beyond the first, however high the rate limit is,
const BURST_CALLS: u32 = 4;
/// or as many as the rate limit allows in this part of a minute (20 ms), so that timers need not be exact.
const BURST_TIME_PER_MINUTE: u32 = 3_000;
/// This fraction of a token limit may be used at once. A larger call waits until that much is free.
const TOKEN_BURST_SHARE: u64 = 10;

/// A limit per minute, used evenly: a token bucket that fills steadily and has a small burst.
///
/// The burst is subtracted from the steady rate, so that no minute, wherever it begins, exceeds the limit.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    /// The amount that is refilled per minute.
    steady: u64,
    /// The amount that can be used at once.
    burst: u64,
    /// When the bucket will be full again.
    whole_at: Duration,
}

impl Pace {
    pub(super) fn of_calls(per_minute: u32) -> Self {
        let per_minute = per_minute.max(1);
        let beyond = (per_minute / BURST_SHARE).min(BURST_CALLS + per_minute / BURST_TIME_PER_MINUTE);
        Self {
            steady: u64::from(per_minute - beyond),
            burst: u64::from(1 + beyond),
            whole_at: Duration::ZERO,
        }
    }

    pub(super) fn of_tokens(per_minute: u64) -> Self {
        let burst = (per_minute / TOKEN_BURST_SHARE).max(1);
        Self { steady: per_minute.saturating_sub(burst).max(1), burst, whole_at: Duration::ZERO }
    }

    /// The time in which `amount` is refilled.
    pub(super) fn time_of(&self, amount: u64) -> Duration {
        let nanos = u128::from(amount) * MINUTE.as_nanos();
        Duration::from_nanos(u64::try_from(nanos.div_ceil(u128::from(self.steady))).unwrap_or(u64::MAX))
    }

    /// When `amount` may be taken. An amount larger than the burst may be taken when the bucket is full, and leaves a
    /// debt.
    pub(super) fn free_at(&self, amount: u64) -> Duration {
        let needed = self.time_of(amount.min(self.burst));
        self.whole_at.saturating_add(needed).saturating_sub(self.time_of(self.burst))
    }

    /// Takes `amount`, whether or not it is available.
    pub(super) fn take(&mut self, now: Duration, amount: u64) {
        self.whole_at = self.whole_at.max(now).saturating_add(self.time_of(amount));
    }

    /// Returns an amount that was taken and not used.
    pub(super) fn put_back(&mut self, amount: u64) {
        self.whole_at = self.whole_at.saturating_sub(self.time_of(amount));
    }
}

/// Calls per second after a first pause.
pub(super) const SLOW_START_PER_SECOND: f64 = 10.0;
/// Minimum of calls per second after a pause, however often the provider has requested one.
const SLOWEST_START_PER_SECOND: f64 = 0.5;
/// The time in which the rate of a first slow start doubles. A slower start also grows slower.
const DOUBLING_SECONDS: f64 = 2.0;
/// The rate at which a slow start is over.
const FULL_PER_SECOND: f64 = 500.0;

/// A slow start after a pause: calls start at a rate that grows until it is no limit any more.
///
/// If the provider requests another pause during a slow start, the next slow start begins at half the rate. That finds
/// a limit that the provider does not state.
#[derive(Debug, Clone, Default)]
pub(super) struct SlowStart {
    ramp: Option<Ramp>,
    free_at: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Ramp {
    from: Duration,
    first_per_second: f64,
    /// Whether any call was made since.
    used: bool,
}

impl Ramp {
    fn doubling_seconds(&self) -> f64 {
        DOUBLING_SECONDS * SLOW_START_PER_SECOND / self.first_per_second
    }

    /// Calls per second at this time. `None` when the rate is no limit any more.
    fn per_second(&self, now: Duration) -> Option<f64> {
        let since = now.saturating_sub(self.from).as_secs_f64();
        let rate = self.first_per_second * (since / self.doubling_seconds()).exp2();
        (rate < FULL_PER_SECOND).then_some(rate)
    }
}

impl SlowStart {
    /// Begins a slow start at the end of a pause that the provider requests now.
    pub(super) fn after_pause(&mut self, now: Duration, from: Duration) {
        match &mut self.ramp {
            // Calls that were under way are refused too, and add no information.
            Some(ramp) if now < ramp.from => ramp.from = ramp.from.max(from),
            _ => {
                let first = self.first_per_second(now, true);
                self.ramp = Some(Ramp { from, first_per_second: first, used: false });
            }
        }
        self.free_at = self.free_at.max(from);
    }

    /// Begins a slow start at this time, replacing any earlier one.
    pub(super) fn start(&mut self, now: Duration, from: Duration) {
        let first_per_second = self.first_per_second(now, false);
        self.ramp = Some(Ramp { from, first_per_second, used: false });
        self.free_at = from;
    }

    fn first_per_second(&self, now: Duration, slower: bool) -> f64 {
        let under_way = self.ramp.filter(|ramp| ramp.per_second(now).is_some());
        under_way.map_or(SLOW_START_PER_SECOND, |ramp| {
            let share = if slower && ramp.used { 0.5 } else { 1.0 };
            (ramp.first_per_second * share).max(SLOWEST_START_PER_SECOND)
        })
    }

    pub(super) fn free_at(&self) -> Duration {
        self.free_at
    }

    /// Records that a call started.
    pub(super) fn take(&mut self, now: Duration) {
        let Some(ramp) = &mut self.ramp else { return };
        ramp.used = true;
        match ramp.per_second(now) {
            Some(rate) => self.free_at = now.max(self.free_at) + Duration::from_secs_f64(rate.recip()),
            None => *self = Self::default(),
        }
    }

    /// The time until `calls` calls have started, from the begin of the slow start.
    pub(super) fn time_of(&self, now: Duration, calls: usize) -> Duration {
        let Some((rate, ramp)) = self.ramp.and_then(|ramp| Some((ramp.per_second(now)?, ramp))) else {
            return Duration::ZERO;
        };
        // The integral of a rate that doubles, solved for the time.
        let calls = f64::from(u32::try_from(calls).unwrap_or(u32::MAX));
        let doubling = ramp.doubling_seconds();
        let doublings = (calls * std::f64::consts::LN_2 / (rate * doubling)).ln_1p() / std::f64::consts::LN_2;
        let full = (FULL_PER_SECOND / rate).log2();
        Duration::from_secs_f64(doublings.min(full) * doubling)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn few_calls_a_minute_are_spread_over_it() {
        let mut pace = Pace::of_calls(5);
        assert_eq!(pace.free_at(1), Duration::ZERO);
        pace.take(seconds(0), 1);
        assert_eq!(pace.free_at(1), seconds(12));
        pace.take(seconds(12), 1);
        assert_eq!(pace.free_at(1), seconds(24));
    }

    #[test]
    fn many_calls_a_minute_have_a_small_burst_that_is_taken_off_the_rate() {
        let mut pace = Pace::of_calls(600);
        let mut at_once = 0;
        while pace.free_at(1) == Duration::ZERO {
            pace.take(Duration::ZERO, 1);
            at_once += 1;
        }
        assert_eq!(at_once, 1 + BURST_CALLS);
        assert!(pace.time_of(600 - u64::from(BURST_CALLS)) >= MINUTE, "what went at once is not there again");
    }

    #[test]
    fn a_call_larger_than_the_burst_goes_when_the_burst_is_whole_and_is_owed() {
        // Two at once, and one every three seconds.
        let mut pace = Pace::of_tokens(22);
        assert_eq!(pace.free_at(10), Duration::ZERO);
        pace.take(Duration::ZERO, 10);
        assert_eq!(pace.free_at(2), seconds(30));
        pace.put_back(9);
        assert_eq!((pace.free_at(1), pace.free_at(2)), (Duration::ZERO, seconds(3)));
    }

    fn first(slow: &SlowStart) -> Option<f64> {
        slow.ramp.map(|ramp| ramp.first_per_second)
    }

    #[test]
    fn a_slow_start_is_slower_each_time_the_provider_asks_again_and_forgets_that_once_over() {
        let mut slow = SlowStart::default();
        slow.after_pause(seconds(0), seconds(2));
        assert_eq!(first(&slow), Some(SLOW_START_PER_SECOND));
        slow.take(seconds(2));
        slow.after_pause(seconds(3), seconds(5));
        assert_eq!(first(&slow), Some(SLOW_START_PER_SECOND / 2.0));
        for second in 6..20 {
            slow.take(seconds(second));
            slow.after_pause(seconds(second), seconds(second));
        }
        assert_eq!(first(&slow), Some(SLOWEST_START_PER_SECOND));
        slow.take(seconds(4_000));
        assert_eq!((first(&slow), slow.free_at()), (None, Duration::ZERO));
    }

    #[test]
    fn calls_that_are_refused_together_slow_the_start_down_once() {
        let mut slow = SlowStart::default();
        for n in 0..50 {
            slow.after_pause(Duration::from_millis(n), Duration::from_millis(2_000 + n));
        }
        assert_eq!(
            (first(&slow), slow.free_at()),
            (Some(SLOW_START_PER_SECOND), Duration::from_millis(2_049))
        );
    }

    #[test]
    fn the_time_of_a_slow_start_is_foreseen() {
        let mut slow = SlowStart::default();
        slow.start(seconds(0), seconds(0));
        let foreseen = slow.time_of(seconds(0), 200);
        let mut now = Duration::ZERO;
        for _ in 0..200 {
            slow.take(now);
            now = slow.free_at();
        }
        let ratio = now.as_secs_f64() / foreseen.as_secs_f64();
        assert!((0.9..1.1).contains(&ratio), "{ratio}");
    }
}
