//! What is said when no rule answers: the newest message, and why each rule was passed over.

use std::fmt::Write;

use posse_agent::conversation::Message;
use posse_engine::ports::ModelRequest;

use super::Script;

/// Longest part of the newest message that is shown.
const NEWEST_MAX_CHARS: usize = 400;
/// Most results of the newest message that are shown.
const RESULTS_MAX: usize = 4;
/// Most rules that are shown.
const RULES_MAX: usize = 20;

/// The error's text. It goes into the journal and to a person, so every part of it is bounded.
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
        // A rule that matched would have answered.
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
    let quote = |text: &str, max: usize| format!("{:?}", clip(text, max));
    match request.messages.last().map(AsRef::as_ref) {
        None => "none".to_owned(),
        Some(Message::User(text)) => quote(text, NEWEST_MAX_CHARS),
        Some(Message::Assistant { text, .. }) => format!("a reply, {}", quote(text, NEWEST_MAX_CHARS)),
        Some(Message::Results(results)) => {
            let each = NEWEST_MAX_CHARS / RESULTS_MAX;
            let shown = results.iter().take(RESULTS_MAX);
            let shown = shown.map(|result| format!("{} {}", result.tool, quote(&result.text, each)));
            let more = if results.len() > RESULTS_MAX { ", ..." } else { "" };
            format!("{} results, {}{more}", results.len(), shown.collect::<Vec<_>>().join(", "))
        }
    }
}

/// The text, cut with a mark if it is longer than `max` characters.
pub(super) fn clip(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
