//! Checks for words that GLOSSARY.md replaces, in comments, string literals and Markdown.
//!
//! Only words that are nearly never right are listed. A text about one of them, or one where it is right, gets a row in
//! [`ALLOWED`] with the reason.

use std::collections::HashMap;
use std::path::Path;

use super::Breach;
use super::glossary;
use super::mask::Prose;
use super::source::Source;

/// A word or phrase, and its replacement.
struct ForbiddenWord<'a> {
    phrase: &'a str,
    instead: &'static str,
}

const NAME_THE_SUBJECT: &str = "name the subject (no process, another agent, each caller, the user): a reader must not have to guess who is meant";
const REPORT: &str = "write report, notify, record, show or state, with the subject that does it";
const RUN: &str =
    "write execute, run, hold, contain or send: \"carry\" means all of them here and names none";
const NOTIFY: &str = "write notify, receive or read";
const CONTINUE: &str = "write continue or proceed";

const FORBIDDEN: &[ForbiddenWord<'static>] = &[
    ForbiddenWord { phrase: "nobody", instead: NAME_THE_SUBJECT },
    ForbiddenWord { phrase: "somebody", instead: NAME_THE_SUBJECT },
    ForbiddenWord { phrase: "anybody", instead: NAME_THE_SUBJECT },
    ForbiddenWord { phrase: "everybody", instead: NAME_THE_SUBJECT },
    ForbiddenWord { phrase: "whoever", instead: NAME_THE_SUBJECT },
    ForbiddenWord { phrase: "told", instead: REPORT },
    ForbiddenWord { phrase: "carry", instead: RUN },
    ForbiddenWord { phrase: "carries", instead: RUN },
    ForbiddenWord { phrase: "carried", instead: RUN },
    ForbiddenWord { phrase: "hear", instead: NOTIFY },
    ForbiddenWord { phrase: "hears", instead: NOTIFY },
    ForbiddenWord { phrase: "heard", instead: NOTIFY },
    ForbiddenWord { phrase: "mend", instead: "write fix" },
    ForbiddenWord { phrase: "mends", instead: "write fix" },
    ForbiddenWord { phrase: "mended", instead: "write fix" },
    ForbiddenWord { phrase: "left out", instead: "write omitted or skipped" },
    ForbiddenWord { phrase: "go on", instead: CONTINUE },
    ForbiddenWord { phrase: "goes on", instead: CONTINUE },
    ForbiddenWord { phrase: "went on", instead: CONTINUE },
    ForbiddenWord { phrase: "what it made", instead: "write its changes" },
];

const FOR_MODELS: &str = "a text for models: a replay compares it with the recorded one";

const A_FIELD_OF_THE_API: &str = "the name of a field, which programs read";

/// Where a word may be used: the path or its prefix, the word (or `*` for all), and why.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("GLOSSARY.md", "*", "its last column lists the words to avoid"),
    ("xtask/src/tidy/words.rs", "*", "this list"),
    ("xtask/src/tidy/names.rs", "*", "lists names that no type may have"),
    (
        "docs/delegation.md",
        "*",
        "has the descriptions of tools and events, which tests compare with the code",
    ),
    ("docs/reference/tools.md", "*", "generated from the descriptions of tools, which are texts for models"),
    ("crates/testkit/src/scenario.rs", "*", "replies and prompts of scripted models"),
    ("crates/agent/src/conversation.rs", "left out", FOR_MODELS),
    ("crates/agent/src/machine/condense.rs", "left out", FOR_MODELS),
    ("crates/agent/src/notes.rs", "go on", FOR_MODELS),
    ("crates/agent/src/prompts/listing.rs", "carried", FOR_MODELS),
    ("crates/agent/src/prompts/skill_text.rs", "left out", FOR_MODELS),
    ("crates/agent/src/prompts/system_prompt", "*", FOR_MODELS),
    ("crates/definitions/src/prompts/", "*", FOR_MODELS),
    ("crates/tools/src/bash.rs", "left out", FOR_MODELS),
    ("crates/tools/src/change.rs", "somebody", FOR_MODELS),
    ("crates/tools/src/delegate_to_agent.md", "*", FOR_MODELS),
    ("crates/tools/src/grep.md", "left out", FOR_MODELS),
    ("crates/tools/src/list.rs", "left out", FOR_MODELS),
    ("crates/tools/src/read", "go on", FOR_MODELS),
    ("crates/tools/src/skill.md", "*", FOR_MODELS),
    ("crates/tools/src/task", "*", FOR_MODELS),
    ("crates/tools/src/webfetch", "*", FOR_MODELS),
    ("crates/tools/src/websearch.rs", "go on", FOR_MODELS),
    ("crates/tools/src/write.md", "nobody", FOR_MODELS),
    ("crates/posse/src/secrets.rs", "left out", "a mark in bundles, which readers look for"),
    ("crates/posse/src/secrets/shapes.rs", "face", "Hugging Face is the name of a company"),
    ("crates/sandbox/src/init/foreign_mounts.rs", "nobody", "the name of a user of the system"),
    ("web/src/views/agent/Composer.svelte", "carried", A_FIELD_OF_THE_API),
    ("web/src/views/inbox/QuestionCard.svelte", "carried", A_FIELD_OF_THE_API),
];

