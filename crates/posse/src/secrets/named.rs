//! Finds secrets that the text before them identifies: the name of a variable, a header, a position in a URL.

use std::ops::Range;

use super::assigned;
use super::shapes::word;

/// Shortest value of a variable that is a secret by its name.
const NAMED_MIN_BYTES: usize = 6;
/// Shortest value of a header.
const HEADER_MIN_BYTES: usize = 8;
/// Shortest user name in a URL that counts as a token although no password follows.
const URL_TOKEN_MIN_BYTES: usize = 20;
/// How far a value is followed: keys are shorter, and a text without an end must not be searched repeatedly.
const VALUE_MAX_BYTES: usize = 4_096;
/// How far back in its line a connection string is searched.
const LINE_MAX_BYTES: usize = 512;
/// Limit of backslashes before a quotation mark: JSON within JSON within JSON.
const ESCAPES_MAX: usize = 7;
/// The characters that end an unquoted value in a shell.
pub(super) const SHELL_ENDS: &[u8] = b"\"'`;,&|)}]\\<>";
/// Words that texts have in place of a password.
const PLACEHOLDERS: [&str; 8] =
    ["password", "passwd", "pass", "pwd", "secret", "token", "changeme", "example"];

/// Words at the end of a name that make it the name of a secret.
const LAST_WORDS: [&str; 12] =
    ["PASS", "PWD", "PW", "PAT", "AUTH", "DSN", "CREDS", "COOKIE", "JWT", "BEARER", "PASSPHRASE", "WEBHOOK"];
/// Words with the same meaning anywhere in a name, also within one of its words (`PGPASSWORD`).
const WORDS: [&str; 5] = ["PASSWORD", "PASSWD", "SECRET", "TOKEN", "CREDENTIAL"];
/// Endings of several words with the same meaning.
const ENDINGS: [&str; 4] = ["WEBHOOK_URL", "CONNECTION_STRING", "CONN_STR", "CONNSTR"];
/// Words at the end of a name whose value only describes a secret: its location, its name, its lifetime.
const ABOUT: [&str; 15] = [
    "FILE", "PATH", "DIR", "SOCK", "NAME", "TYPE", "HEADER", "COUNT", "LIMIT", "MAX", "TTL", "EXPIRY",
    "LENGTH", "ENDPOINT", "ISSUER",
];
/// Words anywhere in a name that make it a count: `MAX_TOKENS`.
const AMOUNTS: [&str; 5] = ["MAX", "MIN", "NUM", "TOTAL", "COUNT"];
/// Headers whose whole value is a key.
const KEY_HEADERS: [&str; 5] =
    ["x-api-key", "x-auth-token", "private-token", "x-subscription-token", "api-key"];
/// The words before the key in the header `authorization`.
const SCHEMES: [&str; 5] = ["bearer", "basic", "token", "apikey", "digest"];
/// Fields of connection strings that contain a secret.
const CONNECTION_FIELDS: [&str; 5] = ["password", "pwd", "accountkey", "sharedaccesskey", "accesskey"];
/// Fields that identify a line as a connection string.
const CONNECTION_SIGNS: [&str; 8] =
    ["host=", "server=", "user id=", "uid=", "endpoint=", "accountname=", "data source=", "jdbc:"];

/// A name in the form of variables: `apiKey`, `api-key` and `api.key` are `API_KEY`.
pub(super) fn capitals(name: &str) -> String {
    let mut upper = String::with_capacity(name.len() + 4);
    let mut before = '_';
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        let ends_small = before.is_ascii_lowercase() || before.is_ascii_digit();
        let begins_word = before.is_ascii_uppercase() && letters.peek().is_some_and(char::is_ascii_lowercase);
        if letter.is_ascii_uppercase() && (ends_small || begins_word) {
            upper.push('_');
        }
        upper.push(if matches!(letter, '-' | '.') { '_' } else { letter.to_ascii_uppercase() });
        before = letter;
    }
    upper
}

/// The words of a name in capitals.
pub(super) fn words(upper: &str) -> Vec<&str> {
    upper.split('_').filter(|word| !word.is_empty()).collect()
}

