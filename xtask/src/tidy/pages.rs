//! Checks that the pages for developers describe existing code: every named file exists, every crate has a row in the
//! code map, and every `Type::name` is in the sources.

use std::collections::HashSet;
use std::path::Path;

use super::Breach;
use super::mask::is_word;
use super::source::Source;

/// The pages whose file names and names of types are checked, and the folder of further ones.
const PAGES: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md"];
const DECISIONS: &str = "docs/decisions/";
/// The pages of which only the names of types are checked.
const MORE_PAGES: &[&str] = &["GLOSSARY.md"];
/// Files of users' projects, which this repository need not have.
const FILES_OF_PROJECTS: &[&str] = &["AGENTS.md"];
/// Types of the standard library and of dependencies, whose names are not in the sources.
const FOREIGN_TYPES: &[&str] =
    &["Arc", "Box", "Drop", "HashMap", "Instant", "Option", "Path", "Result", "String", "SystemTime", "Vec"];
/// The page with the code map.
const MAP: &str = "ARCHITECTURE.md";
/// Endings that make a word between backticks a file or a directory.
const ENDINGS: &[&str] = &[".rs", ".md", ".toml", "/"];

pub(crate) fn check(texts: &[(String, String)], sources: &[Source]) -> Vec<Breach> {
    let mut breaches = check_types(texts, sources);
    for (page, text) in texts.iter().filter(|(path, _)| is_page(path)) {
        for (number, line) in text.lines().enumerate() {
            let missing = named_files(line).filter(|named| !exists(named, texts));
            breaches.extend(missing.map(|named| Breach {
                place: format!("{page}:{}", number + 1),
                rule: "page-file",
                found: format!("`{named}` does not exist"),
                why: "a reader who looks for a file that was moved stops trusting the page",
            }));
        }
    }
    let map = texts.iter().find(|(path, _)| path == MAP).map_or("", |(_, text)| text.as_str());
    let without_row = texts.iter().filter_map(|(path, _)| crate_of(path));
    let without_row = without_row.filter(|name| !map.contains(&format!("| `{name}` |")));
    breaches.extend(without_row.map(|name| Breach {
        place: MAP.to_owned(),
        rule: "page-crate",
        found: format!("the code map has no row for `{name}`"),
        why: "the map is what a new developer reads first",
    }));
    breaches
}

/// Checks that both words of every `Type::name` are words of the code.
fn check_types(texts: &[(String, String)], sources: &[Source]) -> Vec<Breach> {
    let codes = sources.iter().map(|source| source.masked.code.as_str());
    let identifiers: HashSet<&str> = codes.flat_map(|code| code.split(|c| !is_word(c))).collect();
    let has_types = |path: &str| is_page(path) || MORE_PAGES.contains(&path);
    let mut breaches = Vec::new();
    for (page, text) in texts.iter().filter(|(path, _)| has_types(path)) {
        for (number, line) in text.lines().enumerate() {
            let missing = named_items(line).into_iter().filter(|(name, item)| {
                !(FOREIGN_TYPES.contains(name) || identifiers.contains(name) && identifiers.contains(item))
            });
            breaches.extend(missing.map(|(name, item)| Breach {
                place: format!("{page}:{}", number + 1),
                rule: "page-name",
                found: format!("`{name}::{item}` is not in the sources"),
                why: "a reader who looks for a name that was changed stops trusting the page",
            }));
        }
    }
    breaches
}

/// Whether it is a page for developers that describes the code as it is.
fn is_page(path: &str) -> bool {
    let is_markdown = Path::new(path).extension().is_some_and(|extension| extension == "md");
    PAGES.contains(&path) || (path.starts_with(DECISIONS) && is_markdown)
}

/// Every `Type::name` between backticks; a module (`posse::api`) is no type.
fn named_items(line: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for quoted in line.split('`').skip(1).step_by(2) {
        for path in quoted.split(|c| !is_word(c) && c != ':') {
            let segments: Vec<&str> = path.split("::").collect();
            let pairs = segments.windows(2).map(|pair| (pair[0], pair[1]));
            found.extend(
                pairs.filter(|(name, item)| name.starts_with(char::is_uppercase) && !item.is_empty()),
            );
        }
    }
    found
}

