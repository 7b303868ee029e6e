//! Parses the beginning of a time span as users type it: an age such as `30m`, a date, or a time.

use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use posse_setup::age::Age;

use crate::text::now_ms;

/// The beginning of a time span, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Since(pub(crate) i64);

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(Age(age)) = text.parse() {
            let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
            return Ok(Self(now_ms().saturating_sub(age_ms)));
        }
        let expected = || {
            "expected an age such as `30m`, `2h` or `7d`, a date such as `2026-03-31`, or a time such as \
             `2026-03-31T14:00`"
                .to_owned()
        };
        // Without a zone, a time is that of the user's clock.
        let local = |time: DateTime| time.to_zoned(TimeZone::system()).map(|zoned| zoned.timestamp());
        let read = text
            .parse::<Timestamp>()
            .or_else(|_| text.parse::<DateTime>().and_then(local))
            .or_else(|_| text.parse::<Date>().and_then(|date| local(date.at(0, 0, 0, 0))));
        read.map(|at| Self(at.as_millisecond())).map_err(|_| expected())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_dates_and_times_are_read() {
        let now = now_ms();
        let Since(hour) = "1h".parse().expect("an age");
        assert!((0..60_000).contains(&(hour - (now - 3_600_000))), "{hour} and {now}");
        assert_eq!("2026-03-31T14:00:00Z".parse(), Ok(Since(1_774_965_600_000)));
        for text in ["2026-03-31", "2026-03-31T14:00", "2026-03-31 14:00:05"] {
            assert!(text.parse::<Since>().is_ok(), "{text}");
        }
        for bad in ["", "yesterday", "5", "-1h", "31.3.2026"] {
            assert!(bad.parse::<Since>().is_err(), "{bad}");
        }
    }
}
