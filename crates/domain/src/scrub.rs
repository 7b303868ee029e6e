//! Takes a secret out of texts, however it is written there.
//!
//! A server that echoes what it was sent rarely echoes the bytes as they were: a proxy writes a header into a URL, an
//! error page escapes it, a debugging tool prints the whole `Authorization` header as base64. So each *form* of the
//! secret (itself, base64 at each of its three alignments, hexadecimal) is looked for, and each character of a form may
//! be written as itself or as an escape of JSON, URLs or HTML.

use std::borrow::Cow;

use serde_json::{Map, Value};

#[cfg(test)]
mod tests;

/// What replaces a secret. Nothing in it has to be escaped anywhere.
pub const SCRUBBED: &str = "[key]";
/// Secrets shorter than this are placeholders, such as `ollama`: replacing them would only garble texts.
const SECRET_MIN_BYTES: usize = 8;
/// How much of a secret at the end of a text that was cut counts as its beginning.
const PREFIX_MIN_BYTES: usize = 6;
/// The longest escape of one character, `&#x000041;`. It bounds what is held back of a stream and how far one look reads.
const ESCAPE_MAX_BYTES: usize = 10;
/// Bytes that begin an escape.
const ESCAPES: [u8; 3] = [b'%', b'\\', b'&'];
/// Letters of base64, and those that URLs have instead of the last two.
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE64_URL: [u8; 2] = *b"-_";

/// Takes one secret out of texts. It is shown nowhere.
#[derive(Clone)]
pub struct Scrubber {
    /// Never empty, and none of them is.
    forms: Vec<Vec<u8>>,
    /// Which bytes a form can begin with.
    begins: [bool; 256],
}

/// How a text compares with a form at one place.
enum Match {
    No,
    /// The text ends before the form does: so many bytes of the form were there.
    Partly(usize),
    /// So many bytes of the text are the form.
    Whole(usize),
}

impl Scrubber {
    /// One for this secret; none if it is a placeholder that no text has to be kept from.
    pub fn of(secret: &str) -> Option<Self> {
        let secret = secret.trim().as_bytes();
        if secret.len() < SECRET_MIN_BYTES {
            return None;
        }
        let mut forms = vec![secret.to_vec()];
        for skipped in 0..3 {
            let (plain, url) = base64_within(secret, skipped);
            forms.push(url);
            forms.push(plain);
        }
        forms.push(secret.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect());
        forms.push(secret.iter().flat_map(|byte| format!("{byte:02X}").into_bytes()).collect());
        forms.dedup();
        let mut begins = [false; 256];
        for first in forms.iter().map(|form| form[0]).chain(ESCAPES) {
            begins[usize::from(first)] = true;
        }
        Some(Self { forms, begins })
    }

    /// The text without the secret.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.scan(text, |_| false) {
            (None, _) => Cow::Borrowed(text),
            (Some(clean), _) => Cow::Owned(clean),
        }
    }

    /// The text without the secret and, because the text may have been cut, without the beginning of one at its end.
    pub fn cut_text(&self, text: &str) -> String {
        let body = text.trim_end_matches(['…', '.']);
        let (clean, end) = self.scan(body, |matched| matched >= PREFIX_MIN_BYTES);
        let clean = clean.unwrap_or_else(|| body[..end].to_owned());
        let mark = if end < body.len() { SCRUBBED } else { "" };
        format!("{clean}{mark}{}", &text[body.len()..])
    }

    /// The value without the secret: in strings, in the keys of objects, and in numbers, which can be a secret of digits.
    pub fn value(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                let text = number.to_string();
                if let Cow::Owned(clean) = self.text(&text) {
                    *value = Value::String(clean);
                }
            }
            Value::String(text) => self.string(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(fields) => {
                let named = std::mem::take(fields);
                *fields = named.into_iter().fold(Map::new(), |mut fields, (mut name, mut field)| {
                    self.string(&mut name);
                    self.value(&mut field);
                    fields.insert(name, field);
                    fields
                });
            }
        }
    }

    /// The same for a string in its place.
    pub fn string(&self, text: &mut String) {
        if let Cow::Owned(clean) = self.text(text) {
            *text = clean;
        }
    }

    /// Replaces whole forms. Ends at the first place where the text ends within a form that `is_cut` accepts by the bytes
    /// that were there; that place is the second value, else the length of the text. The first is none if nothing changed.
    fn scan(&self, text: &str, is_cut: impl Fn(usize) -> bool) -> (Option<String>, usize) {
        let bytes = text.as_bytes();
        let (mut clean, mut copied, mut at) = (String::new(), 0, 0);
        while at < bytes.len() {
            if !self.begins[usize::from(bytes[at])] {
                at += 1;
                continue;
            }
            match self.best(&bytes[at..]) {
                Match::Whole(len) => {
                    clean.push_str(&text[copied..at]);
                    clean.push_str(SCRUBBED);
                    // A form of ASCII and escapes ends at a letter's end; another one ends where its last letter does.
                    at += len;
                    copied = at;
                }
                Match::Partly(matched) if is_cut(matched) => break,
                Match::Partly(_) | Match::No => at += 1,
            }
        }
        if copied == 0 {
            return (None, at);
        }
        clean.push_str(&text[copied..at]);
        (Some(clean), at)
    }

    /// How the text compares with the forms here: the longest whole one, else the one that was there for the most part.
    fn best(&self, text: &[u8]) -> Match {
        self.forms.iter().map(|form| compare(text, form)).fold(Match::No, |best, next| match (&best, &next) {
            (Match::Whole(one), Match::Whole(other)) if other > one => next,
            (Match::Whole(_), _) | (_, Match::No) => best,
            (_, Match::Whole(_)) | (Match::No, _) => next,
            (Match::Partly(one), Match::Partly(other)) => {
                if other > one {
                    next
                } else {
                    best
                }
            }
        })
    }
}

