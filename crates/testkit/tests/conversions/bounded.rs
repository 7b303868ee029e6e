//! Runs a row of the corpus in a process with limited resources.

use std::process::Command;

use rustix::process::{Resource, Rlimit, setrlimit};

/// Limit of a row's processor time, in seconds. Rows need a small part of it, also without optimisation. A conversion
/// without a bound takes hours.
const CPU_MAX_SECONDS: u64 = 20;
/// Limit of a row's address space: the memory of a conversion, and the reserved memory of the threads of a process.
const MEMORY_MAX_BYTES: u64 = 1024 * 1024 * 1024;
/// Tells the process of a row which row to run.
const ROW: &str = "POSSE_TEST_CONVERSION";
/// The prefix of the outcome in the output of a row's process.
const OUTCOME: &str = "outcome: ";

/// The outcome of the row `name`, from its own process. `None` within that process, which only prints it.
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

/// A table of rows. Each becomes a test with its name.
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
