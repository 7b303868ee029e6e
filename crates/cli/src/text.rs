//! Formats times, sizes and counts for users.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use posse::view::time_of_day;
use posse::{Usage, Usd};
pub(crate) use posse_setup::text::{count, plural};

/// The current time, in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// A time of day in the user's time zone.
pub(crate) fn clock(at_ms: i64) -> String {
    time_of_day(at_ms, &TimeZone::system())
}

/// A duration in its largest fitting unit.
pub(crate) fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        _ if ms < 1000 => format!("{ms} ms"),
        0..60 => format!("{seconds}.{} s", ms % 1000 / 100),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// How long ago something was.
pub(crate) fn ago(at_ms: i64, now_ms: i64) -> String {
    let seconds = now_ms.saturating_sub(at_ms).max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..86_400 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// A number of bytes, in its largest fitting unit.
pub(crate) fn bytes(n: u64) -> String {
    let tenths = |unit: u64| {
        let tenths = u128::from(n) * 10 / u128::from(unit);
        format!("{}.{}", tenths / 10, tenths % 10)
    };
    match n {
        0..1_024 => format!("{n} B"),
        1_024..1_048_576 => format!("{} KiB", tenths(1 << 10)),
        1_048_576..1_073_741_824 => format!("{} MiB", tenths(1 << 20)),
        _ => format!("{} GiB", tenths(1 << 30)),
    }
}

/// Money in a table. An unknown price is named, never shown as zero.
pub(crate) fn cost(usage: &Usage) -> String {
    usage.micro_usd.map_or_else(|| "unknown".to_owned(), |micros| Usd::from_micros(micros).to_string())
}

/// Tokens and money in a few words. An unknown price is named, never shown as zero.
pub(crate) fn spent(usage: &Usage) -> String {
    one_line(usage, "")
}

/// The same for a run. The usage of a replay was spent when it was recorded, and not again.
pub(crate) fn spent_by_run(usage: &Usage, is_replay: bool) -> String {
    if is_replay { format!("nothing spent ({})", one_line(usage, "recorded: ")) } else { spent(usage) }
}

fn one_line(usage: &Usage, what: &str) -> String {
    let cached = match usage.cached_tokens {
        0 => String::new(),
        cached => format!(" ({} cached)", count(cached)),
    };
    let tokens =
        format!("{what}{} tokens in{cached}, {} out", count(usage.input_tokens), count(usage.output_tokens));
    match usage.micro_usd {
        Some(micros) => format!("{tokens}, {}", Usd::from_micros(micros)),
        None => format!("{tokens}, price unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_counts_are_short() {
        let texts: Vec<String> =
            [0, 999, 1_000, 59_999, 61_000, 3_600_000, 90_000_000].map(duration).to_vec();
        assert_eq!(texts, ["0 ms", "999 ms", "1.0 s", "59.9 s", "1 min 1 s", "1 h 0 min", "1 d 1 h"]);
        let counts: Vec<String> = [0, 9_999, 12_345, 1_250_000].map(count).to_vec();
        assert_eq!(counts, ["0", "9999", "12.3k", "1.2M"]);
        let sizes: Vec<String> = [0, 1_023, 1_536, 5 << 20, 3 << 30].map(bytes).to_vec();
        assert_eq!(sizes, ["0 B", "1023 B", "1.5 KiB", "5.0 MiB", "3.0 GiB"]);
        assert_eq!(plural(1, "agent"), "1 agent");
        assert_eq!(plural(2, "agent"), "2 agents");
    }
}
