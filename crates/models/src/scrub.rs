//! Takes the key out of all that a provider sends: one walk over each type that leaves this crate.
//!
//! No model knows the key, but a server that echoes what it was sent does, and it may do so in any field: a tool's name,
//! a call's id, the key of an argument, an error in the middle of a stream. The walks name every field, without `..`, so
//! that a new field does not compile until its own line decides what happens to it.

use std::borrow::Cow;

use posse_domain::message::{RawReply, Reply, ToolCall};
use posse_domain::scrub::{ScrubbedStream, Scrubber};
use posse_domain::text::Text;
use posse_engine::ports::StreamPart;

use crate::endpoint::Key;
use crate::wire::{Answer, Problem, StopReason};

/// What takes a key out; without a key, nothing changes.
#[derive(Clone, Default)]
pub(crate) struct Scrub(Option<Scrubber>);

impl Scrub {
    /// For this key.
    pub(crate) fn of(key: Option<&Key>) -> Self {
        Self(key.and_then(|key| Scrubber::of(key.secret())))
    }

    /// A text that may have been cut.
    pub(crate) fn cut_text(&self, text: &str) -> String {
        self.0.as_ref().map_or_else(|| text.to_owned(), |scrubber| scrubber.cut_text(text))
    }

    /// A whole answer.
    pub(crate) fn answer(&self, answer: Answer) -> Answer {
        let Some(scrubber) = &self.0 else { return answer };
        // Counts are numbers of our own type.
        let Answer { reply, usage, stop } = answer;
        let stop = match stop {
            StopReason::Refused(why) => StopReason::Refused(scrubber.cut_text(&why)),
            stop @ (StopReason::Done | StopReason::Length) => stop,
        };
        Answer { reply: clean(scrubber, reply), usage, stop }
    }

    /// A problem.
    pub(crate) fn problem(&self, problem: Problem) -> Problem {
        // The kind has nothing but times.
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
        // A name that we gave; what it names was never sent by a provider.
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
    // A provider takes back only what it wrote, often signed: what has to be changed is dropped.
    let raw = raw.filter(|raw| {
        let RawReply { model: _, content } = &**raw;
        let mut clean = content.clone();
        scrubber.value(&mut clean);
        clean == *content
    });
    Reply { text, calls, raw }
}

/// Takes the key out of pieces, also where it is spread over two of them.
#[derive(Default)]
pub(crate) struct ScrubbedParts {
    scrub: Scrub,
    text: ScrubbedStream,
    thinking: ScrubbedStream,
}

impl ScrubbedParts {
    /// For this key.
    pub(crate) fn new(scrub: Scrub) -> Self {
        Self { scrub, ..Self::default() }
    }

    /// Takes a piece, and shows what can be shown by now.
    pub(crate) fn part(&mut self, part: StreamPart, show: &mut dyn FnMut(StreamPart)) {
        let Some(scrubber) = &self.scrub.0 else { return show(part) };
        // What is held back is still a sign of life.
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

    /// Shows what was held back.
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