/// Whether a name ends in words that make even an address a secret.
pub(super) fn names_an_address(upper: &str) -> bool {
    ["DSN", "WEBHOOK"].iter().chain(&ENDINGS).any(|ending| upper.ends_with(ending))
}

/// Whether a variable of this name contains a secret. A name that has such a word only because its value describes a
/// secret (`TOKEN_FILE`) does not, and neither does `PWD` itself.
pub fn names_a_secret(name: &str) -> bool {
    let upper = capitals(name);
    let words = words(&upper);
    let Some(last) = words.last() else { return false };
    if ABOUT.contains(last) || words.iter().any(|word| AMOUNTS.contains(word)) {
        return false;
    }
    // `PWD` alone is the working directory.
    let by_last = LAST_WORDS.contains(last) && (words.len() > 1 || !matches!(*last, "PWD" | "PASS"));
    let has = |word: &&str| {
        WORDS.iter().any(|known| word.contains(known)) || word.trim_end_matches('S').ends_with("KEY")
    };
    by_last || words.iter().any(has) || ENDINGS.iter().any(|ending| upper.ends_with(ending))
}

/// Whether a field of an object contains a secret: a variable by its name alone, any other also by its value.
pub(crate) fn is_secret_field(name: &str, value: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    name.bytes().all(is_name) && names_a_secret(name) && !value.is_empty()
        || assigned::is_field(name, value.as_bytes())
}

/// The passwords in the URLs of a text.
pub fn url_passwords(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let found = (0..bytes.len()).filter_map(|at| url_password(bytes, at));
    found.map(|at| String::from_utf8_lossy(&bytes[at]).into_owned()).collect()
}

/// A secret whose name begins here.
pub(super) fn found(text: &[u8], at: usize) -> Option<(Range<usize>, &'static str)> {
    let rest = &text[at..];
    let is_variable = rest[0].is_ascii_uppercase()
        && rest
            .get(1)
            .is_some_and(|next| next.is_ascii_uppercase() || *next == b'_' || next.is_ascii_digit());
    if is_variable && let Some(value) = variable(text, at) {
        return Some((value, "the value of a variable"));
    }
    let by_word = || match rest[0] {
        b'a' | b'A' | b'x' | b'X' | b'p' | b'P' | b'c' | b'C' | b's' | b'S' => header(text, at)
            .map(|value| (value, "the value of a header"))
            .or_else(|| after_word(text, at).map(|value| (value, "a password")))
            .or_else(|| connection_field(text, at).map(|value| (value, "a password"))),
        _ => None,
    };
    by_word().or_else(|| assigned::found(text, at).map(|value| (value, "a value with the name of a secret")))
}

/// The value in `NAME=value`, `NAME: value` and `"NAME": "value"`, where the name has the form of a variable.
fn variable(text: &[u8], at: usize) -> Option<Range<usize>> {
    let is_name = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    let length = text[at..].iter().take(128).take_while(|byte| is_name(byte)).count();
    let name = str::from_utf8(&text[at..at + length]).ok()?;
    let after = at + length;
    let assigned = assignment(text, after)?;
    let value = value(text, assigned, SHELL_ENDS)?;
    (names_a_secret(name) && is_secret(&text[value.clone()], NAMED_MIN_BYTES)).then_some(value)
}

/// Where an assigned value begins: after `=`, or after `:` and a blank or a quotation mark.
fn assignment(text: &[u8], after: usize) -> Option<usize> {
    let quoted = usize::from(matches!(text.get(after), Some(b'"' | b'\'')));
    match text.get(after + quoted)? {
        b'=' if quoted == 0 => Some(after + 1),
        b':' if matches!(text.get(after + quoted + 1), Some(b' ' | b'"' | b'\'')) => {
            let blanks = text[after + quoted + 1..].iter().take(8).take_while(|byte| **byte == b' ').count();
            Some(after + quoted + 1 + blanks)
        }
        _ => None,
    }
}

