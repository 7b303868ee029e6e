//! `cargo xtask fuzz`: searches with a coverage-guided fuzzer for inputs that break the readers of definitions and
//! skills.
//!
//! The target is a separate crate in `fuzz/`. It is built with coverage counters, which stable compilers can add, and
//! starts with the files of the corpus test. Its findings are kept beneath the target directory, so that the next run
//! continues from there. libFuzzer is C++: without a compiler for it the check is skipped with a message.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::command::{capture, cargo, metadata, root, run as run_command};
use crate::{Failure, Outcome};

/// The default duration of the search.
const SECONDS: u64 = 60;
/// The number of inputs in ci: every seed, and variations of each, in about 20 s.
const SHORT_RUNS: u64 = 3_000;
/// The seed of the random numbers in ci: every change is tried with the same inputs, so that one that fails has broken something
/// itself. Without it, each search is another one.
const SHORT_SEED: u32 = 1;
/// Time limit of one input. The largest that is read takes milliseconds.
const INPUT_SECONDS: u64 = 10;
/// Memory limit of one input, in MiB.
const INPUT_MIB: u64 = 1_024;
/// Largest generated input: problems show in small ones.
const INPUT_BYTES: u64 = 16 * 1024;
/// How much of a broken input is printed.
const SHOWN_BYTES: usize = 2_000;
/// The crate, and the target in it.
pub(crate) const MANIFEST: &str = "fuzz/Cargo.toml";
const TARGET: &str = "front_matter";
/// The directory of seeds.
const SEEDS: &str = "crates/definitions/tests/corpus/files";
/// Counters at every edge, and a table of their positions.
const COVERAGE: [&str; 7] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Clink-dead-code",
    "--cfg",
    "fuzzing",
];

#[derive(Debug, PartialEq, Eq)]
enum FuzzMode {
    /// Search with other random numbers each time, for this number of seconds.
    Look(u64),
    /// Search with the same random numbers each time.
    Repeatable,
    /// Read one file again.
    Again(String),
}

/// A short search, for ci.
pub(crate) fn short() -> Outcome {
    execute(&FuzzMode::Repeatable)
}

/// Builds the target and searches for inputs that break a promise.
pub(crate) fn run(args: &[String]) -> Outcome {
    execute(&wanted(args)?)
}

fn execute(mode: &FuzzMode) -> Outcome {
    if !has_compiler() {
        println!("fuzz: skipped: libFuzzer needs a C++ compiler (`c++`), and there is none");
        return Ok(());
    }
    let place = place()?;
    let program = built(&place)?;
    match mode {
        FuzzMode::Again(file) => run_command(Command::new(&program).arg(file)),
        FuzzMode::Look(seconds) => look(&place, "found", &program, &[format!("-max_total_time={seconds}")]),
        FuzzMode::Repeatable => {
            // What earlier searches found would be further seeds.
            let _ = fs::remove_dir_all(place.join("found-in-ci"));
            let bounds = [format!("-runs={SHORT_RUNS}"), format!("-seed={SHORT_SEED}")];
            look(&place, "found-in-ci", &program, &bounds)
        }
    }
}

fn wanted(args: &[String]) -> Result<FuzzMode, Failure> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        [] => Ok(FuzzMode::Look(SECONDS)),
        ["--input", file] => Ok(FuzzMode::Again((*file).to_owned())),
        ["--seconds", seconds] => match seconds.parse() {
            Ok(seconds) if seconds > 0 => Ok(FuzzMode::Look(seconds)),
            _ => Err(Failure::new(format!("--seconds: `{seconds}` is not a whole number above 0"))),
        },
        _ => Err(Failure::new("usage: cargo xtask fuzz [--seconds N | --input FILE]")),
    }
}

fn has_compiler() -> bool {
    let mut version = Command::new("c++");
    version.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    version.status().is_ok_and(|status| status.success())
}

