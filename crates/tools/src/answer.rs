//! Builds results of many lines within the size limit of a tool's answer.

use std::fmt::Write;

use posse_engine::ports::ToolOutput;

/// Maximum size of a tool's result, without its closing note.
pub(crate) const ANSWER_MAX_BYTES: usize = 64 * 1024;

/// A result of many lines, followed by a note.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    text: String,
}

impl Answer {
    /// Adds a line. Returns false and adds nothing if it no longer fits.
    pub(crate) fn line(&mut self, line: &str) -> bool {
        if self.text.len() + line.len() >= ANSWER_MAX_BYTES {
            return false;
        }
        self.text.push_str(line);
        self.text.push('\n');
        true
    }

    /// Ends the result with notes for the model.
    pub(crate) fn close(mut self, notes: &[String]) -> ToolOutput {
        // Writing to a string cannot fail.
        let _ = write!(self.text, "[{}]", notes.join("; "));
        ToolOutput::text(self.text)
    }
}

/// A number with its noun.
pub(crate) fn count(number: usize, noun: &str) -> String {
    match (number, noun) {
        (1, _) => format!("1 {noun}"),
        (_, "match") => format!("{number} matches"),
        (_, "entry") => format!("{number} entries"),
        _ => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_takes_no_more_than_its_limit() {
        let mut answer = Answer::default();
        let line = "x".repeat(1_000);
        let taken = std::iter::repeat_with(|| answer.line(&line)).take_while(|taken| *taken).count();
        assert_eq!(taken, ANSWER_MAX_BYTES / 1_001);
        assert!(answer.line("short"));
        let text = answer.close(&["end".to_owned()]).text;
        assert!(text.len() <= ANSWER_MAX_BYTES + 5 && text.ends_with("short\n[end]"));
    }

    #[test]
    fn nouns_have_their_number() {
        assert_eq!(
            [count(0, "file"), count(1, "match"), count(2, "match"), count(3, "entry")],
            ["0 files", "1 match", "2 matches", "3 entries"]
        );
    }
}
