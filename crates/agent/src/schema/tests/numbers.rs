//! Numbers are compared exactly, and none of them makes a check panic.

use super::super::number::Decimal;
use super::*;

fn decimal(value: &Value) -> Decimal {
    Decimal::of(value.as_number().expect("a number"))
}

/// In ascending order.
fn numbers() -> Vec<Value> {
    vec![
        json!(f64::MIN),
        json!(-1e300),
        json!(i64::MIN),
        json!(-9_007_199_254_740_993_i64),
        json!(-9_007_199_254_740_992.0),
        json!(-1.5),
        json!(-1),
        json!(-0.1),
        json!(-f64::MIN_POSITIVE),
        json!(0),
        json!(5e-324),
        json!(f64::MIN_POSITIVE),
        json!(0.1),
        json!(0.3),
        json!(0.1 + 0.2),
        json!(1),
        json!(1.000_000_000_000_000_2),
        json!(9_007_199_254_740_992.0),
        json!(9_007_199_254_740_993_i64),
        json!(i64::MAX),
        json!(9_223_372_036_854_775_808.0),
        json!(9_223_372_036_854_775_809_u64),
        json!(u64::MAX),
        json!(18_446_744_073_709_551_616.0),
        json!(1e20),
        json!(1e300),
        json!(f64::MAX),
    ]
}

#[test]
fn numbers_are_ordered_by_their_exact_values() {
    let numbers = numbers();
    for (index, one) in numbers.iter().enumerate() {
        for (other_index, other) in numbers.iter().enumerate() {
            assert_eq!(decimal(one).cmp(&decimal(other)), index.cmp(&other_index), "{one} and {other}");
        }
    }
    for (one, other) in [
        (json!(1), json!(1.0)),
        (json!(0), json!(-0.0)),
        (json!(100), json!(1e2)),
        (json!(1_u64 << 63), json!(9_223_372_036_854_775_808.0)),
    ] {
        assert_eq!(decimal(&one), decimal(&other), "{one} and {other}");
    }
}

#[test]
fn multiples_are_exact_for_decimals() {
    for (number, divisor, expected) in [
        (json!(19.99), json!(0.01), true),
        (json!(0.07), json!(0.01), true),
        (json!(4.35), json!(0.01), true),
        (json!(0.075), json!(0.01), false),
        (json!(1.1), json!(0.1), true),
        (json!(0.000_1), json!(0.000_001), true),
        (json!(7), json!(2), false),
        (json!(-6), json!(3), true),
        (json!(0), json!(0.3), true),
        (json!(0.5), json!(2), false),
        (json!(1e308), json!(0.5), true),
        (json!(1e308), json!(1e-300), true),
        (json!(1e308), json!(0.123_456_789), false),
        (json!(5e-324), json!(1e308), false),
        (json!(u64::MAX), json!(u64::MAX), true),
        (json!(u64::MAX), json!(2), false),
        (json!(12_391_239_123_u64), json!(1e-8), true),
    ] {
        let schema = json!({"multipleOf": divisor});
        assert_eq!(is_valid(&schema, &number), expected, "{number} of {divisor}");
    }
}

#[test]
fn no_pair_of_numbers_makes_a_check_panic() {
    let numbers = numbers();
    for limit in &numbers {
        for keyword in [
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
            "const",
            "maxLength",
            "minItems",
        ] {
            let Ok(schema) = Schema::compile(&json!({ keyword: limit })) else { continue };
            for number in &numbers {
                schema.problems(number, 1).expect("within the limits");
                schema.problems(&json!([number]), 1).expect("within the limits");
            }
        }
    }
}

#[test]
fn a_number_that_no_type_can_hold_is_not_json() {
    let large = format!("1{}", "0".repeat(400));
    assert!(serde_json::from_str::<Value>(&large).is_err());
    assert!(crate::answer::json_in(&large).is_none());
}