/// The directory of everything: a build with other flags, found inputs, inputs that broke something.
fn place() -> Result<PathBuf, Failure> {
    let metadata = metadata(&["--no-deps"])?;
    let target = metadata["target_directory"].as_str().unwrap_or("target");
    Ok(Path::new(target).join("fuzz"))
}

/// Builds the program. The target triple is given so that build scripts and macros are built without counters.
fn built(place: &Path) -> Result<PathBuf, Failure> {
    let about = capture(Command::new("rustc").arg("-vV"))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or_else(|| Failure::new("rustc does not say what it builds for"))?;
    let mut build = cargo(&["build", "--release", "--locked", "--manifest-path", MANIFEST, "--target", host]);
    run_command(build.arg("--target-dir").arg(place).env("RUSTFLAGS", COVERAGE.join(" ")))?;
    Ok(place.join(host).join("release").join(TARGET))
}

fn look(place: &Path, found: &str, program: &Path, bounds: &[String]) -> Outcome {
    let (found, broken) = (place.join(found), place.join("broken"));
    for dir in [&found, &broken] {
        fs::create_dir_all(dir).map_err(|error| Failure::new(format!("{}: {error}", dir.display())))?;
    }
    let mut command = Command::new(program);
    command.current_dir(root()).arg(&found).arg(SEEDS);
    command.args(bounds).args([
        format!("-timeout={INPUT_SECONDS}"),
        format!("-rss_limit_mb={INPUT_MIB}"),
        format!("-max_len={INPUT_BYTES}"),
        format!("-artifact_prefix={}/", broken.display()),
        "-print_final_stats=1".to_owned(),
        "-verbosity=0".to_owned(),
    ]);
    let outcome = run_command(&mut command);
    // The same input may have broken it before; then its file is written again.
    let written = |file: &PathBuf| file.metadata().and_then(|about| about.modified()).ok();
    match (outcome, files(&broken).into_iter().max_by_key(written)) {
        (Ok(()), _) => {
            println!("fuzz: {}: {} inputs kept, nothing broken", bounds.join(" "), files(&found).len());
            Ok(())
        }
        (Err(failure), None) => Err(failure),
        (Err(_), Some(input)) => {
            Err(Failure::new(failure_report(&input, &fs::read(&input).unwrap_or_default())))
        }
    }
}

/// What broke, and how to reproduce it.
fn failure_report(input: &Path, bytes: &[u8]) -> String {
    let shown = bytes.get(..SHOWN_BYTES).unwrap_or(bytes);
    let more = if shown.len() < bytes.len() {
        format!(" … ({} bytes in all)", bytes.len())
    } else {
        String::new()
    };
    format!(
        "this input broke the reader:\n  {}{more}\nagain: cargo xtask fuzz --input {}",
        shown.escape_ascii(),
        input.display()
    )
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_file()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_understood_or_told() {
        let typed = |text: &str| {
            let args: Vec<String> = text.split_whitespace().map(ToOwned::to_owned).collect();
            wanted(&args).map_err(|failure| failure.to_string())
        };
        assert_eq!(typed(""), Ok(FuzzMode::Look(SECONDS)));
        assert_eq!(typed("--seconds 5"), Ok(FuzzMode::Look(5)));
        assert_eq!(typed("--input a.md"), Ok(FuzzMode::Again("a.md".to_owned())));
        for wrong in ["--seconds 0", "--seconds soon", "--seconds", "a.md"] {
            assert!(typed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_broken_input_is_shown_with_the_command_that_repeats_it() {
        let told = failure_report(Path::new("broken/crash-1"), b"---\n\x00name");
        assert!(told.contains(r"---\n\x00name"), "{told}");
        assert!(told.ends_with("again: cargo xtask fuzz --input broken/crash-1"), "{told}");
    }

    #[test]
    fn there_is_something_to_begin_with() {
        assert!(!files(&root().join(SEEDS).join("claude")).is_empty());
        assert!(root().join(MANIFEST).is_file());
    }
}
