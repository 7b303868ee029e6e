//! `cargo xtask ci`: every check a change has to pass, cheapest first, stopping at the first that fails.
//!
//! It needs Rust and git; what the tests need besides is installed where it is missing. Tools that make it
//! better (cargo-nextest, cargo-deny) are used when they are there; without them cargo's own runner and the
//! project's own check stand in. All stages share the workspace's target directory and the same flags, so that
//! no stage rebuilds another's work.

use std::time::{Duration, Instant};

use crate::command::{cargo, cargo_has, run as run_command};
use crate::{Failure, Outcome, licences, packages, quick, replays, tidy};

/// One row of the table; the order of the rows is the order of the run.
struct Stage {
    name: &'static str,
    /// What holds when the stage has passed.
    promise: &'static str,
    run: fn() -> Outcome,
}

const STAGES: &[Stage] = &[
    Stage { name: "fmt", promise: "every file is formatted", run: fmt },
    Stage { name: "tidy", promise: "layers, absences and sizes hold", run: || tidy::run(&[]) },
    Stage {
        name: "licences",
        promise: "dependencies may be used and are not known to be bad",
        run: || licences::run(&[]),
    },
    Stage { name: "clippy", promise: "no warning anywhere", run: clippy },
    Stage { name: "test", promise: "every test passes", run: test },
    Stage {
        name: "faults",
        promise: "killed at every point and at random, nothing is lost or doubled",
        run: crate::faults::short,
    },
    Stage {
        name: "fuzz",
        promise: "no front matter that a fuzzer finds breaks its readers",
        run: crate::fuzz::short,
    },
    Stage {
        name: "sdks",
        promise: "the official SDKs understand the mock model server",
        run: || crate::sdks::run(&[]),
    },
    Stage { name: "bench", promise: "the benches run (small, unmeasured)", run: crate::bench::smoke },
    Stage { name: "doctest", promise: "every example in the docs runs", run: doctest },
    Stage { name: "doc", promise: "the docs build without a warning", run: doc },
];

/// The stages of `cargo xtask ci quick`, for use while one crate is being changed.
const QUICK: &[Stage] = &[
    Stage { name: "fmt", promise: "every file is formatted", run: fmt },
    Stage { name: "tidy", promise: "layers, absences and sizes hold", run: || tidy::run(&[]) },
    Stage { name: "clippy", promise: "no warning anywhere", run: clippy },
    Stage {
        name: "test",
        promise: "the tests of the changed crates and a few stories pass",
        run: quick::test,
    },
];

/// Runs all stages, or only the named ones; `quick` runs what one change needs.
pub(crate) fn run(args: &[String]) -> Outcome {
    let stages = match args {
        [only] if only == "quick" => QUICK.iter().collect(),
        names => select(STAGES, names)?,
    };
    let began = Instant::now();
    let mut done: Vec<(&str, Duration)> = Vec::new();
    for stage in stages {
        println!("\n==> {}: {}", stage.name, stage.promise);
        let stage_began = Instant::now();
        let outcome = (stage.run)();
        let took = stage_began.elapsed();
        done.push((stage.name, took));
        if let Err(failure) = outcome {
            println!("\n{}", summary(&done, began.elapsed(), Some(stage.name)));
            return Err(Failure::new(format!(
                "stage `{0}` failed: {failure}\nonly this stage again: cargo xtask ci {0}",
                stage.name
            )));
        }
        println!("<== {} passed in {}", stage.name, seconds(took));
    }
    println!("\n{}", summary(&done, began.elapsed(), None));
    Ok(())
}

fn select<'a>(stages: &'a [Stage], names: &[String]) -> Result<Vec<&'a Stage>, Failure> {
    if let Some(unknown) = names.iter().find(|name| stages.iter().all(|stage| stage.name != **name)) {
        let known: Vec<&str> = stages.iter().map(|stage| stage.name).collect();
        let problem = format!("there is no stage `{unknown}`; stages: {}, or quick", known.join(", "));
        return Err(Failure::new(problem));
    }
    let wanted = |stage: &&Stage| names.is_empty() || names.iter().any(|name| name == stage.name);
    Ok(stages.iter().filter(wanted).collect())
}

