//! `cargo xtask matrix`: the tests of workspaces over overlays and over copies, as root and as an ordinary user. ci runs
//! all of them over overlays as its own user, and a part of the rest.
//!
//! A cell consists of the tests of workspaces and merging with the canaries, the stories with the escape corpus, the
//! stories of faults, the kills of the real command, and the kills and power cuts of `lasting`. The kind of workspaces is
//! a variable that the tests obey. A test of another user is started through this program, which cargo calls its runner.
//!
//! Why it is like this: `docs/decisions/testing-matrix.md`.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::ci::{NOT_IN_FAULTS, WORKSPACE_KIND, test_threads};
use crate::command::{
    FreshDir, Profile, Program, TMPDIR, build, capture, cargo, cargo_has, root, run as run_command,
};
use crate::{Failure, Outcome, packages, replays};

/// The verb by which cargo starts a test as another user.
pub(crate) const AS_USER: &str = "as-user";
const USAGE: &str = "usage: cargo xtask matrix [overlays|copies] [root|ordinary]";
/// A user without files.
const ORDINARY: u32 = 65_534;
/// The nextest profile of the cells.
const PROFILE: &str = "matrix";
/// The binaries of the tests.
const BINARIES: &str = "binary(workspace) + binary(merging) + binary(stories) + binary(faults)";
/// A test that shows where every setting comes from, also the one of the variable.
const SHOWS_THE_VARIABLE: &str = "test(every_setting_is_shown_with_its_origin)";
/// Tests of what only overlays have: their mounts, and the files that they share.
const ALWAYS_OVERLAYS: &str = "(binary(workspace) & test(/^(overlays|bases)::/))";
/// Random moments of `lasting`.
const ROUNDS: &str = "5";

/// What workspaces consist of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkspaceKind {
    Overlays,
    Copies,
}

impl WorkspaceKind {
    const ALL: [Self; 2] = [Self::Overlays, Self::Copies];

    fn name(self) -> &'static str {
        match self {
            Self::Overlays => "overlays",
            Self::Copies => "copies",
        }
    }

    /// The value of the setting.
    fn setting(self) -> &'static str {
        match self {
            Self::Overlays => "auto",
            Self::Copies => "copies",
        }
    }
}

/// Who runs the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum User {
    Root,
    Ordinary,
}

impl User {
    const ALL: [Self; 2] = [Self::Root, Self::Ordinary];

    fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Ordinary => "ordinary",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    kind: WorkspaceKind,
    user: User,
}

/// What came of a cell.
#[derive(Debug, Default)]
struct CellResult {
    passed: usize,
    failed: usize,
    took: Duration,
    /// Why it was not run.
    skipped: Option<String>,
}

pub(crate) fn run(args: &[String]) -> Outcome {
    let cells = select(args)?;
    if !cargo_has(&["nextest", "--version"]) {
        return Err(Failure::new(
            "`matrix` counts tests with cargo-nextest: cargo install --locked cargo-nextest",
        ));
    }
    packages::ready()?;
    let programs = Programs::build()?;
    let mut results = Vec::new();
    for cell in cells {
        println!("\n==> {}, {}", cell.kind.name(), cell.user.name());
        let began = Instant::now();
        let mut result = match cell.may_run() {
            Ok(()) => programs.run_cell(cell)?,
            Err(why) => CellResult { skipped: Some(why), ..CellResult::default() },
        };
        result.took = began.elapsed();
        results.push((cell, result));
    }
    println!("\n{}", table(&results));
    let failed: usize = results.iter().map(|(_, result)| result.failed).sum();
    if failed == 0 { Ok(()) } else { Err(Failure::new(format!("{failed} failed"))) }
}

/// The cells with these words; without one, all.
fn select(words: &[String]) -> Result<Vec<Cell>, Failure> {
    let has = |name: &str| words.iter().any(|word| word == name);
    let known = |word: &&String| {
        WorkspaceKind::ALL.iter().any(|kind| kind.name() == **word)
            || User::ALL.iter().any(|user| user.name() == **word)
    };
    if let Some(unknown) = words.iter().find(|word| !known(word)) {
        return Err(Failure::new(format!("`{unknown}` is not known\n{USAGE}")));
    }
    let kinds =
        |kind: &WorkspaceKind| has(kind.name()) || !WorkspaceKind::ALL.iter().any(|kind| has(kind.name()));
    let users = |user: &User| has(user.name()) || !User::ALL.iter().any(|user| has(user.name()));
    let cells = WorkspaceKind::ALL
        .into_iter()
        .filter(kinds)
        .flat_map(|kind| User::ALL.map(|user| Cell { kind, user }));
    Ok(cells.filter(|cell| users(&cell.user)).collect())
}

