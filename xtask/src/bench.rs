//! `cargo xtask bench`: measures what Posse costs, and compares it with the project's own limits.
//!
//! `--quick` measures small trees, `--json FILE` stores the figures, and the names of groups select what is measured.
//! Figures are for users and for comparing two commits on one machine; no test depends on them.

mod workspaces;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::command::{FreshDir, Profile, Program, build, capture, cargo, root, run as run_command};
use crate::fresh_filesystem::FreshFilesystem;
use crate::{Failure, Outcome};

/// Duration of each measurement of the store, in seconds.
const STORE_SECONDS: &str = "2";

/// The limit of a figure that is shown beside another one.
const NO_LIMIT: f64 = f64::INFINITY;

/// What is measured together, by the names that select it.
const GROUPS: [&str; 5] = ["tree", "store", "hands", "workspaces", "serve"];

struct BenchOptions {
    quick: bool,
    smoke: bool,
    json: Option<PathBuf>,
    /// The groups that are measured; all if it is empty.
    groups: Vec<String>,
}

impl BenchOptions {
    /// Figures are measured with the release profile.
    fn profile(&self) -> Profile {
        if self.smoke { Profile::Dev } else { Profile::Dist }
    }

    /// The filesystem of its own that figures are measured on, where one can be mounted.
    fn disk(&self, dir: &FreshDir) -> Option<FreshFilesystem> {
        if self.smoke {
            return None;
        }
        let made = FreshFilesystem::new(dir);
        made.map_err(|why| {
            println!(
                "no filesystem of its own ({why}): if many files were removed from this disk lately, those figures are \
                 worse"
            );
        })
        .ok()
    }

    /// The figures of a group, if it is selected.
    fn figures(
        &self,
        group: &str,
        measure: impl FnOnce() -> Result<Value, Failure>,
    ) -> Result<Value, Failure> {
        let is_selected = self.groups.is_empty() || self.groups.iter().any(|name| name == group);
        if is_selected { measure() } else { Ok(json!(null)) }
    }
}

/// Builds the benches, runs them and prints their tables.
pub(crate) fn run(args: &[String]) -> Outcome {
    let asked = parse(args)?;
    let scratch = root().join("target/bench");
    std::fs::create_dir_all(&scratch)
        .map_err(|error| Failure::new(format!("{}: {error}", scratch.display())))?;
    let fresh = FreshDir::new(&scratch.join(format!("run-{}", std::process::id())))?;
    let disk = asked.disk(&fresh);
    let dir = disk.as_ref().map_or_else(|| fresh.path(), FreshFilesystem::path);
    let tree = asked.figures("tree", || posse_bench(&asked, dir, "tree.json", &[]))?;
    let store = asked.figures("store", || if asked.smoke { Ok(json!(null)) } else { store(&asked, dir) })?;
    let hands = asked.figures("hands", || hands(&asked, &scratch))?;
    let workspaces = asked.figures("workspaces", || workspaces::run(&asked, dir))?;
    let serve = asked.figures("serve", || posse_bench(&asked, dir, "serve.json", &["--only", "serve"]))?;
    if let Some(path) = &asked.json {
        let all = json!({
            "version": 1, "tree": tree, "store": store, "hands": hands, "workspaces": workspaces, "serve": serve,
        });
        std::fs::write(path, format!("{all:#}\n"))
            .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    }
    Ok(())
}

/// A run in the development profile that only checks that the benches work, for ci.
pub(crate) fn smoke() -> Outcome {
    run(&["--quick".to_owned(), "--smoke".to_owned()])
}

fn parse(args: &[String]) -> Result<BenchOptions, Failure> {
    let mut asked = BenchOptions { quick: false, smoke: false, json: None, groups: Vec::new() };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--quick" => asked.quick = true,
            "--smoke" => asked.smoke = true,
            "--json" => {
                let file = args.next().ok_or_else(|| Failure::new("--json needs a file"))?;
                asked.json = Some(PathBuf::from(file));
            }
            group if GROUPS.contains(&group) => asked.groups.push(group.to_owned()),
            other => {
                let groups = GROUPS.join(", ");
                let text = format!(
                    "unknown argument `{other}`; available: --quick, --json FILE, and the groups {groups}"
                );
                return Err(Failure::new(text));
            }
        }
    }
    Ok(asked)
}

/// Runs the program that measures trees, runs and the server. Its figures are in this file of the scratch directory.
fn posse_bench(asked: &BenchOptions, scratch: &Path, name: &str, groups: &[&str]) -> Result<Value, Failure> {
    let json = scratch.join(name);
    let (json_text, dir) = (json.to_string_lossy(), scratch.to_string_lossy());
    // The bench also measures the command, which it expects beside itself.
    build(&Program::Binary("posse"), asked.profile())?;
    let mut bench = Command::new(build(&Program::Binary("posse-bench"), asked.profile())?);
    bench.args(["--dir", &dir, "--json", &json_text]).args(groups).current_dir(root());
    if asked.quick {
        bench.arg("--quick");
    }
    run_command(&mut bench)?;
    let text =
        std::fs::read_to_string(&json).map_err(|error| Failure::new(format!("{json_text}: {error}")))?;
    serde_json::from_str(&text).map_err(|error| Failure::new(format!("{json_text}: {error}")))
}

