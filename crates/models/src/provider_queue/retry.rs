//! Decides whether and when a failed call may be retried.

use std::time::Duration;

use posse_engine::ports::Retry;

use crate::wire::ProblemKind;

/// Longest pause that is accepted. A longer requested pause counts as a refusal.
pub(super) const PAUSE_MOST: Duration = Duration::from_hours(24);
/// Longest jitter that is added to a requested wait, as a fraction of the wait,
const JITTER_SHARE: u32 = 5;
/// but drawn from at least this range,
const JITTER_LEAST: Duration = Duration::from_millis(250);
/// and never longer than this.
const JITTER_MOST: Duration = Duration::from_secs(30);

/// Backoff after failures without a stated wait.
const UNWELL: Backoff = Backoff { base: Duration::from_millis(500), most: Duration::from_secs(30) };
/// Backoff after a rate limit without a stated wait.
const RATE_LIMIT: Backoff = Backoff { base: Duration::from_secs(1), most: Duration::from_mins(1) };
/// How long all calls pause after a rate limit without a stated duration.
const RATE_LIMIT_PAUSE: Duration = Duration::from_secs(1);
/// Backoff if an account's quota is used up and the provider does not state until when.
const USAGE_LIMIT: Backoff = Backoff { base: Duration::from_mins(1), most: Duration::from_mins(15) };

/// Waits that double from call to call.
struct Backoff {
    base: Duration,
    most: Duration,
}

impl Backoff {
    /// The longest wait after a call of this number.
    fn of(&self, call: u32) -> Duration {
        self.base.saturating_mul(1 << call.saturating_sub(1).min(16)).min(self.most)
    }

    /// Full jitter: any time up to the longest wait, so that calls that failed together are not retried together.
    fn drawn(&self, call: u32, chance: f64) -> Duration {
        self.of(call).mul_f64(chance)
    }
}

/// A requested wait with jitter, so that not all calls end it at once. Never shorter than requested.
pub(super) fn with_jitter(wait: Duration, chance: f64) -> Duration {
    wait + (wait / JITTER_SHARE).clamp(JITTER_LEAST, JITTER_MOST).mul_f64(chance)
}

/// How long all calls pause because of this problem. `None` if it is not a reason for a pause, or if the provider
/// requests more than the longest accepted pause.
pub(super) fn pause(kind: ProblemKind, call: u32) -> Option<Duration> {
    let asked = match kind {
        ProblemKind::RateLimit { after } => Some(after.unwrap_or(RATE_LIMIT_PAUSE)),
        ProblemKind::Unwell { after } => after,
        ProblemKind::UsageLimit { after } => Some(after.unwrap_or_else(|| USAGE_LIMIT.of(call))),
        _ => None,
    };
    asked.filter(|after| *after <= PAUSE_MOST)
}

/// When the same call may be retried, if ever. `chance` is from 0 (inclusive) to 1 (exclusive).
pub(super) fn retry(kind: ProblemKind, call: u32, chance: f64) -> Option<Retry> {
    let backoff = match kind {
        // The same turn makes another request, and no other call has to wait for it.
        ProblemKind::NoTools => return Some(Retry { after: Duration::ZERO, limited: false }),
        ProblemKind::RateLimit { after: None } => RATE_LIMIT,
        ProblemKind::Unwell { after: None } | ProblemKind::Unreachable | ProblemKind::Cut => UNWELL,
        ProblemKind::RateLimit { .. } | ProblemKind::UsageLimit { .. } | ProblemKind::Unwell { .. } => {
            let after = with_jitter(pause(kind, call)?, chance);
            return Some(Retry { after, limited: is_limit(kind) });
        }
        ProblemKind::Key
        | ProblemKind::Overflow
        | ProblemKind::NoModel
        | ProblemKind::Request
        | ProblemKind::NoServer
        | ProblemKind::Foreign => return None,
    };
    Some(Retry { after: backoff.drawn(call, chance), limited: is_limit(kind) })
}

/// Whether the problem is a limit of the provider, and not a sign that it is failing.
fn is_limit(kind: ProblemKind) -> bool {
    matches!(kind, ProblemKind::RateLimit { .. } | ProblemKind::UsageLimit { .. })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOPELESS: [ProblemKind; 6] = [
        ProblemKind::NoServer,
        ProblemKind::Key,
        ProblemKind::NoModel,
        ProblemKind::Request,
        ProblemKind::Overflow,
        ProblemKind::Foreign,
    ];

    #[test]
    fn what_another_call_would_not_mend_is_not_called_again() {
        for kind in HOPELESS {
            assert_eq!(retry(kind, 1, 0.5), None, "{kind:?}");
        }
        let tomorrow = Some(PAUSE_MOST + Duration::from_secs(1));
        assert_eq!(retry(ProblemKind::UsageLimit { after: tomorrow }, 1, 0.0), None);
        assert_eq!(retry(ProblemKind::RateLimit { after: tomorrow }, 1, 0.0), None);
    }

    #[test]
    fn only_a_limit_of_the_providers_is_one() {
        let after = Some(Duration::from_secs(3));
        for (kind, limited) in [
            (ProblemKind::RateLimit { after }, true),
            (ProblemKind::RateLimit { after: None }, true),
            (ProblemKind::UsageLimit { after }, true),
            (ProblemKind::UsageLimit { after: None }, true),
            (ProblemKind::Unwell { after }, false),
            (ProblemKind::Unwell { after: None }, false),
            (ProblemKind::Unreachable, false),
            (ProblemKind::Cut, false),
        ] {
            assert_eq!(retry(kind, 1, 0.5).map(|retry| retry.limited), Some(limited), "{kind:?}");
        }
    }

    #[test]
    fn waits_grow_to_a_limit_and_are_spread_over_all_of_their_range() {
        let longest = |call| retry(ProblemKind::Cut, call, 0.999_999).map(|retry| retry.after.as_secs_f64());
        assert!(longest(1) < Some(0.5) && longest(2) > Some(0.9) && longest(40) < Some(30.0));
        let tenths: std::collections::BTreeSet<u128> = (0..100)
            .map(|n| {
                retry(ProblemKind::Unreachable, 3, f64::from(n) / 100.0)
                    .map_or(0, |retry| retry.after.as_millis() / 200)
            })
            .collect();
        assert_eq!(tenths.len(), 10, "full jitter reaches every tenth of the longest wait: {tenths:?}");
    }

    #[test]
    fn a_usage_limit_without_a_time_is_waited_for_longer_each_time() {
        let after = |call| pause(ProblemKind::UsageLimit { after: None }, call).map(|after| after.as_secs());
        assert_eq!([after(1), after(2), after(3), after(30)], [Some(60), Some(120), Some(240), Some(900)]);
    }

    proptest! {
        #[test]
        fn nobody_comes_back_before_the_time_that_was_asked_for(
            millis in 0_u64..86_400_000, call in 1_u32..100, chance in 0.0_f64..1.0,
        ) {
            let asked = Duration::from_millis(millis);
            for kind in [
                ProblemKind::RateLimit { after: Some(asked) },
                ProblemKind::UsageLimit { after: Some(asked) },
                ProblemKind::Unwell { after: Some(asked) },
            ] {
                let after = retry(kind, call, chance).expect("another call").after;
                prop_assert!(after >= asked && after <= asked + JITTER_MOST, "{kind:?}: {after:?}");
            }
        }
    }
}