/// The value that begins here, without its quotation marks. An unquoted value ends before any of `ends`. In a text
/// within JSON, quotation marks follow backslashes.
pub(super) fn value(text: &[u8], at: usize, ends: &[u8]) -> Option<Range<usize>> {
    let (quote, begin) = match quotation(text, at) {
        Some((quote, begin)) => (Some(quote), begin),
        None => (None, at),
    };
    let ends = |byte: u8| match quote {
        Some(quote) => byte == quote || byte == b'\n' || byte == b'\\' && begin > at + 1,
        None => byte.is_ascii_whitespace() || ends.contains(&byte),
    };
    let length = text.get(begin..)?.iter().take(VALUE_MAX_BYTES).take_while(|byte| !ends(**byte)).count();
    (length > 0).then_some(begin..begin + length)
}

/// The quotation mark at this position, and where the quoted text begins.
pub(super) fn quotation(text: &[u8], at: usize) -> Option<(u8, usize)> {
    let escapes = text.get(at..)?.iter().take(ESCAPES_MAX).take_while(|byte| **byte == b'\\').count();
    let quote = text.get(at + escapes).copied().filter(|byte| matches!(byte, b'"' | b'\'' | b'`'))?;
    Some((quote, at + escapes + 1))
}

/// Whether a value is real, and not a reference, an example or code.
pub(super) fn is_secret(value: &[u8], least: usize) -> bool {
    let begins_elsewhere = value.first().is_some_and(|byte| b"$<{[(%*&".contains(byte));
    let is_code = value.iter().any(|byte| b"({[".contains(byte)) || value.windows(2).any(|two| two == b"::");
    let is_word = value.iter().all(|byte| byte.is_ascii_lowercase() || b"_-. ".contains(byte));
    value.len() >= least && !begins_elsewhere && !is_code && !is_word
}

/// The value of a header, from its name.
fn header(text: &[u8], at: usize) -> Option<Range<usize>> {
    let is_name = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'-';
    let length = text[at..].iter().take(32).take_while(|byte| is_name(byte)).count();
    let name = str::from_utf8(&text[at..at + length]).ok()?.to_ascii_lowercase();
    let is_key = KEY_HEADERS.contains(&name.as_str());
    if !is_key && !matches!(name.as_str(), "authorization" | "proxy-authorization" | "cookie" | "set-cookie")
    {
        return None;
    }
    let between = text[at + length..].iter().take(8).take_while(|byte| b" :=\"'\\".contains(byte)).count();
    let separator = &text[at + length..at + length + between];
    if !separator.iter().any(|byte| b":=".contains(byte)) {
        return None;
    }
    let begin = at + length + between;
    match name.as_str() {
        "cookie" | "set-cookie" => cookies(text, begin),
        _ if is_key => token(text, begin),
        _ => {
            let scheme = text[begin..].iter().take(8).take_while(|byte| byte.is_ascii_alphabetic()).count();
            let named = str::from_utf8(&text[begin..begin + scheme]).ok()?.to_ascii_lowercase();
            if !SCHEMES.contains(&named.as_str()) || text.get(begin + scheme) != Some(&b' ') {
                return None;
            }
            token(text, begin + scheme + 1)
        }
    }
}

/// A key in the form of headers.
fn token(text: &[u8], at: usize) -> Option<Range<usize>> {
    let is_token = |byte: &u8| word(*byte) || b".~+/=".contains(byte);
    let length = text.get(at..)?.iter().take(VALUE_MAX_BYTES).take_while(|byte| is_token(byte)).count();
    let value = at..at + length;
    is_secret(&text[value.clone()], HEADER_MIN_BYTES).then_some(value)
}

/// The content of cookies, from the first `name=value` to the end of the line or of the quoted text.
fn cookies(text: &[u8], at: usize) -> Option<Range<usize>> {
    let length =
        text.get(at..)?.iter().take(VALUE_MAX_BYTES).take_while(|byte| !b"\"'\r\n\\".contains(byte)).count();
    let line = &text[at..at + length];
    let name = line.iter().position(|byte| *byte == b'=')?;
    let is_name = line[..name].iter().all(|byte| word(*byte) || *byte == b'.');
    let begin = at + name + 1;
    (is_name && name > 0 && at + length - begin >= HEADER_MIN_BYTES).then_some(begin..at + length)
}

