//! Decides which part of a conversation a summary replaces, and what the model reads to write it.
//!
//! A conversation that does not fit is cut between two turns. The assignment and the newest turns stay word for word, a
//! call never loses its result, and a summary replaces the rest:
//!
//! ```text
//! earlier conversation, assignment, turn, turn, turn, turn      before
//!                       assignment, summary,    turn, turn      after
//! ```
//!
//! Why it is like this: `docs/decisions/context-compaction.md`.

use std::sync::Arc;

use crate::conversation::{BYTES_PER_TOKEN, CallResult, Conversation, Message, TOKENS_PER_MESSAGE};
use crate::machine::{digest, middle_out, newest_texts};
use crate::notes;

/// Maximum length of a summary.
pub const SUMMARY_MAX_TOKENS: u64 = 4_096;
/// Part of the window that a summary may fill: a small window is for the newest turns first.
const SUMMARY_PERCENT: u64 = 15;
/// Shortest summary that is worth a call.
const SUMMARY_MIN_TOKENS: u64 = 64;
/// Part of the window that is full after a compaction, unless the newest turn alone fills more. The rest is for the turns
/// until the next compaction.
const KEPT_PERCENT: u64 = 50;
/// Bytes of a summary per token of its call. Prose has more bytes per token than the estimate for all texts.
const SUMMARY_BYTES_PER_TOKEN: u64 = 6;

/// Where a conversation is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutPoint {
    /// The number of messages before the cut. The summary replaces all of them but the assignment.
    pub messages: usize,
    /// Maximum length of the summary.
    pub summary_tokens: u64,
}

/// Where to cut a conversation that has its assignment at position `assignment`, so that it and `added_tokens` fill at
/// most half of `window_tokens`. If the provider refused the conversation, the estimates are too low, so it is cut to half
/// of its present size. Keeps as many turns as that allows, and at least the newest. None if no cut makes the conversation
/// shorter.
pub fn cut(
    conversation: &Conversation,
    assignment: usize,
    added_tokens: u64,
    window_tokens: u64,
    is_refused: bool,
) -> Option<CutPoint> {
    let messages = conversation.messages();
    let total = conversation.estimated_tokens();
    let window = if is_refused { window_tokens.min(total) } else { window_tokens };
    let summary_tokens = SUMMARY_MAX_TOKENS.min(window / 100 * SUMMARY_PERCENT);
    if summary_tokens < SUMMARY_MIN_TOKENS {
        return None;
    }
    let fixed = tokens_of(messages.get(assignment..=assignment)?) + summary_room(summary_tokens);
    let after = |cut: usize| fixed + tokens_of(&messages[cut..]);
    let target = (window / 100 * KEPT_PERCENT).saturating_sub(added_tokens);
    let cuts: Vec<usize> = possible_cuts(messages, assignment).collect();
    // Later cuts leave less, so the first one that suffices keeps most.
    let chosen = cuts[cuts.partition_point(|&cut| after(cut) > target)..].first().or(cuts.last());
    let cut = *chosen.filter(|&&cut| after(cut) < total)?;
    Some(CutPoint { messages: cut, summary_tokens })
}

/// The positions after the assignment at which a turn begins, if a message before them can be replaced.
fn possible_cuts(messages: &[Arc<Message>], assignment: usize) -> impl Iterator<Item = usize> {
    let first = assignment + 1;
    (first..=messages.len()).filter(move |&at| {
        let is_turn = messages.get(at).is_some_and(|message| message.is_reply());
        if at == first { assignment > 0 } else { is_turn }
    })
}

/// The messages of a summary call: those before the cut, as the model knows them, and the request. If they have more than
/// `input_tokens`, the oldest outputs are omitted. If that is not enough, they become one text with the newest of them.
pub fn request(replaced: &[Arc<Message>], assignment: &str, input_tokens: u64) -> Conversation {
    let asked = Message::User(notes::SUMMARISE.into());
    let room = input_tokens.saturating_sub(tokens(asked.bytes(), 1));
    let mut request = Conversation::of_shared(replaced);
    request.trim_all(room);
    if request.estimated_tokens() > room {
        let max_bytes = room.saturating_sub(TOKENS_PER_MESSAGE) * BYTES_PER_TOKEN;
        let text = digest(assignment, replaced, usize::try_from(max_bytes).unwrap_or(usize::MAX));
        request = Conversation::from_iter([Message::User(text.into())]);
    }
    request.push(asked);
    request
}

/// A summary of the length that [`cut`] had reckoned with.
pub fn bounded(summary: &str, summary_tokens: u64) -> String {
    middle_out(summary, summary_max_bytes(summary_tokens))
}

/// The summary of a conversation that no model could summarise: the newest of the replaced messages.
pub fn host_summary(replaced: &[Arc<Message>], assignment: &str, summary_tokens: u64) -> String {
    let max_bytes = summary_max_bytes(summary_tokens);
    let room = max_bytes.saturating_sub(notes::HOST_SUMMARY.len() + 1);
    let newest = newest_texts(replaced, &[assignment], room);
    middle_out(&format!("{}\n{newest}", notes::HOST_SUMMARY), max_bytes)
}

/// Which part of the newest turn is the longest, in words, for the error when even that turn is refused as too long.
pub fn longest_part(conversation: &Conversation) -> String {
    let messages = conversation.messages();
    let newest = messages.iter().rposition(|message| message.is_reply()).unwrap_or(0);
    let results = messages[newest..].iter().filter_map(|message| match &**message {
        Message::Results(results) => Some(results),
        _ => None,
    });
    let longest = results.flatten().max_by_key(|result| result.text.len());
    let others = messages.iter().enumerate().filter_map(|(at, message)| match &**message {
        Message::User(text) if at == 0 || at > newest => Some(text.len()),
        _ => None,
    });
    let longest_text = others.max().unwrap_or(0);
    match longest.filter(|result| result.text.len() >= longest_text) {
        Some(CallResult { tool, call_id, text, .. }) => {
            format!("the result of `{tool}` (call {call_id}) has {} bytes", text.len())
        }
        None => format!("a message to the model has {longest_text} bytes"),
    }
}

fn summary_max_bytes(summary_tokens: u64) -> usize {
    usize::try_from(summary_tokens.saturating_mul(SUMMARY_BYTES_PER_TOKEN)).unwrap_or(usize::MAX)
}

/// The estimated tokens of the longest summary with the words around it.
fn summary_room(summary_tokens: u64) -> u64 {
    let bytes = summary_max_bytes(summary_tokens) + notes::summary("").len();
    tokens(bytes as u64, 1)
}

fn tokens_of(messages: &[Arc<Message>]) -> u64 {
    tokens(messages.iter().map(|message| message.bytes()).sum(), messages.len() as u64)
}

/// Rounded up, so that the sum of parts is never less than the whole.
fn tokens(bytes: u64, messages: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN) + messages * TOKENS_PER_MESSAGE
}

#[cfg(test)]
mod tests;
