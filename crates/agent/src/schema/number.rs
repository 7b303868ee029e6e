//! Numbers of schemas and answers as exact decimals, for comparisons without the errors of binary fractions.

use std::cmp::Ordering;

use serde_json::Number;

/// `digits` times ten to the power of `exponent`. The digits never end in a zero, so equal numbers have equal fields
/// however they were written: `1`, `1.0` and `10e-1` are the same decimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Decimal {
    is_negative: bool,
    digits: u64,
    exponent: i32,
}

impl Decimal {
    pub(super) fn of(number: &Number) -> Self {
        if let Some(number) = number.as_u64() {
            return Self::new(false, number, 0);
        }
        if let Some(number) = number.as_i64() {
            return Self::new(true, number.unsigned_abs(), 0);
        }
        let float = number.as_f64().filter(|float| !float.is_nan()).unwrap_or_default();
        Self::of_float(float.clamp(f64::MIN, f64::MAX))
    }

    fn of_float(float: f64) -> Self {
        let (is_negative, magnitude) = (float < 0.0, float.abs());
        // A whole number has its exact value, because an integer may be compared with it.
        if magnitude.fract() == 0.0
            && let Ok(digits) = format!("{magnitude:.0}").parse()
        {
            return Self::new(is_negative, digits, 0);
        }
        // The shortest text that reads as this float is the text that the author wrote: at most 17 digits.
        let text = format!("{magnitude:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}").parse().unwrap_or_default();
        let shift = i32::try_from(fraction.len()).unwrap_or_default();
        Self::new(is_negative, digits, exponent.parse::<i32>().unwrap_or_default() - shift)
    }

    fn new(is_negative: bool, mut digits: u64, mut exponent: i32) -> Self {
        if digits == 0 {
            return Self { is_negative: false, digits: 0, exponent: 0 };
        }
        while digits.is_multiple_of(10) {
            digits /= 10;
            exponent += 1;
        }
        Self { is_negative, digits, exponent }
    }

    pub(super) fn is_integer(self) -> bool {
        self.exponent >= 0
    }

    pub(super) fn is_positive(self) -> bool {
        self.digits > 0 && !self.is_negative
    }

    /// The number as a count, if it is a whole number of zero or more. A larger count than `u64` has is never reached.
    pub(super) fn count(self) -> Option<u64> {
        if self.is_negative || !self.is_integer() {
            return None;
        }
        let power = u32::try_from(self.exponent).ok().and_then(|exponent| 10_u64.checked_pow(exponent));
        Some(power.and_then(|power| self.digits.checked_mul(power)).unwrap_or(u64::MAX))
    }

    pub(super) fn is_multiple_of(self, divisor: Self) -> bool {
        if self.digits == 0 || divisor.digits == 0 {
            return self.digits == 0;
        }
        // Digits that do not end in a zero are no multiple of a higher power of ten.
        let Ok(shift) = u32::try_from(self.exponent - divisor.exponent) else { return false };
        let modulus = u128::from(divisor.digits);
        (u128::from(self.digits) * power_of_ten(shift, modulus)).is_multiple_of(modulus)
    }

    fn magnitude_order(self, other: Self) -> Ordering {
        if self.digits == 0 || other.digits == 0 {
            return self.digits.cmp(&other.digits);
        }
        let length = |number: Self| i64::from(number.digits.ilog10()) + i64::from(number.exponent);
        // Numbers of the same length differ in their powers of ten by at most 19.
        length(self).cmp(&length(other)).then_with(|| {
            let least = self.exponent.min(other.exponent);
            let scaled = |number: Self| {
                u128::from(number.digits) * 10_u128.pow((number.exponent - least).unsigned_abs())
            };
            scaled(self).cmp(&scaled(other))
        })
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.is_negative, other.is_negative) {
            (false, false) => self.magnitude_order(*other),
            (true, true) => other.magnitude_order(*self),
            (is_less, _) => {
                if is_less {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Ten to the power of `exponent`, modulo a number below 2 to the power of 64.
fn power_of_ten(mut exponent: u32, modulus: u128) -> u128 {
    let (mut base, mut power) = (10 % modulus, 1 % modulus);
    while exponent > 0 {
        if exponent % 2 == 1 {
            power = power * base % modulus;
        }
        base = base * base % modulus;
        exponent /= 2;
    }
    power
}
