//! A campaign of many runs, each killed at another moment: at every fault point, and at random.
//!
//! Why it is like this: `docs/decisions/testing-crashes.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::check::Harm;
use crate::dice::Dice;
use crate::faults::{self, CrashPoint};
use crate::process::Launch;
use crate::scenario::Scenario;
use crate::trial::{self, KillPoint, Report, TrialPlan};
use crate::variables;

/// Number of undisturbed runs that measure the duration of a run.
const PACE_RUNS: usize = 3;
/// Percentage of resumes that are killed too.
const KILLED_AGAIN_PERCENT: u64 = 35;
/// Limit of kills per run.
const KILLS_PER_RUN_MAX: usize = 4;
/// Percentage of runs that are killed at their very beginning, while the store is created.
const EARLY_PERCENT: u64 = 15;
/// The very beginning is this fraction of a run.
const EARLY_PART: u64 = 10;
/// Percentage of runs with a second process that follows the journal.
const FOLLOWED_PERCENT: u64 = 25;
/// Percentage of runs with fewer slots than agents.
const CROWDED_PERCENT: u64 = 30;
/// Percentage of runs whose helpers are killed as well.
const HELPERS_PERCENT: u64 = 60;
/// Limit of killed helpers per process: fewer than the tries of one operation on a failing machine.
const HELPERS_MAX: usize = 4;
/// Percentage of random parts with several runs in one store.
const TOGETHER_PERCENT: u64 = 20;
/// The number of those runs.
const TOGETHER: usize = 3;
/// Limit of tries per wanted kill before a campaign gives up, because a kill can come too late.
const TRIES_PER_KILL: u64 = 4;
/// The point at which a run is cut off so that its resume has every kind of work: a write that was intended and not
/// made.
const BEFORE_RESUME: &str = "engine.write.before_run";

#[derive(Debug, Clone)]
pub struct Order {
    pub program: PathBuf,
    pub seed: u64,
    /// Passings of each point at which to die. `None` skips fault points.
    pub points: Option<Passings>,
    pub random: u64,
    pub side_by_side: usize,
}

/// The passings of a point at which processes die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passings {
    /// One, somewhere in the middle.
    One,
    /// The first, one in the middle and the last.
    Three,
}

#[derive(Debug)]
pub struct Row {
    /// The plan, as a table shows it.
    pub name: String,
    pub report: Report,
    /// The directory that is kept if there was a breach.
    pub kept: Option<PathBuf>,
}

#[derive(Debug)]
pub struct Summary {
    seed: u64,
    took: Duration,
    rows: Vec<Row>,
    /// Points that no run passed.
    never_passed: Vec<&'static str>,
}

/// Executes a campaign. An error is about the campaign itself, not about its findings.
pub fn run(order: &Order, tell: &(dyn Fn(&Row) + Sync)) -> Result<Summary, String> {
    let began = Instant::now();
    let mut rows = Vec::new();
    let mut never_passed = Vec::new();
    if let Some(passings) = order.points {
        let passed = PassCounts::count(order)?;
        let parts;
        (parts, never_passed) = passed.parts(passings, order.seed);
        rows.extend(side_by_side(order, &Queue::of(parts), tell)?);
    }
    if order.random > 0 {
        let pace = pace(order)?;
        rows.extend(side_by_side(order, &Queue::random(order, pace), tell)?);
    }
    Ok(Summary { seed: order.seed, took: began.elapsed(), rows, never_passed })
}

/// The points that neither a run nor a resume of the scenario passes: the code does not pass these names.
pub fn never_passed(order: &Order) -> Result<Vec<&'static str>, String> {
    Ok(PassCounts::count(order)?.parts(Passings::One, order.seed).1)
}

/// How often an undisturbed run, and a resume, pass each point.
struct PassCounts {
    by_run: BTreeMap<String, u32>,
    by_resume: BTreeMap<String, u32>,
}