/// Markdown below these is input of tests: files of other programs, and prompts.
const FIXTURES: &[&str] = &["tests/", "/tests/"];

/// Breaches in a Rust file; `synonyms` are those of the glossary.
pub(crate) fn check_rust(source: &Source, synonyms: &[String]) -> Vec<Breach> {
    // Strings of tests are input and quotations, so only their comments are checked.
    let is_prose = |at: usize, prose: Prose| prose == Prose::Comment || !source.is_test(at);
    let spans = source.masked.prose.iter().filter(|(range, prose)| is_prose(range.start, *prose));
    let mut words: Vec<Word<'_>> = Vec::new();
    let mut last_end = 0;
    for (range, prose) in spans {
        // The next line of a comment continues its sentence.
        let is_next_line =
            *prose == Prose::Comment && source.original[last_end..range.start].trim().is_empty();
        words.extend(words_of(&source.original[range.clone()], range.start, !is_next_line));
        last_end = range.end;
    }
    check(&source.path, &words, synonyms, |at| source.line(at))
}

pub(crate) fn check_markdown(path: &str, text: &str, synonyms: &[String]) -> Vec<Breach> {
    let is_fixture = FIXTURES.iter().any(|dir| path.starts_with(dir) || path.contains(dir));
    let is_markdown = Path::new(path).extension().is_some_and(|extension| extension == "md");
    if !is_markdown || is_fixture {
        return Vec::new();
    }
    check(path, &words_of(text, 0, true), synonyms, |at| text[..at].matches('\n').count() + 1)
}

/// Breaches in a source of the page: in its comments and in what users read. Its names are words too.
pub(crate) fn check_page(path: &str, text: &str, synonyms: &[String]) -> Vec<Breach> {
    check(path, &words_of(text, 0, true), synonyms, |at| text[..at].matches('\n').count() + 1)
}

