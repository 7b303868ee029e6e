//! A few kills of each kind. `cargo xtask faults` has many more.

use std::path::Path;
use std::time::Duration;

use posse_testkit::campaign::{self, Order, Passings};
use posse_testkit::dice::Dice;
use posse_testkit::trial::{self, TrialPlan};

use crate::home::PROGRAM;

fn order(points: Option<Passings>, random: u64) -> Order {
    Order { program: Path::new(PROGRAM).to_owned(), seed: 11, points, random, side_by_side: 2 }
}

/// A fault point that no run passes would test nothing.
#[test]
fn every_named_point_is_passed_by_the_scenario() {
    assert_eq!(campaign::never_passed(&order(None, 0)).unwrap(), [""; 0]);
}

#[test]
fn a_few_random_kills_lose_and_double_nothing() {
    let summary = campaign::run(&order(None, 6), &|_| {}).unwrap();
    assert!(summary.holds(), "{:#}", summary.to_json());
}

/// How many times a helper is killed in each run, and the number of runs.
const KILLS: u64 = 4;
const RUNS: u64 = 4;
/// The latest kill, from the start of a run.
const SOON_MAX_MS: u64 = 1_200;

/// The death of a git, an init or the first process of a sandbox loses nothing: finished work is merged, background
/// results are reported once, and no command that never ran counts as done.
#[test]
fn helpers_that_are_killed_lose_and_double_nothing() {
    let mut killed = 0;
    for run in 0..RUNS {
        let mut dice = Dice::of_part(13, run);
        let mut helpers: Vec<Duration> =
            (0..KILLS).map(|_| Duration::from_millis(dice.roll(SOON_MAX_MS))).collect();
        helpers.sort_unstable();
        let dir = tempfile::tempdir().unwrap();
        let plan = TrialPlan { helpers, ..TrialPlan::default() };
        let report = trial::run(Path::new(PROGRAM), dir.path(), &plan).unwrap();
        assert_eq!(report.breaches, [], "run {run}: {plan:?}");
        killed += report.helpers;
    }
    assert!(killed > 0, "no helper was there to be killed");
}
