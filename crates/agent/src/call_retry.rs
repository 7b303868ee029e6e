//! Whether a model call that failed is made again.
//!
//! Why it is like this: `docs/decisions/models-call-retries.md`.

use std::time::Duration;

/// Most calls of one turn while the provider is unwell.
pub const CALLS_MAX: u32 = 6;
/// Most calls of one turn in all: a provider that asks for pauses is well, but a loop has an end.
pub const LIMITED_CALLS_MAX: u32 = 30;
/// Most calls of one turn of which the last fell silent. Another try often helps; a third rarely does, and each takes as
/// long as the silence that was waited for.
pub const SILENT_CALLS_MAX: u32 = 2;
/// How long a turn may go without an answer; pauses that the provider asked for do not count.
pub const UNANSWERED_MAX: Duration = Duration::from_mins(10);

/// What became of a call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallFailureClass {
    /// The provider asked for a pause.
    Limited,
    /// It was unwell, or could not be reached, or its answer was cut.
    Unwell,
    /// It fell silent in the middle.
    Silent,
}

/// Whether another call follows. `call` is the number of the one that failed, from 1; `unanswered` how long the turn has
/// had no answer, without pauses that the provider asked for.
pub fn follows(failed: CallFailureClass, call: u32, unanswered: Duration) -> bool {
    let most = match failed {
        CallFailureClass::Limited => LIMITED_CALLS_MAX,
        CallFailureClass::Unwell => CALLS_MAX,
        CallFailureClass::Silent => SILENT_CALLS_MAX,
    };
    call < most && (failed == CallFailureClass::Limited || unanswered < UNANSWERED_MAX)
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