/// The closing table: where the time went, and where it ended.
fn summary(done: &[(&str, Duration)], total: Duration, failed: Option<&str>) -> String {
    let mut lines = vec![format!("{:<10} {:>9}", "stage", "time")];
    for (name, took) in done {
        let mark = if failed == Some(*name) { "  failed" } else { "" };
        lines.push(format!("{name:<10} {:>9}{mark}", seconds(*took)));
    }
    lines.push(format!("{:<10} {:>9}", "total", seconds(total)));
    lines.push(failed.map_or("ci: passed".to_owned(), |name| format!("ci: failed at {name}")));
    lines.join("\n")
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

fn fmt() -> Outcome {
    needs_component("fmt", "rustfmt")?;
    run_command(&mut cargo(&["fmt", "--all", "--check"]))
}

/// The crates that can be looked at are, whatever another one says: a person fixes them in one go.
fn clippy() -> Outcome {
    needs_component("clippy", "clippy")?;
    run_command(&mut cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--keep-going",
        "--",
        "-D",
        "warnings",
    ]))
}

/// A minimal toolchain lacks these; cargo's own words for that do not say what to type.
fn needs_component(verb: &str, component: &str) -> Outcome {
    if cargo_has(&[verb, "--version"]) {
        return Ok(());
    }
    Err(Failure::new(format!("`cargo {verb}` is not installed: rustup component add {component}")))
}

/// All failures at once, as with clippy. A test that fails and then passes is printed as FLAKY at the end: it is a defect to
/// fix, and no reason to keep every other change out.
fn test() -> Outcome {
    packages::ready()?;
    replays::forget()?;
    if cargo_has(&["nextest", "--version"]) {
        run_command(&mut cargo(&["nextest", "run", "--workspace", "--no-fail-fast", "--retries", "1"]))?;
    } else {
        run_command(&mut cargo(&["test", "--workspace", "--all-targets", "--no-fail-fast"]))?;
    }
    replays::tell()
}

fn doctest() -> Outcome {
    run_command(&mut cargo(&["test", "--doc", "--workspace"]))
}

/// Libraries only: the command and the facade are both called `posse`, and two pages cannot share a name.
fn doc() -> Outcome {
    run_command(cargo(&["doc", "--workspace", "--no-deps", "--lib"]).env("RUSTDOCFLAGS", "-D warnings"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(stages: &[&Stage]) -> Vec<&'static str> {
        stages.iter().map(|stage| stage.name).collect()
    }

    #[test]
    fn without_names_every_stage_runs_in_order() {
        let all: Vec<&str> = STAGES.iter().map(|stage| stage.name).collect();
        assert_eq!(names(&select(STAGES, &[]).unwrap()), all);
    }

    #[test]
    fn named_stages_run_in_the_order_of_the_table() {
        let picked = select(STAGES, &["test".to_owned(), "fmt".to_owned()]).unwrap();
        assert_eq!(names(&picked), ["fmt", "test"]);
    }

    #[test]
    fn an_unknown_stage_is_named_with_the_known_ones() {
        let failure = select(STAGES, &["tset".to_owned()]).err().unwrap().to_string();
        assert!(failure.contains("`tset`") && failure.contains("clippy, test"), "{failure}");
    }

    #[test]
    fn the_summary_marks_the_stage_that_failed() {
        let done = [("fmt", Duration::from_millis(640)), ("tidy", Duration::from_secs(2))];
        let text = summary(&done, Duration::from_millis(2_640), Some("tidy"));
        assert_eq!(
            text,
            "stage           time\nfmt            0.6 s\ntidy           2.0 s  failed\n\
             total          2.6 s\nci: failed at tidy"
        );
    }
}
