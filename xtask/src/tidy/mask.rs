//! Rust source with its comments, or its comments and literals, blanked out.
//!
//! Rules check code, and docs must be free to name what code may not. Blanking keeps every offset and line, so a
//! finding in the masked text has the same position in the file. This is a lexer for the few tokens that can hide
//! others (comments, strings, characters), not a parser.

use std::ops::Range;

/// The kind of a prose span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prose {
    Comment,
    Literal,
}

/// The two views of one file; both have the length of the original.
pub(crate) struct MaskedSource {
    /// Without comments and without the contents of string and character literals.
    pub(crate) code: String,
    /// Without comments only, for names that are forbidden even in a string.
    pub(crate) text: String,
    /// The ranges of comments and literals.
    pub(crate) prose: Vec<(Range<usize>, Prose)>,
}

pub(crate) fn mask(source: &str) -> MaskedSource {
    let mut code = source.as_bytes().to_vec();
    let mut text = code.clone();
    let mut prose = Vec::new();
    let mut at = 0;
    while at < source.len() {
        let Some((kind, end)) = hidden(source, at) else {
            at += char_len(source, at);
            continue;
        };
        blank(&mut code[at..end]);
        if kind == Prose::Comment {
            blank(&mut text[at..end]);
        }
        prose.push((at..end, kind));
        at = end;
    }
    // Whole characters were replaced by ASCII, so both are still UTF-8.
    MaskedSource {
        code: String::from_utf8_lossy(&code).into_owned(),
        text: String::from_utf8_lossy(&text).into_owned(),
        prose,
    }
}

/// If a comment or literal begins at `at`: its kind, and its end.
fn hidden(source: &str, at: usize) -> Option<(Prose, usize)> {
    let rest = &source[at..];
    if rest.starts_with("//") {
        return Some((Prose::Comment, at + rest.find('\n').unwrap_or(rest.len())));
    }
    if rest.starts_with("/*") {
        return Some((Prose::Comment, at + block_comment_len(rest)));
    }
    if rest.starts_with('"') {
        return Some((Prose::Literal, at + quoted_len(rest, '"')));
    }
    if rest.starts_with('\'') {
        return char_literal_len(rest).map(|len| (Prose::Literal, at + len));
    }
    let begins_word = !source[..at].ends_with(is_word);
    if begins_word {
        return raw_string_len(rest).map(|len| (Prose::Literal, at + len));
    }
    None
}

/// Block comments nest in Rust.
fn block_comment_len(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let (mut depth, mut at) = (0_usize, 0);
    while at < bytes.len() {
        match &bytes[at..(at + 2).min(bytes.len())] {
            b"/*" => {
                depth += 1;
                at += 2;
            }
            b"*/" => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of a literal in `quote`s, quotes included; a backslash escapes the next character.
fn quoted_len(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (offset, c) in rest.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return offset + 1;
        }
    }
    rest.len()
}

/// `'a'` and `'\n'` are characters; `'a` is a lifetime.
fn char_literal_len(rest: &str) -> Option<usize> {
    let mut after = rest.chars().skip(1);
    let (first, second) = (after.next()?, after.next());
    (first == '\\' || second == Some('\'')).then(|| quoted_len(rest, '\''))
}

/// `r"…"`, `r#"…"#` and their byte and C forms. `r#type` is an identifier.
fn raw_string_len(rest: &str) -> Option<usize> {
    let body = ["r", "br", "cr"].iter().find_map(|prefix| rest.strip_prefix(prefix))?;
    let hashes = body.bytes().take_while(|byte| *byte == b'#').count();
    let inner = body[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let end = inner.find(&close).map_or(inner.len(), |found| found + close.len());
    Some(rest.len() - inner.len() + end)
}

fn blank(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().filter(|byte| **byte != b'\n') {
        *byte = b' ';
    }
}

fn char_len(source: &str, at: usize) -> usize {
    source[at..].chars().next().map_or(1, char::len_utf8)
}

/// Whether a character can be part of an identifier.
pub(crate) fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(source: &str) -> String {
        let masked = mask(source);
        assert_eq!(masked.code.len(), source.len(), "offsets moved");
        assert_eq!(masked.text.len(), source.len(), "offsets moved");
        masked.code.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_vanish_and_code_stays() {
        assert_eq!(code("a // b\n/* c /* d */ e */ f"), "a f");
        assert_eq!(code("/// doc\nfn x() {}"), "fn x() {}");
        assert_eq!(code("a /* open"), "a");
    }

    #[test]
    fn literals_vanish_from_code_but_not_from_text() {
        assert_eq!(code(r#"say("hi \" // no comment") + 1"#), "say( ) + 1");
        assert_eq!(code(r##"say(r#"a "quoted" b"#) + br"x" + 1"##), "say( ) + + 1");
        let masked = mask("f(\"SELECT\") // SELECT");
        assert!(masked.text.contains("SELECT") && masked.text.trim_end().ends_with(')'));
    }

    #[test]
    fn characters_are_literals_and_lifetimes_are_not() {
        assert_eq!(code("f('\"', '\\'', 'é') g"), "f( , , ) g");
        assert_eq!(code("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
    }

    #[test]
    fn raw_identifiers_are_code() {
        assert_eq!(code("r#type + for_r + 1"), "r#type + for_r + 1");
    }

    #[test]
    fn lines_stay_where_they_were() {
        let masked = mask("/* one\ntwo */ three\n\"four\nfive\" six");
        assert_eq!(masked.code.lines().count(), 4);
        assert!(masked.code.lines().nth(1).unwrap().ends_with("three"));
    }
}
