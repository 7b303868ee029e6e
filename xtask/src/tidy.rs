//! `cargo xtask tidy`: checks the rules of the architecture that the compiler cannot check.
//!
//! Layers come from the manifests, everything else from a scan of the files that git knows or would add. All breaches
//! are reported at once, each with its position and its reason: a rule without a reason gets worked around instead of
//! followed.

mod absences;
mod decisions;
mod desks;
mod glossary;
mod layers;
mod mask;
mod modules;
mod names;
mod page_texts;
mod pages;
mod shape;
mod source;
mod texts;
mod voice;
mod words;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use self::source::Source;
use crate::command::{capture, metadata, root};
use crate::{Failure, Outcome};

/// One breach of a rule.
struct Breach {
    /// `file:line`, a file, or a crate.
    place: String,
    rule: &'static str,
    found: String,
    why: &'static str,
}

/// What the rules check.
struct Project {
    /// Path and content of every text file.
    texts: Vec<(String, String)>,
    /// The Rust files among them.
    sources: Vec<Source>,
    metadata: Value,
    /// Breaches of the rule that each Rust file belongs to a target, which is checked while test code is marked.
    unreached: Vec<Breach>,
}

impl Project {
    fn read() -> Result<Self, Failure> {
        let metadata = self::metadata(&["--no-deps"])?;
        let texts = texts_of_the_project()?;
        let rust = texts.iter().filter(|(path, _)| is_rust(path));
        let mut sources: Vec<Source> = rust.map(|(path, text)| Source::new(path, text)).collect();
        let workspace = metadata["workspace_root"].as_str().unwrap_or_default();
        let mut targets = modules::targets(&metadata, workspace);
        // A separate workspace.
        let fuzz = self::metadata(&["--no-deps", "--manifest-path", crate::fuzz::MANIFEST])?;
        targets.extend(modules::targets(&fuzz, workspace));
        let unreached = modules::check(&targets, &mut sources);
        Ok(Self { texts, sources, metadata, unreached })
    }
}

/// `cargo xtask voice`: writes the file with all texts for users.
pub(crate) fn write_voice(_: &[String]) -> Outcome {
    let project = Project::read()?;
    let voice = voice::collect(&project.texts, &project.sources);
    std::fs::write(root().join(voice::FILE), &voice)
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", voice::FILE)))?;
    println!("{}: {} lines, {} words", voice::FILE, voice.lines().count(), voice.split_whitespace().count());
    Ok(())
}

pub(crate) fn run(_: &[String]) -> Outcome {
    let Project { texts, sources, metadata, unreached } = Project::read()?;
    let mut breaches = layers::check(&metadata);
    breaches.extend(unreached);
    breaches.extend(sources.iter().flat_map(absences::check));
    breaches.extend(sources.iter().flat_map(shape::check));
    breaches.extend(sources.iter().flat_map(names::check));
    breaches.extend(texts.iter().flat_map(|(path, text)| texts::check(path, text)));
    let page = texts.iter().find(|(path, _)| path == glossary::PAGE).map_or("", |(_, text)| text);
    let synonyms = glossary::synonyms(page);
    breaches.extend(sources.iter().flat_map(|source| glossary::check_names(source, &synonyms)));
    breaches.extend(sources.iter().flat_map(|source| words::check_rust(source, &synonyms)));
    breaches.extend(texts.iter().flat_map(|(path, text)| words::check_markdown(path, text, &synonyms)));
    let of_the_page = texts.iter().filter(|(path, _)| page_texts::is_source(path));
    breaches.extend(of_the_page.flat_map(|(path, text)| words::check_page(path, text, &synonyms)));
    breaches.extend(decisions::check(&texts));
    breaches.extend(pages::check(&texts, &sources));
    breaches.extend(desks::check(&sources));
    breaches.extend(voice::check(&texts, &sources));

    if breaches.is_empty() {
        println!("{} files, {} of them Rust: nothing to tidy", texts.len(), sources.len());
        return Ok(());
    }
    Err(Failure::new(report(&breaches)))
}

/// Grouped by rule, so that each reason is printed once.
fn report(breaches: &[Breach]) -> String {
    let mut lines = vec![format!("{} breaches", breaches.len())];
    let rules: BTreeSet<(&str, &str)> = breaches.iter().map(|breach| (breach.rule, breach.why)).collect();
    for (rule, why) in rules {
        lines.push(format!("\n{rule}: {why}"));
        let its = breaches.iter().filter(|breach| (breach.rule, breach.why) == (rule, why));
        lines.extend(its.map(|breach| format!("  {}: {}", breach.place, breach.found)));
    }
    lines.join("\n")
}

/// Path and content of every text file that is tracked, or new and not ignored: what is about to be committed counts
/// too. Files that are not UTF-8 are not text.
fn texts_of_the_project() -> Result<Vec<(String, String)>, Failure> {
    let list = capture(
        Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root()),
    )?;
    let paths: BTreeSet<&str> = list.split('\0').filter(|path| !path.is_empty()).collect();
    // A tracked file may be gone from the tree, or be a link to a folder.
    let read =
        |path: &str| std::fs::read(root().join(path)).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    Ok(paths.into_iter().filter_map(|path| Some((path.to_owned(), read(path)?))).collect())
}

fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_each_reason_once_above_its_places() {
        let breach =
            |place: &str, rule, why| Breach { place: place.to_owned(), rule, found: "`x`".to_owned(), why };
        let breaches = [
            breach("b.rs:1", "two", "why two"),
            breach("a.rs:1", "one", "why one"),
            breach("c.rs:9", "two", "why two"),
        ];
        assert_eq!(
            report(&breaches),
            "3 breaches\n\none: why one\n  a.rs:1: `x`\n\ntwo: why two\n  b.rs:1: `x`\n  c.rs:9: `x`"
        );
    }

    #[test]
    fn the_project_knows_its_own_files() {
        let texts = texts_of_the_project().unwrap();
        assert!(texts.iter().any(|(path, _)| path == "xtask/src/tidy.rs"));
    }
}
