//! Removes the key from everything that a provider sends, with one walk over each type that leaves this crate.
//!
//! No model knows the key, but a server that echoes its request does, and it may echo it in any field: a tool's name, a
//! call's id, the key of an argument, an error in the middle of a stream. The walks list every field, without `..`, so
//! that a new field does not compile until a line decides how it is scrubbed.

use std::borrow::Cow;

use posse_domain::message::{RawReply, Reply, ToolCall};
use posse_domain::scrub::{ScrubbedStream, Scrubber};
use posse_domain::text::Text;
use posse_engine::ports::StreamPart;

use crate::endpoint::Key;
use crate::wire::{Answer, Problem, StopReason};

/// Removes a key. Without a key, it changes nothing.
#[derive(Clone, Default)]
pub(crate) struct Scrub(Option<Scrubber>);

impl Scrub {
    pub(crate) fn of(key: Option<&Key>) -> Self {
        Self(key.and_then(|key| Scrubber::of(key.secret())))
    }

    /// Scrubs a text that may have been truncated.
    pub(crate) fn cut_text(&self, text: &str) -> String {
        self.0.as_ref().map_or_else(|| text.to_owned(), |scrubber| scrubber.cut_text(text))
    }

    pub(crate) fn answer(&self, answer: Answer) -> Answer {
        let Some(scrubber) = &self.0 else { return answer };
        // Counts are numbers, which cannot contain a key.
        let Answer { reply, usage, stop } = answer;
        let stop = match stop {
            StopReason::Refused(why) => StopReason::Refused(scrubber.cut_text(&why)),
            stop @ (StopReason::Done | StopReason::Length) => stop,
        };
        Answer { reply: clean(scrubber, reply), usage, stop }
    }

    pub(crate) fn problem(&self, problem: Problem) -> Problem {
        // The kind contains only durations.
        let Problem { kind, message, status, usage } = problem;
        Problem { kind, message: self.cut_text(&message), status, usage }
    }
}

fn clean(scrubber: &Scrubber, reply: Reply) -> Reply {
    let Reply { text, calls, raw } = reply;
    let text = match text {
        Text::Here(text) => match scrubber.text(&text) {
            Cow::Owned(clean) => clean.into(),
            Cow::Borrowed(_) => Text::Here(text.clone()),
        },
        // The host created this name, and its content was never sent by a provider.
        stored @ Text::Stored(_) => stored,
    };
    let calls = calls.into_iter().map(|call| {
        let ToolCall { mut id, mut name, mut input } = call;
        scrubber.string(&mut id);
        scrubber.string(&mut name);
        scrubber.value(&mut input);
        ToolCall { id, name, input }
    });
    let calls = calls.collect();
    // A provider accepts only its own unmodified content, which is often signed. Content that would have to change is
    // dropped.
    let raw = raw.filter(|raw| {
        let RawReply { model: _, content } = &**raw;
        let mut clean = content.clone();
        scrubber.value(&mut clean);
        clean == *content
    });
    Reply { text, calls, raw }
}

/// Removes the key from pieces of a stream, also if it is split over two of them.
#[derive(Default)]
pub(crate) struct ScrubbedParts {
    scrub: Scrub,
    text: ScrubbedStream,
    thinking: ScrubbedStream,
}

impl ScrubbedParts {
    pub(crate) fn new(scrub: Scrub) -> Self {
        Self { scrub, ..Self::default() }
    }

    /// Takes a piece, and shows the part that is safe to show.
    pub(crate) fn part(&mut self, part: StreamPart, show: &mut dyn FnMut(StreamPart)) {
        let Some(scrubber) = &self.scrub.0 else { return show(part) };
        // A piece that is held back still counts as activity.
        let or_alive = |text: String, kind: fn(String) -> StreamPart| {
            if text.is_empty() { StreamPart::Alive } else { kind(text) }
        };
        match part {
            StreamPart::Text(piece) => show(or_alive(self.text.push(scrubber, &piece), StreamPart::Text)),
            StreamPart::Thinking(piece) => {
                show(or_alive(self.thinking.push(scrubber, &piece), StreamPart::Thinking));
            }
            StreamPart::Tool(name) => {
                let name = scrubber.text(&name).into_owned();
                self.finish(show);
                show(StreamPart::Tool(name));
            }
            StreamPart::Alive => show(StreamPart::Alive),
        }
    }

    /// Shows the text that was held back.
    pub(crate) fn finish(&mut self, show: &mut dyn FnMut(StreamPart)) {
        let Some(scrubber) = &self.scrub.0 else { return };
        for (stream, kind) in [
            (&mut self.text, StreamPart::Text as fn(String) -> StreamPart),
            (&mut self.thinking, StreamPart::Thinking),
        ] {
            let rest = stream.finish(scrubber);
            if !rest.is_empty() {
                show(kind(rest));
            }
        }
    }
}
