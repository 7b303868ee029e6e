//! Finds secrets that are assigned to a name in any spelling: `npm_token: …`, `"apiKey": "…"`, `client-secret = '…'`,
//! `?access_token=…`, `<password>…`. Code has such names too, so the value has to look like a secret.

use std::ops::Range;

use super::named::{
    SHELL_ENDS, capitals, is_in_query, is_placeholder, is_secret, names_a_secret, names_an_address,
    quotation, value, words,
};

/// Shortest value that is a secret by a name in any spelling: shorter ones are mostly types, words and numbers.
const ASSIGNED_MIN_BYTES: usize = 8;
/// Shortest value in an element or after a flag, which are rarer in code.
const MARKED_MIN_BYTES: usize = 6;
/// Longest name.
const NAME_MAX_BYTES: usize = 64;
/// Limit of blanks on either side of the assignment.
const BLANKS_MAX: usize = 32;
/// Longest type between a name and its value: `token: &'static str = "…"`.
const TYPE_MAX_BYTES: usize = 48;
/// Minimum of letters in a part of a name such as `Uint8Array`.
const PART_MIN_LETTERS: usize = 3;
/// Limit of digits at the end of a part of a name.
const PART_MAX_DIGITS: usize = 3;

/// The characters that end an unquoted value after `:`. `&` and `|` end a value only in a shell.
const TEXT_ENDS: &[u8] = b"\"'`;,)}]\\<>";
/// The same in the query of a URL.
const QUERY_ENDS: &[u8] = b"\"'`;,&|)}]\\<>#";
/// Words before `KEY` that make it a secret: caches, tables and maps have keys too.
const KEY_KINDS: [&str; 18] = [
    "API",
    "SECRET",
    "PRIVATE",
    "ACCESS",
    "AUTH",
    "SIGNING",
    "SIGNATURE",
    "ENCRYPTION",
    "MASTER",
    "ACCOUNT",
    "DEPLOY",
    "SSH",
    "APP",
    "LICENSE",
    "SERVICE",
    "CLIENT",
    "SHARED",
    "SUBSCRIPTION",
];
/// Last words of a name whose value only describes a secret.
const ABOUT: [&str; 31] = [
    "URL",
    "URI",
    "ID",
    "INDEX",
    "KIND",
    "REF",
    "FIELD",
    "LABEL",
    "PLACEHOLDER",
    "PATTERN",
    "REGEX",
    "VERSION",
    "ENV",
    "VAR",
    "AT",
    "IN",
    "TIME",
    "EXPIRES",
    "ERROR",
    "PREFIX",
    "SIZE",
    "USAGE",
    "POLICY",
    "MANAGER",
    "STORE",
    "PROVIDER",
    "CLASS",
    "FORMAT",
    "LEN",
    "TOKENS",
    "HINT",
];

/// The value of a secret whose name begins here.
pub(super) fn found(text: &[u8], at: usize) -> Option<Range<usize>> {
    let length = name_length(text, at);
    let (begin, ends) = assignment(text, at + length)?;
    let ends = if is_in_query(text, at) { QUERY_ENDS } else { ends };
    let begin = after_type(text, begin).unwrap_or(begin);
    let value = value(text, begin, ends)?;
    let upper = secret_name(&text[at..at + length])?;
    let is_quoted = value.start > begin;
    looks_secret(&upper, &text[value.clone()], is_quoted, ASSIGNED_MIN_BYTES).then_some(value)
}

/// The text of an element with the name of a secret that begins here: `<password>…</password>`.
pub(super) fn element(text: &[u8], at: usize) -> Option<Range<usize>> {
    let name = |begin: usize| (begin, begin + name_length(text, begin));
    let (begin, end) = match name(at + 1) {
        // The name follows a namespace prefix.
        (_, end) if text.get(end) == Some(&b':') => name(end + 1),
        whole => whole,
    };
    if text.get(end) != Some(&b'>') {
        return None;
    }
    let value = value(text, end + 1, b"<")?;
    let closes = text[value.end..].starts_with(b"</");
    let upper = secret_name(&text[begin..end])?;
    (closes && looks_secret(&upper, &text[value.clone()], true, MARKED_MIN_BYTES)).then_some(value)
}

/// The value of a long flag with the name of a secret that begins here: `--password …`, `--token=…`, `"--token", "…"`.
pub(super) fn flag(text: &[u8], at: usize) -> Option<Range<usize>> {
    let begin = at + 2;
    let end = begin + name_length(text, begin);
    let assigned = match (text.get(end)?, quotation(text, end)) {
        (b'=', _) => end + 1,
        (b' ', _) => end + blanks(text, end),
        // In a list, the flag is one word, and its value is the next.
        (_, Some((_, next))) if text.get(next) == Some(&b',') => next + 1 + blanks(text, next + 1),
        _ => return None,
    };
    let value = value(text, assigned, SHELL_ENDS)?;
    let upper = secret_name(&text[begin..end])?;
    let held = &text[value.clone()];
    let is_quoted = value.start > assigned;
    (held[0] != b'-' && looks_secret(&upper, held, is_quoted, MARKED_MIN_BYTES)).then_some(value)
}

