//! Finds and replaces keys that must not leave the machine in an exported run.

mod assigned;
mod flags;
mod named;
mod shapes;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub(crate) use named::is_secret_field;
pub use named::{names_a_secret, url_passwords};
use shapes::{shaped, word};

/// The mark that replaces a secret, padded to its length. Bundles contain it, so it never changes.
const MARK: &str = "[secret left out";
/// The mark for a short secret.
const SHORT_MARK: &str = "[secret";
/// Shorter values are words, not keys: replacing them would ruin the text and hide nothing.
const VALUE_MIN_BYTES: usize = 8;
/// Longest private key after its first line.
const PEM_MAX_BYTES: usize = 64 * 1024;
/// Limit of characters between the name of a secret and its value.
const ASSIGNMENT_MAX_BYTES: usize = 8;
/// Length of the secret half of an AWS key.
const AWS_SECRET_BYTES: usize = 40;

/// The values to search for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secrets {
    values: Vec<Vec<u8>>,
}

/// A text without its secrets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RedactedText {
    pub(crate) bytes: Vec<u8>,
    /// The kind of each secret that was found.
    pub(crate) found: Vec<&'static str>,
}

impl Secrets {
    /// Searches for these values and for everything that has the shape of a key.
    pub(crate) fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut all: Vec<Vec<u8>> = Vec::new();
        for value in values.into_iter().filter(|value| value.len() >= VALUE_MIN_BYTES) {
            // In a journal the value is escaped as JSON.
            let json = serde_json::to_string(&value).unwrap_or_default();
            let json = json.trim_start_matches('"').strip_suffix('"').unwrap_or_default().to_owned();
            if json != value && json.len() >= VALUE_MIN_BYTES {
                all.push(json.into_bytes());
            }
            all.push(value.into_bytes());
        }
        // A value may be part of a longer one.
        all.sort_by_key(|value| std::cmp::Reverse(value.len()));
        all.dedup();
        Self { values: all }
    }

    /// The text without its secrets; `None` if it has none.
    pub(crate) fn clean(&self, text: &[u8]) -> Option<RedactedText> {
        let mut out: Option<RedactedText> = None;
        let (mut at, mut copied) = (0, 0);
        while at < text.len() {
            // The text before was copied already: a rule that reads backwards finds its secret where it begins.
            let Some((secret, name)) = self.secret_at(text, at).filter(|(secret, _)| secret.start >= copied)
            else {
                at += 1;
                continue;
            };
            let cleaned = out.get_or_insert_with(|| RedactedText { bytes: Vec::new(), found: Vec::new() });
            cleaned.bytes.extend_from_slice(&text[copied..secret.start]);
            cleaned.bytes.extend(mark(&text[secret.clone()]));
            cleaned.found.push(name);
            at = secret.end;
            copied = at;
        }
        if let Some(cleaned) = &mut out {
            cleaned.bytes.extend_from_slice(&text[copied..]);
        }
        out
    }

    /// The first secret that a rule finds here, and its kind.
    fn secret_at(&self, text: &[u8], at: usize) -> Option<(Range<usize>, &'static str)> {
        let rest = &text[at..];
        if let Some(value) = self.values.iter().find(|value| rest.starts_with(value)) {
            return Some((at..at + value.len(), "a key of yours"));
        }
        let begins_word = begins_word(text, at);
        if rest[0] == b'-' {
            return private_key(rest)
                .map(|length| (at..at + length, "a private key"))
                .or_else(|| begins_word.then(|| flag(text, at)).flatten());
        }
        if rest[0] == b'<' {
            return assigned::element(text, at).map(|value| (value, "a value with the name of a secret"));
        }
        let by_shape = || shaped(rest).map(|(length, name)| (at..at + length, name));
        // The shape of a value is better evidence than its name.
        let by_name = || {
            let (value, name) = named::found(text, at)?;
            Some((value.clone(), shaped(&text[value]).map_or(name, |(_, shape)| shape)))
        };
        begins_word
            .then(|| by_shape().or_else(by_name))
            .flatten()
            .or_else(|| named::url_password(text, at).map(|password| (password, "a password in a URL")))
            .or_else(|| aws_secret(text, at).map(|length| (at..at + length, "an AWS secret")))
    }
}

/// Whether a word may begin here. No secret begins in the middle of a word: `task-…` is not a key. In JSON a line break
/// is a backslash and a letter, which do not belong to the word that follows.
fn begins_word(text: &[u8], at: usize) -> bool {
    match text[..at] {
        [] | [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., before] => !word(before),
    }
}

/// The value of a flag that begins here.
fn flag(text: &[u8], at: usize) -> Option<(Range<usize>, &'static str)> {
    let long = text[at..].starts_with(b"--").then(|| assigned::flag(text, at)).flatten();
    long.or_else(|| flags::found(text, at)).map(|value| (value, "the value of a flag"))
}

/// Replaces the value of a field whose name makes it a secret.
pub(crate) fn hide(value: &mut String) {
    *value = String::from_utf8_lossy(&mark(value.as_bytes())).into_owned();
}

/// The mark that replaces a secret. It has the same length and the same number of lines, so that sizes and positions in
/// other texts stay correct.
fn mark(secret: &[u8]) -> Vec<u8> {
    if secret.len() <= SHORT_MARK.len() {
        return vec![b'*'; secret.len()];
    }
    let begin = if secret.len() > MARK.len() { MARK } else { SHORT_MARK };
    let mut mark = begin.as_bytes().to_vec();
    let rest = secret.get(begin.len()..secret.len() - 1).unwrap_or_default();
    mark.extend(rest.iter().map(|byte| if *byte == b'\n' { b'\n' } else { b'*' }));
    mark.push(b']');
    mark
}

/// A private key, with its first and last line. In JSON its lines end in `\n`, in a file in a real line break.
fn private_key(rest: &[u8]) -> Option<usize> {
    let head = rest.strip_prefix(b"-----BEGIN ")?;
    // The endings of the name in OpenSSL and OpenSSH, and in OpenPGP.
    let name = &head[..head.len().min(64)];
    let (name_end, last) = [&b"PRIVATE KEY-----"[..], b"PRIVATE KEY BLOCK-----"]
        .into_iter()
        .find_map(|last| find(name, last).map(|at| (at, last)))?;
    let body = &head[name_end..head.len().min(PEM_MAX_BYTES)];
    let begin = rest.len() - head.len() + name_end;
    let end = find(body, b"-----END ")
        .and_then(|end| find(&body[end..], last).map(|at| begin + end + at + last.len()));
    // A truncated key is a key all the same.
    Some(end.unwrap_or(begin + body.len()))
}

/// Only the name in front of it identifies the secret half of an AWS key.
fn aws_secret(text: &[u8], at: usize) -> Option<usize> {
    const NAME: &[u8] = b"aws_secret_access_key";
    let is_value = |byte: &u8| byte.is_ascii_alphanumeric() || b"/+=".contains(byte);
    if !is_value(&text[at]) || at == 0 || is_value(&text[at - 1]) && text[at - 1] != b'=' {
        return None;
    }
    let from = at.saturating_sub(NAME.len() + ASSIGNMENT_MAX_BYTES);
    let before = text[from..at].to_ascii_lowercase();
    let name = find(&before, NAME)?;
    let between = &before[name + NAME.len()..];
    let assigns = !between.is_empty() && between.iter().all(|byte| b" \t=:\"'\\".contains(byte));
    let length = text[at..].iter().take_while(|byte| is_value(byte)).count();
    (assigns && length >= AWS_SECRET_BYTES).then_some(length)
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}
