//! Runs a row in a process that cannot take more than it is given.

use std::process::Command;

use rustix::process::{Resource, Rlimit, setrlimit};

/// Processor time of a row, in seconds. Rows take a small part of it, also without optimisation; a conversion without a
/// bound takes hours.
const CPU_MAX_SECONDS: u64 = 20;
/// Address space of a row: what a conversion may take, and what the threads of a process reserve.
const MEMORY_MAX_BYTES: u64 = 1024 * 1024 * 1024;
/// Says to the process of a row which one it is.
const ROW: &str = "POSSE_TEST_CONVERSION";
/// What the process of a row prints before its outcome.
const OUTCOME: &str = "outcome: ";

/// The outcome of the row `name`, from a process of its own; none in that process, which only prints it.
#[expect(clippy::disallowed_methods, reason = "how a test tells the process that it starts from itself")]
pub(crate) fn outcome_of(name: &str, convert: fn() -> String) -> Option<String> {
    if std::env::var_os(ROW).is_some_and(|row| *row == *name) {
        for (resource, most) in [(Resource::Cpu, CPU_MAX_SECONDS), (Resource::As, MEMORY_MAX_BYTES)] {
            setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) }).expect("a limit");
        }
        println!("\n{OUTCOME}{}", convert().replace('\n', " "));
        return None;
    }
    let this = std::env::current_exe().expect("this test");
    let run = Command::new(this).args([name, "--exact", "--nocapture"]).env(ROW, name).output();
    let run = run.expect("a process");
    let said = String::from_utf8_lossy(&run.stdout);
    let complaint = String::from_utf8_lossy(&run.stderr);
    assert!(
        run.status.success(),
        "{name} is without a bound: {} ({CPU_MAX_SECONDS} s of processor time, {MEMORY_MAX_BYTES} bytes)\n{complaint}",
        run.status
    );
    let outcome = said.lines().find_map(|line| line.strip_prefix(OUTCOME));
    assert!(outcome.is_some(), "{name} has no outcome: {said}{complaint}");
    outcome.map(str::to_owned)
}

/// A table of rows: each becomes a test of its name.
macro_rules! rows {
    ($($name:ident: $convert:expr => $expected:expr;)+) => {$(
        #[test]
        fn $name() {
            let name = concat!(module_path!(), "::", stringify!($name));
            let name = name.split_once("::").expect("a module").1;
            let Some(outcome) = $crate::bounded::outcome_of(name, $convert) else { return };
            let expected: &str = $expected;
            assert!(outcome.contains(expected), "expected `{expected}`, got `{outcome}`");
        }
    )+};
}

pub(crate) use rows;
