//! A few kills of each kind. `cargo xtask faults` makes many more.

use std::path::Path;

use posse_testkit::campaign::{self, Order, Passings};

use crate::home::PROGRAM;

fn order(points: Option<Passings>, random: u64) -> Order {
    Order { program: Path::new(PROGRAM).to_owned(), seed: 11, points, random, side_by_side: 2 }
}

/// A point that no run passes is a name without a place: what it is for would not be tested.
#[test]
fn every_named_point_is_passed_by_the_scenario() {
    assert_eq!(campaign::never_passed(&order(None, 0)).unwrap(), [""; 0]);
}

#[test]
fn a_few_random_kills_lose_and_double_nothing() {
    let summary = campaign::carry_out(&order(None, 6), &|_| {}).unwrap();
    assert!(summary.holds(), "{:#}", summary.to_json());
}