/// The name of the crate, if the path is its manifest.
fn crate_of(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")
}

/// Words between backticks that look like a file or a directory of the repository.
fn named_files(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter(|word| {
        let is_path = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
        // A name with only an ending is a kind of file, and a path from the root or home belongs to a user.
        let of_a_user =
            word.starts_with(['/', '.']) || word.starts_with("refs/") || FILES_OF_PROJECTS.contains(word);
        word.chars().all(is_path) && !of_a_user && ENDINGS.iter().any(|ending| word.ends_with(ending))
    })
}

/// Whether a file or directory has this path, or a path that ends with it: pages omit what their context names.
fn exists(named: &str, texts: &[(String, String)]) -> bool {
    let inner = format!("/{named}");
    texts.iter().any(|(path, _)| {
        if named.ends_with('/') {
            path.starts_with(named) || path.contains(&inner)
        } else {
            path == named || path.ends_with(&inner)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str) -> Vec<String> {
        let texts = [
            ("ARCHITECTURE.md", page),
            ("crates/store/Cargo.toml", ""),
            ("crates/store/src/sqlite/writer.rs", ""),
        ];
        let texts = texts.map(|(path, text)| (path.to_owned(), text.to_owned()));
        let code = "impl Writer { pub fn flush(&self) {} } // Writer::close";
        let sources = [Source::new("crates/store/src/sqlite/writer.rs", code)];
        check(&texts, &sources)
            .into_iter()
            .map(|breach| format!("{}: {}", breach.place, breach.found))
            .collect()
    }

    #[test]
    fn files_and_directories_that_exist_are_fine_however_short_their_names_are() {
        let page =
            "| `store` | `writer.rs`, `sqlite/writer.rs`, `crates/store/src/sqlite/`, `posse run`, `.git/` |";
        assert_eq!(found(page), Vec::<String>::new());
    }

    #[test]
    fn a_file_that_was_moved_is_a_breach_with_its_line() {
        assert_eq!(
            found("| `store` |\n`reader.rs` reads, `readers/` too"),
            ["ARCHITECTURE.md:2: `reader.rs` does not exist", "ARCHITECTURE.md:2: `readers/` does not exist"]
        );
    }

    #[test]
    fn a_name_that_only_ends_like_a_file_is_not_that_file() {
        assert_eq!(found("| `store` | `iter.rs` |"), ["ARCHITECTURE.md:1: `iter.rs` does not exist"]);
    }

    #[test]
    fn a_type_or_a_name_that_was_changed_is_a_breach_with_its_line() {
        assert_eq!(
            found("| `store` |\n`Writer::close` and `Reader::flush()`"),
            [
                "ARCHITECTURE.md:2: `Writer::close` is not in the sources",
                "ARCHITECTURE.md:2: `Reader::flush` is not in the sources"
            ]
        );
    }

    #[test]
    fn names_of_the_sources_modules_and_foreign_types_are_fine() {
        let page = "| `store` | `Writer::flush(text)`, `store::missing`, `Vec::drain`, Writer::close |";
        assert_eq!(found(page), Vec::<String>::new());
    }

    #[test]
    fn decisions_and_the_glossary_are_checked_and_other_pages_are_not() {
        let breaches = |path: &str| {
            let texts = [(path.to_owned(), "`Writer::close`, `reader.rs`, `AGENTS.md`".to_owned())];
            check(&texts, &[]).into_iter().map(|breach| breach.rule).collect::<Vec<_>>()
        };
        assert_eq!(breaches("docs/decisions/view-read-model.md"), ["page-name", "page-file"]);
        assert_eq!(breaches("GLOSSARY.md"), ["page-name"], "its words name files of users, too");
        assert_eq!(breaches("CHANGELOG.md"), [""; 0], "it names what was removed");
    }

    #[test]
    fn a_crate_without_a_row_is_a_breach() {
        assert_eq!(found("no map"), ["ARCHITECTURE.md: the code map has no row for `store`"]);
    }
}
