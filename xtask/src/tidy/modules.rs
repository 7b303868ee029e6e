//! Determines which files are compiled, and which of them only for tests.
//!
//! A Rust file that is declared nowhere is neither compiled nor run, and no tool reports it: a missing `mod` line in
//! `tests/main.rs` would silently drop a whole story. So the files are walked like the compiler does, from the targets
//! through their `mod` lines.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Breach;
use super::source::{Source, block_end, words};

/// A root file of the compiler.
pub(crate) struct Target {
    pub(crate) path: String,
    pub(crate) is_test: bool,
}

/// The targets of all packages. Build scripts count as test code: they communicate with cargo by printing, and are not
/// part of the product.
pub(crate) fn targets(metadata: &Value, root: &str) -> Vec<Target> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let targets = packages.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    targets
        .filter_map(|target| {
            let path = target["src_path"].as_str()?.strip_prefix(root)?.trim_start_matches('/');
            let kinds = target["kind"].as_array()?;
            let aside = ["test", "bench", "example", "custom-build"];
            let is_test = kinds.iter().any(|kind| kind.as_str().is_some_and(|kind| aside.contains(&kind)));
            Some(Target { path: without_parents(path), is_test })
        })
        .collect()
}

/// `crates/cli/../../tests/main.rs` is `tests/main.rs`: a manifest names a target outside its package that way.
fn without_parents(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Marks the sources that are test code as a whole, and reports those that no target reaches.
pub(crate) fn check(targets: &[Target], sources: &mut [Source]) -> Vec<Breach> {
    let reached = walk(targets, sources);
    let mut breaches = Vec::new();
    for source in sources.iter_mut() {
        if let Some(is_test) = reached.get(&source.path) {
            source.all_tests = *is_test;
        } else {
            breaches.push(Breach {
                place: source.path.clone(),
                rule: "module",
                found: "no target reaches this file".to_owned(),
                why: "a file without a `mod` line in its parent is neither compiled nor run, silently",
            });
        }
    }
    breaches
}

/// Every file that is reached, and whether only as test code.
fn walk(targets: &[Target], sources: &[Source]) -> BTreeMap<String, bool> {
    let files: BTreeMap<&str, &Source> =
        sources.iter().map(|source| (source.path.as_str(), source)).collect();
    let mut reached: BTreeMap<String, bool> = BTreeMap::new();
    let mut queue: Vec<(String, bool, bool)> =
        targets.iter().map(|target| (target.path.clone(), target.is_test, true)).collect();
    while let Some((path, is_test, is_root)) = queue.pop() {
        let Some(source) = files.get(path.as_str()) else { continue };
        // A second visit is only useful if it turns test code into product code.
        if reached.get(&path).is_some_and(|known| is_test || !known) {
            continue;
        }
        reached.insert(path.clone(), is_test);
        for (at, candidates) in children(source, is_root) {
            let child_is_test = is_test || source.is_test(at);
            queue.extend(candidates.into_iter().map(|candidate| (candidate, child_is_test, false)));
        }
    }
    reached
}

/// For each declaration of a module in its own file: its position, and the possible paths of that file.
fn children(source: &Source, is_root: bool) -> Vec<(usize, Vec<String>)> {
    let (folder, file) = source.path.rsplit_once('/').unwrap_or(("", &source.path));
    let base = if is_root || file == "mod.rs" {
        folder.to_owned()
    } else {
        format!("{folder}/{}", file.trim_end_matches(".rs"))
    };
    let code = source.masked.code.as_str();
    let (mut inline, mut outside) = (Vec::new(), Vec::new());
    for module in source.declarations(&["mod"]) {
        let after = &code[module.end..];
        let next = after.trim_start();
        if next.starts_with('{') {
            let open = code.len() - next.len();
            inline.push((open..block_end(code, open), module.name));
        } else if next.starts_with(';') {
            outside.push(module);
        }
    }
    inline.sort_by_key(|(range, _)| range.start);
    let mut found: Vec<(usize, Vec<String>)> = outside
        .iter()
        .map(|module| {
            let mut at = base.clone();
            for (_, name) in inline.iter().filter(|(range, _)| range.contains(&module.at)) {
                at = format!("{at}/{name}");
            }
            (module.at, vec![format!("{at}/{}.rs", module.name), format!("{at}/{}/mod.rs", module.name)])
        })
        .collect();
    found.extend(named_paths(source, folder));
    found
}

/// Files named by `#[path = "…"]` or `include!("…")`, beside the file that names them.
fn named_paths(source: &Source, folder: &str) -> Vec<(usize, Vec<String>)> {
    let text = source.masked.text.as_str();
    let mut found = Vec::new();
    for marker in ["#[path", "include!("] {
        for at in words(text, marker) {
            let mut quotes = text[at..].splitn(3, '"');
            if let (Some(_), Some(name)) = (quotes.next(), quotes.next()) {
                found.push((at, vec![format!("{folder}/{name}")]));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn unreached(files: &[(&str, &str)], roots: &[(&str, bool)]) -> (Vec<String>, Vec<String>) {
        let targets: Vec<Target> = roots
            .iter()
            .map(|(path, is_test)| Target { path: (*path).to_owned(), is_test: *is_test })
            .collect();
        let mut sources: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        let breaches = check(&targets, &mut sources).into_iter().map(|breach| breach.place).collect();
        let tests = sources.into_iter().filter(|source| source.all_tests).map(|source| source.path).collect();
        (breaches, tests)
    }

    #[test]
    fn a_story_that_main_does_not_declare_is_a_breach() {
        let files = [("tests/main.rs", "mod told;"), ("tests/told.rs", ""), ("tests/forgotten.rs", "")];
        let (breaches, tests) = unreached(&files, &[("tests/main.rs", true)]);
        assert_eq!(breaches, ["tests/forgotten.rs"]);
        assert_eq!(tests, ["tests/main.rs", "tests/told.rs"]);
    }

    #[test]
    fn modules_are_found_where_the_compiler_looks() {
        let files = [
            ("a/src/lib.rs", "mod x; pub mod y; mod in_line { mod z; }"),
            ("a/src/x.rs", "mod deep;"),
            ("a/src/x/deep.rs", ""),
            ("a/src/y/mod.rs", "mod below;"),
            ("a/src/y/below.rs", "#[path = \"odd.rs\"] mod other;"),
            ("a/src/y/odd.rs", ""),
            ("a/src/in_line/z.rs", ""),
        ];
        assert_eq!(unreached(&files, &[("a/src/lib.rs", false)]).0, [""; 0]);
    }

    #[test]
    fn a_file_behind_cfg_test_is_test_code_unless_the_product_has_it_too() {
        let files = [
            ("a/src/lib.rs", "#[cfg(test)]\nmod helpers;\n#[cfg(test)]\nmod both;"),
            ("a/src/main.rs", "mod both;"),
            ("a/src/helpers.rs", "mod more;"),
            ("a/src/helpers/more.rs", ""),
            ("a/src/both.rs", ""),
        ];
        let (breaches, tests) = unreached(&files, &[("a/src/lib.rs", false), ("a/src/main.rs", false)]);
        assert_eq!(breaches, [""; 0]);
        assert_eq!(tests, ["a/src/helpers.rs", "a/src/helpers/more.rs"]);
    }

    #[test]
    fn targets_are_taken_relative_to_the_root() {
        let metadata = json!({"packages": [{"targets": [
            {"src_path": "/r/a/src/lib.rs", "kind": ["lib"]},
            {"src_path": "/r/a/../tests/main.rs", "kind": ["test"]},
            {"src_path": "/r/a/build.rs", "kind": ["custom-build"]},
        ]}]});
        let found: Vec<(String, bool)> =
            targets(&metadata, "/r").into_iter().map(|target| (target.path, target.is_test)).collect();
        let expected = [("a/src/lib.rs", false), ("tests/main.rs", true), ("a/build.rs", true)];
        assert_eq!(found, expected.map(|(path, is_test)| (path.to_owned(), is_test)));
    }
}
