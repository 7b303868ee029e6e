//! Separates calls from text while an answer streams.

use super::repair;

/// The tags that many open models were trained with.
const TAG: &str = "<tool_call>";
const END_TAG: &str = "</tool_call>";
/// The first word after the fence of a call.
const MARKS: [&str; 2] = ["tool_call", "tool_calls"];
/// Limit of a fence's indentation. A fence that is indented further is a quotation.
const INDENT_MAX: usize = 3;
const FENCE_MIN: usize = 3;
/// Limit of lines of one call that are searched for a fence at their end, because each search parses the whole call.
const LATE_FENCES_MAX: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// Text to show.
    Text(String),
    Begun,
    /// A call, as the model wrote it.
    Call(String),
}

/// Splits an answer into text and calls. Text is passed on at once, except the beginning of a line that may become a
/// mark.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    state: State,
    /// The current line.
    line: String,
    /// The number of bytes of the line that were passed on.
    shown: usize,
}

#[derive(Debug, Default)]
enum State {
    /// Text outside of any block.
    #[default]
    Text,
    /// A quoted block, whose content is text.
    Quoted(Fence),
    /// A call in a fenced block.
    Call { fence: Fence, body: String, late_fences: usize },
    /// A call in tags.
    Tagged { body: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fence {
    mark: char,
    length: usize,
}

impl Blocks {
    /// Takes the next part of the answer.
    pub(super) fn push(&mut self, text: &str, take: &mut dyn FnMut(Piece)) {
        for part in text.split_inclusive('\n') {
            self.push_part(part, take);
        }
    }

    /// Takes the end of the answer. Returns the incomplete call, if there is one.
    pub(super) fn end(mut self, take: &mut dyn FnMut(Piece)) -> Option<String> {
        // The last line needs no line break.
        if !self.line.is_empty() {
            self.push_part("\n", take);
        }
        match self.state {
            State::Text | State::Quoted(_) => None,
            State::Call { body, .. } | State::Tagged { body } => Some(body),
        }
    }

    fn push_part(&mut self, part: &str, take: &mut dyn FnMut(Piece)) {
        if let State::Tagged { body } = &mut self.state {
            // The end tag may begin in an earlier part.
            let from = body.floor_char_boundary(body.len().saturating_sub(END_TAG.len()));
            body.push_str(part);
            let Some(at) = body[from..].find(END_TAG) else { return };
            let rest = body.split_off(from + at);
            take(Piece::Call(std::mem::take(body)));
            self.state = State::Text;
            return self.push_part(&rest[END_TAG.len()..], take);
        }
        self.line.push_str(part);
        if matches!(self.state, State::Text)
            && let Some(rest) = unindented(&self.line).and_then(|line| line.strip_prefix(TAG))
        {
            let rest = rest.to_owned();
            self.forget_line();
            take(Piece::Begun);
            self.state = State::Tagged { body: String::new() };
            return self.push_part(&rest, take);
        }
        if self.line.ends_with('\n') {
            self.line_ended(take);
        } else if !self.may_be_mark() {
            self.show_line(take);
        }
    }

    fn line_ended(&mut self, take: &mut dyn FnMut(Piece)) {
        match &mut self.state {
            State::Call { fence, body, late_fences } => {
                if fence.is_closed_by(&self.line) || complete_with_line(body, &self.line, late_fences) {
                    take(Piece::Call(std::mem::take(body)));
                    self.state = State::Text;
                } else {
                    body.push_str(&self.line);
                }
                return self.forget_line();
            }
            State::Quoted(fence) if fence.is_closed_by(&self.line) => self.state = State::Text,
            State::Quoted(_) | State::Tagged { .. } => {}
            State::Text => {
                if let Some((fence, info)) = Fence::opened_by(&self.line) {
                    if let Some(rest) = call_mark(fence, info) {
                        let first = rest.to_owned();
                        return self.call_begins(fence, first, take);
                    }
                    self.state = State::Quoted(fence);
                }
            }
        }
        self.show_line(take);
        self.forget_line();
    }

    /// Begins a call, which may start on the line of its mark.
    fn call_begins(&mut self, fence: Fence, first: String, take: &mut dyn FnMut(Piece)) {
        self.forget_line();
        take(Piece::Begun);
        self.state = State::Call { fence, body: String::new(), late_fences: 0 };
        if !first.trim().is_empty() {
            self.line = first;
            self.line_ended(take);
        }
    }

    /// Whether the incomplete line may become the beginning of a call.
    fn may_be_mark(&self) -> bool {
        match &self.state {
            State::Text => unindented(&self.line).is_some_and(|line| {
                TAG.starts_with(line) || "```".starts_with(line) || line.starts_with("```")
            }),
            // Lines of a call are not shown at all.
            State::Call { .. } | State::Tagged { .. } => true,
            State::Quoted(_) => false,
        }
    }

    fn show_line(&mut self, take: &mut dyn FnMut(Piece)) {
        if self.shown < self.line.len() {
            take(Piece::Text(self.line[self.shown..].to_owned()));
            self.shown = self.line.len();
        }
    }

    fn forget_line(&mut self) {
        self.line.clear();
        self.shown = 0;
    }
}

impl Fence {
    /// The fence with which a line begins a block, and the text after it.
    fn opened_by(line: &str) -> Option<(Self, &str)> {
        let line = unindented(line)?;
        let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let info = line.trim_start_matches(mark);
        let length = line.len() - info.len();
        (length >= FENCE_MIN).then_some((Self { mark, length }, info))
    }

    fn is_closed_by(self, line: &str) -> bool {
        let closing = Self::opened_by(line).filter(|(_, info)| info.trim().is_empty());
        closing.is_some_and(|(fence, _)| fence.mark == self.mark && fence.length >= self.length)
    }
}

/// Adds the line to a call that it completes, because some models close the block on the line of the call. Returns
/// whether the call is complete. If it is not, nothing is added.
fn complete_with_line(body: &mut String, line: &str, late_fences: &mut usize) -> bool {
    let Some(line) = line.trim_end().strip_suffix("```") else { return false };
    *late_fences += 1;
    if *late_fences > LATE_FENCES_MAX {
        return false;
    }
    let before = body.len();
    body.push_str(line);
    let whole = repair::is_whole(body);
    if !whole {
        body.truncate(before);
    }
    whole
}

/// The text after the mark of a call, if the fence has one.
fn call_mark(fence: Fence, info: &str) -> Option<&str> {
    let info = info.trim_start();
    let end = info.find(|c: char| c.is_whitespace() || c == '{' || c == '[').unwrap_or(info.len());
    (fence.mark == '`' && MARKS.contains(&&info[..end])).then_some(&info[end..])
}

/// The line without its indentation. `None` if it is indented too far to be a fence.
fn unindented(line: &str) -> Option<&str> {
    // A line of spaces may stream one by one, so at most the allowed number is read.
    let indent = line.bytes().take(INDENT_MAX + 1).take_while(|byte| *byte == b' ').count();
    (indent <= INDENT_MAX).then(|| &line[indent..])
}
