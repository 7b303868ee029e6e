//! Decides whether the engine retries a failed model call.
//!
//! Why it is like this: `docs/decisions/models-call-retries.md`.

use std::time::Duration;

/// Maximum number of calls in one turn while the provider fails.
pub const CALLS_MAX: u32 = 6;
/// Maximum number of calls in one turn in all. A provider that asks for pauses works, but the loop must end.
pub const LIMITED_CALLS_MAX: u32 = 30;
/// Maximum number of calls in one turn if the last one was silent. A second call often helps, a third rarely does, and
/// each takes a whole idle timeout.
pub const SILENT_CALLS_MAX: u32 = 2;
/// Maximum time of a turn without an answer. Pauses that the provider asked for do not count.
pub const UNANSWERED_MAX: Duration = Duration::from_mins(10);

/// How a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallFailureClass {
    /// The provider asked for a pause.
    Limited,
    /// The provider failed, was unreachable, or its answer was cut off.
    Unwell,
    /// The provider sent nothing more in the middle of the answer.
    Silent,
}

/// How often a turn retries a call that fails in this way.
pub fn retries_max(failed: CallFailureClass) -> u32 {
    let calls = match failed {
        CallFailureClass::Limited => LIMITED_CALLS_MAX,
        CallFailureClass::Unwell => CALLS_MAX,
        CallFailureClass::Silent => SILENT_CALLS_MAX,
    };
    calls - 1
}

/// Whether the engine retries. `call` is the number of the failed call, from 1. `unanswered` is the time that the turn
/// has had no answer, without pauses that the provider asked for.
pub fn follows(failed: CallFailureClass, call: u32, unanswered: Duration) -> bool {
    call <= retries_max(failed) && (failed == CallFailureClass::Limited || unanswered < UNANSWERED_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_bounded_in_count() {
        for (failed, most) in [
            (CallFailureClass::Limited, LIMITED_CALLS_MAX),
            (CallFailureClass::Unwell, CALLS_MAX),
            (CallFailureClass::Silent, SILENT_CALLS_MAX),
        ] {
            assert!(follows(failed, most - 1, Duration::ZERO), "{failed:?}");
            assert!(!follows(failed, most, Duration::ZERO), "{failed:?}");
        }
    }

    #[test]
    fn calls_are_bounded_in_time_but_for_pauses_that_were_asked_for() {
        assert!(!follows(CallFailureClass::Unwell, 1, UNANSWERED_MAX));
        assert!(!follows(CallFailureClass::Silent, 1, UNANSWERED_MAX));
        assert!(follows(CallFailureClass::Limited, 1, UNANSWERED_MAX));
    }
}
