//! The tests of `cargo xtask ci quick`: those of the crates that a change touches, without the long campaigns, and a
//! few stories over the real binary.

use std::collections::BTreeSet;
use std::process::Command;

use crate::ci::test_threads;
use crate::command::{capture, cargo, cargo_has, root, run as run_command};
use crate::{Failure, Outcome, packages};

/// Campaigns and random tests that take long; `cargo xtask ci` runs them.
const LONG: &str = "test(/^escape::/) + test(random_plans) + test(every_time) + test(random_histories) + test(dirty_states) \
                    + test(many_calls) + test(soon_after_a_tool) + test(while_a_tool_is_busy) + test(/_canary_/) \
                    + test(random_trees) + test(also_after_a_round_trip) + test(explain_gives_the_outcome) \
                    + test(has_the_outcome_of_the_layers) + test(any_text_comes_back) + test(every_pass_of_every_point) \
                    + binary(faults)";
/// Stories that cover everything once: a run, its replay, a crash and its resume.
const STORIES: &str = "test(/^cli_(demo|run|resume)::/)";
/// The example of a front end.
const FRONT_END: &str = "posse-front-end";

pub(crate) fn test() -> Outcome {
    packages::ready()?;
    if !cargo_has(&["nextest", "--version"]) {
        return Err(Failure::new(
            "`ci quick` selects tests with cargo-nextest: cargo install --locked cargo-nextest",
        ));
    }
    let packages = packages_of(changed()?.lines());
    println!("changed: {}", if packages.is_empty() { "no crate".to_owned() } else { join(&packages, ", ") });
    // Without the examples, which no test needs.
    let targets = ["--lib", "--bins", "--tests"];
    let mut nextest = cargo(&["nextest", "run", "--workspace", "--no-fail-fast", "-E", &filter(&packages)]);
    run_command(nextest.args(targets).args(["--test-threads", &test_threads()]))
}

/// The files that differ from the last commit, or if none does, those of that commit.
fn changed() -> Result<String, Failure> {
    let git = |args: &[&str]| capture(Command::new("git").args(args).current_dir(root()));
    let now = git(&["diff", "--name-only", "HEAD"])?;
    let new = git(&["ls-files", "--others", "--exclude-standard"])?;
    let uncommitted = format!("{now}{new}");
    if uncommitted.is_empty() { git(&["diff", "--name-only", "HEAD~1", "HEAD"]) } else { Ok(uncommitted) }
}

/// The packages that these files belong to.
fn packages_of<'a>(files: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let mut packages = BTreeSet::new();
    for file in files {
        let mut parts = file.split('/');
        match (parts.next(), parts.next(), parts.next()) {
            (Some("crates"), Some("posse"), Some(_)) => packages.insert("posse".to_owned()),
            (Some("crates"), Some(name), Some(_)) => packages.insert(format!("posse-{name}")),
            (Some("examples"), Some("front-end"), Some(_)) => packages.insert(FRONT_END.to_owned()),
            (Some("xtask"), Some(_), _) => packages.insert("xtask".to_owned()),
            _ => false,
        };
    }
    // Its tests are those of `setup` from outside.
    if packages.contains("posse-setup") {
        packages.insert(FRONT_END.to_owned());
    }
    // Its tests are the stories.
    packages.remove("posse-cli");
    packages
}

fn filter(packages: &BTreeSet<String>) -> String {
    let own = packages.iter().map(|package| format!("package(={package})")).collect::<BTreeSet<_>>();
    let unit = "(package(=posse-cli) & kind(lib))";
    if own.is_empty() {
        return format!("{unit} + {STORIES}");
    }
    format!("(({}) - ({LONG})) + {unit} + {STORIES}", join(&own, " + "))
}

fn join(words: &BTreeSet<String>, between: &str) -> String {
    words.iter().map(String::as_str).collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_belong_to_their_packages() {
        let files = [
            "crates/store/src/lib.rs",
            "crates/posse/src/lib.rs",
            "xtask/src/ci.rs",
            "README.md",
            "tests/x.rs",
        ];
        assert_eq!(join(&packages_of(files.into_iter()), " "), "posse posse-store xtask");
        assert_eq!(packages_of(["crates/cli/src/lib.rs"].into_iter()), BTreeSet::new());
        let front_end = packages_of(["examples/front-end/src/lib.rs", "examples/README.md"].into_iter());
        assert_eq!(join(&front_end, " "), "posse-front-end");
        let setup = packages_of(["crates/setup/src/lib.rs"].into_iter());
        assert_eq!(join(&setup, " "), "posse-front-end posse-setup");
    }

    #[test]
    fn the_changed_packages_are_tested_without_their_campaigns_and_with_the_stories() {
        let filter = filter(&BTreeSet::from(["posse-store".to_owned(), "xtask".to_owned()]));
        assert!(filter.starts_with("((package(=posse-store) + package(=xtask)) - ("), "{filter}");
        assert!(filter.ends_with(STORIES), "{filter}");
    }
}