fn store(asked: &BenchOptions, scratch: &Path) -> Result<Value, Failure> {
    let dir = scratch.to_string_lossy();
    let seconds = if asked.quick { "0.5" } else { STORE_SECONDS };
    let append = build(&Program::Example("append"), Profile::Dist)?;
    let text = capture(Command::new(append).args([&dir, seconds]).current_dir(root()))?;
    let figures: Value =
        serde_json::from_str(&text).map_err(|error| Failure::new(format!("append: {error}")))?;
    print!("{}", store_table(&figures));
    Ok(figures)
}

/// Measures commands and searches, beside plain processes and common programs.
fn hands(asked: &BenchOptions, scratch: &Path) -> Result<Value, Failure> {
    let dir = scratch.to_string_lossy();
    let program = build(&Program::Example("hands"), asked.profile())?;
    let mut args: Vec<&str> = vec![&dir];
    if asked.quick {
        args.push("--quick");
    }
    // Compared with other programs only if nothing has to be built for a figure that was not requested.
    let others = if asked.smoke {
        [None, None]
    } else {
        [other("ripgrep", "rg", scratch)?, other("fd-find", "fd", scratch)?]
    };
    for (flag, program) in ["--rg", "--fd"].into_iter().zip(&others) {
        if let Some(program) = program {
            args.extend([flag, program]);
        }
    }
    let text = capture(Command::new(program).args(&args).current_dir(root()))?;
    let figures: Value =
        serde_json::from_str(&text).map_err(|error| Failure::new(format!("hands: {error}")))?;
    print!("{}", hands_table(&figures));
    Ok(figures)
}

/// A program to compare with: installed beneath the scratch directory, if needed.
fn other(package: &str, binary: &str, scratch: &Path) -> Result<Option<String>, Failure> {
    let root = scratch.join("tools");
    let path = root.join("bin").join(binary);
    if !path.exists() {
        let root = root.to_string_lossy();
        println!("installing {package} to measure against");
        run_command(&mut cargo(&["install", "--quiet", "--locked", "--root", &root, package]))?;
    }
    Ok(Some(path.to_string_lossy().into_owned()))
}

/// The figures of `hands` that have a limit.
fn hands_table(figures: &Value) -> String {
    let number = |pointer: &str| figures.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN);
    let rows = [
        ("a boxed `true`, more than a plain one [ms]", number("/boxes/small/more_ms"), 5.0, false),
        ("the same from a runtime of 1 GiB [ms]", number("/boxes/large/more_ms"), 5.0, false),
        ("as an ordinary user [ms]", number("/ordinary/small/more_ms"), 5.0, false),
        ("as an ordinary user, from 1 GiB [ms]", number("/ordinary/large/more_ms"), 5.0, false),
        ("1 GiB of output, growth of the runtime [MB]", number("/output/grown_mb"), 16.0, false),
        ("meanwhile others were late by at most [ms]", number("/output/others_latest_ms"), 50.0, false),
        ("grep over 50,000 files [times ripgrep]", number("/search/grep/ratio"), 1.5, false),
        ("glob over them [times fd]", number("/search/glob/ratio"), 1.5, false),
        ("list of a directory [times fd]", number("/search/list/ratio"), 1.5, false),
    ];
    table(&rows)
}

/// The store's figures that have a limit.
fn store_table(figures: &Value) -> String {
    let number = |pointer: &str| figures.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN);
    let hearing = number("/subscriber/same_process_ms/p50") / number("/subscriber/bare_sync_ms/p50");
    let elsewhere = number("/subscriber/other_process_ms/max");
    let rows = [
        ("durable appends, 64 agents [events/s]", number("/one_process/0/events_per_second"), 20_000.0, true),
        (
            "four processes, longest wait of an append [ms]",
            number("/four_processes/longest_wait_ms"),
            250.0,
            false,
        ),
        ("a subscriber receives an event [times a bare sync]", hearing, 2.0, false),
        ("another process receives it, longest [ms]", elsewhere, 100.0, false),
    ];
    table(&rows)
}

fn table(rows: &[(&str, f64, f64, bool)]) -> String {
    let mut table = String::new();
    for &(name, value, limit, at_least) in rows {
        let holds = if at_least { value >= limit } else { value <= limit };
        let mark = if value.is_nan() {
            "?"
        } else if holds {
            "yes"
        } else {
            "NO"
        };
        // Writing to a string does not fail.
        let _ = if limit.is_infinite() && !value.is_nan() {
            writeln!(table, "{name:<58} {value:>12.3}")
        } else {
            writeln!(table, "{name:<58} {value:>12.3} {limit:>12.3}  {mark}")
        };
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_limit_is_marked() {
        let figures = json!({
            "one_process": [{"events_per_second": 30_000.0}],
            "four_processes": {"longest_wait_ms": 300.0},
            "subscriber": {"same_process_ms": {"p50": 3.0}, "bare_sync_ms": {"p50": 2.0}},
        });
        let table = store_table(&figures);
        let marks: Vec<&str> = table.lines().filter_map(|line| line.split_whitespace().last()).collect();
        assert_eq!(marks, ["yes", "NO", "yes", "?"]);
    }

    #[test]
    fn unknown_arguments_are_refused() {
        assert!(parse(&["--fast".to_owned()]).is_err());
        assert!(parse(&["--json".to_owned()]).is_err());
    }

    #[test]
    fn only_selected_groups_are_measured() {
        let measured = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            let asked = parse(&words).expect("known arguments");
            GROUPS.map(|group| asked.figures(group, || Ok(json!(1))).expect("a figure") == json!(1))
        };
        assert_eq!(measured(&["--quick"]), [true; 5]);
        assert_eq!(measured(&["store", "--quick", "workspaces"]), [false, true, false, true, false]);
    }
}
