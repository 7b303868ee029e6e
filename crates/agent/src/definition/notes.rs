//! Collects what is odd about a file while it is read.

use posse_domain::text::first_line;

use super::parse_options::{Mention, ParsedFile, Role, Severity, UnusedModel, WARNINGS_MAX, Warning};

/// Characters of a foreign text that a warning quotes.
const QUOTED_MAX_CHARS: usize = 64;

/// What was found so far.
#[derive(Debug)]
pub(super) struct Notes<'a> {
    file: &'a str,
    warnings: Vec<Warning>,
    mentions: Vec<Mention>,
    unused_model: Option<UnusedModel>,
}

impl<'a> Notes<'a> {
    /// About the file of this name.
    pub(super) fn new(file: &'a str) -> Self {
        Self { file, warnings: Vec::new(), mentions: Vec::new(), unused_model: None }
    }

    /// Something is wrong; an empty `fix` is none.
    pub(super) fn problem(&mut self, line: impl Into<Option<u64>>, problem: impl Into<String>, fix: &str) {
        self.add(Severity::Problem, line.into(), problem.into(), fix, false);
    }

    /// Something is wrong, and because of it more is allowed than was meant.
    pub(super) fn widening(&mut self, line: u64, problem: impl Into<String>, fix: &str) {
        self.add(Severity::Problem, Some(line), problem.into(), fix, true);
    }

    /// Something is worth knowing; an empty `fix` is none.
    pub(super) fn note(&mut self, line: impl Into<Option<u64>>, problem: impl Into<String>, fix: &str) {
        self.add(Severity::Note, line.into(), problem.into(), fix, false);
    }

    fn add(&mut self, level: Severity, line: Option<u64>, problem: String, fix: &str, widens: bool) {
        let fix = (!fix.is_empty()).then(|| fix.to_owned());
        let warning = Warning { level, file: self.file.to_owned(), line, problem, fix, widens };
        // The last place is for why a file cannot be used, which comes last.
        if self.warnings.len() == WARNINGS_MAX {
            self.warnings.pop();
        }
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// The file gives the name of another.
    pub(super) fn mention(&mut self, role: Role, name: &str, line: u64) {
        self.mentions.push(Mention { role, name: name.to_owned(), line: Some(line) });
    }

    /// The file names a model that is not used.
    pub(super) fn unused_model(&mut self, name: &str, why: String, is_wrong: bool) {
        let name = first_line(name, QUOTED_MAX_CHARS);
        self.unused_model = Some(UnusedModel { name, why, is_wrong });
    }

    /// What came of the file.
    pub(super) fn loaded<T>(mut self, value: Option<T>) -> ParsedFile<T> {
        self.warnings.sort_by_key(|warning| warning.line);
        let Self { warnings, mentions, unused_model, .. } = self;
        ParsedFile { value, warnings, unused_model, mentions }
    }
}

/// A foreign text as a warning quotes it: one line, not too long, nothing that moves a cursor.
pub(super) fn quoted(text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect();
    format!("`{}`", first_line(&plain, QUOTED_MAX_CHARS))
}
