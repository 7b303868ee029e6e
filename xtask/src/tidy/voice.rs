//! `cargo xtask voice`: collects every text that a user can read into one file, so that a reviewer can read the whole
//! voice of the program in one sitting. `cargo xtask tidy` fails if the file is out of date.
//!
//! The help comes from clap and the lines of the timeline from one example of each event, by way of the generated pages
//! of `docs/reference`. Messages are string literals of the sources that read like prose, and the texts of the page. The file has no line
//! numbers, so that only a change of a text changes it.

use std::fmt::Write;

use super::Breach;
use super::mask::{Prose, is_word};
use super::page_texts;
use super::source::Source;

/// The collected texts.
pub(crate) const FILE: &str = "tests/voice.txt";

const HEAD: &str = "\
Every text that a user can read, for reviewers. `cargo xtask voice` writes this file.
Texts for models (the crates `agent` and `tools`) are not listed: a replay compares them with the recorded ones.
";

/// Generated pages, whose lines belong to the voice.
const PAGES: &[(&str, &str)] = &[
    ("help", "docs/reference/verbs.md"),
    ("lines of the timeline", "docs/reference/timeline.md"),
    ("settings", "docs/reference/settings.md"),
    ("events", "docs/reference/events.md"),
    ("error codes", "docs/reference/errors.md"),
];

/// The crates whose texts reach users, those that say the most first.
const CRATES: &[&str] = &[
    "cli",
    "setup",
    "posse",
    "engine",
    "domain",
    "definitions",
    "workspace",
    "sandbox",
    "models",
    "files",
    "egress",
    "store",
];

/// Files whose texts are for models or for other programs.
const NOT_FOR_USERS: &[&str] =
    &["crates/definitions/src/builtin.rs", "crates/definitions/src/prompts", "crates/cli/src/help.rs"];

/// Calls, macros and attributes whose literals no user reads: panics, debug logs, and notes for the compiler.
const SILENT: &[&str] = &[
    "allow",
    "arg",
    "assert!",
    "assert_eq!",
    "cfg",
    "command",
    "concat!",
    "debug!",
    "debug_assert!",
    "error!",
    "expect",
    "expect_err",
    "info!",
    "panic!",
    "schemars",
    "serde",
    "trace!",
    "unreachable!",
    "warn!",
];

/// The content that the file must have.
pub(crate) fn collect(texts: &[(String, String)], sources: &[Source]) -> String {
    let mut voice = HEAD.to_owned();
    for (title, page) in PAGES {
        let lines = texts.iter().find(|(path, _)| path == page).map_or("", |(_, text)| text.as_str());
        push_section(&mut voice, title, &distinct(prose_of_page(lines)));
    }
    for owner in CRATES {
        let _ = write!(voice, "\n\n======== {owner}\n");
        let mut files: Vec<&Source> = sources.iter().filter(|source| speaks(source, owner)).collect();
        files.sort_by(|one, other| one.path.cmp(&other.path));
        for source in files {
            let messages = distinct(messages(source));
            if !messages.is_empty() {
                let file = source.path.split_once("/src/").map_or("", |(_, file)| file);
                let _ = write!(voice, "\n-- {file}\n{}\n", messages.join("\n"));
            }
        }
    }
    let _ = write!(voice, "\n\n======== page\n");
    for (path, text) in texts.iter().filter(|(path, _)| page_texts::is_source(path)) {
        let messages = distinct(page_texts::of(path, text, is_prose));
        if !messages.is_empty() {
            let file = path.split_once("/src/").map_or("", |(_, file)| file);
            let _ = write!(voice, "\n-- {file}\n{}\n", messages.join("\n"));
        }
    }
    voice
}

/// A breach if the file is out of date.
pub(crate) fn check(texts: &[(String, String)], sources: &[Source]) -> Option<Breach> {
    let published = texts.iter().find(|(path, _)| path == FILE).map_or("", |(_, text)| text.as_str());
    let current = collect(texts, sources);
    if published == current {
        return None;
    }
    let differs = current.lines().zip(published.lines()).find(|(now, then)| now != then);
    let found = differs.map_or("another length".to_owned(), |(now, _)| format!("`{now}` is not in it"));
    Some(Breach {
        place: FILE.to_owned(),
        rule: "voice",
        found,
        why: "reviewers read the texts for users in this file: `cargo xtask voice` updates it; review the diff",
    })
}

fn speaks(source: &Source, owner: &str) -> bool {
    source.path.starts_with(&format!("crates/{owner}/src/"))
        && !NOT_FOR_USERS.iter().any(|path| source.path.starts_with(path))
}

fn push_section(voice: &mut String, title: &str, lines: &[String]) {
    let _ = write!(voice, "\n\n======== {title}\n\n{}\n", lines.join("\n"));
}