impl PassCounts {
    fn count(order: &Order) -> Result<Self, String> {
        let words = |error: std::io::Error| error.to_string();
        let dir = tempfile::tempdir().map_err(words)?;
        let scenario = Scenario::create(dir.path()).map_err(words)?;
        let launch = Launch::new(&order.program, dir.path(), &scenario.state())
            .with(variables::LEDGER, scenario.ledger());
        let (run_log, resume_log) = (dir.path().join("passed"), dir.path().join("passed-again"));
        let said = launch.with(variables::POINTS, &run_log).output(scenario.run_args()).map_err(words)?;
        if !said.status.success() {
            return Err(format!("the scenario fails without any fault ({}): {}", said.status, said.err));
        }
        // The same run again, cut off and resumed.
        let death = CrashPoint { point: BEFORE_RESUME.to_owned(), passing: 2 };
        let again = tempfile::tempdir().map_err(words)?;
        let scenario = Scenario::create(again.path()).map_err(words)?;
        let launch = Launch::new(&order.program, again.path(), &scenario.state())
            .with(variables::LEDGER, scenario.ledger());
        launch.dying(&death).output(scenario.run_args()).map_err(words)?;
        let said = launch
            .with(variables::POINTS, &resume_log)
            .output(["resume", "--last", "--json"])
            .map_err(words)?;
        if !said.status.success() {
            return Err(format!("the resume fails without any fault ({}): {}", said.status, said.err));
        }
        let read = |log: &Path| -> Result<BTreeMap<String, u32>, String> {
            Ok(faults::passings(log).map_err(words)?.into_iter().collect())
        };
        Ok(Self { by_run: read(&run_log)?, by_resume: read(&resume_log)? })
    }

    /// A plan for each point and passing, and the points that neither a run nor a resume passed.
    fn parts(&self, passings: Passings, seed: u64) -> (Vec<Part>, Vec<&'static str>) {
        let mut parts = Vec::new();
        let mut never = Vec::new();
        for (place, point) in faults::points().into_iter().enumerate() {
            let mut dice = Dice::of_part(seed, place as u64);
            let (before, count) = match (self.by_run.get(point), self.by_resume.get(point)) {
                (Some(&count), _) => (None, count),
                (None, Some(&count)) => {
                    (Some(CrashPoint { point: BEFORE_RESUME.to_owned(), passing: 2 }), count)
                }
                (None, None) => {
                    never.push(point);
                    continue;
                }
            };
            for passing in picked(passings, count) {
                let death = CrashPoint { point: point.to_owned(), passing };
                let mut blows: Vec<KillPoint> =
                    before.iter().cloned().chain([death.clone()]).map(KillPoint::At).collect();
                if dice.chance(KILLED_AGAIN_PERCENT) {
                    blows.push(KillPoint::After(Duration::from_millis(dice.roll(300))));
                }
                // The passings were counted in a run with slots for all agents.
                let plan =
                    TrialPlan { blows, followed: dice.chance(FOLLOWED_PERCENT), ..TrialPlan::default() };
                parts.push(Part { name: death.to_string(), plans: vec![plan] });
            }
        }
        (parts, never)
    }
}

fn picked(passings: Passings, count: u32) -> Vec<u32> {
    let middle = count.div_ceil(2);
    let mut picked = match passings {
        Passings::One => vec![middle],
        Passings::Three => vec![1, middle, count],
    };
    picked.dedup();
    picked
}

/// The median duration of a few undisturbed runs.
fn pace(order: &Order) -> Result<Duration, String> {
    let mut times = Vec::new();
    for _ in 0..PACE_RUNS {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let report = trial::run(&order.program, dir.path(), &TrialPlan::default())?;
        if let Some(breach) = report.breaches.first() {
            return Err(format!("the scenario does not hold without any fault: {breach}"));
        }
        times.push(report.took);
    }
    times.sort_unstable();
    Ok(times[PACE_RUNS / 2])
}

/// Plans that are executed at once: a single plan, or several in one store.
#[derive(Debug, Clone)]
struct Part {
    name: String,
    plans: Vec<TrialPlan>,
}

/// The source of the next part.
enum Queue<'a> {
    /// Each part of a list, once.
    List { parts: Vec<Part>, next: AtomicUsize },
    /// Kills at random moments until there were enough.
    Random { order: &'a Order, pace: Duration, next: AtomicU64, kills: AtomicU64 },
}

impl<'a> Queue<'a> {
    fn of(parts: Vec<Part>) -> Self {
        Self::List { parts, next: AtomicUsize::new(0) }
    }

    fn random(order: &'a Order, pace: Duration) -> Self {
        Self::Random { order, pace, next: AtomicU64::new(0), kills: AtomicU64::new(0) }
    }

    fn next(&self) -> Option<Part> {
        match self {
            Self::List { parts, next } => parts.get(next.fetch_add(1, Ordering::Relaxed)).cloned(),
            Self::Random { order, pace, next, kills } => {
                let part = next.fetch_add(1, Ordering::Relaxed);
                let enough = kills.load(Ordering::Relaxed) >= order.random;
                (!enough && part < order.random * TRIES_PER_KILL)
                    .then(|| random_part(order.seed, part, *pace))
            }
        }
    }

