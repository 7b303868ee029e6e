//! The synonyms that GLOSSARY.md refuses: the words in bold in the last column of its tables. Many synonyms are right
//! elsewhere (a lock is not always a lease); those that are not are in bold, and this rule finds them in every
//! identifier, comment, message and page.

use std::collections::HashMap;

use super::Breach;
use super::absences::name_parts;
use super::mask::is_word;
use super::source::Source;

/// The page with the tables.
pub(crate) const PAGE: &str = "GLOSSARY.md";
pub(crate) const WHY: &str =
    "one word for one thing: GLOSSARY.md has the term in the first column of the row with this word";

/// The words in bold in the last column, such as `sub-task`.
pub(crate) fn synonyms(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for row in page.lines().filter(|line| line.starts_with('|')) {
        let last = row.trim_end().trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        // Between the first and the second pair of stars, and so on.
        found.extend(last.split("**").skip(1).step_by(2).map(|word| word.trim().to_lowercase()));
    }
    found
}

/// Identifiers with a synonym as one of their words, or two in sequence (`sub_task`). Plurals count.
pub(crate) fn check_names(source: &Source, synonyms: &[String]) -> Vec<Breach> {
    let code = source.masked.code.as_str();
    let mut breaches = Vec::new();
    // Most names occur often.
    let mut known: HashMap<&str, bool> = HashMap::new();
    let mut start = None;
    for (at, letter) in code.char_indices().chain([(code.len(), ' ')]) {
        match (start, is_word(letter)) {
            (None, true) => start = Some(at),
            (Some(from), false) => {
                let name = &code[from..at];
                if *known.entry(name).or_insert_with(|| has_synonym(name, synonyms)) {
                    let place = format!("{}:{}", source.path, source.line(from));
                    breaches.push(Breach { place, rule: "glossary", found: format!("`{name}`"), why: WHY });
                }
                start = None;
            }
            _ => {}
        }
    }
    breaches
}

fn has_synonym(name: &str, synonyms: &[String]) -> bool {
    let parts = name_parts(name);
    let is_same = |part: &String, word: &str| part == word || part.strip_suffix('s') == Some(word);
    synonyms.iter().any(|synonym| {
        let words: Vec<&str> = synonym.split(['-', ' ']).collect();
        parts
            .windows(words.len())
            .any(|parts| parts.iter().zip(&words).all(|(part, word)| is_same(part, word)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| term | meaning | not |\n|---|---|---|\n| agent | one **instance** | worker, **bot** |\n\
                         | child | an agent below another | **deputy**, **sub-task** |\n| rule | a pattern | |\n";

    #[test]
    fn the_words_in_bold_of_the_last_column_are_refused() {
        assert_eq!(synonyms(TABLE), ["bot", "deputy", "sub-task"]);
    }

    #[test]
    fn a_synonym_in_any_identifier_is_a_breach_and_a_longer_word_is_not() {
        let code =
            "struct SubTask { deputies: u8, bots: u8 }\nfn f(both: u8) { let robot = bottom.sub; task(); }";
        let found = check_names(&Source::new("crates/agent/src/a.rs", code), &synonyms(TABLE));
        let found: Vec<String> = found.into_iter().map(|breach| breach.found).collect();
        assert_eq!(found, ["`SubTask`", "`bots`"]);
    }

    #[test]
    fn the_page_refuses_some() {
        let page = std::fs::read_to_string(crate::command::root().join(PAGE)).unwrap();
        assert!(synonyms(&page).iter().any(|word| word == "deputy"));
    }
}
