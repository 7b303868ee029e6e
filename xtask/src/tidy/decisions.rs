//! Checks that decision pages are reachable: each has a row in the index, the header of a module links to it, and no
//! link is dead.

use std::collections::BTreeSet;

use super::Breach;

const DIR: &str = "docs/decisions/";
const INDEX: &str = "docs/decisions/README.md";
/// Pages about the whole project, which belong to no single module.
const WITHOUT_A_MODULE: &[&str] = &["seed-differences"];
/// The required headings of a page.
const HEADINGS: &[&str] = &["Question", "Choice", "Price"];

pub(crate) fn check(texts: &[(String, String)]) -> Vec<Breach> {
    let pages: BTreeSet<&str> = texts.iter().filter_map(|(path, _)| page_of(path)).collect();
    let mut breaches = Vec::new();
    let index = texts.iter().find(|(path, _)| path == INDEX).map_or("", |(_, text)| text.as_str());
    let linked: BTreeSet<&str> = texts
        .iter()
        .filter(|(path, _)| super::is_rust(path))
        .flat_map(|(_, text)| text.lines().filter(|line| line.starts_with("//!")).flat_map(pages_named))
        .collect();
    for page in &pages {
        let place = format!("{DIR}{page}.md");
        if !index.contains(&format!("| [{page}]({page}.md) |")) {
            breaches.push(breach(
                &place,
                "it has no row in the index",
                "a page that is not listed is not read",
            ));
        }
        if !linked.contains(page) && !WITHOUT_A_MODULE.contains(page) {
            let why = "the reader of a surprising module must find out why it is like that";
            breaches.push(breach(&place, "no module header (`//!`) names it", why));
        }
    }
    for (path, text) in texts {
        for (number, line) in text.lines().enumerate() {
            for named in pages_named(line).filter(|named| !pages.contains(named) && *named != "README") {
                let place = format!("{path}:{}", number + 1);
                breaches.push(breach(
                    &place,
                    &format!("unknown page `{named}`"),
                    "a reader who follows a dead link finds nothing",
                ));
            }
        }
        if let Some(page) = page_of(path) {
            let lacks = HEADINGS.iter().filter(|heading| !has_heading(text, heading));
            breaches.extend(lacks.map(|heading| {
                let why = "a page says what was decided, what was chosen, and at what price";
                breach(&format!("{DIR}{page}.md"), &format!("it has no {heading}"), why)
            }));
        }
    }
    breaches
}

fn breach(place: &str, found: &str, why: &'static str) -> Breach {
    Breach { place: place.to_owned(), rule: "decision", found: found.to_owned(), why }
}

/// The name of a page, from its path.
fn page_of(path: &str) -> Option<&str> {
    path.strip_prefix(DIR)?.strip_suffix(".md").filter(|page| *page != "README")
}

/// The pages that a line names by their paths.
fn pages_named(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices(DIR)
        .filter_map(|(at, _)| {
            let rest = &line[at + DIR.len()..];
            rest.find(".md").map(|end| &rest[..end])
        })
        .filter(|page| page.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') && !page.is_empty())
}

fn has_heading(text: &str, heading: &str) -> bool {
    text.lines().any(|line| line == format!("## {heading}") || line.starts_with(&format!("**{heading}.**")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A\n\n**Question.** x\n\n**Choice.** y\n\n**Price.** z\n";

    /// Assembled here, so that this file names no page that does not exist.
    fn path_of(page: &str) -> String {
        format!("{DIR}{page}.md")
    }

    fn found(texts: &[(&str, &str)]) -> Vec<String> {
        let texts: Vec<_> =
            texts.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        check(&texts).into_iter().map(|breach| format!("{}: {}", breach.place, breach.found)).collect()
    }

    #[test]
    fn a_page_that_is_listed_and_linked_is_fine() {
        let page = path_of("store-epochs");
        let module = format!("//! See {page} for why.\n");
        let index = "| [store-epochs](store-epochs.md) | x |\n";
        let all = [(&*page, PAGE), (INDEX, index), ("crates/a/src/b.rs", &*module)];
        assert_eq!(found(&all), Vec::<String>::new());
    }

    #[test]
    fn a_page_without_a_row_or_a_link_is_a_breach_and_a_comment_below_the_header_is_no_link() {
        let page = path_of("store-epochs");
        let module = format!("// {page}\n");
        assert_eq!(
            found(&[(&*page, PAGE), ("crates/a/src/b.rs", &*module)]),
            [
                format!("{page}: it has no row in the index"),
                format!("{page}: no module header (`//!`) names it"),
            ]
        );
    }

    #[test]
    fn a_dead_link_is_a_breach_wherever_it_is() {
        let text = format!("see [why]({})", path_of("gone"));
        assert_eq!(found(&[("CHANGELOG.md", &*text)]), ["CHANGELOG.md:1: unknown page `gone`"]);
    }

    #[test]
    fn a_page_without_its_price_is_not_finished() {
        let page = PAGE.replace("Price", "Prize");
        let found = found(&[("docs/decisions/seed-differences.md", &page)]);
        assert!(
            found.contains(&"docs/decisions/seed-differences.md: it has no Price".to_owned()),
            "{found:?}"
        );
    }
}
