//! Estimates tokens that a script does not state: one per four characters, rounded up, the same on every machine.

use std::io;

use posse_agent::conversation::Message;
use posse_engine::ports::ModelRequest;
use serde_json::Value;

const CHARS_PER_TOKEN: u64 = 4;

pub(super) fn tokens(chars: u64) -> u64 {
    chars.div_ceil(CHARS_PER_TOKEN)
}

/// Characters of the system prompt and the conversation. Tool schemas are not counted: they are the same for every call
/// of an agent, and measuring them would cost more than answering.
pub(super) fn request_chars(request: &ModelRequest) -> u64 {
    text_chars(&request.system) + request.messages.iter().map(|message| message_chars(message)).sum::<u64>()
}

fn message_chars(message: &Message) -> u64 {
    match message {
        Message::User(text) => text_chars(text),
        Message::Assistant { text, calls, .. } => {
            text_chars(text) + calls.iter().map(|call| call_chars(&call.name, &call.input)).sum::<u64>()
        }
        Message::Results(results) => results.iter().map(|result| text_chars(&result.text)).sum(),
    }
}

pub(super) fn text_chars(text: &str) -> u64 {
    text.chars().count() as u64
}

/// Characters of a tool call, with its arguments as JSON.
pub(super) fn call_chars(name: &str, input: &Value) -> u64 {
    let mut counter = CharCounter(0);
    // The counter accepts everything, and a value can always be serialised.
    let _ = serde_json::to_writer(&mut counter, input);
    text_chars(name) + counter.0
}

/// Counts the characters written to it, so that no text is built only to be measured.
struct CharCounter(u64);

impl io::Write for CharCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // In UTF-8 every byte except a continuation byte begins a character.
        self.0 += bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_four_characters_begun() {
        assert_eq!((tokens(0), tokens(1), tokens(4), tokens(5)), (0, 1, 1, 2));
    }

    #[test]
    fn characters_are_counted_not_bytes() {
        assert_eq!(text_chars("grün"), 4);
        assert_eq!(call_chars("read", &serde_json::json!({"p": "ü"})), 4 + 9);
    }
}
