//! Checks that the parts of the driver call each other in one direction.
//!
//! The desks are separate: none of them knows the driver, and desks that use each other form no cycle. A desk reaches
//! another one only by the name of its module, because a desk that does not know the driver cannot call back through it
//! and the module `desks` re-exports nothing. So the named modules are all possible calls. The same holds for the core,
//! which knows neither the driver nor the inside of a desk.
//!
//! The driver's own methods are in several files. A file that calls a method of another one is above it, and no file is
//! above itself.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::Breach;
use super::mask::is_word;
use super::source::{Source, words};

const DIR: &str = "crates/engine/src/driver/desks/";
const DRIVER_DIR: &str = "crates/engine/src/driver/";
const DRIVER: &str = "Driver";
/// The files that desks use.
const CORE: [&str; 8] = [
    "committing.rs",
    "core.rs",
    "effects.rs",
    "ready.rs",
    "replaying.rs",
    "session.rs",
    "workspace_retry.rs",
    "desks/mod.rs",
];

const WHY_APART: &str = "what a desk changes is in its file only if it cannot reach the driver";
const WHY_ORDERED: &str = "desks that call each other in a circle are one object in several files";
const WHY_LAYERED: &str =
    "methods of the driver whose files call each other in a circle can only be understood all at once";

pub(crate) fn check(sources: &[Source]) -> Vec<Breach> {
    let files: Vec<(&str, &Source)> =
        sources.iter().filter_map(|source| Some((desk_of(source)?, source))).collect();
    let core = sources
        .iter()
        .filter(|source| source.path.strip_prefix(DRIVER_DIR).is_some_and(|inside| CORE.contains(&inside)));
    let apart =
        files.iter().map(|(_, source)| *source).filter(|source| !source.path.ends_with("desks/mod.rs"));
    let mut breaches: Vec<Breach> = apart.chain(core).filter_map(reaches_driver).collect();
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
    breaches.extend(cycle(&method_uses(sources)).map(|cycle| Breach {
        place: DRIVER_DIR.to_owned(),
        rule: "driver-cycle",
        found: cycle.join(" calls "),
        why: WHY_LAYERED,
    }));
    breaches
}

/// Which files with methods of the driver call methods of which others.
fn method_uses(sources: &[Source]) -> BTreeMap<&str, BTreeSet<&str>> {
    let files: Vec<(&str, &Source, Vec<Range<usize>>)> = sources
        .iter()
        .filter_map(|source| {
            let name = source.path.strip_prefix(DRIVER_DIR)?.strip_suffix(".rs")?;
            (!name.contains('/')).then(|| (name, source, impl_blocks(&source.masked.code)))
        })
        .collect();
    let mut defined: BTreeMap<&str, &str> = BTreeMap::new();
    for (file, source, blocks) in &files {
        let methods = source.declarations(&["fn"]);
        let methods = methods.iter().filter(|method| blocks.iter().any(|block| block.contains(&method.at)));
        defined.extend(methods.map(|method| (method.name, *file)));
    }
    let mut uses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (file, source, blocks) in &files {
        let code = blocks.iter().map(|block| &source.masked.code[block.clone()]);
        let called = code.flat_map(called_methods).filter_map(|method| defined.get(method).copied());
        uses.entry(file).or_default().extend(called.filter(|other| other != file));
    }
    uses
}

/// The positions of the driver's methods: from `impl Driver` to the brace at the beginning of a line.
fn impl_blocks(code: &str) -> Vec<Range<usize>> {
    let starts = code.match_indices("\nimpl Driver {");
    starts.map(|(at, _)| at..code[at..].find("\n}").map_or(code.len(), |end| at + end)).collect()
}

/// The names in `self.name(` and `Self::name(`.
fn called_methods(code: &str) -> impl Iterator<Item = &str> {
    let after = |receiver: &'static str| {
        let receivers = words(code, receiver.trim_end_matches(['.', ':']));
        receivers.filter_map(move |at| code[at..].strip_prefix(receiver))
    };
    after("self.").chain(after("Self::")).filter_map(|rest| {
        let end = rest.find(|c| !is_word(c))?;
        rest[end..].starts_with('(').then_some(&rest[..end])
    })
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

/// A cycle, from one desk back to itself.
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
        // A comment, a longer word and a test do not count as a use.
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
    fn what_desks_use_does_not_know_the_driver() {
        let breach = [("desk-apart", "it names `Driver`".to_owned())];
        let core = Source::new(&format!("{DRIVER_DIR}core.rs"), "struct Core { driver: Box<Driver> }");
        let breaches: Vec<_> = check(&[core]).into_iter().map(|breach| (breach.rule, breach.found)).collect();
        assert_eq!(breaches, breach);
    }

    #[test]
    fn files_with_methods_of_the_driver_form_no_cycle() {
        let file = |name: &str, text: &str| Source::new(&format!("{DRIVER_DIR}{name}.rs"), text);
        let ending =
            "use super::Driver;\n\nimpl Driver {\n    fn end(&mut self) {\n        self.start();\n    }\n}\n";
        let starting = "use super::Driver;\n\nimpl Driver {\n    fn start(&mut self) {\n        Self::check();\n    }\n}\n";
        let check_calls = |calls: &str| {
            let checking = format!("\nimpl Driver {{\n    fn check() {{\n        {calls}\n    }}\n}}\n");
            let sources = [file("ending", ending), file("starting", starting), file("checking", &checking)];
            check(&sources).into_iter().map(|breach| (breach.rule, breach.found)).collect::<Vec<_>>()
        };
        let circle = "checking calls starting calls checking".to_owned();
        assert_eq!(check_calls("self.start();"), [("driver-cycle", circle)]);
        // A method of a desk with the same name, and a function of another impl.
        assert_eq!(check_calls("self.models.start(); start();"), []);
    }

    #[test]
    fn the_module_of_desks_re_exports_nothing() {
        let hides = [("desk-apart", "a `use` hides which desk is used".to_owned())];
        assert_eq!(found(&[("mod.rs", "mod files;\npub(super) use files::FilesDesk;")]), hides);
        assert_eq!(found(&[("mod.rs", "pub(super) mod files;")]), []);
    }
}
