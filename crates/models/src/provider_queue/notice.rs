//! Creates the text about a wait in the provider queue, for users.

use std::time::Duration;

use posse_engine::ports::Notice;

use super::scheduler::{Cause, PauseReason};

/// Shorter waits are not shown.
const NOTICED: Duration = Duration::from_secs(1);

/// The notice of a wait, if the wait is long enough.
pub(super) fn of(cause: Cause, expected: Duration) -> Option<Notice> {
    (expected >= NOTICED).then(|| Notice { reason: reason(cause), expected, unwell: is_unwell(cause) })
}

/// Whether the call waits because the provider is failing.
fn is_unwell(cause: Cause) -> bool {
    matches!(cause, Cause::Breaker(_) | Cause::Pause(PauseReason::Unwell, _))
}

fn reason(cause: Cause) -> String {
    match cause {
        Cause::Breaker(failures) => format!("its last {failures} calls failed"),
        Cause::Pause(PauseReason::Rate, asked) => format!("it asked to wait {}", time(asked)),
        Cause::Pause(PauseReason::Usage, asked) => format!("its usage limit, for {}", time(asked)),
        Cause::Pause(PauseReason::Unwell, asked) => {
            format!("it is overloaded and asked to wait {}", time(asked))
        }
        Cause::SlowStart => "calls begin again little by little after a pause".to_owned(),
        Cause::Calls(most) => format!("the limit of {most} {} a minute", plural(most, "request")),
        Cause::Tokens(most) => format!("the limit of {most} tokens a minute"),
        Cause::Concurrent(most) => format!("the limit of {most} {} at once", plural(most, "call")),
    }
}

fn plural(count: u32, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

/// A duration in its two largest units.
fn time(time: Duration) -> String {
    // Rounded up, because `0 s` is not informative.
    let seconds = time.as_millis().div_ceil(1_000);
    let units = [(seconds / 3_600, "h"), (seconds / 60 % 60, "min"), (seconds % 60, "s")];
    let shown: Vec<String> = units
        .into_iter()
        .skip_while(|(count, _)| *count == 0)
        .take(2)
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count} {unit}"))
        .collect();
    if shown.is_empty() { "a moment".to_owned() } else { shown.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_says_what_for() {
        let seconds = Duration::from_secs;
        for (cause, text) in [
            (Cause::Breaker(5), "its last 5 calls failed"),
            (Cause::Pause(PauseReason::Rate, seconds(2)), "it asked to wait 2 s"),
            (Cause::Pause(PauseReason::Usage, seconds(4 * 3_600 + 1_800)), "its usage limit, for 4 h 30 min"),
            (Cause::Pause(PauseReason::Unwell, seconds(61)), "it is overloaded and asked to wait 1 min 1 s"),
            (Cause::Pause(PauseReason::Rate, seconds(0)), "it asked to wait a moment"),
            (Cause::Calls(5), "the limit of 5 requests a minute"),
            (Cause::Tokens(40_000), "the limit of 40000 tokens a minute"),
            (Cause::Concurrent(1), "the limit of 1 call at once"),
        ] {
            assert_eq!(of(cause, seconds(3)).map(|notice| notice.reason).as_deref(), Some(text));
        }
        assert_eq!(of(Cause::SlowStart, Duration::from_millis(999)), None);
        let unwell = |cause| of(cause, seconds(3)).map(|notice| notice.unwell);
        assert_eq!([unwell(Cause::Breaker(5)), unwell(Cause::Calls(5))], [Some(true), Some(false)]);
    }
}
