//! `cargo xtask web`: builds the page of `posse serve` from `web/` into `crates/protocols/page`, which is committed, so
//! that `cargo` alone builds everything.
//!
//! Node runs the bundler, at the exact versions of `web/package-lock.json`: the same sources give the same bytes on every
//! machine, and `check` compares them.

mod browser;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{capture, metadata, root, run as run_command};
use crate::{Failure, Outcome, packages};

/// The bundle, as the program embeds it.
const BUNDLE: &str = "crates/protocols/page";
/// The oldest Node that the bundler supports.
const NODE_MIN: (u32, u32) = (20, 19);

pub(crate) fn run(args: &[String]) -> Outcome {
    match args {
        [] => build(),
        [only] if only == "check" => check(),
        [first, rest @ ..] if first == "test" => browser::run(rest),
        [only] if only == "screenshots" => browser::screenshots(),
        _ => Err(Failure::new("usage: cargo xtask web [check | test [STORY...] | screenshots]")),
    }
}

/// The check as a stage of ci. A machine without Node and without a network must still be able to work.
pub(crate) fn short() -> Outcome {
    match prepare() {
        Ok(()) => {
            checked()?;
            browser::short()
        }
        Err(missing) => {
            println!("web: skipped: {missing}");
            Ok(())
        }
    }
}

fn build() -> Outcome {
    prepare()?;
    run_command(&mut npm(&["run", "build"]))?;
    let bundle = files(&root().join(BUNDLE))?;
    println!("{BUNDLE}: {} files, {} bytes", bundle.len(), bundle.values().map(Vec::len).sum::<usize>());
    Ok(())
}

fn check() -> Outcome {
    prepare()?;
    checked()
}

/// Checks the types, and that the committed bundle is the built one.
fn checked() -> Outcome {
    run_command(&mut npm(&["run", "check"]))?;
    run_command(&mut npm(&["test"]))?;
    let built = target()?.join("web").join("page");
    let mut bundler = npm(&["run", "build", "--", "--emptyOutDir", "--outDir"]);
    run_command(bundler.arg(&built))?;
    let differing = differing(&files(&built)?, &files(&root().join(BUNDLE))?);
    if differing.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{BUNDLE} is not what web/ builds: {}; run `cargo xtask web` and commit the result",
        differing.join(", ")
    )))
}

/// The files that only one of two bundles has, or that differ.
fn differing(built: &BTreeMap<String, Vec<u8>>, committed: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let other = committed.iter().filter(|(name, bytes)| built.get(*name) != Some(*bytes));
    let missing = built.keys().filter(|name| !committed.contains_key(*name));
    other.map(|(name, _)| name).chain(missing).cloned().collect()
}

/// The files of a bundle by their paths in it.
fn files(dir: &Path) -> Result<BTreeMap<String, Vec<u8>>, Failure> {
    let failed = |path: &Path, error| Failure::new(format!("{}: {error}", path.display()));
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(&next).map_err(|error| failed(&next, error))?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            let name = path.strip_prefix(dir).unwrap_or(&path).to_string_lossy().into_owned();
            found.insert(name, fs::read(&path).map_err(|error| failed(&path, error))?);
        }
    }
    Ok(found)
}

/// Makes Node and the locked packages ready, or says what is missing.
fn prepare() -> Outcome {
    packages::ready_for_the_page()?;
    let printed = capture(Command::new("node").arg("--version"))?;
    if node_version(&printed).is_none_or(|version| version < NODE_MIN) {
        let (major, minor) = NODE_MIN;
        return Err(Failure::new(format!(
            "building the page needs Node {major}.{minor} or newer, and this is {}",
            printed.trim()
        )));
    }
    let lock = dir().join("package-lock.json");
    let wanted = fs::read(&lock).map_err(|error| Failure::new(format!("{}: {error}", lock.display())))?;
    // Written last, so that an interrupted installation starts again.
    let complete = dir().join("node_modules/.complete");
    if fs::read(&complete).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    run_command(&mut npm(&["ci", "--no-audit", "--no-fund"]))?;
    fs::write(&complete, wanted).map_err(|error| Failure::new(format!("{}: {error}", complete.display())))
}

/// The version that `node --version` prints, such as `v20.19.4`.
fn node_version(printed: &str) -> Option<(u32, u32)> {
    let mut parts = printed.trim().strip_prefix('v')?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn npm(args: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.args(args).current_dir(dir());
    command
}

fn dir() -> PathBuf {
    root().join("web")
}

fn target() -> Result<PathBuf, Failure> {
    let metadata = metadata(&["--no-deps"])?;
    Ok(PathBuf::from(metadata["target_directory"].as_str().unwrap_or("target")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_differs_by_each_file_that_is_other_missing_or_left_over() {
        let bundle = |files: &[(&str, &str)]| -> BTreeMap<String, Vec<u8>> {
            files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect()
        };
        let built = bundle(&[("a.js", "1"), ("b.css", "2"), ("c.svg", "3")]);
        assert_eq!(differing(&built, &built), [""; 0]);
        let committed = bundle(&[("a.js", "1"), ("b.css", "other"), ("old.js", "4")]);
        assert_eq!(differing(&built, &committed), ["b.css", "old.js", "c.svg"]);
    }

    #[test]
    fn the_version_of_node_is_read() {
        assert_eq!(node_version("v20.19.4\n"), Some((20, 19)));
        assert_eq!(node_version("v8.0.0"), Some((8, 0)));
        assert_eq!(node_version("20.1.1"), None);
    }
}