/// Whether a field of an object contains a secret.
pub(super) fn is_field(name: &str, value: &[u8]) -> bool {
    let upper = (name.len() <= NAME_MAX_BYTES).then(|| secret_name(name.as_bytes())).flatten();
    upper.is_some_and(|upper| looks_secret(&upper, value, true, ASSIGNED_MIN_BYTES))
}

fn name_length(text: &[u8], at: usize) -> usize {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
    text.get(at..).unwrap_or_default().iter().take(NAME_MAX_BYTES).take_while(|byte| is_name(byte)).count()
}

/// The name in capitals, if it is the name of a secret.
fn secret_name(name: &[u8]) -> Option<String> {
    let upper = capitals(str::from_utf8(name).ok()?);
    let words = words(&upper);
    let last = *words.last()?;
    // In a shell, `PASS` may be anything. If the assigned value looks like a password, it is one.
    let names = names_a_secret(&upper) || upper == "PASS";
    // `apikey` is one word.
    let kind = last.trim_end_matches('S').strip_suffix("KEY").map(|kind| match kind {
        "" => words.len().checked_sub(2).map_or("", |before| words[before]),
        kind => kind,
    });
    let is_key = kind.is_none_or(|kind| KEY_KINDS.contains(&kind));
    let is_about = ABOUT.contains(&last) && !names_an_address(&upper);
    (names && is_key && !is_about).then_some(upper)
}

/// Where an assigned value begins, after `=`, `:=`, `=>`, or `:` with a blank or a quotation mark, and the characters
/// that end it.
fn assignment(text: &[u8], after: usize) -> Option<(usize, &'static [u8])> {
    let after = quotation(text, after).map_or(after, |(_, next)| next);
    let sign = after + blanks(text, after);
    let rest = text.get(sign..)?;
    let (length, ends) = match rest {
        [b'=', b'=' | b'~', ..] => return None,
        [b':', b'=', ..] | [b'=', b'>', ..] => (2, SHELL_ENDS),
        [b'=', ..] => (1, SHELL_ENDS),
        [b':', b' ', ..] => (1, TEXT_ENDS),
        [b':', ..] if quotation(text, sign + 1).is_some() => (1, TEXT_ENDS),
        _ => return None,
    };
    Some((sign + length + blanks(text, sign + length), ends))
}

/// Where the value begins if a type and `=` are here: `&str = "…"`.
fn after_type(text: &[u8], at: usize) -> Option<usize> {
    let rest = &text.get(at..)?[..(text.len() - at).min(TYPE_MAX_BYTES)];
    let sign = rest.iter().position(|byte| b"=\"`\n;,".contains(byte)).filter(|sign| rest[*sign] == b'=')?;
    let is_spaced = sign > 1 && rest[sign - 1] == b' ';
    let value = at + sign + 1 + blanks(text, at + sign + 1);
    (is_spaced && quotation(text, value).is_some()).then_some(value)
}

fn blanks(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    rest.iter().take(BLANKS_MAX).take_while(|byte| b" \t".contains(byte)).count()
}

/// Whether the value of a name, in capitals, looks like a secret and not like words or code.
fn looks_secret(upper: &str, value: &[u8], is_quoted: bool, least: usize) -> bool {
    let is_password = upper.contains("PASS") || upper.contains("PWD") || upper.ends_with("PW");
    let is_number = !is_password && value.iter().all(|byte| byte.is_ascii_digit() || b"._,".contains(byte));
    let is_plain = value.iter().all(|byte| byte.is_ascii_alphabetic() || b"_-.:/,'".contains(byte));
    let has_blank = value.iter().any(u8::is_ascii_whitespace);
    let is_address = value.windows(3).any(|three| three == b"://") && !names_an_address(upper);
    let is_code = !is_quoted && (is_identifier(value) || assigns(value));
    let is_none = is_number
        || is_plain
        || has_blank
        || is_address
        || is_code
        || is_path(value)
        || is_placeholder(value);
    is_secret(value, least) && !is_none
}

/// Whether a value is itself an assignment: `id=x`. Base64 may end in `=`.
fn assigns(value: &[u8]) -> bool {
    value.iter().rev().skip_while(|byte| **byte == b'=').any(|byte| *byte == b'=')
}

fn is_path(value: &[u8]) -> bool {
    [&b"./"[..], b"../", b"~/"].iter().any(|begin| value.starts_with(begin))
        || value[0] == b'/' && value[1..].contains(&b'/')
}

/// Whether a value is an identifier in code: `secret_v2_of_this`, `process.env.API_KEY_V2`, `Uint8Array`.
fn is_identifier(value: &[u8]) -> bool {
    let Ok(value) = str::from_utf8(value) else { return false };
    let is_part = |part: &str, least: usize| {
        let letters = part.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let digits = part.len() - letters.len();
        letters.len() >= least
            && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
            && digits <= PART_MAX_DIGITS
    };
    let separated: Vec<&str> = value.split(['_', '.']).filter(|part| !part.is_empty()).collect();
    if separated.len() > 1 {
        return separated.iter().all(|part| is_part(part, 1));
    }
    let upper = capitals(value);
    let parts = words(&upper);
    parts.len() > 1 && parts.iter().all(|part| is_part(part, PART_MIN_LETTERS))
}
