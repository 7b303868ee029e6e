//! The texts of problems, in the words that most validators use.

use std::fmt::{self, Write as _};

use posse_domain::text;
use serde_json::Value;

use super::node::{Contains, CountOf, JsonType, Keyword, NumberBound};

/// Most characters of a value, a name or a reason that a problem quotes.
const QUOTE_MAX_CHARS: usize = 100;
/// Most values that a problem lists.
pub(super) const SHOWN_MAX: usize = 5;

/// A value as JSON, without what is beyond a limit.
pub(super) fn quote(value: &Value) -> String {
    let mut text = ShortText { text: String::new(), chars_left: QUOTE_MAX_CHARS };
    // The error says that the value is longer, which the mark at the end shows.
    match write!(text, "{value}") {
        Ok(()) => text.text,
        Err(_) => text.text + "[…]",
    }
}

pub(super) fn shorten(text: &str) -> String {
    text::shorten(text, QUOTE_MAX_CHARS)
}

/// A text that refuses more than it has room for, so that a long value is not written to its end.
struct ShortText {
    text: String,
    chars_left: usize,
}

impl fmt::Write for ShortText {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        for letter in more.chars() {
            self.chars_left = self.chars_left.checked_sub(1).ok_or(fmt::Error)?;
            self.text.push(letter);
        }
        Ok(())
    }
}

/// What is wrong with a value that a keyword without other schemas refuses.
pub(super) fn mismatch(keyword: &Keyword, value: &Value) -> String {
    let value = quote(value);
    match keyword {
        Keyword::Type(types) => not_of_type(&value, types),
        Keyword::Const(expected) => format!("{} was expected", quote(expected)),
        Keyword::Enum(options) => not_an_option(&value, options),
        Keyword::Bound(bound) => beyond(&value, bound),
        Keyword::MultipleOf { text, .. } => format!("{value} is not a multiple of {text}"),
        Keyword::Size { of, at_most, limit } => wrong_size(&value, *of, *at_most, *limit),
        _ => format!("False schema does not allow {value}"),
    }
}

fn not_of_type(value: &str, types: &[JsonType]) -> String {
    let names: Vec<String> = types.iter().map(|json_type| format!("\"{}\"", json_type.name())).collect();
    format!("{value} is not of type{} {}", plural(names.len(), "", "s"), names.join(", "))
}

fn not_an_option(value: &str, options: &[Value]) -> String {
    let mut shown: Vec<String> = options.iter().take(SHOWN_MAX).map(quote).collect();
    let last = match options.len().checked_sub(SHOWN_MAX) {
        Some(more) if more > 0 => Some(format!("{more} other candidate{}", plural(more, "", "s"))),
        _ => shown.pop_if(|_| options.len() > 1),
    };
    let last = last.map(|last| format!(" or {last}")).unwrap_or_default();
    format!("{value} is not one of {}{last}", shown.join(", "))
}

fn beyond(value: &str, bound: &NumberBound) -> String {
    let (direction, name) = if bound.is_maximum { ("greater", "maximum") } else { ("less", "minimum") };
    let or_equal = if bound.is_exclusive { " or equal to" } else { "" };
    format!("{value} is {direction} than{or_equal} the {name} of {}", bound.text)
}

fn wrong_size(value: &str, of: CountOf, at_most: bool, limit: u64) -> String {
    let is_one = usize::from(limit != 1) + 1;
    match of {
        CountOf::Characters => {
            let direction = if at_most { "longer" } else { "shorter" };
            format!("{value} is {direction} than {limit} character{}", plural(is_one, "", "s"))
        }
        CountOf::Items => {
            let direction = if at_most { "more" } else { "less" };
            format!("{value} has {direction} than {limit} item{}", plural(is_one, "", "s"))
        }
        CountOf::Properties => {
            let direction = if at_most { "more" } else { "less" };
            format!("{value} has {direction} than {limit} propert{}", plural(is_one, "y", "ies"))
        }
    }
}

fn plural<'a>(count: usize, one: &'a str, more: &'a str) -> &'a str {
    if count == 1 { one } else { more }
}

pub(super) fn missing(name: &str, because_of: Option<&str>) -> String {
    let because = because_of.map(|other| format!(" if there is {:?}", shorten(other))).unwrap_or_default();
    format!("{} is a required property{because}", quote(&Value::from(name)))
}

/// The list has one entry more than is shown if there are others.
pub(super) fn unexpected(what: &str, names: &[String]) -> String {
    let shown = names.len().min(SHOWN_MAX);
    let more = if names.len() > shown { " and more" } else { "" };
    let were = plural(names.len(), "was", "were");
    format!("{what} are not allowed ({}{more} {were} unexpected)", names[..shown].join(", "))
}

pub(super) fn wrong_count(contains: &Contains, value: &Value, count: u64) -> String {
    let value = quote(value);
    match contains.at_most {
        Some(most) if count > most => {
            format!(
                "{count} items of {value} are valid under the schema of 'contains', at most {most} may be"
            )
        }
        _ if count == 0 => format!("None of {value} are valid under the given schema"),
        _ => {
            let least = contains.at_least;
            format!("{count} items of {value} are valid under the schema of 'contains', {least} must be")
        }
    }
}

pub(super) fn no_alternative(keyword: &str, value: &Value, reasons: &[String]) -> String {
    let why = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(" | ")) };
    format!("{} is not valid under any of the schemas listed in the '{keyword}' keyword{why}", quote(value))
}

pub(super) fn reason(index: usize, problem: &str) -> String {
    format!("{index}: {}", shorten(problem))
}

pub(super) fn two_alternatives(value: &Value, one: usize, other: usize) -> String {
    let schemas = "is valid under more than one of the schemas listed in the 'oneOf' keyword";
    format!("{} {schemas} ({one} and {other})", quote(value))
}
