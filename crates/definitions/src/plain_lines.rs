//! Fast path for front matter that has only lines of `key: value`, which is most of it: parsed without a YAML parser,
//! because hundreds of files are read before a run starts. Any text that could have another meaning goes to the YAML
//! parser. A property test compares the two.

use serde_json::Number;

use super::tolerant::key_of;
use crate::yaml::{Key, Node, Value};

/// Maximum number of digits of a number that is parsed here.
const DIGITS_MAX: usize = 9;

/// Parses a text of plain lines. None if it has any other line.
pub(super) fn read(text: &str) -> Option<Node> {
    let mut entries = Vec::new();
    for (line_number, line) in (1..).zip(text.lines()) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, value) = key_of(line).filter(|_| line.starts_with(|c: char| c.is_ascii_alphabetic()))?;
        let is_plain_key = line.as_bytes().get(key.len()) == Some(&b':');
        let value = value.strip_prefix(' ').filter(|_| is_plain_key)?;
        let value = value.trim_matches(' ');
        let value = plain_list(value, line_number).or_else(|| plain_value(value))?;
        let key = Key { line: line_number, name: key.to_owned() };
        entries.push((key, Node { line: line_number, value }));
    }
    let line = entries.first().map(|(key, _)| key.line)?;
    Some(Node { line, value: Value::Map(entries) })
}

/// `[Read, Grep]`: a list that contains only words.
fn plain_list(text: &str, line: u64) -> Option<Value> {
    let items = text.strip_prefix('[')?.strip_suffix(']')?;
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    let item = |item: &str| {
        let item = item.trim_matches(' ');
        let begins = item.starts_with(|c: char| c.is_ascii_alphabetic());
        let is_text = begins && item.bytes().all(is_word) && is_plain_text(item);
        is_text.then(|| Node { line, value: Value::Text(item.to_owned()) })
    };
    items.split(',').map(item).collect::<Option<Vec<Node>>>().map(Value::List)
}

/// A value that has the same meaning in every version of YAML.
fn plain_value(text: &str) -> Option<Value> {
    let is_printable = |c: char| {
        !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}'..='\u{ffff}')
    };
    if !text.chars().all(is_printable) {
        return None;
    }
    match text.chars().next()? {
        quote @ ('"' | '\'') => {
            let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
            let is_plain = !inner.contains(quote) && !inner.contains('\\');
            is_plain.then(|| Value::Text(inner.to_owned()))
        }
        '0'..='9' => number(text).map(Value::Number),
        c if c.is_alphabetic() => match text {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            _ => is_plain_text(text).then(|| Value::Text(text.to_owned())),
        },
        _ => None,
    }
}

fn is_plain_text(text: &str) -> bool {
    // Short words may be numbers or null: `null`, `NaN`, `Inf`.
    let means_more = ["null", "true", "false", "nan", "inf", "infinity", "yes", "no", "on", "off", "y", "n"];
    !text.contains(": ")
        && !text.ends_with(':')
        && !text.contains(" #")
        && !means_more.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// `20` and `0.3`, but not `007`, `1_000` or `1e3`.
fn number(text: &str) -> Option<Number> {
    let is_digits =
        |text: &str| (1..=DIGITS_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    let has_zeros = |text: &str| text.len() > 1 && text.starts_with('0');
    let (whole, fraction) = text.split_once('.').map_or((text, None), |(whole, rest)| (whole, Some(rest)));
    if !is_digits(whole) || has_zeros(whole) {
        return None;
    }
    match fraction {
        None => text.parse::<u64>().ok().map(Number::from),
        Some(fraction) if is_digits(fraction) => text.parse().ok().and_then(Number::from_f64),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_lines_are_read_and_others_are_left() {
        for plain in [
            "a: x",
            "a: x\n\n# c\nb-c: 'y'\n",
            "a: \"x: # y\"",
            "a: 12",
            "a: 0.3",
            "a: Read, Bash(git:*)",
            "a: [x, y-z]",
        ] {
            assert!(read(plain).is_some(), "{plain}");
        }
        for other in [
            "",
            "a:",
            "a: x: y",
            "a: x #y",
            "a: x\n  more",
            "a: [x: y]",
            "a: [x, ]",
            "a: [1]",
            "a: [x] y",
            "a: []",
            "a: |\n  x",
            "- a: b",
            "a: null",
            "a: 007",
            "a: .5",
            "a: 1e3",
            "a: \"x\\n\"",
            "a: 'it''s'",
            "a: *x",
            "a:\tx",
            "\"a\": x",
            " a: x",
            "a : x",
            "a: NaN",
            "a: x:",
            "a: ~",
        ] {
            assert!(read(other).is_none(), "{other}");
        }
    }
}