/// The password in `login NAME password VALUE`, the format of `.netrc`.
fn after_word(text: &[u8], at: usize) -> Option<Range<usize>> {
    let begin = at + text[at..].strip_prefix(b"password ").map(|_| b"password ".len())?;
    let line = line_before(text, at);
    let is_login =
        line.windows(6).any(|part| part == b"login ") || line.windows(8).any(|part| part == b"machine ");
    let value = is_login.then(|| value(text, begin, SHELL_ENDS)).flatten()?;
    (!is_placeholder(&text[value.clone()])).then_some(value)
}

/// The password of a connection string, `Server=h;User Id=me;Password=VALUE;`, or in the form of `PostgreSQL`, `host=h
/// user=me password=VALUE`.
fn connection_field(text: &[u8], at: usize) -> Option<Range<usize>> {
    let length = text[at..].iter().take(24).take_while(|byte| byte.is_ascii_alphabetic()).count();
    let field = str::from_utf8(&text[at..at + length]).ok()?.to_ascii_lowercase();
    if !CONNECTION_FIELDS.contains(&field.as_str()) || text.get(at + length) != Some(&b'=') {
        return None;
    }
    let mut line = line_before(text, at).to_ascii_lowercase();
    let begin = at + length + 1;
    // In the query of a URL another field may follow.
    let in_query = is_in_query(text, at);
    let is_end = |byte: &u8| {
        byte.is_ascii_whitespace() || b";\"'\\".contains(byte) || in_query && b"&#".contains(byte)
    };
    let length = text[begin..].iter().take(VALUE_MAX_BYTES).take_while(|byte| !is_end(byte)).count();
    let after = text[begin + length..].iter().take(LINE_MAX_BYTES).take_while(|byte| **byte != b'\n');
    line.extend(after.map(u8::to_ascii_lowercase));
    let line = String::from_utf8_lossy(&line);
    let value = begin..begin + length;
    let is_connection = CONNECTION_SIGNS.iter().any(|sign| line.contains(sign));
    (is_connection && length > 0 && !is_placeholder(&text[value.clone()])).then_some(value)
}

/// Whether the name that begins here is a field in the query of a URL.
pub(super) fn is_in_query(text: &[u8], at: usize) -> bool {
    at > 0 && b"?&".contains(&text[at - 1])
}

fn line_before(text: &[u8], at: usize) -> &[u8] {
    let from = at.saturating_sub(LINE_MAX_BYTES);
    let line = text[from..at].iter().rposition(|byte| *byte == b'\n').map_or(from, |end| from + end + 1);
    &text[line..at]
}

/// The password in `scheme://name:password@host`, or the token in `scheme://token@host`, if `://` is here.
pub(super) fn url_password(text: &[u8], at: usize) -> Option<Range<usize>> {
    let begin = at + text[at..].strip_prefix(b"://").map(|_| 3)?;
    // The user part ends with the last `@` before the path.
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || b"/?#\"'<>`\\,;)".contains(byte);
    let length = text[begin..].iter().take(VALUE_MAX_BYTES).take_while(|byte| !is_end(byte)).count();
    let authority = &text[begin..begin + length];
    let user = authority.iter().rposition(|byte| *byte == b'@')?;
    let (from, least) = match authority[..user].iter().position(|byte| *byte == b':') {
        Some(colon) => (colon + 1, 1),
        None => (0, URL_TOKEN_MIN_BYTES),
    };
    let value = begin + from..begin + user;
    (value.len() >= least && !is_placeholder(&text[value.clone()])).then_some(value)
}

pub(super) fn is_placeholder(value: &[u8]) -> bool {
    let begins_elsewhere = value.first().is_none_or(|byte| b"$<{[(%*&".contains(byte));
    let lower = String::from_utf8_lossy(value).to_ascii_lowercase();
    begins_elsewhere
        || PLACEHOLDERS.contains(&lower.as_str())
        || lower.bytes().all(|byte| byte == b'x' || byte == b'.')
}
