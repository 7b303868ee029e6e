//! Prints lines of JSON on standard output. `posse::api` defines the objects.

use std::fmt::Write;

use serde::Serialize;

use crate::term::is_plain;

/// A value on one line, safe to show on a terminal.
pub(crate) fn line(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).unwrap_or_else(|error| {
        // Only a map with keys that are not text fails, and no type here has one.
        format!("{{\"error\":\"{error}\"}}")
    });
    let mut line = escape(json);
    line.push('\n');
    line
}

/// Escapes control characters. In JSON they can only be inside strings, so nothing is lost.
fn escape(json: String) -> String {
    if json.chars().all(is_plain) {
        return json;
    }
    let mut safe = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        if is_plain(c) {
            safe.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(safe, "\\u{unit:04x}");
            }
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_escaped_without_loss() {
        let value = json!({"text": "\u{9b}2J\u{202e}\u{e0041}\u{7f}\u{1b}[1m\nä"});
        let line = line(&value);
        assert!(line.trim_end().chars().all(is_plain), "{line:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&line).expect("json"), value);
    }
}