/// Takes a secret out of a text that comes in pieces: what may be the beginning of the secret is held back until the
/// next piece says what it is.
#[derive(Default)]
pub struct ScrubbedStream {
    held: String,
}

impl ScrubbedStream {
    /// Takes a piece and gives what can be shown by now.
    pub fn push(&mut self, scrubber: &Scrubber, piece: &str) -> String {
        self.held.push_str(piece);
        let (clean, end) = scrubber.scan(&self.held, |_| true);
        let shown = clean.unwrap_or_else(|| self.held[..end].to_owned());
        self.held.drain(..end);
        shown
    }

    /// What was held back when the text ended.
    pub fn finish(&mut self, scrubber: &Scrubber) -> String {
        scrubber.cut_text(&std::mem::take(&mut self.held))
    }
}

/// Compares the beginning of a text with a form.
fn compare(text: &[u8], form: &[u8]) -> Match {
    let mut at = 0;
    for (matched, wanted) in form.iter().enumerate() {
        let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) else {
            return Match::Partly(matched);
        };
        let window = &rest[..rest.len().min(ESCAPE_MAX_BYTES)];
        match unescaped(window) {
            Some((byte, len)) if byte == *wanted => at += len,
            _ if window[0] == *wanted => at += 1,
            // An escape whose end is not here yet.
            None if ESCAPES.contains(&window[0]) && rest.len() < ESCAPE_MAX_BYTES => {
                return Match::Partly(matched);
            }
            _ => return Match::No,
        }
    }
    Match::Whole(at)
}

/// The byte that an escape stands for, and how long the escape is; none if none begins here.
fn unescaped(text: &[u8]) -> Option<(u8, usize)> {
    let byte = |digits: &[u8], radix| {
        let digits =
            str::from_utf8(digits).ok().filter(|digits| !digits.is_empty() && !digits.contains('+'))?;
        u8::from_str_radix(digits, radix).ok()
    };
    match text {
        [b'%', rest @ ..] => Some((byte(rest.get(..2)?, 16)?, 3)),
        [b'\\', b'u' | b'U', rest @ ..] => Some((byte(rest.get(..4)?, 16)?, 6)),
        [b'\\', b'x', rest @ ..] => Some((byte(rest.get(..2)?, 16)?, 4)),
        [b'\\', letter, ..] if letter.is_ascii_punctuation() => Some((*letter, 2)),
        [b'&', b'#', rest @ ..] => {
            let end = rest.iter().position(|byte| *byte == b';')?;
            let (digits, radix) = match &rest[..end] {
                [b'x' | b'X', digits @ ..] => (digits, 16),
                digits => (digits, 10),
            };
            Some((byte(digits, radix)?, end + 3))
        }
        _ => None,
    }
}

/// The letters of base64 that only the secret decides, if `skipped` bytes come before it; in both alphabets.
fn base64_within(secret: &[u8], skipped: usize) -> (Vec<u8>, Vec<u8>) {
    let bits: Vec<bool> = std::iter::repeat_n(0, skipped)
        .chain(secret.iter().copied())
        .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1))
        .collect();
    let letters =
        bits.chunks_exact(6).map(|six| six.iter().fold(0, |index, bit| index << 1 | usize::from(*bit)));
    let plain: Vec<u8> = letters.skip((skipped * 8).div_ceil(6)).map(|index| BASE64[index]).collect();
    let url = plain.iter().map(|letter| match letter {
        b'+' => BASE64_URL[0],
        b'/' => BASE64_URL[1],
        letter => *letter,
    });
    let url = url.collect();
    (plain, url)
}
