//! Measures snapshots, workspaces and merging, beside plain git in the same run.

use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value, json};

use super::{BenchOptions, NO_LIMIT, table};
use crate::Failure;
use crate::command::{Program, build, capture, root};

/// Number of files in the repository that the limits are for, and in a large one.
const FILES: &str = "10000";
const FILES_LARGE: &str = "100000";
/// Number of files for a smoke test.
const FILES_SMOKE: &str = "500";
/// Number of directories of a hundred files for a smoke test of merging.
const DIRS_SMOKE: &str = "10";
/// How often each figure is measured; the median counts.
const ROUNDS: &str = "5";

/// Measures, prints the table and returns all figures.
pub(super) fn run(asked: &BenchOptions, dir: &Path) -> Result<Value, Failure> {
    let files = if asked.smoke { FILES_SMOKE } else { FILES };
    let figures = |asked, example, words: &[&str]| figures(asked, dir, example, words);
    let usual = figures(asked, "workspaces", &[files, ROUNDS])?;
    let large = if asked.smoke || asked.quick {
        json!(null)
    } else {
        figures(asked, "workspaces", &[FILES_LARGE, ROUNDS])?
    };
    let dirs: &[&str] = if asked.smoke { &[DIRS_SMOKE] } else { &[] };
    let merging = figures(asked, "merging", dirs)?;
    let all = json!({"usual": usual, "large": large, "merging": merging});
    print!("{}", limits(&all));
    Ok(all)
}

/// The output of an example, `name value unit` per line.
fn figures(asked: &BenchOptions, dir: &Path, example: &str, words: &[&str]) -> Result<Value, Failure> {
    let program = build(&Program::Example(example), asked.profile())?;
    parse(&capture(Command::new(program).args(words).current_dir(root()).env("TMPDIR", dir))?)
        .ok_or_else(|| Failure::new(format!("{example} printed something else")))
}

fn parse(text: &str) -> Option<Value> {
    let mut figures = Map::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let (name, value) = (words.next()?, words.next()?.parse::<f64>().ok()?);
        figures.insert(name.to_owned(), json!(value));
    }
    Some(Value::Object(figures))
}

fn limits(figures: &Value) -> String {
    let number = |pointer: &str| figures.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN);
    let of = |size: &str, name: &str| number(&format!("/{size}/{name}"));
    let beside_git = |size: &str| of(size, "git_worktree_add") / of(size, "overlay");
    let walk = |size: &str| of(size, "walk_overlay") / of(size, "walk_plain");
    let command = |size: &str, kind: &str, name: &str| of(size, &format!("{kind}_command_{name}"));
    let more = |size: &str| command(size, "overlay", "true") - command(size, "copy", "true");
    let times = |size: &str, name: &str| command(size, "overlay", name) / command(size, "copy", name);
    let after_model = |size: &str| of(size, "second_run_first_write_after_model");
    let ignored = number("/usual/overlay_beside_ignored") / number("/usual/overlay");
    let mut rows = vec![
        ("snapshot of 10,000 files, warm [ms]", number("/usual/snapshot_warm"), 60.0, false),
        ("the first one [ms]", number("/usual/snapshot_first"), 400.0, false),
        ("a workspace of 10,000 files, to the first write [ms]", of("usual", "overlay"), 2.0, false),
        ("its disk usage [KiB]", of("usual", "overlay_disk"), 64.0, false),
        ("the same as a copy [ms]", of("usual", "copy"), NO_LIMIT, false),
        ("disk usage of the copy [KiB]", of("usual", "copy_disk"), NO_LIMIT, false),
        ("the same by `git worktree add` [ms]", of("usual", "git_worktree_add"), NO_LIMIT, false),
        ("faster than git worktree add [times]", beside_git("usual"), 200.0, true),
        ("a snapshot after one changed file [ms]", of("usual", "overlay_snapshot_one_changed"), 2.0, false),
        ("the same in a copy [ms]", of("usual", "copy_snapshot_one_changed"), NO_LIMIT, false),
        ("a commit after a call that changed one file [ms]", of("usual", "overlay_commit_call"), 2.0, false),
        ("first write of a second run [ms]", of("usual", "second_run_first_write"), 20.0, false),
        ("the same after a model call of 200 ms [ms]", after_model("usual"), 20.0, false),
        ("a warm walk [times a plain directory]", walk("usual"), 2.0, false),
        ("a `bash` call, more than in a copy [ms]", more("usual"), 0.3, false),
        ("`git status` of an agent [times in a copy]", times("usual", "git_status"), 2.0, false),
        ("`grep -r` of an agent [times in a copy]", times("usual", "grep"), 2.0, false),
        ("a build of an agent [times in a copy]", times("usual", "build"), 2.0, false),
        ("a workspace beside 1 GB that git ignores [times without]", ignored, 1.3, false),
        ("merge and gate [ms]", number("/merging/merge_gate"), 50.0, false),
        ("merge, gate and update of one file [ms]", number("/merging/integrate_one_file"), 15.0, false),
        ("ten children of 10,000 files integrated [ms]", number("/merging/integrate_ten"), 1_000.0, false),
    ];
    if !figures["large"].is_null() {
        rows.push((
            "a workspace of 100,000 files, to the first write [ms]",
            of("large", "overlay"),
            2.0,
            false,
        ));
        let snapshot = of("large", "overlay_snapshot_one_changed");
        let commit = of("large", "overlay_commit_call");
        rows.extend([
            ("its disk usage [KiB]", of("large", "overlay_disk"), 64.0, false),
            ("the same as a copy [ms]", of("large", "copy"), NO_LIMIT, false),
            ("the same by `git worktree add` [ms]", of("large", "git_worktree_add"), NO_LIMIT, false),
            ("faster than git worktree add [times]", beside_git("large"), 200.0, true),
            ("a snapshot after one changed file [ms]", snapshot, 2.0, false),
            ("a commit after a call that changed one file [ms]", commit, 2.0, false),
            (
                "first write of a second run, at once [ms]",
                of("large", "second_run_first_write"),
                NO_LIMIT,
                false,
            ),
            ("the same after a model call of 200 ms [ms]", after_model("large"), 20.0, false),
            ("a warm walk [times a plain directory]", walk("large"), 2.0, false),
            ("a `bash` call, more than in a copy [ms]", more("large"), 0.3, false),
            ("`git status` of an agent [times in a copy]", times("large", "git_status"), 2.0, false),
            ("`grep -r` of an agent [times in a copy]", times("large", "grep"), 2.0, false),
            ("a build of an agent [times in a copy]", times("large", "build"), 2.0, false),
        ]);
    }
    table(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_and_missed_limits_marked() {
        let usual =
            parse("files 10000 count\nsnapshot_warm 61.5 ms\noverlay 0.9 ms\ngit_worktree_add 90 ms\n");
        let all = json!({"usual": usual.expect("readable"), "large": null, "merging": {"merge_gate": 20.0}});
        let table = limits(&all);
        let marks: Vec<&str> = table.lines().filter_map(|line| line.split_whitespace().last()).collect();
        assert_eq!(
            marks,
            [
                "NO", "?", "yes", "?", "?", "?", "90.000", "NO", "?", "?", "?", "?", "?", "?", "?", "?", "?",
                "?", "?", "yes", "?", "?"
            ]
        );
        assert_eq!(parse("no figure"), None);
    }
}
