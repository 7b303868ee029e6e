//! Collects warnings about a file while it is parsed.

use posse_domain::text::{first_line, shorten};

use super::parse_options::{Mention, ParsedFile, Role, Severity, UnusedModel, WARNINGS_MAX, Warning};

/// Maximum length of a quoted text in a warning.
const QUOTED_MAX_CHARS: usize = 64;
/// Maximum length of a problem. Errors of a parser quote a text of the file whole.
const PROBLEM_MAX_CHARS: usize = 400;

/// The warnings and references found so far.
#[derive(Debug)]
pub(super) struct Notes<'a> {
    file: &'a str,
    warnings: Vec<Warning>,
    mentions: Vec<Mention>,
    unused_model: Option<UnusedModel>,
}

impl<'a> Notes<'a> {
    pub(super) fn new(file: &'a str) -> Self {
        Self { file, warnings: Vec::new(), mentions: Vec::new(), unused_model: None }
    }

    /// Adds a problem. An empty `fix` means none.
    pub(super) fn problem(&mut self, line: impl Into<Option<u64>>, problem: impl Into<String>, fix: &str) {
        self.add(Severity::Problem, line.into(), &problem.into(), fix, false);
    }

    /// Adds a problem that allows more than the author meant.
    pub(super) fn widening(&mut self, line: u64, problem: impl Into<String>, fix: &str) {
        self.add(Severity::Problem, Some(line), &problem.into(), fix, true);
    }

    /// Adds a note. An empty `fix` means none.
    pub(super) fn note(&mut self, line: impl Into<Option<u64>>, problem: impl Into<String>, fix: &str) {
        self.add(Severity::Note, line.into(), &problem.into(), fix, false);
    }

    /// Adds a note about a part of the file that applies only after the user trusts it.
    pub(super) fn untrusted(&mut self, line: u64, problem: impl Into<String>) {
        let note = self.warning(Severity::Note, Some(line), &problem.into(), "");
        self.push(Warning { needs_trust: true, ..note });
    }

    fn add(&mut self, level: Severity, line: Option<u64>, problem: &str, fix: &str, widens: bool) {
        let warning = self.warning(level, line, problem, fix);
        self.push(Warning { widens, ..warning });
    }

    fn warning(&self, level: Severity, line: Option<u64>, problem: &str, fix: &str) -> Warning {
        let problem = shorten(&without_control_characters(problem), PROBLEM_MAX_CHARS);
        let fix = (!fix.is_empty()).then(|| fix.to_owned());
        Warning { level, file: self.file.to_owned(), line, problem, fix, widens: false, needs_trust: false }
    }

    fn push(&mut self, warning: Warning) {
        // The last slot is for the reason why a file cannot be used, which is added last.
        if self.warnings.len() == WARNINGS_MAX {
            self.warnings.pop();
        }
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Records a reference to another definition or skill.
    pub(super) fn mention(&mut self, role: Role, name: &str, line: u64) {
        self.mentions.push(Mention { role, name: name.to_owned(), line: Some(line) });
    }

    /// Records a model that the file names but that is not used.
    pub(super) fn unused_model(&mut self, name: &str, why: String, is_wrong: bool) {
        let name = first_line(name, QUOTED_MAX_CHARS);
        self.unused_model = Some(UnusedModel { name, why, is_wrong });
    }

    /// The parsed file with all warnings.
    pub(super) fn loaded<T>(mut self, value: Option<T>) -> ParsedFile<T> {
        self.warnings.sort_by_key(|warning| warning.line);
        let Self { warnings, mentions, unused_model, .. } = self;
        ParsedFile { value, warnings, unused_model, mentions }
    }
}

/// Quotes a text in a warning: its first line, shortened, without control characters.
pub(super) fn quoted(text: &str) -> String {
    format!("`{}`", without_control_characters(&first_line(text, QUOTED_MAX_CHARS)))
}

/// A warning is one line on a terminal, whatever the file contains.
fn without_control_characters(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
