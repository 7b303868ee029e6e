//! Removes a secret from texts, in every encoding in which a server may echo it.
//!
//! A server rarely echoes the bytes as they were sent: a proxy writes a header into a URL, an error page escapes it, a
//! debugging tool prints the whole `Authorization` header as base64. So the scrubber searches for each *form* of the
//! secret (itself, base64 at each of its three alignments, hexadecimal), and accepts each character of a form as itself
//! or as an escape of JSON, URLs or HTML.

use std::borrow::Cow;

use serde_json::{Map, Value};

#[cfg(test)]
mod tests;

/// The replacement for a secret. No format has to escape it.
pub const SCRUBBED: &str = "[key]";
/// Shorter secrets are placeholders, such as `ollama`. Replacing them would only garble texts.
const SECRET_MIN_BYTES: usize = 8;
/// How many bytes at the end of a truncated text must match before they count as the start of a secret.
const PREFIX_MIN_BYTES: usize = 6;
/// The longest escape of one character, `&#x000041;`. It bounds how much a stream holds back and how far one comparison
/// reads.
const ESCAPE_MAX_BYTES: usize = 10;
/// Bytes that begin an escape.
const ESCAPES: [u8; 3] = [b'%', b'\\', b'&'];
/// The base64 alphabet, and the two letters that differ in the URL alphabet.
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE64_URL: [u8; 2] = *b"-_";

/// Removes one secret from texts. It has no `Debug`, so that the secret is never printed.
#[derive(Clone)]
pub struct Scrubber {
    /// Never empty, and no form is empty.
    forms: Vec<Vec<u8>>,
    /// The bytes that a form can begin with.
    begins: [bool; 256],
}

/// The comparison of a text with a form at one offset.
enum Match {
    No,
    /// The text ends within the form, after this many bytes of the form.
    Partly(usize),
    /// The form matches, over this many bytes of the text.
    Whole(usize),
}

impl Scrubber {
    /// Returns none if the secret is a short placeholder that need not be removed.
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

    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.scan(text, |_| false) {
            (None, _) => Cow::Borrowed(text),
            (Some(clean), _) => Cow::Owned(clean),
        }
    }

    /// Removes the secret from a text that may be truncated, and the start of a secret at its end.
    pub fn cut_text(&self, text: &str) -> String {
        let body = text.trim_end_matches(['…', '.']);
        let (clean, end) = self.scan(body, |matched| matched >= PREFIX_MIN_BYTES);
        let clean = clean.unwrap_or_else(|| body[..end].to_owned());
        let mark = if end < body.len() { SCRUBBED } else { "" };
        format!("{clean}{mark}{}", &text[body.len()..])
    }

    /// Removes the secret from strings, from object keys, and from numbers, because a secret may consist of digits.
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

    /// Removes the secret from a string in place.
    pub fn string(&self, text: &mut String) {
        if let Cow::Owned(clean) = self.text(text) {
            *text = clean;
        }
    }

    /// Replaces complete forms. Stops where the text ends within a form, if `is_cut` accepts the number of matched
    /// bytes. Returns the cleaned text, or none if nothing changed, and the offset where it stopped, which is otherwise
    /// the length of the text.
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
                    // A match ends at a character boundary: a form is ASCII and escapes, or it ends with its last
                    // letter.
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

    /// The best match of the forms at the start of the text: the longest complete one, else the longest partial one.
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

/// Removes a secret from a text that arrives in pieces. A possible start of the secret is held back until the next
/// piece shows whether it is one.
#[derive(Default)]
pub struct ScrubbedStream {
    held: String,
}

impl ScrubbedStream {
    /// Adds a piece and returns the text that can be shown by now.
    pub fn push(&mut self, scrubber: &Scrubber, piece: &str) -> String {
        self.held.push_str(piece);
        let (clean, end) = scrubber.scan(&self.held, |_| true);
        let shown = clean.unwrap_or_else(|| self.held[..end].to_owned());
        self.held.drain(..end);
        shown
    }

    /// Returns the text that was held back, at the end of the stream.
    pub fn finish(&mut self, scrubber: &Scrubber) -> String {
        scrubber.cut_text(&std::mem::take(&mut self.held))
    }
}

/// Compares the start of a text with a form.
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
            // The escape is incomplete: its end is in the next piece.
            None if ESCAPES.contains(&window[0]) && rest.len() < ESCAPE_MAX_BYTES => {
                return Match::Partly(matched);
            }
            _ => return Match::No,
        }
    }
    Match::Whole(at)
}

/// The byte that an escape encodes, and the length of the escape. None if no escape begins here.
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

/// The base64 letters that depend on the secret alone, if `skipped` bytes precede it, in both alphabets.
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