impl Cell {
    /// Why this process cannot run it.
    fn may_run(self) -> Result<(), String> {
        match (self.user, is_root()) {
            (User::Root, false) => Err("only root can run it".to_owned()),
            (User::Ordinary, true) => {
                // The other user has to read what was built.
                let program = std::env::current_exe().map_err(|error| error.to_string())?;
                let mut reads = Command::new("test");
                let reads = reads.arg("-x").arg(&program).uid(ORDINARY).gid(ORDINARY).status();
                if reads.is_ok_and(|status| status.success()) {
                    return Ok(());
                }
                Err(format!(
                    "user {ORDINARY} cannot read {}: set CARGO_TARGET_DIR to a directory that every user can read",
                    program.display()
                ))
            }
            _ => Ok(()),
        }
    }

    /// The user to switch to.
    fn switch_to(self) -> Option<u32> {
        (self.user == User::Ordinary && is_root()).then_some(ORDINARY)
    }

    fn filter(self) -> String {
        let not_here = match self.kind {
            WorkspaceKind::Overlays => String::new(),
            WorkspaceKind::Copies => format!(" - {ALWAYS_OVERLAYS}"),
        };
        format!("(({BINARIES}) & {NOT_IN_FAULTS}) - {SHOWS_THE_VARIABLE}{not_here}")
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// What the cells run.
struct Programs {
    faults: PathBuf,
    lasting: PathBuf,
    /// The triple of this machine, as cargo writes it in the names of variables.
    host: String,
    report: PathBuf,
}

impl Programs {
    fn build() -> Result<Self, Failure> {
        run_command(&mut cargo(&["nextest", "run", "--workspace", "--no-run"]))?;
        build(&Program::Binary("posse-faulty"), Profile::Dev)?;
        let version = capture(&mut cargo(&["version", "--verbose"]))?;
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        let host = host.ok_or_else(|| Failure::new("cargo does not name this machine"))?;
        Ok(Self {
            faults: build(&Program::Binary("posse-faults"), Profile::Dev)?,
            lasting: build(&Program::Example("lasting"), Profile::Dev)?,
            host: host.to_uppercase().replace(['-', '.'], "_"),
            // Nextest writes beneath the workspace, wherever cargo builds.
            report: root().join("target/nextest").join(PROFILE).join("junit.xml"),
        })
    }

    /// Runs a cell. An error is about the matrix itself, not about its findings.
    fn run_cell(&self, cell: Cell) -> Result<CellResult, Failure> {
        let dir = FreshDir::for_tests()?;
        let own = |user| chown(dir.path(), Some(user), Some(user));
        cell.switch_to()
            .map_or(Ok(()), own)
            .map_err(|error| Failure::new(format!("{}: {error}", dir.path().display())))?;
        let mut result = self.tests(cell, dir.path())?;
        let campaigns = [
            (&self.faults, &["--short"][..]),
            (&self.lasting, &["kill", "--rounds", ROUNDS]),
            (&self.lasting, &["power", "--rounds", ROUNDS]),
        ];
        for (program, args) in campaigns {
            let mut command = Command::new(program);
            command.args(args).current_dir(root()).env(WORKSPACE_KIND, cell.kind.setting());
            command.env(TMPDIR, dir.path());
            if let Some(user) = cell.switch_to() {
                as_user(&mut command, user, dir.path());
            }
            match run_command(&mut command) {
                Ok(()) => result.passed += 1,
                Err(failure) => {
                    println!("{failure}");
                    result.failed += 1;
                }
            }
        }
        Ok(result)
    }

    fn tests(&self, cell: Cell, dir: &Path) -> Result<CellResult, Failure> {
        replays::open_to_all()?;
        let mut nextest = cargo(&["nextest", "run", "--workspace", "--no-fail-fast", "--retries", "1"]);
        nextest.args(["--profile", PROFILE, "--status-level", "fail", "--test-threads", &test_threads()]);
        nextest.args(["-E", &cell.filter()]).env(WORKSPACE_KIND, cell.kind.setting());
        nextest.env(TMPDIR, dir);
        // A test of another user can write no snapshot, nor ask cargo where they are.
        nextest.env("INSTA_UPDATE", "no").env("INSTA_WORKSPACE_ROOT", root());
        if let Some(user) = cell.switch_to() {
            let own = std::env::current_exe().map_err(|error| Failure::new(error.to_string()))?;
            let runner = format!("{} {AS_USER} {user} {}", own.display(), dir.display());
            nextest.env(format!("CARGO_TARGET_{}_RUNNER", self.host), runner);
        }
        drop(fs::remove_file(&self.report));
        let outcome = run_command(&mut nextest);
        let report = fs::read_to_string(&self.report).map_err(|error| {
            let ended = outcome.err().map_or_else(String::new, |failure| failure.to_string());
            Failure::new(format!("{ended}: no report in {}: {error}", self.report.display()))
        })?;
        counted(&report)
    }
}

/// The numbers in the first element of a report.
fn counted(report: &str) -> Result<CellResult, Failure> {
    let number = |name: &str| -> Option<usize> {
        let (_, rest) = report.split_once(&format!(" {name}=\""))?;
        rest.split_once('"')?.0.parse().ok()
    };
    let counts = number("tests").zip(number("failures")).zip(number("errors"));
    let ((tests, failures), errors) =
        counts.ok_or_else(|| Failure::new("the report of the tests has no numbers"))?;
    let failed = failures + errors;
    Ok(CellResult { passed: tests - failed, failed, ..CellResult::default() })
}

fn as_user(command: &mut Command, user: u32, dir: &Path) {
    command.uid(user).gid(user).env("HOME", dir).env(TMPDIR, dir);
}

/// Becomes a program of another user: `as-user UID DIR PROGRAM ARGS...`.
pub(crate) fn become_user(args: &[String]) -> Outcome {
    let [user, dir, program, rest @ ..] = args else {
        return Err(Failure::new("usage: cargo xtask as-user UID DIR PROGRAM [ARGS]"));
    };
    let user = user.parse().map_err(|error| Failure::new(format!("{user}: {error}")))?;
    let mut command = Command::new(OsString::from(program));
    as_user(command.args(rest), user, Path::new(dir));
    Err(Failure::new(format!("cannot start {program}: {}", command.exec())))
}

fn table(results: &[(Cell, CellResult)]) -> String {
    let mut text = format!("{:<20} {:>7} {:>7} {:>8}\n", "cell", "passed", "failed", "minutes");
    for (Cell { kind, user }, result) in results {
        let name = format!("{}, {}", kind.name(), user.name());
        // Writing to a string cannot fail.
        let _ = match &result.skipped {
            Some(why) => writeln!(text, "{name:<20} not run: {why}"),
            None => writeln!(
                text,
                "{name:<20} {:>7} {:>7} {:>8.1}",
                result.passed,
                result.failed,
                result.took.as_secs_f64() / 60.0
            ),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &[&str]) -> Vec<String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let cells = select(&words).unwrap();
        cells.iter().map(|cell| format!("{} {}", cell.kind.name(), cell.user.name())).collect()
    }

    #[test]
    fn words_select_cells() {
        let all = ["overlays root", "overlays ordinary", "copies root", "copies ordinary"];
        assert_eq!(names(&[]), all);
        assert_eq!(names(&["copies"]), all[2..]);
        assert_eq!(names(&["ordinary", "overlays"]), all[1..2]);
        assert_eq!(names(&["overlays", "copies", "root"]), [all[0], all[2]]);
        let failure = select(&["copy".to_owned()]).err().unwrap().to_string();
        assert!(failure.starts_with("`copy` is not known"), "{failure}");
    }

    #[test]
    fn a_report_is_counted() {
        let report = r#"<?xml version="1.0"?><testsuites name="nextest-run" tests="9" failures="2" errors="1" uuid="x">
            <testsuite name="a" tests="4" failures="0" errors="0">"#;
        let CellResult { passed, failed, .. } = counted(report).unwrap();
        assert_eq!((passed, failed), (6, 3));
        assert!(counted("<testsuites>").is_err());
    }

    #[test]
    fn the_table_has_a_row_for_each_cell() {
        let cell = |user| Cell { kind: WorkspaceKind::Copies, user };
        let ran = CellResult { passed: 612, failed: 1, took: Duration::from_secs(90), skipped: None };
        let skipped = CellResult { skipped: Some("why".to_owned()), ..CellResult::default() };
        assert_eq!(
            table(&[(cell(User::Ordinary), ran), (cell(User::Root), skipped)]),
            "cell                  passed  failed  minutes\n\
             copies, ordinary         612       1      1.5\n\
             copies, root         not run: why\n"
        );
    }
}
