//! Decodes server-sent events from a stream of bytes.
//!
//! Input may be split anywhere, also within a line end or a character. Complete lines are read in place, so each byte
//! is copied only once, into the data of its event. Comments, which some providers send as pings, produce nothing. An
//! event that the stream ends in is dropped.

use std::borrow::Cow;

use crate::wire::{Flow, Problem, StreamEvent};

pub(crate) const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;
/// A stream may begin with this.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The beginning of an incomplete line.
    line: Vec<u8>,
    /// The kind of the current event so far.
    event: Vec<u8>,
    /// The data of the current event so far.
    data: Vec<u8>,
    /// Whether the event had a line of data, which may be empty.
    has_data: bool,
    /// Whether the last byte was a carriage return, so that a following newline belongs to it.
    after_return: bool,
    /// Whether the first line was read.
    begun: bool,
}

impl Decoder {
    /// Takes the next bytes and passes every completed event to `take`, until one ends the stream.
    pub(crate) fn feed(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(StreamEvent<'_>) -> Result<Flow, Problem>,
    ) -> Result<Flow, Problem> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_return) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                self.line.extend_from_slice(bytes);
                self.check_size()?;
                break;
            };
            self.after_return = bytes[end] == b'\r';
            let flow = if self.line.is_empty() {
                self.take_line(&bytes[..end], &mut take)?
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&bytes[..end]);
                let flow = self.take_line(&line, &mut take)?;
                // The buffer is reused.
                line.clear();
                self.line = line;
                flow
            };
            if flow == Flow::End {
                return Ok(Flow::End);
            }
            bytes = &bytes[end + 1..];
        }
        Ok(Flow::On)
    }

    fn take_line(
        &mut self,
        mut line: &[u8],
        take: &mut impl FnMut(StreamEvent<'_>) -> Result<Flow, Problem>,
    ) -> Result<Flow, Problem> {
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            return self.end_event(take);
        }
        let (field, value) = match line.iter().position(|&byte| byte == b':') {
            Some(at) => (&line[..at], line[at + 1..].strip_prefix(b" ").unwrap_or(&line[at + 1..])),
            None => (line, &[][..]),
        };
        match field {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
                self.check_size()?;
            }
            b"event" => {
                self.event.clear();
                self.event.extend_from_slice(value);
            }
            // A comment, an id or a reconnection time, which a call does not need.
            _ => {}
        }
        Ok(Flow::On)
    }

    fn end_event(
        &mut self,
        take: &mut impl FnMut(StreamEvent<'_>) -> Result<Flow, Problem>,
    ) -> Result<Flow, Problem> {
        let flow = if std::mem::take(&mut self.has_data) {
            take(StreamEvent { event: &text(&self.event), data: &text(&self.data) })
        } else {
            Ok(Flow::On)
        };
        self.event.clear();
        self.data.clear();
        flow
    }

    fn check_size(&self) -> Result<(), Problem> {
        if self.line.len() + self.data.len() > MAX_EVENT_BYTES {
            return Err(Problem::cut(format!(
                "an event of the answer is longer than {MAX_EVENT_BYTES} bytes"
            )));
        }
        Ok(())
    }
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(chunks: &[&[u8]]) -> Vec<(String, String)> {
        let mut decoder = Decoder::default();
        let mut events = Vec::new();
        for chunk in chunks {
            let flow = decoder.feed(chunk, |event| {
                events.push((event.event.to_owned(), event.data.to_owned()));
                Ok(Flow::On)
            });
            assert_eq!(flow, Ok(Flow::On));
        }
        events
    }

    fn pair(event: &str, data: &str) -> (String, String) {
        (event.to_owned(), data.to_owned())
    }

    const MIXED: &str = "\u{FEFF}: ping\r\n\r\nevent: one\r\ndata: a\r\ndata:b\r\n\r\nid: 7\rdata: höhe 🙂\r\rdata\n\n\
                         retry: 3\n\nevent: lost\n\ndata:  two spaces\n: comment\nnonsense\n\ndata: never ended\n";

    #[test]
    fn fields_line_ends_and_comments_are_read_as_the_standard_has_them() {
        let expected = [pair("one", "a\nb"), pair("", "höhe 🙂"), pair("", ""), pair("", " two spaces")];
        assert_eq!(events(&[MIXED.as_bytes()]), expected);
    }

    #[test]
    fn cutting_the_bytes_anywhere_changes_nothing() {
        let whole = events(&[MIXED.as_bytes()]);
        let bytes = MIXED.as_bytes();
        for first in 0..bytes.len() {
            assert_eq!(events(&[&bytes[..first], &bytes[first..]]), whole, "cut at {first}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(events(&single), whole);
    }

    #[test]
    fn nothing_is_read_after_the_end() {
        let mut decoder = Decoder::default();
        let mut count = 0;
        let flow = decoder.feed(b"data: 1\n\ndata: 2\n\n", |_| {
            count += 1;
            Ok(Flow::End)
        });
        assert_eq!((flow, count), (Ok(Flow::End), 1));
    }

    #[test]
    fn an_event_without_end_is_cut_at_the_limit() {
        let line = vec![b'x'; 1024 * 1024];
        let mut decoder = Decoder::default();
        let mut fed = 0;
        let error = loop {
            match decoder.feed(&line, |_| Ok(Flow::On)) {
                Ok(_) => fed += line.len(),
                Err(error) => break error,
            }
            assert!(fed <= MAX_EVENT_BYTES);
        };
        assert!(error.message.contains("longer than 8388608 bytes"), "{}", error.message);

        let mut decoder = Decoder::default();
        let lines = b"data: 0123456789\n".repeat(100_000);
        let error = (0..10).find_map(|_| decoder.feed(&lines, |_| Ok(Flow::On)).err());
        assert!(error.is_some(), "many short lines of one event are limited too");
    }
}