    fn done(&self, report: &Report) {
        if let Self::Random { kills, .. } = self {
            kills.fetch_add(report.struck.len() as u64, Ordering::Relaxed);
        }
    }
}

/// A random part of a seed.
fn random_part(seed: u64, part: u64, pace: Duration) -> Part {
    // Numbered beyond the parts that fault points use.
    let mut dice = Dice::of_part(seed, (1 << 32) + part);
    let runs = if dice.chance(TOGETHER_PERCENT) { TOGETHER } else { 1 };
    let plans = (0..runs).map(|_| random_plan(&mut dice, pace)).collect();
    Part { name: format!("random {part}"), plans }
}

/// Random moments over a whole run, for its first process and for its resumes.
fn random_plan(dice: &mut Dice, pace: Duration) -> TrialPlan {
    let span = u64::try_from(pace.as_micros()).unwrap_or(u64::MAX).max(1);
    let first = if dice.chance(EARLY_PERCENT) { span / EARLY_PART } else { span };
    let mut blows = vec![KillPoint::After(Duration::from_micros(dice.roll(first)))];
    while blows.len() < KILLS_PER_RUN_MAX && dice.chance(KILLED_AGAIN_PERCENT) {
        blows.push(KillPoint::After(Duration::from_micros(dice.roll(span))));
    }
    let (followed, crowded) = (dice.chance(FOLLOWED_PERCENT), dice.chance(CROWDED_PERCENT));
    let helpers = if dice.chance(HELPERS_PERCENT) { HELPERS_MAX } else { 0 };
    let mut helpers: Vec<Duration> = (0..helpers).map(|_| Duration::from_micros(dice.roll(span))).collect();
    helpers.sort_unstable();
    TrialPlan { blows, followed, crowded, helpers }
}

