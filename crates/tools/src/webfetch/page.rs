//! Converts a server's response to text.
//!
//! Why it is like this: `docs/decisions/webfetch-html.md`.

use posse_egress::Answer;
use posse_files::is_binary;
use thiserror::Error;

use super::charset;
use super::limits::{PageLimit, Stop};
use super::markdown;

/// Maximum length of a content type in a message.
const KIND_MAX_CHARS: usize = 100;

/// Text types that do not begin with `text/`.
const TEXT_TYPES: [&str; 12] = [
    "application/json",
    "application/xml",
    "application/javascript",
    "application/ecmascript",
    "application/x-javascript",
    "application/x-ndjson",
    "application/jsonl",
    "application/yaml",
    "application/x-yaml",
    "application/toml",
    "application/x-sh",
    "application/sql",
];

#[derive(Debug)]
pub(super) struct Page {
    pub(super) kind: String,
    pub(super) title: Option<String>,
    pub(super) text: String,
}

/// Why a page is not shown.
#[derive(Debug, PartialEq, Eq, Error)]
pub(super) enum NotShown {
    #[error("it is a PDF document ({bytes} bytes), which cannot be read yet; look for an HTML version")]
    Pdf { bytes: usize },
    #[error("it is not text ({kind}, {bytes} bytes), and only text can be shown")]
    NotText { kind: String, bytes: usize },
    #[error("{0}")]
    Beyond(#[from] PageLimit),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PageType {
    Html,
    Text,
    Pdf,
    Unsaid,
    Other,
}

/// Converts a response to text.
pub(super) fn read(answer: &Answer, stop: &Stop) -> Result<Page, NotShown> {
    let said = answer.content_type.as_deref().unwrap_or_default();
    let (kind_text, parameters) = said.split_once(';').unwrap_or((said, ""));
    let kind_text = kind_text.trim().to_ascii_lowercase();
    let bytes = answer.body.as_slice();
    let shown = match kind_text.as_str() {
        "" => "not said".to_owned(),
        kind => clean(&kind.chars().take(KIND_MAX_CHARS).collect::<String>()),
    };
    let not_text = || NotShown::NotText { kind: shown.clone(), bytes: bytes.len() };
    let kind = match type_of(&kind_text) {
        _ if bytes.starts_with(b"%PDF-") => PageType::Pdf,
        PageType::Unsaid if looks_like_html(bytes) => PageType::Html,
        PageType::Unsaid => PageType::Text,
        kind => kind,
    };
    if kind == PageType::Pdf {
        return Err(NotShown::Pdf { bytes: bytes.len() });
    }
    let text = charset::decode(bytes, parameters, kind == PageType::Html);
    // Text has no NUL, whatever its declared type. (UTF-16 is already decoded here.)
    if kind == PageType::Other || is_binary(text.as_bytes()) {
        return Err(not_text());
    }
    if kind == PageType::Html {
        let (title, text) = markdown::convert(&text, answer.target.as_str(), stop)?;
        let title = title.map(|title| clean(&title).split_whitespace().collect::<Vec<_>>().join(" "));
        return Ok(Page { kind: shown, title, text: clean(&text) });
    }
    Ok(Page { kind: shown, title: None, text: clean(&text) })
}

fn type_of(kind: &str) -> PageType {
    match kind {
        "text/html" | "application/xhtml+xml" => PageType::Html,
        "application/pdf" | "application/x-pdf" => PageType::Pdf,
        "" | "application/octet-stream" | "binary/octet-stream" => PageType::Unsaid,
        "image/svg+xml" => PageType::Text,
        _ if kind.starts_with("image/") || kind.starts_with("audio/") || kind.starts_with("video/") => {
            PageType::Other
        }
        _ if kind.starts_with("text/") || kind.ends_with("+json") || kind.ends_with("+xml") => PageType::Text,
        _ if TEXT_TYPES.contains(&kind) => PageType::Text,
        _ => PageType::Other,
    }
}

fn looks_like_html(bytes: &[u8]) -> bool {
    let start = bytes.trim_ascii_start();
    ["<!doctype html", "<html"]
        .iter()
        .any(|mark| start.get(..mark.len()).is_some_and(|start| start.eq_ignore_ascii_case(mark.as_bytes())))
}

/// Removes characters that a terminal would act on or a reader would not see: control characters, marks that change the
/// direction of text, and invisible tag characters.
pub(crate) fn clean(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    text.chars()
        .filter(|c| {
            let is_hidden = matches!(
                c,
                '\u{ad}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
                    | '\u{feff}' | '\u{e0000}'..='\u{e0fff}'
            );
            !is_hidden && (!c.is_control() || matches!(c, '\n' | '\t'))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use posse_egress::Target;

    use super::*;

    fn page(content_type: Option<&str>, body: &[u8]) -> Result<Page, NotShown> {
        let answer = Answer {
            target: Target::parse("https://example.org/x").unwrap(),
            status: 200,
            content_type: content_type.map(str::to_owned),
            body: body.to_vec(),
        };
        read(&answer, &Stop::default())
    }

    #[test]
    fn text_of_every_kind_is_shown_as_it_is() {
        for kind in [
            "text/plain",
            "text/markdown; charset=utf-8",
            "TEXT/CSV",
            "application/json",
            "application/ld+json",
            "application/atom+xml",
            "image/svg+xml",
            "application/octet-stream",
            "",
        ] {
            assert_eq!(
                page(Some(kind), "{\"a\": \"ä\"}\n".as_bytes()).unwrap().text,
                "{\"a\": \"ä\"}\n",
                "{kind}"
            );
        }
        assert_eq!(page(None, b"x").unwrap().kind, "not said");
    }

    #[test]
    fn what_is_not_text_is_refused_with_its_kind() {
        for (kind, body, said) in [
            ("image/png", &b"\x89PNG"[..], "it is not text (image/png, 4 bytes), and only text can be shown"),
            (
                "application/zip",
                b"PK",
                "it is not text (application/zip, 2 bytes), and only text can be shown",
            ),
            ("application/octet-stream", b"a\0b", "it is not text (application/octet-stream, 3 bytes)"),
            ("text/plain", b"a\0b", "it is not text (text/plain, 3 bytes)"),
            ("text/html", b"<p>a\0b", "it is not text (text/html, 6 bytes)"),
            ("video/mp4", b"x", "it is not text (video/mp4"),
            ("application/pdf", b"x", "it is a PDF document (1 bytes)"),
            ("text/plain", b"%PDF-1.7", "it is a PDF document (8 bytes)"),
        ] {
            let why = page(Some(kind), body).unwrap_err().to_string();
            assert!(why.starts_with(said), "{why}");
        }
    }

    #[test]
    fn html_is_recognised_when_nobody_says_so() {
        for body in ["<!DOCTYPE html><p>Hello", "  \n<html><p>Hello"] {
            assert_eq!(page(None, body.as_bytes()).unwrap().text.trim(), "Hello");
        }
    }

    #[test]
    fn what_a_reader_would_not_see_is_left_out() {
        assert_eq!(
            clean("a\u{1b}[31mb\u{7}\r\nc\td\u{202e}e\u{e0041}f\u{9b}g\u{200b}h\u{ad}"),
            "a[31mb\nc\tdefgh"
        );
        assert_eq!(clean("👩‍💻 naïve\u{a0}x"), "👩‍💻 naïve\u{a0}x");
    }
}