/// The lines of a page with words. Options that several verbs share are listed once, by [`distinct`].
fn prose_of_page(page: &str) -> impl Iterator<Item = String> {
    let lines = page.lines().map(str::trim_end);
    lines.filter(|line| line.contains(char::is_alphabetic)).map(ToOwned::to_owned)
}

/// Each text once, where it is first.
fn distinct(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    texts.into_iter().filter(|text| seen.insert(text.trim().to_owned())).collect()
}

/// The literals of a file that read like prose, in order.
fn messages(source: &Source) -> Vec<String> {
    let literals = source.masked.prose.iter().filter(|(range, prose)| {
        *prose == Prose::Literal && !source.is_test(range.start) && !is_silent(source, range.start)
    });
    let texts = literals.filter_map(|(range, _)| content(&source.original[range.clone()]));
    texts.filter(|text| is_prose(text)).collect()
}

/// The text of a literal on one line: a backslash at the end of a line and the indentation after it are removed.
fn content(literal: &str) -> Option<String> {
    let open = literal.find('"').filter(|_| !literal.starts_with('\''))?;
    let close = literal.rfind('"').filter(|close| *close > open)?;
    let mut text = String::new();
    for (number, part) in literal[open + 1..close].split("\\\n").enumerate() {
        text.push_str(if number == 0 { part } else { part.trim_start() });
    }
    Some(text.replace("\\\"", "\"").replace('\n', "\\n"))
}

/// Whether a text has words between blanks. Names, formats and code have none.
fn is_prose(text: &str) -> bool {
    let is_sql =
        ["SELECT ", "INSERT ", "UPDATE ", "DELETE ", "CREATE ", "DROP ", "PRAGMA ", "BEGIN ", "WITH "]
            .iter()
            .any(|verb| text.trim_start().trim_start_matches("\\n").trim_start().starts_with(verb));
    let is_plain_word = |word: &str| {
        let word = word.trim_matches(|c: char| ".,:;!?()`'\"".contains(c));
        word.len() > 1 && word.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c == '\'')
    };
    !is_sql && text.trim().contains(' ') && text.split([' ', '\n']).any(is_plain_word)
}

/// Whether the innermost call, macro or attribute around a literal is one that no user reads.
fn is_silent(source: &Source, at: usize) -> bool {
    let code = &source.masked.code[..at];
    if code.ends_with('b') || code.trim_end().ends_with("reason =") {
        return true;
    }
    enclosing(code).is_some_and(|name| SILENT.contains(&name))
}

/// The name before the innermost bracket that is open at the end of the code, with the `!` of a macro.
fn enclosing(code: &str) -> Option<&str> {
    let mut depth = 0_usize;
    for (at, c) in code.char_indices().rev() {
        match c {
            ')' | ']' | '}' => depth += 1,
            '(' if depth == 0 => {
                let before = code[..at].trim_end();
                let start = before.trim_end_matches('!').trim_end_matches(is_word).len();
                return Some(&before[start..]);
            }
            '[' | '{' if depth == 0 => return None,
            '(' | '[' | '{' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: &str) -> Vec<String> {
        messages(&Source::new("crates/cli/src/a.rs", code))
    }

    #[test]
    fn messages_and_errors_are_collected_on_one_line_each() {
        let code = "#[error(\"run {0} has ended\")]\nstruct A;\nfn f() { print(&format!(\"no such \\\n    run\")); hint(\"say \\\"yes\\\" twice\"); }";
        assert_eq!(found(code), ["run {0} has ended", "no such run", "say \"yes\" twice"]);
    }

    #[test]
    fn panics_debug_logs_names_code_and_tests_are_not() {
        let code = "#[serde(rename = \"an old name\")]\nstruct A;\nfn f() { x.expect(\"it is never empty\"); debug!(\"the call ended\"); \
                    g(\"posse_home\", b\"some bytes here\", \"SELECT a from b\", \"{} {}\", 'a'); }\n#[cfg(test)]\nmod t { fn f() { g(\"text of a test\"); } }";
        assert_eq!(found(code), [""; 0]);
    }

    #[test]
    fn a_new_message_makes_the_file_out_of_date_and_a_new_line_of_code_does_not() {
        let source = |code| [Source::new("crates/cli/src/a.rs", code)];
        let published = collect(&[], &source("fn f() { g(\"one text\"); }"));
        let texts = [(FILE.to_owned(), published)];
        assert!(check(&texts, &source("\n\nfn f() {\n let x = 1; g(\"one text\"); }")).is_none());
        let breach = check(&texts, &source("fn f() { g(\"another text\"); }")).expect("a breach");
        assert_eq!(breach.found, "`another text` is not in it");
    }
}
