//! `cargo xtask ci`: runs every check that a change has to pass, cheapest first, and stops at the first failure.
//!
//! It needs Rust and git; further programs for the tests are installed if they are missing. Optional tools
//! (cargo-nextest, cargo-deny) are used if they are installed; otherwise cargo's own runner and the project's own check
//! replace them. All stages share the workspace's target directory and the same flags, so that no stage rebuilds
//! another's work.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use crate::command::{FreshDir, TMPDIR, WITH_DEV_FEATURES, cargo, cargo_has, root, run as run_command};
use crate::{Failure, Outcome, licences, packages, quick, replays, tidy};

/// Stages that run in a process of their own beside the stage `faults`: they use build directories of their own, and both
/// sides wait much, for the disk and for other processes.
const BACKGROUND_STAGES: [&str; 2] = ["fuzz", "sdks"];
/// The stage at whose beginning they start.
const BACKGROUND_FROM: &str = "faults";

/// How many more tests than there are processors run at once.
const WAITING_TESTS: usize = 3;

/// The tests that the stage `faults` does not repeat: its campaign has the kills of `tests/faults/kills.rs` and more.
pub(crate) const NOT_IN_FAULTS: &str = "not (binary(faults) & test(/^kills::/))";

/// The variable of the setting `workspace.kind`, which the tests of workspaces obey too.
pub(crate) const WORKSPACE_KIND: &str = "POSSE_WORKSPACE__KIND";
/// The tests that run once more with workspaces as copies: those whose code differs by the kind. `cargo xtask matrix` runs
/// all of them.
const OVER_COPIES: [&str; 11] = [
    "apply::",
    "closed::",
    "gc::",
    "kept::",
    "merge::",
    "salvage::",
    "torn::",
    "transfer::",
    "update::",
    "walks::what_is_mounted_in_a_tree",
    "workspaces::",
];
/// The long ones among them.
const NOT_OVER_COPIES: [&str; 3] =
    ["every_byte_is_reachable", "dirty_states_with_a_git", "directories_that_are_deeper"];

