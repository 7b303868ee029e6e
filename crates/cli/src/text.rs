//! Formats times, sizes and counts for users.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use posse::view::time_of_day;
use posse::{RunView, Usage, Usd};
pub(crate) use posse_setup::text::{count, plural};

/// The current time, in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// A time of day in the user's time zone.
pub(crate) fn clock(at_ms: i64) -> String {
    time_of_day(at_ms, &TimeZone::system())
}

/// A date and a time of day in the user's time zone.
pub(crate) fn local_time(at_ms: i64) -> String {
    let at = Timestamp::from_millisecond(at_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
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

/// How long an interrupted run or agent is known to have lived. It may have lived longer: a process leaves no sign of its
/// end, only of its life every few seconds.
pub(crate) fn at_least(ms: u64) -> String {
    format!("at least {}", duration(ms))
}

/// The same in a cell of a table.
pub(crate) fn at_least_cell(ms: u64) -> String {
    format!("≥{}", duration(ms))
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

/// Money and tokens in a few words.
pub(crate) fn spent(usage: &Usage) -> String {
    format!("{}, {}", cost(usage), tokens(usage))
}

/// The cost of a run. The usage of a replay was spent when it was recorded, and not again.
pub(crate) fn cost_of_run(usage: &Usage, is_replay: bool) -> String {
    if is_replay { format!("nothing spent (recorded: {})", cost(usage)) } else { cost(usage) }
}

/// The cost of the run of a view.
pub(crate) fn cost_of_view(run: &RunView) -> String {
    if run.is_cost_unknown() { PRICE_UNKNOWN.to_owned() } else { cost_of_run(&run.usage(), run.is_replay()) }
}

/// A cost of which nothing is known.
const PRICE_UNKNOWN: &str = "price unknown";

/// The cost. What was spent is never mixed with what a call that was cut off may have cost at most, and an unknown price is
/// named, never shown as zero.
pub(crate) fn cost(usage: &Usage) -> String {
    let known = Usd::from_micros(usage.known_micro_usd());
    let cut = match usage.cut_off.calls {
        0 => None,
        1 => Some("1 call was cut off".to_owned()),
        calls => Some(format!("{} were cut off", plural(calls, "call"))),
    };
    match (usage.micro_usd_at_most(), cut) {
        (Some(_), None) => known.to_string(),
        (Some(most), Some(cut)) if most == known.micros() => format!("{known} ({cut})"),
        (Some(most), Some(cut)) => format!("≤ {} ({known} known, {cut})", rounded_up(most)),
        (None, None) => priced_part(usage),
        (None, Some(cut)) if usage.cut_off_micro_usd() > 0 => {
            let most = rounded_up(usage.priced_micro_usd_at_most());
            let unpriced = match usage.unpriced_tokens() {
                0 => String::new(),
                tokens => format!(" + {} tokens of unknown price", count(tokens)),
            };
            format!("≤ {most}{unpriced} ({known} known, {cut})")
        }
        (None, Some(cut)) => format!("{} ({cut})", priced_part(usage)),
    }
}

/// The known cost beside tokens of unknown price.
fn priced_part(usage: &Usage) -> String {
    let unpriced = usage.unpriced_tokens();
    if unpriced == usage.answered_tokens() {
        return PRICE_UNKNOWN.to_owned();
    }
    let known = Usd::from_micros(usage.known_micro_usd());
    match unpriced {
        0 => known.to_string(),
        tokens => format!("{known} + {} tokens of unknown price", count(tokens)),
    }
}

/// A cost of which nothing is known, in a cell of a table.
pub(crate) const UNKNOWN_COST: &str = "unknown";

/// The cost in a cell of a table.
pub(crate) fn cost_cell(usage: &Usage) -> String {
    let known = Usd::from_micros(usage.known_micro_usd());
    match usage.micro_usd_at_most() {
        Some(most) if most == known.micros() => known.to_string(),
        Some(most) => format!("≤{}", rounded_up(most)),
        None if usage.cut_off_micro_usd() > 0 => {
            format!("≤{}+?", rounded_up(usage.priced_micro_usd_at_most()))
        }
        None if known.micros() == 0 => UNKNOWN_COST.to_owned(),
        None => format!("{known}+?"),
    }
}

/// From this amount on, a maximum is shown in whole cents.
const CENTS_FROM_MICROS: u64 = 100_000;
const MICROS_PER_CENT: u64 = 10_000;

/// A maximum, without digits that would suggest a precision that it does not have.
fn rounded_up(micros: u64) -> Usd {
    let cents = micros.div_ceil(MICROS_PER_CENT).saturating_mul(MICROS_PER_CENT);
    Usd::from_micros(if micros < CENTS_FROM_MICROS { micros } else { cents })
}

/// The tokens of the calls that were answered.
pub(crate) fn tokens(usage: &Usage) -> String {
    let cached = match usage.cached_tokens {
        0 => String::new(),
        cached => format!(" ({} cached)", count(cached)),
    };
    let (input, output) = (usage.answered_input_tokens(), usage.answered_output_tokens());
    format!("{} tokens in{cached}, {} out", count(input), count(output))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_separates_what_is_known_from_its_maximum() {
        let call = |micro_usd| Usage { input_tokens: 4_000, output_tokens: 200, micro_usd, ..Usage::ZERO };
        let (cheap, dear, unpriced) = (call(Some(300)), call(Some(324_495)), call(None));
        let cut = dear.as_cut_off();
        let cases = [
            (Usage::ZERO, "$0.00", "$0.00"),
            (cheap, "$0.0003", "$0.0003"),
            (cheap + cut, "≤ $0.33 ($0.0003 known, 1 call was cut off)", "≤$0.33"),
            (cheap + cut + cut + cut, "≤ $0.98 ($0.0003 known, 3 calls were cut off)", "≤$0.98"),
            (cheap.as_cut_off(), "≤ $0.0003 ($0.00 known, 1 call was cut off)", "≤$0.0003"),
            (unpriced, "price unknown", "unknown"),
            (unpriced + cheap, "$0.0003 + 4200 tokens of unknown price", "$0.0003+?"),
            (
                unpriced + cheap + cut,
                "≤ $0.33 + 4200 tokens of unknown price ($0.0003 known, 1 call was cut off)",
                "≤$0.33+?",
            ),
            (unpriced.as_cut_off() + cheap, "$0.0003 (1 call was cut off)", "$0.0003+?"),
            (call(Some(0)).as_cut_off(), "$0.00 (1 call was cut off)", "$0.00"),
        ];
        for (usage, words, cell) in cases {
            assert_eq!((cost(&usage).as_str(), cost_cell(&usage).as_str()), (words, cell));
        }
        assert_eq!(tokens(&(cheap + cut)), "4000 tokens in, 200 out");
        assert_eq!(cost_of_run(&cheap, true), "nothing spent (recorded: $0.0003)");
    }

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