fn side_by_side(order: &Order, queue: &Queue<'_>, tell: &(dyn Fn(&Row) + Sync)) -> Result<Vec<Row>, String> {
    let rows: Mutex<Vec<Row>> = Mutex::default();
    let problems: Mutex<Vec<String>> = Mutex::default();
    let work = || {
        while let Some(part) = queue.next() {
            match run_part(order, &part) {
                Ok(done) => {
                    for row in done {
                        queue.done(&row.report);
                        tell(&row);
                        rows.lock().unwrap_or_else(PoisonError::into_inner).push(row);
                    }
                }
                Err(problem) => {
                    let problem = format!("{}: {problem}", part.name);
                    problems.lock().unwrap_or_else(PoisonError::into_inner).push(problem);
                    return;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..order.side_by_side.max(1) {
            scope.spawn(work);
        }
    });
    match problems.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().next() {
        Some(problem) => Err(problem),
        None => Ok(rows.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}

fn run_part(order: &Order, part: &Part) -> Result<Vec<Row>, String> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let reports = trial::run_together(&order.program, dir.path(), &part.plans)?;
    let breaches: Vec<String> =
        reports.iter().flat_map(|report| &report.breaches).map(ToString::to_string).collect();
    let mut kept = None;
    if !breaches.is_empty() {
        // Kept in its directory, because moving it would change the paths in the journal.
        let path = dir.keep();
        let note = format!("{part:#?}\n{}\n", breaches.join("\n"));
        std::fs::write(path.join("breaches"), note).map_err(|error| error.to_string())?;
        kept = Some(path);
    }
    let row = |report| Row { name: part.name.clone(), report, kept: kept.clone() };
    Ok(reports.into_iter().map(row).collect())
}

impl Summary {
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Points that no run passes: the code does not pass these names.
    pub fn never_passed(&self) -> &[&'static str] {
        &self.never_passed
    }

    pub fn holds(&self) -> bool {
        self.never_passed.is_empty() && self.rows.iter().all(|row| row.report.breaches.is_empty())
    }

    fn count(&self, harm: Harm) -> usize {
        self.rows.iter().flat_map(|row| &row.report.breaches).filter(|breach| breach.harm == harm).count()
    }

    fn sum(&self, figure: impl Fn(&Report) -> usize) -> usize {
        self.rows.iter().map(|row| figure(&row.report)).sum()
    }

    fn points_died_at(&self) -> BTreeMap<&str, u32> {
        let mut points = BTreeMap::new();
        for blow in self.rows.iter().flat_map(|row| &row.report.struck) {
            if let KillPoint::At(death) = blow {
                *points.entry(death.point.as_str()).or_default() += 1;
            }
        }
        points
    }

    /// The time of resumes from the start of their process to their first event: the median, and the longest.
    fn resumed_within(&self) -> (Duration, Duration) {
        let mut times: Vec<Duration> =
            self.rows.iter().flat_map(|row| row.report.resumed_within.clone()).collect();
        times.sort_unstable();
        let middle = times.get(times.len() / 2).copied().unwrap_or_default();
        (middle, times.last().copied().unwrap_or_default())
    }

    pub fn line(&self) -> String {
        let (middle, longest) = self.resumed_within();
        format!(
            "faults injected {}, helpers killed {}, runs {}, acknowledged events {}, lost {}, doubled {}, orphans {}, broken {}, \
             effects reported as interrupted {}, model calls cut off {}, resumed within {} ms ({} ms at most), {:.0} s, \
             seed {}",
            self.sum(|report| report.struck.len()),
            self.sum(|report| report.helpers),
            self.rows.len(),
            self.sum(|report| report.acknowledged),
            self.count(Harm::Lost),
            self.count(Harm::Doubled),
            self.count(Harm::Orphan),
            self.count(Harm::Broken),
            self.sum(|report| report.interrupted),
            self.sum(|report| report.asked_again),
            middle.as_millis(),
            longest.as_millis(),
            self.took.as_secs_f64(),
            self.seed,
        )
    }

    /// With no failure in `n` faults, one more fails with at most this probability (95 % confidence, rule of three).
    fn bound(&self) -> Option<f64> {
        let faults = u32::try_from(self.sum(|report| report.struck.len())).unwrap_or(u32::MAX);
        (self.holds() && faults > 0).then(|| 3.0 / f64::from(faults))
    }

    /// The figures and every breach, for programs.
    pub fn to_json(&self) -> Value {
        let breaches: Vec<Value> = self
            .rows
            .iter()
            .filter(|row| !row.report.breaches.is_empty())
            .map(|row| {
                let said: Vec<String> = row.report.breaches.iter().map(ToString::to_string).collect();
                json!({"name": row.name, "breaches": said, "kept": row.kept})
            })
            .collect();
        json!({
            "version": 1,
            "seed": self.seed,
            "holds": self.holds(),
            "faults": self.sum(|report| report.struck.len()),
            "helpers": self.sum(|report| report.helpers),
            "missed": self.sum(|report| report.missed.len()),
            "runs": self.rows.len(),
            "acknowledged": self.sum(|report| report.acknowledged),
            "lost": self.count(Harm::Lost),
            "doubled": self.count(Harm::Doubled),
            "orphans": self.count(Harm::Orphan),
            "broken": self.count(Harm::Broken),
            "interrupted": self.sum(|report| report.interrupted),
            "asked_again": self.sum(|report| report.asked_again),
            "resumed_within_ms": self.resumed_within().0.as_secs_f64() * 1e3,
            "resumed_within_max_ms": self.resumed_within().1.as_secs_f64() * 1e3,
            "took_ms": u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
            "bound_95": self.bound(),
            "points": self.points_died_at(),
            "never_passed": self.never_passed,
            "failures": breaches,
        })
    }

    /// Deaths by point, as a table.
    pub fn table(&self) -> String {
        let died = self.points_died_at();
        let mut table = format!("{:<34} {:>6}\n", "point", "deaths");
        for point in faults::points() {
            let _ = writeln!(table, "{point:<34} {:>6}", died.get(point).copied().unwrap_or(0));
        }
        let random = self
            .sum(|report| report.struck.iter().filter(|blow| matches!(blow, KillPoint::After(_))).count());
        let _ = write!(table, "{:<34} {random:>6}", "random moments");
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passings_are_picked_from_the_whole_run() {
        assert_eq!(picked(Passings::Three, 1), [1]);
        assert_eq!(picked(Passings::Three, 2), [1, 2]);
        assert_eq!(picked(Passings::Three, 9), [1, 5, 9]);
        assert_eq!(picked(Passings::One, 9), [5]);
    }

    #[test]
    fn a_part_of_a_seed_is_the_same_plan_again() {
        let blows = |part| random_part(7, part, Duration::from_secs(1)).plans[0].blows.clone();
        assert_eq!(blows(3), blows(3));
        assert_ne!(blows(3), blows(4));
    }
}