/// One row of the table. The rows are run in order.
struct Stage {
    name: &'static str,
    /// What is guaranteed when the stage has passed.
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
    Stage { name: "web", promise: "the page in the program is the one in web/", run: crate::web::short },
    Stage { name: "clippy", promise: "no warning anywhere", run: clippy },
    Stage { name: "test", promise: "every test passes", run: test },
    Stage {
        name: "docs",
        promise: "every example of README and docs/ runs and prints what the page shows",
        run: || crate::docs::run(&[]),
    },
    Stage {
        name: "faults",
        promise: "killed at every point and at random, nothing is lost or doubled",
        run: crate::faults::short,
    },
    Stage { name: "bench", promise: "the benches run (small, unmeasured)", run: crate::bench::smoke },
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
    let mut background: Vec<BackgroundStage> = Vec::new();
    for stage in stages {
        println!("\n==> {}: {}", stage.name, stage.promise);
        let stage_began = Instant::now();
        if args.is_empty() && stage.name == BACKGROUND_FROM {
            background =
                BACKGROUND_STAGES.into_iter().map(BackgroundStage::start).collect::<Result<_, _>>()?;
        }
        let outcome = match background.iter_mut().find(|other| other.stage == stage.name) {
            Some(other) => other.wait(),
            None => (stage.run)(),
        };
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

/// A stage that runs in another process, with its output in a file.
struct BackgroundStage {
    stage: &'static str,
    process: Child,
}

impl BackgroundStage {
    fn start(stage: &'static str) -> Result<Self, Failure> {
        let failed =
            |error: std::io::Error| Failure::new(format!("cannot start the stage `{stage}`: {error}"));
        // With another target directory there may be none here yet.
        std::fs::create_dir_all(root().join("target")).map_err(failed)?;
        let output = File::create(Self::output(stage)).map_err(failed)?;
        let errors = output.try_clone().map_err(failed)?;
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(program);
        command.args(["ci", stage]).stdin(Stdio::null()).stdout(output).stderr(errors);
        println!("(beside it: {stage})");
        Ok(Self { stage, process: command.spawn().map_err(failed)? })
    }

    fn output(stage: &str) -> std::path::PathBuf {
        root().join("target").join(format!("ci-{stage}.log"))
    }

    /// Waits for the stage and prints its output.
    fn wait(&mut self) -> Outcome {
        let status = self.process.wait().map_err(|error| Failure::new(error.to_string()))?;
        print!("{}", std::fs::read_to_string(Self::output(self.stage)).unwrap_or_default());
        if status.success() { Ok(()) } else { Err(Failure::new(format!("it ended with {status}"))) }
    }
}

impl Drop for BackgroundStage {
    fn drop(&mut self) {
        // A failed stage ends `ci`; one beside it must not stay behind.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn select<'a>(stages: &'a [Stage], names: &[String]) -> Result<Vec<&'a Stage>, Failure> {
    if let Some(unknown) = names.iter().find(|name| stages.iter().all(|stage| stage.name != **name)) {
        let known: Vec<&str> = stages.iter().map(|stage| stage.name).collect();
        let problem = format!("unknown stage `{unknown}`; available: {}, or quick", known.join(", "));
        return Err(Failure::new(problem));
    }
    let wanted = |stage: &&Stage| names.is_empty() || names.iter().any(|name| name == stage.name);
    Ok(stages.iter().filter(wanted).collect())
}

/// The final table: the time of each stage, and the failed one.
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

/// Checks all crates even if one fails, so that a developer fixes them in one go.
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

/// A minimal toolchain lacks these components, and cargo's own error does not say what to type.
fn needs_component(verb: &str, component: &str) -> Outcome {
    if cargo_has(&[verb, "--version"]) {
        return Ok(());
    }
    Err(Failure::new(format!("`cargo {verb}` is not installed: rustup component add {component}")))
}

/// Reports all failures at once, as with clippy. A test that fails and then passes is printed as FLAKY at the end: it
/// is a defect to fix, but does not block other changes.
fn test() -> Outcome {
    packages::ready()?;
    replays::forget()?;
    let fresh = FreshDir::for_tests()?;
    let run_tests = |tests: &mut Command| run_command(tests.env(TMPDIR, fresh.path()));
    if cargo_has(&["nextest", "--version"]) {
        run_tests(nextest().args(["-E", NOT_IN_FAULTS]))?;
        run_tests(over_copies(nextest().args(WORKSPACE_TESTS)))?;
    } else {
        run_tests(&mut cargo(&["test", "--workspace", "--all-targets", "--no-fail-fast"]))?;
        run_tests(over_copies(cargo(&["test", "--workspace", "--no-fail-fast"]).args(WORKSPACE_TESTS)))?;
    }
    replays::tell()
}

/// The test binaries about workspaces.
const WORKSPACE_TESTS: [&str; 4] = ["--test", "workspace", "--test", "merging"];

fn nextest() -> Command {
    let mut command = cargo(&["nextest", "run", "--workspace", "--no-fail-fast", "--retries", "1"]);
    command.args(["--test-threads", &test_threads()]);
    command
}

/// Selects the tests that run over copies too. Both runners take these arguments.
fn over_copies(tests: &mut Command) -> &mut Command {
    tests.arg("--").args(OVER_COPIES);
    for long in NOT_OVER_COPIES {
        tests.args(["--skip", long]);
    }
    tests.env(WORKSPACE_KIND, "copies")
}

/// How many tests run at once: more than there are processors, because many wait for a disk or another process.
pub(crate) fn test_threads() -> String {
    available_parallelism().map_or(2, |cores| cores.get() + WAITING_TESTS).to_string()
}

fn doctest() -> Outcome {
    run_command(&mut cargo(&["test", "--doc", "--workspace"]))
}

/// Libraries only: the command and the facade are both named `posse`, and two pages cannot share a name.
fn doc() -> Outcome {
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--lib"]);
    run_command(doc.args(WITH_DEV_FEATURES).env("RUSTDOCFLAGS", "-D warnings"))
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

    /// A name that matches nothing would silently drop a check.
    #[test]
    fn the_tests_that_run_over_copies_exist() {
        let dirs = ["workspace", "merging"].map(|name| root().join("crates/workspace/tests").join(name));
        for name in OVER_COPIES.iter().chain(&NOT_OVER_COPIES) {
            let (module, test) = name.split_once("::").unwrap_or(("", name));
            let has = |file: &std::path::Path| {
                std::fs::read_to_string(file).is_ok_and(|text| text.contains(test) && text.contains("test]"))
            };
            let files = dirs.iter().flat_map(|dir| std::fs::read_dir(dir).unwrap());
            let files = files.map(|entry| entry.unwrap().path());
            let mut named = files.filter(|file| module.is_empty() || file.ends_with(format!("{module}.rs")));
            assert!(named.any(|file| has(&file)), "{name}");
        }
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
