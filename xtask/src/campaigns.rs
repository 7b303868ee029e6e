//! `cargo xtask campaigns`: the random tests at their full length. ci runs the same tests with fewer rounds.
//!
//! Why there are two lengths: `docs/decisions/testing-campaigns.md`.

use crate::command::{FreshDir, TMPDIR, cargo, cargo_has, run as run_command};
use crate::{Failure, Outcome};

/// The variable that the tests read when they are compiled.
const VARIABLE: &str = "POSSE_CAMPAIGNS";

/// The tests with two lengths: a part of the name, and what the whole campaign is.
const CAMPAIGNS: &[(&str, &str)] = &[
    ("random_plans_always_end", "10,000 random plans, cancelled and killed at random"),
    ("lacks_in_random_trees", "1,200 random trees of grants, 100,000 decisions"),
    ("lacks_also_after_a_round_trip", "3,500 random runs, 100,000 decisions"),
    ("random_histories_merge", "500 random histories, merged as git merges them"),
    ("dirty_states_with_a_git_that_fails", "200 dirty workspaces with a git that fails"),
    ("every_byte_is_reachable_after_salvage", "100 random folders, salvaged"),
    ("upper_layer_is_that_of_a_whole_walk", "300 random histories of an overlay, with kills of its holder"),
    (
        "whatever_is_killed_in_a_history",
        "300 random histories of an overlay, with kills of its runtime and its sandboxes",
    ),
    ("leave_no_mount_and_no_descriptor", "20,000 workspaces, created and removed: mounts, memory and files"),
    ("more_writers_live_than_stay_mounted", "1,000 live writers"),
    ("order_and_tree_every_time", "one plan, 20 times"),
    ("order_and_files_whatever_the_delays", "one script, 20 times"),
    ("owners_stopped_at_random_moments", "8 lease holders, stopped at random moments"),
    ("killed_soon_after_a_tool_started", "200 kills of a runtime in the first 20 ms of a call"),
    ("killed_while_a_tool_is_busy", "100 kills of a runtime with a busy tool"),
    ("many_calls_leave_nothing", "1,000 sandboxed calls"),
    (
        "clients_of_a_killed_server",
        "50 runs whose server is killed at random, with clients and a webhook that miss nothing",
    ),
    ("answered_as_the_document_says", "random requests to every operation of the HTTP API"),
];

pub(crate) fn run(args: &[String]) -> Outcome {
    if !args.is_empty() {
        return Err(Failure::new("usage: cargo xtask campaigns"));
    }
    if !cargo_has(&["nextest", "--version"]) {
        return Err(Failure::new(
            "`campaigns` selects tests with cargo-nextest: cargo install --locked cargo-nextest",
        ));
    }
    for (test, about) in CAMPAIGNS {
        println!("{test}: {about}");
    }
    // One at a time: some have deadlines that hold on an idle machine only.
    let nextest = [
        "nextest",
        "run",
        "--workspace",
        "--profile",
        "campaigns",
        "--no-fail-fast",
        "--test-threads",
        "1",
        "-E",
        &filter(),
    ];
    let fresh = FreshDir::for_tests()?;
    run_command(cargo(&nextest).env(VARIABLE, "1").env(TMPDIR, fresh.path()))
}

fn filter() -> String {
    CAMPAIGNS.iter().map(|(test, _)| format!("test({test})")).collect::<Vec<_>>().join(" + ")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::command::root;

    fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                sources(&entry, found);
            } else if entry.extension().is_some_and(|ending| ending == "rs") {
                found.push(entry);
            }
        }
    }

    /// Each file with two lengths has a test of the list, and each test of the list is in such a file.
    #[test]
    fn the_list_has_every_test_with_two_lengths() {
        let mut files = Vec::new();
        for dir in ["crates", "tests"] {
            sources(&root().join(dir), &mut files);
        }
        let switch = format!("option_env!(\"{VARIABLE}\")");
        let with_switch: Vec<(PathBuf, String)> = files
            .into_iter()
            .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
            .filter(|(_, text)| text.contains(&switch))
            .collect();
        for (path, text) in &with_switch {
            let is_listed = CAMPAIGNS.iter().any(|(test, _)| text.contains(test));
            assert!(is_listed, "{}: `cargo xtask campaigns` does not run it", path.display());
        }
        for (test, _) in CAMPAIGNS {
            assert!(with_switch.iter().any(|(_, text)| text.contains(test)), "{test} has one length only");
        }
    }
}
