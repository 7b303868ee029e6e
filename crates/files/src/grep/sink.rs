//! Collects the results of one file.

use std::io;

use grep_matcher::Matcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkFinish, SinkMatch};

use super::clip::clip;
use super::stoppable::StoppableMatcher;
use super::{GREP_LINE_MAX_BYTES, GREP_OUTPUT_MAX_BYTES, GrepFile, GrepLine, GrepOutput};
use crate::RelPath;

/// The result of searching one file.
pub(super) enum Outcome {
    /// The results, and whether the file has more of them.
    Found(GrepFile, bool),
    /// No line matches.
    Nothing,
    /// The file is not text.
    Binary,
    /// The file could not be searched.
    Unread,
    /// The read filter refused the file.
    Refused,
}

/// Receives the results of one file from the searcher.
pub(super) struct Collector<'a> {
    file: GrepFile,
    matcher: &'a StoppableMatcher<'a>,
    output: GrepOutput,
    limit: usize,
    bytes: usize,
    more: bool,
    binary: bool,
}

impl<'a> Collector<'a> {
    pub(super) fn new(
        path: RelPath,
        matcher: &'a StoppableMatcher<'a>,
        output: GrepOutput,
        limit: usize,
    ) -> Self {
        let file = GrepFile { path, matches: 0, lines: Vec::new() };
        Self { file, matcher, output, limit, bytes: 0, more: false, binary: false }
    }

    pub(super) fn outcome(self) -> Outcome {
        match (self.binary, self.file.matches) {
            (true, _) => Outcome::Binary,
            (false, 0) => Outcome::Nothing,
            (false, _) => Outcome::Found(self.file, self.more),
        }
    }

    fn push(&mut self, number: Option<u64>, line: &[u8], matched: bool) -> io::Result<()> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_cut = matched && line.len() > GREP_LINE_MAX_BYTES;
        let found = if is_cut { self.matcher.find(line).map_err(io::Error::other)? } else { None };
        let around = found.map_or(0, |found| found.start());
        let text = clip(line, around, GREP_LINE_MAX_BYTES);
        self.bytes += text.len();
        self.file.lines.push(GrepLine { number: number.unwrap_or(0), text, matched });
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.file.matches >= self.limit || self.bytes >= GREP_OUTPUT_MAX_BYTES
    }
}

impl Sink for Collector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        match self.output {
            GrepOutput::Files => {
                self.file.matches = 1;
                return Ok(false);
            }
            GrepOutput::Count => self.file.matches += 1,
            // One match more than the limit shows that there are more, and gives the last one its context.
            GrepOutput::Content if self.is_full() => {
                self.more = true;
                return Ok(false);
            }
            GrepOutput::Content => {
                self.file.matches += 1;
                self.push(found.line_number(), found.bytes(), true)?;
            }
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> Result<bool, io::Error> {
        self.push(found.line_number(), found.bytes(), false)?;
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> Result<(), io::Error> {
        self.binary = finish.binary_byte_offset().is_some();
        Ok(())
    }
}
