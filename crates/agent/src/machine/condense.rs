//! Condenses a conversation for a report turn that has no room for all of it.
//!
//! The result is one message of plain text: the assignment, the newest messages, and the request. Every provider
//! accepts it, whichever calls and results are omitted, and its size is known in advance.

use std::fmt::Write;
use std::sync::Arc;

use posse_domain::budget::REPORT_INPUT_TOKENS;
use posse_domain::event::ReportCause;

use super::Machine;
use crate::conversation::{BYTES_PER_TOKEN, Message, TOKENS_PER_MESSAGE};

/// Maximum size of the system prompt of such a turn.
pub const REPORT_SYSTEM_MAX_BYTES: usize = 4 * 1024;
/// Maximum size of the assignment.
const TASK_MAX_BYTES: usize = 2 * 1024;
/// Maximum size of one message: one long output must not displace all others.
const MESSAGE_MAX_BYTES: usize = 1536;
/// The placeholder for the omitted part.
const LEFT_OUT: &str = "[...]";

const TASK: &str = "# Your assignment\n\n";
const END: &str = "\n\n# The end of your conversation so far\n\nThe whole conversation does not fit any more; what came \
                   before is left out.\n";

impl Machine {
    /// The condensed conversation, as the only message of a report turn. With a system prompt of `system_bytes` it has
    /// at most [`REPORT_INPUT_TOKENS`].
    pub fn condensed(&self, cause: ReportCause, system_bytes: usize) -> Message {
        let note = self.report_note(cause);
        let task = middle_out(&self.first, TASK_MAX_BYTES);
        let all = (REPORT_INPUT_TOKENS - 2 * TOKENS_PER_MESSAGE) * BYTES_PER_TOKEN;
        let fixed = system_bytes + TASK.len() + task.len() + END.len() + note.len() + 4;
        let room = usize::try_from(all).unwrap_or(usize::MAX).saturating_sub(fixed);
        let newest = newest_texts(self.conversation.messages(), &[&self.first, &note], room);
        let mut text = format!("{TASK}{task}");
        if !newest.is_empty() {
            text.push_str(END);
            text.push_str(&newest);
        }
        Message::User(Arc::from(format!("{text}\n\n{note}")))
    }
}

/// The newest messages as text, each shortened, as many as have at most `room` bytes. Texts that the request contains
/// elsewhere are omitted.
pub(crate) fn newest_texts(messages: &[Arc<Message>], elsewhere: &[&str], mut room: usize) -> String {
    let mut newest = Vec::new();
    for message in messages.iter().rev() {
        let Some(text) = shown(message, elsewhere) else { continue };
        if text.len() > room {
            break;
        }
        room -= text.len();
        newest.push(text);
    }
    newest.reverse();
    newest.concat()
}

/// The assignment and the newest of these messages as one text of at most `max_bytes`.
pub(crate) fn digest(assignment: &str, messages: &[Arc<Message>], max_bytes: usize) -> String {
    let task = middle_out(assignment, TASK_MAX_BYTES);
    let room = max_bytes.saturating_sub(TASK.len() + task.len() + END.len());
    let newest = newest_texts(messages, &[assignment], room);
    middle_out(&format!("{TASK}{task}{END}{newest}"), max_bytes)
}

/// A message as text. None if the request already contains it elsewhere.
fn shown(message: &Message, elsewhere: &[&str]) -> Option<String> {
    let mut text = String::new();
    // Writing to a string cannot fail.
    match message {
        Message::User(message) if elsewhere.contains(&&**message) => return None,
        Message::User(message) => {
            let _ = write!(text, "\n## A message to you\n\n{}\n", middle_out(message, MESSAGE_MAX_BYTES));
        }
        Message::Assistant { text: message, calls, .. } => {
            if !message.trim().is_empty() {
                let _ = write!(text, "\n## You wrote\n\n{}\n", middle_out(message, MESSAGE_MAX_BYTES));
            }
            let each = MESSAGE_MAX_BYTES / calls.len().max(1);
            for call in calls.iter() {
                let input = middle_out(&call.input.to_string(), each);
                let _ = write!(text, "\n## You called `{}`\n\n{input}\n", middle_out(&call.name, 64));
            }
        }
        Message::Results(results) => {
            let each = MESSAGE_MAX_BYTES / results.len().max(1);
            for result in results {
                let output = middle_out(&result.text, each);
                let _ = write!(text, "\n## Result of `{}`\n\n{output}\n", middle_out(&result.tool, 64));
            }
        }
    }
    Some(text)
}

/// The beginning and the end of a text, at most `max` bytes together.
pub(crate) fn middle_out(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let kept = max.saturating_sub(LEFT_OUT.len());
    let head = text.floor_char_boundary(kept.div_ceil(2));
    let tail = text.ceil_char_boundary(text.len() - kept / 2);
    format!("{}{LEFT_OUT}{}", &text[..head], &text[tail..])
}
