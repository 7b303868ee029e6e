//! The desks of the driver stay apart: none of them knows the driver, and those that use each other form no cycle.
//!
//! A desk reaches another one only by the name of its module, because a desk that does not know the driver cannot call
//! back through it and the module `desks` re-exports nothing. So the modules that are named are all the calls there can be.

use std::collections::{BTreeMap, BTreeSet};

use super::Breach;
use super::source::{Source, words};

const DIR: &str = "crates/engine/src/driver/desks/";
const DRIVER: &str = "Driver";

const WHY_APART: &str = "what a desk changes is in its file only if it cannot reach the driver";
const WHY_ORDERED: &str = "desks that call each other in a circle are one object in several files";

pub(crate) fn check(sources: &[Source]) -> Vec<Breach> {
    let files: Vec<(&str, &Source)> =
        sources.iter().filter_map(|source| Some((desk_of(source)?, source))).collect();
    let mut breaches: Vec<Breach> = files.iter().filter_map(|(_, source)| reaches_driver(source)).collect();
    let desks: BTreeSet<&str> = files.iter().map(|(desk, _)| *desk).filter(|desk| *desk != "mod").collect();
    let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (desk, source) in &files {
        if *desk == "mod" {
            breaches.extend(re_exports(source));
            continue;
        }
        let used = desks.iter().copied().filter(|other| other != desk && names_module(source, other));
        edges.entry(desk).or_default().extend(used);
    }
    breaches.extend(cycle(&edges).map(|cycle| Breach {
        place: DIR.to_owned(),
        rule: "desk-cycle",
        found: cycle.join(" uses "),
        why: WHY_ORDERED,
    }));
    breaches
}

/// The desk that a file belongs to: `files.rs` and all of `files/` are one.
fn desk_of(source: &Source) -> Option<&str> {
    let inside = source.path.strip_prefix(DIR)?;
    Some(inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs"))
}

fn reaches_driver(source: &Source) -> Option<Breach> {
    let at = words(&source.masked.code, DRIVER).find(|at| !source.is_test(*at))?;
    let place = format!("{}:{}", source.path, source.line(at));
    Some(Breach { place, rule: "desk-apart", found: "it names `Driver`".to_owned(), why: WHY_APART })
}

fn re_exports(source: &Source) -> Option<Breach> {
    let (at, _) = source.imports().into_iter().next()?;
    let place = format!("{}:{}", source.path, source.line(at));
    let found = "a `use` hides which desk is used".to_owned();
    Some(Breach { place, rule: "desk-apart", found, why: WHY_APART })
}

/// Whether the code has the module in a path, or imports it.
fn names_module(source: &Source, module: &str) -> bool {
    let code = &source.masked.code;
    let in_path = words(code, module)
        .filter(|at| !source.is_test(*at))
        .any(|at| code[at + module.len()..].starts_with("::"));
    in_path || source.imports().iter().any(|(_, path)| words(path, module).next().is_some())
}

/// Some cycle, from one desk back to itself.
fn cycle<'a>(uses: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Option<Vec<&'a str>> {
    let mut finished = BTreeSet::new();
    uses.keys().find_map(|start| walk(start, uses, &mut Vec::new(), &mut finished))
}

fn walk<'a>(
    desk: &'a str,
    uses: &BTreeMap<&'a str, BTreeSet<&'a str>>,
    path: &mut Vec<&'a str>,
    finished: &mut BTreeSet<&'a str>,
) -> Option<Vec<&'a str>> {
    if let Some(at) = path.iter().position(|before| *before == desk) {
        return Some(path[at..].iter().copied().chain([desk]).collect());
    }
    if finished.contains(desk) {
        return None;
    }
    path.push(desk);
    let found = uses.get(desk).into_iter().flatten().find_map(|next| walk(next, uses, path, finished));
    path.pop();
    finished.insert(desk);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(&'static str, String)> {
        let sources: Vec<Source> =
            files.iter().map(|(name, text)| Source::new(&format!("{DIR}{name}"), text)).collect();
        check(&sources).into_iter().map(|breach| (breach.rule, breach.found)).collect()
    }

    #[test]
    fn a_desk_does_not_know_the_driver() {
        let breach = [("desk-apart", "it names `Driver`".to_owned())];
        assert_eq!(found(&[("files.rs", "fn take(driver: &mut Driver) {}")]), breach);
        // A comment, a longer word and a test are no use of it.
        let near = "// Driver\nstruct DriverLess;\n#[cfg(test)]\nmod tests { fn f(d: Driver) {} }\n";
        assert_eq!(found(&[("files.rs", near)]), []);
    }

    #[test]
    fn desks_that_use_each_other_form_no_cycle() {
        let back = ("files.rs", "use super::{calls, writers};");
        let circle = [
            ("calls.rs", "use super::models::ModelDesk;"),
            ("models/mod.rs", "type A = super::files::B;"),
            back,
        ];
        let cycle = "calls uses models uses files uses calls".to_owned();
        assert_eq!(found(&circle), [("desk-cycle", cycle)]);
        // Two that use a third, and a local variable with the name of a desk.
        let fan = [
            ("calls.rs", "use super::files::B;"),
            ("models.rs", "use super::files::B;"),
            ("files.rs", "fn f(calls: u8) -> u8 { calls }"),
        ];
        assert_eq!(found(&fan), []);
    }

    #[test]
    fn the_module_of_desks_re_exports_nothing() {
        let hides = [("desk-apart", "a `use` hides which desk is used".to_owned())];
        assert_eq!(found(&[("mod.rs", "mod files;\npub(super) use files::FilesDesk;")]), hides);
        assert_eq!(found(&[("mod.rs", "pub(super) mod files;")]), []);
    }
}