fn check(path: &str, words: &[Word<'_>], synonyms: &[String], line: impl Fn(usize) -> usize) -> Vec<Breach> {
    let is_allowed = |phrase: &str| {
        ALLOWED.iter().any(|(place, word, _)| path.starts_with(place) && (*word == "*" || *word == phrase))
    };
    let of_glossary = synonyms.iter().map(|phrase| ForbiddenWord { phrase, instead: glossary::WHY });
    let own = FORBIDDEN.iter().map(|word| ForbiddenWord { phrase: word.phrase, instead: word.instead });
    let all = own.chain(of_glossary).filter(|forbidden| !is_allowed(forbidden.phrase));
    // By their first word, because each word of the project is looked up.
    let mut by_first: HashMap<&str, Vec<(Vec<&str>, ForbiddenWord<'_>)>> = HashMap::new();
    for forbidden in all {
        let parts: Vec<&str> = forbidden.phrase.split([' ', '-']).collect();
        by_first.entry(parts[0]).or_default().push((parts, forbidden));
    }
    let mut breaches = Vec::new();
    for (at, first) in words.iter().enumerate() {
        for (parts, forbidden) in by_first.get(first.text.to_ascii_lowercase().as_str()).into_iter().flatten()
        {
            if words.get(at..at + parts.len()).is_some_and(|found| is_phrase(found, parts)) {
                breaches.push(Breach {
                    place: format!("{path}:{}", line(first.at)),
                    rule: "forbidden-word",
                    found: format!("`{}`", forbidden.phrase),
                    why: forbidden.instead,
                });
            }
        }
    }
    breaches
}

/// A word of a text, where it begins, and whether a full stop or the like separates it from the word before.
struct Word<'a> {
    text: &'a str,
    at: usize,
    begins: bool,
}

fn is_phrase(found: &[Word<'_>], parts: &[&str]) -> bool {
    let same = found.iter().zip(parts).all(|(word, part)| word.text.eq_ignore_ascii_case(part));
    same && !found[1..].iter().any(|word| word.begins)
}

/// The words of a text without code in backticks. A phrase may span lines, so slashes, stars and backslashes at the
/// ends of lines separate nothing.
fn words_of(text: &str, offset: usize, begins: bool) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let (mut in_code, mut begins, mut start) = (false, begins, None);
    for (at, letter) in text.char_indices().chain([(text.len(), '\n')]) {
        let is_letter = letter.is_alphanumeric() || letter == '_' || letter == '\'';
        match (start, is_letter) {
            (None, true) => start = Some(at),
            (Some(from), false) => {
                if !in_code {
                    words.push(Word { text: &text[from..at], at: offset + from, begins });
                }
                (start, begins) = (None, false);
            }
            _ => {}
        }
        match letter {
            '`' => (in_code, begins) = (!in_code, true),
            // A lone backtick must not hide the rest of the file.
            '\n' => in_code = false,
            ' ' | '/' | '!' | '\\' | '*' | '>' => {}
            _ if is_letter => {}
            _ => begins = true,
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_rust(path: &str, code: &str) -> Vec<String> {
        check_rust(&Source::new(path, code), &["deputy".to_owned()])
            .into_iter()
            .map(|breach| breach.place)
            .collect()
    }

    #[test]
    fn a_forbidden_word_in_a_comment_or_a_string_is_a_breach() {
        let code = "/// Nobody reads it.\nfn f() {\n    // It goes\n    // on.\n    g(\"the user is \\\n       told\");\n}";
        assert_eq!(
            in_rust("crates/agent/src/a.rs", code),
            ["crates/agent/src/a.rs:1", "crates/agent/src/a.rs:3", "crates/agent/src/a.rs:6"]
        );
    }

    #[test]
    fn a_synonym_of_the_glossary_is_a_breach_too() {
        let code = "/// A deputy.\nfn f() { g(\"the deputy of `deputy`\"); }";
        assert_eq!(
            in_rust("crates/agent/src/a.rs", code),
            ["crates/agent/src/a.rs:1", "crates/agent/src/a.rs:2"]
        );
    }

    #[test]
    fn code_quoted_code_and_other_words_are_fine() {
        let code = "//! The user `nobody`. Let go. On it goes; untold.\nfn told(nobody: u8) {}";
        assert_eq!(in_rust("crates/agent/src/a.rs", code), [""; 0]);
    }

    #[test]
    fn strings_of_tests_are_input_and_their_comments_are_not() {
        let code = "#[cfg(test)]\nmod tests {\n    // nobody\n    fn t() { f(\"nobody\"); }\n}";
        assert_eq!(in_rust("crates/agent/src/a.rs", code), ["crates/agent/src/a.rs:3"]);
    }

    #[test]
    fn markdown_is_checked_unless_it_is_a_fixture() {
        let places = |path| check_markdown(path, "Fine.\nIt is left\nout.", &[]).len();
        assert_eq!((places("README.md"), places("docs/a.md"), places("tests/b.md")), (1, 1, 0));
        assert_eq!((places("crates/definitions/tests/corpus/c.md"), places("README.txt")), (0, 0));
    }

    #[test]
    fn an_allowed_place_is_no_breach() {
        assert_eq!(check_markdown("GLOSSARY.md", "nobody", &[]).len(), 0);
    }
}
