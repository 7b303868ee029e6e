//! The error when no rule matches: the newest message, and why each rule was skipped.

use std::fmt::Write;

use posse_agent::conversation::Message;
use posse_engine::ports::ModelRequest;

use super::{Script, rule};

/// Limit of characters of the newest message that are shown.
const NEWEST_MAX_CHARS: usize = 400;
/// Limit of texts of the newest message that are shown.
const TEXTS_MAX: usize = 4;
/// Limit of rules that are shown.
const RULES_MAX: usize = 20;

/// The error's text. The journal and a user receive it, so every part of it is bounded.
pub(super) fn text(script: &Script, request: &ModelRequest) -> String {
    let agent = request.agent.relative();
    let mut text = format!(
        "no rule of {} answers agent {agent} (definition {}, depth {}, turn {})\nnewest message: {}",
        script.name,
        request.definition,
        request.depth,
        request.turn,
        newest(request),
    );
    for (index, numbered) in script.rules.iter().enumerate().take(RULES_MAX) {
        let place = numbered.rule.line.map(|line| format!(" (line {line})")).unwrap_or_default();
        // A matching rule would have answered.
        if let Err(mismatch) = numbered.check(request) {
            let _ = write!(text, "\nrule {}{place} {mismatch}", index + 1);
        }
    }
    if script.rules.len() > RULES_MAX {
        let _ = write!(text, "\nand {} more rules", script.rules.len() - RULES_MAX);
    }
    text
}

fn newest(request: &ModelRequest) -> String {
    let mut texts: Vec<String> = Vec::new();
    let messages = rule::newest(request);
    let results = |message: &Message| if let Message::Results(results) = message { results.len() } else { 1 };
    let count: usize = messages.iter().map(|message| results(message)).sum();
    for message in messages {
        match &**message {
            Message::User(text) | Message::Assistant { text, .. } => texts.push(quoted(text, count)),
            Message::Results(results) => {
                let shown = results.iter().take(TEXTS_MAX);
                texts.extend(shown.map(|result| format!("{} {}", result.tool, quoted(&result.text, count))));
            }
        }
    }
    texts.truncate(TEXTS_MAX);
    match count.saturating_sub(texts.len()) {
        _ if texts.is_empty() => "none".to_owned(),
        0 => texts.join(", "),
        more => format!("{}, and {more} more", texts.join(", ")),
    }
}

/// One of `count` texts that share the limit for the newest message.
fn quoted(text: &str, count: usize) -> String {
    format!("{:?}", clip(text, NEWEST_MAX_CHARS / count.clamp(1, TEXTS_MAX)))
}

/// The text, truncated with a mark if it is longer than `max` characters.
pub(super) fn clip(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
